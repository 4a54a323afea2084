"""The exercise `loss_weights`: what it asks for, and how its answers go wrong."""

from __future__ import annotations

from collections.abc import Callable

from transformer_lib.checks.old.core import Case, Exercise

Counts = list[list[int]]


def _by(weight: Callable[[int, list[int], Counts], float]) -> Callable[[Counts], list[list[float]]]:
    """The weight of a part from its labels, those of its rank, and all."""
    return lambda counts: [[weight(n, own, counts) for n in own] for own in counts]


def _all(counts: Counts) -> int:
    return sum(map(sum, counts))


def _parts(counts: Counts) -> int:
    return sum(map(len, counts))


def _loss_weights(counts: Counts) -> list[list[float]]:
    return _by(lambda n, own, counts: n * len(counts) / _all(counts))(counts)


def _flat(counts: Counts) -> list[float]:
    return [weight for own in _loss_weights(counts) for weight in own]


LOSS_WEIGHTS = Exercise(
    name="loss_weights",
    reference=_loss_weights,
    cases=[
        Case("one rank, one part", [[5]]),
        Case("one rank, two parts", [[30, 10]]),
        Case("two ranks, one part each", [[30], [10]]),
        Case("two ranks, two parts each", [[7, 5], [3, 2]]),
        Case("ranks with unequal numbers of parts", [[30, 10], [20]]),
        Case("three ranks", [[2, 3, 5], [7], [11, 13]]),
    ],
    mistakes={
        "the mean over the ranks is forgotten: it divides by their number once more": [
            _by(lambda n, own, counts: n / _all(counts)),
        ],
        "the number of ranks divides where it should multiply": [
            _by(lambda n, own, counts: n / _all(counts) / len(counts)),
        ],
        "every part counts alike, as a mean of means: labels in a short part count for more": [
            _by(lambda n, own, counts: 1 / len(own)),
            _by(lambda n, own, counts: 1 / _parts(counts)),
            _by(lambda n, own, counts: len(counts) / _parts(counts)),
            _by(lambda n, own, counts: 1 / len(counts)),
        ],
        "every part of a rank counts alike, and that mean is divided by the number of ranks once "
        "more": _by(lambda n, own, counts: 1 / len(own) / len(counts)),
        "the number of all labels is missing, and a part with more labels must weigh more": [
            _by(lambda n, own, counts: 1 / n),
        ],
        "the losses are not weighted at all: the gradient grows with the number of parts, and "
        "labels in a short part count for more": [
            _by(lambda n, own, counts: 1.0),
            _by(lambda n, own, counts: float(len(counts))),
        ],
        "a part is divided by its own rank's labels: every rank then counts alike, whatever it "
        "has read": [
            _by(lambda n, own, counts: n / sum(own)),
            _by(lambda n, own, counts: n * len(counts) / sum(own)),
            _by(lambda n, own, counts: n / sum(own) / len(counts)),
        ],
        "each part has the weight of its whole rank: a part counts by its own labels": [
            _by(lambda n, own, counts: sum(own) * len(counts) / _all(counts)),
            _by(lambda n, own, counts: sum(own) / _all(counts)),
        ],
        "the parts of a rank share its weight evenly: a part counts by its own labels": [
            _by(lambda n, own, counts: sum(own) / len(own) * len(counts) / _all(counts)),
            _by(lambda n, own, counts: sum(own) / len(own) / _all(counts)),
        ],
        "the sums are not divided by the number of all labels": [
            _by(lambda n, own, counts: float(n)),
            _by(lambda n, own, counts: float(n * len(counts))),
        ],
        "the number of parts stands where the number of ranks should: DDP averages over ranks, "
        "and parts on one rank are added up": [
            _by(lambda n, own, counts: n * _parts(counts) / _all(counts)),
            _by(lambda n, own, counts: n * len(own) / _all(counts)),
            _by(lambda n, own, counts: n * len(counts) * len(own) / _all(counts)),
            _by(lambda n, own, counts: n * len(counts[0]) / _all(counts)),
        ],
        "the number of labels is missing: a mean becomes a sum when multiplied by it": [
            _by(lambda n, own, counts: len(counts) / _all(counts)),
            _by(lambda n, own, counts: 1 / _all(counts)),
        ],
        "the quotient is upside down: a part with more labels must weigh more": [
            _by(lambda n, own, counts: _all(counts) / n / len(counts)),
            _by(lambda n, own, counts: _all(counts) / n),
            _by(lambda n, own, counts: len(counts) * _all(counts) / n),
            _by(lambda n, own, counts: len(counts) / n),
        ],
        "the division drops what comes after the point: it is / and not //": [
            _by(lambda n, own, counts: n * len(counts) // _all(counts)),
            _by(lambda n, own, counts: n // _all(counts)),
            _by(lambda n, own, counts: n // _all(counts) * len(counts)),
        ],
        "the weights are in one list: there is a list for each rank": _flat,
    },
    section="What if an update is too large for one machine?",
)
