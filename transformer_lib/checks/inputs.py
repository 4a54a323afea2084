"""What exercises are tried on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

__all__ = ["drawn", "integers", "normal"]


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


def drawn(n: int, statistic: Callable[[Tensor], Any]) -> Callable[..., Any]:
    """An exercise's `use` for random answers: a statistic of `n` draws, stacked.

    Give the exercise an `atol` of about five standard errors, such as `2.5 / sqrt(n)` for a share.

    >>> coin = lambda: torch.rand(()) < 0.5
    >>> share = drawn(1000, lambda tosses: tosses.float().mean())
    >>> 0.4 < share(coin) < 0.6
    tensor(True)
    """

    def use(answer: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        return statistic(torch.stack([torch.as_tensor(answer(*args, **kwargs)) for _ in range(n)]))

    return use
