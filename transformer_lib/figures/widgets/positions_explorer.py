"""PositionsExplorer: positions told by added waves, or by turning pairs (chapter 10)."""

from typing import Any

import traitlets

from .base import LiveFigure, Number, OneOf, compose, dress


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
