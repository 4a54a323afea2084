"""The exercise `shift_right`: what it asks for, and how its answers go wrong."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from transformer_lib.checks.old.core import Case, Exercise
from transformer_lib.checks.old.ids import whole_ids

PAD, BOS, EOS = 0, 1, 2


def _read(answer: Callable[[Tensor], Any], /, labels: Tensor) -> Any:
    return whole_ids(answer(labels))


def _begin(labels: Tensor, value: int = BOS) -> Tensor:
    return torch.full_like(labels[:, :1], value)


def _moved(labels: Tensor, value: int = BOS) -> Tensor:
    return torch.cat([_begin(labels, value), labels[:, :-1]], 1)


def _without_end(ids: Tensor, filler: int = PAD) -> Tensor:
    return ids.masked_fill(ids == EOS, filler)


def _shift_right(labels: Tensor) -> Tensor:
    return _without_end(_moved(labels))


def _one_longer(labels: Tensor) -> Tensor:
    return torch.cat([_begin(labels), labels], 1)


def _left(labels: Tensor, filler: int = PAD) -> Tensor:
    return torch.cat([labels[:, 1:], _begin(labels, filler)], 1)


def _rolled(labels: Tensor) -> Tensor:
    return labels.roll(1, 1)


def _begin_written_over(labels: Tensor) -> Tensor:
    reads = labels.clone()
    reads[:, 0] = BOS
    return reads


def _along_the_batch(labels: Tensor) -> Tensor:
    return torch.cat([torch.full_like(labels[:1], BOS), labels[:-1]], 0)


def _both(change: Callable[[Tensor], Tensor]) -> list[Callable[[Tensor], Tensor]]:
    """An answer with `<eos>` wiped out and with it left in."""
    return [lambda labels: _without_end(change(labels)), change]


def _twice(labels: Tensor) -> Tensor:
    return _moved(_moved(labels))


def _twice_with_padding(labels: Tensor) -> Tensor:
    return _moved(_moved(labels), PAD)


def _floats(labels: Tensor) -> Tensor:
    """`torch.ones(B, 1)` without a dtype, and `cat` makes floats of everything."""
    return _shift_right(labels).float()


def _begin_before_padding(labels: Tensor) -> Tensor:
    """As if the padding stood in front."""
    return torch.where(labels == PAD, BOS, _moved(labels))


def _last_column_wiped(labels: Tensor) -> Tensor:
    reads = _moved(labels)
    reads[:, -1] = torch.where(reads[:, -1] == EOS, PAD, reads[:, -1])
    return reads


SHIFT_RIGHT = Exercise(
    name="shift_right",
    reference=_shift_right,
    cases=[
        Case("one row", torch.tensor([[7, 8, 9, EOS]])),
        Case("a target of nothing but <eos>", torch.tensor([[EOS]])),
        Case("two rows as long as each other", torch.tensor([[7, 5, EOS], [9, 6, EOS]])),
        Case("the second row is shorter", torch.tensor([[7, 8, 9, 4, EOS], [6, 5, EOS, 0, 0]])),
        Case(
            "rows of many lengths",
            torch.tensor([[5, 2, 0, 0, 0, 0], [6, 7, 3, 9, 4, 2], [2, 0, 0, 0, 0, 0]]),
        ),
    ],
    mistakes={
        "torch.ones without a dtype makes floats, and everything beside it too: ids are whole "
        "numbers, and an embedding takes nothing else": [
            _floats,
            lambda labels: _moved(labels).float(),
        ],
        "<eos> is looked for in `labels` and wiped there: after the shift it stands one place "
        "further": [lambda labels: _moved(labels).masked_fill(labels == EOS, PAD)],
        "<eos> is still read in rows that had room behind it: the exercise wants it nowhere": [
            _moved,
            _last_column_wiped,
        ],
        "the mask is the wrong way round: all but <eos> becomes <pad>": [
            lambda labels: _moved(labels).masked_fill(_moved(labels) != EOS, PAD),
        ],
        "the row moved to the left: what is read must be behind what must be said, not ahead": [
            *_both(_left),
            lambda labels: _left(labels, EOS),
            lambda labels: _left(labels, BOS),
            *_both(lambda labels: labels.roll(-1, 1)),
            *_both(lambda labels: labels[:, 1:]),
            *_both(lambda labels: torch.cat([_begin(labels), labels[:, 2:]], 1)),
            *_both(lambda labels: _begin_written_over(_left(labels))),
        ],
        "the row is rolled: what falls off on the right comes in on the left, and the decoder "
        "begins with <eos> or <pad>": _rolled,
        "nothing was shifted: the decoder reads the very token that it must say": [
            lambda labels: labels.clone(),
            _without_end,
        ],
        "<bos> was written over the first token of the target instead of put before it: nothing "
        "moved": _both(_begin_written_over),
        "<bos> came in, and nothing fell off: the result is one place longer than the labels": [
            *_both(_one_longer)
        ],
        "the first place is <pad>: the decoder begins with <bos>, 1": [
            *_both(lambda labels: _moved(labels, PAD))
        ],
        "the first place is <eos>: the decoder begins with <bos>, 1": [
            lambda labels: _moved(labels, EOS),
            lambda labels: torch.cat([_begin(labels, EOS), _without_end(labels)[:, :-1]], 1),
        ],
        "<bos> is missing: the last place was cut off and nothing put in front": [
            *_both(lambda labels: labels[:, :-1])
        ],
        "the rows have moved down, not to the right: places are along dimension 1": [
            *_both(_along_the_batch)
        ],
        "it is shifted twice: each place must say the next token but one": [
            *_both(_twice),
            *_both(_twice_with_padding),
        ],
        "<eos> was replaced by -100, which no table of vectors has a row for: <pad> is 0": [
            lambda labels: _without_end(_moved(labels), -100),
        ],
        "<eos> was replaced by <bos>: behind the end there is only <pad>": [
            lambda labels: _without_end(_moved(labels), BOS),
            _begin_before_padding,
        ],
    },
    use=_read,
    section="What does one batch look like?",
)
