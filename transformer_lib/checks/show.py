"""How a report names things: values as they can be typed, kinds, shapes and numbers."""

import math
from typing import Any

import torch
from torch import Tensor

__all__ = ["dtype_name", "inside", "kind", "literal", "number", "shape"]

_MOST_NUMBERS, _LONGEST = 36, 400
_USUAL = (torch.float32, torch.int64, torch.bool)


def inside(sentence: str) -> str:
    """A sentence's beginning inside another one."""
    return sentence if sentence.startswith("`") else sentence[0].lower() + sentence[1:]


def kind(value: Any) -> str:
    """What a value is, without a look at its numbers."""
    if value is None:
        return "None"
    if isinstance(value, Tensor):
        return f"a tensor of shape {shape(value)}"
    name = type(value).__name__
    if name == "ndarray":
        return "a NumPy array"
    if isinstance(value, tuple | list):
        return f"a {name} of length {len(value)}"
    return f"an {name}" if name[:1].lower() in "aeiou" else f"a {name}"


def shape(tensor: Tensor) -> str:
    return str(tuple(tensor.shape))


def dtype_name(tensor: Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")


def number(value: Any) -> str:
    """One number in a sentence, rounded."""
    item = value.item() if isinstance(value, Tensor) else value
    if isinstance(item, bool | complex | str):
        return repr(item)
    if not math.isfinite(item):
        return str(item)
    if item == int(item) and abs(item) < 2**53:
        return f"{int(item):,}"
    return f"{item:.4g}"


def literal(value: Any, *, rounded: bool = False) -> str | None:
    """A value as it is typed, the whole of it; None where that's long, or no way to type it."""
    try:
        text = _typed(value, rounded)
    except (TypeError, ValueError, RecursionError):
        return None
    return text if len(text) <= _LONGEST else None


def _typed(value: Any, rounded: bool) -> str:
    if type(value) in (list, tuple, set) and value:
        items = sorted(value) if isinstance(value, set) else value
        listed = ", ".join(_typed(item, rounded) for item in items)
        if isinstance(value, tuple):
            return f"({listed},)" if len(value) == 1 else f"({listed})"
        return f"[{listed}]" if isinstance(value, list) else f"{{{listed}}}"
    if type(value) is dict:
        pairs = ((_typed(k, rounded), _typed(v, rounded)) for k, v in value.items())
        return f"{{{', '.join(f'{k}: {v}' for k, v in pairs)}}}"
    if isinstance(value, Tensor):
        return _tensor(value, rounded)
    if type(value) is float:
        return _float(value, 4 if rounded else 17)
    if value is None or type(value) in (bool, int, str, bytes, list, tuple, set):
        return repr(value)
    raise TypeError(f"{kind(value)} has no short name")


def _tensor(value: Tensor, rounded: bool) -> str:
    plain = value.layout is torch.strided and not (value.is_quantized or value.is_meta)
    if not plain or value.is_complex() or value.numel() > _MOST_NUMBERS:
        raise TypeError("too much to type")
    if not value.numel() and value.dim() > 1:
        raise TypeError("a list in brackets doesn't tell its shape")
    digits = 4 if rounded else _digits(value)
    dtype = "" if value.dtype in _USUAL and value.numel() else f", dtype={value.dtype}"
    return f"torch.tensor({_rows(value.tolist(), digits)}{dtype})"


def _digits(value: Tensor) -> int:
    """How many digits give exactly these numbers back."""
    if not value.is_floating_point():
        return 17
    return next(
        (
            digits
            for digits in (4, 6, 9)
            if value.equal(value.new_tensor([float(f"{x:.{digits}g}") for x in
                                             value.flatten().tolist()]).view(value.shape))
        ),
        17,
    )  # fmt: skip


def _rows(item: Any, digits: int) -> str:
    if isinstance(item, list):
        return f"[{', '.join(_rows(each, digits) for each in item)}]"
    return _float(item, digits) if isinstance(item, float) else str(item)


def _float(x: float, digits: int) -> str:
    if math.isnan(x):
        return "torch.nan"
    if math.isinf(x):
        return "torch.inf" if x > 0 else "-torch.inf"
    return repr(float(f"{x:.{digits}g}"))
