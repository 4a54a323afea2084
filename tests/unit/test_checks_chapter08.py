"""Chapter 8's checkers: answers that real learners give, each diagnosed by name."""

import math

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from transformer_lib.checks.chapter08 import check

pytestmark = pytest.mark.slow


def verdict(capsys, answer, name):
    answer.__name__ = name
    result = check(answer)
    capsys.readouterr()
    return result


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


class Einsum(Attending):
    def forward(self, x, memory, mask=None):
        W = self.in_proj.weight.view(3, self.h, self.d_k, -1)
        b = self.in_proj.bias.view(3, self.h, 1, self.d_k)
        q = torch.einsum("btd,hkd->bhtk", x, W[0]) + b[0]
        k = torch.einsum("bsd,hkd->bhsk", memory, W[1]) + b[1]
        v = torch.einsum("bsd,hkd->bhsk", memory, W[2]) + b[2]
        scores = torch.einsum("bhtk,bhsk->bhts", q, k) / self.d_k**0.5
        if mask is not None:
            scores = torch.where(mask, scores, torch.finfo(scores.dtype).min)
        o = self.out_proj.weight.view(-1, self.h, self.d_k)
        mixed = torch.einsum("bhts,bhsk->bhtk", scores.softmax(-1), v)
        return torch.einsum("bhtk,ohk->bto", mixed, o) + self.out_proj.bias


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


class Adding(Attending):
    def soft(self, scores, mask):
        if mask is not None:
            bias = torch.zeros_like(mask, dtype=scores.dtype).masked_fill(~mask, -torch.inf)
            scores = scores + bias
        return scores.softmax(-1)


@pytest.mark.parametrize("answer", [Attending, Fused, Einsum, Loop, Adding])
def test_right_attention_passes(capsys, answer):
    assert verdict(capsys, answer, "MultiHeadAttention")


def but(base, **steps):
    return type("Learner", (base,), steps)


def soft_over(axis):
    def soft(self, scores, mask):
        return (scores if mask is None else scores.masked_fill(~mask, -1e9)).softmax(axis)

    return soft


def own(source):
    """All three from one input, by one call."""
    return lambda self, x, memory: self.in_proj((x, memory)[source]).chunk(3, dim=-1)


class Separate(nn.Module):
    def __init__(self, d_model, n_heads):
        super().__init__()
        self.W_q = nn.Linear(d_model, d_model)
        self.W_k = nn.Linear(d_model, d_model)
        self.W_v = nn.Linear(d_model, d_model)
        self.W_o = nn.Linear(d_model, d_model)


class NoBias(Attending):
    def __init__(self, d_model, n_heads):
        super().__init__(d_model, n_heads)
        self.in_proj = nn.Linear(d_model, 3 * d_model, bias=False)


def reshaped(self, y):
    return y.reshape(y.size(0), self.h, y.size(1), self.d_k)


def joined_wrong(self, y):
    return y.reshape(y.size(0), y.size(2), -1)


@pytest.mark.parametrize(
    ("answer", "diagnosis"),
    [
        (but(Attending, three=own(0)), "`memory` is not used"),
        (but(Attending, three=own(1)), "everything is made from memory"),
        (but(Attending, cut=reshaped), "the split lacks the transpose"),
        (but(Attending, join=joined_wrong), "the merge lacks the transpose"),
        (but(Attending, cut=reshaped, join=joined_wrong), "both lack the transpose"),
        (
            but(Attending, soft=lambda self, s, m: F.softmax(s, dim=-1)),
            "the mask is not used",
        ),
        (
            but(
                Attending,
                soft=lambda self, s, m: (
                    s if m is None else s.masked_fill(m, float("-inf"))
                ).softmax(-1),
            ),
            "the mask is the wrong way round",
        ),
        (
            but(
                Attending,
                soft=lambda self, s, m: (s if m is None else s.masked_fill(m == 0, 0.0)).softmax(
                    -1
                ),
            ),
            "hidden scores are set to 0",
        ),
        (
            but(
                Attending,
                soft=lambda self, s, m: (
                    s.softmax(-1) if m is None else s.softmax(-1).masked_fill(~m, 0.0)
                ),
            ),
            "the mask comes after the softmax",
        ),
        (
            but(
                Attending,
                soft=lambda self, s, m: (s if m is None else s + m.float()).softmax(-1),
            ),
            "the mask is added to the scores",
        ),
        (
            but(Attending, scores=lambda self, q, k: q @ k.mT / math.sqrt(self.h * self.d_k)),
            "by the root of d_model",
        ),
        (but(Attending, scores=lambda self, q, k: q @ k.mT), "not divided by anything"),
        (
            but(Attending, scores=lambda self, q, k: q @ k.mT / self.d_k**1 / 2),
            "and then divides by 2",
        ),
        (but(Attending, soft=soft_over(-2)), "over the queries and not over the keys"),
        (but(Attending, soft=soft_over(1)), "over the heads"),
        (Separate, "have a layer each"),
        (NoBias, "`bias=False`"),
    ],
)
def test_wrong_attention_is_named(capsys, answer, diagnosis):
    assert diagnosis in verdict(capsys, answer, "MultiHeadAttention").report


