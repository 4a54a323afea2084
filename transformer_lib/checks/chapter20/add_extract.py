"""The exercise `add_extract`: what it asks for, and how its answers go wrong."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from transformer_lib.checks.old.core import Case, Exercise
from transformer_lib.checks.old.ids import whole_ids


def _longer(answer: Callable[..., Any], /, ids: Tensor, extract: int) -> Any:
    return whole_ids(answer(ids, extract))


def _wider(ids: Tensor) -> Tensor:
    return torch.cat([ids, torch.zeros_like(ids[:, :1])], dim=1)


def _put(ids: Tensor, extract: int, shift: int = 0) -> Tensor:
    found = _wider(ids)
    at = ((ids != 0).sum(1) + shift).clamp(0, ids.size(1))
    found[torch.arange(len(ids)), at] = extract
    return found


def _add_extract(ids: Tensor, extract: int) -> Tensor:
    return _put(ids, extract)


def _last_column(ids: Tensor, extract: int) -> Tensor:
    return torch.cat([ids, torch.full_like(ids[:, :1], extract)], dim=1)


def _instead_of_padding(ids: Tensor, extract: int) -> Tensor:
    found = _wider(ids)
    found[found == 0] = extract
    return found


def _at_longest(ids: Tensor, extract: int) -> Tensor:
    found = _wider(ids)
    found[:, (ids != 0).sum(1).max()] = extract
    return found


def _in_front(ids: Tensor, extract: int) -> Tensor:
    return torch.cat([torch.full_like(ids[:, :1], extract), ids], dim=1)


def _not_wider(ids: Tensor, extract: int) -> Tensor:
    return _put(ids, extract)[:, :-1]


def _over_the_last(ids: Tensor, extract: int) -> Tensor:
    return _put(ids, extract, -1)[:, :-1]


def _no_room(ids: Tensor, extract: int) -> Tensor:
    """In a row as long as before: the longest text has no such place."""
    found = ids.clone()
    found[torch.arange(len(ids)), (ids != 0).sum(1)] = extract
    return found


def _in_the_last_place(ids: Tensor, extract: int) -> Tensor:
    """The same, and the longest text's last token makes room."""
    found = ids.clone()
    found[torch.arange(len(ids)), (ids != 0).sum(1).clamp(max=ids.size(1) - 1)] = extract
    return found


def _one_behind(ids: Tensor, extract: int) -> Tensor:
    """Where the longest text ends, the token falls off the row."""
    return _put(_wider(ids), extract, 1)[:, :-1]


def _at_first_0(ids: Tensor, extract: int) -> Tensor:
    """`argmax` says 0 of a row in which nothing is found."""
    found = _wider(ids)
    found[torch.arange(len(ids)), (ids == 0).int().argmax(1)] = extract
    return found


def _padded_only(ids: Tensor, extract: int) -> Tensor:
    full = (ids != 0).all(1, keepdim=True)
    return torch.where(full, _wider(ids), _put(ids, extract))


def _all_ends(ids: Tensor, extract: int) -> Tensor:
    found = _wider(ids)
    found[:, (ids != 0).sum(1)] = extract
    return found


def _behind_the_2(which: int) -> Callable[[Tensor, int], Tensor]:
    """Behind the first 2 of each text (0), or behind the last one (-1)."""

    def answer(ids: Tensor, extract: int) -> Tensor:
        found = _wider(ids)
        for row, text in zip(found, (ids == 2).tolist(), strict=True):
            row[[i + 1 for i, is_2 in enumerate(text) if is_2][which]] = extract
        return found

    return answer


_ROWS = torch.tensor([[1, 7, 5, 2, 0, 0], [1, 4, 9, 8, 6, 2], [1, 2, 0, 0, 0, 0]])

ADD_EXTRACT = Exercise(
    name="add_extract",
    reference=_add_extract,
    cases=[
        Case("one text without padding", torch.tensor([[1, 5, 2]]), 9),
        Case("one text with padding", torch.tensor([[1, 5, 6, 2, 0, 0]]), 3),
        Case("three texts of different lengths", _ROWS, 11),
        Case("padding in every row", _ROWS[[0, 2, 2]], 3),
        Case("the longest text comes first", _ROWS[[1, 2, 0]], 12),
        Case("2 is a token like others", torch.tensor([[1, 7, 2, 5, 0], [1, 2, 4, 2, 3]]), 9),
    ],
    mistakes={
        "the token stands in the last column of every row: behind the padding nobody reads it, "
        "and its place says how long the longest text is": _last_column,
        "all padding becomes the token: it stands once in each row": _instead_of_padding,
        "the token stands where the longest text ends: each text has its own end": _at_longest,
        "the token stands in front: there it sees nothing of the text": _in_front,
        "the last token of the text is overwritten: the row gets one longer": [
            _over_the_last,
            lambda ids, extract: _put(ids, extract, -1),
        ],
        "the rows do not get longer: the longest text has no room for the token": [
            _not_wider,
            _no_room,
            _in_the_last_place,
        ],
        "the first 0 of the given row is looked for: a text without padding has none, and then "
        "its first token is overwritten": _at_first_0,
        "a text without padding gets no token: it ends where the row does": _padded_only,
        "every row gets the token at the ends of all texts: `[:, ends]` takes all rows for each "
        "end, `[rows, ends]` one row for one end": _all_ends,
        "whole numbers are joined with floats, such as `torch.zeros` makes, so that all become "
        "floats": lambda ids, extract: _put(ids, extract).float(),
        "the number 2 is looked for: a text may end with another one, or hold 2 in the middle. It "
        "ends before its first 0": [_behind_the_2(0), _behind_the_2(-1)],
        "one padding stands between the text and the token": [
            lambda ids, extract: _put(ids, extract, 1),
            _one_behind,
        ],
        "the token is not there: the rows only get longer": lambda ids, extract: _wider(ids),
        "the number 1 is written: write `extract`": lambda ids, extract: _put(ids, 1),
        "only the first text gets the token": lambda ids, extract: torch.cat(
            [_put(ids, extract)[:1], _wider(ids)[1:]]
        ),
        "the tokens of the text are sorted to the right, and the padding stands in front": [
            lambda ids, extract: torch.stack(
                [
                    torch.cat([row[row == 0], row[row != 0], row.new_tensor([extract])])
                    for row in ids
                ]
            ),
        ],
    },
    use=_longer,
    section="How does GPT say a label?",
)
