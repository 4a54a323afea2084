"""Ways to spoil an argument: another type, another shape, a number out of its range."""

from __future__ import annotations

import math
import random
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

__all__ = ["spoil"]

DTYPES = (
    torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.complex64,
    torch.int64, torch.int32, torch.int8, torch.uint8, torch.bool,
)  # fmt: skip
# Never a size that would take gigabytes; where a number is no size, a table adds larger ones.
NUMBERS = (-3, -1, 0, 1, 2, 3, 7, 13, 0.0, 0.5, 1.0, 2.5, -0.5, math.nan, math.inf, -math.inf)


def spoil(value: Any, draw: random.Random, extra: list[Any]) -> Any:
    """Something else than ``value``, wrong more often than not."""
    if extra and draw.random() < 0.3:
        return draw.choice(extra)
    if draw.random() < 0.25:
        return junk(draw)
    if isinstance(value, Tensor):
        return spoiled_tensor(value, draw)
    if isinstance(value, bool) or value is None:
        return junk(draw)
    if isinstance(value, int | float):
        return draw.choice([*NUMBERS, value + 1, -value, value * 2, float(value), str(value)])
    if isinstance(value, str):
        return draw.choice(["", value.upper(), value + "?", value.encode(), [value], " "])
    if isinstance(value, list | tuple) and value:
        return spoiled_sequence(value, draw)
    if isinstance(value, dict) and value:
        return {**value, draw.choice([*value, "unknown"]): junk(draw)}
    return junk(draw)


def junk(draw: random.Random) -> Any:
    """What may come from anywhere."""
    return draw.choice(JUNK)()


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
    lambda: torch.ones(2, 3).numpy().tolist(),
)


def spoiled_tensor(x: Tensor, draw: random.Random) -> Any:
    """The tensor in another dtype or shape, with other values, elsewhere, or as no tensor."""
    kind = draw.choice(("dtype", "dtype", "shape", "shape", "shape", "value", "value", "place"))
    if kind == "dtype":
        return x.to(draw.choice(DTYPES))
    if kind == "shape":
        return reshaped(x, draw)
    if kind == "value":
        return revalued(x, draw)
    return draw.choice(
        (lambda: x.to("meta"), x.tolist, x.detach().numpy, lambda: [x, x], x.double)
    )()


def reshaped(x: Tensor, draw: random.Random) -> Tensor:
    if x.dim() == 0:
        return x[None].expand(draw.choice((0, 1, 3)))
    dim = draw.randrange(x.dim())
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
    return draw.choice(ways)()


def revalued(x: Tensor, draw: random.Random) -> Tensor:
    y = x.clone()
    if not y.numel():
        return y
    place = tuple(draw.randrange(size) for size in y.shape)
    if y.is_floating_point():
        y[place] = draw.choice((math.nan, math.inf, -math.inf, 0.0, -7.0, 1e4))
    elif y.dtype is torch.bool:
        y = draw.choice((y, ~y, torch.zeros_like(y)))
    else:
        y[place] = draw.choice((-1, -(2**31), 0, 1, 2, 10_000, 2**31 - 1))
        y = draw.choice((y, y, torch.zeros_like(y)))
    return y


def spoiled_sequence(value: Any, draw: random.Random) -> Any:
    """The sequence shorter, longer, emptied, in another container, or with one part spoiled."""
    i = draw.randrange(len(value))
    part = [*value[:i], spoil(value[i], draw, []), *value[i + 1 :]]
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
    return draw.choice(ways)()
