"""Sampler: what temperature, top-k and top-p do to a model's next letter (chapter 18)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import traitlets

from .base import MADE_UP, LiveFigure, Number, Numbers, all_or_none, compose, dress, same_length

if TYPE_CHECKING:
    from torch import Tensor

STAND_IN = {
    "prompts": ["th", "q"],
    "pieces": list("eaiou r\nns"),
    "logits": [
        [3.0, 1.6, 1.4, 1.0, 0.2, 0.9, 0.8, -0.5, -2.0, -1.4],
        [-2.0, -1.5, -2.0, -3.0, 4.0, -1.0, -3.0, -2.5, -4.0, -4.0],
    ],
}


class Sampler(LiveFigure):
    r"""The next letter's probabilities, and how three settings change them.

    As in :func:`~transformer_lib.sample`, the logits are divided by the temperature; of their
    softmax, the ``top_k`` most probable stay; of these, the fewest that add up to ``top_p``.

    Without arguments the numbers are made up; :meth:`from_model` takes a model's.

    Args:
        prompts: the end of the text so far, for each distribution.
        pieces: the possible next pieces, such as letters.
        logits: for each prompt, one number per piece.
        prompt: the prompt to show, from 0.
        temperature: 0.1 to 3.2.
        top_k: from 1; the number of pieces, or more, keeps all of them.
        top_p: 0.01 to 1.

    Raises:
        ValueError: a number out of range, or lists that don't fit together.

    >>> Sampler(top_k=3)
    Sampler(prompt=0, temperature=1.0, top_k=3, top_p=1.0)
    """

    _esm = compose("sampler.js")
    _css = dress("sampler.css")
    shown = ("prompt", "temperature", "top_k", "top_p")

    prompts = traitlets.List(traitlets.Unicode()).tag(sync=True)
    pieces = traitlets.List(traitlets.Unicode()).tag(sync=True)
    logits = Numbers([], depth=2, low=-1e4, high=1e4)
    prompt = Number(0, low=0, high=99, whole=True)
    temperature = Number(1.0, low=0.1, high=3.2)
    top_k = Number(100_000, low=1, high=100_000, whole=True)
    top_p = Number(1.0, low=0.01, high=1)

    def __init__(self, **numbers: Any) -> None:
        if not all_or_none(numbers, STAND_IN):
            numbers |= STAND_IN
            numbers.setdefault("note", MADE_UP)
        super().__init__(**numbers)
        same_length(self, ("prompts", "logits"))
        for i, row in enumerate(self.logits):
            if len(row) != len(self.pieces) or not row:
                raise ValueError(
                    f"logits[{i}] must have one number per piece, {len(self.pieces)}; "
                    f"got {len(row)}"
                )
        if self.prompt >= len(self.prompts):
            raise ValueError(f"prompt must be from 0 to {len(self.prompts) - 1}; got {self.prompt}")

    @classmethod
    def from_model(
        cls,
        model: Callable[[Tensor], Tensor],
        pieces: Sequence[str],
        prompts: Sequence[str],
        *,
        show: int = 6,
        **numbers: Any,
    ) -> Sampler:
        """Take the logits from a model that continues text, such as chapter 18's ``GPT``.

        Args:
            model: maps ids ``(1, T)`` to logits ``(1, T, V)``.
            pieces: the ``V`` characters, in the order of their ids.
            prompts: texts for the model to read.
            show: how many of a prompt's last characters to show.
            numbers: other arguments of the figure: ``temperature``, ``anchor``, ``note``, …
        """
        import torch

        ids = {piece: i for i, piece in enumerate(pieces)}
        logits = []
        with torch.no_grad():
            for text in prompts:
                last = model(torch.tensor([[ids[piece] for piece in text]]))[0, -1]  # (V,)
                logits.append([round(x, 3) for x in last.tolist()])
        ends = [text[-show:] for text in prompts]
        return cls(prompts=ends, pieces=list(pieces), logits=logits, **numbers)
