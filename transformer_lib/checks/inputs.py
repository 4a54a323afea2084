"""What exercises are tried on."""

import torch
from torch import Tensor

__all__ = ["integers", "normal"]


def integers(*shape: int, seed: int = 0, most: int = 3) -> Tensor:
    """Small whole numbers as floats, from `-most` to `most`: to redo by hand, to paste.

    >>> integers(2, 3)
    tensor([[ 1.,  0., -3.],
            [-1., -2., -1.]])
    """
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(-most, most + 1, shape, generator=generator).float()


def normal(*shape: int, seed: int = 0) -> Tensor:
    """Normally distributed numbers, the same at every call, whatever was drawn before."""
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))
