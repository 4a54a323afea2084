"""Chapter 3's checkers: right answers in every form, and what is said of wrong ones."""

import math

import torch
import torch.nn.functional as F

from tests.unit.judging import table
from transformer_lib import AdditiveScore
from transformer_lib.checks.chapter03 import check

# -------------------------------------------------------------------------------- additive_score


def score_in_loops(query, key, W, U, v):
    if query.dim() > 2:
        pairs = zip(query, key, strict=True)
        return torch.stack([score_in_loops(q, k, W, U, v) for q, k in pairs])
    rows = [torch.stack([sum(torch.tanh(q @ W + k @ U) * v) for k in key]) for q in query]
    return torch.stack(rows)


def score_by_module(query, key, W, U, v):
    module = AdditiveScore(d_query=len(W), d_key=len(U), d_hidden=len(v))
    weights = {"query.weight": W.T, "key.weight": U.T, "v.weight": v[None]}
    return torch.func.functional_call(module, weights, (query, key))


def hidden(query, key, W, U):
    return torch.tanh((query @ W)[..., :, None, :] + (key @ U)[..., None, :, :])


# ------------------------------------------------------------------------------------- look_back


def look_by_einsum(h, states, W, real):
    scores = torch.einsum("bd,dk,bsk->bs", h, W, states)
    weights = F.softmax(scores.masked_fill(real.logical_not(), -1e9), dim=1)
    return torch.einsum("bs,bsk->bk", weights, states), weights


def look_by_projecting_states(h, states, W, real):
    scores = (states @ W.T @ h.unsqueeze(-1)).squeeze(-1)
    scores[~real] = -math.inf
    weights = torch.softmax(scores, -1)
    return [torch.bmm(weights.unsqueeze(1), states).squeeze(1), weights]


def scores_of(h, states, W):
    return torch.bmm(states, (h @ W).unsqueeze(-1)).squeeze(-1)


def mixed(weights, states):
    return torch.bmm(weights.unsqueeze(1), states).squeeze(1), weights


def look(mask=lambda s, real: s.masked_fill(~real, -math.inf), dim=-1, score=scores_of, give=mixed):
    def function(h, states, W, real):
        return give(mask(score(h, states, W), real).softmax(dim), states)

    return function


def squeezing(h, states, W, real):
    scores = torch.bmm(states, (h @ W).unsqueeze(2)).squeeze()
    weights = scores.masked_fill(~real, -math.inf).softmax(-1)
    return torch.bmm(weights.unsqueeze(1), states).squeeze(), weights


test_right, test_wrong = table(
    check,
    right={
        "additive_score": [
            score_in_loops,
            score_by_module,
        ],
        "look_back": [
            look_by_einsum,
            look_by_projecting_states,
        ],
    },
    wrong={
        "additive_score": [
            (lambda q, k, W, U, v: ((q @ W) * v) @ (k @ U).mT, "the tanh comes before v"),
            (lambda q, k, W, U, v: hidden(q, k, W, W) @ v, "W is for the query, U for the key"),
        ],
        "look_back": [
            (look(lambda s, real: s.masked_fill(~real, -50)), "far below 0, here at -150"),
            (squeezing, "Item 0 of the result has shape (2,); it must have shape (1, 2)"),
        ],
    },
)
