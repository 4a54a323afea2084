"""Positions: attention is blind to order, so something must say where a token stands.

An address added to each vector (sinusoidal, learned), a turn of queries and keys
(rotary), or something that depends on how far a key is from the query: learned
vectors (Shaw et al.), a learned number (T5), a fixed penalty (ALiBi).
"""

from transformer_lib.positions.absolute import LearnedPositions, SinusoidalPositions
from transformer_lib.positions.relative import RelativePositionBias, RelativePositions, alibi_bias
from transformer_lib.positions.rotary import RotaryPositions

__all__ = [
    "LearnedPositions",
    "RelativePositionBias",
    "RelativePositions",
    "RotaryPositions",
    "SinusoidalPositions",
    "alibi_bias",
]
