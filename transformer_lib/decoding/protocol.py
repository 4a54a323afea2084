"""What decoding asks of a model, and what it gives back."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple, Protocol, TypeVar

import torch
from torch import Tensor, nn

from transformer_lib.validation import check_count, check_id, check_ids

__all__ = ["Beams", "Generation", "State", "StepModel", "evaluating"]


class State(Protocol):
    """What a model remembers of each row of a batch between two steps."""

    def reorder(self, index: Tensor) -> None:
        """Keep the rows ``index``, integers ``(B',)``, in place.

        A row may move, be left out, or be kept several times.
        """
        ...


StateT = TypeVar("StateT", bound=State)


class StepModel(Protocol[StateT]):
    """What decoding needs from a model. State belongs to the caller, not to the model.

    If there is a ``config``, as in the models of this library, decoding takes the ids of padding,
    begin and end from its ``special_ids``. Otherwise they must be given.

    Example:
        A model that always says the same has nothing to remember:

        >>> from transformer_lib.config import SpecialIds
        >>> class Nothing:
        ...     def reorder(self, index: Tensor) -> None:
        ...         pass
        >>> class Same:
        ...     config = SpecialIds()
        ...     def start(self, source: Tensor) -> Nothing:
        ...         return Nothing()
        ...     def step(self, tokens: Tensor, state: Nothing) -> tuple[Tensor, Nothing]:
        ...         return torch.tensor([[0.0, 0.0, 1.0, 3.0]]).expand(len(tokens), -1), state
        >>> from transformer_lib.decoding import greedy
        >>> greedy(Same(), torch.tensor([[5]]), max_len=3).ids
        tensor([[3, 3, 3]])
    """

    def start(self, source: Tensor) -> StateT:
        """Source ids ``(B, S)`` to a state of ``B`` rows."""
        ...

    def step(self, tokens: Tensor, state: StateT) -> tuple[Tensor, StateT]:
        """Newest tokens ``(B,)`` and a state to logits ``(B, vocab_size)`` and a state."""
        ...


class Generation(NamedTuple):
    """What was generated, without the begin token; after ``eos`` come only pads."""

    ids: Tensor  # (B, length), int64
    scores: Tensor  # (B,), natural log of the probability of ids, eos included


class Beams(NamedTuple):
    """The ``n`` best texts that a beam search found for each row, the best first.

    Where fewer than ``n`` were found, the rest are pads with scores and ranks of minus infinity.
    """

    ids: Tensor  # (B, n, length), int64; after eos come only pads
    scores: Tensor  # (B, n), natural log of the probability of ids, eos included
    ranks: Tensor  # (B, n), scores over the length penalty: what they are sorted by

    @property
    def best(self) -> Generation:
        """The first of each row."""
        return Generation(self.ids[:, 0], self.scores[:, 0])


@contextmanager
def evaluating(model: object) -> Iterator[None]:
    """Put every module of ``model`` into evaluation mode inside the block, without gradients.

    Tensors made inside may never be trained on; a ``clone()`` made afterwards may.

    Example:
        >>> model = nn.Dropout(0.5)
        >>> with evaluating(model):
        ...     model.training
        False
        >>> model.training
        True
    """
    # Each module by itself: one may be frozen in evaluation mode while the rest is training.
    modules = model.modules() if isinstance(model, nn.Module) else ()
    modes = {module: module.training for module in modules}
    for module in modes:
        module.training = False
    try:
        with torch.inference_mode():
            yield
    finally:
        for module, training in modes.items():
            module.training = training


def check_request(
    model: object,
    source: object,
    max_len: object,
    bos_id: int | Tensor | None,
    eos_id: int | None,
    pad_id: int | None,
) -> tuple[int | Tensor, int, int]:
    """Raise if no decoder could work with these arguments; return the ids to decode with."""
    methods = (getattr(model, "start", None), getattr(model, "step", None))
    if isinstance(model, type) or not all(map(callable, methods)):
        raise TypeError(f"model must have the methods start and step, got {type(model).__name__}")
    if not isinstance(source, Tensor):
        raise TypeError(f"source must be a tensor of token ids, got {type(source).__name__}")
    if source.dim() == 0 or source.size(0) == 0:
        raise ValueError(f"source must not be empty, got shape {tuple(source.shape)}")
    check_count("max_len", max_len)
    config = getattr(model, "config", None)
    vocab_size = getattr(config, "vocab_size", None)
    bos_id = _own(config, "bos_id") if bos_id is None else bos_id
    eos_id = _own(config, "eos_id") if eos_id is None else eos_id
    pad_id = _own(config, "pad_id") if pad_id is None else pad_id
    if isinstance(bos_id, Tensor):
        _check_begin(bos_id, source, vocab_size)
    else:
        check_id("bos_id", bos_id, vocab_size)
    check_id("eos_id", eos_id)  # an id that the model never says lets no row end
    check_id("pad_id", pad_id, vocab_size)
    return bos_id, eos_id, pad_id


def _own(config: object, name: str) -> int:
    own = getattr(config, "special_ids", None)
    if own is None:
        raise ValueError(f"{name} must be given: the model has no config.special_ids")
    return getattr(own, name)


def _check_begin(bos_id: Tensor, source: Tensor, vocab_size: int | None) -> None:
    if bos_id.dtype not in (torch.int64, torch.int32):
        raise TypeError(f"bos_id must be int64 or int32, got {bos_id.dtype}")
    if bos_id.shape != source.shape[:1]:
        raise ValueError(
            f"bos_id must have shape {tuple(source.shape[:1])}, an id for each row of source; "
            f"got {tuple(bos_id.shape)}"
        )
    if bos_id.device.type == "cpu" and bos_id.min() < 0:  # a GPU would have to stop and wait
        raise ValueError(f"bos_id must be at least 0, got {int(bos_id.min())}")
    if bos_id.is_meta:
        raise ValueError("bos_id must hold ids, got a tensor on the meta device")
    if vocab_size is not None:
        check_ids("bos_id", bos_id[:, None], vocab_size)


def first_tokens(bos_id: int | Tensor, source: Tensor) -> Tensor:
    """The token that each row of ``source`` begins with, ``(B,)``."""
    if isinstance(bos_id, Tensor):
        return bos_id.to(source.device, torch.int64)
    return torch.full(source.shape[:1], bos_id, device=source.device)


def log_probabilities(logits: Tensor, tokens: Tensor) -> Tensor:
    """Logits ``(B, vocab_size)`` of a step from ``tokens`` ``(B,)``, normalized in float32."""
    if logits.dim() != 2 or len(logits) != len(tokens):
        raise ValueError(
            f"model must give logits of shape ({len(tokens)}, vocab_size), "
            f"got {tuple(logits.shape)}"
        )
    return logits.float().log_softmax(dim=-1)


def check_scores(scores: Tensor) -> None:
    """Raise if a score is not a number. It stays so once it is, so one look at the end will do."""
    if scores.isnan().any():
        raise ValueError("model must give numbers as logits, got NaN or infinity")
