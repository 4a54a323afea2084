"""Scaled dot-product attention, twice: once to read, once to run fast.

Shapes throughout the library: ``B`` batch, ``H`` heads, ``T`` queries (target length), ``S`` keys
(source length).
"""

import math
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from transformer_lib.dropout import drop
from transformer_lib.masks import with_causality
from transformer_lib.validation import (
    autocasting,
    check_bias,
    check_floats,
    check_mask,
    check_number,
    check_type,
    wide,
)

__all__ = ["Attention", "attention", "fused_attention"]

_LARGEST = torch.finfo(torch.float32).max


class Attention(NamedTuple):
    """The output of an attention, and its weights."""

    output: Tensor  # (..., T, d_v)
    weights: Tensor  # (..., T, S), each row sums to 1, or to 0 without a visible key


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
    r"""Average the values, weighted by how well their keys match the query.

    .. math:: \mathrm{softmax}\left(\frac{Q K^\top}{\sqrt{d_k}} + \text{bias}\right) V

    Args:
        query: ``(..., T, d_k)``.
        key: ``(..., S, d_k)``.
        value: ``(..., S, d_v)``.
        mask: bool, broadcastable to ``(..., T, S)``. True = this query may attend to this key. A
            query that may attend to no key gets zeros. In ``nn.Transformer`` True means the
            opposite: pass ``~mask``. With heads, write ``mask[:, None]`` for a mask ``(B, T, S)``,
            or it's taken for ``(H, T, S)`` if ``B`` equals ``H``. A key hidden from every query has
            no influence, not even if it's NaN; a key hidden from some must be finite.
        bias: float, finite, broadcastable to ``(..., T, S)``; added to the scores.
        scale: factor of the dot products, above 0; ``d_k ** -0.5`` if None.
        dropout: probability of dropping a weight. The returned weights are those before dropout.

    Returns:
        ``Attention(output, weights)`` of shapes ``(..., T, d_v)`` and ``(..., T, S)``. Scores and
        softmax are computed in float32 if the inputs are in half precision.

    Raises:
        TypeError: a mask that isn't bool, a tensor that isn't floating point, or different dtypes
            (autocast allows them).
        ValueError: shapes or devices that don't fit together; a number out of range.

    Source:
        Vaswani et al. (2017), *Attention Is All You Need*, section 3.2.1, equation (1).

    Example:
        >>> query, key, value = torch.randn(3, 4), torch.randn(5, 4), torch.randn(5, 7)
        >>> output, weights = attention(query, key, value)
        >>> output.shape, weights.shape
        (torch.Size([3, 7]), torch.Size([3, 5]))
    """
    _check(query, key, value, mask, bias, scale, dropout)
    key, value = _without_hidden(key, value, mask)
    return explicit(query, key, value, mask, bias, scale=scale, dropout=dropout)


def explicit(
    query: Tensor,  # (..., T, d_k)
    key: Tensor,  # (..., S, d_k)
    value: Tensor,  # (..., S, d_v)
    mask: Tensor | None = None,
    bias: Tensor | None = None,
    *,
    scale: float | None = None,
    dropout: float = 0.0,
) -> Attention:
    """:func:`attention` without checks."""
    if scale is None:
        scale = 1 / math.sqrt(query.size(-1))
    scores = _scores(query, key, scale)  # (..., T, S)
    if bias is not None:
        scores = scores + bias.to(scores.dtype)
    return mix(scores, value, mask, dropout)


def _scores(query: Tensor, key: Tensor, scale: float) -> Tensor:
    """Compute in float32, under autocast too: float16 would overflow, bfloat16 round."""
    if autocasting(query.device):
        with torch.autocast(query.device.type, enabled=False):
            return _scores(query, key, scale)
    if query.dtype is key.dtype and query.element_size() == 2:
        return _HalfScores.apply(query.contiguous(), key.contiguous(), scale)
    return scale * wide(query) @ wide(key).mT


class _HalfScores(torch.autograd.Function):
    """Products in float32 of a query and a key in half precision, which is what backward keeps.

    Autograd would keep float32 copies of both, and a model about 11 % more for each token.
    """

    generate_vmap_rule = True

    @staticmethod
    def forward(query: Tensor, key: Tensor, scale: float) -> Tensor:
        return scale * query.float() @ key.float().mT

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        query, key, ctx.scale = inputs
        ctx.save_for_backward(query, key)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor, None]:
        query, key = ctx.saved_tensors
        grad = grads[0].to(query.dtype)  # (..., T, S)
        return ctx.scale * (grad @ key), ctx.scale * (grad.mT @ query), None


def mix(
    scores: Tensor, value: Tensor, mask: Tensor | None = None, dropout: float = 0.0
) -> Attention:
    """Turn scores ``(..., T, S)`` into weights and average the values with them, unchecked."""
    scores = wide(scores)
    if mask is not None:
        # Not -inf: softmax of a row of nothing but -inf is NaN.
        scores = torch.where(mask, scores, torch.finfo(scores.dtype).min)
    weights = scores.softmax(dim=-1).to(value.dtype)
    if mask is not None:
        weights = weights * mask  # a row without a visible key has spread its weight evenly
    return Attention(drop(weights, dropout) @ value, weights)


