"""Checkers for chapter 7, *The rest of the block*."""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from transformer_lib import layers
from transformer_lib.checks import Case, Checker, Exercise, but
from transformer_lib.checks.inputs import integers, normal

__all__ = ["check"]

KEEPS = frozenset({"dtype", "gradient"})


# ------------------------------------------------------------------------------------- LayerNorm


class LayerNorm(nn.Module):
    def __init__(self, d_model: int, eps: float = 1e-5) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(d_model))
        self.bias = nn.Parameter(torch.zeros(d_model))
        self.eps = eps

    def variance(self, x: Tensor) -> Tensor:
        return x.var(-1, unbiased=False, keepdim=True)

    def divisor(self, x: Tensor) -> Tensor:
        return (self.variance(x) + self.eps).sqrt()

    def forward(self, x: Tensor) -> Tensor:
        return (x - x.mean(-1, keepdim=True)) / self.divisor(x) * self.weight + self.bias


def norm_cases() -> list[Case]:
    some = normal(2, 5, 7, seed=2).double()

    def case(x: Tensor, why: str, **init: Any) -> Case:
        return Case((x,), why, init={"d_model": x.shape[-1], **init})

    return [
        case(torch.tensor([1.0, 2, 3, 6]), "one token has a mean of 0 and a deviation of 1, "
             "then a gain and a shift", eps=5.5),
        case(torch.tensor([[1.0, 2, 3, 6], [5, 5, 1, 1]]), "each token has its own mean", eps=5.5),
        case(torch.full((1, 3, 4), 2.0), "equal features have no deviation to divide by", eps=1e-3),
        case(integers(2, 3, 4), "axes are counted from the end", eps=1e-3),
        case(normal(2, 3, 5, 4, seed=3), "there may be any number of axes in front", eps=1e-3),
        case(normal(3, 4) / 1e3, "eps is 1e-5 unless the constructor is told otherwise"),
        case(1e4 + some, "double precision must not go through single precision", eps=1e-3),
        case(1e6 + some, "for numbers around a million the mean must be subtracted first",
             eps=1e-3),
    ]  # fmt: skip


norm = partial(but, LayerNorm)

LAYER_NORM = Exercise(
    name="LayerNorm",
    reference=LayerNorm,
    cases=norm_cases,
    section="How do you normalize one token?",
    keeps=KEEPS,
    forbids=(nn.LayerNorm, F.layer_norm),
    mistakes={
        "the sum of squares is divided by d - 1: `std` and `var` do so unless they are told "
        "`unbiased=False`": norm(variance=lambda self, x: x.var(-1, keepdim=True)),
        "the sum of squares is divided by d - 1, and eps is added outside the root": norm(
            divisor=lambda self, x: x.std(-1, keepdim=True) + self.eps
        ),
        "eps is added outside the root: it is added to the variance": norm(
            divisor=lambda self, x: self.variance(x).sqrt() + self.eps
        ),
        "eps is left out": norm(divisor=lambda self, x: self.variance(x).sqrt()),
        "eps is always 1e-5: it is an argument of the constructor": norm(
            divisor=lambda self, x: (self.variance(x) + 1e-5).sqrt()
        ),
    },
)

# --------------------------------------------------------------------------------- MyFeedForward


class MyFeedForward(nn.Module):
    def __init__(self, d_model: int, d_ff: int) -> None:
        super().__init__()
        self.widen = nn.Linear(d_model, d_ff)
        self.narrow = nn.Linear(d_ff, d_model)

    def forward(self, x: Tensor) -> Tensor:
        return self.narrow(self.widen(x).relu())


def network_cases() -> list[Case]:
    sizes = {"d_model": 3, "d_ff": 7}
    return [
        Case((integers(3),), "one token: widen, bend, narrow", init=sizes),
        Case((integers(2, 5, 3),), "each token goes through on its own", init=sizes),
        Case((normal(1, 2, 5),), "the inner width is d_ff", init={"d_model": 5, "d_ff": 2}),
        Case((normal(4, 4),), "both widths may be equal", init={"d_model": 4, "d_ff": 4}),
        Case((normal(2, 3, 5, 3).double(),), "any number of axes, in any precision", init=sizes),
    ]


network = partial(but, MyFeedForward)

