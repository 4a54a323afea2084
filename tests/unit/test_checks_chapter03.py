"""Chapter 3's checkers: answers that real learners give, each diagnosed by name."""

import math

import pytest
import torch
import torch.nn.functional as F

from transformer_lib import AdditiveScore
from transformer_lib.checks.chapter03 import check

pytestmark = pytest.mark.slow


def verdict(capsys, function, name):
    function.__name__ = name
    result = check(function)
    capsys.readouterr()
    return result


# -------------------------------------------------------------------------------- additive_score


def score_in_loops(query, key, W, U, v):
    if query.dim() > 2:
        pairs = zip(query, key, strict=True)
        return torch.stack([score_in_loops(q, k, W, U, v) for q, k in pairs])
    rows = [torch.stack([sum(torch.tanh(q @ W + k @ U) * v) for k in key]) for q in query]
    return torch.stack(rows)


def score_by_broadcast(q, k, w1, w2, v):
    hidden = torch.tanh((q @ w1)[..., :, None, :] + (k @ w2)[..., None, :, :])
    return (hidden * v).sum(dim=-1)


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


@pytest.mark.parametrize(
    "function",
    [score_in_loops, score_by_broadcast, score_by_einsum, score_of_joined, score_by_module],
)
def test_right_scores_pass(capsys, function):
    assert verdict(capsys, function, "additive_score")


def scored(q_axis=-2, k_axis=-3, bend=torch.tanh):
    def function(query, key, W, U, v):
        return bend((query @ W).unsqueeze(q_axis) + (key @ U).unsqueeze(k_axis)) @ v

    return function


def hidden(query, key, W, U):
    return torch.tanh((query @ W)[..., :, None, :] + (key @ U)[..., None, :, :])


@pytest.mark.parametrize(
    ("function", "diagnosis"),
    [
        (scored(bend=lambda x: x), "every query ranks the keys alike"),
        (
            lambda q, k, W, U, v: (
                ((q @ W).tanh() @ v)[..., None] + ((k @ U).tanh() @ v)[..., None, :]
            ),
            "each half is scored alone",
        ),
        (
            lambda q, k, W, U, v: torch.tanh((q @ W @ v)[..., None] + (k @ U @ v)[..., None, :]),
            "the tanh comes last",
        ),
        (scored(bend=torch.sigmoid), "a sigmoid"),
        (scored(bend=F.relu), "a ReLU"),
        (lambda q, k, W, U, v: ((q @ W) * v) @ (k @ U).mT, "multiplied and not added"),
        (lambda q, k, W, U, v: F.softmax(scored()(q, k, W, U, v), dim=-1), "softmax is taken"),
        (lambda q, k, W, U, v: hidden(q, k, W, U).sum(-1), "added up without v"),
        (lambda q, k, W, U, v: hidden(q, k, W, U) * v, "v is multiplied but not summed"),
        (lambda q, k, W, U, v: hidden(q, k, W, U), "the hidden layer is returned"),
        (lambda q, k, W, U, v: hidden(q, k, W, U) @ v.unsqueeze(1), "left at the end"),
        (
            lambda q, k, W, U, v: torch.tensor(scored()(q, k, W, U, v).tolist()),
            "gradient",
        ),
        (lambda q, k, W, U, v: scored()(k, q, U, W, v), "have changed places: rows"),
        (lambda q, k, W, U, v: scored()(q, k, W, U, v).mT, "have changed places: rows"),
        (lambda q, k, W, U, v: torch.tanh(q @ W + k @ U) @ v, "query t meets key t only"),
        (scored(1, 0), "counted from the front: with a batch"),
        (scored(2, 1), "for one batch axis"),
        (lambda q, k, W, U, v: scored()(q, k, U, W, v), "W and U have changed places"),
        (lambda q, k, W, U, v: scored()(q, k, W, W, v), "is used for both"),
        (lambda q, k, W, U, v: scored()(q, k, W.T, U.T, v), "the matrices are transposed"),
        (lambda q, k, W, U, v: scored()(q, k, W, U, v) / math.sqrt(v.numel()), "by a root"),
        (lambda q, k, W, U, v: scored()(q, k, W, U, v) * k.size(-1) ** -0.5, "by a root"),
        (lambda q, k, W, U, v: scored()(torch.zeros_like(q), k, W, U, v), "each key is scored"),
        (lambda q, k, W, U, v: scored()(q, torch.zeros_like(k), W, U, v), "each query is scored"),
    ],
)
def test_wrong_scores_are_named(capsys, function, diagnosis):
    report = verdict(
        capsys, lambda query, key, W, U, v: function(query, key, W, U, v), "additive_score"
    ).report
    assert diagnosis in report


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
    return torch.bmm(weights.unsqueeze(1), states).squeeze(1), weights


def look_renormalized(h, states, W, real):
    weights = (states @ (h @ W)[..., None]).squeeze(-1).softmax(-1) * real
    weights = weights / weights.sum(-1, keepdim=True)
    return (weights[..., None] * states).sum(1), weights


@pytest.mark.parametrize(
    "function",
    [look_in_loops, look_by_einsum, look_by_projecting_states, look_renormalized],
)
def test_right_looks_pass(capsys, function):
    assert verdict(capsys, function, "look_back")


def scores_of(h, states, W):
    return torch.bmm(states, (h @ W).unsqueeze(-1)).squeeze(-1)


def mixed(weights, states):
    return torch.bmm(weights.unsqueeze(1), states).squeeze(1), weights


