"""The exercise `share_of_flips`: what it asks for, and how its answers go wrong."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import islice, permutations, product
from statistics import mean, median
from typing import Any

from transformer_lib.checks.old.core import Case, Exercise

_Differences = Sequence[float]


def _flips(differences: _Differences, signs: tuple[int, ...] = (1, -1)) -> Iterator[list[float]]:
    """All ways to give each difference one of the signs."""
    for chosen in product(signs, repeat=len(differences)):
        yield [sign * difference for sign, difference in zip(chosen, differences, strict=True)]


def _one_flipped(differences: _Differences) -> Iterator[list[float]]:
    """The differences as they are, and each of them flipped alone."""
    yield list(differences)
    for i in range(len(differences)):
        yield [-x if i == j else x for j, x in enumerate(differences)]


def _all_flipped(differences: _Differences) -> Iterator[list[float]]:
    yield list(differences)
    yield [-x for x in differences]


def _positive_flipped(differences: _Differences) -> Iterator[list[float]]:
    """Only what is positive is flipped or not."""
    for chosen in product((1, -1), repeat=len(differences)):
        yield [x if x <= 0 else sign * x for sign, x in zip(chosen, differences, strict=True)]


def _reordered(differences: _Differences) -> Iterator[list[float]]:
    for order in permutations(differences):
        yield list(order)


def _share(
    *,
    ways: Callable[[_Differences], Iterator[list[float]]] = _flips,
    size: Callable[[_Differences], float] = sum,
    against: Callable[[_Differences], float] | None = None,
    counts: Callable[[float, float], bool] = lambda one, actual: one >= actual,
    share: Callable[[int, int], float] = lambda found, number: found / number,
) -> Callable[[_Differences], Any]:
    """The right way, of which a mistake replaces some part; `against`: instead of `size`."""

    def share_of_flips(differences: _Differences) -> float:
        actual = (against or size)(differences)
        found = [counts(size(way), actual) for way in ways(differences)]
        return share(sum(found), len(found))

    return share_of_flips


def _reference(differences: _Differences) -> float:
    return _share()(differences)


def _ahead(differences: _Differences) -> float:
    return sum(x > 0 for x in differences)


SHARE_OF_FLIPS = Exercise(
    name="share_of_flips",
    reference=_reference,
    cases=[
        Case("one pair, ahead", [0.5]),
        Case("three pairs, all ahead", [1.5, 1.0, 0.5]),
        Case("three pairs, one behind", [-0.5, 1.0, 0.75]),
        Case("three pairs, mostly behind", [-1.0, -1.5, 0.5]),
        Case("four pairs of one size, one behind", [1.0, 1.0, -1.0, 1.0]),
        Case("a pair without a difference", [0.0, 1.0, 2.0]),
        Case("five pairs", [3.0, -0.5, 0.25, -1.0, 0.5]),
    ],
    mistakes={
        "only larger differences are counted, and not those that are as large: the differences as "
        "they are belong to the ways, so the share is never 0": [
            _share(counts=lambda one, actual: one > actual),
        ],
        "the differences as they are have been left out of the ways: they are one of them": [
            _share(share=lambda found, number: (found - 1) / (number - 1)),
        ],
        "the differences as they are have been counted once more: they are among the ways": [
            _share(share=lambda found, number: (found + 1) / (number + 1)),
        ],
        "the sign of the mean is dropped: a lead of the other side is counted as well, and the "
        "question is whether the first side is better": [
            _share(size=lambda differences: abs(sum(differences))),
        ],
        "smaller means are counted, not larger ones": [
            _share(counts=lambda one, actual: one <= actual),
            _share(counts=lambda one, actual: one < actual),
        ],
        "one sign is flipped at a time: any number of them may be": [
            _share(ways=_one_flipped),
            _share(ways=lambda differences: islice(_one_flipped(differences), 1, None)),
        ],
        "all signs are flipped together: each pair is flipped by itself": [
            _share(ways=_all_flipped),
        ],
        "only the positive differences are flipped: chance may turn any pair round": [
            _share(ways=_positive_flipped),
        ],
        "a difference may also become 0: a pair has two sides, and no third": [
            _share(ways=lambda differences: _flips(differences, (1, 0, -1))),
        ],
        "every way counts: perhaps a mean is compared with itself, or the differences are put in "
        "another order, which leaves their mean as it is": [
            _share(ways=_reordered),
        ],
        "a mean is compared with a sum: both sides must be means, or both sums": [
            _share(against=mean),
            _share(size=mean, against=sum),
        ],
        "the mean of each way is compared with 0: compare it with the mean without any flip": [
            _share(against=lambda differences: 0.0),
            _share(against=lambda differences: 0.0, counts=lambda one, actual: one > actual),
        ],
        "only the number of pairs ahead is compared, and not by how much": [
            _share(size=_ahead),
        ],
        "medians are compared, not means": [_share(size=median)],
        "the ways are counted and not divided by their number: the share lies between 0 and 1": [
            _share(share=lambda found, number: found),
        ],
        "the number of ways found is divided by that of the differences, and not of all ways": [
            _share(share=lambda found, number: found / (number.bit_length() - 1)),
        ],
        "the share is divided by //, which drops the fraction": [
            _share(share=lambda found, number: found // number),
        ],
        "the share is given in percent": [_share(share=lambda found, number: 100 * found / number)],
    },
    section="Would another seed say the same?",
)
