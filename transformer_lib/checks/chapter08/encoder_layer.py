"""The exercise `EncoderLayer`: what it asks for, and how its answers go wrong."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from transformer_lib.checks.chapter08.attending import MultiHeadAttention
from transformer_lib.checks.core import Case, Exercise
from transformer_lib.checks.inputs import in_float64, random_tensor
from transformer_lib.checks.parts import FeedForward, Residual

_Sublayer = Callable[[Tensor], Tensor]


class _EncoderLayer(nn.Module):
    """The layer in steps, of which a mistake replaces one."""

    def __init__(self, d_model: int, n_heads: int, d_ff: int, pre_norm: bool) -> None:
        super().__init__()
        self.self_attention = MultiHeadAttention(d_model, n_heads)
        self.feed_forward = FeedForward(d_model, d_ff)
        self.attention_residual = Residual(d_model, self.order(pre_norm))
        self.feed_forward_residual = Residual(d_model, self.order(pre_norm))

    def order(self, pre_norm: bool) -> bool:
        return pre_norm

    def attend(self, x: Tensor, outside: Tensor, mask: Tensor | None) -> Tensor:
        """`x` is what the residual hands over; `outside` is the layer's own input."""
        return self.self_attention(x, x, mask)

    def first(self, x: Tensor, sublayer: _Sublayer) -> Tensor:
        return self.attention_residual(x, sublayer)

    def second(self, x: Tensor, sublayer: _Sublayer) -> Tensor:
        return self.feed_forward_residual(x, sublayer)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        x = self.first(x, lambda y, outside=x: self.attend(y, outside, mask))
        return self.second(x, self.feed_forward)


def _but(**steps: Any) -> type[nn.Module]:
    return type("_Wrong", (_EncoderLayer,), steps)


def _lost(residual: Any, x: Tensor, sublayer: _Sublayer) -> Tensor:
    """x = norm(x); x + sublayer(x): the stream goes on normalized."""
    if not residual.pre_norm:
        return residual(x, sublayer)
    x = residual.norm(x)
    return x + sublayer(x)


def _bare(residual: Any, x: Tensor, sublayer: _Sublayer) -> Tensor:
    """No way around: only the sublayer's result goes on."""
    return sublayer(residual.norm(x)) if residual.pre_norm else residual.norm(sublayer(x))


def _no_norm(residual: Any, x: Tensor, sublayer: _Sublayer) -> Tensor:
    return x + sublayer(x)


def _inner_norm(residual: Any, x: Tensor, sublayer: _Sublayer) -> Tensor:
    return x + (sublayer(residual.norm(x)) if residual.pre_norm else residual.norm(sublayer(x)))


def _twice(residual: Any, x: Tensor, sublayer: _Sublayer) -> Tensor:
    return x + residual(x, sublayer)


def _both(how: Callable[[Any, Tensor, _Sublayer], Tensor]) -> list[type[nn.Module]]:
    """A way of going around that was made in both places, in the first alone, the second alone."""
    first = {"first": lambda self, x, sublayer: how(self.attention_residual, x, sublayer)}
    second = {"second": lambda self, x, sublayer: how(self.feed_forward_residual, x, sublayer)}
    return [_but(**first, **second), _but(**first), _but(**second)]


def _bare_calls(self: Any, x: Tensor, mask: Tensor | None = None) -> Tensor:
    return self.feed_forward(self.self_attention(x, x, mask))


def _feed_forward_first(self: Any, x: Tensor, mask: Tensor | None = None) -> Tensor:
    x = self.second(x, self.feed_forward)
    return self.first(x, lambda y: self.attend(y, y, mask))


def _side_by_side(self: Any, x: Tensor, mask: Tensor | None = None) -> Tensor:
    attended = self.first(x, lambda y: self.attend(y, y, mask))
    return attended + self.second(x, self.feed_forward) - x


