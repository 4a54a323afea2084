"""Checker for chapter 15, *What is a difference worth?*."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import product

from transformer_lib.checks import Case, Checker, Exercise

__all__ = ["check"]

Differences = Sequence[float]


def flips(differences: Differences) -> Iterator[list[float]]:
    """All ways to give each difference one of the signs."""
    for signs in product((1, -1), repeat=len(differences)):
        yield [sign * x for sign, x in zip(signs, differences, strict=True)]


def share_of_flips(
    differences: Differences,
    *,
    size: Callable[[Differences], float] = sum,
    counts: Callable[[float, float], bool] = lambda one, actual: one >= actual - 1e-9,
    share: Callable[[int, int], float] = lambda found, number: found / number,
) -> float:
    found = [counts(size(way), size(differences)) for way in flips(differences)]
    return share(sum(found), len(found))


but = partial(partial, share_of_flips)

SHARE_OF_FLIPS = Exercise(
    name="share_of_flips",
    reference=share_of_flips,
    # Halves and quarters, up to the last case: their sums don't depend on the order.
    cases=lambda: [
        Case(([1.0],), "one pair has two ways: as it is, and flipped"),
        Case(([2.0, 1.0],), "two pairs have four ways: each is flipped by itself"),
        Case(
            ([1.0, -1.0],),
            "a way with the same mean counts, and each difference comes with its sign",
        ),
        Case(([-2.0, 0.5],), "a large mean on the other side doesn't count, a small loss does"),
        Case(([1.5, 1.0, 0.5],), "three pairs, all ahead, have the smallest share there is"),
        Case(([0.0, 1.0, 2.0],), "a difference of 0 is flipped, too: the ways are still 8"),
        Case(([-0.5, 1.0, 0.75],), "the mean depends on sizes, not only on signs"),
        Case(([1.0, 1.0, -1.0, 1.0],), "equal differences are different pairs"),
        Case(([3.0, -0.5, 0.25, -1.0, 0.5],), "five pairs have 32 ways"),
        Case(
            ([0.1, 0.2, -0.3],),
            "the mean is 0 with no flip and with all three, though floats round these differently",
        ),
    ],
    section="Would another seed say the same?",
    mistakes={
        "only larger means are counted: means that are equally large count, too": but(
            counts=lambda one, actual: one > actual + 1e-9
        ),
        "the differences as they are have been left out of the ways: they are one of them": but(
            share=lambda found, number: (found - 1) / (number - 1)
        ),
        "the sign of the mean is dropped: a lead by the other side is counted as well": but(
            size=lambda differences: abs(sum(differences))
        ),
        "smaller means are counted, not larger ones": but(
            counts=lambda one, actual: one <= actual + 1e-9
        ),
    },
)

check = Checker(SHARE_OF_FLIPS)
