"""The parts of a right `MyTransformer`, in small methods that a mistake can replace."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from transformer_lib.checks.parts import FeedForward, MultiHeadAttention, Residual

__all__ = ["DecoderLayer", "EncoderLayer", "Stack", "waves"]


def waves(length: int, d_model: int, first: int = 0) -> Tensor:
    """The paper's positions, ``(length, d_model)``."""
    position = torch.arange(first, first + length)[:, None]
    rate = 10_000.0 ** (-torch.arange(0, d_model, 2) / d_model)
    angle = position * rate
    return torch.stack([angle.sin(), angle.cos()], dim=-1).flatten(-2)


class EncoderLayer(nn.Module):
    """Self-attention, feed-forward."""

    def __init__(self, d_model: int, n_heads: int, d_ff: int, pre_norm: bool) -> None:
        super().__init__()
        self.self_attention = MultiHeadAttention(d_model, n_heads)
        self.feed_forward = FeedForward(d_model, d_ff)
        self.attention_residual = Residual(d_model, pre_norm)
        self.feed_forward_residual = Residual(d_model, pre_norm)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        x = self.attention_residual(x, lambda x: self.self_attention(x, x, mask))
        return self.feed_forward_residual(x, self.feed_forward)


class DecoderLayer(nn.Module):
    """Self-attention, cross-attention, feed-forward."""

    def __init__(self, d_model: int, n_heads: int, d_ff: int, pre_norm: bool) -> None:
        super().__init__()
        self.self_attention = MultiHeadAttention(d_model, n_heads)
        self.cross_attention = MultiHeadAttention(d_model, n_heads)
        self.feed_forward = FeedForward(d_model, d_ff)
        self.self_residual = Residual(d_model, pre_norm)
        self.cross_residual = Residual(d_model, pre_norm)
        self.feed_forward_residual = Residual(d_model, pre_norm)

    def forward(
        self,
        x: Tensor,
        memory: Tensor,
        mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
    ) -> Tensor:
        x = self.self_residual(x, lambda x: self.self_attention(x, x, mask))
        x = self.cross_residual(x, lambda x: self.cross_attention(x, memory, memory_mask))
        return self.feed_forward_residual(x, self.feed_forward)


class Stack(nn.Module):
    """Layers one after the other, and a last norm where there is one."""

    def __init__(
        self,
        kind: Callable[..., nn.Module],
        n_layers: int,
        sizes: tuple[int, int, int, bool],
        last: bool,
    ) -> None:
        super().__init__()
        self.layers = nn.ModuleList(kind(*sizes) for _ in range(n_layers))
        self.norm = nn.LayerNorm(sizes[0]) if last else nn.Identity()

    def forward(self, x: Tensor, *given: Tensor | None) -> Tensor:
        return self.norm(self.through(x, *given))

    def through(self, x: Tensor, *given: Tensor | None) -> Tensor:
        """The layers, without the last norm."""
        for layer in self.layers:
            x = layer(x, *given)
        return x
