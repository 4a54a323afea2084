"""WordSwap: what changes in self-attention when two words trade places (chapter 4)."""

from typing import Any

import traitlets

from .base import LiveFigure, Number, Numbers, compose, dress, same_length


class WordSwap(LiveFigure):
    """Self-attention on a sentence whose words the reader moves, with and without positions.

    The default vectors and matrices are those of chapter 2.

    Args:
        words: the sentence, 2 to 8 words.
        vectors: ``(T, d)``, the words' vectors. All numbers are from -10 to 10.
        query: the matrix ``(d, d_k)`` of the queries.
        key: the matrix ``(d, d_k)`` of the keys.
        value: the matrix ``(d, d_v)`` of the values.
        features: names of the 1 to 6 numbers that a word receives.
        places: ``(T, d)``, the vector of each position.
        order: the index of the word at each position; 0, 1, … if you give `words`.
        positions: whether to add the positions' vectors.
        picked: the position of a word waiting to trade places; -1 for none.

    Raises:
        ValueError: sizes that don't fit together, or an order without some word.

    >>> WordSwap(positions=True)
    WordSwap(order=(0, 1, 5, 3, 4, 2), positions=True, picked=-1)
    """

    _esm = compose("word_swap.js")
    _css = dress("word_swap.css")
    shown = ("order", "positions", "picked")

    words = traitlets.List(
        traitlets.Unicode(), ["the", "hungry", "cat", "eats", "fresh", "fish"], 2, 8
    ).tag(sync=True)
    vectors = Numbers(
        [[0, 0, 0], [0, 0, 1], [2, 0, 0], [0, 1, 2], [0, 1, 0], [1, 2, 0]],
        depth=2,
        low=-10,
        high=10,
    )
    query = Numbers([[0, 1], [0, 0], [1, 0]], depth=2, low=-10, high=10)
    key = Numbers([[1, 0], [0, 1], [0, 0]], depth=2, low=-10, high=10)
    value = Numbers([[1, 0, 0], [0, 1, 0], [0, 0, 1]], depth=2, low=-10, high=10)
    features = traitlets.List(traitlets.Unicode(), ["animal", "food", "action"], 1, 6).tag(
        sync=True
    )
    places = Numbers(
        [
            [1, 0, 0.3],
            [0.5, 0.9, -0.6],
            [-0.5, 0.9, 0.9],
            [-1, 0, -0.9],
            [-0.5, -0.9, 0.6],
            [0.5, -0.9, -0.3],
        ],
        depth=2,
        low=-10,
        high=10,
    )
    order = Numbers([0, 1, 5, 3, 4, 2], low=0, high=7)
    positions = traitlets.Bool(False).tag(sync=True)
    picked = Number(-1, low=-1, high=7, whole=True)

    def __init__(self, **numbers: Any) -> None:
        if "words" in numbers:
            numbers.setdefault("order", list(range(len(numbers["words"]))))
        super().__init__(**numbers)
        same_length(self, ("words", "vectors", "places"))
        width, d_k = len(self.vectors[0]), len(self.query[0]) if self.query else 0
        for name, rows, columns in (
            ("vectors", len(self.words), width),
            ("places", len(self.words), width),
            ("query", width, d_k),
            ("key", width, d_k),
            ("value", width, len(self.features)),
        ):
            table = getattr(self, name)
            if len(table) != rows or any(len(row) != columns for row in table) or not columns:
                raise ValueError(f"{name} must be {rows} rows of {columns} numbers; got {table}")
        if self.picked >= len(self.words):
            raise ValueError(
                f"picked must be below {len(self.words)}, the number of words; got {self.picked}"
            )

    @traitlets.validate("order")
    def _every_word_once(self, proposal: Any) -> list[int]:
        if sorted(proposal["value"]) != list(range(len(self.words))):
            raise ValueError(
                f"order must have every number below {len(self.words)} once; "
                f"got {proposal['value']}"
            )
        return [int(word) for word in proposal["value"]]
