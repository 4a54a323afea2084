"""The loop of greedy decoding and sampling: a token per row and step, until all rows have ended."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from transformer_lib.arguments import check_count, shown
from transformer_lib.decoding.protocol import (
    Generation,
    StateT,
    StepModel,
    check_request,
    check_scores,
    evaluating,
    first_tokens,
    log_probabilities,
)

__all__: list[str] = []  # for greedy.py and sampling.py alone

TokenLists = Sequence[Sequence[int]]
OnStep = Callable[[Tensor], Tensor | None]


def generate(
    model: StepModel[StateT],
    source: Tensor,
    choose: Callable[[Tensor], Tensor],
    *,
    max_len: int,
    stop: TokenLists,
    on_step: OnStep | None,
    bos_id: int | Tensor | None,
    eos_id: int | None,
    pad_id: int | None,
) -> Generation:
    """Step on, each time with the tokens ``(B,)`` that ``choose`` takes from ``(B, V)``."""
    bos_id, eos_id, pad_id = check_request(model, source, max_len, bos_id, eos_id, pad_id)
    _check_stop(stop)
    if on_step is not None and not callable(on_step):
        raise TypeError(f"on_step must be a function, got {shown(on_step)}")
    sequences = [torch.tensor(sequence, device=source.device) for sequence in stop]  # (k,) each

    with evaluating(model):
        state = model.start(source)
        tokens = first_tokens(bos_id, source)  # (B,)
        scores = torch.zeros(tokens.shape, device=tokens.device)  # (B,)
        ended = torch.zeros_like(tokens, dtype=torch.bool)  # (B,)
        generated: list[Tensor] = []  # of (B,)
        while len(generated) < max_len and not ended.all():
            logits, state = model.step(tokens, state)  # (B, V)
            log_probs = log_probabilities(logits, tokens)  # (B, V)
            chosen = choose(log_probs)  # (B,)
            gains = log_probs.gather(-1, chosen[:, None])[:, 0]  # (B,)
            scores += gains.masked_fill(ended, 0.0)
            tokens = chosen.masked_fill(ended, pad_id)
            generated.append(tokens)
            ended |= tokens == eos_id
            for sequence in sequences:
                ended |= _just_said(generated, sequence)
            if on_step is not None:
                ended |= _asked_to_end(on_step, tokens)
    check_scores(scores)
    # Copied out here: tensors made in inference mode may never be trained on.
    return Generation(torch.stack(generated, dim=1), scores.clone())


def _check_stop(stop: TokenLists) -> None:
    if not isinstance(stop, list | tuple):
        raise TypeError(f"stop must be a list of token sequences, got {shown(stop)}")
    for sequence in stop:
        if not isinstance(sequence, list | tuple):
            raise TypeError(
                f"stop must hold lists of token ids, such as [[5, 6]]; got {shown(sequence)} in it"
            )
        if not sequence:
            raise ValueError("stop must hold no empty sequence, got one")
        for id_ in sequence:
            check_count("stop's ids", id_, least=0)
            if id_ >= 2**63:
                raise ValueError(f"stop must hold ids below 2**63, got {id_}")


def _just_said(generated: list[Tensor], sequence: Tensor) -> Tensor:
    """Whether the newest tokens of each row are the sequence, bool ``(B,)``."""
    newest = torch.stack(generated[-len(sequence) :], dim=1)  # (B, k), or less at the beginning
    if newest.size(1) < len(sequence):
        return torch.zeros_like(generated[-1], dtype=torch.bool)
    return (newest == sequence).all(dim=1)


def _asked_to_end(on_step: OnStep, tokens: Tensor) -> Tensor:
    """Which rows ``on_step`` wants to end, bool ``(B,)``."""
    asked = on_step(tokens)
    if asked is None:
        return torch.zeros_like(tokens, dtype=torch.bool)
    if not isinstance(asked, Tensor) or asked.dtype is not torch.bool:
        raise TypeError(f"on_step must return None or a bool tensor, got {shown(asked)}")
    if asked.shape != tokens.shape:
        raise ValueError(
            f"on_step must return shape {tuple(tokens.shape)}, a bool for each row; "
            f"got {tuple(asked.shape)}"
        )
    return asked.to(tokens.device)
