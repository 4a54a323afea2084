"""Tensors that do not fit together are refused, with their names and shapes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor

from transformer_lib.arguments import outside, shown

__all__ = ["check_bias", "check_floats", "check_mask", "check_positions", "check_row_lengths"]

_INTEGERS = (torch.int64, torch.int32)
FLOATS = (torch.float32, torch.bfloat16, torch.float16, torch.float64)


def check_floats(**tensors: Any) -> None:
    """Raise unless the tensors, ``(..., length, width)`` each, can be multiplied with one another.

    Raises:
        TypeError: no tensor, not floating point, or of different dtypes.
        ValueError: less than two dimensions, different devices or batches.
    """
    for name, tensor in tensors.items():
        if not isinstance(tensor, Tensor) or tensor.dtype not in FLOATS:
            raise TypeError(f"{name} must be a floating point tensor, got {shown(tensor)}")
        if tensor.dim() < 2:
            raise ValueError(
                f"{name} must be (..., length, width), got shape {tuple(tensor.shape)}"
            )
    dtypes = [tensor.dtype for tensor in tensors.values()]
    devices = [tensor.device for tensor in tensors.values()]
    if len(set(devices)) > 1:
        raise ValueError(f"{_listed(tensors)} must be on the same device, got {_listed(devices)}")
    # Autocast brings different dtypes together, but leaves float64 alone.
    if len(set(dtypes)) > 1 and (
        torch.float64 in dtypes or not torch.is_autocast_enabled(devices[0].type)
    ):
        raise TypeError(f"{_listed(tensors)} must have the same dtype, got {_listed(dtypes)}")
    try:
        torch.broadcast_shapes(*(tensor.shape[:-2] for tensor in tensors.values()))
    except RuntimeError:
        shapes = _listed(tuple(tensor.shape) for tensor in tensors.values())
        raise ValueError(
            f"{_listed(tensors)} must have the same batch dimensions, got shapes {shapes}"
        ) from None


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


def check_positions(
    positions: Any,
    rows: int | None,
    length: int | None,
    *,
    like: Tensor | None = None,
    of: str = "x",
    end: int = 2**63,
) -> None:
    """Raise unless ``positions`` are integers ``(rows, length)`` in ``[0, end)``.

    ``rows`` and ``length`` may be None, for any number of them. ``of`` is what they must fit.

    Values are looked at on a CPU only: a GPU would have to stop and wait.

    Raises:
        TypeError: no tensor of integers.
        ValueError: another shape, or a position that does not exist; another device than that of
            the tensor that they are ``like``.
    """
    if not isinstance(positions, Tensor) or positions.dtype not in _INTEGERS:
        raise TypeError(f"positions must be a tensor of int64 or int32, got {shown(positions)}")
    shape = tuple(positions.shape)
    if len(shape) != 2 or rows not in (None, shape[0]) or length not in (None, shape[1]):
        wanted = f"({'B' if rows is None else rows}, {'T' if length is None else length})"
        raise ValueError(f"positions of {of} must have shape {wanted}, got {shape}")
    if like is not None and positions.device != like.device:
        raise ValueError(f"positions must be on {like.device} as {of} is, got {positions.device}")
    if positions.numel() and (wrong := outside(positions, end)) is not None:
        raise ValueError(f"positions must be from 0 to below max_len ({end}), got {wrong}")


def check_row_lengths(name: str, lengths: Any, ids: Tensor, of: str) -> None:
    """Raise unless ``lengths`` are integers ``(B,)``, from 0 to the length of ``ids`` ``(B, T)``.

    ``of`` is what the ids are called.

    Raises:
        TypeError: no tensor of integers.
        ValueError: another shape or device; a length out of its range (seen on a CPU only).
    """
    if not isinstance(lengths, Tensor) or lengths.dtype not in _INTEGERS:
        raise TypeError(f"{name} must be a tensor of int64 or int32, got {shown(lengths)}")
    if lengths.shape != ids.shape[:1]:
        wanted = f"({len(ids)},), a number for each row of {of}"
        raise ValueError(f"{name} must have shape {wanted}; got {tuple(lengths.shape)}")
    if lengths.device != ids.device:
        raise ValueError(f"{name} must be on {ids.device} as the ids are, got {lengths.device}")
    if len(lengths) and (wrong := outside(lengths, ids.size(1) + 1)) is not None:
        raise ValueError(f"{name} must be from 0 to {ids.size(1)}, all of {of}; got {wrong}")


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


def _listed(things: Iterable[object]) -> str:
    *most, last = map(str, things)
    return f"{', '.join(most)} and {last}"
