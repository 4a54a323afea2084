"""The exercise `three_tensors`: what it asks for, and how its answers go wrong."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from transformer_lib.checks.core import Case, Exercise
from transformer_lib.checks.ids import whole_ids

PAD, BOS, EOS = 0, 1, 2
Rows = list[list[int]]


def _filled(rows: Rows, value: int = PAD, longest: int = 0, *, left: bool = False) -> Tensor:
    longest = max([longest, *map(len, rows)])
    gaps = [[value] * (longest - len(row)) for row in rows]
    return torch.tensor([g + r if left else r + g for r, g in zip(rows, gaps, strict=True)])


def _three_tensors(source_ids: Rows, target_ids: Rows) -> tuple[Tensor, Tensor, Tensor]:
    return (
        _filled(source_ids),
        _filled([[BOS, *row] for row in target_ids]),
        _filled([[*row, EOS] for row in target_ids]),
    )


def _wrong(
    source: Callable[[list[int]], list[int]] = lambda row: row,
    reads: Callable[[list[int]], list[int]] = lambda row: [BOS, *row],
    says: Callable[[list[int]], list[int]] = lambda row: [*row, EOS],
    **how: Any,
) -> Callable[..., tuple[Tensor, ...]]:
    """Rows made in another way; `how` they are filled up."""

    def three_tensors(source_ids: Rows, target_ids: Rows) -> tuple[Tensor, ...]:
        return (
            _filled([source(row) for row in source_ids], **how),
            _filled([reads(row) for row in target_ids], **how),
            _filled([says(row) for row in target_ids], **how),
        )

    return three_tensors


def _from_one(whole: Callable[[Tensor], tuple[Tensor, Tensor]]) -> Callable[..., Any]:
    """Input and labels cut from one padded tensor of `<bos>`, the target, `<eos>`."""

    def three_tensors(source_ids: Rows, target_ids: Rows) -> tuple[Tensor, ...]:
        return _filled(source_ids), *whole(_filled([[BOS, *row, EOS] for row in target_ids]))

    return three_tensors


def _end_behind_padding(source_ids: Rows, target_ids: Rows) -> tuple[Tensor, ...]:
    target = _filled(target_ids)
    column = target.new_ones(len(target), 1)
    reads = torch.cat([BOS * column, target], 1)
    return _filled(source_ids), reads, torch.cat([target, EOS * column], 1)


def _one_width(source_ids: Rows, target_ids: Rows) -> tuple[Tensor, ...]:
    longest = max(len(row) + 1 for row in target_ids)
    longest = max([longest, *map(len, source_ids)])
    return (
        _filled(source_ids, longest=longest),
        _filled([[BOS, *row] for row in target_ids], longest=longest),
        _filled([[*row, EOS] for row in target_ids], longest=longest),
    )


def _of_the_first_row(source_ids: Rows, target_ids: Rows) -> tuple[Tensor, ...]:
    return _three_tensors(source_ids[:1], target_ids[:1])


def _cut_to_the_shortest(rows: Rows) -> Rows:
    return [row[: min(map(len, rows))] for row in rows]


def _nothing_filled_up(source_ids: Rows, target_ids: Rows) -> tuple[Tensor, ...]:
    """As `zip` cuts them."""
    source, reads, says = (
        source_ids,
        [[BOS, *row] for row in target_ids],
        [[*row, EOS] for row in target_ids],
    )
    return tuple(torch.tensor(_cut_to_the_shortest(rows)) for rows in (source, reads, says))


def _as_they_are(rows: Rows) -> Tensor:
    return torch.tensor(rows)


def _up_to_the_first(rows: Rows) -> Tensor:
    return torch.tensor([row + [PAD] * (len(rows[0]) - len(row)) for row in rows])


def _made(fill: Callable[[Rows], Tensor], *, target_first: bool = False) -> Callable[..., Any]:
    """`fill` fails where rows differ in length, in the first tensor that is made."""

    def three_tensors(source_ids: Rows, target_ids: Rows) -> tuple[Tensor, ...]:
        if target_first:
            fill([[BOS, *row] for row in target_ids])
        source, reads = fill(source_ids), fill([[BOS, *row] for row in target_ids])
        return source, reads, fill([[*row, EOS] for row in target_ids])

    return three_tensors


def _columns(source_ids: Rows, target_ids: Rows) -> tuple[Tensor, ...]:
    return tuple(tensor.T for tensor in _three_tensors(source_ids, target_ids))


def _floats(source_ids: Rows, target_ids: Rows) -> tuple[Tensor, ...]:
    return tuple(tensor.float() for tensor in _three_tensors(source_ids, target_ids))


def _read(answer: Callable[..., Any], /, source_ids: Rows, target_ids: Rows) -> Any:
    result = answer(source_ids, target_ids)
    for tensor in result if isinstance(result, tuple | list) else ():
        whole_ids(tensor)
    return result


def _in_another_order(source_ids: Rows, target_ids: Rows) -> tuple[Tensor, ...]:
    source, reads, says = _three_tensors(source_ids, target_ids)
    return source, says, reads


def _from_the_source(source_ids: Rows, target_ids: Rows) -> tuple[Tensor, ...]:
    return _three_tensors(target_ids, source_ids)


THREE_TENSORS = Exercise(
    name="three_tensors",
    reference=_three_tensors,
    cases=[
        Case("one pair", [[5, 6]], [[7, 8, 9]]),
        Case("a target of one id", [[5, 6, 7]], [[4]]),
        Case("two pairs as long as each other", [[5, 6], [7, 8]], [[4, 3, 9], [9, 4, 5]]),
        Case("the second pair is shorter", [[5, 6, 7], [8]], [[7, 8, 9, 3], [4, 6]]),
        Case("the first target is shorter", [[5, 6, 3], [8], [9, 4]], [[7], [4, 6, 5], [3, 8]]),
    ],
    mistakes={
        "the shift is missing: the decoder reads the very letters that it must say": [
            _wrong(reads=lambda row: row, says=lambda row: row),
            _wrong(reads=lambda row: [*row, EOS]),
            _wrong(reads=lambda row: [BOS, *row], says=lambda row: [BOS, *row]),
            _wrong(reads=lambda row: [BOS, *row, EOS], says=lambda row: [BOS, *row, EOS]),
        ],
        "<eos> is missing in the labels: that the text ends is the last thing to be said": [
            _wrong(says=lambda row: row),
            _wrong(says=lambda row: [*row, PAD]),
        ],
        "what the decoder reads lacks the last id of the target: only <eos> is left out there": [
            _wrong(reads=lambda row: [BOS, *row[:-1]]),
        ],
        "the labels lack the first id of the target: it is the first thing to say": [
            _wrong(says=lambda row: [*row[1:], EOS]),
        ],
        "the target is cut as if <bos> and <eos> were in it: you have to put them in": [
            _wrong(reads=lambda row: row[:-1], says=lambda row: row[1:]),
        ],
        "the decoder reads <eos>: after it there is nothing more to say, and nothing to read": [
            _wrong(reads=lambda row: [BOS, *row, EOS]),
            _wrong(reads=lambda row: [BOS, *row, EOS], says=lambda row: [*row, EOS, PAD]),
        ],
        "<bos> is among the labels: the first thing to say is the first id of the target": [
            _wrong(says=lambda row: [BOS, *row, EOS]),
            _wrong(reads=lambda row: [BOS, *row, PAD], says=lambda row: [BOS, *row, EOS]),
        ],
        "<bos> is missing: the decoder has nothing to read when it is to say the first id": [
            _wrong(reads=lambda row: row),
            _wrong(reads=lambda row: row, says=lambda row: [*row[1:], EOS]),
            _wrong(reads=lambda row: [PAD, *row]),
        ],
        "the last column is cut off after padding: rows that were filled up keep the <eos> that "
        "the decoder should not read": [
            _from_one(lambda whole: (whole[:, :-1], whole[:, 1:])),
        ],
        "the labels are rolled and not shifted: what falls out at one end comes in at the other": [
            _from_one(lambda whole: (whole, whole.roll(-1, 1))),
            _wrong(says=lambda row: [*row, BOS]),
        ],
        "<eos> stands behind the padding: it goes right after the last id of its own row": [
            _end_behind_padding,
        ],
        "the shift goes the wrong way: labels are behind what is read, not ahead of it": [
            _in_another_order,
            _wrong(reads=lambda row: [*row, EOS], says=lambda row: [PAD, *row]),
        ],
        "the padding stands in front: rows are filled up at the end": _wrong(left=True),
        "rows are filled up with <eos>: that would be many more ends to say": _wrong(value=EOS),
        "rows are filled up with <bos>, and <pad> is 0": _wrong(value=BOS),
        "rows are filled up with -100, which only PyTorch's own default ignores: <pad> is 0": [
            _wrong(value=-100),
        ],
        "rows are not filled up: those of one tensor must be equally long": [
            _made(_as_they_are),
            _made(_as_they_are, target_first=True),
        ],
        "rows are filled up to the length of the first one, and others are longer": [
            _made(_up_to_the_first),
            _made(_up_to_the_first, target_first=True),
        ],
        "each pair is a column, and must be a row: `pad_sequence` makes rows with "
        "batch_first=True": [
            _columns,
        ],
        "rows are cut to the shortest: they are filled up to the longest": [_nothing_filled_up],
        "the tensors are made without a dtype, as by torch.zeros, and that makes floats": [_floats],
        "a tensor is missing: source, what the decoder reads, and what it must say": [
            lambda s, t: _three_tensors(s, t)[:2],
            lambda s, t: _three_tensors(s, t)[1:],
        ],
        "only the first pair is there": _of_the_first_row,
        "the source gets <bos>, <eos> or both: here only the target needs them": [
            _wrong(source=lambda row: [BOS, *row, EOS]),
            _wrong(source=lambda row: [*row, EOS]),
            _wrong(source=lambda row: [BOS, *row]),
        ],
        "<bos> and <eos> have changed places: 1 begins and 2 ends": [
            _wrong(reads=lambda row: [EOS, *row], says=lambda row: [*row, BOS]),
        ],
        "source and target have changed places": _from_the_source,
        "source and target are filled up to one common length: each needs only its own": [
            _one_width,
        ],
    },
    use=_read,
    section="How many questions are in one pair?",
)
