"""The exercise `to_halves`: what it asks for, and how its answers go wrong."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from transformer_lib.checks.old.core import Case, Exercise
from transformer_lib.checks.old.inputs import random_tensor


def _to_halves(weight: Tensor, n_heads: int) -> Tensor:
    return weight.unflatten(0, (n_heads, -1, 2)).transpose(1, 2).flatten(0, 2)


def _to_neighbors(weight: Tensor, n_heads: int) -> Tensor:
    return weight.unflatten(0, (n_heads, 2, -1)).transpose(1, 2).flatten(0, 2)


def _by_heads(weight: Tensor, n_heads: int, order: list[int]) -> Tensor:
    """Each head's rows in an order."""
    return weight.unflatten(0, (n_heads, -1))[:, order].flatten(0, 1)


def _d_head(weight: Tensor, n_heads: int) -> int:
    return len(weight) // n_heads


def _odd_first(weight: Tensor, n_heads: int) -> Tensor:
    d = _d_head(weight, n_heads)
    return _by_heads(weight, n_heads, [*range(1, d, 2), *range(0, d, 2)])


def _second_half_backwards(weight: Tensor, n_heads: int) -> Tensor:
    d = _d_head(weight, n_heads)
    return _by_heads(weight, n_heads, [*range(0, d, 2), *reversed(range(1, d, 2))])


