"""Chapter 6's checkers: answers that real learners give, each diagnosed by name."""

import math

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from transformer_lib.checks.chapter06 import check

pytestmark = pytest.mark.slow


def verdict(capsys, function, name):
    function.__name__ = name
    result = check(function)
    capsys.readouterr()
    return result


# ------------------------------------------------------------------------------------ multi_head


def heads_in_a_loop(x, W_q, W_k, W_v, W_o, n_heads):
    d_k, d_v = W_q.shape[1] // n_heads, W_v.shape[1] // n_heads
    heads = []
    for i in range(n_heads):
        k, v = slice(i * d_k, (i + 1) * d_k), slice(i * d_v, (i + 1) * d_v)
        query, key, value = x @ W_q[:, k], x @ W_k[:, k], x @ W_v[:, v]
        weights = F.softmax(query @ key.transpose(-2, -1) / math.sqrt(d_k), dim=-1)
        heads.append(weights @ value)
    return torch.cat(heads, dim=-1) @ W_o


def heads_added_after_their_slice(x, W_q, W_k, W_v, W_o, n_heads):
    # each head has its slice of W_o, and the sum of what comes out is the answer
    output = 0
    chunks = (W.chunk(n_heads, dim=-1) for W in (W_q, W_k, W_v))
    for q, k, v, o in zip(*chunks, W_o.chunk(n_heads, dim=0), strict=True):
        scores = x @ q @ (x @ k).mT / q.shape[1] ** 0.5
        output = output + scores.softmax(-1) @ (x @ v) @ o
    return output


def heads_by_einsum(x, W_q, W_k, W_v, W_o, n_heads):
    q, k, v = (W.reshape(W.shape[0], n_heads, -1).double() for W in (W_q, W_k, W_v))
    o = W_o.reshape(n_heads, -1, W_o.shape[1]).double()
    query, key, value = (torch.einsum("...td,dhk->...htk", x.double(), W) for W in (q, k, v))
    scores = torch.einsum("...htk,...hsk->...hts", query, key) / math.sqrt(q.shape[-1])
    return torch.einsum("...hts,...hsv,hvd->...td", scores.softmax(-1), value, o)


