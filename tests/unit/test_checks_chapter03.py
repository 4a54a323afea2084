"""Chapter 3's checkers: right answers in every form, and what is said of wrong ones."""

import math

import numpy as np
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


def score_by_numpy(query, key, W, U, v):
    q, k = (query @ W).numpy(), (key @ U).numpy()
    return torch.from_numpy(np.tanh(q[..., :, None, :] + k[..., None, :, :]) @ v.numpy())


def score_by_einsum(query, key, W, U, v):
    q = torch.einsum("...td,dm->...tm", query, W)
    k = torch.einsum("...sd,dm->...sm", key, U)
    return torch.einsum("...tsm,m->...ts", (k[..., None, :, :] + q[..., None, :]).tanh(), v)


def score_of_joined(query, key, W, U, v):
    # Luong's concat: one matrix for both, joined
    t, s = query.size(-2), key.size(-2)
    q = query.unsqueeze(-2).expand(*query.shape[:-1], s, -1)
    k = key.unsqueeze(-3).expand(*key.shape[:-2], t, *key.shape[-2:])
    return torch.tanh(torch.cat((q, k), -1) @ torch.cat((W, U))) @ v


def score_by_module(query, key, W, U, v):
    module = AdditiveScore(d_query=len(W), d_key=len(U), d_hidden=len(v))
    weights = {"query.weight": W.T, "key.weight": U.T, "v.weight": v[None]}
    return torch.func.functional_call(module, weights, (query, key))


def hidden(query, key, W, U):
    return torch.tanh((query @ W)[..., :, None, :] + (key @ U)[..., None, :, :])


# ------------------------------------------------------------------------------------- look_back


def look_in_loops(h, states, W, real):
    contexts, rows = [], []
    for query, line, keep in zip(h, states, real, strict=True):
        scores = torch.stack([(query @ W) @ key for key in line])
        powers = (scores - scores[keep].max()).exp() * keep
        row = powers / powers.sum()
        rows.append(row)
        contexts.append(sum(w * state for w, state in zip(row, line, strict=True)))
    return torch.stack(contexts), torch.stack(rows)


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


def look_renormalized(h, states, W, real):
    weights = scores_of(h, states, W).softmax(-1) * real
    return mixed(weights / weights.sum(-1, keepdim=True), states)


def look(mask=lambda s, real: s.masked_fill(~real, -math.inf), dim=-1, score=scores_of, give=mixed):
    def function(h, states, W, real):
        return give(mask(score(h, states, W), real).softmax(dim), states)

    return function


def all_states(h, states, W, real):
    scores = (h @ W) @ states.mT
    weights = scores.masked_fill(~real, -1e9).softmax(-1)
    return weights @ states, weights


def zeros_for_padding(h, states, W, real):
    weights = (scores_of(h, states, W) * real).softmax(-1) * real
    return mixed(weights, states)


def squeezing(h, states, W, real):
    scores = torch.bmm(states, (h @ W).unsqueeze(2)).squeeze()
    weights = scores.masked_fill(~real, -math.inf).softmax(-1)
    return torch.bmm(weights.unsqueeze(1), states).squeeze(), weights


test_right, test_wrong = table(
    check,
    right={
        "additive_score": [
            score_in_loops,
            score_by_numpy,
            score_by_einsum,
            score_of_joined,
            score_by_module,
        ],
        "look_back": [
            look_in_loops,
            look_by_einsum,
            look_by_projecting_states,
            look_renormalized,
        ],
    },
    wrong={
        "additive_score": [
            (lambda q, k, W, U, v: ((q @ W) * v) @ (k @ U).mT, "the tanh comes before v"),
            (lambda q, k, W, U, v: hidden(q, k, W, W) @ v, "W is for the query, U for the key"),
            (lambda q, k, W, U, v: hidden(q, k, W, U), "it must have shape (1, 1)"),
        ],
        "look_back": [
            (look(lambda s, real: s.masked_fill(~real, -50)), "far below 0, here at -150"),
            (look(give=lambda w, states: mixed(w, states)[0]), "it must be 2 tensors"),
            (
                look(give=lambda w, states: mixed(w, states)[::-1]),
                "Both numbers in item 0 of the result are wrong",
            ),
            (all_states, "Item 0 of the result has shape (1, 1, 2)"),
            (zeros_for_padding, "the weight of padding goes to the real letters"),
            (squeezing, "Item 0 of the result has shape (2,); it must have shape (1, 2)"),
        ],
    },
)
