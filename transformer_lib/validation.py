"""Check arguments and tensors once, where they enter the library."""

import math
import operator
import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from numbers import Real
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

__all__ = [
    "as_device",
    "as_path",
    "autocasting",
    "check_bias",
    "check_choice",
    "check_count",
    "check_floating",
    "check_floats",
    "check_heads",
    "check_id",
    "check_ids",
    "check_integers",
    "check_lengths",
    "check_mask",
    "check_number",
    "check_shape",
    "check_text",
    "check_type",
    "check_vectors",
    "id_list",
    "in_the_way",
    "items",
    "naming",
    "pair",
    "plain_number",
    "shown",
    "text_list",
    "type_name",
    "wide",
]

_INTEGERS = (torch.int64, torch.int32)

# --- one value -----------------------------------------------------------------------------------


@contextmanager
def naming(name: str) -> Iterator[None]:
    """Put ``name`` before the message of an error raised in the block."""
    try:
        yield
    except (TypeError, ValueError) as error:
        # A subclass such as UnicodeDecodeError takes more arguments than a message.
        kind = TypeError if isinstance(error, TypeError) else ValueError
        raise kind(f"{name}: {error}") from error


def plain_number(value: Any) -> Any:
    """Turn a NumPy scalar into a Python number; return anything else unchanged."""
    if type(value) in (int, float) or not isinstance(value, Real):
        return value
    return getattr(value, "item", lambda: value)()


def check_type(name: str, value: Any, kind: type, *, optional: bool = False) -> None:
    """Raise a TypeError unless ``value`` is a ``kind``, or None if ``optional``."""
    if isinstance(value, kind) or (optional and value is None):
        return
    if kind is bool:
        raise TypeError(f"{name} must be True or False, got {value!r}")
    article = "an" if kind.__name__[0] in "AEIOaeio" else "a"
    raise TypeError(f"{name} must be {article} {kind.__name__}, got {type_name(value)}")


def check_choice(name: str, value: Any, choices: Iterable[str]) -> None:
    """Raise a ValueError unless ``value`` is one of these strings."""
    if not isinstance(value, str) or value not in choices:
        raise ValueError(f"{name} must be one of {', '.join(choices)}; got {value!r}")


def check_count(name: str, value: Any, least: int = 1, *, optional: bool = False) -> Any:
    """Return ``value`` if it's an integer of at least ``least``, or None if ``optional``.

    A NumPy integer becomes an int. True and False don't count as integers.
    """
    if optional and value is None:
        return None
    value = plain_number(value)
    if not isinstance(value, int | torch.SymInt) or isinstance(value, bool):
        raise TypeError(f"{name} must be an integer of at least {least}, got {value!r}")
    if value < least:
        raise ValueError(f"{name} must be an integer of at least {least}, got {value!r}")
    return value


def check_id(name: str, value: Any, vocab_size: int | None = None) -> None:
    """Raise unless ``value`` is a token id, in the vocabulary if its size is given."""
    value = check_count(name, value, least=0)
    if value >= 2**63:
        raise ValueError(f"{name} must be below 2**63, got {value}")
    if vocab_size is not None and value >= vocab_size:
        raise ValueError(f"{name} must be below vocab_size ({vocab_size}), got {value}")


def check_heads(d_model: Any, n_heads: Any, n_kv_heads: Any = None) -> None:
    """Raise unless the heads divide the width, and those of keys and values divide the heads."""
    check_count("d_model", d_model)
    check_count("n_heads", n_heads)
    check_count("n_kv_heads", n_kv_heads, optional=True)
    if d_model % n_heads:
        raise ValueError(f"d_model ({d_model}) must be divisible by n_heads ({n_heads})")
    if n_kv_heads is not None and n_heads % n_kv_heads:
        raise ValueError(f"n_heads ({n_heads}) must be divisible by n_kv_heads ({n_kv_heads})")


