"""The loss of a translator: a sum, and the number of tokens it is a sum over."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from transformer_lib.arguments import check_count, check_number

__all__ = ["Loss", "check_pad_id", "cross_entropy"]

_INTEGERS = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)


class Loss(NamedTuple):
    """A summed loss and its count, so that whoever adds up several divides once, by all tokens."""

    total: Tensor  # (), the sum over tokens
    count: Tensor  # (), how many tokens were summed

    @property
    def mean(self) -> Tensor:
        """Loss per token; 0 if there was no token."""
        return self.total / self.count.clamp(min=1)


def cross_entropy(
    logits: Tensor, labels: Tensor, *, label_smoothing: float = 0.0, pad_id: int = 0
) -> Loss:
    r"""Cross-entropy between label-smoothed targets and the softmax of the logits.

    .. math:: \sum_t \Big[ -(1 - \epsilon) \log p_t(y_t)
              - \frac{\epsilon}{V} \sum_{k=1}^{V} \log p_t(k) \Big]

    Args:
        logits: ``(..., V)``, as they come out of the model: no softmax, no log-softmax.
        labels: ``(...)`` integers in ``[0, V)``.
        label_smoothing: ε, the share of probability spread evenly over all V tokens.
        pad_id: positions with this label are left out of the sum and the count.

    Returns:
        ``Loss(total, count)``, both of shape ``()``. Nothing but padding gives ``(0, 0)``,
        with gradients of zero.

    Raises:
        TypeError: logits that are no floating-point tensor, labels that are no tensor of integers.
        ValueError: shapes or devices that do not match, a label outside the vocabulary (seen on
            CPU only: to look at values would stall a GPU), ``label_smoothing`` outside [0, 1).

    Source:
        Szegedy et al. (2016), *Rethinking the Inception Architecture*, section 7;
        Vaswani et al. (2017), section 5.4, with ε = 0.1.

    Example:
        >>> loss = cross_entropy(torch.zeros(2, 3, 7), torch.tensor([[4, 5, 0], [6, 0, 0]]))
        >>> loss.count
        tensor(3)
        >>> torch.testing.assert_close(loss.mean, torch.tensor(7.0).log())
    """
    _check(logits, labels, pad_id)
    check_number("label_smoothing", label_smoothing, 0, 1)
    vocab_size = logits.size(-1)
    labels = labels.long()
    keep = labels != pad_id
    if labels.device.type == "cpu":
        outside = labels[keep & ((labels < 0) | (labels >= vocab_size))]
        if outside.numel():
            raise ValueError(f"labels must be in [0, {vocab_size}), got {outside[0].item()}")
    each = _CrossEntropy.apply(
        logits.reshape(-1, vocab_size),
        labels.masked_fill(~keep, 0).reshape(-1),  # pad_id need not be in the vocabulary
        label_smoothing,
    )
    return Loss(each.masked_fill(~keep.reshape(-1), 0.0).sum(), keep.sum())


def _check(logits: Any, labels: Any, pad_id: Any) -> None:
    for name, tensor in (("logits", logits), ("labels", labels)):
        if not isinstance(tensor, Tensor):
            raise TypeError(f"{name} must be a tensor, got {type(tensor).__name__}")
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
    check_pad_id(pad_id)


def check_pad_id(pad_id: Any) -> None:
    """Raise unless it is an integer of 64 bits, negative ones included: it need be no token."""
    check_count("pad_id", pad_id, -(2**63))
    if pad_id >= 2**63:
        raise ValueError(f"pad_id must be below 2^63, got {pad_id}")


class _CrossEntropy(torch.autograd.Function):
    """Loss per token; its gradient is softmax minus smoothed target.

    ``F.cross_entropy`` with smoothing goes through up to six tensors of the logits' size, the
    largest tensors there are in training. This makes do with three: logits,
    log-probabilities, gradient.
    """

    @staticmethod
    def forward(ctx: Any, logits: Tensor, labels: Tensor, smoothing: float) -> Tensor:
        exact = torch.promote_types(logits.dtype, torch.float32)  # a half would lose small terms
        log_p = logits.log_softmax(-1, dtype=exact)  # (N, V)
        ctx.save_for_backward(log_p, labels)
        ctx.smoothing, ctx.dtype = smoothing, logits.dtype
        true = log_p.gather(-1, labels[:, None])[:, 0]  # (N,)
        return -(1 - smoothing) * true - smoothing * log_p.mean(-1)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        log_p, labels = ctx.saved_tensors
        difference = log_p.exp().sub_(ctx.smoothing / log_p.size(-1))  # (N, V)
        true = difference.new_full((len(labels), 1), ctx.smoothing - 1)
        difference.scatter_add_(-1, labels[:, None], true)
        return difference.mul_(gradient[:, None]).to(ctx.dtype), None, None
