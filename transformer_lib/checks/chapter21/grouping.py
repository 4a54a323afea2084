"""The model solution of the exercise `grouped_attention`, in steps."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

__all__ = ["grouped"]


def spread(heads: Tensor, n_heads: int) -> Tensor:
    """Each head of keys or values once for each query head that reads it."""
    return heads.repeat_interleave(n_heads // heads.size(1), dim=1)


def grouped(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor,
    *,
    keys: Callable[[Tensor, int], Tensor] = spread,
    values: Callable[[Tensor, int], Tensor] = spread,
    scale: Callable[[Tensor], float] = lambda query: query.size(-1) ** -0.5,
    hide: Callable[[Tensor, Tensor], Tensor] = lambda scores, mask: scores.masked_fill(
        ~mask, torch.finfo(scores.dtype).min
    ),
    weigh: Callable[[Tensor], Tensor] = lambda scores: scores.softmax(dim=-1),
    end: Callable[[Tensor, Tensor], Tensor] = lambda mixed, key: mixed,
) -> Tensor:
    """Attention whose query heads share keys in groups, in steps: a mistake replaces one."""
    key_of, value_of = keys(key, query.size(1)), values(value, query.size(1))
    scores = query @ key_of.transpose(-2, -1) * scale(query)
    return end(weigh(hide(scores, mask)) @ value_of, key)