def check_number(
    name: str, value: Any, low: float, high: float = math.inf, ends: str = "[)"
) -> None:
    """Raise unless ``value`` is a finite number between ``low`` and ``high``.

    ``ends`` says which ends are included: ``"[]"`` both, ``"[)"`` the lower one, ``"(]"`` the
    upper one, ``"()"`` neither. True and False don't count as numbers.
    """
    value = plain_number(value)
    number = isinstance(value, int | float) and not isinstance(value, bool)
    # An int can be too large for a float.
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


def as_path(name: str, path: Any, kind: str | None = None) -> Path:
    """Return ``path`` as a ``Path`` if it can name a file or a folder, or the given ``kind``.

    Integers are refused: ``open`` would take one for a file descriptor.
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
    return Path(path)


def in_the_way(folder: Path) -> Path | None:
    """Return the file that keeps ``folder`` from being created, if there is one."""
    return next((p for p in (folder, *folder.parents) if p.exists() and not p.is_dir()), None)


def as_device(name: str, device: Any) -> torch.device:
    """Return the device named ``"cpu"``, ``"cuda:1"`` and the like.

    Raises:
        ValueError: unknown to PyTorch, or not available on this machine.
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


def check_lengths(t: Any, s: Any, device: Any = None) -> int:
    """Return ``s``, or ``t`` if it's None, if ``t`` queries can be the last of so many keys."""
    check_count("t", t, least=0)
    s = t if s is None else s
    check_count("s", s, least=0)
    if s < t:
        raise ValueError(f"s ({s}) must be at least t ({t}): the queries are the last keys")
    if device is not None and not isinstance(device, torch.device):
        as_device("device", device)
    return s


# --- one tensor ----------------------------------------------------------------------------------


def check_shape(name: str, x: Tensor, *shape: Any) -> None:
    """Raise unless ``x`` has this shape, in which a letter stands for any size."""
    if x.dim() != len(shape) or any(
        not isinstance(wanted, str) and size != wanted
        for size, wanted in zip(x.shape, shape, strict=True)
    ):
        wanted = str(shape).replace("'", "")
        raise ValueError(f"{name} must have shape {wanted}, got {tuple(x.shape)}")


def check_integers(
    name: str,
    x: Any,
    *shape: Any,
    end: int | None = 2**63,
    limit: str = "2**63",
    like: Tensor | None = None,
) -> None:
    """Raise unless ``x`` is a tensor of integers of this shape, on the device of ``like``.

    They must be in ``[0, end)``, whose end is called ``limit``; any will do if ``end`` is None.
    Values are checked on a CPU only: reading them would stall a GPU.
    """
    if not isinstance(x, Tensor) or x.dtype not in _INTEGERS:
        raise TypeError(f"{name} must be a tensor of int64 or int32, got {type_name(x)}")
    if shape:
        check_shape(name, x, *shape)
    _check_device(name, x, like)
    if end is not None and x.numel() and (wrong := _outside(x, end)) is not None:
        raise ValueError(f"{name} must be at least 0 and below {limit} ({end}), got {wrong}")


def check_ids(
    name: str, ids: Any, vocab_size: int, *, like: Tensor | None = None, empty: bool = False
) -> None:
    """Raise unless ``ids`` are token ids ``(B, length)`` on the device of the weights, ``like``."""
    check_integers(name, ids, "B", "length", end=vocab_size, limit="vocab_size", like=like)
    if ids.numel() == 0 and not (empty and ids.size(0)):
        raise ValueError(f"{name} must not be empty, got shape {tuple(ids.shape)}")


