"""NormExplorer: which numbers a norm uses, in a padded batch (chapter 7)."""

from typing import Any

import traitlets

from .base import LiveFigure, Number, Numbers, OneOf, compose, dress


class NormExplorer(LiveFigure):
    """A small padded batch under layer norm and batch norm, with one of its numbers selected.

    Args:
        sentences: 1 to 4 lists of 1 to 6 words of 1 to 5 letters.
        vectors: ``(words, d)``, from -10 to 10, for the words of all sentences in order; padding
            is all zeros.
        norm: ``"layer"``, ``"batch"``, or ``"real"``, batch norm without the padding.
        length: the length to which all sentences are padded, at most 8.
        word: the selected word, counted from 0 through all sentences.
        feature: the selected feature, from 0.
        after: whether to show the norm's output.

    Raises:
        ValueError: a number out of range, or vectors that don't fit the words.

    >>> NormExplorer(norm="layer")
    NormExplorer(norm='layer', length=6, word=1, feature=0)
    """

    _esm = compose("norm_explorer.js")
    _css = dress("norm_explorer.css")
    shown = ("norm", "length", "word", "feature")

    sentences = traitlets.List(
        traitlets.List(traitlets.Unicode(), minlen=1, maxlen=6),
        [["fresh", "fish"], ["cats", "eat", "fish"], ["sleep"]],
        1,
        4,
    ).tag(sync=True)
    vectors = Numbers(
        [
            [1.6, 0.4, -1.0, 2.0],
            [2.4, -0.8, 0.6, 1.0],
            [2.0, 1.2, -0.4, -1.6],
            [0.8, -0.4, 2.2, -0.6],
            [2.4, -0.8, 0.6, 1.0],
            [1.2, 0.2, 1.6, -1.8],
        ],
        depth=2,
        low=-10,
        high=10,
    )
    norm = OneOf("batch", "layer", "real")
    length = Number(6, low=1, high=8, whole=True)
    word = Number(1, low=0, high=11, whole=True)
    feature = Number(0, low=0, high=5, whole=True)
    after = traitlets.Bool(False).tag(sync=True)

    def __init__(self, **numbers: Any) -> None:
        super().__init__(**numbers)
        words = [word for sentence in self.sentences for word in sentence]
        for word in words:
            if not 1 <= len(word) <= 5:
                raise ValueError(f"sentences must have words of 1 to 5 letters; got {word!r}")
        if len(words) != len(self.vectors) or len(words) > 12:
            raise ValueError(
                "vectors must have one vector per word of sentences, at most 12; "
                f"got {len(self.vectors)} for {len(words)} words"
            )
        width = len(self.vectors[0])
        if not 1 <= width <= 6 or any(len(vector) != width for vector in self.vectors):
            raise ValueError("vectors must all have the same 1 to 6 features")
        longest = max(map(len, self.sentences))
        for name, low, high in (
            ("length", longest, 8),
            ("word", 0, len(words) - 1),
            ("feature", 0, width - 1),
        ):
            if not low <= getattr(self, name) <= high:
                raise ValueError(f"{name} must be from {low} to {high}; got {getattr(self, name)}")
