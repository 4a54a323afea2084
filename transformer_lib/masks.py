"""Masks: bool tensors, True = may attend, broadcastable to ``(B, H, T, S)``.

A mask hides *keys*, never queries: the loss drops what a padded query computes. In
``nn.MultiheadAttention`` and ``nn.Transformer`` True means hidden: invert their masks with ``~``.
No check can notice an inverted mask. Combine masks with ``&``.
"""

import torch
from torch import Tensor

from transformer_lib.validation import check_count, check_id, check_integers, check_lengths

__all__ = ["causal_mask", "local_mask", "padding_mask"]


def padding_mask(ids: Tensor, pad_id: int) -> Tensor:
    """Let every query attend to the real tokens and none of the padding.

    Args:
        ids: token ids, integers ``(B, S)``.
        pad_id: the padding token's id, ``config.pad_id`` of the model that reads the ids.

    Returns:
        bool ``(B, 1, 1, S)``, True at real tokens.

    Raises:
        TypeError: ids or ``pad_id`` aren't integers.
        ValueError: another shape, or a negative ``pad_id``.

    Example:
        >>> padding_mask(torch.tensor([[5, 6, 0]]), pad_id=0).tolist()
        [[[[True, True, False]]]]
    """
    check_integers("ids", ids, "B", "S", end=None)
    check_id("pad_id", pad_id)
    return (ids.long() != pad_id)[:, None, None, :]  # int32 would wrap a large pad_id


def causal_mask(t: int, s: int | None = None, *, device: torch.device | None = None) -> Tensor:
    """Let each query attend to its own position and those before it.

    With a cache there are more keys than queries. The ``t`` queries are the *last* of ``s``
    positions, so query ``i`` is at position ``s - t + i``.

    Args:
        t: number of queries.
        s: number of keys; ``t`` if None.
        device: where to make the mask.

    Returns:
        bool ``(t, s)``, True on and below the diagonal that ends in the bottom right corner.

    Raises:
        TypeError: sizes that aren't integers.
        ValueError: negative sizes, or fewer keys than queries.

    Source:
        Vaswani et al. (2017), section 3.2.3.

    Example:
        >>> causal_mask(2, 4).int().tolist()
        [[1, 1, 1, 0], [1, 1, 1, 1]]
    """
    s = check_lengths(t, s, device)
    return with_causality(None, t, s, device)


def local_mask(
    t: int, s: int | None = None, *, window: int, device: torch.device | None = None
) -> Tensor:
    """Let each query attend to the keys at most ``window`` positions away, on either side.

    As in :func:`causal_mask`, the ``t`` queries are the *last* of ``s`` positions. Both masks
    together let a query attend to itself and the ``window`` keys before it.

    Args:
        t, s, device: as for :func:`causal_mask`.
        window: the largest distance; with 0 a query attends to itself only.

    Returns:
        bool ``(t, s)``.

    Raises:
        TypeError, ValueError: as :func:`causal_mask`.

    Source:
        Vaswani et al. (2017), section 4: self-attention restricted to a neighborhood of size r,
        which is 2 ``window`` + 1.

    Example:
        >>> local_mask(4, window=1).int().tolist()
        [[1, 1, 0, 0], [1, 1, 1, 0], [0, 1, 1, 1], [0, 0, 1, 1]]
    """
    s = check_lengths(t, s, device)
    check_count("window", window, least=0)
    positions = torch.arange(s, device=device)
    return (positions[s - t :, None] - positions).abs() <= min(window, s)


def with_causality(mask: Tensor | None, t: int, s: int, device: torch.device | None) -> Tensor:
    """Return the mask joined with :func:`causal_mask`, without checks."""
    causal = torch.ones(t, s, dtype=torch.bool, device=device).tril(s - t)  # (T, S)
    return causal if mask is None else mask & causal
