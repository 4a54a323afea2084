"""Scaled dot-product attention, twice: once to read, once to run fast. And two older scores.

Shapes throughout the library: ``B`` batch, ``H`` heads, ``T`` queries (target
length), ``S`` keys (source length).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from transformer_lib.arguments import check_count, check_number, check_type, check_vectors
from transformer_lib.dropout import drop
from transformer_lib.tensors import check_bias, check_floats, check_mask

__all__ = ["AdditiveScore", "Attention", "LuongScore", "attention", "fused_attention"]

_LARGEST = torch.finfo(torch.float32).max


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
            to this key. A query that may attend to no key gets zeros. ``nn.Transformer``
            means the opposite by True: hand over ``~mask`` from there.
        bias: float, finite, broadcastable to ``(..., T, S)``; added to the scores.
        scale: what the dot products are multiplied by; ``d_k ** -0.5`` if None.
        dropout: probability of dropping a weight. The returned weights are those
            before dropout.

    Returns:
        ``Attention(output, weights)`` of shapes ``(..., T, d_v)`` and ``(..., T, S)``.

    Raises:
        TypeError: a mask that is not bool, a bias or query that is not float, tensors of
            different dtypes (under autocast they may differ).
        ValueError: shapes or devices that do not fit together; a number out of its range.

    Source:
        Vaswani et al. (2017), *Attention Is All You Need*, section 3.2.1, equation (1).

    Example:
        >>> query, key, value = torch.randn(3, 4), torch.randn(5, 4), torch.randn(5, 7)
        >>> output, weights = attention(query, key, value)
        >>> output.shape, weights.shape
        (torch.Size([3, 7]), torch.Size([3, 5]))
    """
    _check(query, key, value, mask, bias, scale, dropout)
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
    _check(query, key, value, mask, bias, scale, dropout)
    if query.device.type == "cpu" and (dropout or _slow_gradient(query, key)):
        # No fused kernel of PyTorch drops weights on a CPU; its replacement is slower than ours.
        return attention(query, key, value, mask, bias=bias, scale=scale, dropout=dropout).output
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


class AdditiveScore(nn.Module):
    r"""How well a key fits a query, as a small network says.

    .. math:: v^\top \tanh(W q + U k)

    Args:
        d_query: width of queries.
        d_key: width of keys.
        d_hidden: width of the hidden layer.

    Raises:
        TypeError, ValueError: a width that is no integer of at least 1.

    Source:
        Bahdanau, Cho and Bengio (2015), section 3.1 and appendix A.1.2: the alignment model.

    Example:
        >>> score = AdditiveScore(d_query=4, d_key=6, d_hidden=8)
        >>> score(torch.randn(2, 3, 4), torch.randn(2, 5, 6)).shape
        torch.Size([2, 3, 5])
    """

    def __init__(self, *, d_query: int, d_key: int, d_hidden: int) -> None:
        super().__init__()
        for name, width in (("d_query", d_query), ("d_key", d_key), ("d_hidden", d_hidden)):
            check_count(name, width)
        self.query = nn.Linear(d_query, d_hidden, bias=False)  # W
        self.key = nn.Linear(d_key, d_hidden, bias=False)  # U
        self.v = nn.Linear(d_hidden, 1, bias=False)

    def forward(self, query: Tensor, key: Tensor) -> Tensor:
        """Queries ``(..., T, d_query)`` and keys ``(..., S, d_key)`` to scores ``(..., T, S)``."""
        check_floats(query=query, key=key)
        return self.compare(query, self.prepare(key))

    def prepare(self, key: Tensor) -> Tensor:
        """What :meth:`compare` needs of the keys and no query changes, ``(..., S, d_hidden)``."""
        check_vectors("key", key, self.key.in_features, self.key.weight, dims=None)
        return self.key(key)

    def compare(self, query: Tensor, prepared: Tensor) -> Tensor:
        """Queries ``(..., T, d_query)`` and prepared keys to scores ``(..., T, S)``."""
        weight = self.query.weight
        check_vectors("query", query, self.query.in_features, weight, dims=None)
        check_vectors("prepared", prepared, self.query.out_features, weight, dims=None)
        check_floats(query=query, prepared=prepared)
        both = self.query(query).unsqueeze(-2) + prepared.unsqueeze(-3)  # (..., T, S, d_hidden)
        return self.v(both.tanh()).squeeze(-1)