def heads_as_batches(x, W_q, W_k, W_v, W_o, n_heads):
    *batch, t, d = x.shape
    x = x.reshape(-1, t, d)

    def split(y):
        b, t, w = y.shape
        y = y.view(b, t, n_heads, w // n_heads).transpose(1, 2)
        return y.reshape(b * n_heads, t, w // n_heads)

    query, key, value = split(x @ W_q), split(x @ W_k), split(x @ W_v)
    mixed = F.scaled_dot_product_attention(query, key, value)
    mixed = mixed.view(x.size(0), n_heads, t, -1).permute(0, 2, 1, 3).reshape(x.size(0), t, -1)
    return (mixed @ W_o).reshape(*batch, t, -1)


@pytest.mark.parametrize(
    "function",
    [heads_in_a_loop, heads_added_after_their_slice, heads_by_einsum, heads_as_batches],
)
def test_right_heads_pass(capsys, function):
    assert verdict(capsys, function, "multi_head")


def by_axis(x, n_heads):
    return x.reshape(*x.shape[:-1], n_heads, x.size(-1) // n_heads).transpose(-2, -3)


def joined(x):
    x = x.transpose(-2, -3)
    return x.reshape(*x.shape[:-2], x.size(-2) * x.size(-1))


def multi(
    cut=by_axis,
    join=joined,
    divisor=lambda x, q, v, h: math.sqrt(q.size(-1)),
    weigh=lambda scores: F.softmax(scores, dim=-1),
    end=torch.matmul,
):
    def function(x, W_q, W_k, W_v, W_o, n_heads):
        q, k, v = cut(x @ W_q, n_heads), cut(x @ W_k, n_heads), cut(x @ W_v, n_heads)
        weights = weigh(torch.matmul(q, k.transpose(-1, -2)) / divisor(x, q, v, n_heads))
        return end(join(torch.matmul(weights, v)), W_o)

    return function


def cut_without_transpose(x, n_heads):
    return x.reshape(*x.shape[:-2], n_heads, x.shape[-2], x.shape[-1] // n_heads)


def join_without_transpose(x):
    *batch, h, t, v = x.shape
    return x.reshape(*batch, t, h * v)


def cut_in_the_wrong_order(x, n_heads):
    x = x.reshape(*x.shape[:-1], x.shape[-1] // n_heads, n_heads)
    return x.transpose(-1, -2).transpose(-2, -3)


def one_head(x, W_q, W_k, W_v, W_o, n_heads):
    scores = (x @ W_q) @ (x @ W_k).mT / math.sqrt(W_q.shape[1])
    return scores.softmax(-1) @ (x @ W_v) @ W_o


def shared_weights(x, W_q, W_k, W_v, W_o, n_heads):
    q, k, v = (by_axis(x @ W, n_heads) for W in (W_q, W_k, W_v))
    weights = (q @ k.mT / q.shape[-1] ** 0.5).softmax(-1).mean(dim=-3)
    return joined(torch.stack([weights @ v.select(-3, i) for i in range(n_heads)], -3)) @ W_o


def sliced_by_d_model(x, W_q, W_k, W_v, W_o, n_heads):
    width, heads = x.shape[-1] // n_heads, []
    for i in range(n_heads):
        part = slice(i * width, (i + 1) * width)
        q, k, v = x @ W_q[:, part], x @ W_k[:, part], x @ W_v[:, part]
        heads.append(F.softmax(q @ k.mT / math.sqrt(q.shape[-1]), dim=-1) @ v)
    return torch.cat(heads, dim=-1) @ W_o


def first_heads_weights(x, W_q, W_k, W_v, W_o, n_heads):
    d_k = W_q.shape[1] // n_heads
    weights = (x @ W_q[:, :d_k] @ (x @ W_k[:, :d_k]).mT / d_k**0.5).softmax(-1)
    return weights @ (x @ W_v) @ W_o


@pytest.mark.parametrize(
    ("function", "diagnosis"),
    [
        (one_head, "this is one head of full width"),
        (multi(cut_without_transpose, join_without_transpose), "both lack the transpose"),
        (multi(join=join_without_transpose), "the merge lacks the transpose"),
        (multi(cut_without_transpose), "the split lacks the transpose"),
        (
            multi(lambda x, h: x.view(*x.shape[:-1], h, -1), lambda x: x.flatten(-2)),
            "the tokens stand where the heads should",
        ),
        (multi(cut_in_the_wrong_order), "every n-th column"),
        (multi(join=lambda x: x.movedim(-3, -1).flatten(-2)), "number by number"),
        (multi(divisor=lambda x, q, v, h: math.sqrt(x.size(-1))), "root of the model's width"),
        (multi(divisor=lambda x, q, v, h: math.sqrt(h * q.size(-1))), "of all heads together"),
        (multi(divisor=lambda x, q, v, h: (x.size(-1) // h) ** 0.5), "root of d_model / n_heads"),
        (multi(divisor=lambda x, q, v, h: v.size(-1) ** 0.5), "of a head's values, d_v"),
        (multi(divisor=lambda x, q, v, h: q.size(-1)), "by d_k and not by its root"),
        (multi(divisor=lambda x, q, v, h: q.size(-1) ** 1 / 2), "this divides d_k by 2"),
        (multi(divisor=lambda x, q, v, h: 8), "64 is the paper's d_k"),
        (multi(divisor=lambda x, q, v, h: 1 / math.sqrt(q.size(-1))), "multiplied by the root"),
        (multi(divisor=lambda x, q, v, h: math.sqrt(x.size(-2))), "of the number of tokens"),
        (
            multi(
                lambda x, h: x.view(*x.shape[:-1], h, -1).transpose(0, 1),
                lambda x: x.transpose(0, 1).flatten(-2),
            ),
            "was counted from the front",
        ),
        (multi(lambda x, h: x.view(*x.shape[:-1], h, -1).transpose(1, 2)), "with one axis for"),
        (
            multi(
                lambda x, h: x.view(*x.shape[:-1], h, -1).transpose(1, 2),
                lambda x: x.transpose(1, 2).flatten(-2),
            ),
            "with one axis for",
        ),
        (sliced_by_d_model, "taken to be d_model / n_heads columns wide"),
        (multi(divisor=lambda x, q, v, h: 1), "the scores are not divided by anything"),
        (multi(weigh=lambda s: F.softmax(s, dim=-2)), "over the queries and not over the keys"),
        (multi(weigh=lambda s: F.softmax(s, dim=-3)), "the softmax runs over the heads"),
        (multi(weigh=lambda s: F.softmax(s, dim=2)), "a fixed axis, counted from the front"),
        (multi(weigh=lambda s: F.softmax(s, dim=1)), "a fixed axis, counted from the front"),
        (multi(weigh=lambda s: s), "there is no softmax"),
        (shared_weights, "the weights are averaged over the heads"),
        (
            multi(weigh=lambda s: s.sum(-3, keepdim=True).softmax(-1)),
            "added up over the heads before the softmax",
        ),
        (first_heads_weights, "every head gets the weights of the first one"),
        (multi(join=lambda x: x.mean(dim=-3)), "averaged or added up"),
        (
            multi(join=lambda x: x.mean(-3).repeat(*[1] * (x.dim() - 2), x.size(-3))),
            "averaged or added up",
        ),
        (multi(join=lambda x: x.sum(dim=-3)), "averaged or added up"),
        (multi(end=lambda x, W_o: x), "`W_o` is missing"),
        (multi(end=lambda x, W_o: F.linear(x, W_o)), "turned on its side"),
        (multi(join=lambda x: x, end=lambda x, W_o: x), "never merged"),
        (
            lambda x, q, k, v, o, h: multi()(x, q, k, k, o, h),
            "the keys are mixed where the values should be",
        ),
        (lambda x, q, k, v, o, h: multi()(x, k, q, v, o, h), "have changed places"),
    ],
)
def test_wrong_heads_are_named(capsys, function, diagnosis):
    def multi_head(x, W_q, W_k, W_v, W_o, n_heads):
        return function(x, W_q, W_k, W_v, W_o, n_heads)

    assert diagnosis in verdict(capsys, multi_head, "multi_head").report


def test_the_reference_is_what_pytorch_computes():
    torch.manual_seed(0)
    layer = nn.MultiheadAttention(12, 3, bias=False, batch_first=True)
    x = torch.randn(2, 5, 12)
    W_q, W_k, W_v = (W.T for W in layer.in_proj_weight.chunk(3))
    torch.testing.assert_close(
        heads_in_a_loop(x, W_q, W_k, W_v, layer.out_proj.weight.T, 3), layer(x, x, x)[0]
    )


# ------------------------------------------------------------------------------- attention_flops


def bill_by_products(n, d_model, n_heads, d_k, d_v):
    products = [(n, d_model, d_k)] * 2 + [(n, d_model, d_v), (n, d_k, n), (n, n, d_v)]
    heads = sum(2 * a * b * c for a, b, c in products) * n_heads
    return heads + 2 * n * (n_heads * d_v) * d_model


def bill_factored(n, d_model, n_heads, d_k, d_v):
    return 2 * n * n_heads * (d_k + d_v) * (2 * d_model + n)


@pytest.mark.parametrize("function", [bill_by_products, bill_factored])
def test_right_bills_pass(capsys, function):
    assert verdict(capsys, function, "attention_flops")


@pytest.mark.parametrize(
    ("function", "diagnosis"),
    [
        (lambda n, d, h, k, v: bill_by_products(n, d, h, k, v) // 2, "counts 1, so 2"),
        (lambda n, d, h, k, v: bill_factored(n, d, h, k, v) - 2 * n * h * v * d, "W_o, is missing"),
        (lambda n, d, h, k, v: 2 * n * n * h * (k + v), "no projection is counted"),
        (lambda n, d, h, k, v: 4 * n * d * h * (k + v), "only projections are counted"),
        (lambda n, d, h, k, v: bill_factored(n, d, h, k, v) - 2 * n * n * h * v, "mixing the"),
        (lambda n, d, h, k, v: bill_factored(n, d, h, k, v) - 2 * n * n * h * k, "scores are miss"),
        (lambda n, d, h, k, v: bill_factored(n, d, 1, k, v), "the number of heads is missing"),
        (
            lambda n, d, h, k, v: 4 * n * d * h * (k + v) + 2 * n * n * (k + v),
            "scores and mixing are counted for one head",
        ),
        (
            lambda n, d, h, k, v: bill_factored(n, d, h, k, v) - 2 * n * n * (h - 1) * k,
            "the scores are counted for one head",
        ),
        (
            lambda n, d, h, k, v: bill_factored(n, d, h, k, v) - 2 * n * n * (h - 1) * v,
            "mixing is counted for one head",
        ),
        (
            lambda n, d, h, k, v: bill_factored(n, d, h, k, v) - 2 * n * d * h * k,
            "only two of the three projections",
        ),
        (
            lambda n, d, h, k, v: (
                2 * n * d * (2 * k + v) + 2 * n * n * h * (k + v) + 2 * n * h * v * d
            ),
            "the projections are counted for one head",
        ),
        (
            lambda n, d, h, k, v: (
                2 * n * d * h * (2 * k + v) + 2 * n * n * h * (k + v) + 2 * n * v * d
            ),
            "the projection at the end is counted for one head",
        ),
        (lambda n, d, h, k, v: bill_factored(n, d, h, d // h, d // h), "d_k and d_v are given"),
        (lambda n, d, h, k, v: bill_factored(n, d, h, d, d), "as wide as the model"),
        (lambda n, d, h, k, v: bill_factored(n, d, h, k, k), "as wide as the queries"),
        (
            lambda n, d, h, k, v: 4 * n * d * h * (k + v) + 4 * n * n * h * k,
            "mixing is counted with the width of the keys",
        ),
        (
            lambda n, d, h, k, v: 4 * n * d * h * (k + v) + 2 * n * h * (k + v),
            "once for each token, and not once for each pair",
        ),
        (
            lambda n, d, h, k, v: 4 * d * h * (k + v) + 2 * n * n * h * (k + v),
            "the projections are counted for one token",
        ),
        (
            lambda n, d, h, k, v: 8 * n * d * d + 2 * n * n * h * (k + v),
            "the projections are those of (6.3)",
        ),
        (
            lambda n, d, h, k, v: bill_factored(n, d, h, k, v) - 2 * n * h * v * d + 2 * n * d * d,
            "counted as d_model by d_model",
        ),
        (
            lambda n, d, h, k, v: (
                h * (n * (2 * k + v) * (2 * d - 1) + n * n * (2 * k - 1) + n * v * (2 * n - 1))
                + n * d * (2 * h * v - 1)
            ),
            "with b - 1 additions",
        ),
        (lambda n, d, h, k, v: 2 * d * h * (k + v), "the parameters are counted"),
        (
            lambda n, d, h, k, v: bill_factored(n, d, h, k, v) - 2 * n * d * h * (k + v),
            "queries, keys and values are counted once",
        ),
    ],
)
def test_wrong_bills_are_named(capsys, function, diagnosis):
    def attention_flops(n, d_model, n_heads, d_k, d_v):
        return function(n, d_model, n_heads, d_k, d_v)

    assert diagnosis in verdict(capsys, attention_flops, "attention_flops").report
