"""What decoding needs from a model, and what it returns."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor, nn

from transformer_lib.validation import check_count, check_id, check_ids


class State(Protocol):
    """What a model remembers about each row of a batch from one step to the next."""

    def reorder(self, index: Tensor) -> None:
        """Replace the rows by those at ``index``, integers ``(B',)``, in place.

        A row may move, disappear, or be repeated.
        """
        ...


class StepModel(Protocol):
    """What decoding needs from a model.

    Decoding takes the ids of ``<pad>``, ``<bos>`` and ``<eos>`` from ``config.special_ids``, which
    every model of this library has. For a model without them, pass them as arguments.

    Example:
        A model that always gives the same logits has nothing to remember:

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

    def start(self, source: Tensor) -> State:
        """Map source ids ``(B, S)`` to a state with ``B`` rows."""
        ...

    def step(self, tokens: Tensor, state: Any) -> tuple[Tensor, State]:
        """Map the newest tokens ``(B,)`` and a state to logits ``(B, vocab_size)`` and a state."""
        ...


class Generation(NamedTuple):
    """Generated texts, without ``<bos>``; after ``<eos>`` there is only padding."""

    ids: Tensor  # (B, length), int64
    scores: Tensor  # (B,), natural log of the probability of ids, <eos> included


class Beams(NamedTuple):
    """The ``n`` best texts that beam search found for each row, best first.

    If it found fewer than ``n``, the rest are padding with scores and ranks of minus infinity.
    """

    ids: Tensor  # (B, n, length), int64; after <eos> there is only padding
    scores: Tensor  # (B, n), natural log of the probability of ids, <eos> included
    ranks: Tensor  # (B, n), scores divided by the length penalty; texts are sorted by these

    @property
    def best(self) -> Generation:
        """The best text of each row."""
        return Generation(self.ids[:, 0], self.scores[:, 0])


@contextmanager
def modes_kept(model: nn.Module) -> Iterator[None]:
    """After the block, put each module back in the mode it was in, training or evaluation."""
    # Module by module: a frozen part may be in evaluation mode while the rest is training.
    modes = {module: module.training for module in model.modules()}
    try:
        yield
    finally:
        for module, training in modes.items():
            module.training = training


@contextmanager
def evaluating(model: object) -> Iterator[None]:
    """Put every module of ``model`` into evaluation mode inside the block, without gradients.

    Tensors made inside must be cloned after the block before they can be used in training.

    Example:
        >>> model = nn.Dropout(0.5)
        >>> with evaluating(model):
        ...     model.training
        False
        >>> model.training
        True
    """
    module = model if isinstance(model, nn.Module) else nn.Module()
    with modes_kept(module), torch.inference_mode():
        module.eval()
        yield


def check_request(
    model: object,
    source: object,
    max_len: object,
    bos_id: int | Tensor | None,
    eos_id: int | None,
    pad_id: int | None,
) -> tuple[int | Tensor, int, int]:
    """Check what all decoders take; return the ids to decode with."""
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
    if not isinstance(bos_id, Tensor):
        check_id("bos_id", bos_id, vocab_size)
    elif bos_id.shape != source.shape[:1]:
        raise ValueError(
            f"bos_id must have shape {tuple(source.shape[:1])}, one id per row of source; "
            f"got {tuple(bos_id.shape)}"
        )
    else:
        check_ids("bos_id", bos_id[:, None], vocab_size or 2**63)
    check_id("eos_id", eos_id)  # outside the vocabulary, it means that no row ever ends
    check_id("pad_id", pad_id, vocab_size)
    return bos_id, eos_id, pad_id


def _own(config: object, name: str) -> int:
    own = getattr(config, "special_ids", None)
    if own is None:
        raise ValueError(f"{name} must be given: the model has no config.special_ids")
    return getattr(own, name)


def first_tokens(bos_id: int | Tensor, source: Tensor) -> Tensor:
    """Return the token that each row begins with, ``(B,)``."""
    if isinstance(bos_id, Tensor):
        return bos_id.to(source.device, torch.int64)
    return torch.full(source.shape[:1], bos_id, device=source.device)


def log_probabilities(logits: Tensor, tokens: Tensor) -> Tensor:
    """Normalize the logits ``(B, vocab_size)`` after ``tokens`` ``(B,)``, in float32."""
    if logits.dim() != 2 or len(logits) != len(tokens):
        raise ValueError(
            f"model must return logits of shape ({len(tokens)}, vocab_size), "
            f"got {tuple(logits.shape)}"
        )
    return logits.float().log_softmax(dim=-1)


def check_scores(scores: Tensor) -> None:
    """Raise if a score is NaN. A sum stays NaN, so it's enough to check at the end."""
    if scores.isnan().any():
        raise ValueError("model must return finite logits, got NaN or infinity")
