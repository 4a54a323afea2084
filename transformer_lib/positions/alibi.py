"""ALiBi: attention with linear biases, a penalty that grows with the distance."""

from __future__ import annotations

import torch
from torch import Tensor

from transformer_lib.arguments import check_count
from transformer_lib.positions.common import distances

__all__ = ["alibi_bias"]


def alibi_bias(
    n_heads: int,
    t: int,
    s: int | None = None,
    *,
    positions: Tensor | None = None,
    device: torch.device | str | None = None,
) -> Tensor:
    r"""What to add to the scores so that far keys count less, in each head differently.

    .. math:: b_{hij} = -m_h \, |i - j|, \quad m_h = 2^{-8h/H}, \; h = 1, \dots, H

    These are the slopes if ``H`` is a power of two. For another number of heads, take the slopes of
    the next lower power of two, then every other slope of the next higher one, beginning with its
    first. The paper's model is causal; here keys after the query are penalized like those before
    it, and a causal mask hides them. Nothing is learned.

    Args:
        n_heads: number of heads.
        t: number of queries, the last of ``s`` positions.
        s: number of keys; as many as queries if None.
        positions: integers ``(B, s)``, where each key stands, if rows differ.
        device: where to make the bias.

    Returns:
        float32 ``(n_heads, t, s)``, or ``(B, n_heads, t, s)`` with positions.

    Raises:
        TypeError, ValueError: numbers that are not integers, or too small; ``s < t``.

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
    away = -distances(t, s, device, positions).abs()  # (t, s), or (B, t, s)
    slopes = torch.tensor(slopes, dtype=torch.float32, device=away.device)  # (n_heads,)
    return slopes[:, None, None] * away.unsqueeze(-3)
