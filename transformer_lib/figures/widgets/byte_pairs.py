"""BytePairs: how learned merges cut a word that nobody has met (chapter 12)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import traitlets

from .. import style
from .base import LiveFigure, Number, compose, dress

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MARK = "▁"
LONGEST = 16  # letters of a word: what fits on a phone
SPECIAL = 4  # rows before the first letter; the last of them is <unk>
TEN = (  # learned from ten words, as chapter 12 does by hand
    "e n,▁ s,t y,e v,e en,i x,t een,▁s ev,▁s ix,▁sev en,i n,n in,▁ f,▁ nin,▁nin e"
)


class BytePairs(LiveFigure):
    """A word, cut by the merges of a byte-pair encoding that are laid on one by one.

    Without arguments the merges are those of ten number words.

    Args:
        letters: the smallest pieces; any other letter is ``<unk>``. They have the ids from 4 on,
            and the merged pieces those behind them, in the order of the merges.
        merges: the pairs, in the order in which they were learned.
        word: at most 16 letters; ``▁`` is put before it.
        laid: how many merges are laid on.

    Raises:
        ValueError: a letter or a merge that is none, a word that is too long, or more merges laid
            on than there are.

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
            raise ValueError("letters and merges go together; got only one of them")
        if letters is None or merges is None:
            merges = [pair.split() for pair in TEN.split(",")]
            letters = sorted(set("efinorstuvxy" + MARK))
            numbers.setdefault("note", "Fifteen merges, learned from ten number words.")
        super().__init__(letters=list(letters), merges=[list(pair) for pair in merges], **numbers)
        for letter in self.letters:
            if len(letter) != 1:
                raise ValueError(f"letters must be single ones; got {letter!r}")
        if not self.merges or not all(left and right for left, right in self.merges):
            raise ValueError("merges must be at least one pair of pieces, none of them empty")
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
        """Return the row of each piece; what is not there has that of ``<unk>``, 3."""
        pieces = dict.fromkeys([*self.letters, *map("".join, self.merges)])
        return {piece: SPECIAL + i for i, piece in enumerate(pieces)}

    def history(self) -> list[tuple[int, list[str]]]:
        """Return the cut after each merge that changes the word: (number of the merge, pieces)."""
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
                colour = style.ACCENT if piece not in before else style.QUIET
                ax.text(
                    x + len(piece) / 2, y, piece, ha="center", va="center", fontsize=9,
                    bbox={"boxstyle": "round,pad=0.2", "fc": style.CARD, "ec": colour},
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
