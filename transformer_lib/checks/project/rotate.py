"""The exercise `rotate`: what it asks for, and how its answers go wrong."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from transformer_lib.checks.old.core import Case, Exercise
from transformer_lib.checks.old.inputs import in_float64, random_tensor

__all__ = ["ROTATE", "neighbors", "turned"]


def angles(length: int, d_head: int, start: int = 0, base: float = 10_000.0) -> Tensor:
    place = torch.arange(start, start + length, dtype=torch.float64)[:, None]
    pair = torch.arange(0, d_head, 2, dtype=torch.float64)
    return place / base ** (pair / d_head)


def turned(x: Tensor, start: int = 0, *, sign: int = 1, base: float = 10_000.0) -> Tensor:
    """Halves are arrows, as in Hugging Face's Llama."""
    angle = angles(x.shape[-2], x.shape[-1], start, base)
    sin, cos = sign * angle.sin().to(x), angle.cos().to(x)
    first, second = x.chunk(2, dim=-1)
    return torch.cat([first * cos - second * sin, first * sin + second * cos], dim=-1)


def neighbors(x: Tensor, start: int = 0) -> Tensor:
    """Neighbors are arrows, as in the paper and in Meta's own files."""
    d_head = x.shape[-1]
    order = torch.arange(d_head).view(-1, 2).T.flatten()
    return turned(x[..., order], start)[..., order.argsort()]


def _rotate(x: Tensor, start: int = 0) -> Tensor:
    return turned(x, start)


