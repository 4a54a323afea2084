"""Beam search: several texts at a time, so that a good one may begin with a worse token."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from transformer_lib.decoding.protocol import (
    Beams,
    StateT,
    StepModel,
    check_request,
    check_scores,
    evaluating,
    first_tokens,
    log_probabilities,
)
from transformer_lib.validation import check_count, check_number, check_type

__all__ = ["beam_search"]


def beam_search(
    model: StepModel[StateT],
    source: Tensor,
    *,
    max_len: int,
    beam_size: int = 4,
    length_penalty: float = 0.6,
    n_best: int | None = None,
    early_stopping: bool = False,
    bos_id: int | Tensor | None = None,
    eos_id: int | None = None,
    pad_id: int | None = None,
) -> Beams:
    r"""Follow the ``beam_size`` most probable beginnings at a time, and return the best texts.

    Each step extends every beginning by every token. Of the ``beam_size`` best results, those that
    end leave the beam, and the next best results that do not end take their places. A text that has
    ended, or was cut at ``max_len``, is ranked by its log-probability over a penalty for length,

    .. math:: \frac{\log P(Y \mid X)}{lp(Y)}, \qquad
        lp(Y) = \left(\frac{5 + |Y|}{6}\right)^{\text{length\_penalty}}

    with :math:`|Y|` the number of tokens, ``eos`` included. The search of a row is over when no
    beginning can become better than the ``n_best``-th best end: the result is the same as if the
    search had gone on to ``max_len``. With ``early_stopping`` it is over as soon as ``beam_size``
    texts have ended. That is quick, and where label smoothing keeps an early end from ever being
    improbable, as with texts spelled in characters, it is often wrong.

    Args:
        model: any :class:`StepModel`; a ``Module`` is in evaluation mode during the search.
        source: ids ``(B, S)``.
        max_len: most tokens to generate per row.
        beam_size: how many beginnings to follow. One, with ``early_stopping`` or without a length
            penalty, is :func:`greedy`, unless two tokens are equally probable.
        length_penalty: the exponent, from 0, no penalty, to 10; the paper's is 0.6.
        n_best: how many texts to return per row; ``beam_size`` if None. Fewer end the search
            sooner.
        early_stopping: stop at the ``beam_size``-th end, though a better one may come.
        bos_id, eos_id, pad_id: as for :func:`greedy`.

    Returns:
        ``Beams(ids, scores, ranks)`` of shapes ``(B, n_best, at most max_len)`` and twice
        ``(B, n_best)``. Where fewer than ``n_best`` texts are possible, the rest are pads with
        scores and ranks of minus infinity.

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
    bos_id, eos_id, pad_id = check_request(model, source, max_len, bos_id, eos_id, pad_id)
    _check_options(beam_size, length_penalty, n_best, early_stopping)
    max_len = int(max_len)
    n_best = beam_size if n_best is None else n_best

    with evaluating(model):
        state = model.start(source)
        newest = first_tokens(bos_id, source)  # (B,), what the model reads next
        ends = _no_ends(len(newest), beam_size, newest)  # the best ends of each row, (B, beam_size)
        # N rows are still searched, and a beam of M beginnings is carried along for each. The
        # model's batch holds N * M texts, those of a row side by side.
        rows = torch.arange(len(newest), device=newest.device)  # (N,), places in the whole batch
        totals = torch.zeros(len(newest), 1, device=newest.device)  # (N, M), log-probabilities
        texts = newest.new_empty(len(newest), 0)  # (N * M, length)

        for length in range(1, max_len + 1):
            logits, state = model.step(newest, state)  # (N * M, V)
            log_probs = log_probabilities(logits, newest)  # (N * M, V)

            # The C best extensions of each row. Each beginning has one that ends, so 2 * beam_size
            # are enough for beam_size to go on.
            n, m = totals.shape
            sums, parents, tokens = _best_extensions(totals, log_probs, 2 * beam_size)  # (N, C)
            ended = (tokens == eos_id) | sums.isnan() | (length == max_len)  # (N, C)

            # Of the beam_size best, those that end are ranked with the ends that there are.
            if ended[:, :beam_size].any():
                ranks = (sums / _penalty(length, length_penalty)).masked_fill(~ended, -torch.inf)
                first = m * torch.arange(n, device=rows.device)[:, None]  # (N, 1)
                ids = torch.cat(
                    (texts[first + parents], tokens[..., None]), dim=2
                )  # (N, C, length)
                new = Beams(*(x[:, :beam_size] for x in (ids, sums, ranks)))
                ends = _merged(ends, rows, new, pad_id)

            # The beam_size best that do not end go on, if one of them may become good enough.
            totals, best = sums.masked_fill(ended, -torch.inf).topk(min(beam_size, sums.size(1)))
            bound = totals[:, 0] / _penalty(max_len, length_penalty)  # (N,), the highest rank left
            going = bound > ends.ranks[rows, n_best - 1]  # (N,)
            if early_stopping:
                going &= ends.ranks[rows, -1].isneginf()
            kept = going.nonzero()[:, 0]  # (N',)
            if not len(kept):
                break
            rows, totals = rows[kept], totals[kept]  # (N',), (N', M')
            parents, tokens = (x.gather(1, best)[kept] for x in (parents, tokens))  # (N', M')
            index = (m * kept[:, None] + parents).flatten()  # (N' * M',), each beginning's parent
            newest = tokens.flatten()  # (N' * M',)
            texts = torch.cat((texts[index], newest[:, None]), dim=1)  # (N' * M', length)
            state.reorder(index)

    check_scores(ends.scores)
    missing = ends.ranks.isneginf()  # (B, beam_size), where no end was found
    # These are copies: tensors made in inference mode may never be trained on.
    ids = ends.ids.masked_fill(missing[..., None], pad_id)
    scores = ends.scores.masked_fill(missing, -torch.inf)
    return Beams(ids[:, :n_best], scores[:, :n_best], ends.ranks[:, :n_best].clone())


