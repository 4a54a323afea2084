"""RMSNorm with one step of it in the type that came in: what 16 bits do to its numbers."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

import torch
from torch import Tensor

__all__ = ["rounded"]

# Which steps are in 16 bits (the square, its mean, the root, the division), the others in float32.
_NARROW = {
    "squares": ["1111", "1000", "1100"],
    "mean": ["0100", "0111"],
    "root": ["0011", "0010"],
}


def rounded(step: str) -> list[Callable[[Tensor, Tensor, float], Tensor]]:
    """The norm with `step` in the type of x, in its forms: `(x, weight, eps) -> result`.

    Args:
        step: "squares", "mean" or "root".
    """
    forms = product(_NARROW[step], (False, True), (False, True))
    return [_norm(*form) for form in forms]


def _norm(
    narrow: str, multiplied: bool, weight_first: bool
) -> Callable[[Tensor, Tensor, float], Tensor]:
    def rms_norm(x: Tensor, weight: Tensor, eps: float) -> Tensor:
        wide = torch.promote_types(x.dtype, torch.float32)
        squared, averaged, rooted, divided = (x.dtype if n == "1" else wide for n in narrow)
        square = x.to(squared).square().to(torch.promote_types(squared, averaged))
        mean = square.mean(dim=-1, keepdim=True).to(averaged)
        mean = mean.to(torch.promote_types(averaged, rooted)) + eps
        y = x.to(divided)
        if weight_first:
            y = y * weight.to(divided)
        y = y * mean.rsqrt().to(rooted) if multiplied else y / mean.sqrt().to(rooted)
        if not weight_first:
            y = y * weight.to(divided)
        return y.to(x.dtype)

    return rms_norm
