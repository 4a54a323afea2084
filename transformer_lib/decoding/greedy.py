"""From logits to text, for any model that can take one step at a time."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor, nn

__all__ = ["Generation", "StepModel", "greedy"]


class StepModel(Protocol):
    """What decoding needs from a model. State belongs to the caller, not the model.

    A state also has ``reorder(index)``, which keeps the rows ``index`` of its batch.
    """

    def start(self, source: Tensor) -> Any:
        """Source ids ``(B, S)`` to a state."""
        ...

    def step(self, tokens: Tensor, state: Any) -> tuple[Tensor, Any]:
        """Newest tokens ``(B,)`` and a state to logits ``(B, vocab_size)`` and a state."""
        ...


class Generation(NamedTuple):
    """What was generated, without the begin token; after ``eos`` come only pads."""

    ids: Tensor  # (B, length), int64
    scores: Tensor  # (B,), natural log of the probability of ids, eos included


def greedy(
    model: StepModel,
    source: Tensor,
    *,
    max_len: int,
    bos_id: int = 1,
    eos_id: int = 2,
    pad_id: int = 0,
) -> Generation:
    """Take the most probable token, again and again, until every row has ended.

    The model is put into evaluation mode for the while: dropout would change the text.

    Args:
        model: any :class:`StepModel`.
        source: ids ``(B, S)``.
        max_len: most tokens to generate per row.
        bos_id, eos_id, pad_id: ids of the special tokens.

    Returns:
        ``Generation(ids, scores)`` of shapes ``(B, at most max_len)`` and ``(B,)``.

    Raises:
        ValueError: ``max_len`` below 1; whatever the model says of the source.
    """
    if max_len < 1:
        raise ValueError(f"max_len must be at least 1, got {max_len}")
    with torch.inference_mode(), _evaluating(model):
        state = model.start(source)
        tokens = source.new_full((source.size(0),), bos_id)
        scores = torch.zeros(source.size(0), device=source.device)
        ended = torch.zeros_like(tokens, dtype=torch.bool)
        generated: list[Tensor] = []
        while len(generated) < max_len and not ended.all():
            logits, state = model.step(tokens, state)
            best = logits.float().log_softmax(dim=-1).max(dim=-1)
            scores = scores + best.values.masked_fill(ended, 0.0)
            tokens = best.indices.masked_fill(ended, pad_id)
            ended = ended | (tokens == eos_id)
            generated.append(tokens)
    # Copied out here: tensors made in inference mode may never be trained on.
    return Generation(torch.stack(generated, dim=1), scores.clone())


@contextmanager
def _evaluating(model: object) -> Iterator[None]:
    # Each module by itself: one may be frozen in evaluation mode while the rest is training.
    modules = model.modules() if isinstance(model, nn.Module) else ()
    modes = {module: module.training for module in modules}
    for module in modes:
        module.training = False
    try:
        yield
    finally:
        for module, training in modes.items():
            module.training = training
