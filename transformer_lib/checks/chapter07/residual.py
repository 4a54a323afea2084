"""The exercise `Residual`: what it asks for, and how its answers go wrong."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from transformer_lib.checks.core import Case, Exercise
from transformer_lib.checks.inputs import in_float64, random_tensor

Sublayer = Callable[[Tensor], Tensor]


class Residual(nn.Module):
    """Two orders, of which a mistake replaces one or both."""

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


def _but(**parts: Any) -> type[nn.Module]:
    return type("Residual", (Residual,), parts)


def _lost(self: Any, x: Tensor, sublayer: Sublayer) -> Tensor:
    x = self.norm(x)
    return x + sublayer(x)


def _no_way_around(self: Any, x: Tensor, sublayer: Sublayer) -> Tensor:
    return sublayer(self.norm(x))


def _no_way_around_post(self: Any, x: Tensor, sublayer: Sublayer) -> Tensor:
    return self.norm(sublayer(x))


def _inner_norm(self: Any, x: Tensor, sublayer: Sublayer) -> Tensor:
    return x + self.norm(sublayer(x))


def _both_norms(self: Any, x: Tensor, sublayer: Sublayer) -> Tensor:
    return self.norm(x + sublayer(self.norm(x)))


def _neither(self: Any, x: Tensor, sublayer: Sublayer) -> Tensor:
    return x + sublayer(x)


def _in_place(self: Any, x: Tensor, sublayer: Sublayer) -> Tensor:
    if self.pre_norm:
        x += sublayer(self.norm(x))
        return x
    x += sublayer(x)
    return self.norm(x)


def _answer_in_place(self: Any, x: Tensor, sublayer: Sublayer) -> Tensor:
    y = sublayer(x)
    y += x
    return self.norm(y)


def _answer_in_place_pre(self: Any, x: Tensor, sublayer: Sublayer) -> Tensor:
    y = sublayer(self.norm(x))
    y += x
    return y


class _Bare(nn.Module):
    """The sum alone, and no norm made."""

    def __init__(self, d_model: int, pre_norm: bool) -> None:
        super().__init__()

    def forward(self, x: Tensor, sublayer: Sublayer) -> Tensor:
        return x + sublayer(x)


class _TwoNorms(Residual):
    def __init__(self, d_model: int, pre_norm: bool) -> None:
        super().__init__(d_model, pre_norm)
        self.second = nn.LayerNorm(d_model)

    def post(self, x: Tensor, sublayer: Sublayer) -> Tensor:
        return self.second(x + sublayer(x))


class _AddsTwice(Residual):
    def pre(self, x: Tensor, sublayer: Sublayer) -> Tensor:
        return x + x + sublayer(self.norm(x))

    def post(self, x: Tensor, sublayer: Sublayer) -> Tensor:
        return self.norm(x + x + sublayer(x))


def _mixing(x: Tensor) -> Tensor:
    """A part that mixes tokens, as attention does, and is neither odd nor homogeneous."""
    return (x + x.mean(-2, keepdim=True)).sin() + 0.3


def _same(x: Tensor) -> Tensor:
    """A part that hands back what it got, so that `y = sublayer(x); y += x` changes x."""
    return x


def _square(x: Tensor) -> Tensor:
    return 2 * x.square() - 1


_PRE, _POST = ({"d_model": 4, "pre_norm": pre} for pre in (True, False))
_X = random_tensor(2, 3, 4)
_CASES = [
    Case("pre-norm, one token", 3 * random_tensor(1, 1, 4, seed=1), _square, init=_PRE),
    Case("post-norm, one token", 3 * random_tensor(1, 1, 4, seed=1), _square, init=_POST),
    Case("pre-norm, 2 sentences of 3 tokens", 2 * _X, _mixing, init=_PRE),
    Case("post-norm, 2 sentences of 3 tokens", 2 * _X, _mixing, init=_POST),
    Case("pre-norm, a part that answers 0", 5 * _X, torch.zeros_like, init=_PRE),
    Case("post-norm, a part that answers 0", 5 * _X, torch.zeros_like, init=_POST),
    Case("pre-norm, a part that hands back what it got", 5 * _X, _same, init=_PRE),
    Case("post-norm, a part that hands back what it got", 5 * _X, _same, init=_POST),
]

_BREAK = ' (see the section "Break it: the stream that is not there")'

RESIDUAL = Exercise(
    name="Residual",
    reference=Residual,
    cases=[*_CASES, in_float64(_CASES[2]), in_float64(_CASES[3])],
    mistakes={
        "the stream is lost in pre-norm: what is added is the normalized `x` and not `x` itself"
        + _BREAK: [_but(pre=_lost)],
        "`pre_norm` is not looked at: this is pre-norm both times": [
            _but(post=Residual.pre),
        ],
        "`pre_norm` is not looked at: this is post-norm both times": [
            _but(pre=Residual.post),
        ],
        "the two orders have changed places: `pre_norm=True` puts the norm in front of the part": [
            _but(pre=Residual.post, post=Residual.pre),
        ],
        "the residual connection is missing: `x` itself is not added": [
            _but(pre=_no_way_around, post=_no_way_around_post),
        ],
        "the residual connection is missing in pre-norm": [_but(pre=_no_way_around)],
        "the residual connection is missing in post-norm": [_but(post=_no_way_around_post)],
        "in post-norm what the part answers is normalized, and `x` is added afterwards: the norm "
        "comes last, and takes the sum": [
            _but(post=_inner_norm),
            _but(post=_inner_norm, pre=_lost),
        ],
        "the norm stands behind the part and in front of the sum, in both orders": [
            _but(pre=_inner_norm, post=_inner_norm),
        ],
        "in pre-norm what the part answers is normalized: the norm takes what the part reads": [
            _but(pre=_inner_norm),
        ],
        "in pre-norm there is a second norm behind the sum": [_but(pre=_both_norms)],
        "in post-norm the part reads a normalized `x`: it reads `x`, and the norm comes after": [
            _but(post=_both_norms),
            _but(post=_both_norms, pre=_both_norms),
        ],
        "there is no norm, in either order": [_but(pre=_neither, post=_neither), _Bare],
        "the norm is missing in pre-norm": [_but(pre=_neither)],
        "the norm is missing in post-norm": [_but(post=_neither)],
        "the norm is applied twice in post-norm: to what comes in, and to the sum": [
            _but(post=lambda self, x, sublayer: self.norm(self.norm(x) + sublayer(self.norm(x)))),
        ],
        "the part is called on `x` in pre-norm, and only what is added is normalized": [
            _but(pre=lambda self, x, sublayer: self.norm(x) + sublayer(x)),
        ],
        "the part is called twice": [
            _but(
                pre=lambda self, x, sublayer: x + sublayer(sublayer(self.norm(x))),
                post=lambda self, x, sublayer: self.norm(x + sublayer(sublayer(x))),
            ),
        ],
        "`x` is added twice": [_AddsTwice],
        "`x` and the part's answer are multiplied: they are added": [
            _but(
                pre=lambda self, x, sublayer: x * sublayer(self.norm(x)),
                post=lambda self, x, sublayer: self.norm(x * sublayer(x)),
            ),
        ],
        "the part's answer is subtracted: it is added": [
            _but(
                pre=lambda self, x, sublayer: x - sublayer(self.norm(x)),
                post=lambda self, x, sublayer: self.norm(x - sublayer(x)),
            ),
        ],
        "`x`, or what the sublayer hands over, which may be `x` itself, is changed in place by "
        "`+=`: whoever holds it finds another one": [
            _but(forward=_in_place),
            _but(post=_answer_in_place),
            _but(pre=_answer_in_place_pre, post=_answer_in_place),
        ],
        "in post-norm `x` and not the sum is normalized": [
            _but(post=lambda self, x, sublayer: self.norm(x) + sublayer(x)),
        ],
        "there is a second norm on the branch in pre-norm, behind the part": [
            _but(pre=lambda self, x, sublayer: x + self.norm(sublayer(self.norm(x)))),
        ],
        "there are two norms: one serves, in front or behind": [_TwoNorms],
    },
    section="Where does the norm stand?",
    keeps=("dtype", "device", "gradient"),
)
