"""Absolute positions: an address added to every token's vector."""

from __future__ import annotations

import torch
from torch import Tensor, nn

__all__ = ["SinusoidalPositions"]


class SinusoidalPositions(nn.Module):
    r"""Add a fixed address, a vector of waves, to every token's vector.

    .. math::
        PE(pos, 2i) = \sin(pos / 10000^{2i/d}), \quad
        PE(pos, 2i+1) = \cos(pos / 10000^{2i/d})

    ``2i`` and ``2i+1`` count dimensions, not tokens. The table is computed and kept
    in float32 whatever the model's precision: bfloat16 cannot tell most positions
    apart, so it is only cast where it is added.

    Args:
        d_model: width of the vectors, even.
        max_len: longest sequence.
        base: ratio of the longest to the shortest wave, 10000 in the paper.

    Raises:
        ValueError: an odd or non-positive ``d_model``, a ``max_len`` below 1.

    Source:
        Vaswani et al. (2017), section 3.5.

    Example:
        >>> positions = SinusoidalPositions(d_model=4, max_len=8)
        >>> positions(torch.zeros(1, 2, 4))
        tensor([[[0.0000, 1.0000, 0.0000, 1.0000],
                 [0.8415, 0.5403, 0.0100, 0.9999]]])
    """

    table: Tensor

    def __init__(self, *, d_model: int, max_len: int, base: float = 10_000.0) -> None:
        super().__init__()
        if d_model < 2 or d_model % 2:
            raise ValueError(f"d_model must be even and at least 2, got {d_model}")
        if max_len < 1:
            raise ValueError(f"max_len must be at least 1, got {max_len}")
        self.d_model, self.max_len, self.base = d_model, max_len, base
        self.register_buffer("table", self._waves(), persistent=False)

    def _waves(self) -> Tensor:
        # On the CPU: other devices may know no float64, and then the last bits differ.
        position = torch.arange(self.max_len, dtype=torch.float64, device="cpu")  # (max_len,)
        even = torch.arange(0, self.d_model, 2, dtype=torch.float64, device="cpu")
        angle = position[:, None] / self.base ** (even / self.d_model)  # (max_len, d_model / 2)
        return torch.stack((angle.sin(), angle.cos()), dim=-1).flatten(1).float()

    def _apply(self, fn, recurse: bool = True):
        # model.half() casts buffers and model.to_empty() empties them; this one stays as it is.
        super()._apply(fn, recurse)
        self.table = self._waves().to(self.table.device)
        return self

    def forward(self, x: Tensor, offset: int = 0) -> Tensor:
        """Add the addresses of positions ``offset`` to ``offset + T - 1``.

        Args:
            x: ``(B, T, d_model)``.
            offset: position of the first token; with a cache, how many came before.

        Returns:
            ``(B, T, d_model)``, in ``x``'s dtype.

        Raises:
            ValueError: a width other than ``d_model``, a position at or past ``max_len``.
        """
        if x.dim() != 3 or x.size(-1) != self.d_model:
            raise ValueError(f"x must have shape (B, T, {self.d_model}), got {tuple(x.shape)}")
        if offset < 0:
            raise ValueError(f"offset must be at least 0, got {offset}")
        end = offset + x.size(1)
        if end > self.max_len:
            raise ValueError(f"sequence of length {end} is longer than max_len ({self.max_len})")
        return x + self.table[offset:end].to(x)
