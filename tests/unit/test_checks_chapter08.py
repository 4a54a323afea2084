"""Chapter 8's checkers: right answers in every form, and what is said of wrong ones."""

import math

import torch
import torch.nn.functional as F
from torch import nn

from tests.unit.judging import table
from transformer_lib.checks.chapter07 import MyFeedForward
from transformer_lib.checks.chapter08 import MultiHead, check

# ---------------------------------------------------------------------------- MultiHeadAttention


class Attending(nn.Module):
    """As a learner writes it: both inputs through the whole projection, then chunks."""

    def __init__(self, d_model, n_heads):
        super().__init__()
        self.h, self.d_k = n_heads, d_model // n_heads
        self.in_proj = nn.Linear(d_model, 3 * d_model)
        self.out_proj = nn.Linear(d_model, d_model)

    def three(self, x, memory):
        q = self.in_proj(x).chunk(3, dim=-1)[0]
        _, k, v = self.in_proj(memory).chunk(3, dim=-1)
        return q, k, v

    def cut(self, y):
        return y.view(y.size(0), y.size(1), self.h, self.d_k).transpose(1, 2)

    def scores(self, q, k):
        return torch.matmul(q, k.transpose(-1, -2)) / math.sqrt(self.d_k)

    def soft(self, scores, mask):
        if mask is not None:
            scores = scores.masked_fill(mask.logical_not(), float("-inf"))
        return F.softmax(scores, dim=-1)

    def join(self, y):
        y = y.transpose(1, 2).contiguous()
        return y.view(y.size(0), y.size(1), -1)

    def forward(self, x, memory, mask=None):
        q, k, v = map(self.cut, self.three(x, memory))
        return self.out_proj(self.join(self.soft(self.scores(q, k), mask) @ v))


class Fused(Attending):
    def forward(self, x, memory, mask=None):
        q, k, v = map(self.cut, self.three(x, memory))
        return self.out_proj(self.join(F.scaled_dot_product_attention(q, k, v, attn_mask=mask)))


class Loop(Attending):
    def forward(self, x, memory, mask=None):
        q, k, v = self.three(x, memory)
        shape = (x.size(0), self.h, x.size(1), memory.size(1))
        full = None if mask is None else mask.expand(shape)
        heads = []
        for i in range(self.h):
            part = slice(i * self.d_k, (i + 1) * self.d_k)
            scores = q[..., part] @ k[..., part].mT / self.d_k**0.5
            if full is not None:
                scores = scores.masked_fill(~full[:, i], -1e9)
            heads.append(scores.softmax(-1) @ v[..., part])
        return self.out_proj(torch.cat(heads, dim=-1))


def but(base, **steps):
    return type("Learner", (base,), steps)


class Separate(nn.Module):
    def __init__(self, d_model, n_heads):
        super().__init__()
        self.W_q = nn.Linear(d_model, d_model)
        self.W_k = nn.Linear(d_model, d_model)
        self.W_v = nn.Linear(d_model, d_model)
        self.W_o = nn.Linear(d_model, d_model)


# ----------------------------------------------------------------------------------- EitherOrder


class Layer(nn.Module):
    def __init__(self, d_model, n_heads, d_ff, pre_norm):
        super().__init__()
        self.attention = MultiHead(d_model, n_heads)
        self.feed_forward = MyFeedForward(d_model, d_ff)
        self.norms = nn.ModuleList([nn.LayerNorm(d_model), nn.LayerNorm(d_model)])
        self.pre_norm = pre_norm

    def forward(self, x, mask=None):
        one, two = self.norms
        if self.pre_norm:
            y = one(x)
            x = x + self.attention(y, y, mask)
            return x + self.feed_forward(two(x))
        x = one(x + self.attention(x, x, mask))
        return two(x + self.feed_forward(x))


class OwnNames(nn.Module):
    """Other names, and the residual as a function."""

    def __init__(self, d, h, width, pre_norm):
        super().__init__()
        self.look, self.think = MultiHead(d, h), MyFeedForward(d, width)
        self.norm_1, self.norm_2 = nn.LayerNorm(d), nn.LayerNorm(d)
        self.first = pre_norm

    def add(self, x, norm, sublayer):
        return x + sublayer(norm(x)) if self.first else norm(x + sublayer(x))

    def forward(self, x, mask=None):
        x = self.add(x, self.norm_1, lambda y: self.look(y, y, mask))
        return self.add(x, self.norm_2, self.think)


def ordered(before, after):
    """A learner's layer from its two branches."""
    return type("Learner", (Layer,), {
        "forward": lambda self, x, mask=None: (before if self.pre_norm else after)(self, x, mask)
    })  # fmt: skip


def pre(self, x, mask):
    y = self.norms[0](x)
    x = x + self.attention(y, y, mask)
    return x + self.feed_forward(self.norms[1](x))


def post(self, x, mask):
    x = self.norms[0](x + self.attention(x, x, mask))
    return self.norms[1](x + self.feed_forward(x))


def no_mask(self, x, mask):
    return pre(self, x, None)


# ------------------------------------------------------------------------------- same_in_company


def by_rows(model, ids):
    for row, output in zip(ids, model(ids), strict=True):
        real = row[row != 0][None]
        if not torch.allclose(output[: real.size(1)], model(real)[0], atol=1e-5):
            return False
    return True


def by_largest_gap(model, ids):
    together, lengths = model(ids), (ids != 0).sum(dim=1).tolist()
    gaps = [
        (together[i, :n] - model(ids[i, :n].unsqueeze(0))[0]).abs().max()
        for i, n in enumerate(lengths)
    ]
    return torch.stack(gaps).max() < 1e-3


def by_difference(size):
    def answer(model, ids):
        pairs = ((y[: len(r[r != 0])], r[r != 0]) for y, r in zip(model(ids), ids, strict=True))
        return all(size(a - model(r[None])[0]) < 1e-4 for a, r in pairs)

    return answer


test_right, test_wrong = table(
    check,
    right={
        "MultiHeadAttention": [
            Attending,
            Fused,
            Loop,
        ],
        "EitherOrder": [
            Layer,
            OwnNames,
        ],
        "same_in_company": [by_rows, by_largest_gap],
    },
    wrong={
        "MultiHeadAttention": [
            (
                but(Attending, scores=lambda self, q, k: q @ k.mT / self.d_k**1 / 2),
                "here √d_k is 1",
            ),
            (Separate, "Your module has no parameters"),
        ],
        "EitherOrder": [
            (ordered(no_mask, post), "with pre_norm=True, the attention gets the mask"),
        ],
        "same_in_company": [
            (by_difference(lambda gap: gap.sum().abs()), "lets padding move two tokens"),
            (lambda model, ids: model(ids[0]), "The model is given ids of shape (3,)"),
        ],
    },
)
