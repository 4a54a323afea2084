"""Rotary positions: rotate queries and keys, so that their dot product depends on distance."""

import torch
from torch import Tensor

from transformer_lib.positions.absolute import ExactTable, rows_of
from transformer_lib.validation import check_floating


class RotaryPositions(ExactTable):
    r"""Rotate pairs of features of a query or key by angles proportional to its position.

    .. math::
        \begin{pmatrix} y_i \\ y_{i+d/2} \end{pmatrix} =
        \begin{pmatrix} \cos pos\,\theta_i & -\sin pos\,\theta_i \\
                        \sin pos\,\theta_i & \cos pos\,\theta_i \end{pmatrix}
        \begin{pmatrix} x_i \\ x_{i+d/2} \end{pmatrix}, \quad
        \theta_i = 10000^{-2i/d}

    Rotating two vectors by the same angle doesn't change their dot product. So the dot product of a
    query and a key depends only on the difference of their positions.

    **Half-split pairs:** feature ``i`` of the first half is paired with feature ``i`` of the
    second, as in GPT-NeoX and Hugging Face's Llama. The RoFormer paper and Llama's own files pair
    ``2i`` with ``2i + 1``. Both work equally well, since they differ by a fixed order of the
    features, but weights trained with one need their query and key rows reordered for the other.

    The ``table`` of cosines, then sines, ``(max_len, d_head)``, and the products are float32 in a
    model of any precision.

    Args:
        d_head: width of one head, even.
        max_len: longest sequence.
        base: approximate ratio of the slowest pair's period to the fastest's; 10000 in the paper.

    Raises:
        TypeError: an argument that isn't a number.
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

    def _arranged(self, sin: Tensor, cos: Tensor) -> Tensor:
        """Cosines, then sines, of each pair's angle at each position: ``(max_len, d_head)``."""
        return torch.cat((cos, sin), dim=-1)

    def forward(self, x: Tensor, offset: int = 0) -> Tensor:
        """Rotate the vectors at positions ``offset`` to ``offset + T - 1``.

        Args:
            x: queries or keys, ``(B, H, T, d_head)``.
            offset: as for :meth:`SinusoidalPositions.forward`.

        Returns:
            ``(B, H, T, d_head)``, in ``x``'s dtype.

        Raises:
            TypeError, ValueError: as :meth:`SinusoidalPositions.forward`.
        """
        check_floating("x", x, "B", "H", "T", self.d_head)
        rows = rows_of(self.table.to(x.device), x.size(2), offset)  # (T, d_head)
        cos, sin = rows.chunk(2, dim=-1)  # (T, d_head / 2)
        first, second = x.chunk(2, dim=-1)  # (B, H, T, d_head / 2)
        # The products are float32 like the table: round once, at the end.
        turned = torch.cat((first * cos - second * sin, first * sin + second * cos), dim=-1)
        return turned.to(x.dtype)
