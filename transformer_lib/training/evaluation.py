"""What a model is trained and measured on, and how well it predicts each token of it."""

import inspect
import math
from collections.abc import Iterator
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from transformer_lib.decoding.protocol import modes_kept
from transformer_lib.training.losses import cross_entropy, is_counted
from transformer_lib.validation import check_type

__all__ = ["BatchSource", "check_batch", "evaluate", "padding_of"]


class BatchSource(Protocol):
    """What :func:`~transformer_lib.training.loop.fit` trains on."""

    def epoch(self, epoch: int, /) -> Iterator[Any]:
        """Return the batches of an epoch (the first is 0), the same at every call.

        A batch is a tuple of tensors with a method ``to(device)``: the model's arguments, then the
        labels. Labels that are padding aren't learned: the ``pad_id`` of ``model.config``, or else
        of the ``special_ids`` of these batches. If neither has special ids, every label counts.
        """
        ...

    def __len__(self) -> int:
        """Return about how many batches an epoch has, for the progress bar and learning rate."""
        ...


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


def check_batch(model: nn.Module, batch: Any) -> None:
    """Raise a TypeError unless the batch is a tuple: the model's arguments, then the labels."""
    if not isinstance(batch, tuple):
        raise TypeError(f"batches must give tuples of tensors, got {type(batch).__name__}")
    for tensor in batch:
        if not isinstance(tensor, Tensor):
            raise TypeError(
                f"batches must give tuples of tensors, got one with a {type(tensor).__name__}"
            )
    try:
        inspect.signature(model.forward).bind(*batch[:-1])
    except TypeError as error:
        raise TypeError(
            f"batches must give model's arguments, then labels; got {len(batch)} tensors: {error}"
        ) from error


def padding_of(model: nn.Module, batches: BatchSource) -> int | None:
    """The padding id of the labels, from the model or the batches; None if neither has one.

    Raises:
        ValueError: model and batches have different special ids.
    """
    ids = getattr(getattr(model, "config", None), "special_ids", None)
    theirs = getattr(batches, "special_ids", None)
    if ids is not None and theirs is not None and ids != theirs:
        raise ValueError(
            f"batches must have the special ids of model.config, {ids}; got {theirs}. Make them "
            f"with special_ids=model.config"
        )
    found = theirs if ids is None else ids
    return None if found is None else found.pad_id
