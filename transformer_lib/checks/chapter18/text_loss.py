"""The exercise `text_loss`: what it asks for, and how its answers go wrong."""

from __future__ import annotations

import math
import operator

import torch
from torch import Tensor

from transformer_lib.checks.chapter18 import windows
from transformer_lib.checks.old.core import Case, Exercise
from transformer_lib.checks.old.inputs import random_tensor


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


_IDS = torch.tensor([3, 1, 4, 1, 5, 2, 6, 5, 3, 5, 0, 2, 3, 2, 3, 4, 6, 2, 6, 4, 3, 3, 1, 2])

TEXT_LOSS = Exercise(
    name="text_loss",
    reference=windows.text_loss,
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
            windows.wrong(counts=lambda each, known, stride: each, finish=finish)
            for finish in (windows.mean, windows.by_all)
        ],
        "in a window that is shorter the last `stride` answers count, some of them for the second "
        "time: count those that were no answers before": [
            windows.wrong(counts=windows.last_few, finish=finish)
            for finish in (windows.mean, windows.by_all)
        ],
        "windows go on after the last letter has been asked for, and letters count again: stop "
        "there": [
            windows.to_the_end(counts, finish)
            for finish in (windows.mean, windows.by_all)
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
            windows.side_by_side,
        ],
        "each window begins one letter later, whatever `stride` is": [windows.letter_by_letter],
        "the last window is left out, because it is shorter": [
            windows.wrong(leaves_out=lambda short, before: short),
            windows.wrong(leaves_out=lambda short, before: short and before > 0),
            windows.wrong(
                leaves_out=lambda short, before: short and before > 0, finish=windows.by_all
            ),
        ],
        "each window's mean counts the same, however few letters are new in it": [
            windows.wrong(finish=windows.mean_of_means),
        ],
        "the means of the windows are added up: with the number of answers below the line, the "
        "losses themselves belong above it": [
            windows.wrong(finish=windows.sum_of_means),
            windows.wrong(counts=lambda each, known, stride: each, finish=windows.sum_of_means),
        ],
        "all answers of a window are added to `counted`, those of an earlier one too: what has "
        "been asked for ends at the start plus the number of answers": [
            *map(windows.every_label, (operator.eq, operator.ge))
        ],
        "the answers are not shifted: the model is asked for the letter that it has read": [
            windows.wrong(labels_of=lambda reads, labels: reads),
        ],
        "the answers are shifted the wrong way: the model is asked for the letter before": [
            windows.wrong(labels_of=windows.previous),
        ],
        "in the first window the letters before the last `stride` are not counted": [
            windows.wrong(
                counts=lambda each, known, stride: each[max(known, len(each) - stride) :]
            ),
            *map(windows.behind_the_overlap, (windows.mean, windows.by_all)),
        ],
        "each window counts its last `stride` answers: the first window has more that are new, and "
        "a short one fewer": [
            windows.wrong(counts=lambda each, known, stride: each[-stride:], finish=finish)
            for finish in (windows.mean, windows.by_all)
        ],
        "the model reads the new letters only: a window reads the ones before them again, and "
        "counts none of these": [
            windows.wrong(
                reads_of=lambda reads, known: reads[known:], counts=lambda each, known, stride: each
            ),
        ],
        "one letter too many is taken for counted in each window after the first": [
            windows.one_late(windows.mean),
            windows.one_late(windows.by_all),
        ],
        "a letter counts in the last window that has it, where it has the least past: it counts "
        "in the first": windows.in_the_last,
        "a window reads `length` - 1 letters: it reads `length`, and the last answer stands one "
        "behind": [
            windows.one_short,
            lambda model, ids, length, stride: windows.loss(model, ids, length - 1, stride),
        ],
        "the first place of every window is left out: it is a question, too": [
            windows.wrong(counts=lambda each, known, stride: each[max(known, 1) :]),
        ],
        "the softmax is applied twice: `F.cross_entropy` takes logits": [
            lambda model, ids, length, stride: windows.loss(
                lambda reads: model(reads).softmax(-1), ids, length, stride
            ),
        ],
        "the losses are added up, and not averaged": [
            windows.wrong(finish=lambda parts, ids: float(torch.cat(parts).sum())),
        ],
        "the sum is divided by the number of letters: the first letter is no answer, so there is "
        "one less": [
            windows.wrong(finish=lambda parts, ids: float(torch.cat(parts).sum()) / len(ids)),
        ],
        "the sign is missing: a loss is the negative logarithm of a probability": [
            windows.wrong(finish=lambda parts, ids: -float(torch.cat(parts).mean())),
        ],
        "the result is in bits, and not in nats": [
            windows.wrong(finish=lambda parts, ids: float(torch.cat(parts).mean()) / math.log(2)),
        ],
        "the result is a perplexity, and not a loss": [
            windows.wrong(finish=lambda parts, ids: math.exp(float(torch.cat(parts).mean()))),
        ],
        "the new letters' places are taken from the front of a window: what is new stands at its "
        "end": [
            windows.wrong(counts=lambda each, known, stride: each[: len(each) - known]),
        ],
    },
    section="How many questions are in one window?",
)
