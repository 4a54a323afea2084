"""Positions: what tells attention, which is blind to order, where a token stands."""

from transformer_lib.positions.absolute import SinusoidalPositions

__all__ = ["SinusoidalPositions"]
