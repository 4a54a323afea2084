"""The exercise `sinusoids`: what it asks for, and how its answers go wrong."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor

from transformer_lib.checks.old.core import Case, Exercise

_SEE = ' (see the section "How do you find a wrong table?")'


def _places(length: int) -> Tensor:
    return torch.arange(length, dtype=torch.float64)[:, None]


def _rates(d: int) -> Tensor:
    return 10_000.0 ** -(torch.arange(0, d, 2, dtype=torch.float64) / d)


def _side_by_side(sin: Tensor, cos: Tensor) -> Tensor:
    return torch.stack((sin, cos), dim=-1).flatten(-2)


def _by_pairs(
    length: int,
    d_model: int,
    *,
    places: Callable[[int], Tensor] = _places,
    rates: Callable[[int], Tensor] = _rates,
    arrange: Callable[[Tensor, Tensor], Tensor] = _side_by_side,
) -> Tensor:
    """The table in three steps, of which a mistake replaces one."""
    angle = places(length) * rates(d_model)
    return arrange(angle.sin(), angle.cos()).float()


def _sinusoids(length: int, d_model: int) -> Tensor:
    return _by_pairs(length, d_model)


def _but(**step: Callable) -> Callable[..., Tensor]:
    return partial(_by_pairs, **step)


def _base(base: float) -> Callable[..., Tensor]:
    return _but(rates=lambda d: _rates(d) ** (math.log(base) / math.log(10_000)))


def _each(exponent: Callable[[int], Tensor]) -> Callable[..., Tensor]:
    """A wave of its own for each dimension: sines in the even ones, cosines in the odd ones."""

    def table(length: int, d_model: int) -> Tensor:
        angle = _places(length) * 10_000.0 ** -exponent(d_model)
        return torch.where(torch.arange(d_model) % 2 == 0, angle.sin(), angle.cos()).float()

    return table


def _dimensions(d: int) -> Tensor:
    return torch.arange(d, dtype=torch.float64)


def _by_tokens(exponent: Callable[[int], Tensor]) -> Callable[..., Tensor]:
    def table(length: int, d_model: int) -> Tensor:
        angle = _places(length) * 10_000.0 ** -exponent(d_model)
        return torch.where(_places(length) % 2 == 0, angle.sin(), angle.cos()).float()

    return table


def _divided_outside(length: int, d_model: int) -> Tensor:
    place, rate = _places(length), _rates(d_model)
    return _side_by_side(place.sin() * rate, place.cos() * rate).float()


def _in_a_row(length: int, d_model: int) -> Tensor:
    """The places lie in a row as the rates do, and meet them one by one."""
    angle = torch.arange(length) * _rates(d_model)
    return _side_by_side(angle.sin(), angle.cos()).float()


def _in_a_row_filled(length: int, d_model: int) -> Tensor:
    angle, table = torch.arange(length) * _rates(d_model), torch.zeros(length, d_model)
    table[:, 0::2], table[:, 1::2] = angle.sin(), angle.cos()
    return table


def _one_number(length: int, d_model: int) -> float:
    return math.sin(_places(length) * _rates(d_model))


def _columns_of_a_count(sin: Tensor, cos: Tensor) -> Tensor:
    """Pair i fills the columns i and i + 1: its cosine makes room for the next sine."""
    return torch.cat((sin, cos[:, -1:], torch.zeros_like(cos)[:, 1:]), dim=-1)


def _power_of_the_whole(length: int, d_model: int) -> Tensor:
    angle = (_places(length) / 10_000) ** (torch.arange(0, d_model, 2) / d_model)
    return _side_by_side(angle.sin(), angle.cos()).float()


def _scrambled(sin: Tensor, cos: Tensor) -> Tensor:
    return torch.stack((sin, cos)).reshape(len(sin), -1)


SINUSOIDS = Exercise(
    name="sinusoids",
    reference=_sinusoids,
    cases=[
        Case("one pair, three places", 3, 2),
        Case("the 4 by 4 table of the page", 4, 4),
        Case("more dimensions than places", 5, 12),
        Case("more places than dimensions", 41, 6),
        Case("a width of 64", 23, 64),
        Case("one place", 1, 8),
    ],
    mistakes={
        "the table has two columns for each dimension: a sine and its cosine share one wave, so "
        "there are d/2 waves, as `torch.arange(0, d_model, 2)` counts them": [
            _but(rates=lambda d, two=two: 10_000.0 ** -(two * _dimensions(d) / d), arrange=arrange)
            for two in (1, 2)
            for arrange in (_side_by_side, lambda sin, cos: torch.cat((sin, cos), dim=-1))
        ],
        "the places stand in a row, as the rates do: they must be a column, "
        "`torch.arange(length)[:, None]`, so that each place meets each rate": [
            _in_a_row,
            _in_a_row_filled,
        ],
        "`math.sin` is given a tensor, and it takes one number: `torch.sin`, or `.sin()`, takes "
        "them all": _one_number,
        "pair i is written into the columns i and i + 1: these are 2i and 2i + 1, or the next pair "
        "overwrites it": _but(arrange=_columns_of_a_count),
        "all sines stand before all cosines: in (10.1) they take turns, sine and cosine of one "
        "wave side by side": _but(arrange=lambda sin, cos: torch.cat((sin, cos), dim=-1)),
        "all cosines stand before all sines: in (10.1) they take turns, sine and cosine of one "
        "wave side by side": _but(arrange=lambda sin, cos: torch.cat((cos, sin), dim=-1)),
        "sine and cosine have changed places: the even dimensions hold the sines": _but(
            arrange=lambda sin, cos: _side_by_side(cos, sin)
        ),
        "the numbers are right and in the wrong places: stacking in a new *last* axis puts a sine "
        "beside its cosine, and stacking in another one mixes up the rows": _but(
            arrange=_scrambled
        ),
        "every dimension has a wave of its own: 2i counts dimensions, so dimension 5 has 2i = 4, "
        "like its neighbor 4" + _SEE: [
            _each(lambda d: 2 * _dimensions(d) / d),
            _each(lambda d: _dimensions(d) / d),
            _each(lambda d: torch.where(_dimensions(d) % 2 == 0, 1, 2) * _dimensions(d) / d),
            _each(lambda d: (_dimensions(d) + _dimensions(d) % 2) / d),
        ],
        "the exponents are twice too large: where i runs over 0, 2, 4, … it is the 2i of (10.1) "
        "already, and it is divided by d, not by d/2": _but(rates=lambda d: _rates(d) ** 2),
        "the exponents are spread up to 1: (10.1) divides by d, so that the last one stays below "
        "1": [
            _but(rates=lambda d: 10_000.0 ** -torch.linspace(0, 1, d // 2).double()),
            _but(rates=lambda d: 10_000.0 ** -(_dimensions(d // 2) / max(d // 2 - 1, 1))),
            _but(rates=lambda d: 10_000.0 ** -(_dimensions(d // 2) / (d / 2 - 1 or math.nan))),
        ],
        "even *tokens* get sines and odd ones cosines: 2i counts dimensions" + _SEE: [
            _by_tokens(lambda d: _dimensions(d) / d),
            _by_tokens(lambda d: 2 * _dimensions(d) / d),
            _by_tokens(lambda d: 2 * (_dimensions(d) // 2) / d),
        ],
        "the rates are those of base 100: either 10000 has lost two zeros, or the 2 of 2i is "
        "missing where i counts the pairs 0, 1, 2, …" + _SEE: _base(100),
        "the exponents are divided by d - 1: (10.1) divides by d": _but(
            rates=lambda d: 10_000.0 ** -(torch.arange(0, d, 2).double() / (d - 1))
        ),
        "this is the table of the paper's released code: there all sines stand before all cosines, "
        "and the exponents run up to 1. The exercise asks for (10.1)": [
            _but(
                rates=lambda d, one=one: 10_000.0 ** -(_dimensions(d // 2) / (d / 2 - 1 or one)),
                arrange=lambda sin, cos: torch.cat((sin, cos), dim=-1),
            )
            for one in (1, math.nan)
        ],
        "the base is 1000: the paper's is 10000": _base(1000),
        "the base is 100000, one zero too many": _base(100_000),
        "the base is e: what `torch.exp` raises needs the factor log(10000) in its exponent": _base(
            math.e
        ),
        "the exponent has the factor log10(10000) = 4 where `exp` needs the natural logarithm, "
        "9.21": _base(math.e**4),
        "places are multiplied by 10000^(2i/d) and not divided: each next wave should be slower": [
            _but(rates=lambda d: 1 / _rates(d)),
            # in float32, where such angles are already inexact
            _but(
                places=lambda n: torch.arange(n)[:, None],
                rates=lambda d: 10_000.0 ** (torch.arange(0, d, 2) / d),
            ),
            *(
                _but(places=lambda n: torch.arange(n)[:, None], rates=rates)
                for rates in (
                    lambda d: torch.exp(torch.arange(0, d, 2) * math.log(10_000) / d),
                    lambda d: torch.exp(torch.arange(0, d, 2) * (math.log(10_000) / d)),
                    lambda d: torch.exp(torch.arange(0, d, 2) / d * math.log(10_000)),
                )
            ),
        ],
        "a power binds before a division: 10000 ** two_i / d is (10000 ** two_i) / d": _but(
            rates=lambda d: d * 10_000.0 ** -torch.arange(0, d, 2).double()
        ),
        "the places count from 1: the first row is place 0": _but(places=lambda n: _places(n) + 1),
        "the places count backwards": _but(places=lambda n: _places(n).flip(0)),
        "the places are divided by the length: then a step is another one in each text": [
            _but(places=lambda n: _places(n) / n),
            _but(places=lambda n: _places(n) / max(n - 1, 1)),
        ],
        "the angles are taken for degrees: torch.sin wants radians" + _SEE: [
            _but(places=lambda n: _places(n).deg2rad()),
        ],
        "there is a 2π too many: (10.1) gives the angle, not the number of turns": _but(
            places=lambda n: _places(n) * 2 * math.pi
        ),
        "the slow waves come first: the rates fall from the first pair to the last": _but(
            rates=lambda d: _rates(d).flip(0)
        ),
        "all pairs have the rate 1: the exponent never reaches the places": [
            _but(rates=lambda d: torch.ones(d // 2)),
        ],
        "the divisor stands outside the sine: the *place* is divided": _divided_outside,
        "the power is taken of the whole quotient: only 10000 is raised to 2i/d": (
            _power_of_the_whole
        ),
        "the cosines are missing: the odd dimensions are still empty": [
            _but(arrange=lambda sin, cos: _side_by_side(sin, torch.zeros_like(cos))),
        ],
        "the sines are missing: the even dimensions are still empty": [
            _but(arrange=lambda sin, cos: _side_by_side(torch.zeros_like(sin), cos)),
        ],
        "there are only sines, d/2 of them: each wave stands twice in the table": _but(
            arrange=lambda sin, cos: sin
        ),
        "each pair holds its sine twice: the second one should be the cosine": _but(
            arrange=lambda sin, cos: _side_by_side(sin, sin)
        ),
        "there are only sines, once in the first half and once in the second: sine and cosine of "
        "one wave stand side by side": _but(arrange=lambda sin, cos: torch.cat((sin, sin), dim=-1)),
        "the table lies on its side: a row for each place, a column for each dimension": [
            lambda length, d_model: _sinusoids(length, d_model).T,
        ],
        "length and d_model have changed places": [
            lambda length, d_model: _sinusoids(d_model, length + length % 2)[:, :length],
            lambda length, d_model: _sinusoids(d_model, length + length % 2)[:, :length].T,
        ],
        "the divisors 1 and 100 of the page are used in every width": [
            _but(rates=lambda d: torch.tensor([1, 0.01], dtype=torch.float64)),
            _but(rates=lambda d: torch.tensor([1, 0.01], dtype=torch.float64).repeat(d)[: d // 2]),
        ],
        "sine and cosine are still an axis of their own: a `flatten(-2)` is missing": [
            _but(arrange=lambda sin, cos: torch.stack((sin, cos), dim=-1)),
        ],
        "sines and cosines are joined along the places, and the table has twice as many rows: a "
        "new *last* axis puts a sine beside its cosine": [
            _but(arrange=lambda sin, cos: torch.cat((sin, cos))),
            _but(arrange=lambda sin, cos: torch.stack((sin, cos), dim=1).flatten(0, 1)),
        ],
        "there is an axis too many in front: no batch, a table": [
            lambda length, d_model: _sinusoids(length, d_model)[None],
        ],
    },
    section="What stands in the paper's table?",
    atol=1e-4,  # angles of float32 rates, at places up to 40
)
