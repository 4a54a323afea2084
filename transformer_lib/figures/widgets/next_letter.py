"""NextLetter: how much earlier text helps to predict the next letter (chapter 18)."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

import traitlets

from .base import LiveFigure, Number, Numbers, all_or_none, compose, dress

if TYPE_CHECKING:
    from torch import nn

    from ...data import Tokenizer

READS = (0, 1, 2, 3, 4, 6, 8, 16, 32, 64, 127)
LINE = (6526, 6569)  # of the held-out text: "They call me Katharina that do talk of me."
LEAST = 0.01  # less probable letters share one part of the bar
DATA = ("text", "start", "pieces", "reads", "rows", "costs", "shares")
NOTE = (
    "The line is from the held-out text. GPT is the recorded run; its input begins with <bos>. "
    "Each count has 0.1 added."
)


def followers(text: str, past: str) -> dict[str, int]:
    """Return how often each letter follows a past in the text.

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
    r"""The next letter of a line: a uniform guess, counts, and a GPT with more or less context.

    If the training text has the past :math:`N` times, and this letter follows :math:`n` times,
    counting gives the probability :math:`(n + 0.1) / (N + 0.1\,V)`, with a vocabulary of :math:`V`
    letters. The cost is :math:`-\ln p` of the right letter.

    By default, the line is from tiny Shakespeare's held-out part and the model is the bundled GPT.

    Args:
        place: the letter to predict, from 0.
        read: how many letters before it to read, rounded down to one of ``reads``.
        text: the text before the line, and the line.
        start: where the line begins in it.
        pieces: all letters.
        reads: the numbers of letters to choose from, rising from 0.
        rows: for each past that occurs, how often each letter follows it.
        costs: for each of ``reads``, the model's cost of each letter of the line.
        shares: for each of ``reads`` and each letter of the line, the letters that the model gives
            at least 1 % and their probabilities in thousandths.

    Raises:
        ValueError: a number out of range, or data that don't fit together.

    >>> NextLetter(read=4)
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
        if not all_or_none(numbers, DATA):
            numbers = {"note": NOTE, "place": 18} | shipped_line() | numbers
        super().__init__(**numbers)
        if self.reads[:1] != [0] or sorted(set(self.reads)) != self.reads:
            raise ValueError(f"reads must rise from 0; got {self.reads}")
        length = len(self.text[self.start :])
        for name in ("costs", "shares"):
            table = getattr(self, name)
            if len(table) != len(self.reads) or any(len(row) != length for row in table):
                raise ValueError(
                    f"{name} must have {len(self.reads)} rows of {length}, one row per number in "
                    f"reads and one entry per letter; got rows of {[len(row) for row in table]}"
                )
        if self.place >= length:
            raise ValueError(f"place must be from 0 to {length - 1}; got {self.place}")


def measured(
    model: nn.Module,
    tokenizer: Tokenizer,
    counted: str,
    text: str,
    start: int,
    reads: Sequence[int],
) -> dict[str, Any]:
    """Return all data of a figure: counts in a text, and what a model predicts.

    The model, a ``DecoderOnly`` of letters, begins with ``<bos>``.
    """
    import torch

    ids = torch.tensor(tokenizer.encode(text))
    places = range(start, len(text))
    pieces = sorted(set(counted) | set(text))
    names = {i: piece for piece in pieces for i in tokenizer.encode(piece)}
    rows: dict[str, dict[str, int]] = {}
    costs, shares = [], []
    for n, fewer in zip(reads, (0, *reads), strict=False):
        for end in places:
            past = text[end - n : end]
            if past not in rows:  # a past can only occur if its last letters do
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
    """Return the data of the bundled GPT, on a line from the held-out text."""
    from ...data import shakespeare
    from ...pretrained import load_bundled

    begin, end = LINE
    text = shakespeare.load("val")[begin - READS[-1] : end]
    train = shakespeare.load("train")
    return measured(*load_bundled("shakespeare"), train, text, READS[-1], READS)
