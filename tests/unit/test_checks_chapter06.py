"""Chapter 6's checkers: right answers in every form, and what is said of wrong ones."""

import math

import torch
import torch.nn.functional as F

from tests.unit.judging import table
from transformer_lib.checks.chapter06 import check

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


def heads_as_batches(x, W_q, W_k, W_v, W_o, n_heads):
    *batch, t, d = x.shape
    x = x.reshape(-1, t, d)

    def split(y):
        b, t, w = y.shape
        y = y.view(b, t, n_heads, w // n_heads).transpose(1, 2)
        return y.reshape(b * n_heads, t, w // n_heads)

    query, key, value = split(x @ W_q), split(x @ W_k), split(x @ W_v)
    scores = torch.bmm(query, key.transpose(1, 2)) / math.sqrt(query.size(2))
    mixed = torch.bmm(scores.softmax(2), value)
    mixed = mixed.view(x.size(0), n_heads, t, -1).permute(0, 2, 1, 3).reshape(x.size(0), t, -1)
    return (mixed @ W_o).reshape(*batch, t, -1)


def by_axis(x, n_heads):
    return x.reshape(*x.shape[:-1], n_heads, x.size(-1) // n_heads).transpose(-2, -3)


def joined(x):
    x = x.transpose(-2, -3)
    return x.reshape(*x.shape[:-2], x.size(-2) * x.size(-1))


def multi(cut=by_axis, join=joined, divisor=lambda x, q, v: math.sqrt(q.size(-1)), weigh=F.softmax):
    def function(x, W_q, W_k, W_v, W_o, n_heads):
        q, k, v = cut(x @ W_q, n_heads), cut(x @ W_k, n_heads), cut(x @ W_v, n_heads)
        weights = weigh(torch.matmul(q, k.transpose(-1, -2)) / divisor(x, q, v), dim=-1)
        return join(torch.matmul(weights, v)) @ W_o

    return function


def three_axes(x, W_q, W_k, W_v, W_o, n_heads):
    B, T, D = x.shape
    return (x @ W_o.mT).view(B, T, D)


# ------------------------------------------------------------------------------- attention_flops


def bill_factored(n, d_model, n_heads, d_k, d_v):
    return 2.0 * n * n_heads * (d_k + d_v) * (2 * d_model + n)


test_right, test_wrong = table(
    check,
    right={
        "multi_head": [
            heads_in_a_loop,
            heads_added_after_their_slice,
            heads_as_batches,
        ],
        "attention_flops": [bill_factored],
    },
    wrong={
        "multi_head": [
            (multi(divisor=lambda x, q, v: v.size(-1) ** 0.5), "by √d_k, here 2"),
            (multi(weigh=lambda s, dim: s.softmax(dim).mean(-3, True)), "and its own attention"),
            (multi(weigh=lambda s, dim: s.softmax(2)), "axes are counted from the end"),
            (three_axes, "unpacked into a fixed number of names, and this input has other axes"),
        ],
    },
)
