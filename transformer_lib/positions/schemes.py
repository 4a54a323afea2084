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

__all__ = ["added_positions", "attention_positions", "score_bias"]


def added_positions(
    scheme: str, *, d_model: int, max_len: int
) -> SinusoidalPositions | LearnedPositions | None:
    """Return what is added to the embeddings."""
    if scheme == "sinusoidal":
        return SinusoidalPositions(d_model=d_model, max_len=max_len)
    if scheme == "learned":
        return LearnedPositions(d_model=d_model, max_len=max_len)
    return None


def attention_positions(
    scheme: str, *, d_head: int, max_len: int, base: float = 10_000.0
) -> dict[str, RotaryPositions | RelativePositions]:
    """Return what each self-attention has, as arguments of ``MultiHeadAttention``."""
    if scheme == "rotary":
        return {"rotary": RotaryPositions(d_head=d_head, max_len=max_len, base=base)}
    if scheme == "relative":
        return {"relative": RelativePositions(d_head=d_head)}
    return {}


def score_bias(
    config: ModelConfig, x: Tensor, s: int, positions: Tensor | None = None
) -> Tensor | None:
    """Return what a stack adds to the scores of all its self-attentions, ``(H, T, s)``, or None.

    The queries ``x``, ``(B, T, d_model)``, are the last of ``s`` positions. With the keys'
    positions, integers ``(B, s)``, it's ``(B, H, T, s)``. It's float32.
    """
    if config.positions != "alibi":
        return None
    return alibi_bias(config.n_heads, x.size(1), s, positions=positions, device=x.device)
