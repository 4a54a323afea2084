"""The parts of a Transformer layer, and the encoder and decoder layers made of them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from transformer_lib.cache import LayerCache
from transformer_lib.config import ModelConfig
from transformer_lib.dropout import Dropout
from transformer_lib.multihead import MultiHeadAttention
from transformer_lib.positions.schemes import attention_positions
from transformer_lib.validation import check_count, check_number, check_type, check_vectors

__all__ = [
    "DecoderLayer",
    "EncoderLayer",
    "FeedForward",
    "LayerNorm",
    "RMSNorm",
    "Residual",
    "layer_norm",
    "make_norm",
    "rms_norm",
]


def layer_norm(x: Tensor, weight: Tensor, bias: Tensor, eps: float) -> Tensor:
    r"""Give every token's features mean 0 and variance 1, then scale and shift them.

    .. math:: \frac{x - \mu}{\sqrt{\sigma^2 + \epsilon}} \odot \gamma + \beta

    with the biased variance. :class:`LayerNorm` runs the fused kernel, which computes the same, and
    sums half precision in float32; here squares must fit the dtype of ``x``.

    Args:
        x: ``(..., d_model)``.
        weight: gamma, ``(d_model,)``.
        bias: beta, ``(d_model,)``.
        eps: the small number under the root.

    Returns:
        ``(..., d_model)``.

    Raises:
        TypeError: ``x`` isn't floating point, or has another dtype than ``weight``.
        ValueError: another width than that of ``weight``; ``eps`` isn't above 0.

    Source:
        Ba et al. (2016), *Layer Normalization*.

    Example:
        >>> layer_norm(torch.tensor([1.0, 3.0]), torch.ones(2), torch.zeros(2), 1e-9).tolist()
        [-1.0, 1.0]
    """
    _check_features(x, eps, weight=weight, bias=bias)
    mean = x.mean(dim=-1, keepdim=True)
    variance = x.var(dim=-1, unbiased=False, keepdim=True)
    return (x - mean) / (variance + eps).sqrt() * weight + bias


def rms_norm(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    r"""Scale every token's features to a mean square of 1, then by learned weights.

    .. math:: \frac{x}{\sqrt{\frac{1}{d} \sum_i x_i^2 + \epsilon}} \odot \gamma

    Unlike :func:`layer_norm`, it subtracts no mean and adds no shift. :class:`RMSNorm` runs the
    fused kernel. Arguments, result and errors are those of :func:`layer_norm`.

    Source:
        Zhang and Sennrich (2019), *Root Mean Square Layer Normalization*.

    Example:
        >>> rms_norm(torch.tensor([1.0, 7.0]), torch.ones(2), 1e-9)  # 7 over the root of 25
        tensor([0.2000, 1.4000])
    """
    _check_features(x, eps, weight=weight)
    return x / (x.square().mean(dim=-1, keepdim=True) + eps).sqrt() * weight


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
        check_count("d_model", d_model)
        check_number("eps", eps, 0, ends="()")
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(d_model))
        self.bias = nn.Parameter(torch.zeros(d_model))

    def forward(self, x: Tensor) -> Tensor:
        """Map ``(..., d_model)`` to ``(..., d_model)``."""
        try:
            return F.layer_norm(x, self.weight.shape, self.weight, self.bias, self.eps)
        except Exception:  # checking first would slow down every token
            check_vectors("x", x, self.weight.size(0), self.weight, dims=None)
            raise


class RMSNorm(nn.Module):
    """:func:`rms_norm` with a learned scale, on the fused kernel.

    Args:
        d_model: width of the vectors.
        eps: the small number under the root.

    Example:
        >>> RMSNorm(4)(torch.randn(2, 3, 4)).shape
        torch.Size([2, 3, 4])
    """

    def __init__(self, d_model: int, eps: float = 1e-5) -> None:
        super().__init__()
        check_count("d_model", d_model)
        check_number("eps", eps, 0, ends="()")
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(d_model))

    def forward(self, x: Tensor) -> Tensor:
        """Map ``(..., d_model)`` to ``(..., d_model)``."""
        try:
            return F.rms_norm(x, self.weight.shape, self.weight, self.eps)
        except Exception:  # checking first would slow down every token
            check_vectors("x", x, self.weight.size(0), self.weight, dims=None)
            raise


def make_norm(config: ModelConfig) -> LayerNorm | RMSNorm:
    """Make the norm that a config asks for."""
    check_type("config", config, ModelConfig)
    kind = {"layer": LayerNorm, "rms": RMSNorm}[config.norm]
    return kind(config.d_model, config.norm_eps)


def _check_features(x: Tensor, eps: float, **parameters: Tensor) -> None:
    if not isinstance(x, Tensor) or not x.is_floating_point():
        raise TypeError(f"x must be a floating point tensor, got {getattr(x, 'dtype', type(x))}")
    for name, parameter in parameters.items():
        check_type(name, parameter, Tensor)
        if parameter.dim() != 1 or x.shape[-1:] != parameter.shape or parameter.numel() == 0:
            raise ValueError(
                f"{name} must have shape (d_model,), the last dimension of x; "
                f"got {tuple(parameter.shape)} and x of shape {tuple(x.shape)}"
            )
        if (parameter.dtype, parameter.device) != (x.dtype, x.device):
            raise TypeError(
                f"{name} must be {x.dtype} on {x.device} like x, "
                f"got {parameter.dtype} on {parameter.device}"
            )
    check_number("eps", eps, 0, ends="()")


class FeedForward(nn.Module):
    r"""Apply the same two-layer network at every position.

    .. math:: \mathrm{FFN}(x) = f(x W_1 + b_1) W_2 + b_2

    with :math:`f(x) = \max(0, x)` in the paper. SwiGLU multiplies by a gate, a third matrix:
    :math:`(\mathrm{SiLU}(x W_g + b_g) \odot (x W_1 + b_1)) W_2 + b_2`.

    Args:
        config: its ``d_model``, ``d_ff``, ``activation``, ``bias`` and ``activation_dropout``.

    Source:
        Vaswani et al. (2017), section 3.3, equation (2); Shazeer (2020), *GLU Variants Improve
        Transformer*, equation (6), there without biases.
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        check_type("config", config, ModelConfig)
        d, d_ff, bias = config.d_model, config.d_ff, config.bias
        self.up = nn.Linear(d, d_ff, bias=bias)
        self.gate = nn.Linear(d, d_ff, bias=bias) if config.activation == "swiglu" else None
        self.down = nn.Linear(d_ff, d, bias=bias)
        self.activation = _ACTIVATIONS[config.activation]
        p = config.dropout if config.activation_dropout is None else config.activation_dropout
        self.dropout = Dropout(p)
        for linear in (self.up, self.gate, self.down):
            if linear is not None:
                nn.init.xavier_uniform_(linear.weight)
                if bias:
                    nn.init.zeros_(linear.bias)

    def forward(self, x: Tensor) -> Tensor:
        """Map ``(..., d_model)`` to ``(..., d_model)``."""
        check_vectors("x", x, self.up.in_features, self.up.weight, dims=None)
        if self.gate is None:
            inner = self.activation(self.up(x))  # (B, T, d_ff)
        else:
            inner = self.activation(self.gate(x)) * self.up(x)  # (B, T, d_ff)
        return self.down(self.dropout(inner))


