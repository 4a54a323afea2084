"""PositionsExplorer: positions told by added waves, or by turning pairs (chapter 10)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import traitlets

from .base import LiveFigure, Number, OneOf, compose, dress

if TYPE_CHECKING:
    pass


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
