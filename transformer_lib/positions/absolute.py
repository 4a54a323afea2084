"""Absolute positions: a vector for each position, added to the token's."""

from typing import Any

import torch
from torch import Tensor, nn

from transformer_lib.validation import check_count, check_floating, check_number


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


class SinusoidalPositions(ExactTable):
    r"""Add a fixed vector of waves for its position to every token's vector.

    .. math::
        PE(pos, 2i) = \sin(pos / 10000^{2i/d}), \quad
        PE(pos, 2i+1) = \cos(pos / 10000^{2i/d})

    where ``2i`` and ``2i+1`` are features. The ``table`` stays float32 in a model of any precision.

    Args:
        d_model: width of the vectors, even.
        max_len: longest sequence.

    Raises:
        TypeError: an argument that isn't a number.
        ValueError: an odd ``d_model``, a ``max_len`` below 1.

    Source:
        Vaswani et al. (2017), section 3.5.

    Example:
        >>> positions = SinusoidalPositions(d_model=4, max_len=8)
        >>> positions(torch.zeros(1, 2, 4))
        tensor([[[0.0000, 1.0000, 0.0000, 1.0000],
                 [0.8415, 0.5403, 0.0100, 0.9999]]])
    """

    def __init__(self, *, d_model: int, max_len: int) -> None:
        super().__init__("d_model", d_model, max_len, base=10_000.0)
        self.d_model = d_model

    def _arranged(self, sin: Tensor, cos: Tensor) -> Tensor:
        """Interleave the sine and cosine of each wave: ``(max_len, d_model)``."""
        return torch.stack((sin, cos), dim=-1).flatten(1)

    def forward(self, x: Tensor, offset: int = 0) -> Tensor:
        """Add the vectors of positions ``offset`` to ``offset + T - 1``.

        Args:
            x: ``(B, T, d_model)``.
            offset: position of the first token; with a cache, the number of tokens before.

        Returns:
            ``(B, T, d_model)``, in ``x``'s dtype.

        Raises:
            TypeError: ``x`` isn't floating point; ``offset`` isn't an integer.
            ValueError: a width other than ``d_model``, a position not below ``max_len``.
        """
        return _add(x, self.table, offset)


class LearnedPositions(nn.Module):
    """Add a learned vector for its position to every token's vector.

    .. math:: y_{pos} = x_{pos} + W_{pos}

    Positions from ``max_len`` on have none. The vectors start small, N(0, 0.02), as in the GPT
    paper, so that content counts first and training decides how much the position does.

    Args:
        d_model: width of the vectors.
        max_len: longest sequence.

    Raises:
        TypeError, ValueError: a ``d_model`` or ``max_len`` that isn't an integer above 0.

    Source:
        Gehring et al. (2017), *Convolutional Sequence to Sequence Learning*, section 3.1;
        Vaswani et al. (2017), Table 3, row (E). Initial values: Radford et al. (2018),
        *Improving Language Understanding by Generative Pre-Training*, section 4.1.

    Example:
        >>> positions = LearnedPositions(d_model=4, max_len=8)
        >>> x = torch.zeros(2, 3, 4)
        >>> positions(x, offset=5)[1].equal(positions.table[5:8])
        True
    """

    def __init__(self, *, d_model: int, max_len: int) -> None:
        super().__init__()
        check_count("d_model", d_model)
        check_count("max_len", max_len)
        self.d_model, self.max_len = d_model, max_len
        self.table = nn.Parameter(torch.empty(max_len, d_model))
        nn.init.normal_(self.table, std=0.02)

    def forward(self, x: Tensor, offset: int = 0) -> Tensor:
        """Add the vectors of positions ``offset`` to ``offset + T - 1``.

        Arguments, result and errors are those of :meth:`SinusoidalPositions.forward`.
        """
        return _add(x, self.table, offset)


def _add(x: Tensor, table: Tensor, offset: int) -> Tensor:
    check_floating("x", x, "B", "T", table.size(1))
    return x + rows_of(table, x.size(1), offset).to(x)  # (B, T, d_model)


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