def _side_by_side_sum(self: Any, x: Tensor, mask: Tensor | None = None) -> Tensor:
    attended = self.first(x, lambda y: self.attend(y, y, mask))
    return attended + self.second(x, self.feed_forward)


def _old_x(self: Any, x: Tensor, mask: Tensor | None = None) -> Tensor:
    self.first(x, lambda y: self.attend(y, y, mask))
    return self.second(x, self.feed_forward)


def _attended_alone(self: Any, x: Tensor, mask: Tensor | None = None) -> Tensor:
    return self.first(x, lambda y: self.attend(y, y, mask))


def _swapped_norms(self: Any, x: Tensor, mask: Tensor | None = None) -> Tensor:
    x = self.second(x, lambda y: self.attend(y, y, mask))
    return self.first(x, self.feed_forward)


def _relu_at_the_end(self: Any, x: Tensor, mask: Tensor | None = None) -> Tensor:
    return _EncoderLayer.forward(self, x, mask).relu()


def _one_residual(self: Any, x: Tensor, mask: Tensor | None = None) -> Tensor:
    x = self.first(x, lambda y: self.attend(y, y, mask))
    return self.first(x, self.feed_forward)


class _OneResidual(_EncoderLayer):
    def __init__(self, d_model: int, n_heads: int, d_ff: int, pre_norm: bool) -> None:
        super().__init__(d_model, n_heads, d_ff, pre_norm)
        self.feed_forward_residual = self.attention_residual


class _OnlyOneResidual(_EncoderLayer):
    def __init__(self, d_model: int, n_heads: int, d_ff: int, pre_norm: bool) -> None:
        super().__init__(d_model, n_heads, d_ff, pre_norm)
        del self.feed_forward_residual


class _FinalNorm(_EncoderLayer):
    def __init__(self, d_model: int, n_heads: int, d_ff: int, pre_norm: bool) -> None:
        super().__init__(d_model, n_heads, d_ff, pre_norm)
        self.norm = nn.LayerNorm(d_model)


class _NoNorms(_EncoderLayer):
    def __init__(self, d_model: int, n_heads: int, d_ff: int, pre_norm: bool) -> None:
        super().__init__(d_model, n_heads, d_ff, pre_norm)
        del self.attention_residual, self.feed_forward_residual


class _Narrow(_EncoderLayer):
    def __init__(self, d_model: int, n_heads: int, d_ff: int, pre_norm: bool) -> None:
        super().__init__(d_model, n_heads, 4 * d_model, pre_norm)


class _OneHead(_EncoderLayer):
    def __init__(self, d_model: int, n_heads: int, d_ff: int, pre_norm: bool) -> None:
        super().__init__(d_model, 1, d_ff, pre_norm)


def _attention_called_bare(self: Any, x: Tensor, mask: Tensor | None = None) -> Tensor:
    return self.second(self.self_attention(x, x, mask), self.feed_forward)


def _feed_forward_called_bare(self: Any, x: Tensor, mask: Tensor | None = None) -> Tensor:
    return self.feed_forward(self.first(x, lambda y: self.attend(y, y, mask)))


_PADDING = (torch.tensor([5, 2])[:, None] > torch.arange(5))[:, None, None]  # (2, 1, 1, 5)


def _case(
    label: str, b: int, t: int, d: int, h: int, ff: int, pre: bool, mask: Tensor | None = None
) -> Case:
    given = {} if mask is None else {"mask": mask}
    init = {"d_model": d, "n_heads": h, "d_ff": ff, "pre_norm": pre}
    return Case(label, random_tensor(b, t, d) + 0.5, init=init, **given)


