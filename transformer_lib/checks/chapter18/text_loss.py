"""The exercise `text_loss`: what it asks for, and how its answers go wrong."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor

from transformer_lib.checks.core import Case, Exercise
from transformer_lib.checks.inputs import random_tensor


class Reader:
    """Stands in for a model: ids (B, T) to logits (B, T, vocab_size), from all that was read.

    What was read last counts most. At most `max_len` letters are read at once.
    """

    def __init__(self, vocab_size: int = 7, max_len: int = 8) -> None:
        self.max_len = max_len
        self.table = 1.5 * random_tensor(vocab_size, vocab_size, seed=11)

    def __call__(self, ids: Tensor) -> Tensor:
        if ids.dim() != 2:
            raise ValueError(f"the model takes ids of shape (B, T), got {tuple(ids.shape)}")
        if not 1 <= ids.size(1) <= self.max_len:
            raise ValueError(
                f"the model reads 1 to {self.max_len} letters at once, got {ids.size(1)}"
            )
        read, logits = torch.zeros_like(self.table[ids[:, 0]]), []
        for letters in ids.T:
            read = 0.6 * read + self.table[letters]
            logits.append(read)
        return torch.stack(logits, 1)

    def __repr__(self) -> str:
        return f"transformer_lib.checks.chapter18.Reader(max_len={self.max_len})"


Model = Callable[[Tensor], Tensor]


def _surprise(model: Model, reads: Tensor, labels: Tensor) -> Tensor:
    log_probs = model(reads[None])[0].log_softmax(-1)
    return -log_probs.gather(-1, labels[:, None])[:, 0]


def _windows(ids: Tensor, length: int, stride: int) -> Iterator[tuple[int, Tensor, Tensor, int]]:
    """Where it begins, letters to read, the answers, and how many of these were there before."""
    counted = 0
    for start in range(0, len(ids) - 1, stride):
        if counted >= len(ids) - 1:
            return
        reads = ids[start : start + length]
        labels = ids[start + 1 : start + length + 1]
        yield start, reads[: len(labels)], labels, counted - start
        counted = start + len(labels)


def _mean(parts: list[Tensor], ids: Tensor) -> float:
    return float(torch.cat(parts).mean())


def _text_loss(model: Model, ids: Tensor, length: int, stride: int) -> float:
    return _loss(model, ids, length, stride)


def _loss(
    model: Model,
    ids: Tensor,
    length: int,
    stride: int,
    *,
    counts: Callable[[Tensor, int, int], Tensor] = lambda each, known, stride: each[known:],
    labels_of: Callable[[Tensor, Tensor], Tensor] = lambda reads, labels: labels,
    reads_of: Callable[[Tensor, int], Tensor] = lambda reads, known: reads,
    leaves_out: Callable[[bool, int], bool] = lambda short, windows: False,
    finish: Callable[[list[Tensor], Tensor], float] = _mean,
) -> float:
    parts = []
    for _, reads, labels, known in _windows(ids, length, stride):
        if leaves_out(len(labels) < length, len(parts)):
            continue
        seen = reads_of(reads, known)
        answers = labels_of(reads, labels)[len(reads) - len(seen) :]
        parts.append(counts(_surprise(model, seen, answers), known, stride))
    return finish(parts, ids)


def _wrong(**part: Any) -> Callable[..., float]:
    return lambda model, ids, length, stride: _loss(model, ids, length, stride, **part)


def _last_few(each: Tensor, known: int, stride: int) -> Tensor:
    return each[-stride:] if known else each


def _to_the_end(
    counts: Callable[[Tensor, int, int, int], Tensor],
    finish: Callable[[list[Tensor], Tensor], float] = _mean,
) -> Callable[..., float]:
    """A window begins at each multiple of `stride`, as long as there is something to ask.

    `counts` gets the losses of a window, how many of them are new, `length` and `stride`.
    """

    def answer(model: Model, ids: Tensor, length: int, stride: int) -> float:
        parts, asked = [], 0
        for start in range(0, len(ids) - 1, stride):
            labels = ids[start + 1 : start + length + 1]
            each = _surprise(model, ids[start : start + len(labels)], labels)
            parts.append(counts(each, start + len(each) - asked, length, stride))
            asked = start + len(each)
        return finish(parts, ids)

    return answer


def _mean_of_means(parts: list[Tensor], ids: Tensor) -> float:
    return float(torch.stack([part.mean() for part in parts if len(part)]).mean())


def _by_all(parts: list[Tensor], ids: Tensor) -> float:
    """The sum divided by the number of answers, however many are counted."""
    return float(torch.cat(parts).sum()) / (len(ids) - 1)


def _one_late(finish: Callable[[list[Tensor], Tensor], float]) -> Callable[..., float]:
    """In each later window one new answer is left out."""

    def answer(model: Model, ids: Tensor, length: int, stride: int) -> float:
        parts = []
        for start, reads, labels, known in _windows(ids, length, stride):
            parts.append(_surprise(model, reads, labels)[known + (start > 0) :])
        return finish(parts, ids)

    return answer


def _behind_the_overlap(finish: Callable[[list[Tensor], Tensor], float]) -> Callable[..., float]:
    """In the first window too, what the next one would read again is left out."""
    return lambda model, ids, length, stride: _loss(
        model,
        ids,
        length,
        stride,
        counts=lambda each, known, stride: each[length - stride :],
        finish=finish,
    )


def _in_the_last(model: Model, ids: Tensor, length: int, stride: int) -> float:
    """A letter counts in the last window that has it."""
    found = torch.zeros(len(ids) - 1)
    for start, reads, labels, _ in _windows(ids, length, stride):
        found[start : start + len(labels)] = _surprise(model, reads, labels)
    return float(found.mean())


def _one_short(model: Model, ids: Tensor, length: int, stride: int) -> float:
    """Each window reads one letter less."""
    total, counted = 0.0, 1
    for start, reads, labels, known in _windows(ids, length - 1, stride):
        total += float(_surprise(model, reads, labels)[known:].sum())
        counted = start + len(labels)
    return total / counted


def _side_by_side(model: Model, ids: Tensor, length: int, stride: int) -> float:
    return _loss(model, ids, length, length)


def _letter_by_letter(model: Model, ids: Tensor, length: int, stride: int) -> float:
    return _loss(model, ids, length, 1)


def _previous(reads: Tensor, labels: Tensor) -> Tensor:
    return torch.cat([reads[:1], reads[:-1]])


_IDS = torch.tensor([3, 1, 4, 1, 5, 2, 6, 5, 3, 5, 0, 2, 3, 2, 3, 4, 6, 2, 6, 4, 3, 3, 1, 2])

TEXT_LOSS = Exercise(
    name="text_loss",
    reference=_text_loss,
    cases=[
        Case("one window", Reader(), _IDS[:6], 8, 4),
        Case("one whole window", Reader(), _IDS[:9], 8, 8),
        Case("two windows side by side", Reader(), _IDS[:9], 4, 4),
        Case("two windows that overlap by half", Reader(), _IDS[:7], 4, 2),
        Case("the last window is shorter", Reader(), _IDS[:12], 8, 4),
        Case("many windows", Reader(), _IDS, 8, 3),
        Case("each window one letter later", Reader(), _IDS[:13], 5, 1),
    ],
    mistakes={
        "letters that several windows read are counted several times": [
            _wrong(counts=lambda each, known, stride: each, finish=finish)
            for finish in (_mean, _by_all)
        ],
        "in a window that is shorter the last `stride` answers count, some of them for the second "
        "time: count those that were no answers before": [
            _wrong(counts=_last_few, finish=finish) for finish in (_mean, _by_all)
        ],
        "windows go on after the last letter has been asked for, and letters count again: stop "
        "there": [
            _to_the_end(counts, finish)
            for finish in (_mean, _by_all)
            for counts in (
                lambda each, new, length, stride: each,
                # Where nothing is new, `[-0:]` is everything.
                lambda each, new, length, stride: each[-new:],
                lambda each, new, length, stride: each if new == len(each) else each[-stride:],
                lambda each, new, length, stride: (
                    each
                    if new == len(each) or len(each) <= length - stride
                    else each[length - stride :]
                ),
            )
        ],
        "the windows do not overlap: the next one begins `stride` letters later, not `length`": [
            _side_by_side,
        ],
        "each window begins one letter later, whatever `stride` is": [_letter_by_letter],
        "the last window is left out, because it is shorter": [
            _wrong(leaves_out=lambda short, windows: short),
            _wrong(leaves_out=lambda short, windows: short and windows > 0),
            _wrong(leaves_out=lambda short, windows: short and windows > 0, finish=_by_all),
        ],
        "each window's mean counts the same, however few letters are new in it": [
            _wrong(finish=_mean_of_means),
        ],
        "the answers are not shifted: the model is asked for the letter that it has read": [
            _wrong(labels_of=lambda reads, labels: reads),
        ],
        "the answers are shifted the wrong way: the model is asked for the letter before": [
            _wrong(labels_of=_previous),
        ],
        "in the first window the letters before the last `stride` are not counted": [
            _wrong(counts=lambda each, known, stride: each[max(known, len(each) - stride) :]),
            *map(_behind_the_overlap, (_mean, _by_all)),
        ],
        "each window counts its last `stride` answers: the first window has more that are new, and "
        "a short one fewer": [
            _wrong(counts=lambda each, known, stride: each[-stride:], finish=finish)
            for finish in (_mean, _by_all)
        ],
        "the model reads the new letters only: a window reads the ones before them again, and "
        "counts none of these": [
            _wrong(
                reads_of=lambda reads, known: reads[known:], counts=lambda each, known, stride: each
            ),
        ],
        "one letter too many is taken for counted in each window after the first": [
            _one_late(_mean),
            _one_late(_by_all),
        ],
        "a letter counts in the last window that has it, where it has the least past: it counts "
        "in the first": _in_the_last,
        "a window reads `length` - 1 letters: it reads `length`, and the last answer stands one "
        "behind": [
            _one_short,
            lambda model, ids, length, stride: _loss(model, ids, length - 1, stride),
        ],
        "the first place of every window is left out: it is a question, too": [
            _wrong(counts=lambda each, known, stride: each[max(known, 1) :]),
        ],
        "the softmax is applied twice: `F.cross_entropy` takes logits": [
            lambda model, ids, length, stride: _loss(
                lambda reads: model(reads).softmax(-1), ids, length, stride
            ),
        ],
        "the losses are added up, and not averaged": [
            _wrong(finish=lambda parts, ids: float(torch.cat(parts).sum())),
        ],
        "the sum is divided by the number of letters: the first letter is no answer, so there is "
        "one less": [
            _wrong(finish=lambda parts, ids: float(torch.cat(parts).sum()) / len(ids)),
        ],
        "the sign is missing: a loss is the negative logarithm of a probability": [
            _wrong(finish=lambda parts, ids: -float(torch.cat(parts).mean())),
        ],
        "the result is in bits, and not in nats": [
            _wrong(finish=lambda parts, ids: float(torch.cat(parts).mean()) / math.log(2)),
        ],
        "the result is a perplexity, and not a loss": [
            _wrong(finish=lambda parts, ids: math.exp(float(torch.cat(parts).mean()))),
        ],
        "the new letters' places are taken from the front of a window: what is new stands at its "
        "end": [
            _wrong(counts=lambda each, known, stride: each[: len(each) - known]),
        ],
    },
    section="How many questions are in one window?",
)
