"""Chapter 4's checkers: right answers in every form, and what is said of wrong ones."""

import math

import numpy as np
import torch
import torch.nn.functional as F

from tests.unit.judging import table
from transformer_lib.checks.chapter04 import check

# ------------------------------------------------------------------------------------------- ask


def asks(x, W_q, W_k, W_v, memory=None):
    if memory is None:
        memory = x
    query, key, value = x @ W_q, memory @ W_k, memory @ W_v
    weights = (query @ key.mT / key.size(-1) ** 0.5).softmax(dim=-1)
    return weights @ value, weights


def asks_by_einsum(x, Wq, Wk, Wv, context=None):
    context = x if context is None else context
    q = torch.einsum("...tx,xk->...tk", x.double(), Wq.double())
    k = torch.einsum("...sm,mk->...sk", context.double(), Wk.double())
    v = torch.einsum("...sm,mv->...sv", context.double(), Wv.double())
    weights = F.softmax(torch.einsum("...tk,...sk->...ts", q, k) / math.sqrt(k.shape[-1]), -1)
    return [torch.einsum("...ts,...sv->...tv", weights, v), weights]


def asks_in_loops(x, W_q, W_k, W_v, memory=None):
    memory = memory if memory is not None else x
    if x.dim() > 2:
        pairs = [asks_in_loops(a, W_q, W_k, W_v, b) for a, b in zip(x, memory, strict=True)]
        return tuple(torch.stack(parts) for parts in zip(*pairs, strict=True))
    rows = []
    for word in x:
        scores = [(word @ W_q) @ (other @ W_k) / math.sqrt(W_q.shape[1]) for other in memory]
        powers = torch.stack(scores).exp()
        rows.append(powers / powers.sum())
    weights = torch.stack(rows)
    return sum(weights[:, [s]] * (memory[s] @ W_v) for s in range(len(memory))), weights


def asks_with_the_score_matrix(x, W_q, W_k, W_v, memory=None):
    # q · k = x (W_q W_k^T) m^T, scaled on the way
    memory = x if memory is None else memory
    bilinear = W_q @ W_k.T / W_k.shape[1] ** 0.5
    weights = torch.softmax(x @ bilinear @ memory.transpose(-1, -2), dim=-1)
    return (weights @ memory) @ W_v, weights


def asking(roles=lambda x, m: (x, m, m), divisor=lambda x, q: math.sqrt(q.size(-1))):
    def ask(x, W_q, W_k, W_v, memory=None):
        a, b, c = roles(x, x if memory is None else memory)
        weights = ((a @ W_q) @ (b @ W_k).mT / divisor(x, a @ W_q)).softmax(-1)
        return weights @ (c @ W_v), weights

    return ask


def ask_or(x, W_q, W_k, W_v, memory=None):
    return asks(x, W_q, W_k, W_v, memory or x)


# --------------------------------------------------------------------------------- is_equivariant


def tries_many(f, x):
    for _ in range(20):
        order = torch.randperm(len(x))
        if not torch.allclose(f(x[order]), f(x)[order], atol=1e-6):
            return False
    return True


def tries_neighbors(f, x):
    # every shuffle is made of exchanges of neighbors
    def exchanged(i):
        return [*range(i), i + 1, i, *range(i + 2, len(x))]

    orders = [exchanged(i) for i in range(len(x) - 1)]
    return all(torch.allclose(f(x[order]), f(x)[order], atol=1e-5) for order in orders)


def tries_matrices(f, x):
    for seed in range(10):
        torch.manual_seed(seed)
        P = torch.eye(len(x))[torch.randperm(len(x))]
        try:
            torch.testing.assert_close(P.T @ f(P @ x), f(x), atol=1e-5, rtol=1e-4)
        except AssertionError:
            return False
    return True


def tries_numpy(f, x):
    orders = [np.random.permutation(len(x)) for _ in range(20)]
    return np.bool_(all(np.allclose(f(x[o]), f(x)[o], atol=1e-5) for o in orders))


def near(a, b):
    return torch.allclose(a, b, atol=1e-5)


def tries(law, orders=None):
    def is_equivariant(f, x):
        tried = orders(len(x)) if orders else [torch.randperm(len(x)) for _ in range(10)]
        return all(law(f, x, order) for order in tried)

    return is_equivariant


def law(f, x, p):
    return near(f(x[p]), f(x)[p])


def one_seeded(seed):
    def is_equivariant(f, x):
        torch.manual_seed(seed)
        order = torch.randperm(len(x))
        return torch.allclose(f(x[order]), f(x)[order], atol=1e-5)

    return is_equivariant


def the_last_decides(f, x):
    same = False
    for _ in range(20):
        order = torch.randperm(len(x))
        same = torch.allclose(f(x[order]), f(x)[order], atol=1e-5)
    return same


test_right, test_wrong = table(
    check,
    right={
        "ask": [asks, asks_by_einsum, asks_with_the_score_matrix],
        "is_equivariant": [tries_many, tries_neighbors, tries_matrices, tries_numpy],
    },
    wrong={
        "ask": [
            (asking(divisor=lambda x, q: len(x) ** 0.5), "by √d_k, here 2"),
            (ask_or, "this tensor holds several: use `is not None`"),
        ],
        "is_equivariant": [
            (one_seeded(1), "a shuffle that leaves this row where it is"),
            (the_last_decides, "a shuffle that leaves this row where it is doesn't show it"),
            (tries(law, lambda n: [list(range(n))]), "doubles only the first row"),
        ],
    },
)