def test_calling_forward_by_hand_is_seen(capsys):
    skipping = but(
        Attending,
        three=lambda self, x, memory: (
            self.in_proj.forward(x).chunk(3, -1)[0],
            *self.in_proj.forward(memory).chunk(3, -1)[1:],
        ),
    )
    report = verdict(capsys, skipping, "MultiHeadAttention").report
    assert "skips the hooks of `in_proj`" in " ".join(report.split())


# ----------------------------------------------------------------------------------- EitherOrder


class MultiHead(nn.Module):
    """As the chapter's mine.py has it."""

    def __init__(self, d_model, n_heads):
        super().__init__()
        self.h = n_heads
        self.query, self.key, self.value, self.output = (
            nn.Linear(d_model, d_model) for _ in range(4)
        )

    def cut(self, y):
        return y.view(y.size(0), y.size(1), self.h, -1).transpose(1, 2)

    def forward(self, x, memory, mask=None):
        q, k, v = self.cut(self.query(x)), self.cut(self.key(memory)), self.cut(self.value(memory))
        mixed = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        return self.output(mixed.transpose(1, 2).flatten(2))


class Forward(nn.Module):
    def __init__(self, d_model, d_ff):
        super().__init__()
        self.widen, self.narrow = nn.Linear(d_model, d_ff), nn.Linear(d_ff, d_model)

    def forward(self, x):
        return self.narrow(F.relu(self.widen(x)))


class Layer(nn.Module):
    def __init__(self, d_model, n_heads, d_ff, pre_norm):
        super().__init__()
        self.attention = MultiHead(d_model, n_heads)
        self.feed_forward = Forward(d_model, d_ff)
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
        self.look, self.think = MultiHead(d, h), Forward(d, width)
        self.norm_1, self.norm_2 = nn.LayerNorm(d), nn.LayerNorm(d)
        self.first = pre_norm

    def add(self, x, norm, sublayer):
        return x + sublayer(norm(x)) if self.first else norm(x + sublayer(x))

    def forward(self, x, mask=None):
        x = self.add(x, self.norm_1, lambda y: self.look(y, y, mask))
        return self.add(x, self.norm_2, self.think)


class AsInPyTorch(Layer):
    """A loop over the two sublayers."""

    def forward(self, x, mask=None):
        for norm, part in zip(self.norms, (self.attention, self.feed_forward), strict=True):
            residual = x
            y = norm(x) if self.pre_norm else x
            y = part(y, y, mask) if part is self.attention else part(y)
            x = residual + y if self.pre_norm else norm(residual + y)
        return x


@pytest.mark.parametrize("answer", [Layer, OwnNames, AsInPyTorch])
def test_right_layers_pass(capsys, answer):
    assert verdict(capsys, answer, "EitherOrder")


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


def keys_not_normalized(self, x, mask):
    x = x + self.attention(self.norms[0](x), x, mask)
    return x + self.feed_forward(self.norms[1](x))


def not_normalized(self, x, mask):
    x = x + self.attention(x, x, mask)
    return x + self.feed_forward(self.norms[1](x))


def one_after_the_other(self, x, mask):
    return self.feed_forward(self.attention(x, x, mask))


def normalized_goes_on(self, x, mask):
    x = self.norms[0](x)
    x = x + self.attention(x, x, mask)
    x = self.norms[1](x)
    return x + self.feed_forward(x)


def norm_of_the_sublayer(self, x, mask):
    x = x + self.norms[0](self.attention(x, x, mask))
    return x + self.norms[1](self.feed_forward(x))


def same_norm_twice(self, x, mask):
    x = self.norms[0](x + self.attention(x, x, mask))
    return self.norms[0](x + self.feed_forward(x))


def pre_on_the_input(self, x, mask):
    y = self.norms[0](x)
    a = x + self.attention(y, y, mask)
    return x + self.feed_forward(self.norms[1](a))


def post_on_the_input(self, x, mask):
    a = self.norms[0](x + self.attention(x, x, mask))
    return self.norms[1](x + self.feed_forward(a))


@pytest.mark.parametrize(
    ("answer", "diagnosis"),
    [
        (ordered(no_mask, lambda self, x, mask: post(self, x, None)), "the mask is not handed on"),
        (ordered(keys_not_normalized, post), "keys and values are made from x as it came in"),
        (ordered(one_after_the_other, one_after_the_other), "nothing is added"),
        (ordered(normalized_goes_on, post), "x itself is lost"),
        (ordered(pre, norm_of_the_sublayer), "only the sublayer's result is normalized"),
        (ordered(pre, pre), "the norm comes before, whatever"),
        (ordered(post, post), "the norm comes after, whatever"),
        (ordered(post, pre), "the wrong way round"),
        (ordered(pre_on_the_input, post_on_the_input), "the layer's own input is added again"),
        (ordered(pre_on_the_input, post), "the layer's own input is added again"),
    ],
)
def test_wrong_layers_are_named(capsys, answer, diagnosis):
    assert diagnosis in verdict(capsys, answer, "EitherOrder").report


