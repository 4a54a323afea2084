"""ScaleMeter: what long vectors do to the softmax (chapter 2)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import traitlets

from .. import style
from .base import LiveFigure, Number, compose, dress

if TYPE_CHECKING:
    from matplotlib.figure import Figure

KEYS, QUERIES = 16, 64


def uniform(seed: int, n: int) -> np.ndarray:
    """Return ``n`` numbers in [0, 1): the generator of the page (mulberry32), the same bits.

    >>> uniform(1, 2).round(6).tolist()
    [0.627074, 0.002736]
    """
    # uint64 holds the products; & keeps 32 bits, as Math.imul does
    low = np.uint64(0xFFFFFFFF)
    state = (np.uint64(seed) + np.arange(1, n + 1, dtype=np.uint64) * np.uint64(0x6D2B79F5)) & low
    z = (state ^ (state >> np.uint64(15))) * (state | np.uint64(1)) & low
    z ^= (z + (z ^ (z >> np.uint64(7))) * (z | np.uint64(61))) & low
    return ((z ^ (z >> np.uint64(14))) & low) / 2.0**32


def draw_scores(d_k: int, seed: int) -> np.ndarray:
    """Return the scores ``(64, 16)`` of random queries with random keys, components from N(0, 1).

    >>> draw_scores(4, seed=1).shape
    (64, 16)
    """
    n = (KEYS + QUERIES) * d_k  # even: Box and Muller make two normal numbers of two uniform ones
    u = uniform(seed, n)
    radius, angle = np.sqrt(-2 * np.log(1 - u[0::2])), 2 * np.pi * u[1::2]
    normal = np.stack((radius * np.cos(angle), radius * np.sin(angle)), -1).reshape(-1, d_k)
    return normal[KEYS:] @ normal[:KEYS].T


class Measures(NamedTuple):
    """Means over the queries; ``spread`` is the standard deviation of all scores."""

    spread: float
    largest: float
    entropy: float
    gradient: float


def measure(scores: np.ndarray) -> Measures:
    """Return what a softmax over the keys makes of ``(queries, keys)`` scores.

    Entropy is in bits. The gradient that is left is 1 - Σ w², the trace of the softmax's Jacobian
    diag(w) - w wᵀ: near 1 while the weights can move, 0 once one key has all the weight.

    >>> measure(np.zeros((1, 16)))
    Measures(spread=0.0, largest=0.0625, entropy=4.0, gradient=0.9375)
    """
    powers = np.exp(scores - scores.max(-1, keepdims=True))
    weights = powers / powers.sum(-1, keepdims=True)
    bits = np.where(weights > 0, -weights * np.log2(np.where(weights > 0, weights, 1)), 0).sum(-1)
    gradient = 1 - (weights**2).sum(-1)
    means = (scores.std(), weights.max(-1).mean(), bits.mean(), gradient.mean())
    return Measures(*map(float, means))


class ScaleMeter(LiveFigure):
    """Scores of random vectors, their softmax, and the gradient that is left.

    Args:
        d_k: length of queries and keys: a power of two from 2 to 1024.
        scaled: whether scores are divided by √d_k.
        seed: which draw, 1 to 9999.

    Raises:
        ValueError: ``d_k`` is not one of these powers, or ``seed`` is outside its limits.

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

    def draw(self) -> Figure:
        from matplotlib.figure import Figure

        scores = draw_scores(self.d_k, self.seed) * (self.d_k**-0.5 if self.scaled else 1.0)
        numbers = measure(scores)
        first = np.exp(scores[0] - scores[0].max())
        figure = Figure(figsize=(6.4, 2.9), dpi=110)
        left, right = figure.subplots(1, 2)
        left.hist(scores.ravel(), bins=np.linspace(-120, 120, 121), color=style.ACCENT)
        left.set(xlim=(-120, 120), xlabel="score", ylabel="how often", xticks=range(-120, 121, 60))
        right.bar(range(1, KEYS + 1), first / first.sum(), color=style.ACCENT)
        right.axhline(1 / KEYS, color=style.QUIET, ls="--", lw=1)
        right.set(
            ylim=(0, 1),
            xlabel="key, for the first query",
            ylabel="weight",
            xticks=(1, 4, 8, 12, 16),
        )
        how = "divided by √d_k" if self.scaled else "as they are"
        figure.suptitle(
            f"d_k = {self.d_k}, scores {how}: spread {numbers.spread:.1f}, "
            f"entropy {numbers.entropy:.1f} of 4 bits, "
            f"gradient left {numbers.gradient:.2f} of 0.94",
            fontsize=10,
        )
        return figure
