"""What several position schemes share: fixed waves, spans of positions, distances."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from transformer_lib.arguments import check_count, check_lengths, check_number

__all__ = ["Waves", "check_heads", "check_span", "distances"]


class Waves(nn.Module):
    """A table of sines and cosines that stays exact in a model that does not.

    The table is computed and kept in float32 whatever the model's precision: bfloat16
    cannot tell most positions apart. It is not saved: whoever loads can compute it.
    """

    table: Tensor

    def __init__(self, name: str, width: int, max_len: int, base: float) -> None:
        super().__init__()
        check_count(name, width, least=2)
        if width % 2:
            raise ValueError(f"{name} must be even, got {width}")
        check_count("max_len", max_len)
        check_number("base", base, 1)
        self.width, self.max_len, self.base = width, max_len, base
        self.register_buffer("table", self._exact(), persistent=False)

    def _arrange(self, sin: Tensor, cos: Tensor) -> Tensor:
        """Make the table of ``(max_len, width / 2)`` sines and cosines."""
        raise NotImplementedError

    def _exact(self) -> Tensor:
        # On the CPU: other devices may know no float64, and then the last bits differ.
        position = torch.arange(self.max_len, dtype=torch.float64, device="cpu")  # (max_len,)
        even = torch.arange(0, self.width, 2, dtype=torch.float64, device="cpu")
        angle = position[:, None] / self.base ** (even / self.width)  # (max_len, width / 2)
        return self._arrange(angle.sin(), angle.cos()).float()

    def _apply(self, fn, recurse: bool = True):
        # model.half() casts buffers and model.to_empty() empties them; this one stays as it is.
        super()._apply(fn, recurse)
        self.table = self._exact().to(self.table.device)
        return self


def check_span(offset: Any, length: int, max_len: int) -> int:
    """The position after the last of ``length`` that begin at ``offset``.

    Raises:
        TypeError: an offset that is no integer.
        ValueError: a negative offset, or a position at or past ``max_len``.
    """
    check_count("offset", offset, least=0)
    if offset + length > max_len:
        raise ValueError(
            f"x of length {offset + length} is longer than max_len ({max_len})"
            + (f": {length} positions from offset {offset} on" if offset else "")
        )
    return offset + length


def check_heads(name: str, x: Any, last: str, width: int | None = None) -> None:
    """Raise unless ``x`` is a floating ``(B, H, T, last)``.

    Raises:
        TypeError: no tensor, or not floating.
        ValueError: another number of dimensions, or another width than asked for.
    """
    if not isinstance(x, Tensor):
        raise TypeError(f"{name} must be a tensor, got {type(x).__name__}")
    if not x.is_floating_point():
        raise TypeError(f"{name} must be floating point, got {x.dtype}")
    if x.dim() != 4 or (width is not None and x.size(-1) != width):
        raise ValueError(f"{name} must have shape (B, H, T, {last}), got {tuple(x.shape)}")


def distances(t: int, s: int, device: Any = None) -> Tensor:
    """How far to the right of query ``i`` key ``j`` stands: ``j - i``, integers ``(t, s)``.

    The ``t`` queries are the last of the ``s`` positions, so query ``i`` is at ``s - t + i``.
    """
    check_lengths(t, s, device)
    positions = torch.arange(s, device=device)
    return positions - positions[s - t :, None]
