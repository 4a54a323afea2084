"""NextLetter: what the text before is worth to a guess of the next letter (chapter 18)."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

import traitlets

from .. import style
from .base import LiveFigure, Number, Numbers, compose, dress
from .sampler import seen as visible

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from torch import nn

    from ...data import Tokenizer

READS = (0, 1, 2, 3, 4, 6, 8, 16, 32, 64, 127)
LINE = (6526, 6569)  # of the held-out text: "They call me Katharina that do talk of me."
ADDED = 0.1  # to each count, as in chapter 18
LEAST = 0.01  # less probable letters are one part of the bar
DATA = ("text", "start", "pieces", "reads", "rows", "costs", "shares")
NOTE = (
    "The line is from a text that nothing learned from. GPT is the recorded run; what it reads "
    "begins with <bos>. Each count has 0.1 added."
)


def followers(text: str, past: str) -> dict[str, int]:
    """Return how often each letter stands behind a past in the text.

    >>> followers("abacab", "a")
    {'b': 2, 'c': 1}
    """
    if not past:
        return dict(Counter(text).most_common())
    found: Counter[str] = Counter()
    at = text.find(past)
    while 0 <= at < len(text) - len(past):
        found[text[at + len(past)]] += 1
        at = text.find(past, at + 1)
    return dict(found.most_common())


class NextLetter(LiveFigure):
    r"""The next letter of a line by an even guess, by counts and by a GPT that reads so much.

    Of a past that the training text has :math:`N` times, :math:`n` of them before this letter,
    counting makes the probability :math:`(n + 0.1) / (N + 0.1\,V)`, with :math:`V` letters in
    all. A cost is :math:`-\ln p` of the letter that comes.

    Without arguments, the line is of tiny Shakespeare's held-out part and the model is the GPT
    that comes with the library; :meth:`from_model` takes another.

    Args:
        place: which letter of the line comes, from 0.
        read: how many letters before it are read. Between two numbers of ``reads``, the lower one
            counts.
        text: what stands before the line, and the line.
        start: where in it the line begins.
        pieces: all letters that there are.
        reads: numbers of letters that are read, 0 first, rising.
        rows: for each past that occurs, how often each letter stands behind it.
        costs: of the model: for each of ``reads``, the cost of each letter of the line.
        shares: of the model: for each of ``reads`` and each letter of the line, the letters with at
            least 1 % and their probabilities in thousandths.

    Raises:
        ValueError: numbers outside their limits, or that do not belong together.

    >>> figure = NextLetter(read=4)
    >>> figure
    NextLetter(place=18, read=4)
    """

    _esm = compose("next_letter.js")
    _css = dress("next_letter.css")
    shown = ("place", "read")

    text = traitlets.Unicode().tag(sync=True)
    start = Number(0, low=0, high=9999, whole=True)
    pieces = traitlets.List(traitlets.Unicode()).tag(sync=True)
    reads = Numbers([], low=0, high=9999)
    rows = traitlets.Dict().tag(sync=True)
    costs = Numbers([], depth=2, low=0, high=1e4)
    shares = traitlets.List().tag(sync=True)
    place = Number(0, low=0, high=999, whole=True)
    read = Number(4, low=0, high=9999, whole=True)

    def __init__(self, **numbers: Any) -> None:
        given = [name for name in DATA if name in numbers]
        if not given:
            numbers = {"note": NOTE, "place": 18} | shipped_line() | numbers
        elif len(given) < len(DATA):
            raise ValueError(f"{', '.join(DATA)} go together; got only {', '.join(given)}")
        super().__init__(**numbers)
        if self.reads[:1] != [0] or sorted(set(self.reads)) != self.reads:
            raise ValueError(f"reads must rise from 0; got {self.reads}")
        length = len(self.line())
        for name in ("costs", "shares"):
            table = getattr(self, name)
            if len(table) != len(self.reads) or any(len(row) != length for row in table):
                raise ValueError(
                    f"{name} must have {len(self.reads)} rows of {length}, one for each of reads "
                    f"and each letter of the line; got rows of {[len(row) for row in table]}"
                )
        if self.place >= length:
            raise ValueError(f"place must be from 0 to {length - 1}; got {self.place}")

    @classmethod
    def from_model(
        cls,
        model: nn.Module,
        tokenizer: Tokenizer,
        counted: str,
        text: str,
        start: int,
        *,
        reads: Sequence[int] = READS,
        **numbers: Any,
    ) -> NextLetter:
        """Ask a model that begins with ``<bos>`` and reads letters; count in another text.

        Args:
            model: a ``DecoderOnly``.
            tokenizer: its letters.
            counted: the text that is counted, such as the model's training text.
            text: what stands before the line, and the line.
            start: where in it the line begins; at least the last of ``reads``.
            reads: numbers of letters that are read.
            numbers: what else the figure takes: ``place``, ``read``, ``note``, …
        """
        found = measured(model, tokenizer, counted, text, start, reads)
        return cls(**found, **numbers)

    def line(self) -> str:
        """Return the line whose letters are foretold."""
        return self.text[self.start :]

    def past(self, read: int, place: int | None = None) -> str:
        """Return the letters that are read before a place."""
        end = self.start + (self.place if place is None else place)
        return self.text[end - read : end]

    def counted(self, read: int, place: int | None = None) -> dict[str, float]:
        """Return the probability of each letter by counting what followed its past."""
        row = self.rows.get(self.past(read, place), {})
        total = sum(row.values()) + ADDED * len(self.pieces)
        return {piece: (row.get(piece, 0) + ADDED) / total for piece in self.pieces}

    def nearest(self) -> int:
        """Return the place in ``reads`` of the number that counts."""
        return max(i for i, n in enumerate(self.reads) if n <= self.read)

    def rungs(self) -> list[tuple[str, dict[str, float], float, float]]:
        """Return for each rung its name, its probabilities, the cost, the mean cost of the line.

        The model has only the letters with at least 1 %, and the one that comes.
        """
        i, letter = self.nearest(), self.line()[self.place]
        n = int(self.reads[i])
        found = []
        for name, read in (("even guess", -1), *((counts(k), k) for k in (0, 1, n))):
            if read < 0:
                each = dict.fromkeys(self.pieces, 1 / len(self.pieces))
                costs = [math.log(len(self.pieces))] * len(self.line())
            else:
                each = self.counted(read)
                costs = [-math.log(self.counted(read, k)[c]) for k, c in enumerate(self.line())]
            found.append((name, each, costs[self.place], sum(costs) / len(costs)))
        costs = self.costs[i]
        each = {piece: share / 1000 for piece, share in self.shares[i][self.place].items()}
        each[letter] = math.exp(-costs[self.place])
        found.append((f"GPT, {letters(n)}", each, costs[self.place], sum(costs) / len(costs)))
        return found

    def draw(self) -> Figure:
        from matplotlib.figure import Figure

        letter = self.line()[self.place]
        figure = Figure(figsize=(6.4, 3.1), dpi=110, layout="constrained")
        ax = figure.subplots()
        names = []
        for y, (name, each, cost, mean) in enumerate(self.rungs()):
            names.append(name)
            left = 0.0
            for piece, share in sorted(each.items(), key=lambda item: -item[1]):
                if share < LEAST and piece != letter:
                    continue
                mine = piece == letter
                colour = style.ACCENT if mine else style.LINE
                ax.barh(y, share, left=left, color=colour, ec=style.CARD, height=0.62)
                if share > 0.03:
                    ink = style.CARD if mine else style.INK
                    ax.text(left + share / 2, y, visible(piece), color=ink, fontsize=9,
                            ha="center", va="center", parse_math=False)  # fmt: skip
                left += share
            said = f"{math.exp(-cost):4.0%} {cost:5.2f} {mean:5.2f}"
            ax.text(1.02, y, said, va="center", fontsize=9, family="monospace")
        ax.text(1.02, -0.75, "  p   cost  line", fontsize=9, family="monospace")
        ax.set_yticks(range(len(names)), names)
        ax.set(xlim=(0, 1.38), ylim=(len(names) - 0.4, -1), xticks=(0, 0.5, 1))
        ax.grid(visible=False)
        ax.set_title(f"“{visible(letter)}” comes after “{visible(self.past(16))}”", fontsize=11)
        return figure


def letters(n: int) -> str:
    """Return a number of letters in words."""
    return f"{n} letter{'' if n == 1 else 's'}"


def counts(n: int) -> str:
    """Return the name of a rung that counts."""
    return f"counts, {letters(n)}"


def measured(
    model: nn.Module,
    tokenizer: Tokenizer,
    counted: str,
    text: str,
    start: int,
    reads: Sequence[int],
) -> dict[str, Any]:
    """Return all that a figure stores of a model and of a text that is counted."""
    import torch

    if start < max(reads):
        raise ValueError(f"start must be at least {max(reads)}, the most that is read; got {start}")
    ids = torch.tensor(tokenizer.encode(text))
    places = range(start, len(text))
    pieces = sorted(set(counted) | set(text))
    names = {i: piece for piece in pieces for i in tokenizer.encode(piece)}
    rows: dict[str, dict[str, int]] = {}
    costs, shares = [], []
    for n, fewer in zip(reads, (0, *reads), strict=False):
        for end in places:
            past = text[end - n : end]
            if past not in rows:  # where its last letters are not, it is not either
                known = n == 0 or rows[text[end - fewer : end]]
                rows[past] = followers(counted, past) if known else {}
        windows = torch.stack([ids[end - n : end] for end in places])
        windows = torch.cat(
            [torch.full((len(places), 1), tokenizer.special_ids.bos_id), windows], dim=1
        )
        with torch.no_grad():
            probs = model(windows)[:, -1].softmax(-1)
        true = probs.gather(1, ids[start:, None])[:, 0]
        costs.append([round(-math.log(p), 3) for p in true.tolist()])
        shares.append(
            [
                {names[i]: round(1000 * p) for i, p in enumerate(row) if p >= LEAST and i in names}
                for row in probs.tolist()
            ]
        )
    rows = {past: row for past, row in rows.items() if row}
    return dict(zip(DATA, (text, start, pieces, list(reads), rows, costs, shares), strict=True))


@cache
def shipped_line() -> dict[str, Any]:
    """Return the numbers of the GPT that comes with the library, on a line it never learned."""
    from ...data import shakespeare
    from ...pretrained import load_bundled

    begin, end = LINE
    text = shakespeare.load("val")[begin - READS[-1] : end]
    train = shakespeare.load("train")
    return measured(*load_bundled("shakespeare"), train, text, READS[-1], READS)
