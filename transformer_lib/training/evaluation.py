"""How good are the model's predictions, token by token, given the right beginning?"""

from __future__ import annotations

import math

import torch
from torch import nn

from transformer_lib.training.losses import check_pad_id, cross_entropy
from transformer_lib.training.state import Batches, check_batch

__all__ = ["evaluate"]


@torch.no_grad()
def evaluate(model: nn.Module, batches: Batches, *, pad_id: int = 0) -> dict[str, float]:
    """Loss, perplexity and accuracy per token over one epoch, in evaluation mode.

    The loss is not smoothed, so that runs with different smoothing compare.

    Args:
        model: as :func:`~transformer_lib.training.trainer.fit` takes it.
        batches: likewise; ``batches.epoch(0)`` is measured.
        pad_id: label that does not count.

    Returns:
        ``{"loss": …, "perplexity": …, "accuracy": …}``; perplexity is ``exp(loss)``, accuracy the
        share of tokens that were the model's first choice.

    Raises:
        TypeError: an argument of another kind.
        ValueError: there was no token to predict.
    """
    if not isinstance(model, nn.Module):
        raise TypeError(f"model must be a Module, got {type(model).__name__}")
    if not callable(getattr(batches, "epoch", None)):
        raise TypeError(f"batches must have epoch(), got {type(batches).__name__}")
    check_pad_id(pad_id)
    device = next((p.device for p in model.parameters()), torch.device("cpu"))
    loss, right, count = 0.0, 0, 0
    was_training = model.training
    model.eval()
    try:
        for batch in batches.epoch(0):
            check_batch(model, batch)
            count += int((batch[-1] != pad_id).sum())
            *inputs, labels = batch.to(device)
            logits = model(*inputs).float()
            loss += cross_entropy(logits, labels, pad_id=pad_id).total.item()
            right += ((logits.argmax(-1) == labels) & (labels != pad_id)).sum().item()
    finally:
        model.train(was_training)
    if count == 0:
        raise ValueError("batches must hold at least one token that is not padding")
    mean = loss / count
    return {"loss": mean, "perplexity": math.exp(min(mean, 700.0)), "accuracy": right / count}
