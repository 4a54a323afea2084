"""The exercise `rms_norm`: what it asks for, and how its answers go wrong."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor

from transformer_lib.checks.chapter21.rounded import rounded
from transformer_lib.checks.old.core import Case, Exercise
from transformer_lib.checks.old.inputs import random_tensor


def _square(x: Tensor) -> Tensor:
    return x.square().mean(dim=-1, keepdim=True)


def _divide(x: Tensor, square: Tensor, eps: float) -> Tensor:
    return x / (square + eps).sqrt()


def _rms_norm(
    x: Tensor,
    weight: Tensor,
    eps: float,
    *,
    widen: Callable[[Tensor], Tensor] = lambda x: x.to(torch.promote_types(x.dtype, torch.float32)),
    center: Callable[[Tensor], Tensor] = lambda x: x,
    square: Callable[[Tensor], Tensor] = _square,
    divide: Callable[[Tensor, Tensor, float], Tensor] = _divide,
    scale: Callable[[Tensor, Tensor], Tensor] = lambda x, weight: x * weight,
    end: Callable[[Tensor, Tensor], Tensor] = lambda result, x: result.to(x.dtype),
) -> Tensor:
    """In steps, of which a mistake replaces one."""
    wide = center(widen(x))
    return end(scale(divide(wide, square(wide), eps), widen(weight)), x)


def _reference(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    return _rms_norm(x, weight, eps)


def _but(**steps: Callable) -> Callable[..., Tensor]:
    return partial(_rms_norm, **steps)


def _over(dim: int | tuple[int, ...]) -> Callable[..., Tensor]:
    return _but(square=lambda x: x.square().mean(dim=dim, keepdim=True))


_WEIGHT = random_tensor(4, seed=7)
_ROOT = (
    "the root is missing: the token is divided by its mean square, and then it forgets its size "
    "twice"
)

RMS_NORM = Exercise(
    name="rms_norm",
    reference=_reference,
    cases=[
        Case("one token, d = 4", torch.tensor([1.0, 2.0, 3.0, 6.0]), torch.ones(4), 1e-5),
        Case("2 sentences of 3 tokens, weights", random_tensor(2, 3, 4), _WEIGHT, 1e-5),
        Case("4 sentences of 4 tokens", random_tensor(4, 4, 4, seed=1), _WEIGHT, 1e-3),
        Case("small numbers: eps counts", random_tensor(3, 4) / 100, _WEIGHT, 1e-3),
        Case("a token of zeros", torch.zeros(2, 4), _WEIGHT, 1e-5),
        Case(
            "float16, numbers around 300",
            (300 * random_tensor(2, 3, 4, seed=2)).half(),
            _WEIGHT.half(),
            1e-5,
        ),
        Case(
            "float16, small numbers",
            (random_tensor(2, 3, 4, seed=3) / 1e4).half(),
            torch.ones(4).half(),
            1e-6,
        ),
        Case(
            "float16, tiny numbers and a tiny eps",
            (random_tensor(2, 3, 4, seed=3) / 1e6).half(),
            _WEIGHT.half(),
            1e-14,
        ),
    ],
    mistakes={
        "the squares are computed in float16: the square of 300 is infinite there, and the token "
        "is divided by infinity. Convert x before you square it": rounded("squares"),
        "the mean square is rounded to 16 bits: there it becomes infinite or 0": rounded("mean"),
        "the root is rounded to 16 bits before it divides: what is computed in float32 stays there "
        "until the end": rounded("root"),
        "the numbers are computed in bfloat16: it is as wide as float32 and as coarse as 8 bits": [
            _but(widen=lambda x: x.bfloat16()),
        ],
        "the mean is subtracted: that is layer norm. This norm divides and does not center": [
            _but(center=lambda x: x - x.mean(dim=-1, keepdim=True)),
            _but(divide=lambda x, *rest: _divide(x - x.mean(dim=-1, keepdim=True), *rest)),
        ],
        "the deviation divides: `std` and `var` subtract the mean before they square": [
            _but(square=lambda x: x.var(dim=-1, unbiased=False, keepdim=True)),
            _but(square=lambda x: x.var(dim=-1, keepdim=True)),
            _but(divide=lambda x, square, eps: x / (x.std(dim=-1, keepdim=True) + eps)),
        ],
        "the squares are added up, and not their mean taken": [
            _but(square=lambda x: x.square().sum(dim=-1, keepdim=True)),
            _but(divide=lambda x, square, eps: x / x.norm(dim=-1, keepdim=True)),
            _but(divide=lambda x, square, eps: x / (x.norm(dim=-1, keepdim=True) + eps)),
            _but(divide=lambda x, square, eps: x / x.norm(dim=-1, keepdim=True).clamp(min=1e-12)),
        ],
        "the length is divided by d: it is the root of d squares, so it is divided by the root of "
        "d": [
            _but(
                divide=lambda x, square, eps: x / (x.norm(dim=-1, keepdim=True) / x.size(-1) + eps)
            ),
            _but(
                divide=lambda x, square, eps: x / ((square * x.size(-1) + eps).sqrt() / x.size(-1))
            ),
        ],
        "the squares are divided by d - 1: a mean square is divided by d": [
            _but(square=lambda x: x.square().sum(-1, keepdim=True) / (x.size(-1) - 1)),
        ],
        "the largest number divides: the root of the mean square does": [
            _but(divide=lambda x, square, eps: x / (x.abs().amax(-1, keepdim=True) + eps)),
        ],
        "the squares are missing: the mean of the features divides, and it may be 0": [
            _but(square=lambda x: x.mean(dim=-1, keepdim=True)),
            _but(square=lambda x: x.mean(dim=-1, keepdim=True).square()),
        ],
        "the absolute values are averaged: they have to be squared": [
            _but(divide=lambda x, square, eps: x / (x.abs().mean(dim=-1, keepdim=True) + eps)),
        ],
        _ROOT: [
            _but(divide=lambda x, square, eps: x / (square + eps)),
        ],
        "`** 1/2` is no root: Python takes the power first, so this divides by half of the mean "
        "square": [
            _but(divide=lambda x, square, eps: x / ((square + eps) / 2)),
        ],
        "the token is multiplied by the root: it has to be divided": [
            _but(divide=lambda x, square, eps: x * (square + eps).sqrt()),
        ],
        "eps is left out: a token of zeros is then divided by 0": [
            _but(divide=lambda x, square, eps: x / square.sqrt()),
        ],
        "eps stands outside the root: it belongs inside, beside the mean square": [
            _but(divide=lambda x, square, eps: x / (square.sqrt() + eps)),
        ],
        "eps is squared: it is added to the mean square as it is": [
            _but(divide=lambda x, square, eps: _divide(x, square, eps**2)),
        ],
        "eps is fixed: it is an argument": [
            _but(divide=lambda x, square, eps, small=small: x / (square + small).sqrt())
            for small in (1e-5, 1e-6, 1e-8)
        ],
        "the mean square is taken over the tokens: each token has its own, over the last axis": [
            _over(-2),
            lambda x, weight, eps: _over(-2 if x.dim() > 1 else -1)(x, weight, eps),
            lambda x, weight, eps: _over(1 if x.dim() > 2 else -1)(x, weight, eps),
        ],
        "the mean square is taken over the first axis: each token has its own, over the last "
        "axis": _over(0),
        "the mean square is taken over all numbers: each token has its own": [
            _but(square=lambda x: x.square().mean()),
        ],
        "`keepdim=True` is missing: the mean square loses its last axis and no longer fits below "
        "x": _but(square=lambda x: x.square().mean(dim=-1)),
        "`weight` is not used": _but(scale=lambda x, weight: x),
        "`weight` is added: it is a factor": _but(scale=lambda x, weight: x + weight),
        "the factor is 1 + weight: some models store it that way, (21.1) does not": [
            _but(scale=lambda x, weight: x * (1 + weight)),
        ],
        "the result is divided by `weight`: it is a factor": [
            _but(scale=lambda x, weight: x / weight),
        ],
        "`weight` is multiplied in before the mean square is taken: it comes last": [
            lambda x, weight, eps: _rms_norm(x * weight, torch.ones_like(weight), eps),
        ],
    },
    section="Does a norm need the mean?",
    keeps=("dtype",),
    atol=5e-3,  # float16 has 11 bits
)
