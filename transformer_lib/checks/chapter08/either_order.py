"""The exercise `EitherOrder`: what it asks for, and how its answers go wrong."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from transformer_lib.checks.chapter08.attending import MultiHead
from transformer_lib.checks.core import Case, Exercise
from transformer_lib.checks.inputs import in_float64, random_tensor

_Sublayer = Callable[[Tensor], Tensor]


class _FeedForward(nn.Module):
    def __init__(self, d_model: int, d_ff: int) -> None:
        super().__init__()
        self.widen = nn.Linear(d_model, d_ff)
        self.narrow = nn.Linear(d_ff, d_model)

    def forward(self, x: Tensor) -> Tensor:
        return self.narrow(self.widen(x).relu())


class _EitherOrder(nn.Module):
    """The layer in steps, of which a mistake replaces one."""

    def __init__(self, d_model: int, n_heads: int, d_ff: int, pre_norm: bool) -> None:
        super().__init__()
        self.attention = MultiHead(d_model, n_heads)
        self.feed_forward = _FeedForward(d_model, d_ff)
        self.norms = nn.ModuleList(nn.LayerNorm(d_model) for _ in range(2))
        self.pre_norm = self.order(pre_norm)

    def order(self, pre_norm: bool) -> bool:
        return pre_norm

    def attend(self, x: Tensor, outside: Tensor, mask: Tensor | None) -> Tensor:
        """`x` is what the sublayer is given; `outside` is the layer's own input."""
        return self.attention(x, x, mask)

    def around(self, norm: nn.Module, x: Tensor, sublayer: _Sublayer) -> Tensor:
        return x + sublayer(norm(x)) if self.pre_norm else norm(x + sublayer(x))

    def first(self, x: Tensor, sublayer: _Sublayer) -> Tensor:
        return self.around(self.norms[0], x, sublayer)

    def second(self, x: Tensor, sublayer: _Sublayer) -> Tensor:
        return self.around(self.norms[1], x, sublayer)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        x = self.first(x, lambda y, outside=x: self.attend(y, outside, mask))
        return self.second(x, self.feed_forward)


def _but(**steps: Any) -> type[nn.Module]:
    return type("_Wrong", (_EitherOrder,), steps)


def _lost(self: Any, norm: nn.Module, x: Tensor, sublayer: _Sublayer) -> Tensor:
    """x = norm(x); x + sublayer(x): x goes on normalized."""
    if not self.pre_norm:
        return norm(x + sublayer(x))
    x = norm(x)
    return x + sublayer(x)


def _bare(self: Any, norm: nn.Module, x: Tensor, sublayer: _Sublayer) -> Tensor:
    """Nothing is added: only the sublayer's result goes on."""
    return sublayer(norm(x)) if self.pre_norm else norm(sublayer(x))


def _no_norm(self: Any, norm: nn.Module, x: Tensor, sublayer: _Sublayer) -> Tensor:
    return x + sublayer(x)


def _inner_norm(self: Any, norm: nn.Module, x: Tensor, sublayer: _Sublayer) -> Tensor:
    return x + (sublayer(norm(x)) if self.pre_norm else norm(sublayer(x)))


def _twice(self: Any, norm: nn.Module, x: Tensor, sublayer: _Sublayer) -> Tensor:
    return x + (x + sublayer(norm(x)) if self.pre_norm else norm(x + sublayer(x)))


def _both(how: Callable[[Any, nn.Module, Tensor, _Sublayer], Tensor]) -> list[type[nn.Module]]:
    """A mistake around a sublayer, made in both places, in the first alone, the second alone."""
    first = {"first": lambda self, x, sublayer: how(self, self.norms[0], x, sublayer)}
    second = {"second": lambda self, x, sublayer: how(self, self.norms[1], x, sublayer)}
    return [_but(**first, **second), _but(**first), _but(**second)]


def _bare_calls(self: Any, x: Tensor, mask: Tensor | None = None) -> Tensor:
    return self.feed_forward(self.attention(x, x, mask))


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


def _input_again(pre: bool, post: bool) -> type[nn.Module]:
    """The second sum starts from the layer's input, in the orders named."""

    def forward(self: Any, x: Tensor, mask: Tensor | None = None) -> Tensor:
        found = self.first(x, lambda y: self.attend(y, y, mask))
        start = x if (pre if self.pre_norm else post) else found
        if self.pre_norm:
            return start + self.feed_forward(self.norms[1](found))
        return self.norms[1](start + self.feed_forward(found))

    return _but(forward=forward)


def _attended_alone(self: Any, x: Tensor, mask: Tensor | None = None) -> Tensor:
    return self.first(x, lambda y: self.attend(y, y, mask))


def _swapped_norms(self: Any, x: Tensor, mask: Tensor | None = None) -> Tensor:
    x = self.second(x, lambda y: self.attend(y, y, mask))
    return self.first(x, self.feed_forward)


def _relu_at_the_end(self: Any, x: Tensor, mask: Tensor | None = None) -> Tensor:
    return _EitherOrder.forward(self, x, mask).relu()


def _one_norm(self: Any, x: Tensor, mask: Tensor | None = None) -> Tensor:
    x = self.first(x, lambda y: self.attend(y, y, mask))
    return self.first(x, self.feed_forward)


class _SameNorm(_EitherOrder):
    def __init__(self, d_model: int, n_heads: int, d_ff: int, pre_norm: bool) -> None:
        super().__init__(d_model, n_heads, d_ff, pre_norm)
        self.norms = nn.ModuleList([self.norms[0]] * 2)


class _OnlyOneNorm(_EitherOrder):
    def __init__(self, d_model: int, n_heads: int, d_ff: int, pre_norm: bool) -> None:
        super().__init__(d_model, n_heads, d_ff, pre_norm)
        del self.norms[1]


