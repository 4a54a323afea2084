"""Beam search: several texts at a time, so that a good one may begin with a worse token."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from transformer_lib.arguments import check_count, check_number, check_type
from transformer_lib.decoding.protocol import (
    Beams,
    StepModel,
    check_scores,
    evaluating,
    first_tokens,
    log_probabilities,
)

__all__ = ["beam_search"]


def beam_search(
    model: StepModel,
    source: Tensor,
    *,
    max_len: int,
    beam_size: int = 4,
    length_penalty: float = 0.6,
    n_best: int | None = None,
    early_stopping: bool = False,
    bos_id: int | Tensor = 1,
    eos_id: int = 2,
    pad_id: int = 0,
) -> Beams:
    r"""Carry the ``beam_size`` most probable beginnings along, and keep the best ends.

    Each step extends every beginning by every token. Of the ``beam_size`` best results those that
    end leave the beam, and the next best that go on take their places. What has ended, or was
    cut at ``max_len``, is ranked by its log-probability over a penalty for length,

    .. math:: \frac{\log P(Y \mid X)}{lp(Y)}, \qquad
        lp(Y) = \left(\frac{5 + |Y|}{6}\right)^{\text{length\_penalty}}

    with :math:`|Y|` the number of tokens, ``eos`` included. A row of the batch is over, whatever
    the others do, when no beginning can become better than the worst of the ``beam_size`` best
    ends: the result is the same as if the search had gone on to ``max_len``. With
    ``early_stopping`` it is over as soon as ``beam_size`` texts have ended. That is quick, and
    where label smoothing keeps an early end from ever being improbable, as with texts spelled in
    characters, it is often wrong.

    Args:
        model: any :class:`StepModel`; in evaluation mode for the while.
        source: ids ``(B, S)``.
        max_len: most tokens to generate per row.
        beam_size: how many beginnings to carry along. One, with ``early_stopping`` or without a
            length penalty, is :func:`greedy`.
        length_penalty: the exponent, from 0, no penalty, to 10; the paper's is 0.6.
        n_best: how many texts to return per row; ``beam_size`` if None.
        early_stopping: stop at the ``beam_size``-th end, though a better one may come.
        bos_id, eos_id, pad_id: as for :func:`greedy`.

    Returns:
        ``Beams(ids, scores, ranks)`` of shapes ``(B, n_best, at most max_len)`` and twice
        ``(B, n_best)``.

    Raises:
        TypeError: arguments of the wrong type.
        ValueError: arguments out of range; logits that are not numbers; whatever the
            model says of the source.

    Source:
        Wu et al. (2016), *Google's Neural Machine Translation System*, section 7, equation (14);
        Vaswani et al. (2017), section 6.1.

    Example:
        >>> from transformer_lib import ModelConfig, Transformer
        >>> model = Transformer(ModelConfig(vocab_size=11, d_model=12, n_heads=3, d_ff=20))
        >>> beams = beam_search(model, torch.randint(3, 11, (2, 7)), max_len=5, beam_size=3)
        >>> beams.ids.shape[:2], beams.ranks.shape, beams.best.scores.shape
        (torch.Size([2, 3]), torch.Size([2, 3]), torch.Size([2]))
    """
    tokens = first_tokens(model, source, max_len, bos_id, eos_id, pad_id)
    check_count("beam_size", beam_size)
    check_number("length_penalty", length_penalty, 0, 10)
    n_best = beam_size if n_best is None else n_best
    check_count("n_best", n_best)
    if n_best > beam_size:
        raise ValueError(f"n_best ({n_best}) must be at most beam_size ({beam_size})")
    check_type("early_stopping", early_stopping, bool)

    with evaluating(model):
        state = model.start(source)
        # N rows are still searched, with M beginnings each: one that is empty, then beam_size.
        row = torch.arange(len(tokens), device=tokens.device)  # (N,), their places in the batch
        ids = tokens.new_empty(len(row), 1, 0)  # (N, M, length)
        scores = torch.zeros(len(row), 1, device=tokens.device)  # (N, M)
        none = scores.new_full((len(row), beam_size), -torch.inf)
        ends = Beams(ids.expand(-1, beam_size, -1), none, none.clone())  # so far, of all rows
        length = 0
        while len(row):
            length += 1
            logits, state = model.step(tokens, state)
            log_probs = log_probabilities(logits, tokens)  # (N * M, V)
            # One extension of each beginning ends, so that of 2 * beam_size enough go on. They are
            # among the best of each beginning, which are quicker to find than those of a sum.
            gains, tokens = log_probs.topk(min(2 * beam_size, log_probs.size(1)))  # (N * M, K)
            (n, m), k = scores.shape, gains.size(1)
            totals, place = (scores.view(-1, 1) + gains).view(n, -1).topk(min(2 * beam_size, m * k))
            parent, token = place // k, _take(tokens.view(n, -1), place)  # (N, C), best first
            ids = torch.cat((_take(ids, parent), token[..., None]), dim=-1)  # (N, C, length)
            ended = (token == eos_id) | totals.isnan() | (length == max_len)

            ranks = (totals / _penalty(length, length_penalty)).masked_fill(~ended, -torch.inf)
            ends = ends._replace(ids=F.pad(ends.ids, (0, 1), value=pad_id))
            rivals = Beams(*(
                torch.cat((old[row], new[:, :beam_size]), dim=1)
                for old, new in zip(ends, (ids, totals, ranks), strict=True)
            ))  # fmt: skip
            best = rivals.ranks.topk(beam_size).indices
            for old, new in zip(ends, rivals, strict=True):
                old[row] = _take(new, best)

            scores, best = totals.masked_fill(ended, -torch.inf).topk(min(beam_size, place.size(1)))
            worst = ends.ranks[row, -1]
            going = scores[:, 0] / _penalty(max_len, length_penalty) > worst
            if early_stopping:
                going &= worst == -torch.inf
            kept = going.nonzero()[:, 0]
            row, scores, best = row[kept], scores[kept], best[kept]
            ids, token, parent = (_take(x[kept], best) for x in (ids, token, parent))  # (N, M)
            tokens = token.flatten()
            if len(row):
                state.reorder((kept[:, None] * m + parent).flatten())
    check_scores(ends.scores)
    # Copied out here: tensors made in inference mode may never be trained on.
    return Beams(*(x[:, :n_best].clone() for x in ends))


def _penalty(length: int, exponent: float) -> float:
    return ((5 + length) / 6) ** exponent


def _take(x: Tensor, index: Tensor) -> Tensor:
    """The entries ``index`` ``(N, M)`` of each row of ``x``, ``(N, C)`` or ``(N, C, length)``."""
    return x.take_along_dim(index if x.dim() == 2 else index[..., None], dim=1)
