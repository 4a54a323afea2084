"""The parts of a Transformer layer, and the encoder and decoder layers made of them."""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch.nn.functional as F
from torch import Tensor, nn

from transformer_lib.cache import LayerCache
from transformer_lib.config import ModelConfig
from transformer_lib.dropout import Dropout
from transformer_lib.multihead import MultiHeadAttention
from transformer_lib.positions import RelativePositions, RotaryPositions
from transformer_lib.validation import check_type, check_vectors

__all__ = [
    "DecoderLayer",
    "EncoderLayer",
    "FeedForward",
    "Residual",
    "make_norm",
]


def make_norm(config: ModelConfig) -> nn.LayerNorm | nn.RMSNorm:
    r"""Make the norm that a config asks for, over the features of each token.

    .. math::
        \mathrm{LayerNorm}(x) = \frac{x - \mu}{\sqrt{\sigma^2 + \epsilon}} \odot \gamma + \beta,
        \quad
        \mathrm{RMSNorm}(x) = \frac{x}{\sqrt{\frac{1}{d} \sum_i x_i^2 + \epsilon}} \odot \gamma

    Args:
        config: its ``d_model``, ``norm`` and ``norm_eps``.

    Source:
        Ba et al. (2016), *Layer Normalization*; Zhang and Sennrich (2019), *Root Mean Square Layer
        Normalization*.

    Example:
        >>> make_norm(ModelConfig(vocab_size=9, norm="rms")).weight.shape
        torch.Size([512])
    """
    check_type("config", config, ModelConfig)
    kind = {"layer": nn.LayerNorm, "rms": nn.RMSNorm}[config.norm]
    return kind(config.d_model, config.norm_eps)


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
        check_vectors("x", x, self.up.in_features, self.up.weight, batched=False)
        if self.gate is None:
            inner = self.activation(self.up(x))  # (B, T, d_ff)
        else:
            inner = self.activation(self.gate(x)) * self.up(x)  # (B, T, d_ff)
        return self.down(self.dropout(inner))


class Residual(nn.Module):
    """Add a sublayer's output to its input, with a norm before the sublayer or after the sum.

    The paper's text has post-norm, ``norm(x + sublayer(x))``. Its authors' code later switched to
    pre-norm, ``x + sublayer(norm(x))``, and so have most large models since GPT-2.

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
        check_vectors("x", x, len(self.norm.weight), self.norm.weight)
        if not callable(sublayer):
            raise TypeError(f"sublayer must be a function, got {type(sublayer).__name__}")
        if self.pre_norm:
            return x + self.dropout(sublayer(self.norm(x)))
        return self.norm(x + self.dropout(sublayer(x)))


class EncoderLayer(nn.Module):
    """Self-attention, then the feed-forward network.

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

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        """Map ``(B, S, d_model)``, with a mask over its keys, to the same shape."""
        x = self.attention_residual(x, lambda x: self.self_attention(x, mask=mask))
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
        memory_mask: Tensor | None = None,
        causal: bool = False,
        cache: LayerCache | None = None,
    ) -> Tensor:
        """Map ``x`` ``(B, T, d_model)`` and a memory ``(B, S, d_model)`` to ``(B, T, d_model)``.

        ``mask`` is over target keys, ``memory_mask`` over source keys. Causality is part of the
        mask, or asked for by ``causal``.

        Raises:
            TypeError, ValueError: a mask or cache that doesn't fit; a missing memory, or one
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
            lambda x: self.self_attention(x, mask=mask, causal=causal, cache=own),
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
        (b, t, d), sentences = x.shape, memory.size(0) if memory.dim() else 0
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
    d_head, max_len, base = config.d_head, config.max_len, config.rotary_base
    if config.positions == "rotary":
        return _attention(config, rotary=RotaryPositions(d_head=d_head, max_len=max_len, base=base))
    if config.positions == "relative":
        return _attention(config, relative=RelativePositions(d_head=d_head))
    return _attention(config, alibi=config.positions == "alibi")
