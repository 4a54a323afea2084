"""Rotary positions: turn queries and keys, so that their dot product knows the distance."""

from __future__ import annotations

import torch
from torch import Tensor

from transformer_lib.positions.common import Waves, check_heads, check_span

__all__ = ["RotaryPositions"]


class RotaryPositions(Waves):
    r"""Turn pairs of features of a query or key by angles proportional to its position.

    .. math::
        \begin{pmatrix} y_i \\ y_{i+d/2} \end{pmatrix} =
        \begin{pmatrix} \cos pos\,\theta_i & -\sin pos\,\theta_i \\
                        \sin pos\,\theta_i & \cos pos\,\theta_i \end{pmatrix}
        \begin{pmatrix} x_i \\ x_{i+d/2} \end{pmatrix}, \quad
        \theta_i = 10000^{-2i/d}

    Turning both by the same angle leaves a dot product as it was, so that of a query
    and a key depends on their positions only by the difference.

    **Half-split pairs:** feature ``i`` of the first half turns with feature ``i`` of the
    second, as in Llama and GPT-NeoX. The RoFormer paper interleaves, and pairs ``2i``
    with ``2i + 1``. Both are equally good, as they differ by a fixed order of the
    features; but weights trained with one need their query and key rows reordered for
    the other.

    The ``table`` of cosines and sines, ``(2, max_len, d_head / 2)``, stays float32 in a
    model of any precision, and so do the products.

    Args:
        d_head: width of one head, even.
        max_len: longest sequence.
        base: ratio of the slowest pair's period to the fastest's, about; 10000 in the paper.

    Raises:
        TypeError: an argument that is no number.
        ValueError: an odd ``d_head``, a ``max_len`` or ``base`` below 1.

    Source:
        Su et al. (2021), *RoFormer*, sections 3.2.2 and 3.4.2.

    Example:
        >>> rotary = RotaryPositions(d_head=4, max_len=100)
        >>> query, key = torch.randn(1, 1, 1, 4), torch.randn(1, 1, 1, 4)
        >>> near = (rotary(query, offset=7) * rotary(key, offset=2)).sum()
        >>> far = (rotary(query, offset=95) * rotary(key, offset=90)).sum()
        >>> torch.testing.assert_close(near, far)
    """

    def __init__(self, *, d_head: int, max_len: int, base: float = 10_000.0) -> None:
        super().__init__("d_head", d_head, max_len, base)
        self.d_head = d_head

    def _arrange(self, sin: Tensor, cos: Tensor) -> Tensor:
        return torch.stack((cos, sin))

    def forward(self, x: Tensor, offset: int = 0) -> Tensor:
        """Turn the vectors at positions ``offset`` to ``offset + T - 1``.

        Args:
            x: queries or keys, ``(B, H, T, d_head)``.
            offset: position of the first; with a cache, how many came before.

        Returns:
            ``(B, H, T, d_head)``, in ``x``'s dtype.

        Raises:
            TypeError: an ``x`` that is not floating, an ``offset`` that is no integer.
            ValueError: a width other than ``d_head``, a position at or past ``max_len``.
        """
        check_heads("x", x, str(self.d_head), self.d_head)
        end = check_span(offset, x.size(2), self.max_len)
        cos, sin = self.table[:, offset:end].to(x.device)  # (T, d_head / 2)
        first, second = x.chunk(2, dim=-1)
        # In half precision the products are float32, as the table is: round once, at the end.
        turned = torch.cat((first * cos - second * sin, first * sin + second * cos), dim=-1)
        return turned.to(x.dtype)