def _best_extensions(
    totals: Tensor, log_probs: Tensor, count: int
) -> tuple[Tensor, Tensor, Tensor]:
    """The ``count`` best of ``totals[..., None] + log_probs`` in each row, the best first.

    Args:
        totals: of M beginnings in each of N rows, ``(N, M)``.
        log_probs: of each token behind each beginning, ``(N * M, V)``.
        count: how many to return, or all M * V, if that is fewer.

    Returns:
        the sums, which beginning was extended, and by which token, ``(N, count)`` each.
    """
    # To look for the best of each beginning first is quicker than to sort M * V sums.
    gains, extensions = log_probs.topk(min(count, log_probs.size(1)))  # (N * M, K)
    (n, m), k = totals.shape, gains.size(1)
    sums = (totals.view(n * m, 1) + gains).view(n, m * k)  # (N, M * K)
    sums, places = sums.topk(min(count, m * k))  # (N, C)
    return sums, places // k, extensions.view(n, m * k).gather(1, places)


def _check_options(
    beam_size: int, length_penalty: float, n_best: int | None, early_stopping: bool
) -> None:
    check_count("beam_size", beam_size)
    check_number("length_penalty", length_penalty, 0)
    if length_penalty > 10:
        raise ValueError(f"length_penalty must be from 0 to 10, got {length_penalty!r}")
    check_count("n_best", n_best, optional=True)
    if n_best is not None and n_best > beam_size:
        raise ValueError(f"n_best ({n_best}) must be at most beam_size ({beam_size})")
    check_type("early_stopping", early_stopping, bool)


def _penalty(length: int, exponent: float) -> float:
    return ((5 + length) / 6) ** exponent


def _no_ends(rows: int, beam_size: int, like: Tensor) -> Beams:
    none = torch.full((rows, beam_size), -torch.inf, device=like.device)
    return Beams(like.new_empty(rows, beam_size, 0), none, none.clone())


def _merged(ends: Beams, rows: Tensor, new: Beams, pad_id: int) -> Beams:
    """``ends``, of all rows, with the best of old and new ones at ``rows`` ``(N,)``."""
    longer = new.ids.size(2) - ends.ids.size(2)
    ends = ends._replace(ids=F.pad(ends.ids, (0, longer), value=pad_id))
    ids, scores, ranks = (
        torch.cat((old[rows], more), dim=1) for old, more in zip(ends, new, strict=True)
    )  # (N, beam_size + C, length), (N, beam_size + C) twice
    best = ranks.topk(ends.ranks.size(1)).indices  # (N, beam_size)
    ends.ids[rows] = ids.take_along_dim(best[..., None], dim=1)
    ends.scores[rows], ends.ranks[rows] = scores.gather(1, best), ranks.gather(1, best)
    return ends
