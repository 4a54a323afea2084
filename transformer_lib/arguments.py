"""Checks of arguments: a wrong one is refused in the public API, with its name and value."""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from numbers import Real
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

__all__ = [
    "as_device",
    "as_path",
    "check_count",
    "check_id",
    "check_ids",
    "check_index",
    "check_lengths",
    "check_number",
    "check_path",
    "check_same_batch",
    "check_tokens",
    "check_type",
    "check_vectors",
    "in_the_way",
    "naming",
    "outside",
    "plain_number",
    "shown",
]

_INTEGERS = (torch.int64, torch.int32)

# --- one value -----------------------------------------------------------------------------------


@contextmanager
def naming(name: str) -> Iterator[None]:
    """Put ``name`` before the message of an error in the block."""
    try:
        yield
    except (TypeError, ValueError) as error:
        # A subclass, such as UnicodeDecodeError, may want other arguments than a message.
        kind = TypeError if isinstance(error, TypeError) else ValueError
        raise kind(f"{name}: {error}") from error


def plain_number(value: Any) -> Any:
    """A NumPy scalar as a number of Python; anything else as it is."""
    if type(value) in (int, float) or not isinstance(value, Real):
        return value
    return getattr(value, "item", lambda: value)()


def check_type(name: str, value: Any, kind: type, *, optional: bool = False) -> None:
    """Raise a TypeError unless ``value`` is a ``kind``, or None if it is ``optional``."""
    if isinstance(value, kind) or (optional and value is None):
        return
    if kind is bool:
        raise TypeError(f"{name} must be True or False, got {value!r}")
    article = "an" if kind.__name__[0] in "AEIOaeio" else "a"
    raise TypeError(f"{name} must be {article} {kind.__name__}, got {shown(value)}")


def check_count(name: str, value: Any, least: int = 1, *, optional: bool = False) -> Any:
    """Raise unless ``value`` is an integer of at least ``least``, or None if it is ``optional``.

    Returns:
        the value, as an int of Python if it is one of NumPy's.

    Raises:
        TypeError: it isn't an integer; True and False aren't.
        ValueError: it is below ``least``.
    """
    if optional and value is None:
        return None
    value = plain_number(value)
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(f"{name} must be an integer of at least {least}, got {value!r}")
    if value < least:
        raise ValueError(f"{name} must be an integer of at least {least}, got {value!r}")
    return value


def check_id(name: str, value: Any, vocab_size: int | None = None) -> None:
    """Raise a TypeError or ValueError unless ``value`` is an id of the vocabulary, or of any."""
    value = check_count(name, value, least=0)
    if value >= 2**63:
        raise ValueError(f"{name} must be below 2**63, got {value}")
    if vocab_size is not None and value >= vocab_size:
        raise ValueError(f"{name} must be below vocab_size ({vocab_size}), got {value}")


def check_number(
    name: str, value: Any, low: float, high: float = math.inf, ends: str = "[)"
) -> None:
    """Raise unless ``value`` is a finite number between ``low`` and ``high``.

    ``ends`` says whether these two are allowed: ``"[]"`` both, ``"[)"`` the lower, ``"(]"`` the
    upper, ``"()"`` neither.

    Raises:
        TypeError: it isn't a number; True and False aren't.
        ValueError: it is out of range, infinite or NaN.
    """
    value = plain_number(value)
    number = isinstance(value, int | float) and not isinstance(value, bool)
    # An integer can be larger than any float.
    if number and value <= sys.float_info.max:
        high_enough = value >= low if ends[0] == "[" else value > low
        low_enough = value <= high if ends[1] == "]" else value < high
        if high_enough and low_enough:
            return
    if high < math.inf:
        wanted = f"in {ends[0]}{low:g}, {high:g}{ends[1]}"
    else:
        wanted = f"a finite number {'of at least' if ends[0] == '[' else 'above'} {low:g}"
    raise (ValueError if number else TypeError)(f"{name} must be {wanted}, got {value!r}")


