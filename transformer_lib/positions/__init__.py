"""Positions: attention can't see order, so something must tell where each token is.

That's a vector added to each token's (sinusoidal, learned), a rotation of queries and keys
(rotary), or something that depends on the distance from query to key: learned vectors (Shaw et
al.) or a fixed penalty (ALiBi).
"""

from transformer_lib.positions.absolute import LearnedPositions, SinusoidalPositions
from transformer_lib.positions.relative import RelativePositions, alibi_bias
from transformer_lib.positions.rotary import RotaryPositions

__all__ = [
    "LearnedPositions",
    "RelativePositions",
    "RotaryPositions",
    "SinusoidalPositions",
    "alibi_bias",
]
