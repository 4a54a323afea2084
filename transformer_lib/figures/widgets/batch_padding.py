"""BatchPadding: how much of a batch is padding (chapter 12)."""

from typing import Any

import traitlets

from .base import LiveFigure, Number, Numbers, OneOf, compose, dress

PLACES = 32  # batches by tokens: positions on either side for each pair of the size
# source-target lengths of captions of Multi30k, the first ones that chapter 12 draws
LENGTHS = (
    "35-34 17-18 10-12 16-21 20-21 18-26 18-26 24-20 11-10 11-11 16-14 13-18 33-42 18-20 "
    "16-16 16-16 13-22 20-26 16-19 19-23 16-14 16-14 17-20 16-18 13-11 15-20 10-11 12-12 "
    "15-18 15-20 17-19 15-20 18-16 15-26 9-12 15-16 14-14 17-18 15-20 21-23 21-21 14-15 20-18 "
    "16-19 17-15 17-19 8-8 12-16 16-15 10-12 24-23 16-25 13-16 13-17 17-22 9-10 18-18 8-9 "
    "16-19 20-18 21-28 18-17 17-21 23-24 10-11 15-16 11-12 11-11 13-13 18-19 16-19 12-13 "
    "19-21 18-20 13-18 12-14 14-15 13-16 12-12 13-12 30-35 13-16 17-17 10-11 19-20 15-18 "
    "23-20 14-15 26-20 12-12 12-15 11-11 17-25 13-16 28-25 16-16 17-23 12-12 10-12 24-21 "
    "19-19 11-13 12-15 12-11 15-14 17-15 14-14 18-21 11-13 20-22 11-13 18-16 18-21 12-13 "
    "10-10 22-21 11-14 12-17 23-28 10-12 10-15 16-22 11-14 11-17 11-14 21-21 16-14 12-12 "
)


class BatchPadding(LiveFigure):
    r"""Pairs of texts in batches, and the share of padding in all that is computed.

    .. math::

        \text{waste} = 1 - \frac{\sum_i (s_i + t_i)}{\sum_b B_b \,(\max s + \max t)}

    for pairs of lengths :math:`s_i, t_i` and batches of :math:`B_b` pairs.

    Args:
        lengths: ``(source, target)`` of each of 8 to 2048 pairs, integers from 1 to 128.
        way: ``"given"``: in the given order; ``"source"``: sorted by source; ``"longer"``: by the
            longer side, then by source; ``"tokens"``: as `TokenBatchSampler` does.
        size: 4 to 128 pairs per batch; by tokens, ``32 * size`` positions on either side.

    Raises:
        ValueError: a length or size out of range, something that isn't a pair, or too few or too
            many pairs.

    >>> figure = BatchPadding()
    >>> figure, f"{figure.waste():.0%}"
    (BatchPadding(way='given', size=16), '38%')
    >>> f"{BatchPadding(way='longer').waste():.0%}"
    '16%'
    """

    _esm = compose("batch_padding.js")
    _css = dress("batch_padding.css")
    shown = ("way", "size")

    lengths = Numbers(
        [[int(n) for n in pair.split("-")] for pair in LENGTHS.split()], depth=2, low=1, high=128
    )
    way = OneOf("given", "source", "longer", "tokens")
    size = Number(16, low=4, high=128, whole=True)

    @traitlets.validate("lengths")
    def _pairs(self, proposal: Any) -> list[list[int]]:
        found = proposal["value"]
        if not 8 <= len(found) <= 2048:
            raise ValueError(f"lengths must have 8 to 2048 pairs; got {len(found)}")
        for i, pair in enumerate(found):
            if len(pair) != 2 or any(n != int(n) for n in pair):
                raise ValueError(f"lengths[{i}] must be two whole numbers; got {pair}")
        return [[int(n) for n in pair] for pair in found]

    def batches(self) -> list[list[int]]:
        """Return the batches as lists of indices into `lengths`."""
        from ...data import TokenBatchSampler

        if self.way == "tokens":
            pairs = [(source, target) for source, target in self.lengths]
            return TokenBatchSampler(pairs, max_tokens=PLACES * self.size, shuffle=False).epoch(0)
        order = list(range(len(self.lengths)))
        if self.way == "source":
            order.sort(key=lambda i: self.lengths[i][0])
        if self.way == "longer":
            order.sort(key=lambda i: (max(self.lengths[i]), self.lengths[i][0]))
        return [order[i : i + self.size] for i in range(0, len(order), self.size)]

    def waste(self) -> float:
        """Return the share of padding in all batches."""
        pairs = [[self.lengths[i] for i in batch] for batch in self.batches()]
        tokens = sum(sum(map(sum, batch)) for batch in pairs)
        places = sum(len(batch) * sum(map(max, zip(*batch, strict=True))) for batch in pairs)
        return 1 - tokens / places
