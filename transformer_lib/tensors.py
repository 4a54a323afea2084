"""Tensors that must go together are refused where they do not, by their names and shapes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor

from transformer_lib.arguments import shown

__all__ = ["check_bias", "check_floats", "check_mask"]

_FLOATS = (torch.float32, torch.bfloat16, torch.float16, torch.float64)


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
            raise TypeError(f"{name} must be a floating point tensor, got {shown(tensor)}")
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
            f"{name} must be bool, True = may attend; got {shown(mask)}: 0 and 1 become that "
            "by .bool(), numbers to add to the scores are a bias"
        )
    _check_broadcasts(name, mask, scores, like, of)


def check_bias(name: str, bias: Any, scores: tuple[int, ...], like: Tensor, of: str) -> None:
    """The same for a ``bias``, which is floating point."""
    if not isinstance(bias, Tensor) or not bias.is_floating_point():
        raise TypeError(f"{name} must be a floating point tensor, got {shown(bias)}")
    _check_broadcasts(name, bias, scores, like, of)


def _check_broadcasts(
    name: str, tensor: Tensor, scores: tuple[int, ...], like: Tensor, of: str
) -> None:
    shape = tensor.shape
    if tensor.device != like.device:
        raise ValueError(f"{name} must be on {like.device} like {of}, got {tensor.device}")
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


def _listed(things: Iterable[object]) -> str:
    *most, last = map(str, things)
    return f"{', '.join(most)} and {last}"
