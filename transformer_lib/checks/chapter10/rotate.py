"""The exercise `rotate`: what it asks for, and how its answers go wrong."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor

from transformer_lib.checks.old.core import Case, Exercise
from transformer_lib.checks.old.inputs import random_tensor


def _places(x: Tensor, start: int) -> Tensor:
    return start + torch.arange(x.shape[-2])[:, None]


def _rates(d: int) -> Tensor:
    return 10_000.0 ** -(torch.arange(0, d, 2) / d)


def _neighbors(x: Tensor) -> tuple[Tensor, Tensor]:
    return x[..., 0::2], x[..., 1::2]


def _turn(a: Tensor, b: Tensor, sin: Tensor, cos: Tensor) -> tuple[Tensor, Tensor]:
    return a * cos - b * sin, a * sin + b * cos


def _woven(a: Tensor, b: Tensor) -> Tensor:
    return torch.stack((a, b), dim=-1).flatten(-2)


def _joined(a: Tensor, b: Tensor) -> Tensor:
    return torch.cat((a, b), dim=-1)


def _halves(x: Tensor) -> tuple[Tensor, Tensor]:
    first, second = x.chunk(2, dim=-1)
    return first, second


def _by_steps(
    x: Tensor,
    start: int = 0,
    *,
    places: Callable[[Tensor, int], Tensor] = _places,
    rates: Callable[[int], Tensor] = _rates,
    pairs: Callable[[Tensor], tuple[Tensor, Tensor]] = _neighbors,
    turn: Callable[..., tuple[Tensor, Tensor]] = _turn,
    join: Callable[[Tensor, Tensor], Tensor] = _woven,
) -> Tensor:
    """Angles, pairs, turn, and back to one vector; a mistake replaces one step."""
    angle = places(x, start) * rates(x.shape[-1])
    return join(*turn(*pairs(x), angle.sin(), angle.cos()))


def _rotate(x: Tensor, start: int = 0) -> Tensor:
    return _by_steps(x, start)


def _but(**step: Callable) -> Callable[..., Tensor]:
    return partial(_by_steps, **step)


def _swapped(x: Tensor) -> Tensor:
    even, odd = _neighbors(x)
    return _woven(-odd, even)


def _own_rates(exponent: Callable[[int], Tensor]) -> Callable[..., Tensor]:
    def turned(x: Tensor, start: int = 0) -> Tensor:
        angle = _places(x, start) * 10_000.0 ** -exponent(x.shape[-1])  # (T, d)
        return x * angle.cos() + _swapped(x) * angle.sin()

    return turned


def _halves_at_the_rates_of_neighbors(x: Tensor, start: int = 0) -> Tensor:
    angle = (_places(x, start) * _rates(x.shape[-1])).repeat_interleave(2, dim=-1)  # (T, d)
    first, second = _halves(x)
    return x * angle.cos() + _joined(-second, first) * angle.sin()


def _added(x: Tensor, start: int = 0) -> Tensor:
    angle = _places(x, start) * _rates(x.shape[-1])
    return x + _woven(angle.sin(), angle.cos())


def _multiplied(x: Tensor, start: int = 0) -> Tensor:
    angle = _places(x, start) * _rates(x.shape[-1])
    return x * _woven(angle.sin(), angle.cos())


def _overwritten(a: Tensor, b: Tensor, sin: Tensor, cos: Tensor) -> tuple[Tensor, Tensor]:
    a = a * cos - b * sin
    return a, a * sin + b * cos


def _of_complex(x: Tensor, start: int = 0) -> Tensor:
    angle = _places(x, start) * _rates(x.shape[-1])
    return torch.complex(*_neighbors(x)) * torch.polar(torch.ones_like(angle), angle)


def _along(axis: int) -> Callable[[Tensor, int], Tensor]:
    """Places counted along an axis that may not be the one of the tokens."""

    def places(x: Tensor, start: int) -> Tensor:
        place = start + torch.arange(x.shape[axis])
        return place.view(-1, *[1] * (x.dim() - 1 - axis % x.dim()))

    return places


def _start_in_the_angle(x: Tensor, start: int = 0) -> Tensor:
    angle = _places(x, 0) * _rates(x.shape[-1]) + start
    return _woven(*_turn(*_neighbors(x), angle.sin(), angle.cos()))


def _one(x: Tensor, start: int) -> Tensor:
    return torch.tensor(start)


ROTATE = Exercise(
    name="rotate",
    reference=_rotate,
    cases=[
        Case("one pair, two rows", torch.tensor([[1.0, 0.0], [1.0, 0.0]])),
        Case("one row, place 3", torch.tensor([[1.0, 2.0]]), 3),
        Case("three rows of two pairs", random_tensor(3, 4)),
        Case("from place 5 on", random_tensor(3, 6), 5),
        Case("as many rows as entries", random_tensor(8, 8, seed=1), 2),
        Case("batch 2, 3 heads, 5 rows of 12", random_tensor(2, 3, 5, 12), 7),
    ],
    mistakes={
        "the pairs are the halves of the vector, as in `rotary4` and in the library: here "
        "neighbors turn together, 0 with 1, 2 with 3": [
            _but(pairs=_halves, join=_joined),
            _but(pairs=_halves),
        ],
        "the turns are right and the numbers put back in another order: first all entries 2i, then "
        "all 2i + 1": _but(join=_joined),
        "it turns backwards: the minus sign belongs to the first line, a cos - b sin. (The matrix "
        "of (10.2) is for a pair of sine and cosine; an arrow turns by its transpose)": _but(
            turn=lambda a, b, sin, cos: _turn(a, b, -sin, cos)
        ),
        "the minus sign is missing": _but(
            turn=lambda a, b, sin, cos: (a * cos + b * sin, a * sin + b * cos)
        ),
        "the minus sign stands in the second line: a sin + b cos has none": _but(
            turn=lambda a, b, sin, cos: (a * cos - b * sin, a * sin - b * cos)
        ),
        "sine and cosine have changed places": _but(
            turn=lambda a, b, sin, cos: _turn(a, b, cos, sin)
        ),
        "the second line uses the new a: keep the old one until both lines are done": _but(
            turn=_overwritten
        ),
        "nothing is turned: entries are multiplied by cosine plus sine, each by itself, and their "
        "partner does not come in": _but(
            turn=lambda a, b, sin, cos: (a * (cos + sin), b * (cos + sin))
        ),
        "entries are only scaled, by the cosine, and their partner does not come in": _but(
            turn=lambda a, b, sin, cos: (a * cos, b * cos)
        ),
        "`start` is not used": _but(places=lambda x, start: _places(x, 0)),
        "all rows turn by the angle of `start`: row t stands at place start + t": _but(places=_one),
        "the places count from 1: the first row stands at `start`": _but(
            places=lambda x, start: _places(x, start + 1)
        ),
        "`start` is added to the angle and not to the place: each pair turns by its own rate from "
        "the beginning": _start_in_the_angle,
        "`start` is multiplied and not added": _but(places=lambda x, start: _places(x, 0) * start),
        "`start` is taken away and not added": _but(places=lambda x, start: _places(x, -start)),
        "places are counted along the first axis: rows are the last axis but one": [
            _but(places=_along(0)),
            _but(places=lambda x, start: start + torch.arange(len(x))[:, None]),
        ],
        "the places stand in a row, as the rates do: they must be a column, as `[:, None]` makes "
        "it, so that each place meets each rate": _but(
            places=lambda x, start: start + torch.arange(x.shape[-2])
        ),
        "places are counted along the second axis: rows are the last axis but one": [
            lambda x, start=0: _by_steps(x, start, places=_along(1 if x.dim() > 2 else -2)),
            _but(places=lambda x, start: start + torch.arange(x.shape[1])[:, None]),
            _but(places=lambda x, start: start + torch.arange(x.shape[1])[:, None, None]),
        ],
        "every entry has a rate of its own: the two of a pair must turn by one angle": [
            _own_rates(lambda d: torch.arange(d) / d),
            _own_rates(lambda d: 2 * torch.arange(d) / d),
        ],
        "the rates are laid out for halves (0, 1, …, 0, 1, …) and the pairs are neighbors": [
            _own_rates(lambda d: 2 * torch.arange(d // 2).repeat(2) / d),
        ],
        "the exponents are twice too large: where i runs over 0, 2, 4, … it is the 2i of the "
        "formula already, and it is divided by d, not by d/2": (
            _but(rates=lambda d: _rates(d) ** 2)
        ),
        "the rates are those of base 100: either 10000 has lost two zeros, or the 2 of 2i is "
        "missing where i counts the pairs 0, 1, 2, …": _but(rates=lambda d: _rates(d) ** 0.5),
        "places are multiplied by 10000^(2i/d) and not divided": _but(
            rates=lambda d: 10_000.0 ** (torch.arange(0, d, 2) / d)
        ),
        "the exponents are spread up to 1: the formula divides by d, so that the last one stays "
        "below 1": _but(rates=lambda d: 10_000.0 ** -torch.linspace(0, 1, d // 2)),
        "the pairs are the halves of the vector, and the rates those of neighbors": [
            _halves_at_the_rates_of_neighbors,
        ],
        "the two of a pair are still an axis of their own: a `flatten(-2)` is missing": _but(
            join=lambda a, b: torch.stack((a, b), dim=-1)
        ),
        "the result is still complex: `torch.view_as_real(…).flatten(-2)` makes two entries of "
        "each number": [_but(join=torch.complex), _of_complex],
        "the base is e: what `torch.exp` raises needs the factor log(10000) in its exponent": _but(
            rates=lambda d: torch.exp(-torch.arange(0, d, 2) / d)
        ),
        "all pairs turn at the rate 1": _but(rates=lambda d: torch.ones(d // 2)),
        "the rates 1 and 1/100 of the page are used in every width": [
            _but(rates=lambda d: torch.tensor([1, 0.01])),
            _but(rates=lambda d: torch.tensor([1, 0.01]).repeat(d)[: d // 2]),
        ],
        "the slow pairs come first": _but(rates=lambda d: _rates(d).flip(0)),
        "a power binds before a division: 10000 ** two_i / d is (10000 ** two_i) / d": _but(
            rates=lambda d: d * 10_000.0 ** -torch.arange(0, d, 2)
        ),
        "the angles are taken for degrees": _but(places=lambda x, s: _places(x, s).deg2rad()),
        "there is a 2π too many: rates are angles, not numbers of turns": _but(
            places=lambda x, s: _places(x, s) * 2 * math.pi
        ),
        "the waves are added: rotary adds nothing, it turns": [
            _added,
            lambda x, start=0: x + _by_steps(torch.ones_like(x), start),
            lambda x, start=0: x + _rotate(x, start),
        ],
        "x is multiplied by the waves, entry by entry: a turn mixes the two entries of a pair": (
            _multiplied
        ),
        "x comes back as it was: the turned rows are never returned": [
            lambda x, start=0: x,
        ],
    },
    section="What if the vectors turn instead?",
    atol=1e-4,
)
