"""OneMixture: what a matrix can read from one head, and what from two (chapter 6)."""

from typing import Any

import traitlets

from .base import LiveFigure, Number, compose, dress


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

    >>> OneMixture(first=0.7)
    OneMixture(first=0.7, second=0.0, twice=False)
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
        if abs(weight - proposal["value"]) > 1e-9:
            name = proposal["trait"].name
            raise ValueError(f"{name} must be one of 0, 0.1, …, 1; got {proposal['value']}")
        return weight

    @traitlets.validate("words")
    def _different(self, proposal: Any) -> list[str]:
        if len(set(proposal["value"])) < len(proposal["value"]):
            raise ValueError(f"words must be different; got {proposal['value']}")
        return proposal["value"]
