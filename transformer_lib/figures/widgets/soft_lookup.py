"""SoftLookup: a dictionary that answers "almost" (chapter 1)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import traitlets

from .. import style
from .base import LiveFigure, Number, Numbers, OneOf, compose, dress, same_length

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LIKENESS = ("dot", "cosine", "distance")


def soft_lookup(
    query: Any, keys: Any, values: Any, *, temperature: float = 1.0, likeness: str = "dot"
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Look up one or more queries among keys.

    weights = softmax(scores / temperature), answer = weights · values. At temperature 0, the limit,
    the best keys share all the weight.

    Args:
        query: ``(…, d)``.
        keys: ``(S, d)``.
        values: ``(S,)``.
        temperature: the softmax's temperature.
        likeness: ``"dot"`` product, ``"cosine"``, or minus the squared ``"distance"``.

    Returns:
        Scores ``(…, S)``, weights ``(…, S)`` and the answer ``(…)``.

    >>> scores, weights, answer = soft_lookup((2.0, 0.2), [(2, 1), (2, -1), (-2, 0)], (10, 5, 2))
    >>> scores.round(1).tolist(), weights.round(2).tolist(), answer.round(1).item()
    ([4.2, 3.8, -4.0], [0.6, 0.4, 0.0], 8.0)
    """
    query, keys, values = (np.asarray(x, dtype=float) for x in (query, keys, values))
    if likeness == "distance":
        scores = -((query[..., None, :] - keys) ** 2).sum(-1)
    else:
        scores = query @ keys.T
    if likeness == "cosine":
        lengths = np.linalg.norm(query, axis=-1)[..., None] * np.linalg.norm(keys, axis=-1)
        scores = np.where(lengths > 0, scores / np.where(lengths > 0, lengths, 1), 0.0)
    above = scores - scores.max(-1, keepdims=True)
    powers = np.exp(above / temperature) if temperature > 0 else (above == 0).astype(float)
    weights = powers / powers.sum(-1, keepdims=True)
    return scores, weights, weights @ values


class SoftLookup(LiveFigure):
    """A query among keys on a plane: drag it, and the weights and the answer follow.

    Args:
        words: names of the keys.
        key_vectors: ``(S, 2)``, first numbers from -3 to 3, second ones from -2 to 2.
        values: ``(S,)``, the keys' values.
        query: ``(2,)``, within the same limits.
        temperature: 0 to 10, by which scores are divided. 0 is the limit, a strict lookup.
        likeness: ``"dot"``, ``"cosine"`` or ``"distance"`` (minus the squared distance).
        query_word: name of the query.
        features: names of the two axes.

    Raises:
        ValueError: a number out of range, or lists of different lengths.

    >>> SoftLookup(temperature=0)
    SoftLookup(query=(2.0, 0.2), temperature=0.0, likeness='dot')
    """

    _esm = compose("soft_lookup.js")
    _css = dress("soft_lookup.css")
    shown = ("query", "temperature", "likeness")

    words = traitlets.List(traitlets.Unicode(), ["apple", "banana", "chair"]).tag(sync=True)
    key_vectors = Numbers([[2.0, 1.0], [2.0, -1.0], [-2.0, 0.0]], depth=2, low=-3, high=3)
    values = Numbers([10, 5, 2], low=-1000, high=1000)
    query = Numbers([2.0, 0.2], low=-3, high=3)
    temperature = Number(1.0, low=0, high=10)
    likeness = OneOf(*LIKENESS)
    query_word = traitlets.Unicode("fruit").tag(sync=True)
    features = traitlets.List(traitlets.Unicode(), ["edible", "crunchy"], 2, 2).tag(sync=True)

    def __init__(self, **numbers: Any) -> None:
        super().__init__(**numbers)
        same_length(self, ("words", "key_vectors", "values"))
        if not 1 <= len(self.words) <= len(style.PALETTE):
            raise ValueError(f"words must have 1 to {len(style.PALETTE)}; got {len(self.words)}")

    @traitlets.validate("query", "key_vectors")
    def _on_the_plane(self, proposal: Any) -> list:
        name, value = proposal["trait"].name, proposal["value"]
        for i, vector in enumerate([value] if name == "query" else value):
            where = name if name == "query" else f"{name}[{i}]"
            if len(vector) != 2:
                raise ValueError(f"{where} must be 2 numbers; got {len(vector)}")
            if abs(vector[1]) > 2:
                raise ValueError(f"{where}[1] must be from -2 to 2; got {vector[1]}")
        return value

    def draw(self) -> Figure:
        from matplotlib.figure import Figure

        _, weights, answer = soft_lookup(
            self.query,
            self.key_vectors,
            self.values,
            temperature=self.temperature,
            likeness=self.likeness,
        )
        colors = [style.PALETTE[i] for i in range(len(self.words))]
        figure = Figure(figsize=(6.4, 3.3), dpi=110)
        plane, bars = figure.subplots(1, 2, width_ratios=(1.5, 1))

        places = np.stack(np.meshgrid(np.linspace(-3, 3, 90), np.linspace(-2, 2, 60)), -1)
        field = soft_lookup(
            places,
            self.key_vectors,
            self.values,
            temperature=self.temperature,
            likeness=self.likeness,
        )[1]
        mix = np.array([[int(c[i : i + 2], 16) / 255 for i in (1, 3, 5)] for c in colors])
        shade = field @ mix * 0.27 + 0.73 * 0.985
        plane.imshow(shade, extent=(-3, 3, -2, 2), origin="lower", interpolation="bilinear")
        start = self.query if self.likeness == "distance" else (0, 0)
        for word, key, weight, color in zip(
            self.words, self.key_vectors, weights, colors, strict=True
        ):
            line = {"color": color, "lw": 1.5 + 6 * weight, "alpha": 0.35 + 0.6 * weight}
            plane.plot((start[0], key[0]), (start[1], key[1]), **line)
            plane.plot(*key, "o", color=color, ms=9, mec=style.CARD, mew=1.5)
            below = {"xytext": (0, -9), "va": "top"} if key[1] < 0 else {"xytext": (0, 8)}
            side = "right" if key[0] > 2.2 else "left" if key[0] < -2.2 else "center"
            plane.annotate(word, key, textcoords="offset points", ha=side, fontsize=9, **below)
        if self.likeness != "distance":
            plane.plot((0, self.query[0]), (0, self.query[1]), "--", color=style.INK, lw=1.5)
        plane.plot(*self.query, "D", color=style.INK, ms=8, mec=style.CARD, mew=1.5)
        plane.annotate(
            self.query_word, self.query, (9, -3), textcoords="offset points", weight="bold"
        )
        plane.set(xlim=(-3, 3), ylim=(-2, 2), xlabel=self.features[0], ylabel=self.features[1])

        bars.barh(self.words, weights, color=colors)
        bars.invert_yaxis()
        bars.set(xlim=(0, 1.25), xlabel="weight", xticks=(0, 0.5, 1))
        bars.grid(False)
        for i, weight in enumerate(weights):
            bars.text(weight + 0.03, i, f"{weight:.2f}", va="center")
        terms = " + ".join(f"{w:.2f}×{v:g}" for w, v in zip(weights, self.values, strict=True))
        figure.suptitle(f"{terms} = {answer:.2f}", fontsize=12)
        return figure