class Residual(nn.Module):
    """Add a sublayer's output to its input, with a norm before the sublayer or after the sum.

    The paper's text has post-norm, ``norm(x + sublayer(x))``. Its authors' code later switched to
    pre-norm, ``x + sublayer(norm(x))``, and so have most large models since GPT-2::

        pre-norm    x ──┬── norm ── sublayer ── dropout ── + ──
                        └──────────────────────────────────┘

        post-norm   x ──┬── sublayer ── dropout ── + ── norm ──
                        └──────────────────────────┘

    Args:
        config: its ``d_model``, ``dropout``, ``pre_norm``, ``norm`` and ``norm_eps``.

    Source:
        Vaswani et al. (2017), section 3.1; Xiong et al. (2020) on the two orders.
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        check_type("config", config, ModelConfig)
        self.pre_norm = config.pre_norm
        self.norm = make_norm(config)
        self.dropout = Dropout(config.dropout)

    def forward(self, x: Tensor, sublayer: Callable[[Tensor], Tensor]) -> Tensor:
        """Map ``(B, T, d_model)`` to ``(B, T, d_model)``."""
        check_type("x", x, Tensor)
        if not callable(sublayer):
            raise TypeError(f"sublayer must be a function, got {type(sublayer).__name__}")
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
        check_type("config", config, ModelConfig)
        self.self_attention = _self_attention(config)
        self.feed_forward = FeedForward(config)
        self.attention_residual = Residual(config)
        self.feed_forward_residual = Residual(config)

    def forward(self, x: Tensor, mask: Tensor | None = None, bias: Tensor | None = None) -> Tensor:
        """Map ``(B, S, d_model)`` to the same shape, with a mask and bias for the scores."""
        x = self.attention_residual(x, lambda x: self.self_attention(x, mask=mask, bias=bias))
        return self.feed_forward_residual(x, self.feed_forward)


class DecoderLayer(nn.Module):
    """Self-attention over the target, cross-attention to the memory, feed-forward network.

    Args:
        config: sizes and choices.
        cross_attention: False makes the layer of a decoder-only model.

    Source:
        Vaswani et al. (2017), section 3.1 and figure 1, right.
    """

    def __init__(self, config: ModelConfig, *, cross_attention: bool = True) -> None:
        super().__init__()
        check_type("config", config, ModelConfig)
        check_type("cross_attention", cross_attention, bool)
        self.self_attention = _self_attention(config)
        self.cross_attention = _attention(config) if cross_attention else None
        self.feed_forward = FeedForward(config)
        self.self_residual = Residual(config)
        self.cross_residual = Residual(config) if cross_attention else None
        self.feed_forward_residual = Residual(config)

    def forward(
        self,
        x: Tensor,
        memory: Tensor | None = None,
        *,
        mask: Tensor | None = None,
        bias: Tensor | None = None,
        memory_mask: Tensor | None = None,
        causal: bool = False,
        positions: Tensor | None = None,
        cache: LayerCache | None = None,
    ) -> Tensor:
        """Map ``x`` ``(B, T, d_model)`` and a memory ``(B, S, d_model)`` to ``(B, T, d_model)``.

        ``mask`` and ``bias`` are over target keys, ``memory_mask`` over source keys. Causality is
        part of the mask, or asked for by ``causal``. ``positions`` are those of the target keys,
        integers ``(B, S)``, if rows differ.

        Raises:
            TypeError, ValueError: a mask, bias or cache that doesn't fit; a missing memory, or one
                for a layer without cross-attention.
        """
        check_type("cache", cache, LayerCache, optional=True)
        check_type("memory", memory, Tensor, optional=True)
        if self.cross_attention is not None and memory is None:
            raise ValueError("memory must be given: the layer has cross-attention")
        if self.cross_attention is None and memory is not None:
            raise ValueError("memory must be None: the layer has no cross-attention")
        own = None if cache is None else cache.self_attention
        x = self.self_residual(
            x,
            lambda x: self.self_attention(
                x, mask=mask, bias=bias, causal=causal, positions=positions, cache=own
            ),
        )
        if self.cross_residual is not None:
            x = self.cross_residual(x, lambda x: self._read(x, memory, memory_mask, cache))
        return self.feed_forward_residual(x, self.feed_forward)

    def _read(
        self, x: Tensor, memory: Any, memory_mask: Tensor | None, cache: LayerCache | None
    ) -> Tensor:
        """Attend to the memory. With a cache, adjacent rows of ``x`` may share a row of memory.

        The beams of a sentence do: they are more queries for the same keys, so nothing is copied.
        """
        attend: Any = self.cross_attention
        if cache is None:
            return attend(x, memory, mask=memory_mask, mask_name="memory_mask")
        (b, t, d), rows = x.shape, getattr(memory, "shape", ())[:1]
        sentences = rows[0] if rows else 0  # a memory without shape is refused below
        if sentences and b % sentences == 0:
            x = x.reshape(sentences, b // sentences * t, d)
        read = attend(
            x, memory, mask=memory_mask, cache=cache.cross_attention, mask_name="memory_mask"
        )
        return read.view(b, t, d)


_ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": F.relu,
    "gelu": F.gelu,
    "gelu_tanh": partial(F.gelu, approximate="tanh"),
    "silu": F.silu,
    "swiglu": F.silu,  # of the gate
}


def _attention(config: ModelConfig, **positions: Any) -> MultiHeadAttention:
    p = config.attention_dropout
    return MultiHeadAttention(
        d_model=config.d_model,
        n_heads=config.n_heads,
        n_kv_heads=config.n_kv_heads,
        dropout=config.dropout if p is None else p,
        bias=config.bias,
        qkv_bias=config.qkv_bias,
        **positions,
    )


def _self_attention(config: ModelConfig) -> MultiHeadAttention:
    sizes = {"d_head": config.d_head, "max_len": config.max_len, "base": config.rotary_base}
    return _attention(config, **attention_positions(config.positions, **sizes))
