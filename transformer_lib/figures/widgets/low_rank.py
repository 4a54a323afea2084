"""LowRank: how much a change of low rank can say (chapter 20)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import traitlets

from .. import style
from .base import LiveFigure, Number, compose, dress
from .scale_meter import uniform

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from torch import Tensor

MOST = 96
FINEST = 999  # the largest change, in the units that are stored


def made_up() -> np.ndarray:
    """Return a matrix ``(24, 32)`` of three patterns and some noise."""
    i, j = np.arange(24)[:, None], np.arange(32)
    patterns = (
        3 * np.sin(0.31 * i + 0.4) * np.cos(0.55 * j)
        + 2 * np.cos(0.83 * i) * np.sin(0.2 * j + 1)
        + np.sin(1.7 * i + 2) * np.sin(1.1 * j)
    )
    return patterns + 3 * (uniform(7, 24 * 32).reshape(24, 32) - 0.5)


def shuffled(matrix: np.ndarray) -> np.ndarray:
    """Return the same numbers in other places, the same as in the page."""
    numbers = matrix.flatten()
    for i, chance in zip(range(len(numbers) - 1, 0, -1), uniform(1, len(numbers) - 1), strict=True):
        j = int(chance * (i + 1))
        numbers[[i, j]] = numbers[[j, i]]
    return numbers.reshape(matrix.shape)


class LowRank(LiveFigure):
    r"""A matrix of changes beside its best approximation of rank :math:`r`.

    With the singular values :math:`\sigma_1 \ge \sigma_2 \ge \dots` and their vectors, the nearest
    matrix of rank :math:`r`, and the share of the sum of squares that it catches, are

    .. math:: \sum_{k=1}^{r} \sigma_k u_k v_k^T, \quad
              \sum_{k=1}^{r} \sigma_k^2 \Big/ \sum_k \sigma_k^2

    A product of two thin matrices that says it has :math:`r (m + n)` numbers instead of
    :math:`m n`. As a control, the same numbers are shuffled: then nothing but their sizes is left.

    Args:
        change: ``(m, n)``, 2 to 96 each: a weight matrix after fine-tuning minus the same before.
            Its numbers are kept to a 999th of the largest. A matrix made up by hand if None.
        rank: from 0 to the smaller of m and n.
        shuffled: whether the shuffled numbers are shown.

    Raises:
        TypeError: a change that is no matrix of numbers.
        ValueError: a change too small or too large, without any change, or with a number that is
            not finite; a rank outside its limits.

    Source:
        Eckart and Young (1936), *The Approximation of One Matrix by Another of Lower Rank*;
        Hu et al. (2022), *LoRA: Low-Rank Adaptation of Large Language Models*.

    >>> figure = LowRank([[3, 0, 0], [0, 2, 0], [0, 0, 1]], rank=1)
    >>> figure
    LowRank(rank=1, shuffled=False)
    >>> round(figure.share(), 3), figure.trained()
    (0.643, 6)
    """

    _esm = compose("low_rank.js")
    _css = dress("low_rank.css")
    shown = ("rank", "shuffled")

    rows = traitlets.List(traitlets.Unicode()).tag(sync=True)  # as text, a line each in a notebook
    rank = Number(4, low=0, high=MOST, whole=True)
    shuffled = traitlets.Bool(False).tag(sync=True)

    def __init__(self, change: Any = None, **state: Any) -> None:
        if "rows" in state:
            raise TypeError("rows are made of change, and cannot be given")
        matrix = made_up() if change is None else _matrix(change)
        stored = np.rint(matrix * (FINEST / np.abs(matrix).max())).astype(int)
        if change is None:
            state.setdefault("note", "Stand-in numbers, made up to show how the figure works.")
        if "rank" not in state:
            state["rank"] = min(4, *matrix.shape)
        super().__init__(rows=[" ".join(map(str, row)) for row in stored], **state)
        if self.rank > min(matrix.shape):
            raise ValueError(
                f"rank must be at most {min(matrix.shape)}, the smaller side; got {self.rank}"
            )

    def numbers(self) -> np.ndarray:
        """Return the change, ``(m, n)``; its largest number is 999."""
        return np.array([row.split() for row in self.rows], dtype=float)

    def matrix(self) -> Tensor:
        """Return what is shown, ``(m, n)``, shuffled or not."""
        import torch

        numbers = self.numbers()
        return torch.from_numpy(shuffled(numbers) if self.shuffled else numbers)

    def approximation(self) -> Tensor:
        """Return the matrix of the chosen rank that is nearest to what is shown, ``(m, n)``."""
        import torch

        left, values, right = torch.linalg.svd(self.matrix(), full_matrices=False)
        r = self.rank
        return left[:, :r] * values[:r] @ right[:r]

    def shares(self) -> list[float]:
        """Return which share of the sum of squares each rank from 0 on catches."""
        return _shares(self.matrix())

    def share(self) -> float:
        """Return which share of the sum of squares the chosen rank catches."""
        return self.shares()[self.rank]

    def trained(self) -> int:
        """Return how many numbers a product of that rank has."""
        return self.rank * sum(self.numbers().shape)

    def draw(self) -> Figure:
        from matplotlib.colors import LinearSegmentedColormap
        from matplotlib.figure import Figure

        ends = [style.PALETTE[0], style.CARD, style.PALETTE[2]]  # those of the page
        colours = LinearSegmentedColormap.from_list("change", ends)
        figure = Figure(figsize=(6.4, 2.9), dpi=110)
        *maps, graph = figure.subplots(1, 3, width_ratios=(1, 1, 1.2))
        table, numbers = self.matrix(), self.numbers()
        most = 3 * float(table.square().mean().sqrt())
        tables = (
            ("shuffled" if self.shuffled else "the change", table),
            (f"rank {self.rank}", self.approximation()),
        )
        for ax, (title, shown) in zip(maps, tables, strict=True):
            ax.imshow(shown.numpy(), cmap=colours, vmin=-most, vmax=most)
            ax.set(title=title, xticks=[], yticks=[])
            ax.grid(False)
        for name, matrix, color, look in (
            ("the change", numbers, style.ACCENT, "-"),
            ("shuffled", shuffled(numbers), style.QUIET, "--"),
        ):
            graph.plot(_shares(matrix), look, color=color, label=name)
        graph.plot(self.rank, self.share(), "o", color=style.INK)
        graph.set(xlabel="rank", ylim=(0, 1), title="share caught")
        graph.legend(fontsize=8)
        m, n = numbers.shape
        figure.suptitle(
            f"Rank {self.rank}: {100 * self.share():.1f} % is caught, "
            f"with {self.trained():,} numbers instead of {m * n:,}",
            fontsize=10,
        )
        return figure


def _shares(matrix: Tensor | np.ndarray) -> list[float]:
    """Which share of the sum of squares each rank from 0 on catches."""
    import torch

    squares = torch.linalg.svdvals(torch.as_tensor(matrix)) ** 2
    return [0.0, *(squares.cumsum(0) / squares.sum()).tolist()]


def _matrix(change: Any) -> np.ndarray:
    """The change as a matrix of floats, if it is one that can be shown."""
    if hasattr(change, "detach"):
        change = change.detach().cpu().float()
    try:
        matrix = np.asarray(change, dtype=float)
    except (TypeError, ValueError):
        raise TypeError(f"change must be a matrix of numbers; got {change!r}") from None
    if matrix.ndim != 2 or not all(2 <= side <= MOST for side in matrix.shape):
        raise ValueError(f"change must have two axes of 2 to {MOST}; got {matrix.shape}")
    if not np.isfinite(matrix).all():
        raise ValueError("change must be finite; got a number that is not")
    if not matrix.any():
        raise ValueError("change must have a number that is not 0")
    return matrix
