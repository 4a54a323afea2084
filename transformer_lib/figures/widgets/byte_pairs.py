"""BytePairs: how learned merges split a new word (chapter 12)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import traitlets

from .. import style
from .base import LiveFigure, Number, compose, dress

if TYPE_CHECKING:
    from matplotlib.figure import Figure

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

    def ids(self) -> dict[str, int]:
        """Return the id of each piece."""
        pieces = dict.fromkeys([*self.letters, *map("".join, self.merges)])
        return {piece: SPECIAL + i for i, piece in enumerate(pieces)}

    def history(self) -> list[tuple[int, list[str]]]:
        """Return (number of the merge, pieces) after each merge that changes the word."""
        pieces = list(MARK + self.word)
        lines = [(0, pieces)]
        for number, (left, right) in enumerate(self.merges[: self.laid], start=1):
            merged, i = [], 0
            while i < len(pieces):
                fits = pieces[i : i + 2] == [left, right]
                merged.append(left + right if fits else pieces[i])
                i += 1 + fits
            if len(merged) < len(pieces):
                lines.append((number, merged))
            pieces = merged
        return lines

    def draw(self) -> Figure:
        from matplotlib.figure import Figure

        lines, ids = self.history(), self.ids()
        figure = Figure(figsize=(6.4, 0.9 + 0.28 * max(len(lines), 6)), dpi=110)
        ax = figure.subplots()
        for y, (_, pieces) in enumerate(lines):
            before = lines[y - 1][1] if y else pieces
            x = 0
            for piece in pieces:
                color = style.ACCENT if piece not in before else style.QUIET
                ax.text(
                    x + len(piece) / 2, y, piece, ha="center", va="center", fontsize=9,
                    bbox={"boxstyle": "round,pad=0.2", "fc": style.CARD, "ec": color},
                )  # fmt: skip
                x += len(piece)
        x = 0
        for piece in lines[-1][1]:
            ax.text(x + len(piece) / 2, len(lines), str(ids.get(piece, 3)), ha="center", fontsize=8)
            x += len(piece)
        ax.set(xlim=(-0.3, x + 0.3), ylim=(len(lines) + 0.4, -0.6), xticks=[])
        numbers = [str(number or "letters") for number, _ in lines]
        ax.set_yticks(range(len(lines) + 1), [*numbers, "ids"])
        ax.set_ylabel("after merge")
        ax.grid(False)
        ax.tick_params(length=0)
        ax.spines[:].set_visible(False)
        figure.suptitle(f"{self.laid} of {len(self.merges)} merges", fontsize=11)
        return figure