def look(mask=lambda s, real: s.masked_fill(~real, -math.inf), dim=-1, score=scores_of, give=mixed):
    def function(h, states, W, real):
        return give(mask(score(h, states, W), real).softmax(dim), states)

    return function


def look_masking_late(h, states, W, real):
    return mixed(scores_of(h, states, W).softmax(-1) * real, states)


def look_at_the_best(h, states, W, real):
    best = scores_of(h, states, W).masked_fill(~real, -1e9).argmax(-1)
    return mixed(F.one_hot(best, states.size(1)).float(), states)


def look_without_softmax(h, states, W, real):
    return mixed(scores_of(h, states, W).masked_fill(~real, 0), states)


def look_with_powers(h, states, W, real):
    return mixed(scores_of(h, states, W).exp() * real, states)


def look_along_an_axis_of_one(h, states, W, real):
    scores = (h @ W)[:, :, None].mT @ states.mT  # (B, 1, S)
    return mixed(scores.softmax(1)[:, 0], states)


def look_with_plain_powers(h, states, W, real):
    powers = torch.exp(scores_of(h, states, W)) * real
    return mixed(powers / powers.sum(1, keepdim=True), states)


def look_squeezing(h, states, W, real):
    scores = torch.bmm(states, (h @ W).unsqueeze(2)).squeeze()
    weights = scores.masked_fill(~real, -math.inf).softmax(-1)
    return torch.bmm(weights.unsqueeze(1), states).squeeze(), weights


def look_zeroing_states_in_the_mix(h, states, W, real):
    weights = scores_of(h, states, W).softmax(-1)
    return mixed(weights, states * real[..., None])[0], weights


@pytest.mark.parametrize(
    ("function", "diagnosis"),
    [
        (look(mask=lambda s, real: s), "the padding is not hidden"),
        (look(mask=lambda s, real: s.masked_fill(real, -math.inf)), "the wrong way round"),
        (look(mask=lambda s, real: s.masked_fill(real, -1e9)), "the wrong way round"),
        (look(mask=lambda s, real: s.masked_fill(~real, 0)), "e^0 = 1 is a weight"),
        (look(mask=lambda s, real: s * real.float()), "e^0 = 1 is a weight"),
        (look_masking_late, "zeroed after the softmax"),
        (
            lambda h, states, W, real: look(mask=lambda s, real: s)(
                h, states.masked_fill(~real[..., None], 0), W, real
            ),
            "the states are zeroed at padding",
        ),
        (look(dim=0), "over the lines of the batch"),
        (
            look(mask=lambda s, real: s.masked_fill(~real, -1e9), dim=0),
            "over the lines of the batch",
        ),
        (look_without_softmax, "there is no softmax"),
        (look_with_powers, "not divided by their sum"),
        (look_at_the_best, "all the weight goes to the best letter"),
        (
            look(score=lambda h, states, W: torch.bmm(states, h.unsqueeze(-1)).squeeze(-1)),
            "W is left out",
        ),
        (look(score=lambda h, states, W: scores_of(h, states, W.T)), "W is transposed"),
        (
            look(score=lambda h, states, W: torch.einsum("bd,bsd->bs", h, states @ W)),
            "multiplied with the states",
        ),
        (
            look(score=lambda h, states, W: scores_of(h, states, W) / math.sqrt(states.size(-1))),
            "divided by a root",
        ),
        (
            lambda h, states, W, real: (
                torch.einsum("bs,bsk->bk", look()(h, states, W, real)[1], states @ W.T),
                look()(h, states, W, real)[1],
            ),
            "the projected states",
        ),
        (look(give=lambda w, states: (w[..., None] * states, w)), "weighted but not added up"),
        (look(give=lambda w, states: ((w[..., None] * states).mean(1), w)), "averaged over"),
        (look(give=lambda w, states: (states.mean(1), w)), "play no part in the mix"),
        (look(give=lambda w, states: (states[:, -1], w)), "the context is the last state"),
        (look(give=lambda w, states: mixed(w, states)[0]), "only the context is returned"),
        (look(give=lambda w, states: w), "only the weights are returned"),
        (look(give=lambda w, states: mixed(w, states)[::-1]), "in the wrong order"),
        (look(mask=lambda s, real: s + (~real) * -math.inf), "0 · ∞ is NaN"),
        (look(mask=lambda s, real: s.masked_fill(~real, -10)), "not low enough"),
        (look(mask=lambda s, real: s.masked_fill(~real, math.inf)), "plus infinity"),
        (
            look(
                mask=lambda s, real: s.masked_fill(
                    torch.arange(s.size(1)) >= real.sum(1)[:, None], -math.inf
                )
            ),
            "taken to stand behind",
        ),
        (
            lambda h, states, W, real: (look()(h, states, W, real)[0], scores_of(h, states, W)),
            "the scores are returned and not the weights",
        ),
        (look(mask=lambda s, real: s.masked_fill(~real, -math.inf).softmax(-1)), "twice"),
        (look_along_an_axis_of_one, "an axis of length 1: every weight"),
        (look_with_plain_powers, "the exponentials overflow"),
        (look_squeezing, "`squeeze()` names no axis"),
        (look_zeroing_states_in_the_mix, "left out of the mix but not of the weights"),
        (look(give=lambda w, states: (w[:, None] @ states, w)), "an axis of length 1"),
        (look(give=lambda w, states: (w[:, None] @ states, w[:, None])), "an axis of length 1"),
    ],
)
def test_wrong_looks_are_named(capsys, function, diagnosis):
    report = verdict(
        capsys, lambda h, states, W, real: function(h, states, W, real), "look_back"
    ).report
    assert diagnosis in report