FEED_FORWARD = Exercise(
    name="MyFeedForward",
    reference=MyFeedForward,
    cases=network_cases,
    section="Who draws the conclusion?",
    keeps=KEEPS,
    forbids=(layers.FeedForward,),
    mistakes={
        "the ReLU is missing: two matrices in a row are one matrix": network(
            forward=lambda self, x: self.narrow(self.widen(x))
        ),
        "the ReLU comes at the end: it belongs between the two matrices": network(
            forward=lambda self, x: self.narrow(self.widen(x)).relu()
        ),
        "there is a second ReLU at the end: the result may be negative": network(
            forward=lambda self, x: self.narrow(self.widen(x).relu()).relu()
        ),
        "the ReLU comes first: the input may be negative": network(
            forward=lambda self, x: self.narrow(self.widen(x.relu()))
        ),
        "there is a leaky ReLU: below 0, a ReLU gives 0": network(
            forward=lambda self, x: self.narrow(F.leaky_relu(self.widen(x)))
        ),
        "there is a GELU instead of the ReLU": network(
            forward=lambda self, x: self.narrow(F.gelu(self.widen(x)))
        ),
        "the input is added, which the next exercise does": network(
            forward=lambda self, x: x + self.narrow(self.widen(x).relu())
        ),
    },
)

# -------------------------------------------------------------------------------------- Residual

Sublayer = Callable[[Tensor], Tensor]


class Residual(nn.Module):
    def __init__(self, d_model: int, pre_norm: bool) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(d_model)
        self.pre_norm = pre_norm

    def pre(self, x: Tensor, sublayer: Sublayer) -> Tensor:
        return x + sublayer(self.norm(x))

    def post(self, x: Tensor, sublayer: Sublayer) -> Tensor:
        return self.norm(x + sublayer(x))

    def forward(self, x: Tensor, sublayer: Sublayer) -> Tensor:
        return self.pre(x, sublayer) if self.pre_norm else self.post(x, sublayer)


def mixing(x: Tensor) -> Tensor:
    """Mixes tokens, as attention does."""
    return (x + x.mean(-2, keepdim=True)).sin() + 0.3


def itself(x: Tensor) -> Tensor:
    return x


def residual_cases() -> list[Case]:
    def both(x: Tensor, sublayer: Sublayer, why: str) -> list[Case]:
        return [
            Case((x, sublayer), f"{why}, with pre_norm={pre_norm}",
                 init={"d_model": 4, "pre_norm": pre_norm})
            for pre_norm in (True, False)
        ]  # fmt: skip

    x = integers(2, 3, 4)
    return [
        *both(
            torch.tensor([[[1.0, 2, 3, 6]]]),
            torch.square,
            "the order of norm and sum, for one token",
        ),
        *both(x, mixing, "the tokens of a text go through together"),
        *both(x, torch.zeros_like, "with a sublayer that returns 0, only the stream is left"),
        *both(x, itself, "here `sublayer` returns `x` itself"),
        *both(normal(2, 3, 4).double(), mixing, "any precision"),
    ]


around = partial(but, Residual)

RESIDUAL = Exercise(
    name="Residual",
    reference=Residual,
    cases=residual_cases,
    section="Where does the norm go?",
    keeps=KEEPS,
    forbids=(layers.Residual,),
    mistakes={
        "the stream is lost in pre-norm: the sublayer's result is added to the normalized `x`": (
            around(pre=lambda self, x, f: self.norm(x) + f(self.norm(x)))
        ),
        "`pre_norm` is ignored: this is always pre-norm": around(post=Residual.pre),
        "`pre_norm` is ignored: this is always post-norm": around(pre=Residual.post),
        "the two orders are swapped": around(pre=Residual.post, post=Residual.pre),
        "`x` itself is not added": around(
            pre=lambda self, x, f: f(self.norm(x)), post=lambda self, x, f: self.norm(f(x))
        ),
        "in post-norm only the sublayer's result is normalized, not the sum": around(
            post=lambda self, x, f: x + self.norm(f(x))
        ),
        "in pre-norm the sublayer's result is normalized, not what it reads": around(
            pre=lambda self, x, f: x + self.norm(f(x))
        ),
        "in post-norm the sublayer reads a normalized `x`": around(
            post=lambda self, x, f: self.norm(x + f(self.norm(x)))
        ),
    },
)

check = Checker(LAYER_NORM, FEED_FORWARD, RESIDUAL)
