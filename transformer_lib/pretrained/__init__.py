"""Take a model of another library, give ours with its weights.

Parity is the test that leaves no room: same weights, same numbers.
"""

from transformer_lib.pretrained.pytorch import from_torch

__all__ = ["from_torch"]
