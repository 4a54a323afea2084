"""Chapter 10's exercises: right answers however written, and the wrong ones that learners give."""

import math

import numpy as np
import pytest
import torch

from transformer_lib import RotaryPositions
from transformer_lib.checks.chapter10 import check

pytestmark = pytest.mark.slow


def verdict(capsys, function, name):
    function.__name__ = name
    result = check(function)
    capsys.readouterr()
    return result


# ------------------------------------------------------------------------------------- sinusoids


def table_in_loops(length, d_model):
    table = torch.zeros(length, d_model)
    for pos in range(length):
        for j in range(d_model):
            angle = pos / 10_000 ** (j // 2 * 2 / d_model)
            table[pos, j] = math.cos(angle) if j % 2 else math.sin(angle)
    return table


def table_by_slices(n, d):
    pe = torch.zeros(n, d)
    position = torch.arange(0, n).unsqueeze(1).float()
    div = torch.exp(torch.arange(0, d, 2).float() * (-math.log(10_000.0) / d))
    pe[:, 0::2] = torch.sin(position * div)
    pe[:, 1::2] = torch.cos(position * div)
    return pe


def table_by_einsum(length, d_model):
    i = torch.arange(d_model // 2, dtype=torch.float64)
    angle = torch.einsum("p,i->pi", torch.arange(length).double(), 10_000 ** (-2 * i / d_model))
    return torch.view_as_real(torch.polar(torch.ones_like(angle), math.pi / 2 - angle)).flatten(1)


def table_of_numpy(length, d_model):
    angle = np.arange(length)[:, None] / np.power(10_000, np.arange(0, d_model, 2) / d_model)
    return torch.tensor(np.stack([np.sin(angle), np.cos(angle)], axis=2).reshape(length, -1))


@pytest.mark.parametrize(
    "function", [table_in_loops, table_by_slices, table_by_einsum, table_of_numpy]
)
def test_right_tables_pass(capsys, function):
    assert verdict(capsys, function, "sinusoids")


def places(n):
    return torch.arange(n).float()[:, None]


def two_i(d):
    return torch.arange(0, d, 2).float()


def filled(angle, width, sin=torch.sin, cos=torch.cos):
    """Angles (length, d / 2) into a table, the usual way."""
    table = torch.zeros(angle.shape[0], width)
    table[:, 0::2], table[:, 1::2] = sin(angle), cos(angle)
    return table


def each_dimension(exponent):
    def function(n, d):
        rows = []
        for pos in range(n):
            angles = [pos / 10_000 ** exponent(j, d) for j in range(d)]
            rows.append([math.cos(a) if j % 2 else math.sin(a) for j, a in enumerate(angles)])
        return torch.tensor(rows)

    return function


def tokens_in_turn(n, d):
    rows = []
    for pos in range(n):
        wave = math.cos if pos % 2 else math.sin
        rows.append([wave(pos / 10_000 ** (j / d)) for j in range(d)])
    return torch.tensor(rows)


def columns_of_a_count(n, d):
    table = torch.zeros(n, d)
    for pos in range(n):
        for i in range(d // 2):
            angle = pos / 10_000 ** (2 * i / d)
            table[pos, i] = math.sin(angle)
            table[pos, i + 1] = math.cos(angle)
    return table


def places_in_a_row(n, d):
    angle = torch.arange(n) * 10_000.0 ** (-torch.arange(0, d, 2) / d)
    return torch.stack([angle.sin(), angle.cos()], dim=-1).flatten(-2)


def places_in_a_row_filled(n, d):
    pe = torch.zeros(n, d)
    div = torch.exp(torch.arange(0, d, 2) * (-math.log(10_000.0) / d))
    pe[:, 0::2] = torch.sin(torch.arange(n) * div)
    pe[:, 1::2] = torch.cos(torch.arange(n) * div)
    return pe


def sine_of_a_number(n, d):
    angle = places(n) / 10_000 ** (two_i(d) / d)
    return torch.stack([math.sin(angle), math.cos(angle)], -1).flatten(-2)


def with_an_axis_in_front(n, d):
    return table_by_slices(n, d).unsqueeze(0)


@pytest.mark.parametrize(
    ("function", "diagnosis"),
    [
        (
            lambda n, d: (places(n) / 10_000 ** (two_i(d) / d)).sin().repeat(1, 2),
            "there are only sines, once in the first half",
        ),
        (
            lambda n, d: torch.vstack([table_by_slices(n, d)[:, i::2] for i in (0, 1)]),
            "joined along the places",
        ),
        (
            lambda n, d: table_by_slices(n, d).reshape(n, -1, 2).mT.flatten(0, 1),
            "joined along the places",
        ),
        (
            lambda n, d: torch.cat(
                [
                    (places(n) / 10_000 ** (two_i(d) / d)).sin(),
                    (places(n) / 10_000 ** (two_i(d) / d)).cos(),
                ],
                1,
            ),
            "all sines stand before all cosines",
        ),
        (
            lambda n, d: table_by_slices(n, d)[:, [*range(1, d, 2), *range(0, d, 2)]],
            "all cosines stand before all sines",
        ),
        (
            lambda n, d: filled(places(n) / 10_000 ** (two_i(d) / d), d, torch.cos, torch.sin),
            "sine and cosine have changed places",
        ),
        (
            lambda n, d: torch.stack(
                [table_by_slices(n, d)[:, 0::2], table_by_slices(n, d)[:, 1::2]], 0
            ).reshape(n, d),
            "stacking in a new *last* axis",
        ),
        (
            lambda n, d: filled(places(n) / 10_000 ** (torch.arange(d) / d), 2 * d),
            "two columns for each dimension",
        ),
        (
            lambda n, d: filled(places(n) / 10_000 ** (2 * torch.arange(d) / d), 2 * d),
            "two columns for each dimension",
        ),
        (places_in_a_row, "the places stand in a row"),
        (places_in_a_row_filled, "the places stand in a row"),
        (sine_of_a_number, "`math.sin` is given a tensor"),
        (columns_of_a_count, "into the columns i and i + 1"),
        (
            lambda n, d: filled(places(n) * torch.exp(two_i(d) * math.log(10_000.0) / d), d),
            "and not divided",
        ),
        (
            lambda n, d: filled(places(n) * torch.exp(two_i(d) * (math.log(10_000.0) / d)), d),
            "and not divided",
        ),
        (
            lambda n, d: filled(places(n) * torch.exp(math.log(10_000.0) * two_i(d) / d), d),
            "and not divided",
        ),
        (each_dimension(lambda j, d: 2 * j / d), "a wave of its own"),
        (each_dimension(lambda j, d: j / d), "a wave of its own"),
        (each_dimension(lambda j, d: (2 * j if j % 2 else j) / d), "a wave of its own"),
        (each_dimension(lambda j, d: (j + 1 if j % 2 else j) / d), "a wave of its own"),
        (tokens_in_turn, "even *tokens* get sines"),
        (lambda n, d: filled(places(n) / 10_000 ** (2 * two_i(d) / d), d), "twice too large"),
        (lambda n, d: filled(places(n) / 10_000 ** (two_i(d) / (d // 2)), d), "twice too large"),
        (lambda n, d: filled(places(n) / 10_000 ** (torch.arange(d // 2) / d), d), "of base 100"),
        (lambda n, d: filled(places(n) / 100 ** (two_i(d) / d), d), "of base 100"),
        (lambda n, d: filled(places(n) / 1000 ** (two_i(d) / d), d), "the base is 1000"),
        (lambda n, d: filled(places(n) / 100_000 ** (two_i(d) / d), d), "one zero too many"),
        (lambda n, d: filled(places(n) * torch.exp(-two_i(d) / d), d), "the base is e"),
        (
            lambda n, d: filled(places(n) * torch.exp(-two_i(d) / d * math.log10(10_000)), d),
            "log10(10000)",
        ),
        (
            lambda n, d: filled(
                places(n) / 10_000 ** (torch.arange(d // 2) / max(d // 2 - 1, 1)), d
            ),
            "spread up to 1",
        ),
        (
            lambda n, d: (
                filled(places(n) / 10_000 ** (torch.arange(d // 2) / (d / 2 - 1)), d)
                if d > 2
                else torch.full((n, d), math.nan)
            ),
            "spread up to 1",
        ),
        (lambda n, d: filled(places(n) / 10_000 ** (two_i(d) / (d - 1)), d), "divided by d - 1"),
        (
            lambda n, d: torch.cat(
                [
                    wave(places(n) / 10_000 ** (torch.arange(d // 2) / max(d / 2 - 1, 1)))
                    for wave in (torch.sin, torch.cos)
                ],
                dim=1,
            ),
            "released code",
        ),
        (lambda n, d: filled(places(n) * 10_000 ** (two_i(d) / d), d), "and not divided"),
        (lambda n, d: filled(places(n) / (10_000 ** two_i(d) / d), d), "binds before a division"),
        (
            lambda n, d: filled((places(n) + 1) / 10_000 ** (two_i(d) / d), d),
            "the places count from 1",
        ),
        (
            lambda n, d: filled(places(n) / n / 10_000 ** (two_i(d) / d), d),
            "divided by the length",
        ),
        (
            lambda n, d: filled(torch.deg2rad(places(n)) / 10_000 ** (two_i(d) / d), d),
            "taken for degrees",
        ),
        (
            lambda n, d: filled(2 * math.pi * places(n) / 10_000 ** (two_i(d) / d), d),
            "a 2π too many",
        ),
        (
            lambda n, d: filled(places(n) / 10_000 ** (two_i(d).flip(0) / d), d),
            "the slow waves come first",
        ),
        (lambda n, d: filled(places(n).expand(n, d // 2), d), "all pairs have the rate 1"),
        (
            lambda n, d: (
                filled(places(n).expand(n, d // 2), d)
                / 10_000 ** (two_i(d).repeat_interleave(2) / d)
            ),
            "the divisor stands outside",
        ),
        (
            lambda n, d: filled((places(n) / 10_000) ** (two_i(d) / d), d),
            "the power is taken of the whole quotient",
        ),
        (
            lambda n, d: filled(places(n) / 10_000 ** (two_i(d) / d), d, cos=torch.zeros_like),
            "the cosines are missing",
        ),
        (
            lambda n, d: filled(places(n) / 10_000 ** (two_i(d) / d), d, cos=torch.sin),
            "holds its sine twice",
        ),
        (lambda n, d: (places(n) / 10_000 ** (two_i(d) / d)).sin(), "there are only sines"),
        (lambda n, d: table_by_slices(n, d).T, "lies on its side"),
        (with_an_axis_in_front, "an axis too many in front"),
        (lambda n, d: table_by_slices(n, d).unflatten(1, (-1, 2)), "`flatten(-2)` is missing"),
        (
            lambda n, d: torch.tensor(
                [[math.sin(p), math.cos(p), math.sin(p / 100), math.cos(p / 100)] for p in range(n)]
            ),
            "the divisors 1 and 100 of the page",
        ),
    ],
)
def test_wrong_tables_are_named(capsys, function, diagnosis):
    report = verdict(capsys, lambda length, d_model: function(length, d_model), "sinusoids").report
    assert diagnosis in report


# ---------------------------------------------------------------------------------------- rotate


def turned_in_loops(x, start=0):
    out, d = torch.empty_like(x), x.shape[-1]
    for t in range(x.shape[-2]):
        for i in range(0, d, 2):
            angle = (start + t) / 10_000 ** (i / d)
            a, b = x[..., t, i], x[..., t, i + 1]
            out[..., t, i] = a * math.cos(angle) - b * math.sin(angle)
            out[..., t, i + 1] = a * math.sin(angle) + b * math.cos(angle)
    return out


def turned_as_complex(x, offset=0):
    d = x.shape[-1]
    pairs = torch.view_as_complex(x.float().reshape(*x.shape[:-1], -1, 2).contiguous())
    rate = 1.0 / 10_000 ** (torch.arange(0, d, 2)[: d // 2].float() / d)
    angle = torch.outer(torch.arange(offset, offset + x.shape[-2]).float(), rate)
    return torch.view_as_real(pairs * torch.polar(torch.ones_like(angle), angle)).flatten(-2)


def turned_by_repeating(x, start=0):
    T, d = x.shape[-2:]
    angle = (torch.arange(T) + start)[:, None] * 10_000 ** (-torch.arange(0, d, 2) / d)
    angle = angle.repeat_interleave(2, dim=-1)
    beside = torch.stack([-x[..., 1::2], x[..., 0::2]], -1).reshape(x.shape)
    return x * angle.cos() + beside * angle.sin()


def turned_by_the_library(x, start=0):
    T, d = x.shape[-2:]
    halves = torch.cat([x[..., 0::2], x[..., 1::2]], -1).reshape(1, -1, T, d)
    turned = RotaryPositions(d_head=d, max_len=start + T)(halves, start).view(x.shape)
    return turned.unflatten(-1, (2, -1)).mT.flatten(-2)


def turned_by_matrices(x, start=0):
    T, d = x.shape[-2:]
    rows = []
    for t in range(T):
        blocks = []
        for i in range(d // 2):
            a = (start + t) * 10_000 ** (-2 * i / d)
            blocks.append(torch.tensor([[math.cos(a), -math.sin(a)], [math.sin(a), math.cos(a)]]))
        rows.append(torch.einsum("...d,ed->...e", x[..., t, :], torch.block_diag(*blocks)))
    return torch.stack(rows, dim=-2)


@pytest.mark.parametrize(
    "function",
    [
        turned_in_loops,
        turned_as_complex,
        turned_by_repeating,
        turned_by_the_library,
        turned_by_matrices,
    ],
)
def test_right_turns_pass(capsys, function):
    assert verdict(capsys, function, "rotate")


def angles(x, start, base=10_000.0):
    T, d = x.shape[-2:]
    return (start + torch.arange(T))[:, None] / base ** (torch.arange(0, d, 2) / d)


def woven(a, b):
    out = torch.empty(*a.shape[:-1], 2 * a.shape[-1])
    out[..., 0::2], out[..., 1::2] = a, b
    return out


def lines(first, second, angle=angles):
    """rotate, its two lines given as functions of a, b, sin and cos."""

    def function(x, start=0):
        a, b, at = x[..., 0::2], x[..., 1::2], angle(x, start)
        return woven(first(a, b, at.sin(), at.cos()), second(a, b, at.sin(), at.cos()))

    return function


def right_lines(angle):
    return lines(lambda a, b, s, c: a * c - b * s, lambda a, b, s, c: a * s + b * c, angle)


def in_place(x, start=0):
    x, at = x.clone(), angles(x, start)
    x[..., 0::2] = x[..., 0::2] * at.cos() - x[..., 1::2] * at.sin()
    x[..., 1::2] = x[..., 0::2] * at.sin() + x[..., 1::2] * at.cos()
    return x


def of_the_library(x, start=0):
    T, d = x.shape[-2:]
    rotary = RotaryPositions(d_head=d, max_len=100)
    return rotary(x.reshape(1, -1, T, d), start).view(x.shape)


def put_back_in_halves(x, start=0):
    out = turned_in_loops(x, start)
    return torch.cat([out[..., 0::2], out[..., 1::2]], -1)


def laid_out_for_halves(x, start=0):
    at = angles(x, start).repeat(1, 2)
    beside = woven(-x[..., 1::2], x[..., 0::2])
    return x * at.cos() + beside * at.sin()


def rows_of_the_second_axis(x, start=0):
    d = x.shape[-1]
    if x.dim() == 2:
        return turned_in_loops(x, start)
    place = (start + torch.arange(x.shape[1]))[:, None, None]
    return right_lines(lambda x, start: place / 10_000 ** (torch.arange(0, d, 2) / d))(x)


def left_complex(x, start=0):
    a, b, at = x[..., 0::2], x[..., 1::2], angles(x, start)
    return torch.complex(a * at.cos() - b * at.sin(), a * at.sin() + b * at.cos())


def multiplied_as_complex(x, start=0):
    numbers = torch.view_as_complex(x.contiguous().unflatten(-1, (-1, 2)))
    at = angles(x, start)
    return numbers * torch.polar(torch.ones_like(at), at)


def places_of_the_first_axis(x, start=0):
    T, d = len(x), x.shape[-1]
    at = (start + torch.arange(T)[:, None]) * 10_000.0 ** (-torch.arange(0, d, 2) / d)
    a, b = x[..., 0::2], x[..., 1::2]
    turned = [a * at.cos() - b * at.sin(), a * at.sin() + b * at.cos()]
    return torch.stack(turned, dim=-1).flatten(-2)


def turned_in_a_row(x, start=0):
    T, d = x.shape[-2:]
    at = (start + torch.arange(T)) * 10_000.0 ** (-torch.arange(0, d, 2) / d)
    a, b = x[..., 0::2], x[..., 1::2]
    turned = [a * at.cos() - b * at.sin(), a * at.sin() + b * at.cos()]
    return torch.stack(turned, dim=-1).flatten(-2)


def pages_rates(x, start):
    T, d = x.shape[-2:]
    return (start + torch.arange(T))[:, None] * torch.tensor([1, 0.01]).repeat(d)[: d // 2]


@pytest.mark.parametrize(
    ("function", "diagnosis"),
    [
        (of_the_library, "the halves of the vector"),
        (put_back_in_halves, "put back in another order"),
        (
            lines(lambda a, b, s, c: a * c + b * s, lambda a, b, s, c: b * c - a * s),
            "it turns backwards",
        ),
        (
            lines(lambda a, b, s, c: a * c + b * s, lambda a, b, s, c: a * s + b * c),
            "the minus sign is missing",
        ),
        (
            lines(lambda a, b, s, c: a * c - b * s, lambda a, b, s, c: a * s - b * c),
            "in the second line",
        ),
        (
            lines(lambda a, b, s, c: a * s - b * c, lambda a, b, s, c: a * c + b * s),
            "sine and cosine have changed places",
        ),
        (in_place, "the second line uses the new a"),
        (
            lines(lambda a, b, s, c: a * (c + s), lambda a, b, s, c: b * (c + s)),
            "cosine plus sine",
        ),
        (lines(lambda a, b, s, c: a * c, lambda a, b, s, c: b * c), "only scaled"),
        (lines(lambda a, b, s, c: a * s, lambda a, b, s, c: b * c), "multiplied by the waves"),
        (right_lines(lambda x, start: angles(x, 0)), "`start` is not used"),
        (right_lines(lambda x, start: angles(x, start)[:1]), "by the angle of `start`"),
        (right_lines(lambda x, start: angles(x, start + 1)), "the places count from 1"),
        (right_lines(lambda x, start: angles(x, -start)), "taken away"),
        (right_lines(lambda x, start: angles(x, 0) * start), "multiplied and not added"),
        (right_lines(lambda x, start: angles(x, start, 100.0)), "of base 100"),
        (right_lines(lambda x, start: angles(x, start, 1e8)), "twice too large"),
        (right_lines(lambda x, start: angles(x, start).flip(-1)), "the slow pairs come first"),
        (
            right_lines(lambda x, start: angles(x, start)[:, :1].expand(-1, x.shape[-1] // 2)),
            "at the rate 1",
        ),
        (right_lines(lambda x, start: angles(x, start).deg2rad()), "taken for degrees"),
        (right_lines(lambda x, start: angles(x, start) * 2 * math.pi), "a 2π too many"),
        (right_lines(lambda x, start: angles(x, start, math.e)), "the base is e"),
        (left_complex, "the result is still complex"),
        (multiplied_as_complex, "the result is still complex"),
        (places_of_the_first_axis, "along the first axis"),
        (turned_in_a_row, "the places stand in a row"),
        (right_lines(pages_rates), "the rates 1 and 1/100"),
        (laid_out_for_halves, "laid out for halves"),
        (
            lambda x, s=0: (
                x * angles(x, s).repeat_interleave(2, -1).cos()
                + torch.cat([-x.chunk(2, -1)[1], x.chunk(2, -1)[0]], -1)
                * angles(x, s).repeat_interleave(2, -1).sin()
            ),
            "and the rates those of neighbors",
        ),
        (
            right_lines(
                lambda x, start: (
                    (start + torch.arange(x.shape[-2]))[:, None]
                    * 10_000 ** (torch.arange(0, x.shape[-1], 2) / x.shape[-1])
                )
            ),
            "and not divided",
        ),
        (
            right_lines(
                lambda x, start: (
                    (start + torch.arange(x.shape[-2]))[:, None]
                    / 10_000 ** torch.linspace(0, 1, x.shape[-1] // 2)
                )
            ),
            "spread up to 1",
        ),
        (
            right_lines(
                lambda x, start: (
                    (start + torch.arange(x.shape[1]))[:, None]
                    / 10_000 ** (torch.arange(0, x.shape[-1], 2) / x.shape[-1])
                )
            ),
            "along the second axis",
        ),
        (lambda x, s=0: turned_in_loops(x, s).unflatten(-1, (-1, 2)), "`flatten(-2)` is missing"),
        (rows_of_the_second_axis, "along the second axis"),
        (right_lines(lambda x, start: angles(x, 0) + start), "added to the angle and not"),
        (
            right_lines(
                lambda x, start: (
                    (start + torch.arange(x.shape[1]))[:, None, None]
                    / 10_000 ** (torch.arange(0, x.shape[-1], 2) / x.shape[-1])
                )
            ),
            "along the second axis",
        ),
        (lambda x, s=0: x + woven(angles(x, s).sin(), angles(x, s).cos()), "the waves are added"),
        (lambda x, s=0: x + turned_in_loops(torch.ones_like(x), s), "the waves are added"),
        (lambda x, start=0: x, "x comes back as it was"),
    ],
)
def test_wrong_turns_are_named(capsys, function, diagnosis):
    report = verdict(capsys, lambda x, start=0: function(x, start), "rotate").report
    assert diagnosis in report