class LuongScore(nn.Module):
    r"""How well a key fits a query, in one of three ways.

    .. math::
        \text{dot: } q^\top k, \qquad \text{general: } q^\top W k, \qquad
        \text{concat: } v^\top \tanh(W [q; k])

    ``concat`` is :class:`AdditiveScore`: the halves of its W are that one's W and U.

    Args:
        kind: ``"dot"``, ``"general"`` or ``"concat"``.
        d_query: width of queries.
        d_key: width of keys; for ``"dot"`` that of the queries.
        d_hidden: width of the hidden layer. Only ``"concat"`` has one.

    Raises:
        TypeError, ValueError: another kind; a width that is no integer of at least 1.

    Source:
        Luong, Pham and Manning (2015), section 3.1, equation (8).

    Example:
        >>> score = LuongScore(kind="general", d_query=4, d_key=6)
        >>> score(torch.randn(2, 3, 4), torch.randn(2, 5, 6)).shape
        torch.Size([2, 3, 5])
    """

    def __init__(self, *, kind: str, d_query: int, d_key: int, d_hidden: int | None = None) -> None:
        super().__init__()
        check_type("kind", kind, str)
        if kind not in ("dot", "general", "concat"):
            raise ValueError(f"kind must be 'dot', 'general' or 'concat', got {kind!r}")
        check_count("d_query", d_query)
        check_count("d_key", d_key)
        check_count("d_hidden", d_hidden, optional=True)
        if kind == "dot" and d_query != d_key:
            raise ValueError(f"d_key must be d_query ({d_query}) for a dot product, got {d_key}")
        self.d_query, self.d_key = d_query, d_key
        self.general = nn.Linear(d_key, d_query, bias=False) if kind == "general" else None
        self.concat = None
        if kind == "concat":
            if d_hidden is None:
                raise ValueError("d_hidden must be given for 'concat', got None")
            self.concat = AdditiveScore(d_query=d_query, d_key=d_key, d_hidden=d_hidden)

    def forward(self, query: Tensor, key: Tensor) -> Tensor:
        """Queries ``(..., T, d_query)`` and keys ``(..., S, d_key)`` to scores ``(..., T, S)``."""
        check_floats(query=query, key=key)
        return self.compare(query, self.prepare(key))

    def prepare(self, key: Tensor) -> Tensor:
        """What :meth:`compare` needs of the keys and no query changes, ``(..., S, width)``."""
        if self.concat is not None:
            return self.concat.prepare(key)
        check_vectors("key", key, self.d_key, next(self.parameters(), key), dims=None)
        return key if self.general is None else self.general(key)

    def compare(self, query: Tensor, prepared: Tensor) -> Tensor:
        """Queries ``(..., T, d_query)`` and prepared keys to scores ``(..., T, S)``."""
        if self.concat is not None:
            return self.concat.compare(query, prepared)
        check_floats(query=query, prepared=prepared)
        for name, tensor in (("query", query), ("prepared", prepared)):
            check_vectors(name, tensor, self.d_query, query, dims=None)
        return query @ prepared.transpose(-2, -1)


def _slow_gradient(query: Tensor, key: Tensor) -> bool:
    """On a CPU in half precision the fused kernel's gradient is slow where texts are short.

    Measured, forward and backward, against :func:`attention`: 110 texts of 18 tokens 6 times as
    long, 16 of 128 twice as long, 2 of 512 two thirds.
    """
    return query.requires_grad and query.element_size() == 2 and key.size(-2) < 256


def _check(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None,
    bias: Tensor | None,
    scale: float | None,
    dropout: float,
) -> None:
    if scale is not None:
        check_number("scale", scale, -_LARGEST, _LARGEST)
    check_number("dropout", dropout, 0, 1)
    batch = check_floats(query=query, key=key, value=value)
    if query.size(-1) != key.size(-1) or query.size(-1) == 0:
        raise ValueError(
            "query and key must have the same width, at least 1, "
            f"got {query.size(-1)} and {key.size(-1)}"
        )
    if key.size(-2) != value.size(-2):
        raise ValueError(
            f"key and value must have the same length, got {key.size(-2)} and {value.size(-2)}"
        )
    scores = (*batch, query.size(-2), key.size(-2))
    if mask is not None:
        check_mask("mask", mask, scores, query, "query and key")
    if bias is not None:
        check_bias("bias", bias, scores, query, "query and key")


def _rows(scores: Tensor) -> Tensor:
    return scores if scores.dim() > 1 else scores.view(1, -1)  # the kernel wants two dimensions
