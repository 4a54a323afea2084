"""Masks: bool tensors, True = may attend, broadcastable to ``(B, H, T, S)``.

A mask hides *keys*. Queries are never hidden: what a padded query computes is
dropped by the loss. ``nn.MultiheadAttention`` and ``nn.Transformer`` mean the
opposite by their bool masks (True = hidden).
"""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["causal_mask", "padding_mask"]


def padding_mask(ids: Tensor, pad_id: int = 0) -> Tensor:
    """Let every query see the real tokens and none of the padding.

    Args:
        ids: token ids, integer, ``(B, S)``.
        pad_id: the id that fills up short rows.

    Returns:
        bool ``(B, 1, 1, S)``, True at real tokens.

    Raises:
        TypeError: ids that are not integers.
        ValueError: ids that are not ``(B, S)``.

    Example:
        >>> padding_mask(torch.tensor([[5, 6, 0]])).tolist()
        [[[[True, True, False]]]]
    """
    if ids.is_floating_point() or ids.is_complex() or ids.dtype is torch.bool:
        raise TypeError(f"ids must be integers, got {ids.dtype}")
    if ids.dim() != 2:
        raise ValueError(f"ids must have shape (B, S), got {tuple(ids.shape)}")
    return (ids != pad_id)[:, None, None, :]


def causal_mask(t: int, s: int | None = None, *, device: torch.device | None = None) -> Tensor:
    """Let query ``i`` see the keys up to and including its own position.

    With a cache there are more keys than queries: the ``t`` queries are the *last*
    of ``s`` positions, so query ``i`` sits at position ``s - t + i``.

    Args:
        t: number of queries.
        s: number of keys; as many as queries if None.
        device: where to make the mask.

    Returns:
        bool ``(t, s)``, True on and below the diagonal that ends at the last corner.

    Raises:
        ValueError: negative sizes, or fewer keys than queries.

    Source:
        Vaswani et al. (2017), section 3.2.3.

    Example:
        >>> causal_mask(2, 4).int().tolist()
        [[1, 1, 1, 0], [1, 1, 1, 1]]
    """
    s = t if s is None else s
    if t < 0:
        raise ValueError(f"t must be at least 0, got {t}")
    if s < t:
        raise ValueError(f"s ({s}) must be at least t ({t}): the queries are the last keys")
    return torch.ones(t, s, dtype=torch.bool, device=device).tril(s - t)