ENCODER_LAYER = Exercise(
    name="EncoderLayer",
    reference=_EncoderLayer,
    cases=[
        _case("one token, pre-norm", 1, 1, 4, 1, 7, True),
        _case("one token, post-norm", 1, 1, 4, 1, 7, False),
        _case("pre-norm, 3 heads, 5 tokens", 2, 5, 12, 3, 17, True),
        _case("post-norm, 3 heads, 5 tokens", 2, 5, 12, 3, 17, False),
        _case("pre-norm, with padding", 2, 5, 6, 2, 11, True, _PADDING),
        _case("post-norm, with padding", 2, 5, 6, 2, 11, False, _PADDING),
        in_float64(_case("pre-norm, with padding", 2, 5, 6, 2, 11, True, _PADDING)),
    ],
    mistakes={
        "the mask is not handed on to the attention": _but(
            attend=lambda self, x, outside, mask: self.self_attention(x, x)
        ),
        "the mask is turned around on the way: the attention takes it as it is": (
            _but(
                attend=lambda self, x, outside, mask: self.self_attention(
                    x, x, None if mask is None else ~mask
                )
            )
        ),
        "keys and values are made from the x outside, which was not normalized: with pre-norm, all "
        "three come from what `sublayer` is handed": _but(
            attend=lambda self, x, outside, mask: self.self_attention(x, outside, mask)
        ),
        "the attention gets the x outside and not what `sublayer` is handed: with pre-norm, that "
        "is the normalized one": _but(
            attend=lambda self, x, outside, mask: self.self_attention(outside, outside, mask)
        ),
        "queries are made from the x outside, which was not normalized": _but(
            attend=lambda self, x, outside, mask: self.self_attention(outside, x, mask)
        ),
        "the norm comes before, whatever `pre_norm` says": _but(order=lambda self, pre_norm: True),
        "the norm comes after, whatever `pre_norm` says": _but(order=lambda self, pre_norm: False),
        "`pre_norm` is the wrong way round: True means that the norm comes first": _but(
            order=lambda self, pre_norm: not pre_norm
        ),
        "the stream is lost: `x = norm(x)` and then `x + sublayer(x)` hands the normalized x on, "
        "where it should be `x + sublayer(norm(x))`": _both(_lost),
        "the way around is missing: only the sublayer's result goes on, and x is not added": [
            *_both(_bare)
        ],
        "the sublayers are called one after the other, with no way around and no norm": _but(
            forward=_bare_calls
        ),
        "a sublayer is called bare: its residual, with the norm and the way around, is not used": [
            _but(forward=_attention_called_bare),
            _but(forward=_feed_forward_called_bare),
        ],
        "`n_heads` is not used: the attention has one head": _OneHead,
        "there is no norm: x + sublayer(x)": _both(_no_norm),
        "with post-norm, only the sublayer's result is normalized, where it should be the sum": (
            _both(_inner_norm)
        ),
        "x is added twice: the residual adds it already": _both(_twice),
        "the feed-forward network comes first: the tokens must look around before they think": _but(
            forward=_feed_forward_first
        ),
        "both sublayers get the layer's input: the feed-forward network works on what the "
        "attention has found": [
            _but(forward=_side_by_side),
            _but(forward=_side_by_side_sum),
        ],
        "the attention's result is thrown away: x must become what the residual returns": _but(
            forward=_old_x
        ),
        "the feed-forward network is missing": _but(forward=_attended_alone),
        "the attention comes twice": [
            _but(
                forward=lambda self, x, mask=None: self.second(
                    self.first(x, lambda y: self.self_attention(y, y, mask)),
                    lambda y: self.self_attention(y, y, mask),
                )
            )
        ],
        "the two residuals have changed places": _but(forward=_swapped_norms),
        "a ReLU is put behind it all: the only one is inside the feed-forward network": _but(
            forward=_relu_at_the_end
        ),
        "one residual serves both sublayers: each has a norm of its own to learn": [
            _but(forward=_one_residual),
            _OneResidual,
            _OnlyOneResidual,
        ],
        "the layer ends in a norm of its own: that one belongs to the whole stack": _FinalNorm,
        "the two residuals, and with them the norms, are missing": _NoNorms,
        "`d_ff` is not used: the width of the feed-forward network is given, and not always "
        "4 * d_model": _Narrow,
    },
    section="What is the encoder made of?",
    keeps=("dtype", "device", "gradient"),
)
