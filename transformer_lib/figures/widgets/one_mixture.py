"""OneMixture: what a matrix can read from one head, and what from two (chapter 6)."""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING, Any

import traitlets

from .base import LiveFigure, Number, compose, dress

if TYPE_CHECKING:
    from torch import Tensor

ALIKE = 1e-9


class OneMixture(LiveFigure):
    r"""What a verb receives from every sentence of two different words.

    A head has fixed weights: :math:`p` for the word on the left and :math:`1 - p` for the word on
    the right. Each word is a one-hot vector, so a sentence arrives as its two weights, each at its
    word's index. The results of two heads are concatenated. The task is to name the word on the
    left, or the one on the right, of every sentence. A matrix gives each word a weighted sum of the
    numbers, and the word with the largest sum wins.

    - One head with :math:`p > 0.5` lets a matrix find the left word, and one with
      :math:`p < 0.5` the right word. Chapter 6 proves that no matrix finds the other one.
    - Two heads with :math:`p_1 \neq p_2` let a matrix find both: it can subtract a multiple of one
      head from the other, which leaves a single word.
    - If two sentences with different answers arrive as the same numbers, nothing can tell them
      apart.

    Args:
        words: three different words.
        verb: the word between two of them.
        first: head 1's weight on the left: 0, 0.1, …, 1.
        second: head 2's weight on the left.
        twice: whether there is a second head.

    Raises:
        ValueError: a weight that isn't one of 0, 0.1, …, 1, or words that aren't different.

    >>> figure = OneMixture(first=0.7)
    >>> figure
    OneMixture(first=0.7, second=0.0, twice=False)
    >>> figure.what_can("left"), figure.what_can("right")
    ('a matrix', 'no matrix')
    """

    _esm = compose("one_mixture.js")
    _css = dress("one_mixture.css")
    shown = ("first", "second", "twice")

    words = traitlets.List(traitlets.Unicode(), ["cat", "fish", "dog"], 3, 3).tag(sync=True)
    verb = traitlets.Unicode("eats").tag(sync=True)
    first = Number(0.5, low=0, high=1)
    second = Number(0.0, low=0, high=1)
    twice = traitlets.Bool(False).tag(sync=True)

    @traitlets.validate("first", "second")
    def _a_tenth(self, proposal: Any) -> float:
        weight = round(proposal["value"], 1)
        if abs(weight - proposal["value"]) > ALIKE:
            name = proposal["trait"].name
            raise ValueError(f"{name} must be one of 0, 0.1, …, 1; got {proposal['value']}")
        return weight

    @traitlets.validate("words")
    def _different(self, proposal: Any) -> list[str]:
        if len(set(proposal["value"])) < len(proposal["value"]):
            raise ValueError(f"words must be different; got {proposal['value']}")
        return proposal["value"]

    def sentences(self) -> list[tuple[int, int]]:
        """Return each sentence's left and right word; both orders of a pair are neighbors."""
        pairs = combinations(range(len(self.words)), 2)
        return [each for a, b in pairs for each in ((a, b), (b, a))]

    def heads(self) -> list[float]:
        """Return each head's weight on the left."""
        return [self.first, self.second] if self.twice else [self.first]

    def mixtures(self) -> Tensor:
        """Return what arrives from each sentence: ``(6, 3)`` for one head, ``(6, 6)`` for two."""
        import torch

        weights = torch.tensor([[p, 1 - p] for p in self.heads()], dtype=torch.float64)  # (H, 2)
        vectors = torch.eye(len(self.words), dtype=torch.float64)
        pairs = vectors[torch.tensor(self.sentences())]  # (6, 2, 3)
        return (weights @ pairs).flatten(1)

    def alike(self) -> list[list[int]]:
        """Return the groups of sentences that arrive as the same numbers."""
        rows = self.mixtures()
        same = ((rows[:, None] - rows).abs().amax(-1) < ALIKE).tolist()
        groups = ([j for j, one in enumerate(line) if one] for line in same)
        return [group for i, group in enumerate(groups) if len(group) > 1 and group[0] == i]

    def what_can(self, side: str) -> str:
        """Return what can name a side's word: ``"a matrix"``, ``"no matrix"`` or ``"nothing"``.

        Args:
            side: ``"left"``, who eats, or ``"right"``, who is eaten.
        """
        if side not in ("left", "right"):
            raise ValueError(f"side must be 'left' or 'right'; got {side!r}")
        at = ("left", "right").index(side)
        answers = [sentence[at] for sentence in self.sentences()]
        if any(len({answers[i] for i in group}) > 1 for group in self.alike()):
            return "nothing"
        prefers = self.first > 0.5 if side == "left" else self.first < 0.5
        return "a matrix" if prefers or len(set(self.heads())) > 1 else "no matrix"
