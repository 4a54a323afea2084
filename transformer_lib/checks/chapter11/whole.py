"""A right `MyTransformer`, in steps of which a mistake replaces some."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from transformer_lib.checks.chapter11.parts import DecoderLayer, EncoderLayer, Stack, waves

__all__ = ["MyTransformer", "but", "either"]


class MyTransformer(nn.Module):
    """The reference: ids in, logits out."""

    last: Callable[[bool], bool] = staticmethod(lambda pre_norm: pre_norm)

    def __init__(
        self,
        vocab_size: int,
        d_model: int,
        n_heads: int,
        d_ff: int,
        n_layers: int,
        pre_norm: bool,
        pad_id: int = 0,
    ) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, d_model)
        nn.init.normal_(self.embedding.weight, std=d_model**-0.5)
        sizes, last = (d_model, n_heads, d_ff, pre_norm), self.last(pre_norm)
        self.sizes = sizes
        self.encoder = Stack(EncoderLayer, n_layers, sizes, last)
        self.decoder = Stack(DecoderLayer, n_layers, sizes, last)
        self.d_model, self.d_head, self.pad_id = d_model, d_model // n_heads, pad_id
        self.more(vocab_size, d_model)

    def more(self, vocab_size: int, d_model: int) -> None:
        """What a mistake has besides."""

    def hide(self, ids: Tensor) -> Tensor:
        return (ids != self.pad_id)[:, None, None]

    def causal(self, t: int) -> Tensor:
        return torch.ones(t, t, dtype=torch.bool).tril()

    def look(self, ids: Tensor) -> Tensor:
        return self.embedding(ids)

    def place(self, x: Tensor) -> Tensor:
        return waves(x.size(1), self.d_model).to(x)

    def enter(self, ids: Tensor) -> Tensor:
        x = self.look(ids)
        return x * self.d_model**0.5 + self.place(x)

    def enter_source(self, ids: Tensor) -> Tensor:
        return self.enter(ids)

    def enter_target(self, ids: Tensor) -> Tensor:
        return self.enter(ids)

    def target_mask(self, target: Tensor, source: Tensor) -> Tensor | None:
        return self.causal(target.size(1)) & self.hide(target)

    def source_mask(self, source: Tensor) -> Tensor | None:
        return self.hide(source)

    def cross_mask(self, source: Tensor, target: Tensor) -> Tensor | None:
        return self.hide(source)

    def encode(self, source: Tensor) -> Tensor:
        return self.encoder(self.enter_source(source), self.source_mask(source))

    def decode(self, x: Tensor, memory: Tensor, *masks: Tensor | None) -> Tensor:
        return self.decoder(x, memory, *masks)

    def leave(self, x: Tensor) -> Tensor:
        return x @ self.embedding.weight.mT

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        memory = self.encode(source)
        x = self.enter_target(target)
        masks = self.target_mask(target, source), self.cross_mask(source, target)
        return self.leave(self.decode(x, memory, *masks))


def but(**parts: Any) -> type:
    """`MyTransformer` in which a mistake replaces methods."""
    return type("MyTransformer", (MyTransformer,), parts)


def either(**parts: Any) -> list[type]:
    """The same twice: some hide the padding of the target, which causality hides as well."""
    return [
        but(**parts),
        but(**parts, target_mask=lambda self, target, source: self.causal(target.size(1))),
    ]
