"""ScaleMeter: what wide vectors do to the softmax (chapter 2)."""

from typing import Any, NamedTuple

import numpy as np
import traitlets

from .base import LiveFigure, Number, compose, dress

KEYS, QUERIES = 16, 64


def uniform(seed: int, n: int) -> np.ndarray:
    """Return ``n`` numbers in [0, 1), bit for bit those of the page's generator (mulberry32).

    >>> uniform(1, 2).round(6).tolist()
    [0.627074, 0.002736]
    """
    # uint64 holds the products; & keeps 32 bits, as JavaScript's Math.imul does
    low = np.uint64(0xFFFFFFFF)
    state = (np.uint64(seed) + np.arange(1, n + 1, dtype=np.uint64) * np.uint64(0x6D2B79F5)) & low
    z = (state ^ (state >> np.uint64(15))) * (state | np.uint64(1)) & low
    z ^= (z + (z ^ (z >> np.uint64(7))) * (z | np.uint64(61))) & low
    return ((z ^ (z >> np.uint64(14))) & low) / 2.0**32


class Lookups(NamedTuple):
    """Random lookups of 64 queries in 16 shared keys."""

    scores: np.ndarray
    """``(64, 16)``, dot products of queries and keys."""
    values: np.ndarray
    """``(16,)``, the keys' values."""
    between: np.ndarray
    """``(16, 16)``, dot products of the keys with each other."""


def draw_lookups(d_k: int, seed: int) -> Lookups:
    """Draw queries, keys and values from N(0, 1).

    >>> [numbers.shape for numbers in draw_lookups(4, seed=1)]
    [(64, 16), (16,), (16, 16)]
    """
    n = (KEYS + QUERIES) * d_k + KEYS  # even, since Box-Muller turns two uniform numbers into two
    u = uniform(seed, n)
    radius, angle = np.sqrt(-2 * np.log(1 - u[0::2])), 2 * np.pi * u[1::2]
    normal = np.stack((radius * np.cos(angle), radius * np.sin(angle)), -1).ravel()
    vectors, values = normal[:-KEYS].reshape(-1, d_k), normal[-KEYS:]
    keys, queries = vectors[:KEYS], vectors[KEYS:]
    return Lookups(queries @ keys.T, values, keys @ keys.T)


class Measures(NamedTuple):
    """What the softmax does to the scores; see `measure`."""

    spread: float
    largest: float
    entropy: float
    typical: float
    average: float


def measure(lookups: Lookups, scale: float = 1.0) -> Measures:
    """Measure a softmax over the keys of scale · scores.

    ``spread`` is the standard deviation of all scores. ``largest`` weight and ``entropy``, in bits,
    are means over the queries. An answer a = Σ w v has the gradient scale · Σ w (v - a) · key at
    its query: ``typical`` is the (lower) median of its length over the queries, ``average`` the
    mean.

    >>> measure(Lookups(np.zeros((1, 16)), np.arange(16.0), np.zeros((16, 16))))[:3]
    (0.0, 0.0625, 4.0)
    """
    scores, values, between = lookups
    powers = np.exp(scale * (scores - scores.max(-1, keepdims=True)))
    weights = powers / powers.sum(-1, keepdims=True)
    bits = np.where(weights > 0, -weights * np.log2(np.where(weights > 0, weights, 1)), 0).sum(-1)
    parts = weights * (values - (weights @ values)[:, None])
    gradients = scale * np.sqrt(np.maximum((parts @ between * parts).sum(-1), 0))
    typical = np.sort(gradients)[(len(gradients) - 1) // 2]
    means = (scale * scores.std(), weights.max(-1).mean(), bits.mean(), typical, gradients.mean())
    return Measures(*map(float, means))


class ScaleMeter(LiveFigure):
    """Scores of random vectors, their softmax, and the gradient at the query.

    Args:
        d_k: width of queries and keys: a power of two from 2 to 1024.
        scaled: whether to divide scores by √d_k.
        seed: seed of the draw, 1 to 9999.

    Raises:
        ValueError: a ``d_k`` that isn't such a power, or a ``seed`` out of range.

    >>> ScaleMeter(d_k=1024)
    ScaleMeter(d_k=1024, scaled=False, seed=1)
    """

    _esm = compose("scale_meter.js")
    _css = dress("scale_meter.css")
    shown = ("d_k", "scaled", "seed")

    d_k = Number(64, low=2, high=1024, whole=True)
    scaled = traitlets.Bool(False).tag(sync=True)
    seed = Number(1, low=1, high=9999, whole=True)

    @traitlets.validate("d_k")
    def _power_of_two(self, proposal: Any) -> int:
        if proposal["value"].bit_count() != 1:
            raise ValueError(f"d_k must be a power of two; got {proposal['value']}")
        return proposal["value"]
