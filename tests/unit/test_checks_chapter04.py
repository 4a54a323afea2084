"""Chapter 4's checkers: answers that real learners give, each diagnosed by name."""

import itertools
import math

import pytest
import torch
import torch.nn.functional as F

from transformer_lib.checks.chapter04 import check

pytestmark = pytest.mark.slow


def verdict(capsys, function, name):
    function.__name__ = name
    result = check(function)
    capsys.readouterr()
    return result


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
    return torch.einsum("...ts,...sv->...tv", weights, v), weights


def asks_in_loops(x, W_q, W_k, W_v, memory=None):
    memory = memory if memory is not None else x
    if x.dim() > 2:
        pairs = [asks_in_loops(a, W_q, W_k, W_v, b) for a, b in zip(x, memory, strict=True)]
        return tuple(torch.stack(parts) for parts in zip(*pairs, strict=True))
    rows = []
    for word in x:
        powers = torch.stack([
            torch.exp(torch.dot(word @ W_q, other @ W_k) / math.sqrt(W_q.shape[1]))
            for other in memory
        ])  # fmt: skip
        rows.append(powers / powers.sum())
    weights = torch.stack(rows)
    return sum(weights[:, [s]] * (memory[s] @ W_v) for s in range(len(memory))), weights


def asks_with_the_score_matrix(x, W_q, W_k, W_v, memory=None):
    # q · k = x (W_q W_k^T) m^T, scaled on the way
    memory = x if memory is None else memory
    bilinear = W_q @ W_k.T / W_k.shape[1] ** 0.5
    weights = torch.softmax(x @ bilinear @ memory.transpose(-1, -2), dim=-1)
    return (weights @ memory) @ W_v, weights


@pytest.mark.parametrize(
    "function", [asks, asks_by_einsum, asks_in_loops, asks_with_the_score_matrix]
)
def test_right_askers_pass(capsys, function):
    assert verdict(capsys, function, "ask")


def asking(
    roles=lambda x, m: (x, m, m),
    divisor=lambda x, m, q, v: math.sqrt(q.size(-1)),
    weigh=lambda s: s.softmax(-1),
    linear=torch.matmul,
    turn=lambda k: k.mT,
):
    def ask(x, W_q, W_k, W_v, memory=None):
        m = x if memory is None else memory
        a, b, c = roles(x, m)
        q, k, v = linear(a, W_q), linear(b, W_k), linear(c, W_v)
        weights = weigh(q @ turn(k) / divisor(x, m, q, v))
        return weights @ v, weights

    return ask


def ask_or(x, W_q, W_k, W_v, memory=None):
    return asks(x, W_q, W_k, W_v, memory or x)


def ask_none(x, W_q, W_k, W_v, memory=None):
    q, k, v = x @ W_q, memory @ W_k, memory @ W_v
    weights = F.softmax(q @ k.mT / k.size(-1) ** 0.5, dim=-1)
    return weights @ v, weights


def ask_if(x, W_q, W_k, W_v, memory=None):
    if memory:
        return asks(x, W_q, W_k, W_v, memory)
    return asks(x, W_q, W_k, W_v)


def ask_causal(x, W_q, W_k, W_v, memory=None):
    m = x if memory is None else memory
    scores = (x @ W_q) @ (m @ W_k).mT / W_k.size(-1) ** 0.5
    hidden = torch.ones_like(scores).triu(1).bool()
    weights = scores.masked_fill(hidden, -math.inf).softmax(-1)
    return weights @ (m @ W_v), weights


def ask_scores(x, W_q, W_k, W_v, memory=None):
    m = x if memory is None else memory
    scores = (x @ W_q) @ (m @ W_k).mT / W_k.size(-1) ** 0.5
    return scores.softmax(-1) @ (m @ W_v), scores


def ask_both(x, W_q, W_k, W_v, memory=None):
    return asks(x, W_q, W_k, W_v, x if memory is None else torch.cat((x, memory), dim=-2))


def ask_without_values(x, W_q, W_k, W_v, memory=None):
    weights = asks(x, W_q, W_k, W_v, memory)[1]
    return weights @ (x if memory is None else memory), weights


