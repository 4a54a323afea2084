"""The exercise `MyFeedForward`: what it asks for, and how its answers go wrong."""

from __future__ import annotations

from typing import Any

import torch.nn.functional as F
from torch import Tensor, nn

from transformer_lib.checks.core import Case, Exercise
from transformer_lib.checks.inputs import in_float64, not_contiguous, random_tensor


class FeedForward(nn.Module):
    """In steps, of which a mistake replaces one."""

    def __init__(self, d_model: int, d_ff: int) -> None:
        super().__init__()
        self.widen = nn.Linear(d_model, d_ff)
        self.narrow = nn.Linear(d_ff, d_model)

    def bend(self, x: Tensor) -> Tensor:
        return x.relu()

    def end(self, x: Tensor) -> Tensor:
        return x

    def forward(self, x: Tensor) -> Tensor:
        return self.end(self.narrow(self.bend(self.widen(x))))


def _but(base: type[nn.Module] = FeedForward, **parts: Any) -> type[nn.Module]:
    return type("FeedForward", (base,), parts)


class _NoBiases(FeedForward):
    def __init__(self, d_model: int, d_ff: int) -> None:
        super().__init__(d_model, d_ff)
        self.widen = nn.Linear(d_model, d_ff, bias=False)
        self.narrow = nn.Linear(d_ff, d_model, bias=False)


class _Narrow(FeedForward):
    def __init__(self, d_model: int, d_ff: int) -> None:
        super().__init__(d_model, d_model)


class _FourTimes(FeedForward):
    def __init__(self, d_model: int, d_ff: int) -> None:
        super().__init__(d_model, 4 * d_model)


class _Swapped(FeedForward):
    def __init__(self, d_model: int, d_ff: int) -> None:
        super().__init__(d_model, d_ff)
        self.widen = nn.Linear(d_ff, d_model)
        self.narrow = nn.Linear(d_model, d_ff)


class _One(nn.Module):
    def __init__(self, d_model: int, d_ff: int) -> None:
        super().__init__()
        self.widen = nn.Linear(d_model, d_model)

    def forward(self, x: Tensor) -> Tensor:
        return self.widen(x).relu()


class _Three(FeedForward):
    def __init__(self, d_model: int, d_ff: int) -> None:
        super().__init__(d_model, d_ff)
        self.middle = nn.Linear(d_ff, d_ff)

    def bend(self, x: Tensor) -> Tensor:
        return self.middle(x.relu()).relu()


class _WithNorm(FeedForward):
    def __init__(self, d_model: int, d_ff: int) -> None:
        super().__init__(d_model, d_ff)
        self.norm = nn.LayerNorm(d_model)

    def forward(self, x: Tensor) -> Tensor:
        return self.norm(x + super().forward(x))


_INIT = {"d_model": 3, "d_ff": 7}
_SOME = Case("2 sentences of 5 tokens", random_tensor(2, 5, 3, seed=1), init=_INIT)

FEED_FORWARD = Exercise(
    name="MyFeedForward",
    reference=FeedForward,
    cases=[
        Case("one token, d_ff = 7", random_tensor(3), init=_INIT),
        _SOME,
        Case("d_ff below d_model", random_tensor(1, 2, 5), init={"d_model": 5, "d_ff": 2}),
        Case("as wide inside as outside", random_tensor(4, 4), init={"d_model": 4, "d_ff": 4}),
        Case("three axes in front", random_tensor(2, 3, 5, 3, seed=2), init=_INIT),
        in_float64(_SOME),
        not_contiguous(_SOME),
    ],
    mistakes={
        "the ReLU is missing: two matrices in a row are one matrix, and nothing is bent": [
            _but(bend=lambda self, x: x),
        ],
        "the ReLU comes at the end: it belongs between the two": [
            _but(bend=lambda self, x: x, end=lambda self, x: x.relu()),
        ],
        "there is a second ReLU at the end: what is handed back may be negative": [
            _but(end=lambda self, x: x.relu()),
        ],
        "the ReLU comes first: what comes in may be negative, and counts": [
            _but(forward=lambda self, x: self.narrow(self.widen(x.relu()))),
        ],
        "there is a ReLU on what comes in as well: what comes in may be negative, and counts": [
            _but(forward=lambda self, x: self.narrow(self.widen(x.relu()).relu())),
        ],
        "the bend is another one than the ReLU of the paper: max(0, x)": [
            _but(bend=lambda self, x: F.gelu(x)),
            _but(bend=lambda self, x: F.gelu(x, approximate="tanh")),
            _but(bend=lambda self, x: F.silu(x)),
            _but(bend=lambda self, x: x.tanh()),
            _but(bend=lambda self, x: x.sigmoid()),
            _but(bend=lambda self, x: F.leaky_relu(x)),
            _but(bend=lambda self, x: F.elu(x)),
        ],
        "a softmax stands where the ReLU should": [_but(bend=lambda self, x: x.softmax(-1))],
        "the absolute value is taken: the ReLU makes 0 of what is negative": [
            _but(bend=lambda self, x: x.abs()),
        ],
        "`min` stands where `max` should: the positive numbers are cut off": [
            _but(bend=lambda self, x: x.clamp(max=0)),
        ],
        "the residual connection is in it: that is the exercise after this one, and would be there "
        "twice": [
            _but(forward=lambda self, x: x + self.narrow(self.widen(x).relu())),
        ],
        "the residual connection and the norm are in it: they are the next exercise, and would "
        "be there twice": [
            _WithNorm,
        ],
        "the biases are missing: `nn.Linear` has one unless told otherwise": [_NoBiases],
        "the inner width is d_model: it is d_ff": [_Narrow],
        "the inner width is four times d_model, as in the paper: here it is d_ff": [_FourTimes],
        "the two widths have changed places: `widen` leads from d_model to d_ff": [_Swapped],
        "there is one matrix: there are two, with the ReLU between them": [_One],
        "there is a third matrix: there are two": [_Three],
        "there is dropout in it: here there is none": [
            _but(forward=lambda self, x: self.narrow(F.dropout(self.widen(x).relu(), 0.1))),
        ],
    },
    section="Who draws the conclusion?",
    keeps=("dtype", "device", "gradient"),
)
