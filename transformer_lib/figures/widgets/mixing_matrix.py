"""MixingMatrix: every word as a mix of the others (chapter 2)."""

from typing import Any

import traitlets

from .base import LiveFigure, Number, Numbers, OneOf, compose, dress, same_length

MODES = ("content", "uniform", "causal", "content-causal")


class MixingMatrix(LiveFigure):
    """A weight matrix times the words' vectors: who takes from whom, and the result.

    What a word *is* and what it *asks for* are two different vectors: a verb asks for things, but
    isn't one.

    Args:
        words: the sentence, 2 to 10 words.
        vectors: ``(T, d)``, from -10 to 10, what each word is: its key and its value.
        queries: ``(T, d)``, from -10 to 10, what each word asks for.
        features: names of the ``d`` features.
        mode: ``"uniform"``, ``"causal"``, ``"content"`` or ``"content-causal"``.
        sharpness: 0 to 10; content scores are sharpness · query · vector / √d.
        row: the selected word, from 0.

    Raises:
        ValueError: a number out of range, or lists of different lengths.

    >>> MixingMatrix(mode="causal")
    MixingMatrix(mode='causal', sharpness=4.0, row=3)
    """

    _esm = compose("mixing_matrix.js")
    _css = dress("mixing_matrix.css")
    shown = ("mode", "sharpness", "row")

    words = traitlets.List(
        traitlets.Unicode(), ["the", "hungry", "cat", "eats", "the", "fish"], 2, 10
    ).tag(sync=True)
    features = traitlets.List(
        traitlets.Unicode(), ["thing", "alive", "action", "quality"], 1, 6
    ).tag(sync=True)
    vectors = Numbers(
        [[0, 0, 0, 0], [0, 0.5, 0, 1], [1, 1, 0, 0], [0, 0.5, 1, 0], [0, 0, 0, 0], [1, 0.3, 0, 0]],
        depth=2,
        low=-10,
        high=10,
    )
    queries = Numbers(
        [[1, 0, 0, 0], [0.5, 1, 0, 0], [0, 0, 0.5, 1], [1, 0.5, 0, 0], [1, 0, 0, 0], [0, 0, 1, 0]],
        depth=2,
        low=-10,
        high=10,
    )
    mode = OneOf(*MODES)
    sharpness = Number(4.0, low=0, high=10)
    row = Number(3, low=0, high=9, whole=True)

    def __init__(self, **numbers: Any) -> None:
        super().__init__(**numbers)
        same_length(self, ("words", "vectors", "queries"))
        for name in ("vectors", "queries"):
            for i, vector in enumerate(getattr(self, name)):
                if len(vector) != len(self.features):
                    raise ValueError(
                        f"{name}[{i}] must have one number per feature, {len(self.features)}; "
                        f"got {len(vector)}"
                    )
        if self.row >= len(self.words):
            raise ValueError(
                f"row must be below {len(self.words)}, the number of words; got {self.row}"
            )
