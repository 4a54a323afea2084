"""The parts of a Transformer layer, and the two layers made of them."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from transformer_lib.cache import LayerCache
from transformer_lib.config import ModelConfig
from transformer_lib.dropout import Dropout
from transformer_lib.linear import Linear
from transformer_lib.multihead import MultiHeadAttention

__all__ = ["DecoderLayer", "EncoderLayer", "FeedForward", "LayerNorm", "Residual", "layer_norm"]


def layer_norm(x: Tensor, weight: Tensor, bias: Tensor, eps: float) -> Tensor:
    r"""Give every token's features mean 0 and variance 1, then scale and shift them.

    .. math:: \frac{x - \mu}{\sqrt{\sigma^2 + \epsilon}} \odot \gamma + \beta

    with the biased variance, and epsilon under the root. :class:`LayerNorm` runs the
    fused kernel; this is what that kernel computes.

    Args:
        x: ``(..., d_model)``.
        weight: gamma, ``(d_model,)``.
        bias: beta, ``(d_model,)``.
        eps: the small number under the root.

    Returns:
        ``(..., d_model)``.

    Source:
        Ba et al. (2016), *Layer Normalization*.

    Example:
        >>> layer_norm(torch.tensor([1.0, 3.0]), torch.ones(2), torch.zeros(2), 1e-9).tolist()
        [-1.0, 1.0]
    """
    mean = x.mean(dim=-1, keepdim=True)
    variance = x.var(dim=-1, unbiased=False, keepdim=True)
    return (x - mean) / (variance + eps).sqrt() * weight + bias


class LayerNorm(nn.Module):
    """:func:`layer_norm` with learned scale and shift, on the fused kernel.

    Args:
        d_model: width of the vectors.
        eps: the small number under the root.

    Example:
        >>> LayerNorm(4)(torch.randn(2, 3, 4)).shape
        torch.Size([2, 3, 4])
    """

    def __init__(self, d_model: int, eps: float = 1e-5) -> None:
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(d_model))
        self.bias = nn.Parameter(torch.zeros(d_model))

    def forward(self, x: Tensor) -> Tensor:
        """``(..., d_model)`` to ``(..., d_model)``."""
        return F.layer_norm(x, self.weight.shape, self.weight, self.bias, self.eps)


class FeedForward(nn.Module):
    r"""The same two-layer network at every position.

    .. math:: \mathrm{FFN}(x) = \max(0, x W_1 + b_1) W_2 + b_2

    Args:
        config: its ``d_model``, ``d_ff``, ``dropout`` and ``activation``.

    Source:
        Vaswani et al. (2017), section 3.3, equation (2).
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.up = Linear(config.d_model, config.d_ff)
        self.down = Linear(config.d_ff, config.d_model)
        self.activation = {"relu": F.relu, "gelu": F.gelu}[config.activation]
        self.dropout = Dropout(config.dropout)
        for linear in (self.up, self.down):
            nn.init.xavier_uniform_(linear.weight)
            nn.init.zeros_(linear.bias)

    def forward(self, x: Tensor) -> Tensor:
        """``(B, T, d_model)`` to ``(B, T, d_model)``."""
        return self.down(self.dropout(self.activation(self.up(x))))  # inside: (B, T, d_ff)


class Residual(nn.Module):
    """A sublayer adds to what flows by; the norm comes before it or after.

    Post-norm is the paper's text, ``norm(x + sublayer(x))``; pre-norm is its
    released code and nearly everything since, ``x + sublayer(norm(x))``.

    Args:
        config: its ``d_model``, ``dropout``, ``pre_norm`` and ``norm_eps``.

    Source:
        Vaswani et al. (2017), section 3.1; Xiong et al. (2020) on the two orders.
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.pre_norm = config.pre_norm
        self.norm = LayerNorm(config.d_model, config.norm_eps)
        self.dropout = Dropout(config.dropout)

    def forward(self, x: Tensor, sublayer: Callable[[Tensor], Tensor]) -> Tensor:
        """``(B, T, d_model)`` to ``(B, T, d_model)``."""
        if self.pre_norm:
            return x + self.dropout(sublayer(self.norm(x)))
        return self.norm(x + self.dropout(sublayer(x)))


class EncoderLayer(nn.Module):
    """Self-attention, then the feed-forward network.

    Args:
        config: sizes and choices.

    Source:
        Vaswani et al. (2017), section 3.1 and figure 1, left.
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.self_attention = _attention(config)
        self.feed_forward = FeedForward(config)
        self.attention_residual = Residual(config)
        self.feed_forward_residual = Residual(config)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        """``(B, S, d_model)`` and a mask over its keys to ``(B, S, d_model)``."""
        x = self.attention_residual(x, lambda x: self.self_attention(x, mask=mask))
        return self.feed_forward_residual(x, self.feed_forward)


class DecoderLayer(nn.Module):
    """Self-attention over the target, cross-attention to the memory, feed-forward.

    Args:
        config: sizes and choices.

    Source:
        Vaswani et al. (2017), section 3.1 and figure 1, right.
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.self_attention = _attention(config)
        self.cross_attention = _attention(config)
        self.feed_forward = FeedForward(config)
        self.self_residual = Residual(config)
        self.cross_residual = Residual(config)
        self.feed_forward_residual = Residual(config)

    def forward(
        self,
        x: Tensor,
        memory: Tensor,
        *,
        mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        cache: LayerCache | None = None,
    ) -> Tensor:
        """``x`` ``(B, T, d_model)`` and memory ``(B, S, d_model)`` to ``(B, T, d_model)``.

        ``mask`` is over target keys and holds causality; ``memory_mask`` is over
        source keys.
        """
        own, cross = (cache.self_attention, cache.cross_attention) if cache else (None, None)
        x = self.self_residual(x, lambda x: self.self_attention(x, mask=mask, cache=own))
        x = self.cross_residual(
            x, lambda x: self.cross_attention(x, memory, mask=memory_mask, cache=cross)
        )
        return self.feed_forward_residual(x, self.feed_forward)


def _attention(config: ModelConfig) -> MultiHeadAttention:
    return MultiHeadAttention(
        d_model=config.d_model, n_heads=config.n_heads, dropout=config.dropout
    )
