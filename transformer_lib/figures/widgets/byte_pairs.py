"""BytePairs: how learned merges split a new word (chapter 12)."""

from collections.abc import Iterable
from typing import Any

import traitlets

from .base import LiveFigure, Number, compose, dress

MARK = "▁"
LONGEST = 16  # letters of a word that fit on a phone
SPECIAL = 4  # ids before the first letter's; the last of them is <unk>
TEN = (  # learned from ten words, as in chapter 12
    "e n,▁ s,t y,e v,e en,i x,t een,▁s ev,▁s ix,▁sev en,i n,n in,▁ f,▁ nin,▁nin e"
)


class BytePairs(LiveFigure):
    """A word, split by the merges of a byte-pair encoding, one merge at a time.

    Without arguments the merges are those of ten number words.

    Args:
        letters: the smallest pieces; any other letter is ``<unk>``. Their ids start at 4; the
            merged pieces' ids follow, in the order of the merges.
        merges: pairs of pieces, in the order in which they were learned.
        word: at most 16 letters; ``▁`` is put before it.
        laid: how many merges to apply.

    Raises:
        ValueError: a letter or a merge of the wrong form, a word that is too long, or more merges
            to apply than there are.

    >>> BytePairs(word="nineteen", laid=7)
    BytePairs(word='nineteen', laid=7)
    """

    _esm = compose("byte_pairs.js")
    _css = dress("byte_pairs.css")
    shown = ("word", "laid")

    letters = traitlets.List(traitlets.Unicode()).tag(sync=True)
    merges = traitlets.List(traitlets.List(traitlets.Unicode(), minlen=2, maxlen=2)).tag(sync=True)
    word = traitlets.Unicode("nineteen").tag(sync=True)
    laid = Number(7, low=0, high=100_000, whole=True)

    def __init__(
        self,
        *,
        letters: Iterable[str] | None = None,
        merges: Iterable[Iterable[str]] | None = None,
        **numbers: Any,
    ) -> None:
        if (letters is None) != (merges is None):
            raise ValueError("letters and merges must be given together")
        if letters is None or merges is None:
            merges = [pair.split() for pair in TEN.split(",")]
            letters = sorted(set("efinorstuvxy" + MARK))
            numbers.setdefault("note", "Fifteen merges, learned from ten number words.")
        super().__init__(letters=list(letters), merges=[list(pair) for pair in merges], **numbers)
        for letter in self.letters:
            if len(letter) != 1:
                raise ValueError(f"letters must be single letters; got {letter!r}")
        if not self.merges or not all(left and right for left, right in self.merges):
            raise ValueError("merges must have at least one pair, and no empty pieces")
        if self.laid > len(self.merges):
            raise ValueError(f"laid must be at most {len(self.merges)}; got {self.laid}")

    @traitlets.validate("word")
    def _one_word(self, proposal: Any) -> str:
        word = proposal["value"]
        if len(word) > LONGEST or any(c.isspace() or c == MARK for c in word):
            raise ValueError(
                f"word must be one word of at most {LONGEST} letters, without {MARK}; got {word!r}"
            )
        return word
