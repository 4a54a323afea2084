"""WhoKnows: which input words a word can depend on after some layers (chapters 8 and 9)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import traitlets

from .base import LiveFigure, Number, OneOf, compose, dress
from .mask_painter import PAD

if TYPE_CHECKING:
    from torch import Tensor


class WhoKnows(LiveFigure):
    """Words in columns, layers in rows: which input words can each one depend on?

    Args:
        words: the text, 2 to 8 words.
        source: a second text, 0 to 8 words, that an encoder has read; ``"<pad>"`` is hidden.
        layers: the number of layers, 1 to 6.
        mask: what a word attends to: ``"window"``: words near it, ``"everyone"``, ``"past"``:
            itself and the words before it, or ``"past-window"``: those of them that are near.
        window: how many words on each side are near, 0 to 3.
        across: whether each layer also attends to the source.
        layer: the selected word's layer, from 1.
        token: the selected word's position, from 0.

    Raises:
        ValueError: a number out of range, or a source with nothing but padding.

    >>> WhoKnows(mask="past", layer=1)
    WhoKnows(mask='past', window=1, across=False, layer=1, token=3)
    """

    _esm = compose("who_knows.js")
    _css = dress("who_knows.css")
    shown = ("mask", "window", "across", "layer", "token")

    words = traitlets.List(
        traitlets.Unicode(), ["the", "hungry", "cat", "eats", "fresh", "fish"], 2, 8
    ).tag(sync=True)
    source = traitlets.List(traitlets.Unicode(), [], 0, 8).tag(sync=True)
    layers = Number(4, low=1, high=6, whole=True)
    mask = OneOf("window", "everyone", "past", "past-window")
    window = Number(1, low=0, high=3, whole=True)
    across = traitlets.Bool(False).tag(sync=True)
    layer = Number(2, low=1, high=6, whole=True)
    token = Number(3, low=0, high=7, whole=True)

    def __init__(self, **numbers: Any) -> None:
        for name, most in (("layer", "layers"), ("token", "words")):
            if most in numbers and name not in numbers:
                numbers[name] = 1 if name == "layer" else 0
        super().__init__(**numbers)
        if self.layer > self.layers:
            raise ValueError(f"layer must be at most layers, {self.layers}; got {self.layer}")
        if self.token >= len(self.words):
            raise ValueError(
                f"token must be below {len(self.words)}, the number of words; got {self.token}"
            )
        if self.source and set(self.source) == {PAD}:
            raise ValueError(f"source must have a word other than {PAD}; got {self.source}")

    def reach(self) -> Tensor:
        """Return which inputs each word can depend on: bool ``(1 + layers, T, T + S)``.

        The first table is before all layers, where a word knows only itself. Columns are the words
        of the text, then those of the source.
        """
        import torch

        from ...masks import causal_mask, local_mask

        t = len(self.words)
        look = torch.ones(t, t, dtype=torch.bool)
        if "past" in self.mask:
            look &= causal_mask(t)
        if "window" in self.mask:
            look &= local_mask(t, window=self.window)
        real = torch.tensor([word != PAD for word in self.source], dtype=torch.bool)
        tables = [torch.eye(t, t + len(real), dtype=torch.bool)]
        for _ in range(self.layers):
            known = look.float() @ tables[-1].float() > 0
            known[:, t:] |= real & self.across
            tables.append(known)
        return torch.stack(tables)
