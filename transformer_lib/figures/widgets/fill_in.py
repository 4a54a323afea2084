"""FillIn: hide words of a sentence and see a model's guesses (chapter 19)."""

from typing import Any

import traitlets

from .base import MADE_UP, LiveFigure, Number, compose, dress

BEST = 5

# Five pairs (index in words, probability) for each of the three words of the default sentences.
_MADE_UP = [
    [[0, 0.51], [1, 0.3], [3, 0.1], [2, 0.05], [4, 0.02]],
    [[6, 0.4], [5, 0.3], [7, 0.1], [8, 0.09], [0, 0.01]],
    [[9, 0.6], [10, 0.35], [0, 0.01], [1, 0.01], [2, 0.01]],
]


class FillIn(LiveFigure):
    """Hide any words of a sentence to see a model's five best guesses for each, from a table.

    The default guesses are made up.

    Args:
        sentences: one to four lists of 2 to 7 words, all equally long.
        words: the words that appear as guesses.
        guesses: for each sentence, for each set of hidden words (bit i of the set's number is word
            i), for each hidden word from left to right: five pairs of an index in `words` and a
            probability, the largest first.
        sentence: the sentence to show.
        hidden: the set of hidden words, as such a number.
        place: the hidden word whose guesses to show.

    Raises:
        ValueError: guesses that don't fit the sentences, or a sentence that doesn't exist.

    >>> FillIn(hidden=1)
    FillIn(sentence=0, hidden=1, place=1)
    """

    _esm = compose("fill_in.js")
    _css = dress("fill_in.css")
    shown = ("sentence", "hidden", "place")

    sentences = traitlets.List(
        traitlets.List(traitlets.Unicode(), minlen=2, maxlen=7),
        [["small", "cat", "eats"], ["big", "goat", "finds"]],
        1,
        4,
    ).tag(sync=True)
    words = traitlets.List(
        traitlets.Unicode(),
        ["small", "big", "hungry", "old", "new", "cat", "goat", "otter", "bat", "eats", "finds"],
    ).tag(sync=True)
    guesses = traitlets.List(
        2 * [[[best for i, best in enumerate(_MADE_UP) if n >> i & 1] for n in range(8)]]
    ).tag(sync=True)
    sentence = Number(0, low=0, high=3, whole=True)
    hidden = Number(2, low=0, high=127, whole=True)
    place = Number(1, low=0, high=6, whole=True)

    def __init__(self, **numbers: Any) -> None:
        if "guesses" not in numbers:
            numbers.setdefault("note", MADE_UP)
        super().__init__(**numbers)
        if len(self.guesses) != len(self.sentences):
            raise ValueError(
                f"guesses must have one entry per sentence, {len(self.sentences)}; "
                f"got {len(self.guesses)}"
            )
        if self.sentence >= len(self.sentences):
            raise ValueError(f"sentence must be below {len(self.sentences)}; got {self.sentence}")
        if len({len(sentence) for sentence in self.sentences}) > 1:
            raise ValueError(f"sentences must all be equally long; got {self.sentences}")
        for i, (sentence, choices) in enumerate(zip(self.sentences, self.guesses, strict=True)):
            if len(choices) != 2 ** len(sentence):
                raise ValueError(
                    f"guesses[{i}] must have {2 ** len(sentence)} entries, one per set of hidden "
                    f"words; got {len(choices)}"
                )
            for number, places in enumerate(choices):
                self._check(f"guesses[{i}][{number}]", places, number.bit_count())

    def _check(self, where: str, places: Any, hidden: int) -> None:
        if len(places) != hidden or any(len(best) != BEST for best in places):
            raise ValueError(f"{where} must have {BEST} pairs for each of {hidden} hidden words")
        for word, share in (pair for best in places for pair in best):
            if not (isinstance(word, int) and 0 <= word < len(self.words) and 0 <= share <= 1):
                raise ValueError(
                    f"{where} must be pairs of an index in words and a probability; "
                    f"got {word}, {share}"
                )
