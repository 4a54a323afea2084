"""The parts that layers are made of: the shortest solutions of chapters 7 and 8."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

__all__ = ["FeedForward", "MultiHeadAttention", "Residual"]


class FeedForward(nn.Module):
    def __init__(self, d_model: int, d_ff: int) -> None:
        super().__init__()
        self.up = nn.Linear(d_model, d_ff)
        self.down = nn.Linear(d_ff, d_model)

    def forward(self, x: Tensor) -> Tensor:
        return self.down(self.up(x).relu())


class Residual(nn.Module):
    def __init__(self, d_model: int, pre_norm: bool) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(d_model)
        self.pre_norm = pre_norm

    def forward(self, x: Tensor, sublayer: Callable[[Tensor], Tensor]) -> Tensor:
        if self.pre_norm:
            return x + sublayer(self.norm(x))
        return self.norm(x + sublayer(x))


class MultiHeadAttention(nn.Module):
    def __init__(self, d_model: int, n_heads: int) -> None:
        super().__init__()
        self.in_proj = nn.Linear(d_model, 3 * d_model)
        self.out_proj = nn.Linear(d_model, d_model)
        self.n_heads = n_heads

    def forward(self, x: Tensor, memory: Tensor, mask: Tensor | None = None) -> Tensor:
        weights, biases = self.in_proj.weight.chunk(3), self.in_proj.bias.chunk(3)
        query, key, value = (
            (a @ w.mT + b).unflatten(-1, (self.n_heads, -1)).transpose(1, 2)
            for a, w, b in zip((x, memory, memory), weights, biases, strict=True)
        )
        scores = query @ key.mT / query.size(-1) ** 0.5
        if mask is not None:
            scores = scores.masked_fill(~mask, -torch.inf)
        return self.out_proj((scores.softmax(-1) @ value).transpose(1, 2).flatten(-2))
