"""BeamGrower: what beam search keeps and what it loses (chapter 14)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import traitlets

from .base import MADE_UP, LiveFigure, Number, Numbers, all_or_none, compose, dress, same_length
from .beam_tree import PENALTIES, SIZES, Step, Tree, record, search, stand_in

if TYPE_CHECKING:
    from ...data import Tokenizer
    from ...decoding import StepModel


class BeamGrower(LiveFigure):
    """Beam search, step by step, over a tree of stored next-token probabilities.

    The page searches the tree as :func:`~transformer_lib.beam_search` searches a model: the same
    candidates, length penalty, finished texts and stopping rule.

    Without arguments the tree is made up; :meth:`from_model` records a trained model.

    Args:
        source: the text to translate.
        parents: the parent of each node from node 1 on; node 0 is the empty prefix.
        tokens: each node's token; ``"<eos>"`` ends a text, ``▁`` is a space.
        gains: its log-probability, given the tokens before it.
        max_len: the most tokens of a text, 1 to 40.
        beam_size: 1 to 4.
        length_penalty: 0 to 1 in steps of 0.2; a text's score is its log-probability over
            ((5 + length) / 6) to this power.
        step: how many steps of the search to show, at most.

    Raises:
        ValueError: a number out of range, or lists that don't make a tree.

    >>> BeamGrower(beam_size=1)
    BeamGrower(beam_size=1, length_penalty=0.6, step=4)
    """

    _esm = compose("beam_grower.js")
    _css = dress("beam_grower.css")
    shown = ("beam_size", "length_penalty", "step")

    source = traitlets.Unicode().tag(sync=True)
    parents = Numbers([], low=0, high=100_000)
    tokens = traitlets.List(traitlets.Unicode()).tag(sync=True)
    gains = Numbers([], low=-1e6, high=0)
    max_len = Number(6, low=1, high=40, whole=True)
    beam_size = Number(2, low=min(SIZES), high=max(SIZES), whole=True)
    length_penalty = Number(0.6, low=min(PENALTIES), high=max(PENALTIES))
    step = Number(4, low=0, high=40, whole=True)

    def __init__(self, **numbers: Any) -> None:
        data = ("source", "parents", "tokens", "gains", "max_len")
        if not all_or_none(numbers, data):
            numbers |= stand_in() | {"source": "ein Hund bellt laut"}
            numbers.setdefault("note", MADE_UP)
        super().__init__(**numbers)
        same_length(self, ("parents", "tokens", "gains"))
        if not self.parents:
            raise ValueError("parents must not be empty")
        for i, parent in enumerate(self.parents):
            if parent > i or parent % 1:
                raise ValueError(f"parents[{i}] must be a node before node {i + 1}; got {parent}")

    @traitlets.validate("length_penalty")
    def _on_the_grid(self, proposal: Any) -> float:
        if all(abs(proposal["value"] - exponent) > 1e-6 for exponent in PENALTIES):
            raise ValueError(
                f"length_penalty must be one of {', '.join(map(str, PENALTIES))}; "
                f"got {proposal['value']}"
            )
        return proposal["value"]

    @classmethod
    def from_model(
        cls,
        model: StepModel,
        tokenizer: Tokenizer,
        source: str,
        *,
        max_len: int = 30,
        **numbers: Any,
    ) -> BeamGrower:
        """Record a trained model's predictions for every prefix that the figure can reach.

        Args:
            model: any model with ``start`` and ``step``, such as a ``Transformer``.
            tokenizer: the model's tokenizer.
            source: the text to translate.
            max_len: the most tokens to write.
            numbers: other arguments of the figure: ``beam_size``, ``step``, ``anchor``, ``note``, …
        """
        import torch

        parameters = getattr(model, "parameters", list)()
        device = next((parameter.device for parameter in parameters), None)
        ids = torch.tensor([tokenizer.encode(source)], device=device)
        words = tokenizer.tokens(range(tokenizer.vocab_size))
        return cls(source=source, max_len=max_len, **record(model, ids, words, max_len), **numbers)

    def tree(self) -> Tree:
        return Tree(self.parents, self.tokens, self.gains)

    def search(self) -> list[Step]:
        """Return all steps of the current search."""
        return search(self.tree(), self.beam_size, self.length_penalty, self.max_len)
