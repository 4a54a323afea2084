"""The loss: a sum, and the number of tokens in it."""

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from transformer_lib.validation import check_count, check_number, check_type, wide

__all__ = ["Loss", "cross_entropy", "is_counted", "r_drop"]


class Loss(NamedTuple):
    """A summed loss and its number of tokens: add up several, then divide once."""

    total: Tensor  # (), the sum over tokens
    count: Tensor  # (), how many tokens were summed

    @property
    def mean(self) -> Tensor:
        """The loss per token; 0 without tokens."""
        return self.total / self.count.clamp(min=1)


def cross_entropy(
    logits: Tensor, labels: Tensor, *, pad_id: int | None, label_smoothing: float = 0.0
) -> Loss:
    r"""Compute the cross-entropy between label-smoothed targets and the softmax of the logits.

    .. math:: \sum_t \Big[ -(1 - \epsilon) \log p_t(y_t)
              - \frac{\epsilon}{V} \sum_{k=1}^{V} \log p_t(k) \Big]

    Args:
        logits: ``(..., V)``, as the model returns them.
        labels: ``(...)`` integers in ``[0, V)``.
        pad_id: positions with this label are left out, ``model.config.pad_id`` for a model of this
            library; None leaves out none.
        label_smoothing: ε, the share of probability spread evenly over all V tokens.

    Returns:
        ``Loss(total, count)``, both of shape ``()``. For nothing but padding, both are 0, and so
        are the gradients.

    Raises:
        TypeError: logits that aren't a floating-point tensor, labels that aren't integers.
        ValueError: shapes or devices that don't match, a label outside the vocabulary (found on a
            CPU only), ``label_smoothing`` outside [0, 1).

    Note:
        With smoothing, a logit of minus infinity, for a forbidden token, makes the loss infinite.

    Source:
        Szegedy et al. (2016), *Rethinking the Inception Architecture*, section 7;
        Vaswani et al. (2017), section 5.4, with ε = 0.1.

    Example:
        >>> labels = torch.tensor([[4, 5, 0], [6, 0, 0]])
        >>> loss = cross_entropy(torch.zeros(2, 3, 7), labels, pad_id=0)
        >>> loss.count
        tensor(3)
        >>> torch.testing.assert_close(loss.mean, torch.tensor(7.0).log())
    """
    check_number("label_smoothing", label_smoothing, 0, 1)
    check_type("logits", logits, Tensor)
    check_type("labels", labels, Tensor)
    if not logits.is_floating_point():
        raise TypeError(f"logits must be floating point, got {logits.dtype}")
    if labels.is_floating_point() or labels.is_complex() or labels.dtype is torch.bool:
        raise TypeError(f"labels must be integers, got {labels.dtype}")
    if logits.dim() < 1 or logits.shape[:-1] != labels.shape or logits.size(-1) == 0:
        raise ValueError(
            f"logits must have the shape of labels with the vocabulary added, (..., V); "
            f"got logits {tuple(logits.shape)} and labels {tuple(labels.shape)}"
        )
    if logits.device != labels.device:
        raise ValueError(f"labels must be on {logits.device} like logits, got {labels.device}")
    check_count("pad_id", pad_id, -(2**63), optional=True)  # -100 is common, though not an id
    if pad_id is not None and pad_id >= 2**63:
        raise ValueError(f"pad_id must be below 2^63, got {pad_id}")
    vocab_size = logits.size(-1)
    labels = labels.reshape(-1).long()  # (N,), of all positions
    try:
        total = F.cross_entropy(
            wide(logits.reshape(-1, vocab_size)),
            labels,
            ignore_index=-(2**63) if pad_id is None else pad_id,  # not PyTorch's -100
            label_smoothing=label_smoothing,
            reduction="sum",
        )
    except IndexError as error:
        raise ValueError(f"labels must be in [0, {vocab_size}): {error}") from error
    return Loss(total, is_counted(labels, pad_id).sum())


def r_drop(
    logits: Tensor,
    others: Tensor,
    labels: Tensor,
    *,
    pad_id: int | None,
    alpha: float = 5.0,
    label_smoothing: float = 0.0,
) -> Loss:
    r"""Compute the cross-entropy of two passes with different dropout, and how far they disagree.

    .. math:: \frac{1}{2} \sum_t \Big[ L_t(p) + L_t(q)
              + \frac{\alpha}{2} \big( KL(p_t \| q_t) + KL(q_t \| p_t) \big) \Big]

    L is :func:`cross_entropy`. This is half of the paper's sum, so that a token counts as much as
    it does there.

    Args:
        logits, others: ``(..., V)``, from two passes of the same inputs through the same model.
        labels, pad_id, label_smoothing: as for :func:`cross_entropy`.
        alpha: α, the weight of the disagreement; 5 in the paper's translation experiments.

    Returns:
        ``Loss(total, count)``; each token is counted once.

    Raises:
        TypeError, ValueError: as for :func:`cross_entropy`; ``others`` of another shape, dtype or
            device than ``logits``; an ``alpha`` that isn't a number of at least 0.

    Source:
        Liang et al. (2021), *R-Drop: Regularized Dropout for Neural Networks*, equations 1 to 4.

    Example:
        >>> logits, labels = torch.tensor([[1.0, 0.0]]), torch.tensor([1])
        >>> same = r_drop(logits, logits, labels, pad_id=None)
        >>> same.total == cross_entropy(logits, labels, pad_id=None).total
        tensor(True)
        >>> r_drop(logits, logits.flip(-1), labels, pad_id=None).total > same.total
        tensor(True)
    """
    check_number("alpha", alpha, 0)
    first = cross_entropy(logits, labels, pad_id=pad_id, label_smoothing=label_smoothing)
    check_type("others", others, Tensor)
    kind, wanted = ((tuple(x.shape), x.dtype, x.device) for x in (others, logits))
    if kind != wanted:
        raise ValueError(f"others must be like logits, {wanted}; got {kind}")
    second = cross_entropy(others, labels, pad_id=pad_id, label_smoothing=label_smoothing)
    log_p, log_q = (wide(x).log_softmax(-1) for x in (logits, others))
    # KL(p|q) + KL(q|p) = sum of (p - q) (log p - log q)
    apart = ((log_p.exp() - log_q.exp()) * (log_p - log_q)).sum(-1)  # (...)
    apart = apart.masked_fill(~is_counted(labels, pad_id), 0.0).sum()
    return Loss((first.total + second.total + alpha / 2 * apart) / 2, first.count)


def is_counted(labels: Tensor, pad_id: int | None) -> Tensor:
    """Which labels count: bool, with the shape of the labels."""
    return torch.ones_like(labels, dtype=torch.bool) if pad_id is None else labels != pad_id
