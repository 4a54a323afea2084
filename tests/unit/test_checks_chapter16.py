"""Chapter 16's checkers: right answers in every form, and what is said of wrong ones."""

import numpy as np
import torch

from tests.unit.judging import table
from transformer_lib.checks.chapter16 import check

# -------------------------------------------------------------------------- alignment_error_rate


def with_sets(weights, sure, possible, threshold):
    def links(where):
        return {tuple(link) for link in where.nonzero().tolist()}

    s, p = links(sure), links(possible)
    letters = {link[:2] for link in p}
    a = {link for link in links(weights >= threshold) if link[:2] in letters}
    return 1 - (len(a & s) + len(a & p)) / (len(a) + len(s))


def rate(
    formula=lambda a_s, a_p, a, s: 1 - (a_s + a_p) / (a + s),
    links=lambda w, s, p, least: (w >= least) & p.any(-1, keepdim=True),
    count=torch.sum,
):
    def alignment_error_rate(weights, sure, possible, threshold):
        a = links(weights, sure, possible, threshold)
        return formula(*map(count, (a & sure, a & possible, a, sure)))

    return alignment_error_rate


# ----------------------------------------------------------------------------------------- prune


def with_scores(loss, heads, budget):
    removed, remaining = [], list(heads)
    while remaining:
        scores = [loss([*removed, head]) for head in remaining]
        where = int(np.argmin(scores))
        if scores[where] > budget:
            return removed
        removed.append(remaining.pop(where))
    return removed


def recursively(loss, heads, budget, gone=()):
    left = [head for head in heads if head not in gone]
    tried = sorted((loss([*gone, head]), i) for i, head in enumerate(left))
    if not tried or tried[0][0] > budget:
        return list(gone)
    return recursively(loss, heads, budget, (*gone, left[tried[0][1]]))


def in_place(loss, heads, budget):
    gone = []
    while heads:
        best = min(heads, key=lambda head: loss([*gone, head]))
        if loss([*gone, best]) > budget:
            break
        heads.remove(best)
        gone.append(best)
    return gone


def looks_before(loss, heads, budget):
    gone, left = [], list(heads)
    while left and loss(gone) < budget:
        best = min(left, key=lambda head: loss([*gone, head]))
        gone.append(best)
        left.remove(best)
    return gone


# --------------------------------------------------------------------------------- contributions


def in_loops(weights, values, out_weight):
    b, h, t, s = weights.shape
    d_k, found = values.size(-1), weights.new_zeros(b, t, s)
    for i in range(b):
        for row in range(t):
            for piece in range(s):
                vector = 0
                for head in range(h):
                    part = out_weight[:, head * d_k : (head + 1) * d_k]
                    vector = vector + weights[i, head, row, piece] * part @ values[i, head, piece]
                found[i, row, piece] = vector.square().sum().sqrt()
    return found


def side_by_side(
    weights, values, out_weight, joined=lambda parts: parts.permute(0, 2, 3, 1, 4).flatten(-2)
):
    return (joined(weights[..., None] * values[:, :, None]) @ out_weight.T).norm(dim=-1)


test_right, test_wrong = table(
    check,
    right={
        "alignment_error_rate": [with_sets,  rate()],
        "prune": [with_scores, ],
        "contributions": [in_loops, side_by_side],
    },
    wrong={
        "alignment_error_rate": [
            (rate(lambda a_s, a_p, a, s: 1 - (a_p / a + a_s / s) / 2), "of these four links"),
            
            
        ],
        "prune": [
            (looks_before, "no removal may bring the loss above the budget"),
            
            (in_place, "it changes its input `heads` in place"),
        ],
        "contributions": [
            
            (lambda w, v, m: side_by_side(w.relu(), v, m) + 1, "(6, 8) has length 5"),
        ],
    },
)  # fmt: skip
