"""PairedBootstrap: would other questions say the same? (chapter 15)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any

import numpy as np
import traitlets

from .base import LiveFigure, Number, Numbers, compose, dress, same_length

MOST = 10_000


class PairedBootstrap(LiveFigure):
    r"""How the difference between two models varies when the questions are drawn again.

    Only model 1 gets a share :math:`p` of the questions right, only model 2 a share :math:`q`. Each
    of the :math:`n` drawn questions adds +1, -1 or 0 to the difference:

    .. math:: D = \frac{1}{n} \sum_{i=1}^{n} d_i, \quad P(d_i = 1) = p, \quad P(d_i = -1) = q

    The figure shows the exact distribution of :math:`D` over all possible draws. If each model gets
    its own draw, :math:`p = a (1 - b)` and :math:`q = b (1 - a)` for the shares :math:`a, b` that
    the models get right.

    Args:
        pairs: 1 to 6 pairs of names.
        counts: for each pair, how many questions both get right, only the first, only the second,
            and neither; 1 to 10,000 in all.
        pair: the pair to show, from 0.
        questions: how many questions to draw, 100 to 10,000.
        paired: whether both models get the same draw.

    Raises:
        ValueError: a number out of range, lists that don't fit together, or no questions.

    Source:
        Koehn (2004), *Statistical Significance Tests for Machine Translation Evaluation*.

    >>> PairedBootstrap(pairs=[["A", "B"]], counts=[[939, 28, 18, 15]])
    PairedBootstrap(pair=0, questions=1000, paired=True)
    """

    _esm = compose("paired_bootstrap.js")
    _css = dress("paired_bootstrap.css")
    shown = ("pair", "questions", "paired")

    # from the record number-words-seeds, the three models of chapter 15
    pairs = traitlets.List([["A", "B"], ["A", "C"], ["B", "C"]]).tag(sync=True)
    counts = Numbers(
        [[939, 28, 18, 15], [951, 16, 22, 11], [941, 16, 32, 11]], depth=2, low=0, high=MOST
    )
    pair = Number(0, low=0, high=5, whole=True)
    questions = Number(1000, low=100, high=MOST, whole=True)
    paired = traitlets.Bool(True).tag(sync=True)

    def __init__(self, **numbers: Any) -> None:
        super().__init__(**numbers)
        same_length(self, ("pairs", "counts"))
        if self.pair >= len(self.pairs):
            raise ValueError(f"pair must be below {len(self.pairs)}; got {self.pair}")

    @classmethod
    def from_answers(cls, answers: Mapping[str, Sequence[int]], **numbers: Any) -> PairedBootstrap:
        """Make the figure from two to four models' answers to the same questions.

        Args:
            answers: each model's answers by its name, 1 for right and 0 for wrong, in one order.
            numbers: other arguments of the figure.

        Raises:
            ValueError: fewer than two or more than four models, different numbers of answers, or
                an answer other than 0 and 1.
        """
        if not 2 <= len(answers) <= 4:
            raise ValueError(f"answers must have 2 to 4 models; got {len(answers)}")
        rows = {name: np.asarray(row) for name, row in answers.items()}
        lengths = {name: len(row) for name, row in rows.items()}
        if len(set(lengths.values())) > 1:
            raise ValueError(f"answers must all be equally long; got lengths {lengths}")
        for name, row in rows.items():
            if not np.isin(row, (0, 1)).all():
                raise ValueError(f"answers[{name!r}] must be 0 or 1; got {row.tolist()}")
        pairs = [list(pair) for pair in combinations(rows, 2)]
        counts = []
        for first, second in pairs:
            one, other = rows[first] == 1, rows[second] == 1
            parts = (one & other, one & ~other, ~one & other, ~one & ~other)
            counts.append([int(part.sum()) for part in parts])
        return cls(pairs=pairs, counts=counts, **numbers)

    @traitlets.validate("pairs")
    def _names(self, proposal: Any) -> list[list[str]]:
        found = proposal["value"]
        if not 1 <= len(found) <= 6:
            raise ValueError(f"pairs must be 1 to 6; got {len(found)}")
        for i, pair in enumerate(found):
            names = isinstance(pair, (list, tuple)) and all(isinstance(n, str) for n in pair)
            if not names or len(pair) != 2:
                raise ValueError(f"pairs[{i}] must be two names; got {pair!r}")
        return [list(pair) for pair in found]

    @traitlets.validate("counts")
    def _tables(self, proposal: Any) -> list[list[int]]:
        for i, table in enumerate(proposal["value"]):
            if len(table) != 4 or any(n != int(n) for n in table):
                raise ValueError(f"counts[{i}] must be four whole numbers; got {table}")
            if not 1 <= sum(table) <= MOST:
                raise ValueError(f"counts[{i}] must add up to 1 to {MOST}; got {sum(table)}")
        return [[int(n) for n in table] for table in proposal["value"]]
