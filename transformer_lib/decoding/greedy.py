"""Greedy decoding: always the most probable token."""

from __future__ import annotations

from torch import Tensor

from transformer_lib.decoding.loop import OnStep, TokenLists, generate
from transformer_lib.decoding.protocol import Generation, StateT, StepModel

__all__ = ["greedy"]


def greedy(
    model: StepModel[StateT],
    source: Tensor,
    *,
    max_len: int,
    stop: TokenLists = (),
    on_step: OnStep | None = None,
    bos_id: int | Tensor | None = None,
    eos_id: int | None = None,
    pad_id: int | None = None,
) -> Generation:
    """Take the most probable token, again and again, until every row has ended.

    Dropout would change the text: a model that is a ``Module`` is in evaluation mode during the
    decoding.

    Args:
        model: any :class:`StepModel`.
        source: ids ``(B, S)``.
        max_len: most tokens to generate per row.
        stop: token sequences. A row also ends when its newest tokens are one of them, which stays
            in the ids, as ``eos`` does.
        on_step: a function that is called after each step with the newest tokens ``(B,)``, pads
            where a row has ended. It may show them, or return a bool tensor ``(B,)``: rows that
            are True there end, too.
        bos_id: id that every row begins with, or ids ``(B,)``, one for each.
        eos_id, pad_id: ids that end a row and fill it up. No row ends if ``eos_id`` is the id of no
            token. All three ids are those of ``model.config`` where they aren't given.

    Returns:
        ``Generation(ids, scores)`` of shapes ``(B, at most max_len)`` and ``(B,)``.

    Raises:
        TypeError: arguments of the wrong type.
        ValueError: arguments out of range; logits that are not numbers; whatever the
            model says of the source.

    Example:
        >>> import torch
        >>> from transformer_lib import ModelConfig, Transformer
        >>> model = Transformer(ModelConfig(vocab_size=11, d_model=12, n_heads=3, d_ff=20))
        >>> ids, scores = greedy(model, torch.randint(3, 11, (2, 7)), max_len=5)
        >>> ids.size(0), scores.shape
        (2, torch.Size([2]))

        Token by token, as they come:

        >>> source = torch.randint(3, 11, (1, 7))
        >>> said = []
        >>> ids, _ = greedy(model, source, max_len=5, on_step=lambda tokens: said.append(tokens))
        >>> torch.stack(said, dim=1).equal(ids)
        True
    """
    return generate(
        model,
        source,
        _most_probable,
        max_len=max_len,
        stop=stop,
        on_step=on_step,
        bos_id=bos_id,
        eos_id=eos_id,
        pad_id=pad_id,
    )


def _most_probable(log_probs: Tensor) -> Tensor:
    return log_probs.argmax(dim=-1)  # (B, V) to (B,)
