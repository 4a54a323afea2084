"""Checkers for chapter 10, *Where am I? Positions*."""

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor

from transformer_lib.checks import Case, Checker, Exercise
from transformer_lib.checks.inputs import integers, normal

__all__ = ["check"]


def rates(d: int) -> Tensor:
    return 10_000.0 ** -(torch.arange(0, d, 2) / d)


def interleaved(a: Tensor, b: Tensor) -> Tensor:
    return torch.stack([a, b], dim=-1).flatten(-2)


def joined(a: Tensor, b: Tensor) -> Tensor:
    return torch.cat([a, b], dim=-1)


# ------------------------------------------------------------------------------------- sinusoids


def sinusoids(
    length: int,
    d_model: int,
    *,
    positions: Callable[[int], Tensor] = lambda length: torch.arange(length)[:, None],
    rates: Callable[[int], Tensor] = rates,
    arrange: Callable[[Tensor, Tensor], Tensor] = interleaved,
) -> Tensor:
    angle = positions(length) * rates(d_model)
    return arrange(angle.sin(), angle.cos())


def by_columns(exponent: Callable[[Tensor], Tensor]) -> Callable[[int, int], Tensor]:
    """A rate of its own for each column: sines in the even ones, cosines in the odd ones."""

    def table(length: int, d_model: int) -> Tensor:
        column = torch.arange(d_model)
        angle = torch.arange(length)[:, None] / 10_000.0 ** (exponent(column) / d_model)
        return torch.where(column % 2 == 0, angle.sin(), angle.cos())

    return table


waves = partial(partial, sinusoids)

SINUSOIDS = Exercise(
    name="sinusoids",
    reference=sinusoids,
    cases=lambda: [
        Case((1, 4), "at position 0, a sine is 0 and a cosine 1: they alternate from column to "
             "column"),
        Case((3, 2), "each row is a position, and from row to row the first pair turns by one "
             "radian"),
        Case((2, 4), "the rates fall from pair to pair, by powers of 10000, and a "
             "sine and its cosine share one"),
        Case((4, 4), "each position meets each rate"),
        Case((3, 6), "the rates depend on the width"),
        Case((2, 12), "a table may have more columns than rows"),
        Case((20, 8), "a table may have more rows than columns"),
    ],
    section="What is in the paper's table?",
    atol=1e-4,
    mistakes={
        "all sines come before all cosines: in (10.1) they alternate": waves(arrange=joined),
        "each column j has the exponent 2j / d_model: a sine and its cosine share one rate": (
            by_columns(lambda j: 2 * j)
        ),
        "each column j has the exponent j / d_model: a sine and its cosine share one rate": (
            by_columns(lambda j: j)
        ),
        "the exponents are twice too large: `arange(0, d_model, 2)` counts 2i, not i": waves(
            rates=lambda d: rates(d) ** 2
        ),
        "the exponents are half as large as they should be: where i counts pairs, the 2 of 2i is "
        "missing": waves(rates=lambda d: rates(d) ** 0.5),
        "the positions lie along the same axis as the rates: one of them must be a column": waves(
            positions=torch.arange
        ),
        "`10000 ** two_i / d_model` divides the power: Python takes the power first": waves(
            rates=lambda d: 1 / (10_000.0 ** torch.arange(0, d, 2) / d)
        ),
    },
)  # fmt: skip

# ---------------------------------------------------------------------------------------- rotate

Pair = tuple[Tensor, Tensor]


def turned(a: Tensor, b: Tensor, sin: Tensor, cos: Tensor) -> Pair:
    return a * cos - b * sin, a * sin + b * cos


def angles(x: Tensor, start: int) -> Tensor:
    return (start + torch.arange(x.shape[-2])[:, None]) * rates(x.shape[-1])


def rotate(
    x: Tensor,
    start: int = 0,
    *,
    angles: Callable[[Tensor, int], Tensor] = angles,
    pairs: Callable[[Tensor], Pair] = lambda x: (x[..., 0::2], x[..., 1::2]),
    turn: Callable[..., Pair] = turned,
    join: Callable[[Tensor, Tensor], Tensor] = interleaved,
) -> Tensor:
    angle = angles(x, start)
    return join(*turn(*pairs(x), angle.sin(), angle.cos()))


def second_from_the_new(a: Tensor, b: Tensor, sin: Tensor, cos: Tensor) -> Pair:
    a = a * cos - b * sin
    return a, a * sin + b * cos


def rates_of_halves(x: Tensor, start: int = 0) -> Tensor:
    angle = angles(x, start).repeat(1, 2)
    return x * angle.cos() + interleaved(-x[..., 1::2], x[..., 0::2]) * angle.sin()


spun = partial(partial, rotate)

ROTATE = Exercise(
    name="rotate",
    reference=rotate,
    cases=lambda: [
        Case((torch.tensor([[1.0, 2]]),), "at position 0 nothing turns"),
        Case((torch.tensor([[1.0, 0], [1, 0]]),), "one position further, the first pair has turned "
             "by one radian, in the direction of `rotary4`"),
        Case((torch.tensor([[1.0, 2], [1, 2]]),), "both entries of a pair come from both"),
        Case((torch.tensor([[1.0, 2]]), 3), "the first row stands at `start`"),
        Case((torch.tensor([[1.0, 2], [1, 2]]), 3), "the second row stands one position after "
             "`start`"),
        Case((torch.tensor([[1.0, 2, 3, 6], [1, 2, 3, 6]]),), "neighbors turn together, each pair "
             "at its own rate"),
        Case((integers(2, 6), 5), "the rates depend on the width"),
        Case((integers(2, 1, 3, 4),), "rows are the last axis but one, however many come before"),
        Case((normal(2, 3, 5, 12), 7), "texts and heads turn alike"),
    ],
    section="What if the vectors turn instead?",
    keeps=frozenset({"gradient"}),
    atol=1e-4,
    mistakes={
        "the pairs are the halves of the vector, as in the library: here neighbors turn together": (
            spun(pairs=lambda x: x.chunk(2, -1), join=joined)
        ),
        "`start` is added to the angles: it must be added to the positions": spun(
            angles=lambda x, start: angles(x, 0) + start
        ),
        "the positions are counted along axis 1: rows are the last axis but one": spun(
            angles=lambda x, start: angles(x.new_empty(x.shape[1], x.shape[-1]), start)
        ),
        "the minus sign is missing": spun(
            turn=lambda a, b, sin, cos: (a * cos + b * sin, a * sin + b * cos)
        ),
        "the vectors turn backwards": spun(turn=lambda a, b, sin, cos: turned(a, b, -sin, cos)),
        "the pairs turn correctly, but come back in another order: first all entries 2i, then all "
        "2i + 1": spun(join=joined),
        "the second line uses the new first entry: it needs the old one": spun(
            turn=second_from_the_new
        ),
        "the rates run 0, 1, …, 0, 1, … along the vector, which is the order of halves: here "
        "neighbors share a rate": rates_of_halves,
    },
)  # fmt: skip

check = Checker(SINUSOIDS, ROTATE)