def check_path(name: str, path: Any, kind: str | None = None) -> None:
    """Raise unless ``path`` may name a file or a folder; with a ``kind``, only that.

    Raises:
        TypeError: it isn't a path; a number would be a file that is already open.
        ValueError: it is empty, or holds what no name can; a folder is in place of a file, or the
            other way round.
    """
    if not isinstance(path, str | os.PathLike) or not isinstance(os.fspath(path), str):
        raise TypeError(f"{name} must be a path, got {path!r}")
    try:
        possible = b"\0" not in os.fsencode(path) != b""
    except UnicodeEncodeError:  # half of a surrogate pair
        possible = False
    if not possible:
        raise ValueError(f"{name} must be a path, got {path!r}")
    if kind == "file" and Path(path).is_dir():
        raise ValueError(f"{name} must be a file; {path} is a folder")
    if kind == "folder" and (other := in_the_way(Path(path))):
        raise ValueError(f"{name} must be a folder, but {other} is not one")


def in_the_way(folder: Path) -> Path | None:
    """What keeps ``folder`` from being made: something else has its name, or that of a parent."""
    return next((p for p in (folder, *folder.parents) if p.exists() and not p.is_dir()), None)


def as_path(name: str, path: Any, kind: str | None = None) -> Path:
    """``path`` as a ``Path``, or an error as in :func:`check_path`."""
    check_path(name, path, kind)
    return Path(path)


def as_device(name: str, device: Any) -> torch.device:
    """The device named ``"cpu"``, ``"cuda:1"`` and the like.

    Raises:
        ValueError: PyTorch knows no such device, or this machine doesn't have it.
    """
    try:
        found = torch.device(device)
    except (RuntimeError, TypeError) as error:
        wanted = "a device, such as 'cpu' or 'cuda:1'"
        raise ValueError(f"{name} must be {wanted}; got {device!r}") from error
    try:
        torch.empty(0, device=found)
    except (RuntimeError, AssertionError, ImportError) as error:
        raise ValueError(f"{name} '{found}' is not available on this machine") from error
    return found


def check_lengths(t: Any, s: Any, device: Any = None) -> None:
    """Raise unless ``t`` queries can be the last of ``s`` keys, and the device is available.

    Raises:
        TypeError: a length that isn't an integer.
        ValueError: a negative length, or fewer keys than queries; no such device.
    """
    check_count("t", t, least=0)
    check_count("s", s, least=0)
    if s < t:
        raise ValueError(f"s ({s}) must be at least t ({t}): the queries are the last keys")
    if device is not None and not isinstance(device, torch.device):
        as_device("device", device)


# --- one tensor ----------------------------------------------------------------------------------


def check_ids(
    name: str, ids: Any, vocab_size: int, *, like: Tensor | None = None, empty: bool = False
) -> None:
    """Raise unless ``ids`` are token ids ``(B, length)`` of the vocabulary.

    Values are checked on a CPU only: this would stall a GPU.

    Raises:
        TypeError: not a tensor of int64 or int32.
        ValueError: another shape; no ids, unless it may be ``empty``; an id that isn't in the
            vocabulary; another device than that of the weights, ``like``.
    """
    if not isinstance(ids, Tensor):
        raise TypeError(f"{name} must be a tensor of token ids, got {type(ids).__name__}")
    if ids.dtype not in _INTEGERS:
        raise TypeError(f"{name} must be token ids, int64 or int32, got {ids.dtype}")
    if ids.dim() != 2:
        raise ValueError(f"{name} must have shape (B, length), got {tuple(ids.shape)}")
    if like is not None and ids.device != like.device:
        raise ValueError(f"{name} must be on {like.device} like the weights, got {ids.device}")
    if ids.numel() == 0:
        if empty and ids.size(0):
            return
        raise ValueError(f"{name} must not be empty, got shape {tuple(ids.shape)}")
    if (wrong := outside(ids, vocab_size)) is not None:
        raise ValueError(f"{name} holds id {wrong}, the vocabulary is 0 to {vocab_size - 1}")


