"""Chapter 14's checkers: answers that real learners give, each diagnosed by name."""

import math
from collections import Counter

import pytest
import torch
import torch.nn.functional as F
from judging import judges
from sacrebleu.metrics.bleu import BLEU

from transformer_lib.checks.chapter14 import check

pytestmark = pytest.mark.slow

report, passes, fails = judges(check)


# ---------------------------------------------------------------------------------- greedy_batch


def greedy_in_loops(next_logits, n_rows, max_len):
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


def greedy_until_the_end(next_logits, n_rows, max_len):
    """All rows to `max_len`, and cut afterwards."""
    ids = torch.ones(n_rows, 1, dtype=torch.int64)
    for _ in range(max_len):
        ids = torch.hstack([ids, next_logits(ids).argmax(1, keepdim=True)])
    return [
        row[: row.index(2)] if 2 in row else row
        for row in (ids[i, 1:].tolist() for i in range(n_rows))
    ]


@pytest.mark.parametrize("function", [greedy_in_loops, greedy_until_the_end])
def test_right_greedy_batches_pass(capsys, function):
    passes(capsys, function, "greedy_batch")


def greedy(
    first=1,
    stop=lambda tokens, ended: ended.all(),
    read=lambda ids: ids,
    axis=-1,
    clean=lambda row: row[1 : row.index(2)] if 2 in row else row[1:],
    more=0,
    back=list,
):
    def greedy_batch(next_logits, n_rows, max_len):
        ids = torch.full((n_rows, 1), first)
        ended = torch.zeros(n_rows, dtype=torch.bool)
        for _ in range(max_len + more):
            tokens = next_logits(read(ids)).argmax(axis)[:n_rows]
            ids = torch.cat([ids, tokens[:, None]], dim=1)
            ended |= tokens == 2
            if stop(tokens, ended):
                break
        return back([clean(row) for row in ids.tolist()])

    return greedy_batch


def greedy_of_floats(next_logits, n_rows, max_len):
    ids = torch.ones(n_rows, 1)
    for _ in range(max_len):
        ids = torch.cat([ids, next_logits(ids).argmax(-1, keepdim=True)], dim=1)
    return ids[:, 1:].tolist()


def greedy_into_one_list(next_logits, n_rows, max_len):
    ids, ended, written = torch.ones(n_rows, 1).long(), [False] * n_rows, [[]] * n_rows
    for _ in range(max_len):
        tokens = next_logits(ids).argmax(-1)
        ids = torch.cat([ids, tokens[:, None]], dim=1)
        for i, token in enumerate(tokens.tolist()):
            ended[i] = ended[i] or token == 2
            if not ended[i]:
                written[i].append(token)
        if all(ended):
            break
    return written


def without_zeros(next_logits, n_rows, max_len):
    return [[i for i in row if i != 0] for row in greedy_in_loops(next_logits, n_rows, max_len)]


def ended_by_a_zero(next_logits, n_rows, max_len):
    rows = greedy_in_loops(next_logits, n_rows, max_len)
    return [row[: row.index(0)] if 0 in row else row for row in rows]


def test_greedy_of_one_row_at_a_time_is_told_that_all_go_together(capsys):
    def greedy_batch(next_logits, n_rows, max_len):
        return [greedy_in_loops(next_logits, 1, max_len)[0] for _ in range(n_rows)]

    fails(capsys, greedy_batch, "greedy_batch", "all 2 rows at once")


