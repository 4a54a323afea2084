"""The position schemes by name: which parts each has, and where they belong in a model.

===============  ====================  =====================  ==================
name             with the embeddings   in each attention      in each stack
===============  ====================  =====================  ==================
``sinusoidal``   SinusoidalPositions
``learned``      LearnedPositions
``rotary``                             RotaryPositions
``relative``                           RelativePositions
``t5``                                                        RelativePositionBias
``alibi``                                                     alibi_bias
``none``
===============  ====================  =====================  ==================
"""

from __future__ import annotations

from torch import Tensor, nn

from transformer_lib.positions.absolute import LearnedPositions, SinusoidalPositions
from transformer_lib.positions.relative import RelativePositionBias, RelativePositions, alibi_bias
from transformer_lib.positions.rotary import RotaryPositions

__all__ = ["ScoreBias", "added_positions", "attention_positions"]


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


class ScoreBias(nn.Module):
    """What a stack adds to the scores of all its self-attentions, if anything.

    T5's bias is learned, ALiBi's is fixed. Both are the same in every layer, so a stack has one.

    Args:
        scheme: name of the scheme.
        n_heads: number of heads.
        bidirectional: whether keys after the query differ from keys before it.
    """

    def __init__(self, scheme: str, *, n_heads: int, bidirectional: bool) -> None:
        super().__init__()
        self.scheme, self.n_heads = scheme, n_heads
        self.learned = None
        if scheme == "t5":
            self.learned = RelativePositionBias(n_heads=n_heads, bidirectional=bidirectional)

    def forward(self, x: Tensor, s: int, positions: Tensor | None = None) -> Tensor | None:
        """Return ``(H, T, s)`` for queries ``x`` ``(B, T, d_model)``, the last of ``s``, or None.

        With the keys' positions, integers ``(B, s)``, it's ``(B, H, T, s)``. It's float32 or wider.
        """
        t = x.size(1)
        if self.learned is not None:
            return self.learned(t, s, positions)
        if self.scheme == "alibi":
            return alibi_bias(self.n_heads, t, s, positions=positions, device=x.device)
        return None
