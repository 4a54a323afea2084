"""Beam search: follow several texts at once, since a good one may begin with a worse token."""

import torch
import torch.nn.functional as F
from torch import Tensor

from transformer_lib.decoding.protocol import (
    Beams,
    StepModel,
    check_request,
    check_scores,
    evaluating,
    first_tokens,
    log_probabilities,
)
from transformer_lib.validation import check_count, check_number, check_type


def beam_search(
    model: StepModel,
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
    end leave the beam, and the next best that don't end take their places. A finished text, or one
    cut at ``max_len``, is ranked by its log-probability divided by a length penalty,

    .. math:: \frac{\log P(Y \mid X)}{lp(Y)}, \qquad
        lp(Y) = \left(\frac{5 + |Y|}{6}\right)^{\text{length\_penalty}}

    where :math:`|Y|` is the number of tokens, ``<eos>`` included. The search for a row stops when
    no beginning can beat the ``n_best``-th best finished text.

    Args:
        model, source, max_len, bos_id, eos_id, pad_id: as for :func:`greedy`.
        beam_size: how many beginnings to follow.
        length_penalty: the exponent, from 0 (no penalty) to 10; 0.6 in the paper.
        n_best: how many texts to return per row; ``beam_size`` if None. With fewer, the search
            stops sooner.
        early_stopping: stop at the ``beam_size``-th finished text, even if a better one may follow.
            That's often wrong where label smoothing makes early ends too probable, as with texts
            spelled in characters.

    Returns:
        :class:`Beams` of shapes ``(B, n_best, at most max_len)``, ``(B, n_best)`` and
        ``(B, n_best)``.

    Raises:
        TypeError, ValueError: as for :func:`greedy`.

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
    check_count("beam_size", beam_size)
    check_number("length_penalty", length_penalty, 0, 10, "[]")
    check_count("n_best", n_best, optional=True)
    if n_best is not None and n_best > beam_size:
        raise ValueError(f"n_best ({n_best}) must be at most beam_size ({beam_size})")
    check_type("early_stopping", early_stopping, bool)
    max_len = int(max_len)
    n_best = beam_size if n_best is None else n_best

    with evaluating(model):
        state = model.start(source)
        newest = first_tokens(bos_id, source)  # (B,), what the model reads next
        none = newest.new_full((len(newest), beam_size), -torch.inf, dtype=torch.float32)
        ends = Beams(newest.new_empty(*none.shape, 0), none, none.clone())  # the best of each row
        # N rows are still being searched, with M beginnings each. The model's batch holds N * M
        # texts, those of a row next to each other.
        rows = torch.arange(len(newest), device=newest.device)  # (N,), indices into the batch
        totals = torch.zeros_like(rows, dtype=torch.float32)[:, None]  # (N, M), log-probabilities
        texts = newest.new_empty(len(newest), 0)  # (N * M, length)

        for length in range(1, max_len + 1):
            logits, state = model.step(newest, state)  # (N * M, V)
            log_probs = log_probabilities(logits, newest)  # (N * M, V)

            # The C best extensions of each row. Only one per beginning ends, so among 2 * beam_size
            # there are beam_size that continue.
            n, m = totals.shape
            sums, parents, tokens = _best_extensions(totals, log_probs, 2 * beam_size)  # (N, C)
            ended = (tokens == eos_id) | sums.isnan() | (length == max_len)  # (N, C)

            # Of the beam_size best, those that end join the finished texts.
            if ended[:, :beam_size].any():
                ranks = (sums / _penalty(length, length_penalty)).masked_fill(~ended, -torch.inf)
                first = m * torch.arange(n, device=rows.device)[:, None]  # (N, 1)
                ids = torch.cat(
                    (texts[first + parents], tokens[..., None]), dim=2
                )  # (N, C, length)
                new = Beams(*(x[:, :beam_size] for x in (ids, sums, ranks)))
                ends = _merged(ends, rows, new, pad_id)

            # The beam_size best that don't end continue, if one of them may become good enough.
            totals, best = sums.masked_fill(ended, -torch.inf).topk(min(beam_size, sums.size(1)))
            bound = totals[:, 0] / _penalty(max_len, length_penalty)  # (N,), the best possible rank
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
    missing = ends.ranks.isneginf()  # (B, beam_size), where no text was found
    # Tensors made in inference mode can't be used in training; these are new.
    ids = ends.ids.masked_fill(missing[..., None], pad_id)
    scores = ends.scores.masked_fill(missing, -torch.inf)
    return Beams(ids[:, :n_best], scores[:, :n_best], ends.ranks[:, :n_best].clone())


def _best_extensions(
    totals: Tensor, log_probs: Tensor, count: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the ``count`` best of ``totals[..., None] + log_probs`` in each row, best first.

    ``totals`` are those of M beginnings in each of N rows, ``(N, M)``; ``log_probs`` of each token
    after each beginning, ``(N * M, V)``. Returned are the sums, which beginning each one extends,
    and by which token, ``(N, count)`` each.
    """
    # Taking the best of each beginning first is faster than sorting M * V sums.
    gains, extensions = log_probs.topk(min(count, log_probs.size(1)))  # (N * M, K)
    (n, m), k = totals.shape, gains.size(1)
    sums = (totals.view(n * m, 1) + gains).view(n, m * k)  # (N, M * K)
    sums, chosen = sums.topk(min(count, m * k))  # (N, C)
    return sums, chosen // k, extensions.view(n, m * k).gather(1, chosen)


def _penalty(length: int, exponent: float) -> float:
    return ((5 + length) / 6) ** exponent


def _merged(ends: Beams, rows: Tensor, new: Beams, pad_id: int) -> Beams:
    """Update ``ends`` at ``rows`` ``(N,)`` with the best of its texts and the ``new`` ones."""
    longer = new.ids.size(2) - ends.ids.size(2)
    ends = ends._replace(ids=F.pad(ends.ids, (0, longer), value=pad_id))
    ids, scores, ranks = (
        torch.cat((old[rows], more), dim=1) for old, more in zip(ends, new, strict=True)
    )  # (N, beam_size + C, length), (N, beam_size + C) twice
    best = ranks.topk(ends.ranks.size(1)).indices  # (N, beam_size)
    ends.ids[rows] = ids.take_along_dim(best[..., None], dim=1)
    ends.scores[rows], ends.ranks[rows] = scores.gather(1, best), ranks.gather(1, best)
    return ends
