"""Relative positions: learned vectors, a learned number or a fixed penalty for each distance."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from transformer_lib.positions.common import check_floating, distances
from transformer_lib.validation import (
    check_count,
    check_integers,
    check_lengths,
    check_type,
    wide,
)

__all__ = ["RelativePositionBias", "RelativePositions", "alibi_bias"]

_BUCKETS, _FARTHEST = 32, 128  # T5's


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

    def scores(self, query: Tensor, s: int, positions: Tensor | None = None) -> Tensor:
        r"""Return what distance adds to the scores before scaling: :math:`q_i \cdot a^K`.

        Args:
            query: ``(B, H, T, d_head)``, the last ``T`` of ``s`` positions.
            s: number of keys.
            positions: integers ``(B, s)``, the position of each key, if rows differ.

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
        index = self._row(query, s, positions)  # (B, H, T, s)
        products = wide(query @ self.key.to(query).T)  # (B, H, T, 2k + 1)
        return products.gather(-1, index)

    def mix(self, weights: Tensor, positions: Tensor | None = None) -> Tensor:
        r"""Return what distance adds to the output: :math:`\sum_j w_{ij} a^V`.

        Args:
            weights: ``(B, H, T, S)``, of queries that are the last ``T`` of ``S`` positions.
            positions: as for :meth:`scores`.

        Returns:
            ``(B, H, T, d_head)``, in the weights' dtype.

        Raises:
            TypeError, ValueError: as :meth:`scores`.
        """
        check_floating("weights", weights, "B", "H", "T", "S")
        t, s = weights.shape[2:]
        if s < t:
            raise ValueError(f"weights must have as many keys as queries or more, got {s} and {t}")
        index = self._row(weights, s, positions)  # (B, H, T, S)
        # Half precision would lose count of the many far keys that share a vector.
        kept = wide(weights)
        sums = kept.new_zeros(*kept.shape[:3], self.value.size(0))  # (B, H, T, 2k + 1)
        sums = sums.scatter_add(-1, index, kept)
        return sums.to(weights.dtype) @ self.value.to(weights)

    def _row(self, x: Tensor, s: int, positions: Tensor | None) -> Tensor:
        """Return the vector's number for each query of ``x`` ``(B, H, T, ...)`` and key."""
        b, h, t, _ = x.shape
        if positions is not None:
            check_integers("positions", positions, b, s, like=x)
        k = self.max_distance
        row = distances(t, s, x.device, positions).clamp(-k, k) + k  # (T, s), or (B, T, s)
        return row.unsqueeze(-3).expand(b, h, t, s)


class RelativePositionBias(nn.Module):
    r"""A learned number per head and bucket of distances, added to the scores.

    .. math:: e_{ij} = q_i \cdot k_j + b_{h,\,\mathrm{bucket}(j - i)}

    There are 32 buckets. In each direction, half of the buckets hold one distance each, the others
    ranges that grow logarithmically up to 128; the last one also holds all longer distances. If
    ``bidirectional``, keys before and after the query have 16 buckets each. If not, keys after the
    query count as distance 0; a causal mask hides them. The numbers start small, N(0, 0.02), so
    that attention begins with content.

    Args:
        n_heads: number of heads.
        bidirectional: whether keys after the query have buckets of their own, as an encoder needs.

    Raises:
        TypeError, ValueError: an argument of another type, no heads.

    Source:
        Raffel et al. (2020), *Exploring the Limits of Transfer Learning with a Unified
        Text-to-Text Transformer*, section 2.1; the rule for the buckets: the released code.

    Example:
        >>> bias = RelativePositionBias(n_heads=3, bidirectional=True)
        >>> bias(2, 5).shape
        torch.Size([3, 2, 5])
        >>> bias.bucket(torch.tensor([0, -1, -7, -8, -200, 1, 200])).tolist()
        [0, 1, 7, 8, 15, 17, 31]
    """

    def __init__(self, *, n_heads: int, bidirectional: bool) -> None:
        super().__init__()
        check_count("n_heads", n_heads)
        check_type("bidirectional", bidirectional, bool)
        self.bidirectional = bidirectional
        self.table = nn.Parameter(torch.empty(_BUCKETS, n_heads))
        nn.init.normal_(self.table, std=0.02)

    def bucket(self, distance: Tensor) -> Tensor:
        """Return the bucket of each distance ``j - i`` from query to key.

        Args:
            distance: integers of any shape.

        Returns:
            integers in [0, 32), same shape.

        Raises:
            TypeError: ``distance`` isn't a tensor of integers.
        """
        check_integers("distance", distance, end=None)
        n = _BUCKETS // 2 if self.bidirectional else _BUCKETS
        after = n * (distance > 0) if self.bidirectional else 0
        distance = distance.abs() if self.bidirectional else -distance.clamp(max=0)
        exact = n // 2
        # In float32, like the released models.
        ratio = (distance.clamp(min=1).float() / exact).log() / math.log(_FARTHEST / exact)
        far = (exact + (ratio * (n - exact)).long()).clamp(max=n - 1)
        return after + torch.where(distance < exact, distance, far)

    def forward(self, t: int, s: int, positions: Tensor | None = None) -> Tensor:
        """Return the bias for ``t`` queries, the last of ``s`` positions.

        Args:
            t: number of queries.
            s: number of keys.
            positions: integers ``(B, s)``, the position of each key, if rows differ.

        Returns:
            ``(n_heads, t, s)``, float32 or wider; ``(B, n_heads, t, s)`` with positions.

        Raises:
            TypeError, ValueError: lengths that aren't integers of at least 0, ``s < t``.
        """
        check_lengths(t, s)
        device = self.table.device
        if positions is None:
            every = torch.arange(-s, t, device=device)  # look up each distance once, not t times
            bias = wide(self.table)[self.bucket(every)].T  # (n_heads, s + t)
            return bias[:, distances(t, s, device) + s]  # (n_heads, t, s)
        check_integers("positions", positions, "B", s, like=self.table)
        bucket = self.bucket(distances(t, s, positions=positions))  # (B, t, s)
        return wide(self.table)[bucket].permute(0, 3, 1, 2)


def alibi_bias(
    n_heads: int,
    t: int,
    s: int | None = None,
    *,
    positions: Tensor | None = None,
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
        positions: integers ``(B, s)``, the position of each key, if rows differ.
        device: where to make the bias.

    Returns:
        float32 ``(n_heads, t, s)``, or ``(B, n_heads, t, s)`` with positions.

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
    s = t if s is None else s
    check_lengths(t, s, device)
    if positions is not None:
        check_integers("positions", positions, "B", s)
    away = -distances(t, s, device, positions).abs()  # (t, s), or (B, t, s)
    slopes = torch.tensor(slopes, dtype=torch.float32, device=away.device)  # (n_heads,)
    return slopes[:, None, None] * away.unsqueeze(-3)