def fused_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None = None,
    *,
    bias: Tensor | None = None,
    causal: bool = False,
    scale: float | None = None,
    dropout: float = 0.0,
) -> Tensor:
    """The output of :func:`attention`, without the weights, from PyTorch's fused kernel.

    The kernel never writes the ``(T, S)`` scores to memory, so it's faster, and its memory grows
    with ``T + S`` instead of ``T * S``. On a CPU, dropout and training on short texts in half
    precision still take the explicit path, which is faster there.

    Args:
        query, key, value, mask, bias, scale, dropout: as for :func:`attention`.
        causal: hide the keys after each query, as ``mask & causal_mask(T, S)`` does. Without a mask
            or bias, and with one key per query, no mask is made: the kernel skips those keys.

    Returns:
        ``(..., T, d_v)``.

    Raises:
        TypeError, ValueError: as :func:`attention`; fewer keys than queries if ``causal``.

    Source:
        Dao et al. (2022), *FlashAttention*; ``F.scaled_dot_product_attention``.

    Example:
        >>> query, key = torch.randn(2, 3, 4), torch.randn(2, 5, 4)
        >>> fused = fused_attention(query, key, key)
        >>> torch.testing.assert_close(fused, attention(query, key, key).output)
    """
    _check(query, key, value, mask, bias, scale, dropout)
    check_type("causal", causal, bool)
    if causal and key.size(-2) < query.size(-2):
        raise ValueError(
            f"key must be at least as long as query ({query.size(-2)}) if causal, "
            f"got {key.size(-2)}"
        )
    key, value = _without_hidden(key, value, mask)
    query = query.expand(*_scores_shape(query, key, value)[:-1], -1)  # in case value has more rows
    return fused(query, key, value, mask, bias, causal=causal, scale=scale, dropout=dropout)


def fused(
    query: Tensor,  # (..., T, d_k), or (B, H, T, d_k)
    key: Tensor,  # (..., S, d_k), or (B, H / g, S, d_k) for groups of g heads of queries
    value: Tensor,  # (..., S, d_v), or (B, H / g, S, d_v)
    mask: Tensor | None = None,
    bias: Tensor | None = None,
    *,
    causal: bool = False,
    grouped: bool = False,
    scale: float | None = None,
    dropout: float = 0.0,
) -> Tensor:
    """:func:`fused_attention` without checks, also for ``grouped`` query heads."""
    t, s = query.size(-2), key.size(-2)
    slow = query.device.type == "cpu" and (dropout > 0 or _slow_gradient(query, key))
    if causal and (slow or mask is not None or bias is not None or t != s):
        if t > 1:  # a single query comes last and may attend to every key
            mask = with_causality(mask, t, s, query.device)
        causal = False
    if slow:
        if grouped:
            key, value = for_each_head(key, query.size(1)), for_each_head(value, query.size(1))
        return explicit(query, key, value, mask, bias, scale=scale, dropout=dropout).output
    empty = None
    if mask is not None:
        # Kernels differ in what they return for a query without a visible key. Show it every key,
        # then set the result to 0, gradient included.
        mask = _rows(mask)
        empty = ~mask.any(dim=-1, keepdim=True)  # (..., T, 1)
        mask = mask | empty
    if bias is not None:
        bias = _rows(bias.to(query.dtype))
        if mask is not None:
            bias = bias.masked_fill(
                ~mask, -torch.inf
            )  # its lowest number can be too high in float16
        mask = bias
    output = F.scaled_dot_product_attention(
        query, key, value,
        attn_mask=mask, dropout_p=dropout, is_causal=causal, scale=scale, enable_gqa=grouped,
    )  # fmt: skip
    return output if empty is None else output.masked_fill(empty, 0.0)


def for_each_head(x: Tensor, n_heads: int) -> Tensor:
    """Copy shared heads ``(B, H / g, S, d)`` once per query head: ``(B, H, S, d)``."""
    return x.repeat_interleave(n_heads // x.size(1), dim=1)


def _slow_gradient(query: Tensor, key: Tensor) -> bool:
    """Whether the fused kernel's gradient is slow: on a CPU, in half precision, for short texts.

    On one core of an Intel Xeon with AMX, bfloat16, 110 texts of 18 tokens take 6 times as long as
    with :func:`explicit`, 16 of 128 2.1 times, 10 of 192 0.8 times.
    """
    trains = query.requires_grad and torch.is_grad_enabled()
    return trains and query.element_size() == 2 and key.size(-2) < 192


def _without_hidden(key: Tensor, value: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor]:
    """Set keys and values that no query may see to 0: a weight of 0 times NaN is NaN."""
    if mask is None:
        return key, value
    hidden = ~_rows(mask).any(dim=-2)[..., None]  # (..., S, 1)
    return key.masked_fill(hidden, 0.0), value.masked_fill(hidden, 0.0)


def _check(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None,
    bias: Tensor | None,
    scale: float | None,
    dropout: float,
) -> None:
    check_number("dropout", dropout, 0, 1)
    if scale is not None:
        check_number("scale", scale, 0, _LARGEST, "()")
    check_floats(query=query, key=key, value=value)
    if query.size(-1) != key.size(-1) or query.size(-1) == 0:
        raise ValueError(
            "query and key must have the same width, at least 1, "
            f"got {query.size(-1)} and {key.size(-1)}"
        )
    if key.size(-2) != value.size(-2):
        raise ValueError(
            f"key and value must have the same length, got {key.size(-2)} and {value.size(-2)}"
        )
    scores = _scores_shape(query, key, value)
    if mask is not None:
        check_mask("mask", mask, scores, query)
    if bias is not None:
        check_bias("bias", bias, scores, query)


def _scores_shape(query: Tensor, key: Tensor, value: Tensor) -> tuple[int, ...]:
    batch = torch.broadcast_shapes(query.shape[:-2], key.shape[:-2], value.shape[:-2])
    return (*batch, query.size(-2), key.size(-2))  # (..., T, S)


def _rows(scores: Tensor) -> Tensor:
    return scores if scores.dim() > 1 else scores.view(1, -1)  # the kernel wants two dimensions
