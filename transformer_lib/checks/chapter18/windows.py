"""Ways to go through a long text in windows: the right one and wrong ones."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor

Model = Callable[[Tensor], Tensor]


def surprise(model: Model, reads: Tensor, labels: Tensor) -> Tensor:
    log_probs = model(reads[None])[0].log_softmax(-1)
    return -log_probs.gather(-1, labels[:, None])[:, 0]


def windows(ids: Tensor, length: int, stride: int) -> Iterator[tuple[int, Tensor, Tensor, int]]:
    """Where it begins, letters to read, the answers, and how many of these were there before."""
    counted = 0
    for start in range(0, len(ids) - 1, stride):
        if counted >= len(ids) - 1:
            return
        reads = ids[start : start + length]
        labels = ids[start + 1 : start + length + 1]
        yield start, reads[: len(labels)], labels, counted - start
        counted = start + len(labels)


def mean(parts: list[Tensor], ids: Tensor) -> float:
    return float(torch.cat(parts).mean())


def text_loss(model: Model, ids: Tensor, length: int, stride: int) -> float:
    return loss(model, ids, length, stride)


def loss(
    model: Model,
    ids: Tensor,
    length: int,
    stride: int,
    *,
    counts: Callable[[Tensor, int, int], Tensor] = lambda each, known, stride: each[known:],
    labels_of: Callable[[Tensor, Tensor], Tensor] = lambda reads, labels: labels,
    reads_of: Callable[[Tensor, int], Tensor] = lambda reads, known: reads,
    leaves_out: Callable[[bool, int], bool] = lambda short, before: False,
    finish: Callable[[list[Tensor], Tensor], float] = mean,
) -> float:
    parts = []
    for _, reads, labels, known in windows(ids, length, stride):
        if leaves_out(len(labels) < length, len(parts)):
            continue
        seen = reads_of(reads, known)
        answers = labels_of(reads, labels)[len(reads) - len(seen) :]
        parts.append(counts(surprise(model, seen, answers), known, stride))
    return finish(parts, ids)


def wrong(**part: Any) -> Callable[..., float]:
    return lambda model, ids, length, stride: loss(model, ids, length, stride, **part)


def last_few(each: Tensor, known: int, stride: int) -> Tensor:
    return each[-stride:] if known else each


def to_the_end(
    counts: Callable[[Tensor, int, int, int], Tensor],
    finish: Callable[[list[Tensor], Tensor], float] = mean,
) -> Callable[..., float]:
    """A window begins at each multiple of `stride`, as long as there is something to ask.

    `counts` gets the losses of a window, how many of them are new, `length` and `stride`.
    """

    def answer(model: Model, ids: Tensor, length: int, stride: int) -> float:
        parts, asked = [], 0
        for start in range(0, len(ids) - 1, stride):
            labels = ids[start + 1 : start + length + 1]
            each = surprise(model, ids[start : start + len(labels)], labels)
            parts.append(counts(each, start + len(each) - asked, length, stride))
            asked = start + len(each)
        return finish(parts, ids)

    return answer


def mean_of_means(parts: list[Tensor], ids: Tensor) -> float:
    return float(torch.stack([part.mean() for part in parts if len(part)]).mean())


def by_all(parts: list[Tensor], ids: Tensor) -> float:
    """The sum divided by the number of answers, however many are counted."""
    return float(torch.cat(parts).sum()) / (len(ids) - 1)


def one_late(finish: Callable[[list[Tensor], Tensor], float]) -> Callable[..., float]:
    """In each later window one new answer is left out."""

    def answer(model: Model, ids: Tensor, length: int, stride: int) -> float:
        parts = []
        for start, reads, labels, known in windows(ids, length, stride):
            parts.append(surprise(model, reads, labels)[known + (start > 0) :])
        return finish(parts, ids)

    return answer


def behind_the_overlap(finish: Callable[[list[Tensor], Tensor], float]) -> Callable[..., float]:
    """In the first window too, what the next one would read again is left out."""
    return lambda model, ids, length, stride: loss(
        model,
        ids,
        length,
        stride,
        counts=lambda each, known, stride: each[length - stride :],
        finish=finish,
    )


def in_the_last(model: Model, ids: Tensor, length: int, stride: int) -> float:
    """A letter counts in the last window that has it."""
    found = torch.zeros(len(ids) - 1)
    for start, reads, labels, _ in windows(ids, length, stride):
        found[start : start + len(labels)] = surprise(model, reads, labels)
    return float(found.mean())


def one_short(model: Model, ids: Tensor, length: int, stride: int) -> float:
    """Each window reads one letter less."""
    total, counted = 0.0, 1
    for start, reads, labels, known in windows(ids, length - 1, stride):
        total += float(surprise(model, reads, labels)[known:].sum())
        counted = start + len(labels)
    return total / counted


def side_by_side(model: Model, ids: Tensor, length: int, stride: int) -> float:
    return loss(model, ids, length, length)


def letter_by_letter(model: Model, ids: Tensor, length: int, stride: int) -> float:
    return loss(model, ids, length, 1)


def previous(reads: Tensor, labels: Tensor) -> Tensor:
    return torch.cat([reads[:1], reads[:-1]])


def every_label(
    ends: Callable[[int, int], bool],
) -> Callable[[Model, Tensor, int, int], float]:
    """All answers of a window are taken for counted, and not those up to its end."""

    def answer(model: Model, ids: Tensor, length: int, stride: int) -> float:
        total, counted = 0.0, 0
        for start in range(0, len(ids) - 1, stride):
            labels = ids[start + 1 : start + length + 1]
            each = surprise(model, ids[start : start + len(labels)], labels)
            total += float(each[counted - start :].sum())
            counted += len(labels)
            if ends(counted, len(ids) - 1):
                break
        return total / counted

    return answer


def sum_of_means(parts: list[Tensor], ids: Tensor) -> float:
    return float(torch.stack([part.mean() for part in parts]).sum()) / (len(ids) - 1)
