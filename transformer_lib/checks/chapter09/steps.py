"""A decoder layer in steps, of which the mistakes of the exercise `MyDecoderLayer` replace some."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from transformer_lib.checks.parts import FeedForward, MultiHeadAttention, Residual

Mask = Tensor | None


class Layer(nn.Module):
    """The layer in steps, of which a mistake replaces one or some."""

    order: tuple[str, ...] = ("back", "across", "think")

    def __init__(self, d_model: int, n_heads: int, d_ff: int, pre_norm: bool) -> None:
        super().__init__()
        pre_norm = self.norm_comes_first(pre_norm)
        self.self_attention = MultiHeadAttention(d_model, n_heads)
        self.cross_attention = MultiHeadAttention(d_model, n_heads)
        self.feed_forward = FeedForward(d_model, d_ff)
        self.self_residual = Residual(d_model, pre_norm)
        self.cross_residual = Residual(d_model, pre_norm)
        self.feed_forward_residual = Residual(d_model, pre_norm)

    def norm_comes_first(self, pre_norm: bool) -> bool:
        return pre_norm

    def forward(
        self, x: Tensor, memory: Tensor, mask: Mask = None, memory_mask: Mask = None
    ) -> Tensor:
        for step in self.order:
            x = getattr(self, step)(x, memory, mask, memory_mask)
        return x

    def back(self, x: Tensor, memory: Tensor, mask: Mask, memory_mask: Mask) -> Tensor:
        return self.self_residual(x, lambda x: self.self_attention(x, x, mask))

    def across(self, x: Tensor, memory: Tensor, mask: Mask, memory_mask: Mask) -> Tensor:
        return self.cross_residual(x, lambda x: self.cross_attention(x, memory, memory_mask))

    def think(self, x: Tensor, memory: Tensor, mask: Mask, memory_mask: Mask) -> Tensor:
        return self.feed_forward_residual(x, self.feed_forward)


def but(**parts: Any) -> type[nn.Module]:
    return type("DecoderLayer", (Layer,), parts)


def look_back(how: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """A look back whose sublayer is `how(layer, normed, x, memory, mask, memory_mask)`."""

    def back(self: Any, x: Tensor, memory: Tensor, mask: Mask, memory_mask: Mask) -> Tensor:
        return self.self_residual(x, lambda y: how(self, y, x, memory, mask, memory_mask))

    return back


def look_across(how: Callable[..., Tensor]) -> Callable[..., Tensor]:
    def across(self: Any, x: Tensor, memory: Tensor, mask: Mask, memory_mask: Mask) -> Tensor:
        return self.cross_residual(x, lambda y: how(self, y, x, memory, mask, memory_mask))

    return across


def both(mask: Mask, other: Mask) -> Mask:
    return other if mask is None else mask if other is None else mask & other


def triangle(x: Tensor) -> Tensor:
    return torch.ones(x.size(1), x.size(1), dtype=torch.bool, device=x.device).tril()


def skip(residual: str, sublayer: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """A sublayer with no way around it, its norm before or after it."""

    def step(self: Any, x: Tensor, memory: Tensor, mask: Mask, memory_mask: Mask) -> Tensor:
        around = getattr(self, residual)
        if around.pre_norm:
            return sublayer(self, around.norm(x), memory, mask, memory_mask)
        return around.norm(sublayer(self, x, memory, mask, memory_mask))

    return step


def lost_stream(residual: str, sublayer: Callable[..., Tensor]) -> Callable[..., Tensor]:
    def step(self: Any, x: Tensor, memory: Tensor, mask: Mask, memory_mask: Mask) -> Tensor:
        around = getattr(self, residual)
        x = around.norm(x) if around.pre_norm else x
        x = x + sublayer(self, x, memory, mask, memory_mask)
        return x if around.pre_norm else around.norm(x)

    return step


def without_norm(sublayer: Callable[..., Tensor]) -> Callable[..., Tensor]:
    def step(self: Any, x: Tensor, memory: Tensor, mask: Mask, memory_mask: Mask) -> Tensor:
        return x + sublayer(self, x, memory, mask, memory_mask)

    return step


def added_twice(step: str) -> Callable[..., Tensor]:
    """A step whose result, which x is in already, is added to x."""
    right = getattr(Layer, step)
    return lambda self, x, *given: x + right(self, x, *given)


def self_step(layer: Any, x: Tensor, memory: Tensor, mask: Mask, memory_mask: Mask) -> Tensor:
    return layer.self_attention(x, x, mask)


def cross_step(layer: Any, x: Tensor, memory: Tensor, mask: Mask, memory_mask: Mask) -> Tensor:
    return layer.cross_attention(x, memory, memory_mask)


def ffn_step(layer: Any, x: Tensor, memory: Tensor, mask: Mask, memory_mask: Mask) -> Tensor:
    return layer.feed_forward(x)


def side_by_side(
    self: Any, x: Tensor, memory: Tensor, mask: Mask = None, memory_mask: Mask = None
) -> Tensor:
    """All three sublayers read the layer's input; their results are added up."""
    given = (memory, mask, memory_mask)
    return sum((self.back(x, *given), self.across(x, *given), self.think(x, *given)), -2 * x)


def looks_side_by_side(
    self: Any, x: Tensor, memory: Tensor, mask: Mask = None, memory_mask: Mask = None
) -> Tensor:
    """Both looks read the layer's input; what they have found is added up, then thought about."""
    given = (memory, mask, memory_mask)
    return self.think(self.back(x, *given) + self.across(x, *given) - x, *given)


def around_from_the_start(
    self: Any, x: Tensor, memory: Tensor, mask: Mask = None, memory_mask: Mask = None
) -> Tensor:
    """What the look across finds is added to the layer's input: the look back only asks."""
    y = self.back(x, memory, mask, memory_mask)
    residual = self.cross_residual
    found = cross_step(
        self, residual.norm(y) if residual.pre_norm else y, memory, mask, memory_mask
    )
    z = x + found if residual.pre_norm else residual.norm(x + found)
    return self.think(z, memory, mask, memory_mask)


def first_input_asks(
    self: Any, x: Tensor, memory: Tensor, mask: Mask = None, memory_mask: Mask = None
) -> Tensor:
    y = self.back(x, memory, mask, memory_mask)
    z = self.cross_residual(y, lambda _: self.cross_attention(x, memory, memory_mask))
    return self.think(z, memory, mask, memory_mask)


def from_the_input(
    self: Any, x: Tensor, memory: Tensor, mask: Mask = None, memory_mask: Mask = None
) -> Tensor:
    """The look across goes around the look back: it begins from the layer's input again."""
    self.back(x, memory, mask, memory_mask)
    return self.think(self.across(x, memory, mask, memory_mask), memory, mask, memory_mask)


def exchanged_parameters(
    self: Any, x: Tensor, memory: Tensor, memory_mask: Mask = None, mask: Mask = None
) -> Tensor:
    return Layer.forward(self, x, memory, mask, memory_mask)


IN_FLOAT32 = [
    but(
        forward=lambda layer, x, memory, mask=None, memory_mask=None: Layer.forward(
            layer, x.float(), memory.float(), mask, memory_mask
        )
    ),
    but(
        forward=lambda layer, x, memory, mask=None, memory_mask=None: Layer.forward(
            layer, x.float(), memory, mask, memory_mask
        )
    ),
]
