"""The parts of a Transformer layer, and the two layers made of them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch.nn.functional as F
from torch import Tensor, nn

from transformer_lib.arguments import check_type
from transformer_lib.cache import LayerCache
from transformer_lib.config import ModelConfig
from transformer_lib.dropout import Dropout
from transformer_lib.linear import Linear
from transformer_lib.multihead import MultiHeadAttention
from transformer_lib.norms import LayerNorm, RMSNorm, layer_norm, make_norm, rms_norm
from transformer_lib.positions import RelativePositions, RotaryPositions

__all__ = [
    "DecoderLayer",
    "EncoderLayer",
    "FeedForward",
    "LayerNorm",
    "RMSNorm",
    "Residual",
    "layer_norm",
    "rms_norm",
]


class FeedForward(nn.Module):
    r"""The same two-layer network at every position.

    .. math:: \mathrm{FFN}(x) = f(x W_1 + b_1) W_2 + b_2

    with :math:`f(x) = \max(0, x)` in the paper. SwiGLU has a third matrix, a gate that is
    multiplied in: :math:`(\mathrm{SiLU}(x W_g + b_g) \odot (x W_1 + b_1)) W_2 + b_2`.

    Args:
        config: its ``d_model``, ``d_ff``, ``activation`` and ``activation_dropout``.

    Source:
        Vaswani et al. (2017), section 3.3, equation (2); Shazeer (2020), *GLU Variants Improve
        Transformer*, equation (6), there without biases.
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        check_type("config", config, ModelConfig)
        gated = config.activation == "swiglu"
        self.up = Linear(config.d_model, config.d_ff)
        self.gate = Linear(config.d_model, config.d_ff) if gated else None
        self.down = Linear(config.d_ff, config.d_model)
        self.activation = _ACTIVATIONS[config.activation]
        p = config.dropout if config.activation_dropout is None else config.activation_dropout
        self.dropout = Dropout(p)
        for linear in filter(None, (self.up, self.gate, self.down)):
            nn.init.xavier_uniform_(linear.weight)
            nn.init.zeros_(linear.bias)

    def forward(self, x: Tensor) -> Tensor:
        """``(B, T, d_model)`` to ``(B, T, d_model)``."""
        if self.gate is None:
            inner = self.activation(self.up(x))  # (B, T, d_ff)
        else:
            inner = self.activation(self.gate(x)) * self.up(x)
        return self.down(self.dropout(inner))


class Residual(nn.Module):
    """A sublayer adds to what flows by; the norm comes before it or after.

    Post-norm is the paper's text, ``norm(x + sublayer(x))``; pre-norm is its
    released code and nearly everything since, ``x + sublayer(norm(x))``.

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
        """``(B, T, d_model)`` to ``(B, T, d_model)``."""
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
        """``(B, S, d_model)``, with a mask and a bias on the scores, to ``(B, S, d_model)``."""
        x = self.attention_residual(x, lambda x: self.self_attention(x, mask=mask, bias=bias))
        return self.feed_forward_residual(x, self.feed_forward)


class DecoderLayer(nn.Module):
    """Self-attention over the target, cross-attention to the memory, feed-forward.

    Args:
        config: sizes and choices.
        cross_attention: without it, the layer of a decoder-only model.

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
        cache: LayerCache | None = None,
    ) -> Tensor:
        """``x`` ``(B, T, d_model)`` and memory ``(B, S, d_model)`` to ``(B, T, d_model)``.

        ``mask`` and ``bias`` are over target keys, and the mask holds causality;
        ``memory_mask`` is over source keys.

        Raises:
            TypeError, ValueError: masks, a bias or a cache that do not fit; no memory for the
                cross-attention, or one without a cross-attention.
        """
        check_type("cache", cache, LayerCache, optional=True)
        if (self.cross_attention is None) is not (memory is None):
            must = "be given to a layer with" if memory is None else "be None in a layer without"
            raise ValueError(f"memory must {must} cross-attention")
        own, cross = (cache.self_attention, cache.cross_attention) if cache else (None, None)
        x = self.self_residual(x, lambda x: self.self_attention(x, mask=mask, bias=bias, cache=own))
        if self.cross_attention is not None and self.cross_residual is not None:
            attend = partial(self.cross_attention, mask_name="memory_mask")
            shape = x.shape
            sentences = len(memory) if isinstance(memory, Tensor) and memory.dim() else 0
            if cache is not None and sentences and shape[0] % sentences == 0:
                # Rows that share a memory, as beams of a sentence do, are more queries to it.
                x = x.reshape(sentences, -1, shape[-1])
            x = self.cross_residual(x, lambda x: attend(x, memory, mask=memory_mask, cache=cross))
            x = x.view(shape)
        return self.feed_forward_residual(x, self.feed_forward)


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
        **positions,
    )


def _self_attention(config: ModelConfig) -> MultiHeadAttention:
    if config.positions == "rotary":
        return _attention(
            config, rotary=RotaryPositions(d_head=config.d_head, max_len=config.max_len)
        )
    if config.positions == "relative":
        return _attention(config, relative=RelativePositions(d_head=config.d_head))
    return _attention(config)
