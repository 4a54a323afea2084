"""The exercises `RMSNorm` and `SwiGLU`, and how their answers go wrong."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from transformer_lib.checks.old.core import Case, Exercise
from transformer_lib.checks.old.inputs import in_float64, random_tensor
from transformer_lib.checks.old.rounded import rounded

__all__ = ["RMS_NORM", "SWIGLU", "Norm", "SwiGLU", "but"]


def but(kind: type, **steps: Any) -> type:
    """A class like `kind`, some steps of which are replaced."""
    return type(kind.__name__, (kind,), steps)


# ------------------------------------------------------------------------------------- RMSNorm


class Norm(nn.Module):
    """RMSNorm in steps."""

    def __init__(self, d_model: int, eps: float = 1e-5) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(d_model))
        self.eps = eps

    def wide(self, x: Tensor) -> Tensor:
        return x.to(torch.promote_types(x.dtype, torch.float32))

    def center(self, x: Tensor) -> Tensor:
        return x

    def square(self, x: Tensor) -> Tensor:
        return x.square().mean(dim=-1, keepdim=True)

    def divide(self, x: Tensor, square: Tensor) -> Tensor:
        return x / (square + self.eps).sqrt()

    def scale(self, x: Tensor) -> Tensor:
        return x * self.weight

    def end(self, out: Tensor, x: Tensor) -> Tensor:
        return out.to(x.dtype)

    def forward(self, x: Tensor) -> Tensor:
        wide = self.center(self.wide(x))
        return self.end(self.scale(self.divide(wide, self.square(wide))), x)


def _centered(self: Norm, x: Tensor) -> Tensor:
    return x - x.mean(dim=-1, keepdim=True)


def _over(*dims: int) -> Callable[..., Tensor]:
    return lambda self, x: x.square().mean(dim=dims, keepdim=True)


def _rounded(step: str) -> list[type]:
    return [
        but(Norm, forward=lambda self, x, norm=norm: norm(x, self.weight, self.eps))
        for norm in rounded(step)
    ]


def _other_eps(small: float | None) -> Callable[..., None]:
    def init(self: Norm, d_model: int, eps: float | None = small) -> None:
        Norm.__init__(self, d_model, torch.finfo(torch.float32).eps if eps is None else eps)

    return init


_NORM = {"d_model": 6, "eps": 1e-5}

RMS_NORM = Exercise(
    name="RMSNorm",
    reference=Norm,
    cases=[
        Case("one token", random_tensor(1, 1, 6), init=_NORM),
        Case("2 texts of 3 tokens", random_tensor(2, 3, 6, seed=1), init=_NORM),
        Case("a mean far from 0", random_tensor(2, 3, 6, seed=2) + 5, init=_NORM),
        Case("a large eps", random_tensor(2, 3, 6, seed=3) / 10, init=_NORM | {"eps": 0.01}),
        Case("a token of zeros", torch.zeros(1, 2, 6), init=_NORM),
        Case("float16, numbers around 400", (400 * random_tensor(2, 3, 6)).half(), init=_NORM),
        Case(
            "float16, small numbers, and no eps handed over",
            (random_tensor(2, 3, 6) / 2000).half(),
            init={"d_model": 6},
        ),
        Case(
            "float16, tiny numbers and a tiny eps",
            (random_tensor(2, 3, 6) / 1e6).half(),
            init=_NORM | {"eps": 1e-14},
        ),
        Case("float64, numbers around 1e25", 1e25 * random_tensor(2, 3, 6).double(), init=_NORM),
    ],
    mistakes={
        "the weight is missing: after the division, each entry is scaled by a learned number": [
            but(Norm, scale=lambda self, x: x),
        ],
        "the weight is added: it must scale": but(Norm, scale=lambda self, x: x + self.weight),
        "1 is added to the weight: some models do that, a Llama does not": [
            but(Norm, scale=lambda self, x: x * (1 + self.weight)),
        ],
        "the mean is subtracted: that is layer normalization": but(Norm, center=_centered),
        "eps stands outside of the root: it belongs to the mean square": [
            but(Norm, divide=lambda self, x, square: x / (square.sqrt() + self.eps)),
        ],
        "eps is missing: a token of zeros becomes NaN": [
            but(Norm, divide=lambda self, x, square: x / square.sqrt()),
            but(Norm, divide=lambda self, x, square: x * square.rsqrt()),
        ],
        "eps is another one than 1e-5 where none is handed over": [
            but(Norm, __init__=_other_eps(eps)) for eps in (1e-6, 1e-8, 1e-12, None)
        ],
        "the deviation divides: `std` and `var` subtract the mean before they square": [
            but(Norm, square=lambda self, x: x.var(dim=-1, unbiased=False, keepdim=True)),
            but(Norm, square=lambda self, x: x.var(dim=-1, keepdim=True)),
            but(Norm, divide=lambda self, x, square: x / (x.std(dim=-1, keepdim=True) + self.eps)),
        ],
        "eps is always 1e-5, whatever is handed over": [
            but(Norm, divide=lambda self, x, square: x / (square + 1e-5).sqrt()),
        ],
        "the root is missing: a token is divided by its mean square": [
            but(Norm, divide=lambda self, x, square: x / (square + self.eps)),
        ],
        "the length is divided by d: it is the root of d squares, so it is divided by the root of "
        "d": [
            but(
                Norm,
                divide=lambda self, x, square: (
                    x / (x.norm(dim=-1, keepdim=True) / x.shape[-1] + self.eps)
                ),
            ),
        ],
        "the squares are divided by d - 1: a mean square is divided by d": [
            but(Norm, square=lambda self, x: x.square().sum(-1, True) / (x.shape[-1] - 1)),
        ],
        "the squares are added up and not averaged": [
            but(Norm, square=lambda self, x: x.square().sum(dim=-1, keepdim=True)),
        ],
        "the mean is taken over the tokens as well: each token has a norm of its own": [
            but(Norm, square=_over(1, 2)),
            but(Norm, square=_over(0, 1, 2)),
        ],
        "the mean is taken over the tokens, and not over the entries of one": [
            but(Norm, square=_over(1)),
        ],
        "the squares are computed in 16 bits: 400 squared is more than float16 can hold, and tiny "
        "squares become 0": _rounded("squares"),
        "the mean square is rounded to 16 bits: there it becomes infinite or 0": _rounded("mean"),
        "the root is rounded to 16 bits before it divides: what is computed in float32 stays there "
        "until the end": _rounded("root"),
        "float64 becomes float32: it holds less, and the square of 1e25 is too large for it": [
            but(Norm, wide=lambda self, x: x.float()),
        ],
    },
    section="Stage 1: the norm",
    keeps=("dtype", "mixed", "names"),
)


# -------------------------------------------------------------------------------------- SwiGLU


class SwiGLU(nn.Module):
    """The feed-forward network of a Llama, in steps."""

    def __init__(self, d_model: int, d_ff: int) -> None:
        super().__init__()
        self.gate = nn.Linear(d_model, d_ff, bias=False)
        self.up = nn.Linear(d_model, d_ff, bias=False)
        self.down = nn.Linear(d_ff, d_model, bias=False)

    def mix(self, gate: Tensor, up: Tensor) -> Tensor:
        return F.silu(gate) * up

    def forward(self, x: Tensor) -> Tensor:
        return self.down(self.mix(self.gate(x), self.up(x)))


_WIDE = {"d_model": 4, "d_ff": 7}

SWIGLU = Exercise(
    name="SwiGLU",
    reference=SwiGLU,
    cases=[
        Case("one token", random_tensor(1, 1, 4), init=_WIDE),
        Case("2 texts of 3 tokens", random_tensor(2, 3, 4, seed=1), init=_WIDE),
        Case("large numbers", 5 * random_tensor(2, 3, 4, seed=2), init=_WIDE),
        in_float64(Case("float64", random_tensor(2, 3, 4, seed=3), init=_WIDE)),
    ],
    mistakes={
        "gate and up are swapped: silu belongs to the gate": [
            but(SwiGLU, mix=lambda self, gate, up: gate * F.silu(up)),
        ],
        "the gate is a sigmoid: silu(z) is z times the sigmoid of z": [
            but(SwiGLU, mix=lambda self, gate, up: gate.sigmoid() * up),
        ],
        "the gate has another function: GELU and ReLU make GEGLU and ReGLU": [
            but(SwiGLU, mix=lambda self, gate, up: F.gelu(gate) * up),
            but(SwiGLU, mix=lambda self, gate, up: gate.relu() * up),
            but(SwiGLU, mix=lambda self, gate, up: gate.tanh() * up),
        ],
        "the gate has no function: silu is missing": [
            but(SwiGLU, mix=lambda self, gate, up: gate * up),
        ],
        "gate and up are added: a gate multiplies": [
            but(SwiGLU, mix=lambda self, gate, up: F.silu(gate) + up),
        ],
        "silu stands around the product": but(SwiGLU, mix=lambda self, gate, up: F.silu(gate * up)),
        "silu is applied to both": but(
            SwiGLU, mix=lambda self, gate, up: F.silu(gate) * F.silu(up)
        ),
        "gate or up reads what the other one gives: both read x": [
            but(SwiGLU, forward=lambda self, x: self.down(self.up(F.silu(self.gate(x))))),
        ],
        "x is added: the layer adds it, not the network": [
            but(SwiGLU, forward=lambda self, x: x + SwiGLU.forward(self, x)),
        ],
        "up is left out: the network is an ordinary one": but(
            SwiGLU, mix=lambda self, gate, up: F.silu(gate)
        ),
    },
    section="Stage 3: the feed-forward network",
    keeps=("names",),
)
