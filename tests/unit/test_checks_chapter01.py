"""Chapter 1's checkers: right answers in every form, and what is said of wrong ones."""

import math

import torch
import torch.nn.functional as F

from tests.unit.judging import table
from transformer_lib.checks.chapter01 import check

# ------------------------------------------------------------------------------------ my_softmax


def softmax_in_loops(x):
    if x.dim() > 1:
        return torch.stack([softmax_in_loops(row) for row in x])
    top = max(x.tolist())
    powers = [math.exp(v - top) for v in x.tolist()]
    return torch.tensor([p / sum(powers) for p in powers], dtype=torch.float64)


def softmax_with_values_and_indices(scores):
    largest = scores.max(dim=-1, keepdim=True).values
    powers = torch.e ** (scores - largest)
    return powers / powers.sum(dim=-1).unsqueeze(-1)


def softmax_with_an_epsilon(x):
    e = torch.exp(x - torch.max(x))
    return e / (torch.sum(e, dim=-1, keepdim=True) + 1e-9)


# ------------------------------------------------------------------------------- distance_lookup


def distances_in_loops(q, ks, vs, temperature=1.0):
    scores = [-sum((a - b) ** 2 for a, b in zip(q, k, strict=True)) / temperature for k in ks]
    weights = softmax_in_loops(torch.stack(scores))
    return sum(w * v for w, v in zip(weights, vs, strict=True))


def distances_expanded(query, keys, values, temperature=1.0):
    # |q - k|^2 without |q|^2, which is the same for every key and cancels in the softmax
    scores = (2 * keys @ query - (keys * keys).sum(dim=1)) / temperature
    return torch.einsum("s,sd->d", F.softmax(scores, dim=0), values)


def lookup(score, heat=lambda s, t: s / t):
    def function(query, keys, values, temperature=1.0):
        return torch.softmax(heat(score(query, keys), temperature), dim=-1) @ values

    return function


def squared(query, keys):
    return torch.linalg.vector_norm(keys - query, dim=-1) ** 2


# ------------------------------------------------------------------------------------- my_attend


def attend_in_loops(q, k, v):
    if q.dim() > 2:
        return torch.stack([attend_in_loops(*three) for three in zip(q, k, v, strict=True)])
    rows = []
    for one in q:
        weights = softmax_in_loops(torch.stack([(one * key).sum() for key in k]))
        rows.append((weights[:, None] * v).sum(dim=0))
    return torch.stack(rows)


def attend_transposed(queries, keys, values):
    weights = F.softmax(keys @ queries.mT, dim=-2)  # one column per query
    return (values.mT @ weights).mT


test_right, test_wrong = table(
    check,
    right={
        "my_softmax": [
            softmax_in_loops,
            softmax_with_values_and_indices,
        ],
        "distance_lookup": [
            distances_in_loops,
            distances_expanded,
        ],
        "my_attend": [
            attend_in_loops,
            attend_transposed,
            lambda q, k, v: F.scaled_dot_product_attention(q, k, v, scale=1.0),
        ],
    },
    wrong={
        "my_softmax": [
            (lambda x: F.softmax(x, dim=-1), "It uses the finished softmax"),
            (lambda x: x - x.max(dim=-1, keepdim=True), "take `.values`, or use `amax`"),
            (softmax_with_an_epsilon, "a row may lie far below another row"),
        ],
        "distance_lookup": [
            (lookup(lambda q, k: 1 / (1 + squared(q, k))), "minus the squared distances"),
        ],
        "my_attend": [
            (lambda q, k, v: F.softmax(q @ k.T, dim=-1) @ v, "`.T` reverses all axes"),
        ],
    },
)
