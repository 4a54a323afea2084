"""The exercise `LayerNorm`: what it asks for, and how its answers go wrong."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from transformer_lib.checks.core import Case, Exercise
from transformer_lib.checks.inputs import (
    in_float64,
    not_contiguous,
    random_tensor,
    sequence_cases,
    times,
)


class LayerNorm(nn.Module):
    """In steps, of which a mistake replaces one."""

    axes: Any = -1

    def __init__(self, d_model: int, eps: float = 1e-5) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(d_model))
        self.bias = nn.Parameter(torch.zeros(d_model))
        self.eps = eps

    def center(self, x: Tensor) -> Tensor:
        return x - x.mean(self.axes, keepdim=True)

    def variance(self, x: Tensor) -> Tensor:
        return x.var(self.axes, unbiased=False, keepdim=True)

    def divisor(self, x: Tensor) -> Tensor:
        return (self.variance(x) + self.eps).sqrt()

    def scale(self, x: Tensor) -> Tensor:
        return x * self.weight + self.bias

    def forward(self, x: Tensor) -> Tensor:
        return self.scale(self.center(x) / self.divisor(x))


def _but(base: type[nn.Module] = LayerNorm, **parts: Any) -> type[nn.Module]:
    return type("LayerNorm", (base,), parts)


def _unbiased(self: LayerNorm, x: Tensor) -> Tensor:
    square = (x - x.mean(self.axes, keepdim=True)).square().sum(self.axes, keepdim=True)
    return square / (x.numel() // square.numel() - 1)  # `var` would warn of a division by 0


def _flat(self: LayerNorm, x: Tensor) -> Tensor:
    return x.var(-1, unbiased=False)


def _outside(self: LayerNorm, x: Tensor) -> Tensor:
    return x.std(self.axes, unbiased=False, keepdim=True) + self.eps


class _Plain(nn.Module):
    """No learned factor and no shift."""

    def __init__(self, d_model: int, eps: float = 1e-5) -> None:
        super().__init__()
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        variance = x.var(-1, unbiased=False, keepdim=True)
        return (x - x.mean(-1, keepdim=True)) / (variance + self.eps).sqrt()


class _PlainUnbiased(_Plain):
    def forward(self, x: Tensor) -> Tensor:
        return (x - x.mean(-1, keepdim=True)) / (x.std(-1, keepdim=True) + self.eps)


class _NoBias(nn.Module):
    def __init__(self, d_model: int, eps: float = 1e-5) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(d_model))
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        apart = x - x.mean(-1, keepdim=True)
        return apart / (x.var(-1, unbiased=False, keepdim=True) + self.eps).sqrt() * self.weight


class _One(nn.Module):
    """One factor and one shift for all features."""

    def __init__(self, d_model: int, eps: float = 1e-5) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(1))
        self.bias = nn.Parameter(torch.zeros(1))
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        apart = x - x.mean(-1, keepdim=True)
        variance = x.var(-1, unbiased=False, keepdim=True)
        return apart / (variance + self.eps).sqrt() * self.weight + self.bias


class _Fixed(LayerNorm):
    def __init__(self, d_model: int, eps: float = 1e-5) -> None:
        super().__init__(d_model, 1e-5)


class _AllButTheFirst(LayerNorm):
    def forward(self, x: Tensor) -> Tensor:
        self.axes = tuple(range(1, x.dim()))
        return super().forward(x)


_INIT = {"d_model": 4, "eps": 1e-3}
_CASES = [
    Case("one token, d = 4", torch.tensor([1.0, 2.0, 3.0, 6.0]), init=_INIT),
    *sequence_cases(7, eps=1e-3),
    Case("2 by 3 sentences", random_tensor(2, 3, 5, 4, seed=3), init=_INIT),
    Case("3 tokens of 4 features", random_tensor(3, 4, seed=5), init=_INIT),
    Case("eps left at 1e-5, small numbers", random_tensor(3, 4) / 1e3, init={"d_model": 4}),
]
_SOME = _CASES[2]
_BATCH = "Normal, compared with whom?"

LAYER_NORM = Exercise(
    name="LayerNorm",
    reference=LayerNorm,
    cases=[
        *_CASES,
        times(1e-2, _SOME),
        in_float64(_SOME),
        Case(
            "numbers around a million, in float64",
            1e6 + random_tensor(2, 3, 7, seed=4).double(),
            init={"d_model": 7, "eps": 1e-3},
        ),
        not_contiguous(_SOME),
    ],
    mistakes={
        "the deviation is divided by d - 1: `std` and `var` do so unless they are told "
        "`unbiased=False`": [
            _but(variance=_unbiased),
            _but(divisor=lambda self, x: x.std(-1, keepdim=True) + self.eps),
            _but(divisor=lambda self, x: x.std(-1, keepdim=True)),
        ],
        "eps stands outside the root and belongs inside, added to the variance": [
            _but(divisor=_outside),
        ],
        "eps is left out: a token whose features are all alike is then divided by 0": [
            _but(divisor=lambda self, x: self.variance(x).sqrt()),
        ],
        "eps is added to what is normalized: it belongs to the variance, below the line": [
            _but(
                divisor=lambda self, x: self.variance(x).sqrt(),
                scale=lambda self, x: x * self.weight + self.bias + self.eps,
            ),
            _but(
                divisor=lambda self, x: self.variance(x).sqrt(),
                scale=lambda self, x: (x + self.eps) * self.weight + self.bias,
            ),
        ],
        "eps is fixed: it is an argument of the constructor": [
            _Fixed,
            *(
                _but(divisor=lambda self, x, small=small: (self.variance(x) + small).sqrt())
                for small in (1e-6, 1e-8, 1e-12)
            ),
        ],
        "`keepdim=True` is missing: mean and variance lose their last axis, and no longer fit "
        "below x": [
            _but(center=lambda self, x: x - x.mean(-1), variance=_flat),
            _but(center=lambda self, x: x - x.mean(-1)),
            _but(variance=_flat),
            _but(center=lambda self, x: x - x.mean(-1), divisor=lambda self, x: x.std(-1)),
            _but(
                center=lambda self, x: x - x.mean(-1),
                divisor=lambda self, x: x.std(-1) + self.eps,
            ),
            _but(
                center=lambda self, x: x - x.mean(-1),
                divisor=lambda self, x: (x.var(-1) + self.eps).sqrt(),
            ),
        ],
        "the root is missing: the centered token is divided by its variance": [
            _but(divisor=lambda self, x: self.variance(x) + self.eps),
            _but(divisor=lambda self, x: _unbiased(self, x) + self.eps),
        ],
        "`** 1/2` is no root: Python takes the power first, so this divides the variance by 2": [
            _but(divisor=lambda self, x: (self.variance(x) + self.eps) / 2),
        ],
        "mean and variance are taken over the tokens of a sentence, where each token has its own": [
            _but(axes=-2),
            _but(axes=-2, variance=_unbiased),
        ],
        "mean and variance are taken over tokens and features together: each token has its own": [
            _but(axes=(-2, -1)),
            _but(axes=(-2, -1), variance=_unbiased),
            _AllButTheFirst,
        ],
        "mean and variance are taken over the whole input: each token has its own": [
            _but(
                center=lambda self, x: x - x.mean(),
                variance=lambda self, x: x.var(unbiased=False),
            ),
            _but(center=lambda self, x: x - x.mean(), variance=lambda self, x: x.var()),
        ],
        "mean and variance are taken over the first axis, the batch: that is batch norm (see the "
        f'section "{_BATCH}")': [
            _but(axes=0),
            _but(axes=0, variance=_unbiased),
        ],
        "mean and variance are taken over batch and places, for each feature: that is batch norm "
        f'(see the section "{_BATCH}")': [
            _but(
                center=lambda self, x: x - x.mean(tuple(range(x.dim() - 1)), keepdim=True),
                variance=lambda self, x: x.var(
                    tuple(range(x.dim() - 1)), unbiased=False, keepdim=True
                ),
            ),
        ],
        "the axis is counted from the front: features are the last one, -1, however many stand "
        "before it": [
            _but(axes=2),
            _but(axes=1),
        ],
        "the mean stays in: it is subtracted first": [_but(center=lambda self, x: x)],
        "the mean stays in, and the size is the root of the mean square: that is RMS norm, a later "
        "one": [
            _but(
                center=lambda self, x: x,
                variance=lambda self, x: x.square().mean(-1, keepdim=True),
            ),
        ],
        "the token is centered and not divided by its deviation": [
            _but(divisor=lambda self, x: torch.ones_like(x)),
        ],
        "the token is divided by its length: the deviation is the root of the *mean* square": [
            _but(divisor=lambda self, x: x.norm(dim=-1, keepdim=True) + self.eps),
            _but(divisor=lambda self, x: self.center(x).norm(dim=-1, keepdim=True) + self.eps),
            _but(
                divisor=lambda self, x: (
                    self.center(x).square().sum(-1, keepdim=True) + self.eps
                ).sqrt()
            ),
        ],
        "the mean square minus the squared mean is taken for the variance. On paper it is; for "
        "numbers far from 0 two large numbers are subtracted, and their difference is mostly "
        "rounding. Subtract the mean first": [
            _but(
                variance=lambda self, x: (
                    x.square().mean(-1, keepdim=True) - x.mean(-1, keepdim=True).square()
                )
            ),
        ],
        "the numbers are cast to float32: in double precision the result keeps no more digits "
        "than that": [
            _but(forward=lambda self, x: LayerNorm.forward(self, x.float())),
            _but(forward=lambda self, x: LayerNorm.forward(self, x.float()).to(x.dtype)),
            _but(
                forward=lambda self, x: LayerNorm.forward(self, x.float()).to(x.dtype),
                variance=lambda self, x: self.center(x).square().mean(-1, keepdim=True),
            ),
        ],
        "the variance is the mean square minus the mean: minus the *square* of the mean": [
            _but(variance=lambda self, x: (x.square() - x).mean(-1, keepdim=True)),
        ],
        "there is no learned factor and no learned shift: each has to be an `nn.Parameter`, one "
        "number for each feature (a plain tensor is neither learned nor saved)": [
            _Plain,
            _PlainUnbiased,
        ],
        "the shift is missing: there are two parameters, `weight` and `bias`": [_NoBias],
        "one factor and one shift serve all features: `weight` and `bias` have d_model numbers": [
            _One
        ],
        "`weight` and `bias` are there and not used": [_but(scale=lambda self, x: x)],
        "`bias` is there and not added": [_but(scale=lambda self, x: x * self.weight)],
        "`weight` is there and not multiplied": [_but(scale=lambda self, x: x + self.bias)],
        "the shift is added before the factor: it comes last": [
            _but(scale=lambda self, x: (x + self.bias) * self.weight),
        ],
        "`weight` and `bias` are applied to what comes in and not to what is normalized": [
            _but(
                scale=lambda self, x: x,
                forward=lambda self, x: (
                    self.center(y := x * self.weight + self.bias) / self.divisor(y)
                ),
            ),
        ],
    },
    section="How do you normalize one token?",
    keeps=("dtype", "device", "gradient"),
)