def check_tokens(tokens: Any, rows: int | None) -> None:
    """Raise unless ``tokens`` is ``(B,)``, one for each of the state's ``rows``.

    Raises:
        TypeError: not a tensor.
        ValueError: another shape.
    """
    check_type("tokens", tokens, Tensor)
    if tokens.dim() != 1:
        raise ValueError(f"tokens must have shape (B,), got {tuple(tokens.shape)}")
    if rows not in (None, len(tokens)):
        raise ValueError(f"tokens must hold {rows} ids, one per row of state; got {len(tokens)}")


def check_index(name: str, index: Any, rows: int | None, *, like: Tensor | None = None) -> None:
    """Raise unless ``index`` is ``(B',)`` integers that choose among ``rows`` rows.

    Raises:
        TypeError: not a tensor of integers.
        ValueError: another shape, or a row that doesn't exist (checked on a CPU only); another
            device than that of the tensor ``like``.
    """
    if not isinstance(index, Tensor) or index.dtype not in _INTEGERS:
        raise TypeError(f"{name} must be a tensor of integers, got {shown(index)}")
    if index.dim() != 1:
        raise ValueError(f"{name} must have shape (B,), got {tuple(index.shape)}")
    if like is not None and index.device != like.device:
        raise ValueError(f"{name} must be on {like.device} like the rows, got {index.device}")
    if rows is not None and index.numel() and (wrong := outside(index, rows)) is not None:
        raise ValueError(f"{name} must be in [0, {rows}), for {rows} rows; got {wrong}")


def check_vectors(
    name: str,
    x: Any,
    width: int,
    like: Tensor,
    *,
    dims: int | None = 3,
    what: str = "the weights",
) -> None:
    """Raise unless ``x`` is ``(B, length, width)``, of the dtype and device of ``like``.

    ``dims`` asks for another number of dimensions, or None for any, the last of size ``width``.
    ``what`` says what ``like`` is.

    Raises:
        TypeError: not a tensor, or of another dtype; under autocast, any floating dtype except
            float64 will do.
        ValueError: another shape, or another device.
    """
    if not isinstance(x, Tensor):
        raise TypeError(f"{name} must be a tensor, got {type(x).__name__}")
    if x.shape[-1:] != (width,) or dims not in (None, x.dim()):
        before = {None: "..., ", 1: "", 2: "B, ", 3: "B, length, "}[dims]
        wanted = f"({before}{width}) to fit {what}"
        raise ValueError(f"{name} must have shape {wanted}, got {tuple(x.shape)}")
    if x.dtype is not like.dtype and not (
        x.is_floating_point()
        and torch.float64 not in (x.dtype, like.dtype)
        and torch.is_autocast_enabled(x.device.type)
    ):
        raise TypeError(f"{name} must be {like.dtype} like {what}, got {x.dtype}")
    if x.device != like.device:
        raise ValueError(f"{name} must be on {like.device} like {what}, got {x.device}")


def check_same_batch(name: str, x: Tensor, other: str, y: Tensor) -> None:
    """Raise a ValueError unless ``x`` and ``y`` have the same number of rows."""
    if x.shape[:1] != y.shape[:1]:
        raise ValueError(
            f"{name} and {other} must have the same batch size, "
            f"got shapes {tuple(x.shape)} and {tuple(y.shape)}"
        )


def outside(numbers: Tensor, end: int) -> int | None:
    """A number that is not in ``[0, end)``, if there is one; None if looking would stall."""
    if numbers.device.type != "cpu" or torch.compiler.is_compiling():
        return None
    low, high = (int(x) for x in numbers.aminmax())
    return low if low < 0 else high if high >= end else None


def shown(thing: object) -> str:
    """What an error calls an argument of the wrong type."""
    return str(thing.dtype) if isinstance(thing, Tensor) else type(thing).__name__
