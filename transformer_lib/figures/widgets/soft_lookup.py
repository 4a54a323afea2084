"""SoftLookup: a dictionary that answers "almost" (chapter 1)."""

from typing import Any

import numpy as np
import traitlets

from .. import style
from .base import LiveFigure, Number, Numbers, OneOf, compose, dress, same_length

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