@pytest.mark.parametrize(
    "function, diagnosis",
    [
        (greedy(stop=lambda tokens, ended: (tokens == 2).any()), "stop when the first one ends"),
        (
            greedy(
                stop=lambda tokens, ended: ended.any(),
                clean=lambda row: [i for i in row[1:] if i != 2],
            ),
            "stop when the first one ends",
        ),
        (greedy(stop=lambda tokens, ended: tokens[0] == 2), "stop when the first one ends"),
        (greedy_of_floats, "without a dtype"),
        (greedy_into_one_list, "one list in several places"),
        (without_zeros, "an id 0 is thrown away, or ends a text"),
        (ended_by_a_zero, "an id 0 is thrown away, or ends a text"),
        (greedy(first=0), "is not <bos>"),
        (greedy(first=2), "is not <bos>"),
        (greedy(clean=lambda row: [i for i in row[1:] if i > 2]), "after its <eos> is kept"),
        (greedy(clean=lambda row: row[1:]), "after its <eos> is kept"),
        (greedy(stop=lambda *_: False, clean=lambda row: row[1:]), "after its <eos> is kept"),
        (
            greedy(clean=lambda row: row[1 : row.index(2) + 1] if 2 in row else row[1:]),
            "<eos> is still there",
        ),
        (
            greedy(clean=lambda row: row[: row.index(2)] if 2 in row else row),
            "<bos> is still there",
        ),
        (greedy(clean=lambda row: row[1:], back=torch.tensor), "come back as one tensor"),
        (
            greedy(stop=lambda *_: False, clean=lambda row: row, back=torch.tensor),
            "come back as one tensor",
        ),
        (greedy(read=lambda ids: ids[:, -1:]), "newest token only"),
        (greedy(axis=0), "wrong axis"),
        (
            greedy(
                stop=lambda tokens, ended: (tokens == 2).all(),
                clean=lambda row: [i for i in row[1:] if i != 2],
            ),
            "after its <eos> is kept",
        ),
        (greedy(more=-1), "too few"),
        (greedy(more=1), "too many"),
    ],
)
def test_wrong_greedy_batches_are_named(capsys, function, diagnosis):
    fails(capsys, function, "greedy_batch", diagnosis)


# ------------------------------------------------------------------------------------- beam_step


def step_by_unravel(totals, log_probs):
    b, k, v = log_probs.shape
    every = (totals.view(b, k, 1) + log_probs).flatten(1)
    order = every.argsort(dim=1, descending=True)[:, :k]
    parents, tokens = torch.unravel_index(order, (k, v))
    return torch.take_along_dim(every, order, 1), parents, tokens


def step_in_loops(totals, log_probs):
    b, k, v = log_probs.shape
    found = []
    for i in range(b):
        every = sorted(
            ((totals[i, j] + log_probs[i, j, t], j, t) for j in range(k) for t in range(v)),
            key=lambda one: -one[0],
        )[:k]
        found.append(every)
    best = torch.stack([torch.stack([one[0] for one in row]) for row in found])
    parents = torch.tensor([[one[1] for one in row] for row in found])
    return best, parents, torch.tensor([[one[2] for one in row] for row in found])


def step_by_two_choices(totals, log_probs):
    """The best K of each parent are enough."""
    k = totals.shape[1]
    gains, tokens = log_probs.topk(min(k, log_probs.shape[2]), dim=2)
    best, place = (totals.unsqueeze(2) + gains).flatten(1).topk(k)
    return best, place // gains.shape[2], tokens.flatten(1).gather(1, place)


@pytest.mark.parametrize("function", [step_by_unravel, step_in_loops, step_by_two_choices])
def test_right_beam_steps_pass(capsys, function):
    passes(capsys, function, "beam_step")


def test_a_step_made_of_python_numbers_passes_and_hears_of_its_dtype(capsys):
    def answer(totals, log_probs):
        best, parents, tokens = step_in_loops(totals, log_probs)
        return torch.tensor(best.tolist()), parents, tokens

    passed, said = report(capsys, answer, "beam_step")
    assert passed and "they have dtype float32" in said


def step(score=lambda t, lp: t[..., None] + lp, parent=None, token=None, largest=True, last=None):
    def beam_step(totals, log_probs):
        b, k, v = log_probs.shape
        best, place = score(totals, log_probs).reshape(b, k * v).topk(k, largest=largest)
        parents = place // v if parent is None else parent(place, k, v)
        tokens = place % v if token is None else token(place, k, v)
        return (best, parents, tokens) if last is None else last(totals, best, parents, tokens)

    return beam_step