@pytest.mark.filterwarnings("ignore:The use of `x.T`")
@pytest.mark.parametrize(
    ("function", "diagnosis"),
    [
        (lambda x, a, b, c, memory=None: asks(x, a, b, c), "`memory` is not used"),
        (asking(lambda x, m: (m, x, x)), "the sides have changed places"),
        (asking(lambda x, m: (x, m, x)), "the values come from x"),
        (asking(lambda x, m: (x, x, m)), "the keys come from x"),
        (asking(lambda x, m: (m, m, m)), "the queries come from `memory` as well"),
        (ask_both, "one behind the other"),
        (ask_or, "ask whether `memory is None`"),
        (ask_if, "ask whether `memory is None`"),
        (ask_causal, "a causal mask is left over"),
        (ask_scores, "the scores are returned where the weights should be"),
        (
            lambda x, a, b, c, memory=None: (
                asks(x, a, b, c, memory)[0],
                asks(x, a, b, c, memory)[1].transpose(-1, -2),
            ),
            "the weights are returned on their side",
        ),
        (asking(turn=lambda k: k.transpose(0, 1)), "axes counted from the front"),
        (asking(turn=lambda k: k.transpose(1, 2)), "axes counted from the front"),
        (asking(divisor=lambda x, m, q, v: m.size(-1) ** 0.5), "of the width of `memory`"),
        (asking(divisor=lambda x, m, q, v: q.size(-1) ** -0.5), "multiplied by the root"),
        (ask_none, "None is no tensor"),
        (lambda x, a, b, c, memory=None: asks(x, b, a, c, memory), "W_q and W_k have changed"),
        (lambda x, a, b, c, memory=None: asks(x, a, c, b, memory), "W_k and W_v have changed"),
        (lambda x, a, b, c, memory=None: asks(x, a, a, a, memory), "one projection does for all"),
        (lambda x, a, b, c, memory=None: asks(x, a, b, b, memory), "the keys are mixed"),
        (asking(linear=lambda x, W: x @ W.T), "the matrices are transposed"),
        (asking(linear=F.linear), "the matrices are transposed"),
        (ask_without_values, "the values are not projected"),
        (asking(divisor=lambda x, m, q, v: 1), "not divided by anything"),
        (asking(divisor=lambda x, m, q, v: q.shape[-1]), "by d_k and not by its root"),
        (asking(divisor=lambda x, m, q, v: x.shape[-1] ** 0.5), "of the width of x"),
        (asking(divisor=lambda x, m, q, v: v.shape[-1] ** 0.5), "of the width of the values"),
        (asking(divisor=lambda x, m, q, v: len(m) ** 0.5), "a number of words"),
        (asking(weigh=lambda s: s.softmax(-2)), "over those who ask"),
        (asking(weigh=lambda s: F.softmax(s, dim=1)), "a fixed axis"),
        (asking(weigh=lambda s: s), "there is no softmax"),
        (asking(turn=lambda k: k.T), "all axes of the keys are reversed"),
        (asking(turn=lambda k: k), "the keys are not transposed"),
        (lambda x, a, b, c, memory=None: asks(x, a, b, c, memory)[0], "to be returned with it"),
        (lambda x, a, b, c, memory=None: asks(x, a, b, c, memory)[::-1], "wrong order"),
    ],
)
def test_wrong_askers_are_named(capsys, function, diagnosis):
    def ask(x, W_q, W_k, W_v, memory=None):
        return function(x, W_q, W_k, W_v, memory=memory)

    assert diagnosis in verdict(capsys, ask, "ask").report


# --------------------------------------------------------------------------------- is_equivariant


def tries_many(f, x):
    for _ in range(20):
        order = torch.randperm(len(x))
        if not torch.allclose(f(x[order]), f(x)[order], atol=1e-6):
            return False
    return True


def tries_all(f, x):
    orders = map(list, itertools.permutations(range(x.shape[0])))
    return all((f(x[order]) - f(x)[order]).abs().max() < 1e-4 for order in orders)


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


@pytest.mark.parametrize("function", [tries_many, tries_all, tries_neighbors, tries_matrices])
def test_right_tests_of_equivariance_pass(capsys, function):
    assert verdict(capsys, function, "is_equivariant")