def check_vectors(name: str, x: Any, width: int, like: Tensor, *, batched: bool = True) -> None:
    """Raise unless ``x`` is ``(B, length, width)``, with the dtype and device of the weights.

    Unless ``batched``, it may have any number of dimensions. Under autocast, any floating dtype
    except float64 will do.
    """
    if not isinstance(x, Tensor):
        raise TypeError(f"{name} must be a tensor, got {type(x).__name__}")
    if x.shape[-1:] != (width,) or (batched and x.dim() != 3):
        before = "B, length" if batched else "..."
        raise ValueError(f"{name} must have shape ({before}, {width}), got {tuple(x.shape)}")
    _check_like(name, x, like, "the weights")


def autocasting(device: torch.device) -> bool:
    """Whether autocast is on. Some devices, ``meta`` for example, don't have it."""
    kind = device.type
    return torch.amp.is_autocast_available(kind) and torch.is_autocast_enabled(kind)


def _outside(numbers: Tensor, end: int) -> int | None:
    """Return a number outside ``[0, end)`` if there is one, or None if looking would stall."""
    if numbers.device.type != "cpu" or torch.compiler.is_compiling():
        return None
    low, high = (int(x) for x in numbers.aminmax())
    return low if low < 0 else high if high >= end else None


def type_name(thing: object) -> str:
    """Return what an error calls the type of ``thing``."""
    return str(thing.dtype) if isinstance(thing, Tensor) else type(thing).__name__


FLOATS = (torch.float32, torch.bfloat16, torch.float16, torch.float64)


def wide(x: Tensor) -> Tensor:
    """``x`` in float32, or as it is if that's wider. Half precision loses count in long sums."""
    return x.to(torch.promote_types(x.dtype, torch.float32))


def check_floating(name: str, x: Any, *shape: Any) -> None:
    """Raise unless ``x`` is floating point, and of this shape; a letter stands for any size."""
    if not isinstance(x, Tensor) or x.dtype not in FLOATS:
        raise TypeError(f"{name} must be a floating point tensor, got {type_name(x)}")
    if shape:
        check_shape(name, x, *shape)


def check_floats(**tensors: Any) -> None:
    """Raise unless the tensors, ``(..., length, width)`` each, can be multiplied."""
    first, like = next(iter(tensors.items()))
    for name, tensor in tensors.items():
        check_floating(name, tensor)
        if tensor.dim() < 2:
            raise ValueError(
                f"{name} must be (..., length, width), got shape {tuple(tensor.shape)}"
            )
        _check_like(name, tensor, like, first)
    shapes = [tuple(tensor.shape) for tensor in tensors.values()]
    try:
        torch.broadcast_shapes(*(shape[:-2] for shape in shapes))
    except RuntimeError:
        names = ", ".join(tensors)
        raise ValueError(f"{names} must have the same batch dimensions, got {shapes}") from None


def _check_like(name: str, x: Tensor, like: Tensor, what: str) -> None:
    """Raise unless ``x`` has the dtype and device of ``like``, which is called ``what``."""
    # Autocast brings different dtypes together, but leaves float64 alone.
    if x.dtype is not like.dtype and not (
        x.is_floating_point()
        and torch.float64 not in (x.dtype, like.dtype)
        and autocasting(x.device)
    ):
        raise TypeError(f"{name} must be {like.dtype} like {what}, got {x.dtype}")
    _check_device(name, x, like)


def check_mask(
    name: str, mask: Any, scores: tuple[int, ...], like: Tensor, *, heads: bool = False
) -> None:
    """Raise unless ``mask`` is bool, on the device of ``like``, and broadcastable to ``scores``.

    ``scores`` is the shape ``(..., T, S)``, or ``(B, H, T, S)`` with ``heads``. Then a mask
    ``(B, T, S)`` is refused: broadcasting would read it as ``(H, T, S)`` if B equals H.
    """
    if not isinstance(mask, Tensor) or mask.dtype is not torch.bool:
        raise TypeError(
            f"{name} must be bool, True = may attend; got {type_name(mask)}: convert 0 and 1 "
            "with .bool(); numbers to add to the scores are a bias"
        )
    if heads and mask.dim() == 3 and mask.size(0) != 1:
        raise ValueError(
            f"{name} must have four dimensions, (B, H, T, S), or at most two; "
            f"got shape {tuple(mask.shape)}: write {name}[:, None] for a mask per text, "
            f"{name}[None] for a mask per head"
        )
    _check_broadcasts(name, mask, scores, like)


