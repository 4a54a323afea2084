"""Ways to spoil an argument: another type, another shape, a number out of its range."""

from __future__ import annotations

import math
import random
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from .calls import EXTREME, HUGE, NO_SIZES, WRONG

__all__ = ["spoiled"]

DTYPES = (
    torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.complex64,
    torch.int64, torch.int32, torch.int8, torch.uint8, torch.bool,
)  # fmt: skip
NUMBERS = (-3, -1, 0, 1, 2, 3, 7, 13, 0.0, 0.5, 1.0, 2.5, -0.5, math.nan, math.inf, -math.inf)


def spoiled(name: str, value: Any) -> Any:
    """Something else than ``value``, wrong more often than not."""
    if name in WRONG and random.random() < 0.3:
        return random.choice(WRONG[name])()
    if name in NO_SIZES and random.random() < 0.2:  # a huge size would take gigabytes
        return random.choice(HUGE)
    if isinstance(value, float) and random.random() < 0.2:
        return random.choice(EXTREME)
    return _spoiled(value)


def _spoiled(value: Any) -> Any:
    if random.random() < 0.25 or isinstance(value, bool) or value is None:
        return random.choice(JUNK)()
    if isinstance(value, Tensor):
        return spoiled_tensor(value)
    if isinstance(value, int | float):
        return random.choice([*NUMBERS, value + 1, -value, value * 2, float(value), str(value)])
    if isinstance(value, str):
        return random.choice(["", value.upper(), value + "?", value.encode(), [value], " "])
    if isinstance(value, list | tuple) and value:
        return spoiled_sequence(value)
    if isinstance(value, dict) and value:
        return {**value, random.choice([*value, "unknown"]): random.choice(JUNK)()}
    return random.choice(JUNK)()


# What may come from anywhere.
JUNK = (
    lambda: None,
    lambda: True,
    lambda: False,
    lambda: -1,
    lambda: 3,
    lambda: 2.5,
    lambda: math.nan,
    lambda: 1j,
    lambda: "three",
    lambda: "",
    lambda: b"3",
    lambda: [],
    lambda: [1, 2, 3],
    lambda: [[1.0], [2.0]],
    lambda: ["a", None],
    lambda: {},
    lambda: {"a": 1},
    lambda: {3},
    lambda: object(),
    lambda: range(3),
    lambda: Path("nowhere"),
    lambda: np.ones((2, 3)),
    lambda: torch.tensor(3),
    lambda: torch.ones(2, 3),
    lambda: torch.zeros(0, dtype=torch.long),
    lambda: nn.Linear(2, 3),
)


def spoiled_tensor(x: Tensor) -> Any:
    """The tensor in another dtype or shape, with other values, elsewhere, or as no tensor."""
    kind = random.choice(("dtype", "dtype", "shape", "shape", "shape", "value", "value", "place"))
    if kind == "dtype":
        return x.to(random.choice(DTYPES))
    if kind == "shape":
        return reshaped(x)
    if kind == "value":
        return revalued(x)
    return random.choice(
        (lambda: x.to("meta"), x.tolist, x.detach().numpy, lambda: [x, x], x.double)
    )()


def reshaped(x: Tensor) -> Tensor:
    if x.dim() == 0:
        return x[None].expand(random.choice((0, 1, 3)))
    dim = random.randrange(x.dim())
    size = x.size(dim)
    ways = [
        lambda: x.unsqueeze(dim),
        lambda: x.select(dim, 0) if size else x,
        lambda: x.narrow(dim, 0, 0),
        lambda: x.narrow(dim, 0, 1) if size else x,
        lambda: x.narrow(dim, 0, size - 1) if size else x,
        lambda: torch.cat((x, x), dim),
        lambda: torch.cat((x, x.narrow(dim, 0, 1)), dim) if size else x,
        lambda: x.flatten(),
        lambda: x.sum(),
        lambda: x.transpose(dim, -1),  # perhaps with itself
        lambda: x[..., None, None, None],
        lambda: x.flip(dim).contiguous().transpose(0, -1),
    ]
    return random.choice(ways)()


def revalued(x: Tensor) -> Tensor:
    y = x.clone()
    if not y.numel():
        return y
    place = tuple(random.randrange(size) for size in y.shape)
    if y.is_floating_point():
        y[place] = random.choice((math.nan, math.inf, -math.inf, 0.0, -7.0, 1e4))
    elif y.dtype is torch.bool:
        y = random.choice((y, ~y, torch.zeros_like(y)))
    else:
        y[place] = random.choice((-1, -(2**31), 0, 1, 2, 10_000, 2**31 - 1))
        y = random.choice((y, y, torch.zeros_like(y)))
    return y


def spoiled_sequence(value: Any) -> Any:
    """The sequence shorter, longer, emptied, in another container, or with one part spoiled."""
    i = random.randrange(len(value))
    part = [*value[:i], _spoiled(value[i]), *value[i + 1 :]]
    ways = [
        lambda: [],
        lambda: part,
        lambda: part,
        lambda: getattr(type(value), "_make", type(value))(part),
        lambda: [*value, *value],
        lambda: [*value, None],
        lambda: value[:1],
        lambda: value[0],
        lambda: dict(enumerate(value)),
        lambda: iter(value),
    ]
    return random.choice(ways)()
