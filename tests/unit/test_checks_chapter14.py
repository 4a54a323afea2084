"""Chapter 14's checkers: right answers in every form, and what is said of wrong ones."""

import math
from collections import Counter

import torch
import torch.nn.functional as F
from sacrebleu.metrics.bleu import BLEU

from tests.unit.judging import table
from transformer_lib.checks.chapter14 import check

# ---------------------------------------------------------------------------------- greedy_batch


def in_loops(next_logits, n_rows, max_len):
    written = [[] for _ in range(n_rows)]
    done = [False] * n_rows
    while not all(done) and max(len(w) for w in written) < max_len:
        longest = max(map(len, written))
        ids = torch.tensor([[1, *w, *[0] * (longest - len(w))] for w in written])
        for i, scores in enumerate(next_logits(ids).tolist()):
            if done[i]:
                continue
            best = max(range(len(scores)), key=scores.__getitem__)
            done[i] = best == 2
            if not done[i]:
                written[i].append(best)
    return written


def greedy(ends=all, begin=torch.ones, clean=lambda row: row[: row.index(2)] if 2 in row else row):
    def greedy_batch(next_logits, n_rows, max_len):
        ids = begin(n_rows, 1, dtype=torch.int64)
        for _ in range(max_len):
            ids = torch.hstack([ids, next_logits(ids).argmax(1, keepdim=True)])
            if ends((ids == 2).any(1)):
                break
        return [clean(row) for row in ids[:, 1:].tolist()]

    return greedy_batch


def never(ended):
    return False


def of_floats(next_logits, n_rows, max_len):
    return [next_logits(torch.ones(n_rows, 1)).argmax(-1).tolist()]


def one_at_a_time(next_logits, n_rows, max_len):
    return [in_loops(next_logits, 1, max_len)[0] for _ in range(n_rows)]


def endless(next_logits, n_rows, max_len):
    ids = torch.zeros(n_rows, 1).long()
    while not (ids == 2).any(1).all():
        ids = torch.hstack([ids, next_logits(ids).argmax(1, keepdim=True)])
    return ids.tolist()


# ------------------------------------------------------------------------------------- beam_step


def by_unravel(totals, log_probs):
    b, k, v = log_probs.shape
    every = (totals.view(b, k, 1) + log_probs).flatten(1)
    order = every.argsort(dim=1, descending=True)[:, :k]
    return torch.take_along_dim(every, order, 1), *torch.unravel_index(order, (k, v))


def by_two_choices(totals, log_probs):
    """The best K of each parent are enough."""
    k = totals.shape[1]
    gains, tokens = log_probs.topk(min(k, log_probs.shape[2]), dim=2)
    best, place = (totals.unsqueeze(2) + gains).flatten(1).topk(k)
    return best, place // gains.shape[2], tokens.flatten(1).gather(1, place)


# ----------------------------------------------------------------------------------- attend_more


def token_by_token(query, key, value, cache):
    keys, values, rows = *cache, []
    for q, k, v in zip(query, key, value, strict=True):
        keys, values = torch.vstack([keys, k]), torch.vstack([values, v])
        weights = F.softmax(torch.einsum("d,sd->s", q, keys) / len(q) ** 0.5, dim=0)
        rows.append(torch.einsum("s,sd->d", weights, values))
    return torch.stack(rows), (keys, values)


def more(seen=lambda n, t: torch.ones(n, t + n).tril(t), axis=0, back=lambda *all_: all_[:2]):
    def attend_more(query, key, value, cache):
        keys = torch.cat([cache[0], key], dim=axis).detach()
        values = torch.cat([cache[1], value], dim=axis)
        scores = query.detach() @ keys.T / keys.shape[1] ** 0.5
        scores = scores.masked_fill(seen(len(query), len(cache[0])) == 0, -math.inf)
        return scores.softmax(-1) @ values, back(keys, values, cache)

    return attend_more


# --------------------------------------------------------------------------------------- nucleus


def id_by_id(logits, p):
    rows = []
    for scores in logits:
        probs, kept, total = torch.softmax(scores, 0), torch.zeros_like(scores), 0.0
        for token in probs.argsort(descending=True).tolist():
            if total >= p:
                break
            kept[token] = probs[token]
            total += probs[token].item()
        rows.append(kept / kept.sum())
    return torch.stack(rows)


def by_minus_infinity(logits, p):
    ordered, order = torch.sort(logits, descending=True)
    drop = F.softmax(ordered, dim=-1).cumsum(dim=-1) >= p
    drop[:, 1:] = drop[:, :-1].clone()
    drop[:, 0] = False
    return logits.masked_fill(drop.gather(1, order.argsort(1)), -math.inf).softmax(-1)


def of_the_last_of_equals(logits, p):
    return by_minus_infinity(logits.flip(-1), p).flip(-1)


def up_to_p_and_the_first(logits, p):
    values, order = logits.softmax(-1).sort(descending=True)
    keep = values.cumsum(-1) <= p
    keep[:, 0] = True
    kept = torch.zeros_like(values).scatter(1, order, values * keep)
    return kept / kept.sum(-1, keepdim=True)


def spoiling(logits, p):
    return by_minus_infinity(logits.div_(1.0).add_(1), p)


# ----------------------------------------------------------------------------------- corpus_bleu


def by_sacrebleu(translations, references):
    most = max(map(len, references))
    streams = [[r[i] if i < len(r) else None for r in references] for i in range(most)]
    metric = BLEU(tokenize="none", smooth_method="none", force=True)
    return metric.corpus_score(translations, streams).score


def closest(c, lengths):
    return sorted((abs(r - c), r) for r in lengths)[0][1]


def bleu(count=max, length=closest, brevity=lambda c, r: min(1, math.exp(1 - r / c)), scale=100):
    def answer(translations, references):
        right, all_, c, r = [0] * 4, [0] * 4, 0, 0
        for text, others in zip(translations, references, strict=True):
            words, others = text.split(), [other.split() for other in others]
            c, r = c + len(words), r + length(len(words), [len(other) for other in others])
            for n in range(4):
                said, *found = (
                    Counter(" ".join(one[i : i + n + 1]) for i in range(len(one) - n))
                    for one in (words, *others)
                )
                all_[n] += sum(said.values())
                right[n] += sum(min(said[gram], count(f[gram] for f in found)) for gram in said)
        if 0 in right:
            return 0.0
        product = math.prod(x / y for x, y in zip(right, all_, strict=True))
        return scale * product**0.25 * brevity(c, r)

    return answer


test_right, test_wrong = table(
    check,
    right={
        "greedy_batch": [in_loops, greedy(never)],
        "beam_step": [by_unravel, by_two_choices],
        "attend_more": [token_by_token, more()],
        "nucleus": [id_by_id, by_minus_infinity, of_the_last_of_equals],
        "corpus_bleu": [by_sacrebleu, bleu()],
    },
    wrong={
        "greedy_batch": [
            (greedy(clean=lambda row: [i for i in row if i > 2]), "0 is an id like any other"),
            (of_floats, "it was given floats"),
            (one_at_a_time, "with all rows at once, here 2"),
            (endless, "It calls `next_logits` again and again"),
        ],
        "attend_more": [
            (more(back=lambda k, v, cache: (v, k)), "and both are kept"),
        ],
        "nucleus": [
            (up_to_p_and_the_first, "the first two reach p = 0.7 together"),
            (spoiling, "it changes its input `logits` in place"),
        ],
        "corpus_bleu": [
            (bleu(brevity=lambda c, r: min(1, math.exp(r / c - 1))), "one word is missing"),
        ],
    },
)
