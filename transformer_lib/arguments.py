"""Arguments that are wrong are refused where they come in, by their name and value."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterable
from functools import wraps
from typing import Any, ParamSpec, TypeVar

import torch
from torch import Tensor

__all__ = [
    "check_bias",
    "check_count",
    "check_floats",
    "check_ids",
    "check_index",
    "check_mask",
    "check_number",
    "check_same_batch",
    "check_type",
    "check_vectors",
    "numbers_checked",
]

P = ParamSpec("P")
R = TypeVar("R")
_FLOATS = (torch.float32, torch.bfloat16, torch.float16, torch.float64)
_INTEGERS = (torch.int64, torch.int32)

# --- one value -----------------------------------------------------------------------------------


def check_type(name: str, value: Any, kind: type) -> None:
    """Raise a TypeError unless ``value`` is a ``kind``."""
    if not isinstance(value, kind):
        raise TypeError(f"{name} must be a {kind.__name__}, got {_shown(value)}")


def check_count(name: str, value: Any, least: int = 1) -> None:
    """Raise unless ``value`` is an integer of at least ``least``.

    Raises:
        TypeError: it is no integer; True and False are none.
        ValueError: it is below ``least``.
    """
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(f"{name} must be an integer of at least {least}, got {value!r}")
    if value < least:
        raise ValueError(f"{name} must be an integer of at least {least}, got {value!r}")


def check_number(
    name: str, value: Any, low: float, high: float = math.inf, *, closed: bool = True
) -> None:
    """Raise unless ``value`` is a finite number in ``[low, high)``, or ``(low, high)``.

    Raises:
        TypeError: it is no number; True and False are none.
        ValueError: it is out of the range, infinite or not a number.
    """
    if high < math.inf:
        wanted = f"in {'[' if closed else '('}{low:g}, {high:g})"
    else:
        wanted = f"a finite number {'of at least' if closed else 'above'} {low:g}"
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise TypeError(f"{name} must be {wanted}, got {value!r}")
    # An integer may be larger than any float.
    if not (low <= value < high if closed else low < value < high) or value > sys.float_info.max:
        raise ValueError(f"{name} must be {wanted}, got {value!r}")


# --- one tensor ----------------------------------------------------------------------------------


def check_ids(
    name: str, ids: Any, vocab_size: int, *, like: Tensor | None = None, empty: bool = False
) -> None:
    """Raise unless ``ids`` are token ids ``(B, length)`` of the vocabulary.

    Values are looked at on a CPU only: a GPU would have to stop and wait.

    Raises:
        TypeError: no tensor, or not of int64 or int32.
        ValueError: another shape; nothing in it, unless it may be ``empty``; an id outside;
            another device than that of the weights that they are ``like``.
    """
    if not isinstance(ids, Tensor):
        raise TypeError(f"{name} must be a tensor of token ids, got {type(ids).__name__}")
    if ids.dtype not in _INTEGERS:
        raise TypeError(f"{name} must be token ids, int64 or int32, got {ids.dtype}")
    if ids.dim() != 2:
        raise ValueError(f"{name} must have shape (B, length), got {tuple(ids.shape)}")
    if like is not None and ids.device != like.device:
        raise ValueError(f"{name} must be on {like.device} as the weights are, got {ids.device}")
    if ids.numel() == 0:
        if empty and ids.size(0):
            return
        raise ValueError(f"{name} must not be empty, got shape {tuple(ids.shape)}")
    if (wrong := _outside(ids, vocab_size)) is not None:
        raise ValueError(f"{name} holds id {wrong}, the vocabulary is 0 to {vocab_size - 1}")


def check_index(name: str, index: Any, rows: int | None) -> None:
    """Raise unless ``index`` is ``(B',)`` integers that choose among ``rows`` rows.

    Raises:
        TypeError: no tensor of integers.
        ValueError: another shape, or a row that there is not (seen on a CPU only).
    """
    if not isinstance(index, Tensor) or index.dtype not in _INTEGERS:
        raise TypeError(f"{name} must be a tensor of integers, got {_shown(index)}")
    if index.dim() != 1:
        raise ValueError(f"{name} must have shape (B,), got {tuple(index.shape)}")
    if rows is not None and index.numel() and (wrong := _outside(index, rows)) is not None:
        raise ValueError(f"{name} must be in [0, {rows}), the rows there are, got {wrong}")


def check_vectors(name: str, x: Any, width: int, like: Tensor, *, dims: int | None = 3) -> None:
    """Raise unless ``x`` is ``(B, length, width)``, of the dtype and device of ``like``.

    With ``dims`` None it may have any other dimensions before its last.

    Raises:
        TypeError: no tensor, or of another dtype; under autocast any floating dtype will do.
        ValueError: another shape, or another device.
    """
    if not isinstance(x, Tensor):
        raise TypeError(f"{name} must be a tensor, got {type(x).__name__}")
    if x.dim() != (dims or max(x.dim(), 1)) or x.size(-1) != width:
        before = "..." if dims is None else "B, length"
        raise ValueError(f"{name} must have shape ({before}, {width}), got {tuple(x.shape)}")
    if x.dtype is not like.dtype and not (
        x.is_floating_point() and torch.is_autocast_enabled(x.device.type)
    ):
        raise TypeError(f"{name} must be {like.dtype} as the weights are, got {x.dtype}")
    if x.device != like.device:
        raise ValueError(f"{name} must be on {like.device} as the weights are, got {x.device}")


# --- several tensors -----------------------------------------------------------------------------


def check_same_batch(name: str, x: Tensor, other: str, y: Tensor) -> None:
    """Raise a ValueError unless ``x`` and ``y`` have equally many rows."""
    if x.shape[:1] != y.shape[:1]:
        raise ValueError(
            f"{name} and {other} must have the same batch size, "
            f"got shapes {tuple(x.shape)} and {tuple(y.shape)}"
        )


def check_floats(**tensors: Any) -> tuple[int, ...]:
    """Raise unless the tensors, ``(..., length, width)`` each, can be multiplied with one another.

    Returns:
        The batch dimensions, which they have in common or can be broadcast to.

    Raises:
        TypeError: no tensor, not floating point, or of different dtypes.
        ValueError: less than two dimensions, different devices or batches.
    """
    alike, first = True, None
    for name, tensor in tensors.items():
        if not isinstance(tensor, Tensor) or tensor.dtype not in _FLOATS:
            raise TypeError(f"{name} must be a floating point tensor, got {_shown(tensor)}")
        shape = tensor.shape
        if len(shape) < 2:
            raise ValueError(f"{name} must be (..., length, width), got shape {tuple(shape)}")
        this = shape[:-2], tensor.dtype, tensor.device
        if first is None:
            first = this
        elif this != first:
            alike = False
    if alike and first is not None:
        return first[0]
    return _common_batch(tensors)


def check_mask(name: str, mask: Any, scores: tuple[int, ...], like: Tensor, of: str) -> None:
    """Raise unless ``mask`` is bool and fits ``scores``, the shape ``(..., T, S)``.

    Args:
        name: what the mask is called.
        mask: what should be one.
        scores: the shape that it must be broadcastable to.
        like: a tensor on the device where it must be.
        of: what the scores are of, to say so.

    Raises:
        TypeError: no tensor, or not bool.
        ValueError: another shape, or another device.
    """
    if not isinstance(mask, Tensor) or mask.dtype is not torch.bool:
        raise TypeError(
            f"{name} must be bool, True = may attend; got {_shown(mask)}: 0 and 1 become that "
            "by .bool(), numbers to add to the scores are a bias"
        )
    _check_broadcasts(name, mask, scores, like, of)


def check_bias(name: str, bias: Any, scores: tuple[int, ...], like: Tensor, of: str) -> None:
    """The same for a ``bias``, which is floating point."""
    if not isinstance(bias, Tensor) or not bias.is_floating_point():
        raise TypeError(f"{name} must be a floating point tensor, got {_shown(bias)}")
    _check_broadcasts(name, bias, scores, like, of)


def numbers_checked(function: Callable[P, R]) -> Callable[P, R]:
    """Check ``scale`` and ``dropout`` before an attention that is left to check its tensors."""
    largest = torch.finfo(torch.float32).max

    @wraps(function)
    def checked(*args: P.args, **kwargs: P.kwargs) -> R:
        if kwargs.get("scale") is not None:
            check_number("scale", kwargs["scale"], -largest, largest)
        check_number("dropout", kwargs.get("dropout", 0.0), 0, 1)
        return function(*args, **kwargs)

    return checked


def _check_broadcasts(
    name: str, tensor: Tensor, scores: tuple[int, ...], like: Tensor, of: str
) -> None:
    shape = tensor.shape
    if tensor.device != like.device:
        raise ValueError(f"{name} must be on {like.device} as {of} are, got {tensor.device}")
    if len(shape) <= len(scores) and all(
        size in (1, wanted) for size, wanted in zip(reversed(shape), reversed(scores), strict=False)
    ):
        return
    hint = ""
    if shape and shape[-1] not in (1, scores[-1]):
        hint = f": its last dimension is for the {scores[-1]} keys"
    elif shape == (scores[0], scores[-1]):
        hint = ": a row for each of the batch must be (B, 1, 1, S), as padding_mask makes it"
    raise ValueError(
        f"{name} must be broadcastable to {scores} (..., queries, keys), the scores of {of}; "
        f"got shape {tuple(shape)}{hint}"
    )


def _common_batch(tensors: dict[str, Tensor]) -> tuple[int, ...]:
    dtypes = [tensor.dtype for tensor in tensors.values()]
    devices = [tensor.device for tensor in tensors.values()]
    batches = [tensor.shape[:-2] for tensor in tensors.values()]
    if len(set(devices)) > 1:
        raise ValueError(f"{_listed(tensors)} must be on the same device, got {_listed(devices)}")
    # Autocast brings different dtypes together, but leaves float64 alone.
    if len(set(dtypes)) > 1 and (
        torch.float64 in dtypes or not torch.is_autocast_enabled(devices[0].type)
    ):
        raise TypeError(f"{_listed(tensors)} must have the same dtype, got {_listed(dtypes)}")
    try:
        return torch.broadcast_shapes(*batches)
    except RuntimeError:
        shapes = _listed(tuple(tensor.shape) for tensor in tensors.values())
        raise ValueError(
            f"{_listed(tensors)} must have the same batch dimensions, got shapes {shapes}"
        ) from None


def _outside(numbers: Tensor, end: int) -> int | None:
    """A number that is not in ``[0, end)``, if there is one and it can be seen without waiting."""
    if numbers.device.type != "cpu" or torch.compiler.is_compiling():
        return None
    low, high = (int(x) for x in numbers.aminmax())
    return low if low < 0 else high if high >= end else None


def _shown(thing: object) -> str:
    return str(thing.dtype) if isinstance(thing, Tensor) else type(thing).__name__


def _listed(things: Iterable[object]) -> str:
    *most, last = map(str, things)
    return f"{', '.join(most)} and {last}"