def _halves_swapped(weight: Tensor, n_heads: int) -> Tensor:
    d = _d_head(weight, n_heads)
    return _by_heads(weight, n_heads, [*range(d // 2, d), *range(d // 2)])


def _pairs_swapped(weight: Tensor, n_heads: int) -> Tensor:
    return weight.unflatten(0, (-1, 2)).flip(1).flatten(0, 1)


def _heads_inside(weight: Tensor, n_heads: int) -> Tensor:
    """The rows are taken to be (d_head, n_heads), as if every n-th belonged to a head."""
    rows = weight.unflatten(0, (-1, n_heads)).transpose(0, 1).flatten(0, 1)
    return _to_halves(rows, n_heads)


def _heads_stay_inside(weight: Tensor, n_heads: int) -> Tensor:
    rows = weight.unflatten(0, (-1, n_heads))
    return torch.cat([rows[0::2], rows[1::2]]).flatten(0, 1)


def _width_of_columns(weight: Tensor, n_heads: int) -> Tensor:
    width = weight.shape[1] // n_heads
    return _even_then_odd([weight[i * width : (i + 1) * width] for i in range(n_heads)])


def _columns(weight: Tensor, n_heads: int) -> Tensor:
    return torch.cat([weight[:, 0::2], weight[:, 1::2]], dim=1)


def _columns_of_heads(weight: Tensor, n_heads: int) -> Tensor:
    return _to_halves(weight.T, n_heads).T


def _even_then_odd(parts: Sequence[Tensor], dim: int = 0) -> Tensor:
    """In each part, however many rows or columns it has."""
    ends = [part.shape[dim] for part in parts]
    orders = [torch.tensor([*range(0, n, 2), *range(1, n, 2)]) for n in ends]
    moved = [part.index_select(dim, at) for part, at in zip(parts, orders, strict=True)]
    return torch.cat(moved, dim=dim)


def _columns_in_parts(weight: Tensor, n_heads: int) -> Tensor:
    return _even_then_odd(weight.split(_d_head(weight, n_heads), dim=1), dim=1)


def _columns_in_chunks(weight: Tensor, n_heads: int) -> Tensor:
    return _even_then_odd(weight.chunk(n_heads, dim=1), dim=1)


def _columns_by_order(weight: Tensor, n_heads: int) -> Tensor:
    """The order of a head's rows, on the axis behind them."""
    d = _d_head(weight, n_heads)
    heads = weight.unflatten(0, (n_heads, -1))[:, :, [*range(0, d, 2), *range(1, d, 2)]]
    return heads.reshape(weight.shape)


def _one_head(weight: Tensor, n_heads: int) -> Tensor:
    return _to_halves(weight, 1)


def _first_head(weight: Tensor, n_heads: int) -> Tensor:
    d = _d_head(weight, n_heads)
    return torch.cat([_to_halves(weight[:d], 1), weight[d:]])


def _head_axis_left(weight: Tensor, n_heads: int) -> Tensor:
    return _to_halves(weight, n_heads).unflatten(0, (n_heads, -1))


def _four_axes(weight: Tensor, n_heads: int) -> Tensor:
    return weight.unflatten(0, (n_heads, -1, 2)).transpose(1, 2)


def _width_for_heads(weight: Tensor, n_heads: int) -> Tensor:
    """Heads of width n_heads, and not n_heads heads."""
    return weight.unflatten(0, (-1, n_heads // 2, 2)).transpose(1, 2).flatten(0, 2)


def _rows_in_parts(weight: Tensor, n_heads: int) -> Tensor:
    """The same, where an odd number of rows is cut as well."""
    return _even_then_odd(weight.split(n_heads))


def _in_place(weight: Tensor, n_heads: int) -> Tensor:
    """The even rows go to the front, over odd ones that are still to be read."""
    rows = weight.clone().unflatten(0, (n_heads, -1))
    half = rows.shape[1] // 2
    rows[:, :half] = rows[:, 0::2].clone()
    rows[:, half:] = rows[:, 1::2].clone()
    return rows.flatten(0, 1)


def _in_place_by_rows(weight: Tensor, n_heads: int) -> Tensor:
    rows = weight.clone().unflatten(0, (n_heads, -1))
    d = rows.shape[1]
    for i, j in enumerate([*range(0, d, 2), *range(1, d, 2)]):
        rows[:, i] = rows[:, j].clone()
    return rows.flatten(0, 1)


def _in_place_by_pairs(weight: Tensor, n_heads: int) -> Tensor:
    rows = weight.clone().unflatten(0, (n_heads, -1))
    half = rows.shape[1] // 2
    for i in range(half):
        rows[:, i], rows[:, half + i] = rows[:, 2 * i].clone(), rows[:, 2 * i + 1].clone()
    return rows.flatten(0, 1)


def _heads_and_pairs(weight: Tensor, n_heads: int) -> Tensor:
    return weight.unflatten(0, (n_heads, -1, 2)).transpose(0, 1).flatten(0, 2)


def _kept(weight: Tensor, n_heads: int) -> Tensor:
    return weight.unflatten(0, (n_heads, -1, 2)).flatten(0, 2)


TO_HALVES = Exercise(
    name="to_halves",
    reference=_to_halves,
    cases=[
        Case("one head of width 4", torch.arange(4.0)[:, None], 1),
        Case("one head of width 8", random_tensor(8, 3), 1),
        Case("2 heads of width 6", random_tensor(12, 12, seed=1), 2),
        Case("3 heads of width 4, 5 columns", random_tensor(12, 5, seed=2), 3),
        Case("4 heads of width 10", random_tensor(40, 16, seed=3), 4),
    ],
    mistakes={
        "it is the other way: from halves to neighbors. The rows 0, 2, 4, … of a head come "
        "first": _to_neighbors,
        "all rows are reordered as one head: each head has halves of its own": _one_head,
        "only the first head is reordered": _first_head,
        "the columns are reordered: a row of `weight` makes an entry of a query, a column reads "
        "an entry of the input": [
            _columns,
            _columns_of_heads,
            _columns_in_parts,
            _columns_in_chunks,
            _columns_by_order,
        ],
        "the width of a head is taken from the columns: they are the width of the input, and a "
        "head is as wide as its rows are many": [_width_of_columns],
        "the odd rows come first: an arrow's first entry is the even one": _odd_first,
        "the odd rows are backwards: entry i of the second half belongs to entry i of the "
        "first": _second_half_backwards,
        "the two halves of each head have changed places, and neighbors are still neighbors": [
            _halves_swapped,
        ],
        "the two entries of each arrow have changed places, and they are still neighbors": [
            _pairs_swapped,
        ],
        "nothing is reordered: `view` alone never moves a number. A `transpose` is missing": [
            lambda weight, n_heads: weight,
            _kept,
        ],
        "the pairs change places with the heads, and not with the two entries of a pair: "
        "`transpose(0, 1)` where `transpose(1, 2)` is right": _heads_and_pairs,
        "every n-th row is taken for a head: the rows of one head stand together": [
            _heads_inside,
            _heads_stay_inside,
        ],
        "heads are `n_heads` rows wide, and there are to be `n_heads` of them": [
            _width_for_heads,
            _rows_in_parts,
        ],
        "rows are overwritten before they are read: put the result into a new tensor": [
            _in_place,
            _in_place_by_rows,
            _in_place_by_pairs,
        ],
        "the heads still have an axis of their own: a `flatten` is missing": [
            _head_axis_left,
            _four_axes,
        ],
        "the matrix lies on its side: rows stay rows": [
            lambda weight, n_heads: _to_halves(weight, n_heads).T,
        ],
        "only the even rows are kept: the odd ones follow behind them": [
            lambda weight, n_heads: weight[::2],
            lambda weight, n_heads: weight.unflatten(0, (n_heads, -1, 2))[:, :, 0].flatten(0, 1),
        ],
    },
    section="Can the place turn the vector?",
)
