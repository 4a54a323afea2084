"""A layer of the encoder in steps, and the steps that learners get wrong."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor, nn

from transformer_lib.checks.chapter08.attending import MultiHead

_Sublayer = Callable[[Tensor], Tensor]


class FeedForward(nn.Module):
    def __init__(self, d_model: int, d_ff: int) -> None:
        super().__init__()
        self.widen = nn.Linear(d_model, d_ff)
        self.narrow = nn.Linear(d_ff, d_model)

    def forward(self, x: Tensor) -> Tensor:
        return self.narrow(self.widen(x).relu())


class EitherOrder(nn.Module):
    """The layer in steps, of which a mistake replaces one."""

    def __init__(self, d_model: int, n_heads: int, d_ff: int, pre_norm: bool) -> None:
        super().__init__()
        self.attention = MultiHead(d_model, n_heads)
        self.feed_forward = FeedForward(d_model, d_ff)
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


def but(**steps: Any) -> type[nn.Module]:
    return type("_Wrong", (EitherOrder,), steps)


def orders(*kinds: type[nn.Module]) -> list[type[nn.Module]]:
    """A mistake made in both orders, with pre-norm alone, with post-norm alone."""
    halves = [in_one_order(wrong, pre) for pre in (True, False) for wrong in kinds]
    return [*kinds, *halves]


def in_one_order(wrong: type[nn.Module], pre: bool) -> type[nn.Module]:
    def new(_: Any, d_model: int, n_heads: int, d_ff: int, pre_norm: bool) -> nn.Module:
        kind = wrong if pre_norm is pre else EitherOrder
        return kind(d_model, n_heads, d_ff, pre_norm)

    return type("_Wrong", (nn.Module,), {"__new__": new})


def lost(self: Any, norm: nn.Module, x: Tensor, sublayer: _Sublayer) -> Tensor:
    """x = norm(x); x + sublayer(x): x goes on normalized."""
    if not self.pre_norm:
        return norm(x + sublayer(x))
    x = norm(x)
    return x + sublayer(x)


def bare(self: Any, norm: nn.Module, x: Tensor, sublayer: _Sublayer) -> Tensor:
    """Nothing is added: only the sublayer's result goes on."""
    return sublayer(norm(x)) if self.pre_norm else norm(sublayer(x))


def no_norm(self: Any, norm: nn.Module, x: Tensor, sublayer: _Sublayer) -> Tensor:
    return x + sublayer(x)


def inner_norm(self: Any, norm: nn.Module, x: Tensor, sublayer: _Sublayer) -> Tensor:
    return x + (sublayer(norm(x)) if self.pre_norm else norm(sublayer(x)))


def twice(self: Any, norm: nn.Module, x: Tensor, sublayer: _Sublayer) -> Tensor:
    return x + (x + sublayer(norm(x)) if self.pre_norm else norm(x + sublayer(x)))


def both(how: Callable[[Any, nn.Module, Tensor, _Sublayer], Tensor]) -> list[type[nn.Module]]:
    """A mistake around a sublayer, made in both places, in the first alone, the second alone."""
    first = {"first": lambda self, x, sublayer: how(self, self.norms[0], x, sublayer)}
    second = {"second": lambda self, x, sublayer: how(self, self.norms[1], x, sublayer)}
    return [but(**first, **second), but(**first), but(**second)]


def bare_calls(self: Any, x: Tensor, mask: Tensor | None = None) -> Tensor:
    return self.feed_forward(self.attention(x, x, mask))


def feed_forward_first(self: Any, x: Tensor, mask: Tensor | None = None) -> Tensor:
    x = self.second(x, self.feed_forward)
    return self.first(x, lambda y: self.attend(y, y, mask))


def side_by_side(self: Any, x: Tensor, mask: Tensor | None = None) -> Tensor:
    attended = self.first(x, lambda y: self.attend(y, y, mask))
    return attended + self.second(x, self.feed_forward) - x


def side_by_side_sum(self: Any, x: Tensor, mask: Tensor | None = None) -> Tensor:
    attended = self.first(x, lambda y: self.attend(y, y, mask))
    return attended + self.second(x, self.feed_forward)


def old_x(self: Any, x: Tensor, mask: Tensor | None = None) -> Tensor:
    self.first(x, lambda y: self.attend(y, y, mask))
    return self.second(x, self.feed_forward)


def input_again(pre: bool, post: bool) -> type[nn.Module]:
    """The second sum starts from the layer's input, in the orders named."""

    def forward(self: Any, x: Tensor, mask: Tensor | None = None) -> Tensor:
        found = self.first(x, lambda y: self.attend(y, y, mask))
        start = x if (pre if self.pre_norm else post) else found
        if self.pre_norm:
            return start + self.feed_forward(self.norms[1](found))
        return self.norms[1](start + self.feed_forward(found))

    return but(forward=forward)


def attended_alone(self: Any, x: Tensor, mask: Tensor | None = None) -> Tensor:
    return self.first(x, lambda y: self.attend(y, y, mask))


def swapped_norms(self: Any, x: Tensor, mask: Tensor | None = None) -> Tensor:
    x = self.second(x, lambda y: self.attend(y, y, mask))
    return self.first(x, self.feed_forward)


def relu_at_the_end(self: Any, x: Tensor, mask: Tensor | None = None) -> Tensor:
    return EitherOrder.forward(self, x, mask).relu()


def one_norm(self: Any, x: Tensor, mask: Tensor | None = None) -> Tensor:
    x = self.first(x, lambda y: self.attend(y, y, mask))
    return self.first(x, self.feed_forward)


class SameNorm(EitherOrder):
    def __init__(self, d_model: int, n_heads: int, d_ff: int, pre_norm: bool) -> None:
        super().__init__(d_model, n_heads, d_ff, pre_norm)
        self.norms = nn.ModuleList([self.norms[0]] * 2)


class OnlyOneNorm(EitherOrder):
    def __init__(self, d_model: int, n_heads: int, d_ff: int, pre_norm: bool) -> None:
        super().__init__(d_model, n_heads, d_ff, pre_norm)
        del self.norms[1]


class FinalNorm(EitherOrder):
    def __init__(self, d_model: int, n_heads: int, d_ff: int, pre_norm: bool) -> None:
        super().__init__(d_model, n_heads, d_ff, pre_norm)
        self.norm = nn.LayerNorm(d_model)


class NoNorms(EitherOrder):
    def __init__(self, d_model: int, n_heads: int, d_ff: int, pre_norm: bool) -> None:
        super().__init__(d_model, n_heads, d_ff, pre_norm)
        del self.norms


class Narrow(EitherOrder):
    def __init__(self, d_model: int, n_heads: int, d_ff: int, pre_norm: bool) -> None:
        super().__init__(d_model, n_heads, 4 * d_model, pre_norm)


class OneHead(EitherOrder):
    def __init__(self, d_model: int, n_heads: int, d_ff: int, pre_norm: bool) -> None:
        super().__init__(d_model, 1, d_ff, pre_norm)


def attention_called_bare(self: Any, x: Tensor, mask: Tensor | None = None) -> Tensor:
    return self.second(self.attention(x, x, mask), self.feed_forward)


def feed_forward_called_bare(self: Any, x: Tensor, mask: Tensor | None = None) -> Tensor:
    return self.feed_forward(self.first(x, lambda y: self.attend(y, y, mask)))