def each_parent_its_best(totals, log_probs):
    gain, tokens = log_probs.max(dim=2)
    return totals + gain, torch.arange(totals.size(1)).repeat(len(totals), 1), tokens


def the_first_beam(totals, log_probs):
    best, tokens = (totals[..., None] + log_probs)[:, 0].topk(totals.shape[1])
    return best, tokens * 0, tokens


def each_parents_children(totals, log_probs):
    b, k, v = log_probs.shape
    best, place = (totals[..., None] + log_probs).reshape(b * k, v).topk(k)
    return best, place // v, place % v


def place_for_id(totals, log_probs):
    k = totals.size(1)
    best, tokens = (totals[..., None] + log_probs).topk(min(k, log_probs.size(-1)))
    best, place = best.flatten(1).topk(k)
    return best, place // tokens.size(-1), place % tokens.size(-1)


def totals_as_they_stand(totals, log_probs):
    b, k, v = log_probs.shape
    place = (totals[..., None] + log_probs).view(b, k * v).topk(k).indices
    return totals + log_probs.flatten(1).gather(1, place), place // v, place % v


def one_beam_for_all(totals, log_probs):
    b, k, v = log_probs.shape
    best, place = (totals[..., None] + log_probs).reshape(-1).topk(b * k)
    return best.view(b, k), (place // v % k).view(b, k), (place % v).view(b, k)


@pytest.mark.parametrize(
    "function, diagnosis",
    [
        (each_parent_its_best, "every beginning keeps a place"),
        (each_parents_children, "each beginning gets K results"),
        (place_for_id, "a token is then its place among them"),
        (totals_as_they_stand, "each to that of its parent"),
        (step(lambda t, lp: lp), "the newest token is judged alone"),
        (step(lambda t, lp: t[..., None] * lp), "log-probabilities are multiplied"),
        (step(lambda t, lp: t[..., None] + lp.exp()), "probabilities are added to log"),
        (step(lambda t, lp: t.exp()[..., None] + lp), "probabilities are added to log"),
        (
            step(last=lambda t, best, p, k: (best.exp(), p, k)),
            "totals come out as probabilities",
        ),
        (step(last=lambda t, best, p, k: (best, k, p)), "parents and tokens are exchanged"),
        (
            step(parent=lambda place, k, v: place // k, token=lambda place, k, v: place % k),
            "divided by the number of beginnings",
        ),
        (step(token=lambda place, k, v: place), "a token is its place in the flat list"),
        (step(largest=False), "the worst are kept"),
        (step(last=lambda t, *found: tuple(x.flip(1) for x in found)), "the best stands last"),
        (step(parent=lambda place, k, v: place / v), "becomes a fraction"),
        (step(parent=lambda place, k, v: (place / v).floor()), "becomes a fraction"),
        (step(token=lambda place, k, v: (place % v).float()), "Your newest ids have dtype float32"),
        (the_first_beam, "only the first beginning"),
        (one_beam_for_all, "compete with each other"),
        (
            step(last=lambda t, best, p, k: (t.gather(1, p), p, k)),
            "the totals are those before this step",
        ),
        (
            step(last=lambda t, best, p, k: (best - t.gather(1, p), p, k)),
            "the newest log-probability is returned",
        ),
    ],
)
def test_wrong_beam_steps_are_named(capsys, function, diagnosis):
    fails(capsys, function, "beam_step", diagnosis)


# ----------------------------------------------------------------------------------- attend_more


def more_in_loops(query, key, value, cache):
    keys, values, rows = *cache, []
    for q, k, v in zip(query, key, value, strict=True):
        keys, values = torch.vstack([keys, k]), torch.vstack([values, v])
        weights = F.softmax(torch.einsum("d,sd->s", q, keys) / len(q) ** 0.5, dim=0)
        rows.append(torch.einsum("s,sd->d", weights, values))
    return torch.stack(rows), (keys, values)


def more_by_torch(query, key, value, cache):
    keys, values = torch.cat((cache[0], key)), torch.cat((cache[1], value))
    n, s = len(query), len(keys)
    mask = torch.ones(n, s, dtype=torch.bool, device=query.device).tril(s - n)
    return F.scaled_dot_product_attention(query, keys, values, attn_mask=mask), (keys, values)


def more_by_a_triangle(query, key, value, cache):
    """With a mask made on the CPU, and no way back: nobody asked for either."""
    n, t = len(query), len(cache[0])
    keys, values = torch.cat([cache[0], key]).detach(), torch.cat([cache[1], value]).detach()
    seen = torch.ones(n, t + n).tril(t)
    scores = (query.detach() @ keys.T / keys.shape[1] ** 0.5).masked_fill(seen == 0, -math.inf)
    return scores.softmax(-1) @ values, (keys, values)


@pytest.mark.parametrize("function", [more_in_loops, more_by_torch, more_by_a_triangle])
def test_right_chunks_pass(capsys, function):
    passes(capsys, function, "attend_more")


def more(
    diagonal=lambda t: t + 1, axis=0, scale=None, back=None, softmax=-1, fill=-math.inf, seen=False
):
    def attend_more(query, key, value, cache):
        keys = torch.cat([cache[0], key], dim=axis)
        values = torch.cat([cache[1], value], dim=axis)
        scores = query @ keys.T * (query.size(1) ** -0.5 if scale is None else scale(query))
        future = torch.ones_like(scores).triu(diagonal(len(cache[0]))).bool()
        out = scores.masked_fill(future ^ seen, fill).softmax(softmax) @ values
        return out, ((keys, values) if back is None else back(key, value, cache))

    return attend_more


def more_of_new(query, key, value, cache):
    keys, values = torch.cat([cache[0], key]), torch.cat([cache[1], value])
    hidden = torch.ones(len(key), len(keys)).triu(len(key) + 1).bool()
    scores = query @ keys.T / keys.size(-1) ** 0.5
    return scores.masked_fill(hidden, -torch.inf).softmax(-1) @ values, (keys, values)


def more_by_product(query, key, value, cache):
    keys, values = torch.cat([cache[0], key]), torch.cat([cache[1], value])
    hidden = torch.ones(len(key), len(keys)).triu(len(cache[0]) + 1)
    scores = query @ keys.T / keys.size(-1) ** 0.5 + hidden * -torch.inf
    return scores.softmax(-1) @ values, (keys, values)


def keys_for_values(query, key, value, cache):
    return more_by_torch(query, key, key, cache)


def one_half_for_both(query, key, value, cache):
    return more_by_torch(query, key, value, (cache[0], cache[0]))


@pytest.mark.parametrize(
    "function, diagnosis",
    [
        (more_of_new, "begins at the number of new tokens"),
        (more_by_product, "0 times infinity is NaN"),
        (keys_for_values, "keys and values are mixed in one cache"),
        (one_half_for_both, "keys and values are mixed in one cache"),
        (more(fill=0.0), "a hidden score is set to 0"),
        (more(scale=lambda query: query.size(1) ** -1 / 2), "not by its root"),
        (more(diagonal=lambda t: 10**6), "nothing is hidden"),
        (more(diagonal=lambda t: 1), "that of a text without a cache"),
        (more(diagonal=lambda t: t), "does not see itself"),
        (more(diagonal=lambda t: t, fill=-1e9), "does not see itself"),
        (more(seen=True), "the wrong way round"),
        (more(seen=True, fill=-1e9), "the wrong way round"),
        (more(back=lambda key, value, cache: cache), "the old cache is returned"),
        (more(back=lambda key, value, cache: (key, value)), "holds the new keys and values only"),
        (
            more(
                back=lambda key, value, cache: tuple(
                    map(torch.vstack, zip((key, value), cache, strict=True))
                )
            ),
            "stand before the old ones",
        ),
        (more(scale=lambda query: 1), "not divided by the root"),
        (more(scale=lambda query: 1 / (query.size(1) ** 1 / 2)), "not by its root"),
        (more(softmax=0), "over the queries"),
        (more(axis=1), "along the features"),
    ],
)
def test_wrong_chunks_are_named(capsys, function, diagnosis):
    fails(capsys, function, "attend_more", diagnosis)


# --------------------------------------------------------------------------------------- nucleus


def nucleus_in_loops(logits, p):
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


def nucleus_by_minus_infinity(logits, p):
    ordered, order = torch.sort(logits, descending=True)
    sums = F.softmax(ordered, dim=-1).cumsum(dim=-1)
    drop = sums >= p
    drop[:, 1:] = drop[:, :-1].clone()
    drop[:, 0] = False
    return logits.masked_fill(drop.gather(1, order.argsort(1)), -math.inf).softmax(-1)


def nucleus_of_the_last_of_equals(logits, p):
    return nucleus_by_minus_infinity(logits.flip(-1), p).flip(-1)


@pytest.mark.parametrize(
    "function",
    [nucleus_in_loops, nucleus_by_minus_infinity, nucleus_of_the_last_of_equals],
)
def test_right_nuclei_pass(capsys, function):
    passes(capsys, function, "nucleus")


def nucleus(inside=lambda probs, p: probs.cumsum(-1) - probs < p, descending=True, end=None):
    def answer(logits, p):
        probs, order = logits.softmax(-1).sort(descending=descending)
        kept = probs * inside(probs, p)
        if end is not None:
            return end(kept, order)
        kept = kept / kept.sum(-1, keepdim=True)
        return torch.zeros_like(kept).scatter(1, order, kept)

    return answer


def mask_on_the_unsorted(logits, p):
    probs = logits.softmax(-1)
    ordered = probs.sort(descending=True).values
    kept = probs * (ordered.cumsum(-1) - ordered < p)
    return kept / kept.sum(-1, keepdim=True)


def nucleus_by_logits(logits, p):
    ordered, order = logits.sort(descending=True)
    drop = ordered.cumsum(-1) - ordered >= p
    return logits.masked_fill(drop.gather(1, order.argsort(1)), -math.inf).softmax(-1)


def each_alone(logits, p):
    probs = logits.softmax(-1)
    kept = probs.where(probs >= 1 - p, 0)
    return kept / kept.sum(-1, keepdim=True)


def min_p(logits, p):
    probs = logits.softmax(-1)
    kept = probs.where(probs >= p * probs.max(-1, keepdim=True).values, 0)
    return kept / kept.sum(-1, keepdim=True)


def up_to_p_and_the_first(logits, p):
    values, order = logits.softmax(-1).sort(descending=True)
    keep = values.cumsum(-1) <= p
    keep[:, 0] = True
    kept = torch.zeros_like(values).scatter(1, order, values * keep)
    return kept / kept.sum(-1, keepdim=True)


def with_all_ties(logits, p):
    probs = logits.softmax(-1)
    values = probs.sort(descending=True).values
    n = (values.cumsum(-1) - values < p).sum(-1, keepdim=True)
    kept = probs * (probs >= values.gather(-1, n - 1))
    return kept / kept.sum(-1, keepdim=True)


def mask_gathered(logits, p):
    probs, order = logits.softmax(-1).sort(descending=True)
    drop = probs.cumsum(-1) - probs >= p
    return logits.masked_fill(drop.gather(1, order), -math.inf).softmax(-1)


def one_sum_for_all_rows(logits, p):
    probs, total = logits.softmax(-1), 0.0
    kept = torch.zeros_like(probs)
    for b, row in enumerate(probs):
        for i in row.argsort(descending=True).tolist():
            kept[b, i] = row[i]
            total += row[i].item()
            if total >= p:
                break
    return kept / kept.sum(-1, keepdim=True)


@pytest.mark.parametrize(
    "function, diagnosis",
    [
        (nucleus(lambda probs, p: probs.cumsum(-1) - probs <= p), "where the sum is exactly p"),
        (nucleus(lambda probs, p: probs.cumsum(-1) - probs >= p), "the rest is kept"),
        (nucleus(lambda probs, p: probs.cumsum(0) - probs < p), "along the batch"),
        (mask_gathered, "the way back is taken in the wrong direction"),
        (one_sum_for_all_rows, "from one row to the next"),
        (
            nucleus(end=lambda kept, order: torch.zeros_like(kept).scatter(1, order, kept)),
            "not made to sum to 1",
        ),
        (nucleus(lambda probs, p: probs.cumsum(-1) <= p), "carries the sum over p is left out"),
        (
            nucleus(end=lambda kept, order: kept / kept.sum(-1, keepdim=True)),
            "returned in sorted order",
        ),
        (
            nucleus(end=lambda kept, order: (kept / kept.sum(-1, keepdim=True)).gather(1, order)),
            "the way back is taken in the wrong direction",
        ),
        (
            nucleus(
                end=lambda kept, order: torch.zeros_like(kept).scatter(1, order, kept / kept.sum())
            ),
            "over the whole batch",
        ),
        (mask_on_the_unsorted, "laid on the unsorted"),
        (
            lambda logits, p: nucleus_by_logits(logits, p),
            "logits themselves are added up",
        ),
        (nucleus(descending=False), "least probable tokens come first"),
        (each_alone, "compared with p by itself"),
        (min_p, "min-p"),
        (up_to_p_and_the_first, "carries the sum over p is left out"),
        (with_all_ties, "the fewest are asked for"),
        (
            lambda logits, p: nucleus_in_loops(logits, p) * 0 + logits.softmax(-1),
            "nothing is left out",
        ),
        (
            lambda logits, p: logits.where(nucleus_in_loops(logits, p) > 0, 0).softmax(-1),
            "logit is set to 0",
        ),
        (lambda logits, p: logits.div(p).softmax(-1), "that is a temperature"),
    ],
)
def test_wrong_nuclei_are_named(capsys, function, diagnosis):
    fails(capsys, function, "nucleus", diagnosis)


# ----------------------------------------------------------------------------------- corpus_bleu


def bleu_by_sacrebleu(translations, references):
    most = max(map(len, references))
    streams = [[r[i] if i < len(r) else None for r in references] for i in range(most)]
    metric = BLEU(tokenize="none", smooth_method="none", force=True)
    return metric.corpus_score(translations, streams).score


def bleu_in_loops(translations, references):
    right, all_, c, r = [0] * 4, [0] * 4, 0, 0
    for text, others in zip(translations, references, strict=True):
        words, others = text.split(), [other.split() for other in others]
        c += len(words)
        r += sorted((abs(len(o) - len(words)), len(o)) for o in others)[0][1]
        for n in range(1, 5):
            grams = [" ".join(words[i : i + n]) for i in range(len(words) - n + 1)]
            all_[n - 1] += len(grams)
            for gram in set(grams):
                there = max(
                    sum(" ".join(o[i : i + n]) == gram for i in range(len(o) - n + 1))
                    for o in others
                )
                right[n - 1] += min(grams.count(gram), there)
    if 0 in right:
        return 0.0
    product = math.prod(x / y for x, y in zip(right, all_, strict=True))
    return 100 * product**0.25 * min(1, math.exp(1 - r / c))


@pytest.mark.parametrize("function", [bleu_by_sacrebleu, bleu_in_loops])
def test_right_bleus_pass(capsys, function):
    passes(capsys, function, "corpus_bleu")


def counts(words, n):
    return Counter(zip(*(words[i:] for i in range(n)), strict=False))


def bleu(
    cut=str.split,
    union=lambda found: __import__("functools").reduce(Counter.__or__, found),
    hit=lambda ours, theirs: sum((ours & theirs).values()),
    length=lambda c, found: min(found, key=lambda r: (abs(r - c), r)),
    brevity=lambda c, r: min(1, math.exp(1 - r / c)),
    measure=None,
    add=lambda before, new: before + new,
    ns=(1, 2, 3, 4),
    root=None,
    scale=100,
):
    def answer(translations, references):
        c = r = 0
        right, every = Counter(), Counter()
        for text, others in zip(translations, references, strict=True):
            words, lengths = cut(text), [len((measure or cut)(other)) for other in others]
            others = [cut(other) for other in others]
            c, r = c + len(words), add(r, length(len(words), lengths))
            for n in ns:
                ours = counts(words, n)
                right[n] += hit(ours, union([counts(o, n) for o in others]))
                every[n] += sum(ours.values())
        if any(right[n] == 0 for n in ns):
            return 0.0
        found = [right[n] / every[n] for n in ns]
        mean = math.prod(found) ** (1 / len(ns)) if root is None else root(found)
        return scale * brevity(c, r) * mean

    return answer


def zero_for_one_sentence(translations, references):
    for text, others in zip(translations, references, strict=True):
        if bleu()([text], [others]) == 0:
            return 0.0
    return bleu()(translations, references)


def of_sentences(translations, references):
    found = [bleu()([t], [r]) for t, r in zip(translations, references, strict=True)]
    return sum(found) / len(found)


@pytest.mark.parametrize(
    "function, diagnosis",
    [
        (of_sentences, "mean of the sentences' scores"),
        (
            bleu(hit=lambda ours, theirs: sum(n for g, n in ours.items() if theirs[g])),
            "matches are not clipped",
        ),
        (bleu(hit=lambda ours, theirs: len(ours.keys() & theirs.keys())), "counts once"),
        (bleu(union=lambda found: sum(found, Counter())), "counts are added up"),
        (bleu(union=lambda found: found[0], length=lambda c, found: found[0]), "only the first"),
        (bleu(brevity=lambda c, r: 1), "brevity penalty is missing"),
        (bleu(brevity=lambda c, r: math.exp(1 - r / c)), "long translations as well"),
        (bleu(brevity=lambda c, r: max(1, math.exp(1 - r / c))), "long translations get a reward"),
        (bleu(brevity=lambda c, r: min(1, math.exp(r / c - 1))), "the wrong sign"),
        (bleu(measure=list), "counted in characters"),
        (bleu(add=lambda before, new: new), "the lengths are not added up"),
        (zero_for_one_sentence, "as soon as one sentence has no run of four"),
        (bleu(union=lambda found: Counter()), "the score is always 0"),
        (bleu(brevity=lambda c, r: min(1, c / r)), "the ratio of the lengths"),
        (bleu(length=lambda c, found: min(found)), "the one closest"),
        (bleu(length=lambda c, found: max(found)), "the one closest"),
        (
            bleu(length=lambda c, found: min(found, key=lambda r: (abs(r - c), -r))),
            "the longer one",
        ),
        (
            lambda translations, references: bleu()(
                [" ".join(translations)], [[" ".join(r[0] for r in references)]]
            ),
            "",
        ),
        (bleu(cut=lambda text: text.lower().split()), "made small"),
        (bleu(root=lambda found: sum(found) / 4), "geometric mean"),
        (bleu(root=math.prod), "fourth root is missing"),
        (bleu(root=lambda found: math.prod(found) ** 1 / 4), "a fourth, and not a fourth root"),
        (bleu(length=lambda c, found: min(found, key=lambda r: abs(r - c))), "first one listed"),
        (bleu(ns=(4,)), "only one length"),
        (bleu(ns=(1, 2, 3)), "stop at 3"),
        (bleu(cut=list), "characters are counted"),
        (bleu(scale=1), "from 0 to 1"),
    ],
)
def test_wrong_bleus_are_named(capsys, function, diagnosis):
    fails(capsys, function, "corpus_bleu", diagnosis)
