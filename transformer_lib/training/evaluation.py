"""How well does a model predict each token, given the correct ones before it?"""

from __future__ import annotations

import math

import torch
from torch import nn

from transformer_lib.decoding.protocol import modes_kept
from transformer_lib.training.losses import cross_entropy, is_counted
from transformer_lib.training.state import BatchSource, check_batch, padding_of
from transformer_lib.validation import check_type

__all__ = ["evaluate"]


@torch.no_grad()  # not inference mode, which would stick to what fully_shard gathers
def evaluate(model: nn.Module, batches: BatchSource) -> dict[str, float]:
    """Compute loss, perplexity and accuracy per token over one epoch, in evaluation mode.

    The loss isn't smoothed, so that runs with different smoothing can be compared.

    Args:
        model: as for :func:`~transformer_lib.training.loop.fit`.
        batches: likewise; ``batches.epoch(0)`` is measured, without padding.

    Returns:
        ``{"loss": …, "perplexity": …, "accuracy": …}``; perplexity is ``exp(loss)``, accuracy the
        share of tokens to which the model gave the highest probability.

    Raises:
        TypeError: an argument of the wrong type.
        ValueError: no token to predict; special ids that differ from the model's.
    """
    check_type("model", model, nn.Module)
    if not callable(getattr(batches, "epoch", None)):
        raise TypeError(f"batches must have epoch(), got {type(batches).__name__}")
    pad_id = padding_of(model, batches)
    device = next((p.device for p in model.parameters()), torch.device("cpu"))
    loss, right, count = 0.0, 0, 0
    with modes_kept(model):
        model.eval()
        for batch in batches.epoch(0):
            check_batch(model, batch)
            count += int(is_counted(batch[-1], pad_id).sum())
            *inputs, labels = batch.to(device)
            logits = model(*inputs).float()
            loss += cross_entropy(logits, labels, pad_id=pad_id).total.item()
            right += ((logits.argmax(-1) == labels) & is_counted(labels, pad_id)).sum().item()
    if count == 0:
        raise ValueError("batches must hold at least one token that is not padding")
    mean = loss / count
    return {"loss": mean, "perplexity": math.exp(min(mean, 700.0)), "accuracy": right / count}
