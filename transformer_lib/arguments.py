"""Arguments that are wrong are refused where they come in, by their name and value."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

__all__ = ["check_count", "check_ids", "check_number", "check_same_batch", "check_vectors"]


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
    if not (low <= value < high if closed else low < value < high):
        raise ValueError(f"{name} must be {wanted}, got {value!r}")


def check_ids(name: str, ids: Any, vocab_size: int, *, empty: bool = False) -> None:
    """Raise unless ``ids`` are token ids ``(B, length)`` of the vocabulary.

    Values are looked at on a CPU only: a GPU would have to stop and wait.

    Raises:
        TypeError: no tensor, or not of int64 or int32.
        ValueError: another shape; nothing in it, unless it may be ``empty``; an id outside.
    """
    if not isinstance(ids, Tensor):
        raise TypeError(f"{name} must be a tensor of token ids, got {type(ids).__name__}")
    if ids.dtype not in (torch.int64, torch.int32):
        raise TypeError(f"{name} must be token ids, int64 or int32, got {ids.dtype}")
    if ids.dim() != 2:
        raise ValueError(f"{name} must have shape (B, length), got {tuple(ids.shape)}")
    if ids.numel() == 0:
        if empty and ids.size(0):
            return
        raise ValueError(f"{name} must not be empty, got shape {tuple(ids.shape)}")
    if ids.device.type != "cpu" or torch.compiler.is_compiling():
        return
    low, high = (int(x) for x in ids.aminmax())
    if low < 0 or high >= vocab_size:
        wrong = low if low < 0 else high
        raise ValueError(f"{name} holds id {wrong}, the vocabulary is 0 to {vocab_size - 1}")


def check_vectors(name: str, x: Any, width: int, like: Tensor) -> None:
    """Raise unless ``x`` is ``(B, length, width)``, of the dtype and device of ``like``.

    Raises:
        TypeError: no tensor, or of another dtype; under autocast any floating dtype will do.
        ValueError: another shape, or another device.
    """
    if not isinstance(x, Tensor):
        raise TypeError(f"{name} must be a tensor, got {type(x).__name__}")
    if x.dim() != 3 or x.size(-1) != width:
        raise ValueError(f"{name} must have shape (B, length, {width}), got {tuple(x.shape)}")
    if x.dtype is not like.dtype and not (
        x.is_floating_point() and torch.is_autocast_enabled(x.device.type)
    ):
        raise TypeError(f"{name} must be {like.dtype} as the weights are, got {x.dtype}")
    if x.device != like.device:
        raise ValueError(f"{name} must be on {like.device} as the weights are, got {x.device}")


def check_same_batch(name: str, x: Tensor, other: str, y: Tensor) -> None:
    """Raise a ValueError unless ``x`` and ``y`` have equally many rows."""
    if x.shape[:1] != y.shape[:1]:
        raise ValueError(
            f"{name} and {other} must have the same batch size, "
            f"got shapes {tuple(x.shape)} and {tuple(y.shape)}"
        )