def check_bias(name: str, bias: Any, scores: tuple[int, ...], like: Tensor) -> None:
    """Raise unless ``bias`` is floating point and fits as in :func:`check_mask`."""
    check_floating(name, bias)
    _check_broadcasts(name, bias, scores, like)


def _check_broadcasts(name: str, tensor: Tensor, scores: tuple[int, ...], like: Tensor) -> None:
    shape = tensor.shape
    _check_device(name, tensor, like)
    if len(shape) <= len(scores) and all(
        size in (1, wanted) for size, wanted in zip(reversed(shape), reversed(scores), strict=False)
    ):
        return
    hint = ""
    if shape and shape[-1] not in (1, scores[-1]):
        hint = f": its last dimension is for the {scores[-1]} keys"
    elif shape == (scores[0], scores[-1]):
        hint = ": a mask for each row of the batch must be (B, 1, 1, S), as from padding_mask"
    raise ValueError(
        f"{name} must be broadcastable to {scores}, which is (..., queries, keys); "
        f"got shape {tuple(shape)}{hint}"
    )


def _check_device(name: str, x: Tensor, like: Tensor | None) -> None:
    if like is not None and x.device != like.device:
        raise ValueError(f"{name} must be on {like.device} like the rest, got {x.device}")


def id_list(name: str, ids: Any) -> list[int]:
    """Return ``ids``, any iterable of integers, as a list of ints."""
    try:
        found = [operator.index(i) for i in ids]
    except (TypeError, ValueError, RuntimeError):  # RuntimeError: a tensor of several dimensions
        raise TypeError(f"{name} must be a sequence of integers; got {shown(ids)}") from None
    for i in found:
        if not 0 <= i < 2**63:
            raise ValueError(f"{name} must hold integers from 0 to 2⁶³ − 1; got {i}")
    return found


def pair(name: str, value: Any) -> tuple[Any, Any]:
    """Return the two parts of ``value``."""
    if not isinstance(value, tuple | list) or len(value) != 2:
        raise TypeError(f"{name} must be a pair (source, target); got {shown(value)}")
    return value[0], value[1]


def items(name: str, values: Any, what: str, least: int = 1) -> list[Any]:
    """Return ``values`` as a list of at least ``least`` items. A string or dict is refused."""
    if isinstance(values, str | bytes | dict) or not isinstance(values, Iterable):
        raise TypeError(f"{name} must be several {what}s, such as a list; got {shown(values)}")
    try:
        found = list(values)
    except TypeError:  # a tensor without dimensions is an Iterable all the same
        raise TypeError(f"{name} must be several {what}s; got {shown(values)}") from None
    if len(found) < least:
        raise ValueError(f"{name} must hold at least one {what}; got none")
    return found


def check_text(name: str, text: Any) -> None:
    """Raise unless ``text`` is a string that UTF-8 can encode."""
    if not isinstance(text, str):
        raise TypeError(f"{name} must be a str; got {shown(text)}")
    try:
        text.encode()
    except UnicodeEncodeError as error:  # half of a surrogate pair
        raise ValueError(f"{name} must be valid Unicode; got {shown(text)}") from error


def text_list(name: str, values: Any, least: int = 0) -> list[str]:
    """Return ``values`` as a list of at least ``least`` strings."""
    found = items(name, values, "string", least)
    for i, text in enumerate(found):
        check_text(f"number {i} of {name}", text)
    return found


def shown(value: Any) -> str:
    text = " ".join(repr(value).split())
    return f"{type(value).__name__} {text if len(text) < 60 else text[:57] + '…'}"
