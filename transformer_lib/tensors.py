"""Tensors that must go together are refused where they do not, by their names and shapes."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import wraps
from typing import ParamSpec, TypeVar

import torch
from torch import Tensor

from transformer_lib.arguments import check_number

__all__ = ["check_broadcasts", "check_floats", "check_rows", "kind", "numbers_checked"]

P = ParamSpec("P")
R = TypeVar("R")
_LARGEST = torch.finfo(torch.float32).max
_FLOATS = (torch.float32, torch.bfloat16, torch.float16, torch.float64)


def numbers_checked(function: Callable[P, R]) -> Callable[P, R]:
    """Check ``scale`` and ``dropout`` before an attention that is left to check its tensors."""

    @wraps(function)
    def checked(*args: P.args, **kwargs: P.kwargs) -> R:
        if kwargs.get("scale") is not None:
            check_number("scale", kwargs["scale"], -_LARGEST, _LARGEST)
        check_number("dropout", kwargs.get("dropout", 0.0), 0, 1)
        return function(*args, **kwargs)

    return checked


def check_floats(**tensors: Tensor) -> tuple[int, ...]:
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
            raise TypeError(f"{name} must be a floating point tensor, got {kind(tensor)}")
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


def check_broadcasts(name: str, tensor: Tensor, scores: tuple[int, ...], like: Tensor) -> None:
    """Raise a ValueError unless a mask or a bias fits ``scores``, the shape ``(..., T, S)``."""
    shape = tensor.shape
    if tensor.device != like.device:
        raise ValueError(f"{name} must be on {like.device} as query is, got {tensor.device}")
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
        f"{name} must be broadcastable to {scores} (..., queries, keys), "
        f"got shape {tuple(shape)}{hint}"
    )


def check_rows(index: Tensor, rows: int) -> None:
    """Raise unless ``index``, ``(B',)``, names some of the ``rows`` of a batch.

    Raises:
        TypeError: no tensor, or not of int64 or int32.
        ValueError: another shape, or a row that there is not (seen on a CPU only).
    """
    if not isinstance(index, Tensor) or index.dtype not in (torch.int64, torch.int32):
        raise TypeError(f"index must be a tensor of integers, got {kind(index)}")
    if index.dim() != 1:
        raise ValueError(f"index must have shape (B,), got {tuple(index.shape)}")
    if index.numel() and index.device.type == "cpu":
        wrong = index[(index < 0) | (index >= rows)]
        if wrong.numel():
            raise ValueError(
                f"index must be in [0, {rows}), the rows there are; got {int(wrong[0])}"
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


def kind(thing: object) -> str:
    """What an error calls an argument that is not what it should be."""
    return str(thing.dtype) if isinstance(thing, Tensor) else type(thing).__name__


def _listed(things: Iterable[object]) -> str:
    *most, last = map(str, things)
    return f"{', '.join(most)} and {last}"