def _by_angles(
    angle: Callable[[Tensor, Tensor, int], Tensor],
) -> Callable[..., Tensor]:
    """A turn by angles that are computed from the places and i, in the type that they have."""

    def turn(x: Tensor, start: int = 0) -> Tensor:
        d_head = x.shape[-1]
        place = torch.arange(start, start + x.shape[-2], device=x.device)[:, None]
        made = angle(place, torch.arange(d_head // 2, device=x.device), d_head)
        sin, cos = made.sin().to(x), made.cos().to(x)
        first, second = x.chunk(2, dim=-1)
        return torch.cat([first * cos - second * sin, first * sin + second * cos], dim=-1)

    return turn


def _coarse(angle: Callable[[Tensor, Tensor, int], Tensor]) -> Callable[..., Tensor]:
    """The same, with places and i in the type of x."""
    return lambda x, start=0: _by_angles(lambda m, i, d: angle(m.to(x), i.to(x), d))(x, start)


def _rounded_angles(x: Tensor, start: int = 0) -> Tensor:
    exact = angles(x.shape[-2], x.shape[-1], start)
    return _by_angles(lambda m, i, d: exact.to(x))(x, start)


def _whole_angles(x: Tensor, start: int = 0) -> Tensor:
    """As many angles as entries: those of the second half differ from the first."""
    place = torch.arange(start, start + x.shape[-2], dtype=torch.float64)[:, None]
    angle = place / 10_000.0 ** (torch.arange(x.shape[-1], dtype=torch.float64) / x.shape[-1])
    first, second = x.chunk(2, dim=-1)
    return x * angle.cos().to(x) + torch.cat([-second, first], dim=-1) * angle.sin().to(x)


def _same_sign(x: Tensor, start: int = 0) -> Tensor:
    angle = angles(x.shape[-2], x.shape[-1], start)
    sin, cos = angle.sin().to(x), angle.cos().to(x)
    first, second = x.chunk(2, dim=-1)
    return torch.cat([first * cos + second * sin, first * sin + second * cos], dim=-1)


def _neighbors_left_apart(x: Tensor, start: int = 0) -> Tensor:
    return turned(torch.cat([x[..., ::2], x[..., 1::2]], dim=-1), start)


def _overwritten(x: Tensor, start: int = 0) -> Tensor:
    angle = angles(x.shape[-2], x.shape[-1], start)
    sin, cos = angle.sin().to(x), angle.cos().to(x)
    first, second = x.chunk(2, dim=-1)
    first = first * cos - second * sin
    return torch.cat([first, first * sin + second * cos], dim=-1)


def _doubled_in_a_row(x: Tensor, start: int = 0) -> Tensor:
    angle = angles(x.shape[-2], x.shape[-1], start).repeat_interleave(2, dim=-1)
    first, second = x.chunk(2, dim=-1)
    return x * angle.cos().to(x) + torch.cat([-second, first], dim=-1) * angle.sin().to(x)


def _half(which: int) -> Callable[..., Tensor]:
    def turn(x: Tensor, start: int = 0) -> Tensor:
        halves = [*x.chunk(2, dim=-1)]
        halves[which] = turned(x, start).chunk(2, dim=-1)[which]
        return torch.cat(halves, dim=-1)

    return turn


def _as_many_as_heads(x: Tensor, start: int = 0) -> Tensor:
    angle = angles(x.shape[1], x.shape[-1], start)
    sin, cos = angle.sin().to(x), angle.cos().to(x)
    first, second = x.chunk(2, dim=-1)
    return torch.cat([first * cos - second * sin, first * sin + second * cos], dim=-1)


def _up_to_the_length(x: Tensor, start: int = 0) -> Tensor:
    place = torch.arange(start, x.shape[-2])[:, None]
    rates = 10_000.0 ** (-torch.arange(0, x.shape[-1], 2, dtype=torch.float64) / x.shape[-1])
    sin, cos = (place * rates).sin().to(x), (place * rates).cos().to(x)
    first, second = x.chunk(2, dim=-1)
    return torch.cat([first * cos - second * sin, first * sin + second * cos], dim=-1)


def _added(x: Tensor, start: int = 0) -> Tensor:
    angle = angles(x.shape[-2], x.shape[-1], start)
    return x + torch.cat([angle.sin(), angle.cos()], dim=-1).to(x)


def _by_wrong_axis(x: Tensor, start: int = 0) -> Tensor:
    return turned(x.transpose(1, 2), start).transpose(1, 2) if x.dim() == 4 else turned(x, start)


_X = random_tensor(2, 3, 5, 8)

ROTATE = Exercise(
    name="rotate",
    reference=_rotate,
    cases=[
        Case("one token at place 0", random_tensor(1, 1, 1, 4), 0),
        Case("one token at place 1", random_tensor(1, 1, 1, 4), 1),
        Case("three tokens, one arrow each", random_tensor(1, 1, 3, 2, seed=1), 0),
        Case("5 tokens, 3 heads of 8, and no start handed over", _X),
        Case("5 tokens from place 7 on", _X, 7),
        Case("far away, at place 900", random_tensor(1, 2, 2, 6, seed=2), 900),
        in_float64(Case("float64", _X, 7)),
        Case("float16, far away", random_tensor(1, 2, 3, 6, seed=3).half(), 2100),
    ],
    mistakes={
        "neighbors are taken as arrows: here entry i of the first half and entry i of the second "
        "are one, the convention of Hugging Face": [neighbors, _neighbors_left_apart],
        "the start is forgotten: the first token stands at place `start`": [
            lambda x, start=0: turned(x, 0),
        ],
        "the places end at T: T of them begin at `start`, so they end at start + T": [
            _up_to_the_length,
        ],
        "the first place is another one than 0 where no `start` is handed over": [
            lambda x, start=1: turned(x, start),
        ],
        "the places begin one too late": lambda x, start=0: turned(x, start + 1),
        "all tokens stand at one place": [
            lambda x, start=0: torch.cat([turned(t, start) for t in x.split(1, dim=-2)], dim=-2),
        ],
        "the arrows turn the other way round": lambda x, start=0: turned(x, start, sign=-1),
        "sine and cosine have changed places: at place 0 nothing turns": [
            _by_angles(lambda m, i, d: torch.pi / 2 - m / 10_000.0 ** (2 * i.double() / d)),
        ],
        "only one half is turned, and the other is left as it was: both change": [
            _half(0),
            _half(1),
        ],
        "the first half is overwritten before the second is computed: both need the old one": [
            _overwritten,
        ],
        "each angle stands twice in a row, as for neighbors: arrow i holds the entries i and "
        "i + d_head / 2, so all angles stand once, and then again": _doubled_in_a_row,
        "the halves are put together in the wrong order": [
            lambda x, start=0: torch.cat(turned(x, start).chunk(2, -1)[::-1], -1),
        ],
        "the halves are put together entry by entry: the first half comes first": [
            lambda x, start=0: torch.stack(turned(x, start).chunk(2, -1), -1).flatten(-2),
        ],
        "both sines have the same sign: a turn has one of each": _same_sign,
        "there is an angle for each entry: there is one for each arrow, half as many": [
            _whole_angles,
        ],
        "the angles are too large or too small: the base is 10,000": [
            lambda x, start=0: turned(x, start, base=1_000.0),
            lambda x, start=0: turned(x, start, base=500_000.0),
        ],
        "the exponent is half of what it must be: it is 2i / d_head, where i counts the arrows": [
            _by_angles(lambda m, i, d: m / 10_000.0 ** (i.double() / d)),
        ],
        "the exponent is twice what it must be: it is 2i / d_head, where i counts the arrows": [
            _by_angles(lambda m, i, d: m / 10_000.0 ** (4 * i.double() / d)),
        ],
        "the exponent has the wrong sign: each arrow turns more slowly than the one before it": [
            _by_angles(lambda m, i, d: m * 10_000.0 ** (2 * i.double() / d)),
            _by_angles(lambda m, i, d: m * 10_000.0 ** (2 * i / d)),
            _by_angles(lambda m, i, d: m / 10_000.0 ** (-2 * i.double() / d)),
            _by_angles(lambda m, i, d: m / 10_000.0 ** (-2 * i / d)),
        ],
        "i counts from 1: the first arrow turns by 1 at each step": [
            _by_angles(lambda m, i, d: m / 10_000.0 ** ((2 * i.double() + 2) / d)),
        ],
        "the angles are computed or kept in 16 bits, too coarse far away: turn them into the type "
        "of x when they are sines and cosines": [
            _rounded_angles,
            _coarse(lambda m, i, d: m / 10_000.0 ** (2 * i / d)),
            _coarse(lambda m, i, d: m * (1.0 / 10_000.0 ** (2 * i / d))),
            _coarse(lambda m, i, d: m * 10_000.0 ** (-2 * i / d)),
            _coarse(lambda m, i, d: m * (10_000.0 ** (-2 * i.float() / d)).to(m)),
            _coarse(lambda m, i, d: m.float() / 10_000.0 ** (2 * i.float() / d)),
        ],
        "sines and cosines are added: rotary positions turn": _added,
        "the place is counted along the heads: it is the axis before the last": [
            _by_wrong_axis,
            _as_many_as_heads,
        ],
    },
    section="Stage 2: the turn",
    keeps=("dtype",),
    atol=1e-4,
)
