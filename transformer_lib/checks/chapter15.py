"""Checker for chapter 15, *What is a difference worth?*."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import product
from statistics import mean

from transformer_lib.checks import Case, Checker, Exercise

__all__ = ["check"]

Differences = Sequence[float]


def flips(differences: Differences, signs: Sequence[int] = (1, -1)) -> Iterable[list[float]]:
    """All ways to give each difference one of the signs."""
    for chosen in product(signs, repeat=len(differences)):
        yield [sign * x for sign, x in zip(chosen, differences, strict=True)]


def one_flipped(differences: Differences) -> Iterable[list[float]]:
    yield [*differences]
    for i in range(len(differences)):
        yield [-x if i == j else x for j, x in enumerate(differences)]


def share_of_flips(
    differences: Differences,
    *,
    ways: Callable[[Differences], Iterable[Differences]] = flips,
    size: Callable[[Differences], float] = sum,
    actual: Callable[[Differences], float] | None = None,
    counts: Callable[[float, float], bool] = lambda one, actual: one >= actual - 1e-9,
    share: Callable[[int, int], float] = lambda found, number: found / number,
) -> float:
    bar = (actual or size)(differences)
    found = [counts(size(way), bar) for way in ways(differences)]
    return share(sum(found), len(found))


but = partial(partial, share_of_flips)

SHARE_OF_FLIPS = Exercise(
    name="share_of_flips",
    reference=share_of_flips,
    # Halves and quarters, up to the last case: their sums don't depend on the order.
    cases=lambda: [
        Case(([1.0],), "one pair has two ways: as it is, and flipped"),
        Case(([2.0, 1.0],), "two pairs have four ways: each is flipped by itself"),
        Case(([1.0, -1.0],), "a way with the same mean counts: it is at least as large"),
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
        "rounding decides whether two equal means are equal": but(
            counts=lambda one, actual: one >= actual
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
        "one sign is flipped at a time: any number of them may be": but(ways=one_flipped),
        "all signs are flipped together: each pair is flipped by itself": but(
            ways=lambda differences: [differences, [-x for x in differences]]
        ),
        "the means are compared with 0, not with the mean without any flip": but(
            actual=lambda differences: 0.0
        ),
        "means are compared with a sum": but(size=mean, actual=sum),
        "the ways are counted, and not divided by their number": but(
            share=lambda found, number: found
        ),
        "the ways found are divided by the number of differences, not of all ways": but(
            share=lambda found, number: found / (number.bit_length() - 1)
        ),
        "the share is given in percent": but(share=lambda found, number: 100 * found / number),
    },
)

check = Checker(SHARE_OF_FLIPS)
