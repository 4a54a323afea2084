"""Chapter 2's checkers: right answers in every form, and what is said of wrong ones."""

import math

import torch
import torch.nn.functional as F

from tests.unit.judging import table
from transformer_lib.checks.chapter02 import check

# ---------------------------------------------------------------------------------- past_average


def averages_in_a_loop(x, window):
    return torch.stack([x[max(0, t + 1 - window) : t + 1].mean(dim=0) for t in range(x.shape[0])])


def averages_by_softmax(tokens, width):
    T = tokens.size(0)
    age = torch.arange(T)[:, None] - torch.arange(T)
    scores = torch.zeros(T, T).masked_fill((age < 0) | (age >= width), float("-inf"))
    return F.softmax(scores, dim=1) @ tokens


def averages_by_einsum(x, window):
    n = len(x)
    band = torch.tril(torch.ones(n, n)) - torch.tril(torch.ones(n, n), -window)
    weights = band / torch.arange(1, n + 1).clamp(max=window).unsqueeze(1)
    return torch.einsum("ts,sd->td", weights.double(), x.double())


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


def of_likeness(x, window):
    scores = x @ x.T - averages_by_softmax(torch.eye(len(x)), window).eq(0) * 1e9
    return scores.softmax(dim=-1) @ x


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


def attention_by_einsum(query, key, value, causal=False):
    scores = torch.einsum("...td,...sd->...ts", query.double(), key.double())
    scores = scores / math.sqrt(key.size(-1))
    if causal:
        t, s = scores.shape[-2:]
        scores = scores + torch.full((t, s), float("-inf")).triu(1)
    return torch.einsum("...ts,...sv->...tv", scores.softmax(-1), value.double())


def attention_scaled_first(queries, keys, values, causal=False):
    # the root taken apart: half of it on either side
    width = queries.shape[-1] ** 0.25
    scores = (keys / width) @ (queries / width).mT  # (..., S, T)
    if causal:
        scores = scores.masked_fill(torch.ones(scores.shape[-2:]).tril(-1).bool(), -1e9)
    return (values.mT @ F.softmax(scores, dim=-2)).mT


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


def four_by_four(q, k, v, causal=False):
    scores = q @ k.mT / math.sqrt(q.size(-1))
    if causal:
        scores = scores.masked_fill(torch.tril(torch.ones(4, 4)) == 0, -math.inf)
    return scores.softmax(-1) @ v


def fused(query, key, value, *, causal=False):
    return F.scaled_dot_product_attention(query, key, value, is_causal=causal)


test_right, test_wrong = table(
    check,
    right={
        "past_average": [
            averages_in_a_loop,
            averages_by_softmax,
            averages_by_einsum,
            averages_by_differences,
        ],
        "scaled_attention": [
            attention_in_loops,
            attention_by_einsum,
            attention_scaled_first,
            attention_renormalized,
            attend(fill=-1e9),
        ],
    },
    wrong={
        "past_average": [
            (slices(lambda t, w: t - w + 1, lambda t, w: t), "a window of 1 holds row t alone"),
            (of_likeness, "holds row t and the row before it"),
            (lambda x, w: averages_in_a_loop(x.T, w).T, "holds row t and the row before it"),
            (lambda x, w: x.mean(dim=0), "has shape (1,); it must have shape (3, 1)"),
            (lambda x: x.cumsum(0), "The exercise calls past_average(x, window)"),
        ],
        "scaled_attention": [
            (times_infinity, "query t takes from keys 0 to t"),
            (attend(fill=-50), "real scores may lie far below 0, here at -85"),
            (four_by_four, "It raises RuntimeError"),
            (lambda q, k, v: attend()(q, k, v), "causal=…); yours is defined as"),
            (
                fused,
                "It uses the finished scaled_dot_product_attention: write what that does yourself.",
            ),
        ],
    },
)
