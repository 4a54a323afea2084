"""What several position schemes share."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from transformer_lib.validation import check_count, check_number


class ExactTable(nn.Module):
    """A table of sines and cosines that stays float32 in a model of any precision.

    bfloat16 can't tell most positions apart. The table isn't saved, since it can be computed.
    """

    table: Tensor

    def __init__(self, name: str, width: int, max_len: int, base: float) -> None:
        super().__init__()
        check_count(name, width, least=2)
        if width % 2:
            raise ValueError(f"{name} must be even, got {width}")
        check_count("max_len", max_len)
        check_number("base", base, 1)
        self.max_len, self.base, self._width = max_len, base, width
        table = self._table_on(torch.get_default_device())
        self.register_buffer("table", table, persistent=False)

    def _arranged(self, sin: Tensor, cos: Tensor) -> Tensor:
        """Make a table ``(max_len, width)`` of each pair's sine and cosine at each position."""
        raise NotImplementedError

    def _table_on(self, device: torch.device | str) -> Tensor:
        if torch.device(device).type == "meta":
            return torch.empty(self.max_len, self._width, device=device)
        # In float64 and on the CPU, since other devices may lack float64.
        position = torch.arange(self.max_len, dtype=torch.float64, device="cpu")  # (max_len,)
        even = torch.arange(0, self._width, 2, dtype=torch.float64, device="cpu")  # 2i
        angle = position[:, None] / self.base ** (even / self._width)  # (max_len, width / 2)
        return self._arranged(angle.sin(), angle.cos()).float().to(device)

    def _apply(self, fn, recurse: bool = True):
        # model.half() would cast the table, and model.to_empty() would empty it.
        super()._apply(fn, recurse)
        self.table = self._table_on(self.table.device)
        return self


def check_places(name: str, length: int, offset: Any, max_len: int) -> None:
    """Raise unless ``length`` positions from ``offset`` on are below ``max_len``."""
    check_count("offset", offset, least=0)
    if offset + length > max_len:
        raise ValueError(
            f"{name} of length {offset + length} is longer than max_len ({max_len})"
            + (f", from offset {offset} on" if offset else "")
        )


def rows_of(table: Tensor, length: int, offset: int) -> Tensor:
    """Return ``length`` rows of the table from ``offset`` on, which is checked."""
    check_places("x", length, offset, len(table))
    return table[offset : offset + length]
