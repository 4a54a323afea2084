"""Greedy decoding: always the most probable token."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from transformer_lib.decoding.protocol import (
    Generation,
    StepModel,
    check_scores,
    evaluating,
    first_tokens,
    log_probabilities,
)

__all__ = ["greedy"]


def greedy(
    model: StepModel,
    source: Tensor,
    *,
    max_len: int,
    bos_id: int | Tensor = 1,
    eos_id: int = 2,
    pad_id: int = 0,
) -> Generation:
    """Take the most probable token, again and again, until every row has ended.

    The model is put into evaluation mode for the while: dropout would change the text.

    Args:
        model: any :class:`StepModel`.
        source: ids ``(B, S)``.
        max_len: most tokens to generate per row.
        bos_id: id that every row begins with, or ids ``(B,)``, one for each.
        eos_id, pad_id: ids that end a row and fill it up; no row ends if there is no such id.

    Returns:
        ``Generation(ids, scores)`` of shapes ``(B, at most max_len)`` and ``(B,)``.

    Raises:
        TypeError: arguments of the wrong type.
        ValueError: arguments out of range; logits that are not numbers; whatever the
            model says of the source.

    Example:
        >>> from transformer_lib import ModelConfig, Transformer
        >>> model = Transformer(ModelConfig(vocab_size=11, d_model=12, n_heads=3, d_ff=20))
        >>> ids, scores = greedy(model, torch.randint(3, 11, (2, 7)), max_len=5)
        >>> ids.size(0), scores.shape
        (2, torch.Size([2]))
    """
    tokens = first_tokens(model, source, max_len, bos_id, eos_id, pad_id)
    return generate(model, source, tokens, lambda x: x.argmax(-1), max_len, eos_id, pad_id)


def generate(
    model: StepModel,
    source: Tensor,
    tokens: Tensor,
    choose: Callable[[Tensor], Tensor],
    max_len: int,
    eos_id: int,
    pad_id: int,
) -> Generation:
    """Step on from ``tokens`` ``(B,)``, each time with what ``choose`` takes from ``(B, V)``."""
    with evaluating(model):
        state = model.start(source)
        scores = torch.zeros(tokens.shape, device=tokens.device)
        ended = torch.zeros_like(tokens, dtype=torch.bool)
        generated: list[Tensor] = []
        while len(generated) < max_len and not ended.all():
            logits, state = model.step(tokens, state)
            log_probs = log_probabilities(logits, tokens)
            chosen = choose(log_probs)
            gained = log_probs.gather(-1, chosen[:, None])[:, 0]
            scores = scores + gained.masked_fill(ended, 0.0)
            tokens = chosen.masked_fill(ended, pad_id)
            ended = ended | (tokens == eos_id)
            generated.append(tokens)
    check_scores(scores)
    # Copied out here: tensors made in inference mode may never be trained on.
    return Generation(torch.stack(generated, dim=1), scores.clone())
