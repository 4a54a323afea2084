"""Chapter 10's checkers: right answers in every form, and what is said of wrong ones."""

import math

import numpy as np
import torch

from tests.unit.judging import table
from transformer_lib import RotaryPositions
from transformer_lib.checks.chapter10 import check

# ------------------------------------------------------------------------------------- sinusoids


def table_in_loops(length, d_model, base=10_000, first=0, exponent=lambda j: j // 2 * 2):
    found = torch.zeros(length, d_model)
    for pos in range(length):
        for j in range(d_model):
            angle = (pos + first) / base ** (exponent(j) / d_model)
            found[pos, j] = math.cos(angle) if j % 2 else math.sin(angle)
    return found


def table_by_slices(n, d, axis=1, exponent=lambda two_i, d: two_i / d):
    pe = torch.zeros(n, d)
    position = torch.arange(0, n).unsqueeze(axis).float()
    div = torch.exp(-math.log(10_000.0) * exponent(torch.arange(0, d, 2).float(), d))
    pe[:, 0::2] = torch.sin(position * div)
    pe[:, 1::2] = torch.cos(position * div)
    return pe


def table_of_numpy(length, d_model):
    angle = np.arange(length)[:, None] / np.power(10_000, np.arange(0, d_model, 2) / d_model)
    return torch.tensor(np.stack([np.sin(angle), np.cos(angle)], axis=2).reshape(length, -1))


def of_each_dimension(n, d):
    angle = torch.arange(n)[:, None] / 10_000 ** (torch.arange(d) / d)
    return torch.stack([angle.sin(), angle.cos()], dim=-1).flatten(-2)


def sine_of_a_number(n, d):
    angle = torch.arange(n)[:, None] / 10_000 ** (torch.arange(0, d, 2) / d)
    return torch.stack([math.sin(angle), math.cos(angle)], -1).flatten(-2)


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


def turned_as_complex(x, offset=0, sign=1):
    pairs = torch.view_as_complex(x.float().reshape(*x.shape[:-1], -1, 2).contiguous())
    at = sign * angles(x, offset)
    return torch.view_as_real(pairs * torch.polar(torch.ones_like(at), at)).flatten(-2)


def turned_by_the_library(x, start=0):
    T, d = x.shape[-2:]
    halves = torch.cat([x[..., 0::2], x[..., 1::2]], -1).reshape(1, -1, T, d)
    turned = RotaryPositions(d_head=d, max_len=start + T)(halves, start).view(x.shape)
    return turned.unflatten(-1, (2, -1)).mT.flatten(-2)


def angles(x, start, base=10_000.0):
    T, d = x.shape[-2:]
    return (start + torch.arange(T))[:, None] / base ** (torch.arange(0, d, 2) / d)


def into_x(x, start=0):
    x.copy_(turned_in_loops(x, start))
    return x


def lines(first, second, angle=angles):
    """rotate, its two lines given as functions of a, b, sin and cos."""

    def function(x, start=0):
        a, b, at = x[..., 0::2], x[..., 1::2], angle(x, start)
        of = a, b, at.sin(), at.cos()
        return torch.stack([first(*of), second(*of)], -1).flatten(-2)

    return function


def right_lines(angle):
    return lines(lambda a, b, s, c: a * c - b * s, lambda a, b, s, c: a * s + b * c, angle)


test_right, test_wrong = table(
    check,
    right={
        "sinusoids": [table_in_loops, table_by_slices,  table_of_numpy],
        "rotate": [
            turned_in_loops,
            turned_as_complex,
            turned_by_the_library,
        ],
    },
    wrong={
        "sinusoids": [
            (lambda n, d: table_by_slices(n, d, axis=0), "each row is a position"),
            (lambda n, d: table_in_loops(n, d, first=1), "at position 0, a sine is 0"),
            (lambda n, d: table_in_loops(n, d, base=1000), "by powers of 10000"),
            (of_each_dimension, "The result has shape (1, 8); it must have shape (1, 4)."),
            (sine_of_a_number, "take one number, not a tensor of several"),
        ],
        "rotate": [
            (right_lines(lambda x, start: angles(x, start + 1)), "at position 0 nothing turns"),
            (right_lines(lambda x, start: angles(x, 0) * start), "has turned by one radian"),
            (into_x, "it changes its input `x` in place"),
        ],
    },
)  # fmt: skip
