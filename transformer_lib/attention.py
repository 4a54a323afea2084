"""Scaled dot-product attention, twice: once to read, once to run fast.

Shapes throughout the library: ``B`` batch, ``H`` heads, ``T`` queries (target
length), ``S`` keys (source length).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from transformer_lib.dropout import drop

__all__ = ["Attention", "attention", "fused_attention"]


class Attention(NamedTuple):
    """What attention returns: the mixed values and the proportions of the mix."""

    output: Tensor  # (..., T, d_v)
    weights: Tensor  # (..., T, S), each row sums to 1, or to 0 where no key may be seen


def attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None = None,
    *,
    bias: Tensor | None = None,
    scale: float | None = None,
    dropout: float = 0.0,
) -> Attention:
    r"""Mix the values in proportions that depend on how well keys fit the query.

    .. math:: \mathrm{softmax}\left(\frac{Q K^\top}{\sqrt{d_k}} + \text{bias}\right) V

    Args:
        query: ``(..., T, d_k)``.
        key: ``(..., S, d_k)``.
        value: ``(..., S, d_v)``; ``d_v`` need not equal ``d_k``.
        mask: bool, broadcastable to ``(..., T, S)``. True = this query may attend
            to this key. A query that may attend to no key gets zeros.
        bias: float, finite, broadcastable to ``(..., T, S)``; added to the scores.
        scale: what the dot products are multiplied by; ``d_k ** -0.5`` if None.
        dropout: probability of dropping a weight. The returned weights are those
            before dropout.

    Returns:
        ``Attention(output, weights)`` of shapes ``(..., T, d_v)`` and ``(..., T, S)``.

    Raises:
        TypeError: a mask that is not bool, a bias or query that is not float.
        ValueError: shapes that do not fit together.

    Source:
        Vaswani et al. (2017), *Attention Is All You Need*, section 3.2.1, equation (1).

    Example:
        >>> query, key, value = torch.randn(3, 4), torch.randn(5, 4), torch.randn(5, 7)
        >>> output, weights = attention(query, key, value)
        >>> output.shape, weights.shape
        (torch.Size([3, 7]), torch.Size([3, 5]))
    """
    _check(query, key, value, mask, bias)
    if scale is None:
        scale = 1 / math.sqrt(query.size(-1))
    scores = scale * query @ key.transpose(-2, -1)  # (..., T, S)
    if bias is not None:
        scores = scores + bias.to(scores.dtype)
    if mask is None:
        weights = scores.softmax(dim=-1)
    else:
        # The smallest number, not -inf: a row of -inf alone would become NaN.
        # The second fill empties what a row without any key has spread evenly.
        weights = scores.masked_fill(~mask, torch.finfo(scores.dtype).min).softmax(dim=-1)
        weights = weights.masked_fill(~mask, 0.0)
    return Attention(drop(weights, dropout) @ value, weights)


def fused_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None = None,
    *,
    bias: Tensor | None = None,
    scale: float | None = None,
    dropout: float = 0.0,
) -> Tensor:
    """The output of :func:`attention` from PyTorch's fused kernel, without the weights.

    The ``(T, S)`` scores are never written to memory, so this is faster and needs
    memory that grows with ``T + S``, not ``T * S``.

    Args and errors: as :func:`attention`.

    Returns:
        ``(..., T, d_v)``.

    Source:
        Dao et al. (2022), *FlashAttention*; ``F.scaled_dot_product_attention``.

    Example:
        >>> query, key = torch.randn(2, 3, 4), torch.randn(2, 5, 4)
        >>> fused = fused_attention(query, key, key)
        >>> torch.testing.assert_close(fused, attention(query, key, key).output)
    """
    if dropout and query.device.type == "cpu":
        # No fused kernel of PyTorch drops weights on a CPU; its replacement is slower than ours.
        return attention(query, key, value, mask, bias=bias, scale=scale, dropout=dropout).output
    _check(query, key, value, mask, bias)
    empty = None
    if mask is not None:
        # What a kernel does with a row that has no key differs between devices and
        # versions. Show it every key, then throw the result away, gradient included.
        mask = _rows(mask)
        empty = ~mask.any(dim=-1, keepdim=True)
        mask = mask | empty
    if bias is not None:
        bias = _rows(bias.to(query.dtype))
        if mask is not None:
            bias = bias.masked_fill(~mask, torch.finfo(query.dtype).min)
        mask = bias
    output = F.scaled_dot_product_attention(
        query, key, value, attn_mask=mask, dropout_p=dropout, scale=scale
    )
    return output if empty is None else output.masked_fill(empty, 0.0)


def _check(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, bias: Tensor | None
) -> None:
    for name, tensor in (("query", query), ("key", key), ("value", value)):
        if not tensor.is_floating_point():
            raise TypeError(f"{name} must be floating point, got {tensor.dtype}")
        if tensor.dim() < 2:
            raise ValueError(f"{name} must be (..., length, width), got shape {_shape(tensor)}")
    if query.size(-1) != key.size(-1):
        raise ValueError(
            f"query and key must have the same width, got {query.size(-1)} and {key.size(-1)}"
        )
    if key.size(-2) != value.size(-2):
        raise ValueError(
            f"key and value must have the same length, got {key.size(-2)} and {value.size(-2)}"
        )
    if mask is not None and mask.dtype is not torch.bool:
        raise TypeError(f"mask must be bool, True = may attend; got {mask.dtype}")
    if bias is not None and not bias.is_floating_point():
        raise TypeError(f"bias must be floating point, got {bias.dtype}")
    batch = query.shape[:-2]
    if not batch == key.shape[:-2] == value.shape[:-2]:
        try:
            batch = torch.broadcast_shapes(batch, key.shape[:-2], value.shape[:-2])
        except RuntimeError:
            raise ValueError(
                "query, key and value must have the same batch dimensions, "
                f"got shapes {_shape(query)}, {_shape(key)} and {_shape(value)}"
            ) from None
    scores = (*batch, query.size(-2), key.size(-2))
    for name, tensor in (("mask", mask), ("bias", bias)):
        if tensor is not None and not _broadcasts(tensor.shape, scores):
            raise ValueError(
                f"{name} must be broadcastable to {scores} (..., queries, keys), "
                f"got shape {_shape(tensor)}"
            )


def _rows(scores: Tensor) -> Tensor:
    return scores if scores.dim() > 1 else scores.view(1, -1)  # the kernel wants two dimensions


def _shape(tensor: Tensor) -> tuple[int, ...]:
    return tuple(tensor.shape)


def _broadcasts(shape: torch.Size, target: tuple[int, ...]) -> bool:
    return len(shape) <= len(target) and all(
        size in (1, wanted) for size, wanted in zip(reversed(shape), reversed(target), strict=False)
    )
