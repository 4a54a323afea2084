"""Absolute positions: a vector for each position, added to the token's."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from transformer_lib.positions.common import ExactTable, rows_of
from transformer_lib.validation import check_count, check_floating


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
