"""Weights as 8-bit integers, in a quarter of the bytes, for the bundled models."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

__all__ = ["from_int8", "to_int8"]

_STEP = ".step"


def to_int8(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    r"""Round each matrix to integers from -127 to 127. Other tensors stay the same.

    Each row has its own step, so that its largest entry is 127 steps:

    .. math::
        s_i = \max_j |W_{ij}| / 127, \quad Q_{ij} = \operatorname{round}(W_{ij} / s_i)

    Args:
        tensors: by name. Matrices are ``(rows, columns)`` and finite.

    Returns:
        ``Q`` in int8 under the name of each matrix, and ``s`` in float32, ``(rows,)``, under that
        name and ``".step"``.

    Example:
        >>> to_int8({"weight": torch.tensor([[1.27, -0.5], [0.0, 0.0]])})["weight"]
        tensor([[127, -50],
                [  0,   0]], dtype=torch.int8)
    """
    rounded = {}
    for name, tensor in tensors.items():
        if tensor.dim() != 2:
            rounded[name] = tensor
            continue
        step = tensor.float().abs().amax(dim=1) / 127  # (rows,)
        step = torch.where(step > 0, step, 1.0)  # any step works for zeros
        rounded[name] = (tensor.float() / step[:, None]).round().to(torch.int8)
        rounded[name + _STEP] = step
    return rounded


def from_int8(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Undo :func:`to_int8`, in float32. No entry is off by more than half a step.

    Example:
        >>> weights = {"weight": torch.tensor([[1.27, -0.506]])}
        >>> from_int8(to_int8(weights))["weight"]
        tensor([[ 1.2700, -0.5100]])
    """
    return {
        name: tensor.float() * tensors[name + _STEP][:, None]
        if tensor.dtype == torch.int8
        else tensor
        for name, tensor in tensors.items()
        if not name.endswith(_STEP)
    }