def tries(law, orders=None):
    def is_equivariant(f, x):
        tried = orders(len(x)) if orders else [torch.randperm(len(x)) for _ in range(10)]
        return all(law(f, x, order) for order in tried)

    return is_equivariant


def near(a, b):
    return torch.allclose(a, b, atol=1e-5)


def law(f, x, p):
    return near(f(x[p]), f(x)[p])


def tries_columns(f, x):
    orders = [torch.randperm(x.size(1)) for _ in range(10)]
    return all(near(f(x[:, p]), f(x)[:, p]) for p in orders)


def tries_one(f, x):
    p = torch.randperm(len(x))
    return torch.allclose(f(x[p]), f(x)[p], atol=1e-5)


def tries_one_matrix(f, x):
    P = torch.eye(x.shape[0])[torch.randperm(x.shape[0])]
    return bool(((f(P @ x) - P @ f(x)).abs() < 1e-4).all())


def returns_in_the_loop(f, x):
    for _ in range(100):
        p = torch.randperm(len(x))
        return near(f(x[p]), f(x)[p])
    return None


def returns_at_the_first_success(f, x):
    for _ in range(20):
        p = torch.randperm(len(x))
        if near(f(x[p]), f(x)[p]):
            return True
    return False


def asserts_close(f, x):
    for _ in range(20):
        p = torch.randperm(len(x))
        torch.testing.assert_close(f(x[p]), f(x)[p])
    return True


def tries_two_orders(f, x):
    return near(f(x[torch.randperm(len(x))]), f(x)[torch.randperm(len(x))])


@pytest.mark.parametrize(
    ("function", "diagnosis"),
    [
        (tries(lambda f, x, p: near(f(x[p]), f(x))), "(invariance)"),
        (tries(lambda f, x, p: near(f(x)[p], f(x))), "not shuffled alike"),
        (tries(lambda f, x, p: near(f(x[p]), x[p])), "f stands on one side only"),
        (tries(lambda f, x, p: torch.equal(f(x[p]), f(x)[p])), "every last bit must agree"),
        (tries(lambda f, x, p: bool((f(x[p]) == f(x)[p]).all())), "every last bit must agree"),
        (tries_columns, "the columns are shuffled"),
        (tries_one, "only one shuffle decides"),
        (tries_one_matrix, "only one shuffle decides"),
        (returns_in_the_loop, "only one shuffle decides"),
        (returns_at_the_first_success, "all of them have to agree"),
        (tries(lambda f, x, p: torch.allclose(f(x[p]), f(x)[p], atol=0.1)), "tolerance is so wide"),
        (asserts_close, "an assert stops the test"),
        (tries(law, lambda n: [list(range(n))[::-1]]), "turns the words around"),
        (tries(law, lambda n: [[*range(1, n), 0]]), "moves all words on by one"),
        (tries(law, lambda n: [[1, 0, *range(2, n)]]), "only the first two words"),
        (tries(law, lambda n: [[n - 1, *range(1, n - 1), 0]]), "the first and the last word"),
        (tries(law, lambda n: [list(range(n))]), "every function passes"),
        (
            tries(lambda f, x, p: near(f(x[p]).mean(0), f(x)[p].mean(0))),
            "sums or means over the words",
        ),
        (
            tries(lambda f, x, p: near(f(x[p]).sort(0).values, f(x).sort(0).values)),
            "the rows are sorted",
        ),
        (tries(lambda f, x, p: f(x[p]).shape == f(x).shape), "every function passes"),
        (tries(lambda f, x, p: near(f(x[p])[p], f(x))), "not shuffled alike"),
        (tries(lambda f, x, p: near(f(x[p]), f(x)[p.argsort()])), "not shuffled alike"),
        (tries_two_orders, "not shuffled alike"),
        (lambda f, x: not tries_many(f, x), "the wrong way round"),
    ],
)
def test_wrong_tests_of_equivariance_are_named(capsys, function, diagnosis):
    def is_equivariant(f, x):
        return function(f, x)

    assert diagnosis in verdict(capsys, is_equivariant, "is_equivariant").report
