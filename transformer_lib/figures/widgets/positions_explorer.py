"""PositionsExplorer: positions told by added waves, or by turning pairs (chapter 10)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import traitlets

from .. import style
from .base import LiveFigure, Number, OneOf, compose, dress

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

DIALS = 6


def content(d_head: int) -> tuple[np.ndarray, np.ndarray]:
    """Return a made-up query and key ``(d_head,)``, with an arrow of length 1 in each pair.

    Pairs are features ``i`` and ``i + d_head / 2``, as in
    :class:`~transformer_lib.positions.RotaryPositions`.

    >>> query, key = content(4)
    >>> query.round(2).tolist(), key.round(2).tolist()
    ([1.0, 0.54, 0.0, 0.84], [0.36, 0.66, 0.93, 0.75])
    """
    pair = np.arange(d_head // 2)
    first, second = 1.0 * pair, 1.0 * pair + 1.2 * np.cos(1.7 * pair)
    arrows = (np.concatenate((np.cos(turn), np.sin(turn))) for turn in (first, second))
    return next(arrows), next(arrows)


class PositionsExplorer(LiveFigure):
    """The table of waves, and rotary's turning pairs: dot products that depend on the distance.

    Args:
        view: ``"waves"`` (sinusoidal positions) or ``"rotary"``.
        d_model: width of a position vector, or of the rotary query and key; even, 2 to 256.
        length: 8 to 128 positions.
        first: position *a*, the query's in the rotary view; from 0.
        second: position *b*, the key's in the rotary view; from 0.

    Raises:
        ValueError: a number out of range, an odd ``d_model``, or a position that isn't below
            ``length``.

    Source:
        Vaswani et al. (2017), section 3.5; Su et al. (2021), *RoFormer*, section 3.4.2.

    >>> PositionsExplorer(view="rotary", first=3)
    PositionsExplorer(view='rotary', d_model=64, length=64, first=3, second=27)
    """

    _esm = compose("positions_explorer.js")
    _css = dress("positions_explorer.css")
    shown = ("view", "d_model", "length", "first", "second")

    view = OneOf("waves", "rotary")
    d_model = Number(64, low=2, high=256, whole=True)
    length = Number(64, low=8, high=128, whole=True)
    first = Number(20, low=0, high=127, whole=True)
    second = Number(27, low=0, high=127, whole=True)

    def __init__(self, **numbers: Any) -> None:
        super().__init__(**numbers)
        for name in ("first", "second"):
            if getattr(self, name) >= self.length:
                raise ValueError(
                    f"{name} must be below length, {self.length}; got {getattr(self, name)}"
                )

    @traitlets.validate("d_model")
    def _even(self, proposal: Any) -> int:
        if proposal["value"] % 2:
            raise ValueError(f"d_model must be even; got {proposal['value']}")
        return proposal["value"]

    def table(self) -> np.ndarray:
        """Return the position vectors ``(length, d_model)``: the library's sinusoidal ones."""
        from ...positions import SinusoidalPositions

        waves = SinusoidalPositions(d_model=self.d_model, max_len=self.length)
        return waves.table.numpy()

    def turned(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the query and the key rotated to every position, each ``(length, d_model)``."""
        import torch

        from ...positions import RotaryPositions

        rotary = RotaryPositions(d_head=self.d_model, max_len=self.length)
        vectors = torch.tensor(np.stack(content(self.d_model)), dtype=torch.float32)
        query, key = rotary(vectors[None, :, None].expand(1, 2, self.length, -1))[0].numpy()
        return query, key

    def dots(self) -> np.ndarray:
        """Return the dot product at each distance ``second - first``, from ``1 - length`` on."""
        first, second = self.turned() if self.view == "rotary" else (self.table(),) * 2
        return np.concatenate((first[:0:-1] @ second[0], second @ first[0]))

    def draw(self) -> Figure:
        from matplotlib.figure import Figure

        figure = Figure(figsize=(6.4, 3.2), dpi=110)
        left, right = figure.subplots(1, 2)
        (self._draw_dials if self.view == "rotary" else self._draw_table)(left)
        dots, last = self.dots(), self.length - 1
        distance = self.second - self.first
        right.plot(np.arange(-last, last + 1), dots, color=style.ACCENT, lw=1.5)
        right.set_ylim(min(0, dots.min() * 1.1), dots.max() * 1.05)
        right.axvline(0, color=style.QUIET, lw=0.8, ls="--")
        right.plot(distance, dots[last + distance], "o", color=style.PALETTE[3], mec=style.CARD)
        right.set(
            xlabel="distance, b − a",
            title=f"{distance} apart: dot product {dots[last + distance]:.2f}".replace("-", "−"),
        )
        return figure

    def _draw_table(self, ax: Axes) -> None:
        from matplotlib.colors import LinearSegmentedColormap

        ends = [style.PALETTE[0], style.CARD, style.PALETTE[2]]
        colors = LinearSegmentedColormap.from_list("waves", ends)
        ax.imshow(self.table(), cmap=colors, vmin=-1, vmax=1, aspect="auto")
        ax.grid(False)
        marks = (("a", self.first, style.INK, 1.02), ("b", self.second, style.PALETTE[3], 1.1))
        for name, position, color, side in marks:
            ax.axhline(position, color=color, lw=2)
            ax.text(
                side, position, name, transform=ax.get_yaxis_transform(), color=color,
                weight="bold", va="center",
            )  # fmt: skip
        ax.set(xlabel="dimension", ylabel="position", title="waves, fast to slow")

    def _draw_dials(self, ax: Axes) -> None:
        query, key = self.turned()
        pairs = self.d_model // 2
        shown = np.unique(np.linspace(0, pairs - 1, min(DIALS, pairs)).round().astype(int))
        for n, i in enumerate(shown):
            x, y = 2.6 * (n % 3), -3.0 * (n // 3)
            turn = np.linspace(0, 2 * np.pi, 60)
            ax.plot(x + np.cos(turn), y + np.sin(turn), color=style.LINE, lw=1)
            for vector, color in (
                (query[self.first], style.INK),
                (key[self.second], style.PALETTE[3]),
            ):
                tip = (x + float(vector[i]), y + float(vector[i + pairs]))
                ax.annotate("", tip, (x, y), arrowprops={"arrowstyle": "->", "color": color})
            ax.text(x, y - 1.1, f"pair {i + 1}", ha="center", va="top", fontsize=8)
        ax.set(xlim=(-1.3, 6.5), ylim=(-4.6, 1.2), aspect="equal", title="query at a, key at b")
        ax.axis("off")
