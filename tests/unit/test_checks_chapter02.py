"""Chapter 2's checkers: right answers in every form, and what is said of wrong ones."""

import math

import torch
import torch.nn.functional as F

from tests.unit.judging import table
from transformer_lib.checks.chapter02 import check

# ---------------------------------------------------------------------------------- past_average


def averages_in_a_loop(x, window):
    return torch.stack([x[max(0, t + 1 - window) : t + 1].mean(dim=0) for t in range(x.shape[0])])


def averages_by_differences(x, window):
    sums = torch.cat([torch.zeros(1, x.shape[1]), x]).cumsum(0)
    last = torch.arange(1, len(x) + 1)
    first = (last - window).clamp(min=0)
    return (sums[last] - sums[first]) / (last - first)[:, None]


def slices(first, last=lambda t, w: t + 1):
    """x[first:last] for each t, as somebody would write it who counts from the wrong end."""

    def function(x, window):
        rows = [x[max(0, first(t, window)) : last(t, window)].mean(0) for t in range(len(x))]
        return torch.stack(rows)

    return function


# ------------------------------------------------------------------------------ scaled_attention


def attention_in_loops(q, k, v, causal=False):
    if q.dim() > 2:
        three = zip(q, k, v, strict=True)
        return torch.stack([attention_in_loops(*each, causal) for each in three])
    rows = []
    for t, one in enumerate(q):
        seen = range(t + 1) if causal else range(len(k))
        powers = [math.exp((one @ k[s]).item() / math.sqrt(len(one))) for s in seen]
        rows.append(sum(p * v[s] for p, s in zip(powers, seen, strict=True)) / sum(powers))
    return torch.stack(rows)


def attention_renormalized(query, key, value, *, causal=False):
    # zeroing after the softmax is right if the rows are divided by what is left
    weights = F.softmax(query @ key.mT / query.shape[-1] ** 0.5, dim=-1)
    if causal:
        weights = weights.tril()
        weights = weights / weights.sum(dim=-1, keepdim=True)
    return weights @ value


def attend(divisor=lambda q, k, v: math.sqrt(k.size(-1)), dim=-1, fill=float("-inf"), diagonal=1):
    def function(q, k, v, causal=False):
        scores = torch.matmul(q, k.transpose(-1, -2)) / divisor(q, k, v)
        if causal:
            banned = torch.ones(scores.size(-2), scores.size(-1)).triu(diagonal) == 1
            scores = scores.masked_fill(banned, fill)
        return torch.matmul(F.softmax(scores, dim=dim), v)

    return function


def times_infinity(q, k, v, causal=False):
    scores = q @ k.mT / math.sqrt(q.size(-1))
    if causal:
        scores = scores + (1 - torch.ones(scores.shape[-2:]).tril()) * -math.inf
    return F.softmax(scores, dim=-1) @ v


def fused(query, key, value, *, causal=False):
    return F.scaled_dot_product_attention(query, key, value, is_causal=causal)


test_right, test_wrong = table(
    check,
    right={
        "past_average": [
            averages_in_a_loop,
            averages_by_differences,
        ],
        "scaled_attention": [
            attention_in_loops,
            attention_renormalized,
            attend(fill=-1e9),
        ],
    },
    wrong={
        "past_average": [
            (slices(lambda t, w: t - w + 1, lambda t, w: t), "a window of 1 holds row t alone"),
        ],
        "scaled_attention": [
            (times_infinity, "The result is NaN at [0, 0]. "),
            (attend(fill=-50), "real scores may lie far below 0, here at -85"),
            (
                fused,
                "It uses the finished scaled_dot_product_attention: write what that does yourself.",
            ),
        ],
    },
)
