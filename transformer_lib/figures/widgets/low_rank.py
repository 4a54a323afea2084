"""LowRank: how much a change of low rank can hold (chapter 20)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import traitlets

from .base import MADE_UP, LiveFigure, Number, compose, dress
from .scale_meter import uniform

if TYPE_CHECKING:
    from torch import Tensor

MOST = 96
FINEST = 999  # the largest number of the stored change


def made_up() -> np.ndarray:
    """Return a matrix ``(24, 32)`` made of three patterns and some noise."""
    i, j = np.arange(24)[:, None], np.arange(32)
    patterns = (
        3 * np.sin(0.31 * i + 0.4) * np.cos(0.55 * j)
        + 2 * np.cos(0.83 * i) * np.sin(0.2 * j + 1)
        + np.sin(1.7 * i + 2) * np.sin(1.1 * j)
    )
    return patterns + 3 * (uniform(7, 24 * 32).reshape(24, 32) - 0.5)


def shuffled(matrix: np.ndarray) -> np.ndarray:
    """Return the numbers shuffled, in the same order as in the page."""
    numbers = matrix.flatten()
    for i, chance in zip(range(len(numbers) - 1, 0, -1), uniform(1, len(numbers) - 1), strict=True):
        j = int(chance * (i + 1))
        numbers[[i, j]] = numbers[[j, i]]
    return numbers.reshape(matrix.shape)


class LowRank(LiveFigure):
    r"""A matrix of changes next to its best approximation of rank :math:`r`.

    With the singular values :math:`\sigma_1 \ge \sigma_2 \ge \dots` and their vectors, the nearest
    matrix of rank :math:`r` and its share of the sum of squares are

    .. math:: \sum_{k=1}^{r} \sigma_k u_k v_k^T, \quad
              \sum_{k=1}^{r} \sigma_k^2 \Big/ \sum_k \sigma_k^2

    As a product of two thin matrices it takes :math:`r (m + n)` numbers instead of :math:`m n`.
    The control is a matrix of the same numbers, shuffled.

    Args:
        change: ``(m, n)``, 2 to 96 each: a weight matrix after fine-tuning minus before. Its
            numbers are rounded to a 999th of the largest. A made-up matrix if None.
        rank: from 0 to the smaller of m and n.
        shuffled: whether to show the shuffled numbers.

    Raises:
        TypeError: a change that isn't a matrix of numbers.
        ValueError: a change with too few or too many rows or columns, all zeros, or a number that
            isn't finite; a rank out of range.

    Source:
        Eckart and Young (1936), *The Approximation of One Matrix by Another of Lower Rank*;
        Hu et al. (2022), *LoRA: Low-Rank Adaptation of Large Language Models*.

    >>> figure = LowRank([[3, 0, 0], [0, 2, 0], [0, 0, 1]], rank=1)
    >>> figure
    LowRank(rank=1, shuffled=False)
    >>> round(figure.share(), 3)
    0.643
    """

    _esm = compose("low_rank.js")
    _css = dress("low_rank.css")
    shown = ("rank", "shuffled")

    rows = traitlets.List(traitlets.Unicode()).tag(sync=True)  # as text: one line per row in JSON
    rank = Number(4, low=0, high=MOST, whole=True)
    shuffled = traitlets.Bool(False).tag(sync=True)

    def __init__(self, change: Any = None, **state: Any) -> None:
        if "rows" in state:
            raise TypeError("rows can't be given: they are made from change")
        matrix = made_up() if change is None else _matrix(change)
        stored = np.rint(matrix * (FINEST / np.abs(matrix).max())).astype(int)
        if change is None:
            state.setdefault("note", MADE_UP)
        if "rank" not in state:
            state["rank"] = min(4, *matrix.shape)
        super().__init__(rows=[" ".join(map(str, row)) for row in stored], **state)
        if self.rank > min(matrix.shape):
            raise ValueError(
                f"rank must be at most {min(matrix.shape)}, the smaller side; got {self.rank}"
            )

    def numbers(self) -> np.ndarray:
        """Return the stored change, ``(m, n)``."""
        return np.array([row.split() for row in self.rows], dtype=float)

    def matrix(self) -> Tensor:
        """Return the matrix shown, ``(m, n)``, shuffled or not."""
        import torch

        numbers = self.numbers()
        return torch.from_numpy(shuffled(numbers) if self.shuffled else numbers)

    def shares(self) -> list[float]:
        """Return each rank's share of the sum of squares, from rank 0 on."""
        import torch

        squares = torch.linalg.svdvals(self.matrix()) ** 2
        return [0.0, *(squares.cumsum(0) / squares.sum()).tolist()]

    def share(self) -> float:
        """Return the chosen rank's share of the sum of squares."""
        return self.shares()[self.rank]


def _matrix(change: Any) -> np.ndarray:
    """Check the change and return it as a matrix of floats."""
    if hasattr(change, "detach"):
        change = change.detach().cpu().float()
    try:
        matrix = np.asarray(change, dtype=float)
    except (TypeError, ValueError):
        raise TypeError(f"change must be a matrix of numbers; got {change!r}") from None
    if matrix.ndim != 2 or not all(2 <= side <= MOST for side in matrix.shape):
        raise ValueError(f"change must have two axes of 2 to {MOST}; got {matrix.shape}")
    if not np.isfinite(matrix).all():
        raise ValueError("change must be finite; got NaN or infinity")
    if not matrix.any():
        raise ValueError("change must not be all zeros")
    return matrix
