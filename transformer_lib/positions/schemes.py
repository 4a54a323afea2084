"""The position schemes by name: which parts each has, and where they belong in a model.

===============  ====================  =====================  ==================
name             with the embeddings   in each attention      in each stack
===============  ====================  =====================  ==================
``sinusoidal``   SinusoidalPositions
``learned``      LearnedPositions
``rotary``                             RotaryPositions
``relative``                           RelativePositions
``alibi``                                                     alibi_bias
``none``
===============  ====================  =====================  ==================
"""

from __future__ import annotations

from torch import Tensor

from transformer_lib.config import ModelConfig
from transformer_lib.positions.absolute import LearnedPositions, SinusoidalPositions
from transformer_lib.positions.relative import RelativePositions, alibi_bias
from transformer_lib.positions.rotary import RotaryPositions


def added_positions(config: ModelConfig) -> SinusoidalPositions | LearnedPositions | None:
    """Return what is added to the embeddings."""
    kinds = {"sinusoidal": SinusoidalPositions, "learned": LearnedPositions}
    kind = kinds.get(config.positions)
    return kind(d_model=config.d_model, max_len=config.max_len) if kind else None


def attention_positions(config: ModelConfig) -> dict[str, RotaryPositions | RelativePositions]:
    """Return what each self-attention has, as arguments of ``MultiHeadAttention``."""
    d_head, max_len, base = config.d_head, config.max_len, config.rotary_base
    if config.positions == "rotary":
        return {"rotary": RotaryPositions(d_head=d_head, max_len=max_len, base=base)}
    if config.positions == "relative":
        return {"relative": RelativePositions(d_head=d_head)}
    return {}


def score_bias(config: ModelConfig, x: Tensor, s: int) -> Tensor | None:
    """Return what a stack adds to the scores of all its self-attentions, ``(H, T, s)``, or None.

    The queries ``x``, ``(B, T, d_model)``, are the last of ``s`` positions. It's float32.
    """
    if config.positions != "alibi":
        return None
    return alibi_bias(config.n_heads, x.size(1), s, device=x.device)
