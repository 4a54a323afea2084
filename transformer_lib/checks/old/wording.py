"""How a report names things: values, shapes, places and numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

__all__ = ["at", "dtype_name", "index", "inside", "kind", "number", "shape", "show", "with_article"]

_LONGEST = 200  # characters of a value that are shown


def with_article(noun: str) -> str:
    return f"an {noun}" if noun[:1].lower() in "aeiou" else f"a {noun}"


def inside(what: str) -> str:
    """`what` inside a sentence."""
    return what[0].lower() + what[1:]


def kind(value: Any) -> str:
    """What a value is, without a look at its numbers."""
    if value is None:
        return "None"
    if isinstance(value, Tensor):
        return "a nested tensor" if value.is_nested else f"a tensor of shape {shape(value)}"
    name = type(value).__name__
    if name == "ndarray":
        return f"a NumPy array of shape {getattr(value, 'shape', '?')}"
    if isinstance(value, tuple | list):
        return f"{with_article(name)} of length {len(value)}"
    return with_article(name)


def shape(tensor: Tensor) -> str:
    return str(tuple(tensor.shape))


def dtype_name(tensor: Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")


def index(place: Sequence[int]) -> str:
    return str(place[0]) if len(place) == 1 else str(list(place))


def at(flags: Tensor) -> str:
    """Where the first flag is set."""
    return f" at {flags.nonzero()[0].tolist()}" if flags.dim() else ""


def number(value: Tensor) -> str:
    item = value.item()
    if isinstance(item, bool):
        return str(item)
    whole = 1000 <= abs(item) < 2**53 and item == int(item)
    return f"{int(item):,}" if whole else f"{item:.3g}"


def show(value: Any) -> str:
    """A value as it could be typed, or what it is where that would be long."""
    if isinstance(value, nn.Module):
        return with_article(type(value).__name__)
    if isinstance(value, tuple | list) and any(isinstance(v, Tensor) for v in value):
        return f"({', '.join(map(show, value))})"
    if isinstance(value, Tensor):
        return _tensor(value)
    try:
        text = str(getattr(value, "__name__", None) or repr(value))
    except Exception:
        return kind(value)
    if "\n" in text or " at 0x" in text:
        return kind(value)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"


def _tensor(value: Tensor) -> str:
    if value.is_nested or value.is_meta or value.layout is not torch.strided or value.is_quantized:
        return kind(value)
    if value.numel() > 16:
        return f"{dtype_name(value)} tensor of shape {shape(value)}"
    usual = value.dtype in (torch.float32, torch.int64, torch.bool)
    return f"torch.tensor({_listed(value.tolist())}{'' if usual else f', dtype={value.dtype}'})"


def _listed(item: Any) -> str:
    if isinstance(item, list):
        return f"[{', '.join(map(_listed, item))}]"
    if not isinstance(item, float):
        return str(item)
    if not math.isfinite(item):
        return "torch.nan" if math.isnan(item) else f"{'-' if item < 0 else ''}torch.inf"
    return repr(float(f"{item:.4g}" if abs(item) < 1000 else f"{item:.8g}"))
