"""Chapter 5's checkers: right answers in every form, and what is said of wrong ones."""

import math

import torch

from tests.unit.judging import table
from transformer_lib.checks.chapter05 import check

# ------------------------------------------------------------------------------ masked_attention


def in_loops(query, key, value, mask):
    mask = mask.expand(*query.shape[:-1], key.shape[-2])
    if query.dim() > 2:
        four = zip(query, key, value, mask, strict=True)
        return torch.stack([in_loops(*each) for each in four])
    rows = []
    for one, allowed in zip(query, mask, strict=True):
        scores = (key[allowed] @ one) / math.sqrt(len(one))
        weights = scores.float().softmax(dim=0).to(value.dtype)  # of no scores: no weights
        rows.append((weights[:, None] * value[allowed]).sum(dim=0))
    return torch.stack(rows)


def attend(weigh):
    """Attention as a learner writes it, with weights of the learner's own."""

    def function(query, key, value, mask):
        scores = torch.matmul(query, key.transpose(-1, -2)) / math.sqrt(key.size(-1))
        return torch.matmul(weigh(scores, mask), value)

    return function


def from_the_largest(s, m):
    s = s.masked_fill(~m, -math.inf)
    powers = (s - s.amax(-1, keepdim=True).clamp(min=torch.finfo(s.dtype).min)).exp()
    return powers / powers.sum(-1, keepdim=True).clamp(min=1e-3)


def mended(s, m):
    return s.masked_fill(~m, -math.inf).softmax(-1).nan_to_num(0.0)


# ---------------------------------------------------------------------------------------- causal


def from_a_list(t, s):
    return torch.tensor([[j <= s - t + i for j in range(s)] for i in range(t)])


# ----------------------------------------------------------------------------------------- leaks


def by_beginnings(model, ids, vocab_size):
    whole = model(ids)
    return any(not torch.allclose(model(ids[:, :t]), whole[:, :t]) for t in range(1, ids.size(1)))


def by_changing_all_that_follows(model, ids, vocab_size):
    found = False
    for t in range(1, ids.size(1)):
        other = torch.cat([ids[:, :t], (ids[:, t:] + 1) % vocab_size], dim=1)
        found |= not torch.equal(model(other)[:, :t], model(ids)[:, :t])
    return found


def by_every_token_there_is(model, ids, vocab_size):
    for s in range(1, ids.size(1)):
        for token in range(vocab_size):
            other = ids.clone()
            other[:, s] = token
            if not torch.allclose(model(other)[:, :s], model(ids)[:, :s]):
                return True
    return False


def written(positions=range, new=lambda old, v: (old + 1) % v, part=lambda i: slice(i)):
    def function(model, ids, vocab_size):
        first = model(ids)
        for i in positions(ids.shape[1]):
            ids2 = ids.clone()
            ids2[:, i] = new(ids2[:, i], vocab_size)
            if not torch.equal(first[:, part(i)], model(ids2)[:, part(i)]):
                return True
        return False

    return function


test_right, test_wrong = table(
    check,
    right={
        "masked_attention": [
            in_loops,
            attend(from_the_largest),
            attend(mended),
        ],
        "causal": [
            lambda t, s: torch.arange(s) <= torch.arange(s - t, s)[:, None],
            from_a_list,
        ],
        "leaks": [
            by_beginnings,
            by_changing_all_that_follows,
            by_every_token_there_is,
        ],
    },
    wrong={
        "masked_attention": [
            (attend(lambda s, m: (s + m).softmax(-1)), "the weight of a hidden key goes to the"),
            (lambda *x: in_loops(*(t.float() if t.is_floating_point() else t for t in x)),
             "their dtype is float32; for this input it must be float16"),
        ],
        "leaks": [
            (written(new=lambda old, v: old + 1), "asked for an id that it doesn't have"),
        ],
    },
)  # fmt: skip
