"""The exercise `past_average`: what it asks for, and how its answers go wrong."""

from __future__ import annotations

import torch
from torch import Tensor

from transformer_lib.checks.core import Case, Exercise
from transformer_lib.checks.inputs import random_tensor

_SEE = ' (see the section "Which scores make softmax draw this triangle?")'


def _allowed(x: Tensor, diagonal: int = 0) -> Tensor:
    return x.new_ones(len(x), len(x)).tril(diagonal)


def _past_average(x: Tensor) -> Tensor:
    return x.cumsum(0) / _counts(x)


def _counts(x: Tensor) -> Tensor:
    return torch.arange(1, len(x) + 1, dtype=x.dtype)[:, None]


def _averaged_with_the_last(x: Tensor) -> Tensor:
    rows = [x[0]]
    for row in x[1:]:
        rows.append((rows[-1] + row) / 2)
    return torch.stack(rows)


PAST_AVERAGE = Exercise(
    name="past_average",
    reference=_past_average,
    cases=[
        Case("one row", torch.tensor([[3.0, -1.0, 4.0]])),
        Case("four days, one temperature each", torch.tensor([[12.0], [18.0], [21.0], [5.0]])),
        Case("as many rows as columns", random_tensor(3, 3)),
        Case("five rows of two", random_tensor(5, 2)),
        Case("two rows of seven", random_tensor(2, 7)),
    ],
    mistakes={
        "every row averages all rows, those still to come included": [
            lambda x: x.mean(0).expand_as(x),
            lambda x: x.mean(0),
            lambda x: x.mean(0, keepdim=True),
        ],
        "row t leaves itself out: the diagonal belongs to the past": [
            lambda x: _allowed(x, -1) / _allowed(x, -1).sum(-1, keepdim=True) @ x,
            lambda x: (_allowed(x, -1) / _allowed(x, -1).sum(-1, keepdim=True).clamp(min=1)) @ x,
            lambda x: _allowed(x, -1) / _counts(x) @ x,
            lambda x: _allowed(x, -1) / len(x) @ x,
            lambda x: _allowed(x, -1) @ x,
        ],
        "the sums are right, but not divided: row t holds the sum so far": lambda x: x.cumsum(0),
        "every row is divided by the number of all rows and not by the number of rows so far": [
            lambda x: x.cumsum(0) / len(x),
        ],
        "the rows so far are counted from 0: the first row is divided by 0": [
            lambda x: x.cumsum(0) / (_counts(x) - 1),
        ],
        "row t is averaged with the last average alone, which stands for many rows and counts as "
        "one": _averaged_with_the_last,
        "the columns of the weights sum to 1 and not the rows": [
            lambda x: _allowed(x) / _allowed(x).sum(0) @ x,
            lambda x: _allowed(x).log().softmax(0) @ x,
            lambda x: _allowed(x).softmax(0) @ x,
        ],
        "the weights are turned on their side: row t takes from what comes after it, and divides "
        "by the wrong count": [
            lambda x: (_allowed(x) / _counts(x)).mT @ x,
        ],
        "the fill is the wrong way round: minus infinity belongs where row t may not look" + _SEE: [
            lambda x: (1 - _allowed(x)).log().softmax(-1) @ x,
        ],
        "the triangle is 4 by 4 whatever x is: it must be as long and as wide as x has rows": [
            lambda x: torch.ones(4, 4).tril() / torch.ones(4, 4).tril().sum(-1, keepdim=True) @ x,
        ],
        "the sum has lost its axis: without keepdim=True row t's count divides column t": [
            lambda x: _allowed(x) / _allowed(x).sum(-1) @ x,
            lambda x: _allowed(x) / _counts(x)[:, 0] @ x,
            lambda x: x.cumsum(0) / _counts(x)[:, 0],
        ],
        "row t averages itself and what comes after it: the triangle is the upper one": [
            lambda x: x.flip(0).cumsum(0).div(_counts(x)).flip(0),
        ],
        "softmax meets a triangle of 1 and 0: a score of 0 is no ban, since e^0 = 1" + _SEE: [
            lambda x: _allowed(x).softmax(-1) @ x,
        ],
        "the average runs along each row, over the columns so far": [
            lambda x: x.cumsum(1) / torch.arange(1, x.shape[1] + 1),
        ],
        "the weights are returned, and the rows of x never mixed": [
            lambda x: _allowed(x) / _counts(x),
        ],
        "the order of the matrix product is turned: x times the weights mixes columns": [
            lambda x: x @ (_allowed(x) / _counts(x)),
        ],
    },
    section="An average is a matrix product",
)