class _FinalNorm(_EitherOrder):
    def __init__(self, d_model: int, n_heads: int, d_ff: int, pre_norm: bool) -> None:
        super().__init__(d_model, n_heads, d_ff, pre_norm)
        self.norm = nn.LayerNorm(d_model)


class _NoNorms(_EitherOrder):
    def __init__(self, d_model: int, n_heads: int, d_ff: int, pre_norm: bool) -> None:
        super().__init__(d_model, n_heads, d_ff, pre_norm)
        del self.norms


class _Narrow(_EitherOrder):
    def __init__(self, d_model: int, n_heads: int, d_ff: int, pre_norm: bool) -> None:
        super().__init__(d_model, n_heads, 4 * d_model, pre_norm)


class _OneHead(_EitherOrder):
    def __init__(self, d_model: int, n_heads: int, d_ff: int, pre_norm: bool) -> None:
        super().__init__(d_model, 1, d_ff, pre_norm)


def _attention_called_bare(self: Any, x: Tensor, mask: Tensor | None = None) -> Tensor:
    return self.second(self.attention(x, x, mask), self.feed_forward)


def _feed_forward_called_bare(self: Any, x: Tensor, mask: Tensor | None = None) -> Tensor:
    return self.feed_forward(self.first(x, lambda y: self.attend(y, y, mask)))


_PADDING = (torch.tensor([5, 2])[:, None] > torch.arange(5))[:, None, None]  # (2, 1, 1, 5)


def _case(
    label: str, b: int, t: int, d: int, h: int, ff: int, pre: bool, mask: Tensor | None = None
) -> Case:
    given = {} if mask is None else {"mask": mask}
    init = {"d_model": d, "n_heads": h, "d_ff": ff, "pre_norm": pre}
    return Case(label, random_tensor(b, t, d) + 0.5, init=init, **given)


EITHER_ORDER = Exercise(
    name="EitherOrder",
    reference=_EitherOrder,
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
            attend=lambda self, x, outside, mask: self.attention(x, x)
        ),
        "the mask is turned around on the way: the attention takes it as it is": (
            _but(
                attend=lambda self, x, outside, mask: self.attention(
                    x, x, None if mask is None else ~mask
                )
            )
        ),
        "keys and values are made from x as it came in: with pre-norm, all three "
        "are made from the normalized x": _but(
            attend=lambda self, x, outside, mask: self.attention(x, outside, mask)
        ),
        "the attention gets x as it came in: with pre-norm, it gets the normalized x": _but(
            attend=lambda self, x, outside, mask: self.attention(outside, outside, mask)
        ),
        "queries are made from x as it came in: with pre-norm, they are made from the normalized "
        "x": _but(attend=lambda self, x, outside, mask: self.attention(outside, x, mask)),
        "the norm comes before, whatever `pre_norm` says": _but(order=lambda self, pre_norm: True),
        "the norm comes after, whatever `pre_norm` says": _but(order=lambda self, pre_norm: False),
        "`pre_norm` is the wrong way round: True means that the norm comes first": _but(
            order=lambda self, pre_norm: not pre_norm
        ),
        "x itself is lost: `x = norm(x)` and then `x + sublayer(x)` hands the normalized x on, "
        "where it should be `x + sublayer(norm(x))`": _both(_lost),
        "the residual connection is missing: only the sublayer's result goes on, and x is not "
        "added": [*_both(_bare)],
        "the sublayers are called one after the other: nothing is added, and nothing is "
        "normalized": _but(forward=_bare_calls),
        "one sublayer is called without its norm, and x is not added to its result": [
            _but(forward=_attention_called_bare),
            _but(forward=_feed_forward_called_bare),
        ],
        "`n_heads` is not used: the attention has one head": _OneHead,
        "there is no norm: x + sublayer(x)": _both(_no_norm),
        "with post-norm, only the sublayer's result is normalized: it should be the sum": (
            _both(_inner_norm)
        ),
        "x is added twice": _both(_twice),
        "the feed-forward network comes first: it works on what the attention has collected": _but(
            forward=_feed_forward_first
        ),
        "both sublayers get the layer's input: the feed-forward network works on what the "
        "attention has found": [
            _but(forward=_side_by_side),
            _but(forward=_side_by_side_sum),
        ],
        "the layer's own input is added again in the second sum, where the first sum should be: "
        "what the attention has found does not go on": [
            _input_again(True, True),
            _input_again(True, False),
            _input_again(False, True),
        ],
        "the attention's result is thrown away: the feed-forward network must get it": _but(
            forward=_old_x
        ),
        "the feed-forward network is missing": _but(forward=_attended_alone),
        "the attention comes twice": [
            _but(
                forward=lambda self, x, mask=None: self.second(
                    self.first(x, lambda y: self.attention(y, y, mask)),
                    lambda y: self.attention(y, y, mask),
                )
            )
        ],
        "the two norms have changed places: the first belongs to the attention": _but(
            forward=_swapped_norms
        ),
        "a ReLU is put behind it all: the only one is inside the feed-forward network": _but(
            forward=_relu_at_the_end
        ),
        "one norm serves both sublayers: each has a norm of its own": [
            _but(forward=_one_norm),
            _SameNorm,
            _OnlyOneNorm,
        ],
        "the layer ends in a norm of its own: that one belongs to the whole stack": _FinalNorm,
        "both norms are missing": _NoNorms,
        "`d_ff` is not used: the width of the feed-forward network is given, and not always "
        "4 * d_model": _Narrow,
    },
    section="What is the encoder made of?",
    keeps=("dtype", "device", "gradient"),
)
