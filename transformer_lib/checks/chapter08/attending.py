"""Multi-head attention in steps, and the steps that learners get wrong."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

HIDDEN = -torch.inf


class MultiHeadAttention(nn.Module):
    """The layer in steps, of which a mistake replaces one."""

    def __init__(self, d_model: int, n_heads: int) -> None:
        super().__init__()
        self.in_proj = nn.Linear(d_model, 3 * d_model)
        self.out_proj = nn.Linear(d_model, d_model)
        self.n_heads = n_heads

    def project(self, x: Tensor, memory: Tensor) -> tuple[Tensor, ...]:
        W, b = self.in_proj.weight.chunk(3), self.in_proj.bias.chunk(3)
        return tuple(F.linear(a, W[i], b[i]) for i, a in enumerate((x, memory, memory)))

    def split(self, x: Tensor) -> Tensor:
        return x.unflatten(-1, (self.n_heads, -1)).transpose(1, 2)

    def merge(self, x: Tensor) -> Tensor:
        return x.transpose(1, 2).flatten(2)

    def scale(self, query: Tensor) -> float:
        return query.shape[-1] ** -0.5

    def hide(self, scores: Tensor, mask: Tensor) -> Tensor:
        return scores.masked_fill(~mask, HIDDEN)

    def weigh(self, scores: Tensor, mask: Tensor | None) -> Tensor:
        return (scores if mask is None else self.hide(scores, mask)).softmax(-1)

    def out(self, joined: Tensor) -> Tensor:
        return self.out_proj(joined)

    def forward(self, x: Tensor, memory: Tensor, mask: Tensor | None = None) -> Tensor:
        query, key, value = (self.split(a) for a in self.project(x, memory))
        weights = self.weigh(query @ key.mT * self.scale(query), mask)
        return self.out(self.merge(weights @ value))


def but(**steps: Any) -> type[nn.Module]:
    return type("_Wrong", (MultiHeadAttention,), steps)


def softmax_over(axis: int, fill: float) -> type[nn.Module]:
    def weigh(self: Any, scores: Tensor, mask: Tensor | None) -> Tensor:
        return (scores if mask is None else scores.masked_fill(~mask, fill)).softmax(axis)

    return but(weigh=weigh)


def made_from(*sources: int, order: tuple[int, ...] = (0, 1, 2)) -> type[nn.Module]:
    """Query, key and value made from x (0) or memory (1), with the thirds in some order."""

    def project(self: Any, x: Tensor, memory: Tensor) -> tuple[Tensor, ...]:
        W, b = self.in_proj.weight.chunk(3), self.in_proj.bias.chunk(3)
        both = (x, memory)
        return tuple(F.linear(both[s], W[i], b[i]) for s, i in zip(sources, order, strict=True))

    return but(project=project)


def turned(self: Any, x: Tensor, memory: Tensor) -> tuple[Tensor, ...]:
    W, b = self.in_proj.weight.chunk(3), self.in_proj.bias.chunk(3)
    return tuple(a @ W[i] + b[i] for i, a in enumerate((x, memory, memory)))


def without_bias(self: Any, x: Tensor, memory: Tensor) -> tuple[Tensor, ...]:
    W = self.in_proj.weight.chunk(3)
    return tuple(F.linear(a, W[i]) for i, a in enumerate((x, memory, memory)))


def query_bias_alone(self: Any, x: Tensor, memory: Tensor) -> tuple[Tensor, ...]:
    W, b = self.in_proj.weight.chunk(3), self.in_proj.bias.chunk(3)
    return F.linear(x, W[0], b[0]), F.linear(memory, W[1]), F.linear(memory, W[2])


def thirds_in_each_head(self: Any, x: Tensor, memory: Tensor) -> tuple[Tensor, ...]:
    def third(a: Tensor, i: int) -> Tensor:
        return self.in_proj(a).unflatten(-1, (self.n_heads, 3, -1))[..., i, :].flatten(-2)

    return third(x, 0), third(memory, 1), third(memory, 2)


def every_third(self: Any, x: Tensor, memory: Tensor) -> tuple[Tensor, ...]:
    def third(a: Tensor, i: int) -> Tensor:
        return self.in_proj(a).unflatten(-1, (-1, 3))[..., i]

    return third(x, 0), third(memory, 1), third(memory, 2)


def after_softmax(self: Any, scores: Tensor, mask: Tensor | None) -> Tensor:
    weights = scores.softmax(-1)
    return weights if mask is None else weights * mask


def split_wrong(self: Any, x: Tensor) -> Tensor:
    return x.reshape(x.shape[0], self.n_heads, x.shape[1], -1)


def merge_wrong(self: Any, x: Tensor) -> Tensor:
    return x.reshape(x.shape[0], x.shape[2], -1)


def merge_by_number(self: Any, x: Tensor) -> Tensor:
    return x.movedim(1, -1).flatten(2)


class MultiHead(nn.Module):
    """As `mine.py` has it, with four matrices."""

    def __init__(self, d_model: int, n_heads: int) -> None:
        super().__init__()
        self.n_heads = n_heads
        self.query = nn.Linear(d_model, d_model)
        self.key = nn.Linear(d_model, d_model)
        self.value = nn.Linear(d_model, d_model)
        self.output = nn.Linear(d_model, d_model)

    def forward(self, x: Tensor, memory: Tensor, mask: Tensor | None = None) -> Tensor:
        query, key, value = (
            y.unflatten(-1, (self.n_heads, -1)).transpose(1, 2)
            for y in (self.query(x), self.key(memory), self.value(memory))
        )
        scores = query @ key.mT / query.size(-1) ** 0.5
        if mask is not None:
            scores = scores.masked_fill(~mask, torch.finfo(scores.dtype).min)
        return self.output((scores.softmax(-1) @ value).transpose(1, 2).flatten(2))