def pre_same_norm(self, x, mask):
    y = self.norms[0](x)
    x = x + self.attention(y, y, mask)
    return x + self.feed_forward(self.norms[0](x))


def post_second_not_added(self, x, mask):
    x = self.norms[0](x + self.attention(x, x, mask))
    return self.norms[1](self.feed_forward(x))


@pytest.mark.parametrize(
    ("answer", "diagnosis"),
    [
        (ordered(no_mask, post), "the mask is not handed on"),
        (ordered(pre, lambda self, x, mask: post(self, x, None)), "the mask is not handed on"),
        (ordered(not_normalized, post), "the attention gets x as it came in"),
        (ordered(pre_same_norm, post), "one norm serves both sublayers"),
        (ordered(pre, same_norm_twice), "one norm serves both sublayers"),
        (ordered(pre, post_second_not_added), "the residual connection is missing"),
    ],
)
def test_a_mistake_made_in_one_order_alone_is_named(capsys, answer, diagnosis):
    assert diagnosis in verdict(capsys, answer, "EitherOrder").report


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


@pytest.mark.parametrize("answer", [by_rows, by_largest_gap])
def test_right_tests_of_company_pass(capsys, answer):
    assert verdict(capsys, answer, "same_in_company")


def exact(model, ids):
    return all(
        torch.equal(model(ids)[i, : len(row[row != 0])], model(row[row != 0][None])[0])
        for i, row in enumerate(ids)
    )


def padded(model, ids):
    return all(torch.allclose(model(ids)[i], model(ids[i : i + 1])[0]) for i in range(len(ids)))


def shortest_alone(model, ids):
    n = (ids[0] != 0).sum()
    return torch.allclose(model(ids)[0, :n], model(ids[:1, :n])[0], atol=1e-4)


def last_token_only(model, ids):
    pairs = ((y[len(r[r != 0]) - 1], r[r != 0]) for y, r in zip(model(ids), ids, strict=True))
    return all(torch.allclose(a, model(r[None])[0, -1], atol=1e-4) for a, r in pairs)


def by_difference(size):
    def answer(model, ids):
        pairs = ((y[: len(r[r != 0])], r[r != 0]) for y, r in zip(model(ids), ids, strict=True))
        return all(size(a - model(r[None])[0]) < 1e-4 for a, r in pairs)

    return answer


def none_is_larger(model, ids):
    for i, row in enumerate(ids):
        real = row[row != 0]
        if (model(ids)[i, : len(real)] - model(real[None])[0]).max() > 1e-4:
            return False
    return True


signed = by_difference(lambda gap: gap.max())
averaged = by_difference(lambda gap: gap.abs().mean())


def averaged_at_the_end(model, ids):
    together = model(ids)
    gaps = [(together[i, : (r != 0).sum()] - model(r[r != 0][None])[0]) for i, r in enumerate(ids)]
    return abs(sum(gap.mean() for gap in gaps)) / len(gaps) < 1e-4


def filled_up(model, ids):
    together, alone = model(ids), torch.zeros_like(model(ids))
    for i, row in enumerate(ids):
        alone[i, : (row != 0).sum()] = model(row[row != 0][None])[0]
    return torch.allclose(together, alone, atol=1e-4)


def filled_up_row_by_row(model, ids):
    for i, row in enumerate(ids):
        real = row[row != 0][None]
        alone = F.pad(model(real)[0], (0, 0, 0, len(row) - real.size(1)))
        if (model(ids)[i] - alone).abs().max() > 1e-4:
            return False
    return True


def wide(model, ids):
    return all(
        torch.allclose(model(ids)[i, : len(r[r != 0])], model(r[r != 0][None])[0], atol=0.05)
        for i, r in enumerate(ids)
    )


@pytest.mark.parametrize(
    ("answer", "diagnosis"),
    [
        (exact, "to the last bit"),
        (last_token_only, "only the last real token"),
        (signed, "the sign of the difference"),
        (none_is_larger, "the sign of the difference"),
        (averaged, "differences are averaged"),
        (averaged_at_the_end, "in which differences can cancel"),
        (filled_up, "rows of padding are compared, too"),
        (filled_up_row_by_row, "rows of padding are compared, too"),
        (shortest_alone, "only the first sentence"),
        (wide, "the tolerance is too wide"),
        (lambda model, ids: not by_rows(model, ids), "the wrong way round"),
    ],
)
def test_wrong_tests_of_company_are_named(capsys, answer, diagnosis):
    assert diagnosis in verdict(capsys, answer, "same_in_company").report


def test_padding_on_both_sides_is_named(capsys):
    assert "That is what happens when" in verdict(capsys, padded, "same_in_company").report
