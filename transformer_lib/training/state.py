"""The state of a run, and whether another run may continue from it."""

from __future__ import annotations

import hashlib
import inspect
import math
import random
from collections.abc import Iterator
from dataclasses import asdict, dataclass, is_dataclass
from itertools import islice
from typing import Any, Protocol

import torch
from torch import Tensor, nn

__all__ = [
    "BatchSource",
    "Progress",
    "check_batch",
    "describe",
    "padding_of",
    "random_state",
    "set_random_state",
]


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


@dataclass
class Progress:
    """What it takes to resume a run, besides its tensors and random state."""

    step: int = 0
    epoch: int = 0  # epochs completed
    index: int = 0  # batches of this epoch already used
    tokens: int = 0
    seconds: float = 0.0
    validated: int = 0  # step of the last validation
    best: float = math.inf  # lowest validation loss
    since_best: int = 0  # validations since then
    window_loss: float = 0.0  # since the last log entry
    window_tokens: int = 0
    window_seconds: float = 0.0


def describe(model: nn.Module, batches: BatchSource) -> dict[str, Any]:
    """What identifies a run besides its training settings: its model and its data."""
    config = getattr(model, "config", None)
    sizes = (
        {f"model.{name}": value for name, value in asdict(config).items()}
        if is_dataclass(config) and not isinstance(config, type)
        else {"model": str(model)}
    )
    # The first batch depends on the text, the vocabulary, the seed and the batch size.
    digest = hashlib.sha256(str(len(batches)).encode())
    for batch in islice(batches.epoch(0), 1):
        check_batch(model, batch)
        for tensor in batch:
            digest.update(repr(tensor.tolist()).encode())
    return sizes | {"data": digest.hexdigest()[:16]}


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


def random_state(device: torch.device) -> dict[str, Any]:
    """The state of every generator that training draws from."""
    state: dict[str, Any] = {"python": random.getstate(), "torch": torch.get_rng_state()}
    if device.type == "cuda":
        state["cuda"] = torch.cuda.get_rng_state(device)
    return state


def set_random_state(state: dict[str, Any], device: torch.device) -> None:
    """Restore what :func:`random_state` returned."""
    random.setstate(state["python"])
    torch.set_rng_state(state["torch"])
    if device.type == "cuda" and "cuda" in state:
        torch.cuda.set_rng_state(state["cuda"], device)
