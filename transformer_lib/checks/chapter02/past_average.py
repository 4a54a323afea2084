"""The exercise `past_average`: what it asks for, and how its answers go wrong."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from transformer_lib.checks.old.core import Case, Exercise
from transformer_lib.checks.old.inputs import random_tensor

_SEE = ' (see the section "Which scores make softmax draw this triangle?")'
_RAIN = torch.tensor([[12.0], [18.0], [21.0], [5.0]])


def _allowed(x: Tensor, window: int, last: int = 0) -> Tensor:
    """1 where row t takes from row s: from `window` rows, of which the last is t + last."""
    ones = x.new_ones(len(x), len(x))
    return ones.tril(last) * ones.triu(last - window + 1)


def _so_far(x: Tensor) -> Tensor:
    return x.new_ones(len(x), len(x)).tril()


def _shares(weights: Tensor) -> Tensor:
    return weights / weights.sum(dim=-1, keepdim=True)


def _past_average(x: Tensor, window: int) -> Tensor:
    return _shares(_allowed(x, window)) @ x


def _counts(x: Tensor) -> Tensor:
    return torch.arange(1, len(x) + 1, dtype=x.dtype)[:, None]


def _averaged_with_the_last(x: Tensor, window: int) -> Tensor:
    rows = [x[0]]
    for row in x[1:]:
        rows.append((rows[-1] + row) / 2)
    return torch.stack(rows)


def _by_softmax(
    scores: Callable[[Tensor], Tensor], fill: float, dim: int = -1
) -> Callable[[Tensor, int], Tensor]:
    def average(x: Tensor, window: int) -> Tensor:
        return scores(x).masked_fill(_allowed(x, window) == 0, fill).softmax(dim) @ x

    return average


def _zeros(x: Tensor) -> Tensor:
    return x.new_zeros(len(x), len(x))


_MINUS_INFINITY = float("-inf")

PAST_AVERAGE = Exercise(
    name="past_average",
    reference=_past_average,
    cases=[
        Case("one row, a window of 2", torch.tensor([[3.0, -1.0, 4.0]]), 2),
        Case("four days of rain, a window of 2", _RAIN, 2),
        Case("as many rows as columns, a window of all", random_tensor(3, 3), 3),
        Case("five rows of two, a window of 3", random_tensor(5, 2), 3),
        Case("two rows of seven, a window of 1", random_tensor(2, 7), 1),
        Case("seven rows of three, a window of 5", random_tensor(7, 3), 5),
    ],
    mistakes={
        "every row averages all rows, those still to come included": [
            lambda x, window: x.mean(0).expand_as(x),
            lambda x, window: x.mean(0),
            lambda x, window: x.mean(0, keepdim=True),
        ],
        "the window is not used: row t averages all rows so far, as on the page": [
            lambda x, window: x.cumsum(0) / _counts(x),
        ],
        "the window is one row too long: with row t itself, a window of 3 begins at row t - 2": [
            lambda x, window: _shares(_allowed(x, window + 1)) @ x,
        ],
        "the window is one row too short: with row t itself, a window of 3 begins at row t - 2": [
            lambda x, window: _shares(_allowed(x, window - 1)) @ x,
            lambda x, window: _shares(_allowed(x, window - 1)).nan_to_num() @ x,
        ],
        "the window reaches to both sides of row t: what comes after it is not past": [
            lambda x, window: _shares(_allowed(x, 2 * window - 1, window - 1)) @ x,
            lambda x, window: _shares(_allowed(x, 2 * window + 1, window)) @ x,
        ],
        "the slices of the first rows start below 0, which Python counts from the end: they are "
        "empty, or hold other rows": [
            lambda x, window: torch.stack(
                [x[t - window + 1 : t + 1].mean(0) for t in range(len(x))]
            ),
        ],
        "row t leaves itself out: the diagonal belongs to the past": [
            lambda x, window: _shares(_allowed(x, window, -1)) @ x,
            lambda x, window: _shares(_allowed(x, window, -1)).nan_to_num() @ x,
            lambda x, window: _allowed(x, window, -1) / window @ x,
            lambda x, window: _shares(_allowed(x, window - 1, -1)) @ x,
            lambda x, window: _shares(_allowed(x, window - 1, -1)).nan_to_num() @ x,
        ],
        "the sums are right, but not divided: row t holds the sum over its window": [
            lambda x, window: _allowed(x, window) @ x,
        ],
        "every row is divided by the window, and the first rows have fewer than that": [
            lambda x, window: _allowed(x, window) / window @ x,
        ],
        "row t is divided by the number of all rows so far, and the window holds fewer": [
            lambda x, window: _allowed(x, window) / _counts(x) @ x,
        ],
        "every row is divided by the number of all rows": [
            lambda x, window: _allowed(x, window) / len(x) @ x,
        ],
        "row t is averaged with the last average alone, which stands for many rows and counts as "
        "one": _averaged_with_the_last,
        "the columns of the weights sum to 1 and not the rows": [
            lambda x, window: _allowed(x, window) / _allowed(x, window).sum(0) @ x,
            _by_softmax(_zeros, _MINUS_INFINITY, dim=0),
        ],
        "the weights are turned on their side: row t takes from what comes after it, and divides "
        "by the wrong count": lambda x, window: _shares(_allowed(x, window)).mT @ x,
        "the fill is the wrong way round: minus infinity belongs where row t may not look" + _SEE: [
            lambda x, window: (1 - _allowed(x, window)).log().softmax(-1) @ x,
        ],
        "a forbidden score becomes 0, and e^0 = 1 is a weight like any other" + _SEE: [
            _by_softmax(lambda x: x.new_ones(len(x), len(x)), 0.0),
            lambda x, window: (x @ x.mT * _allowed(x, window)).softmax(-1) @ x,
        ],
        "the scores are the rows' own dot products: each row then takes most from what is like it, "
        "and an average asks for equal scores": [
            _by_softmax(lambda x: x @ x.mT, _MINUS_INFINITY),
            _by_softmax(lambda x: x @ x.mT / x.shape[-1] ** 0.5, _MINUS_INFINITY),
            lambda x, window: (
                (x @ x.mT).masked_fill(_so_far(x) == 0, _MINUS_INFINITY).softmax(-1) @ x
            ),
            lambda x, window: (x @ x.mT).softmax(-1) @ x,
            lambda x, window: (x @ x.mT / x.shape[-1] ** 0.5).softmax(-1) @ x,
        ],
        "the triangle is 4 by 4 whatever x is: it must be as long and as wide as x has rows": [
            lambda x, window: _shares(_allowed(torch.ones(4), window)) @ x,
        ],
        "the sum has lost its axis: without keepdim=True row t's count divides column t": [
            lambda x, window: _allowed(x, window) / _allowed(x, window).sum(-1) @ x,
            lambda x, window: _allowed(x, window) / _counts(x)[:, 0].clamp(max=window) @ x,
        ],
        "row t averages itself and what comes after it: the triangle is the upper one": [
            lambda x, window: _shares(_allowed(x, window).mT) @ x,
            lambda x, window: _shares(_so_far(x).mT) @ x,
        ],
        "the average runs along each row, over the columns so far": [
            lambda x, window: _past_average(x.mT, window).mT,
            lambda x, window: x.cumsum(1) / torch.arange(1, x.shape[1] + 1),
        ],
        "the weights are returned, and the rows of x never mixed": [
            lambda x, window: _shares(_allowed(x, window)),
        ],
        "the order of the matrix product is turned: x times the weights mixes columns": [
            lambda x, window: x @ _shares(_allowed(x, window)),
        ],
    },
    section="An average is a matrix product",
)
