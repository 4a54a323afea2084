"""MaskPainter: what happens to hidden scores, and to a row without any keys (chapter 5)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple

import traitlets

from .. import style
from .base import LiveFigure, Numbers, OneOf, compose, dress, same_length

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from torch import Tensor

PAD = "<pad>"
ALARM = "#b3001b"
PLACES = ("before", "after", "renormalized")
FILLS = ("-inf", "smallest", "zeros")


class Layer(NamedTuple):
    """What a layer of self-attention computes."""

    scores: Tensor  # (T, T)
    masked: Tensor  # (T, T), the softmax's input
    weights: Tensor  # (T, T)
    output: Tensor  # (T, d)


def layer(x: Tensor, mask: Tensor, *, place: str, fill: str) -> Layer:
    """Compute a layer of self-attention with the mask in one of several places.

    ``place="before", fill="zeros"`` is :func:`transformer_lib.attention`, with ``x`` as queries,
    keys and values.

    Args:
        x: ``(T, d)``.
        mask: bool ``(T, T)``, True = may attend.
        place: ``"before"`` the softmax, ``"after"`` it, or ``"renormalized"``: after it, and then
            each row is divided by its sum.
        fill: what hidden scores become before the softmax: ``"-inf"``, the ``"smallest"`` number,
            or ``"zeros"``: the smallest number, and then zero weights for a row without any keys.
    """
    import torch

    scores = x @ x.T / x.size(-1) ** 0.5
    masked = scores
    if place == "before":
        filler = -torch.inf if fill == "-inf" else torch.finfo(torch.float32).min
        masked = scores.masked_fill(~mask, filler)
    weights = masked.softmax(-1)
    if place != "before" or fill == "zeros":
        weights = weights.masked_fill(~mask, 0.0)
    if place == "renormalized":
        weights = weights / weights.sum(-1, keepdim=True)
    return Layer(scores, masked, weights, weights @ x)


class Mask(traitlets.TraitType):
    """A square mask as text, ``"100-110-111"``: a row per query, 1 = may attend.

    Bool tensors, arrays and nested lists become such text.
    """

    def __init__(self, default: str) -> None:
        super().__init__(default_value=default)
        self.tag(sync=True)

    def validate(self, obj: Any, value: Any) -> str:
        if hasattr(value, "tolist"):
            value = value.tolist()
        if isinstance(value, (list, tuple)):
            rows = [list(row) if isinstance(row, (list, tuple)) else [row] for row in value]
            for i, row in enumerate(rows):
                for j, may in enumerate(row):
                    if not isinstance(may, bool):
                        raise TypeError(f"mask[{i}][{j}] must be True or False; got {may!r}")
            value = "-".join("".join(str(int(may)) for may in row) for row in rows)
        if not isinstance(value, str):
            raise TypeError(f"mask must be rows of True and False, or a string; got {value!r}")
        rows = value.split("-")
        if not all(re.fullmatch("[01]+", row) and len(row) == len(rows) for row in rows):
            raise ValueError(f"mask must be a square of 0 and 1, such as '10-11'; got {value!r}")
        return value


class MaskPainter(LiveFigure):
    """A mask to paint; scores, weights and a second layer show its effect.

    Queries, keys and values are the words' vectors themselves, in both layers. The default is a
    short sequence, padded on the left as for a decoder-only model, with a causal and a padding
    mask: its first positions can't attend to anything.

    Args:
        words: the sentence, 2 to 8 words; ``"<pad>"`` is padding.
        vectors: ``(T, d)``, from -10 to 10, the words' vectors.
        mask: bool ``(T, T)``, True = may attend, or the same as text, ``"100-110-111"``; causal
            and padding mask by default.
        place: where to apply the mask, as in the module's ``layer``.
        fill: what hidden scores become before the softmax, as there; ``"zeros"`` is the library's
            rule.

    Raises:
        TypeError, ValueError: something that isn't a mask, a number out of range, or lists of
            different lengths.

    >>> from transformer_lib import local_mask
    >>> MaskPainter(mask=local_mask(6, window=1), fill="zeros")
    MaskPainter(mask='110000-111000-011100-001110-000111-000011', place='before', fill='zeros')
    """

    _esm = compose("mask_painter.js")
    _css = dress("mask_painter.css")
    shown = ("mask", "place", "fill")

    words = traitlets.List(traitlets.Unicode(), [PAD, PAD, "the", "cat", "eats", "fish"], 2, 8).tag(
        sync=True
    )
    vectors = Numbers(
        [[1, 1], [1, 1], [-0.5, 1.5], [1, -1], [2, 0.5], [0.5, -2]],
        depth=2,
        low=-10,
        high=10,
    )
    mask = Mask("000000-000000-001000-001100-001110-001111")
    place = OneOf(*PLACES)
    fill = OneOf(*FILLS)

    def __init__(self, **numbers: Any) -> None:
        words = numbers.get("words", ())
        causal = [
            [j <= i and word != PAD for j, word in enumerate(words)] for i in range(len(words))
        ]
        super().__init__(**({"mask": causal} if words else {}) | numbers)
        same_length(self, ("words", "vectors"))
        for i, vector in enumerate(self.vectors):
            if not 0 < len(vector) == len(self.vectors[0]):
                raise ValueError(
                    f"vectors[{i}] must have as many numbers as vectors[0], at least 1; "
                    f"got {len(vector)}"
                )
        rows = len(self.mask.split("-"))
        if rows != len(self.words):
            raise ValueError(
                f"mask must have one row for each of {len(self.words)} words; got {rows}"
            )

    def layers(self) -> tuple[Layer, Layer]:
        """Return both layers."""
        import torch

        mask = torch.tensor([[bit == "1" for bit in row] for row in self.mask.split("-")])
        how = {"place": self.place, "fill": self.fill}
        first = layer(torch.tensor(self.vectors, dtype=torch.float), mask, **how)
        return first, layer(first.output, mask, **how)

    def draw(self) -> Figure:
        import numpy as np
        from matplotlib.figure import Figure

        first, second = self.layers()
        hidden = np.array([[bit == "0" for bit in row] for row in self.mask.split("-")])
        size = max(1.0, first.scores.abs().max().item())
        n, d = len(self.words), len(self.vectors[0])
        figure = Figure(figsize=(7.4, 5), dpi=110)
        (upper,), (lower,) = figure.subfigures(2, squeeze=False)
        grid, masked, weights = upper.subplots(1, 3, width_ratios=(n, n, n + 1.4))
        output, weights2, output2 = lower.subplots(1, 3, width_ratios=(d, n + 1.4, d))
        _table(grid, first.scores, "scores, mask", size=size, hidden=hidden, words=self.words)
        if self.place == "before":
            _table(masked, first.masked, "masked scores", size=size)
        else:
            _table(masked, first.masked.softmax(-1), "softmax of all scores")
        _table(weights, first.weights, "weights, sum", sums=True)
        _table(output, first.output, "output", size=2, words=self.words)
        _table(weights2, second.weights, "layer 2: weights, sum", sums=True)
        _table(output2, second.output, "output", size=2)
        return figure


def _table(
    ax: Axes,
    values: Tensor,
    title: str,
    *,
    size: float = 1.0,
    hidden: Any = None,
    sums: bool = False,
    words: list[str] | None = None,
) -> None:
    """Draw numbers as tinted cells: NaN in red, hidden cells hatched."""
    import numpy as np
    from matplotlib.patches import Rectangle

    from ..plots import ink_on

    table = values.numpy()
    tint = np.where(abs(table) < 1e9, table / size, 0)
    image = ax.imshow(tint, cmap="RdBu", vmin=-1.6, vmax=1.6, aspect="equal")
    ax.grid(False)
    ax.spines[:].set_visible(False)
    ax.tick_params(length=0)
    ax.set_title(title, loc="left")
    ax.set_xticks([])
    ax.set_yticks(range(len(table)), words or [""] * len(table))
    for (i, j), x in np.ndenumerate(table):
        if np.isnan(x) or (hidden is not None and hidden[i, j]):
            face = ALARM if np.isnan(x) else style.CARD
            hatch = None if np.isnan(x) else "////"
            ax.add_patch(
                Rectangle((j - 0.5, i - 0.5), 1, 1, fc=face, ec=style.LINE, lw=0.5, hatch=hatch)
            )
        ink = "white" if np.isnan(x) else ink_on(image.cmap(image.norm(tint[i, j])))
        ax.text(j, i, _short(x), ha="center", va="center", fontsize=7, color=ink)
    if sums:
        ax.set_xlim(-0.5, table.shape[1] + 0.9)
        for i, total in enumerate(table.sum(-1)):
            ax.text(table.shape[1] + 0.2, i, _short(total), ha="center", va="center", fontsize=7)


def _short(x: float) -> str:
    if x < -1e38:
        return "−∞" if x == -float("inf") else "min"
    text = "NaN" if x != x else "0" if x == 0 else f"{x:.2f}" if abs(x) < 0.995 else f"{x:.1f}"
    return re.sub("^(-?)0[.]", r"\1.", text).replace("-", "−")
