"""Relative positions: learned vectors or a fixed penalty for each distance."""

from typing import Any

import torch
from torch import Tensor, nn

from transformer_lib.validation import check_count, check_floating, check_lengths, wide


class RelativePositions(nn.Module):
    r"""Learned vectors per distance, added to the keys and values of one attention.

    .. math::
        e_{ij} = \frac{q_i \cdot (k_j + a^K_{r(i,j)})}{\sqrt d}, \quad
        z_i = \sum_j w_{ij} (v_j + a^V_{r(i,j)}), \quad
        r(i,j) = \min(\max(j - i, -k), k)

    This module computes the two terms with an ``a``, from ``2k + 1`` products per query, without
    storing a vector per pair of positions. All heads share the vectors, which start small,
    N(0, 0.02), so that attention begins with content.

    Args:
        d_head: width of one head.
        max_distance: ``k``; keys farther away count as ``k`` away.

    Raises:
        TypeError, ValueError: an argument that isn't an integer above 0.

    Source:
        Shaw et al. (2018), *Self-Attention with Relative Position Representations*,
        sections 3.1 to 3.3.

    Example:
        >>> relative = RelativePositions(d_head=4, max_distance=2)
        >>> query, weights = torch.randn(1, 3, 2, 4), torch.rand(1, 3, 2, 7).softmax(-1)
        >>> relative.scores(query, 7).shape, relative.mix(weights).shape
        (torch.Size([1, 3, 2, 7]), torch.Size([1, 3, 2, 4]))
    """

    def __init__(self, *, d_head: int, max_distance: int = 16) -> None:
        super().__init__()
        check_count("d_head", d_head)
        check_count("max_distance", max_distance)
        self.d_head, self.max_distance = d_head, max_distance
        self.key = nn.Parameter(torch.empty(2 * max_distance + 1, d_head))
        self.value = nn.Parameter(torch.empty(2 * max_distance + 1, d_head))
        nn.init.normal_(self.key, std=0.02)
        nn.init.normal_(self.value, std=0.02)

    def scores(self, query: Tensor, s: int) -> Tensor:
        r"""Return what distance adds to the scores before scaling: :math:`q_i \cdot a^K`.

        Args:
            query: ``(B, H, T, d_head)``, the last ``T`` of ``s`` positions.
            s: number of keys.

        Returns:
            ``(B, H, T, s)``, float32 or wider.

        Raises:
            TypeError: ``query`` isn't floating point, or ``s`` isn't an integer.
            ValueError: another shape, or fewer keys than queries.
        """
        check_floating("query", query, "B", "H", "T", self.d_head)
        check_count("s", s, least=0)
        if s < query.size(2):
            raise ValueError(f"s ({s}) must be at least the length of query ({query.size(2)})")
        index = self._row(query, s)  # (B, H, T, s)
        products = wide(query @ self.key.to(query).T)  # (B, H, T, 2k + 1)
        return products.gather(-1, index)

    def mix(self, weights: Tensor) -> Tensor:
        r"""Return what distance adds to the output: :math:`\sum_j w_{ij} a^V`.

        Args:
            weights: ``(B, H, T, S)``, of queries that are the last ``T`` of ``S`` positions.

        Returns:
            ``(B, H, T, d_head)``, in the weights' dtype.

        Raises:
            TypeError, ValueError: as :meth:`scores`.
        """
        check_floating("weights", weights, "B", "H", "T", "S")
        t, s = weights.shape[2:]
        if s < t:
            raise ValueError(f"weights must have as many keys as queries or more, got {s} and {t}")
        index = self._row(weights, s)  # (B, H, T, S)
        # Half precision would lose count of the many far keys that share a vector.
        kept = wide(weights)
        sums = kept.new_zeros(*kept.shape[:3], self.value.size(0))  # (B, H, T, 2k + 1)
        sums = sums.scatter_add(-1, index, kept)
        return sums.to(weights.dtype) @ self.value.to(weights)

    def _row(self, x: Tensor, s: int) -> Tensor:
        """Return the vector's number for each query of ``x`` ``(B, H, T, ...)`` and key."""
        b, h, t, _ = x.shape
        k = self.max_distance
        row = _distances(t, s, x.device).clamp(-k, k) + k  # (T, s)
        return row.expand(b, h, t, s)


def alibi_bias(
    n_heads: int,
    t: int,
    s: int | None = None,
    *,
    device: torch.device | str | None = None,
) -> Tensor:
    r"""Return a fixed penalty on the scores that grows with distance, at another rate in each head.

    .. math:: b_{hij} = -m_h \, |i - j|, \quad m_h = 2^{-8h/H}, \; h = 1, \dots, H

    if ``H`` is a power of two. Otherwise take the slopes :math:`m` of the next lower power of two,
    then every other slope of the next higher one, from its first on. The paper's model is causal;
    here keys after the query are penalized like those before it.

    Args:
        n_heads: number of heads.
        t: number of queries, the last of ``s`` positions.
        s: number of keys; ``t`` if None.
        device: where to make the bias.

    Returns:
        float32 ``(n_heads, t, s)``.

    Raises:
        TypeError, ValueError: sizes that aren't integers or are too small; ``s < t``.

    Source:
        Press et al. (2022), *Train Short, Test Long*, section 3; the rule for other
        numbers of heads: their released code.

    Example:
        >>> alibi_bias(n_heads=2, t=1, s=3)
        tensor([[[-0.1250, -0.0625,  0.0000]],
        <BLANKLINE>
                [[-0.0078, -0.0039,  0.0000]]])
    """
    n_heads = check_count("n_heads", n_heads)
    power = 1 << (n_heads.bit_length() - 1)  # the greatest power of two in n_heads
    slopes = [2 ** (-8 * h / power) for h in range(1, power + 1)]
    slopes += [2 ** (-4 * h / power) for h in range(1, 2 * (n_heads - power), 2)]
    s = check_lengths(t, s, device)
    away = -_distances(t, s, device).abs()  # (t, s)
    slopes = torch.tensor(slopes, dtype=torch.float32, device=away.device)  # (n_heads,)
    return slopes[:, None, None] * away


def _distances(t: int, s: int, device: Any) -> Tensor:
    """Return how far key ``j`` is to the right of query ``i``: ``j - i``, integers ``(t, s)``."""
    positions = torch.arange(s, device=device)
    return positions - positions[s - t :, None]  # query i is at position s - t + i
