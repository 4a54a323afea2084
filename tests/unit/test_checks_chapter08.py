"""Chapter 8's checkers: answers that real learners give, each diagnosed by name."""

import math

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from transformer_lib.checks.chapter08 import check
from transformer_lib.pretrained import from_torch


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


# ---------------------------------------------------------------------------------- EncoderLayer


class Forward(nn.Module):
    def __init__(self, d_model, d_ff):
        super().__init__()
        self.up, self.down = nn.Linear(d_model, d_ff), nn.Linear(d_ff, d_model)

    def forward(self, x):
        return self.down(F.relu(self.up(x)))


class Around(nn.Module):
    def __init__(self, d_model, pre_norm):
        super().__init__()
        self.norm, self.pre_norm = nn.LayerNorm(d_model), pre_norm

    def forward(self, x, sublayer):
        return x + sublayer(self.norm(x)) if self.pre_norm else self.norm(x + sublayer(x))


class Layer(nn.Module):
    def __init__(self, d_model, n_heads, d_ff, pre_norm):
        super().__init__()
        self.self_attention = Fused(d_model, n_heads)
        self.feed_forward = Forward(d_model, d_ff)
        self.attention_residual = Around(d_model, pre_norm)
        self.feed_forward_residual = Around(d_model, pre_norm)

    def forward(self, x, mask=None):
        def attend(y):
            return self.self_attention(y, y, mask=mask)

        return self.feed_forward_residual(self.attention_residual(x, attend), self.feed_forward)


class ByHand(Layer):
    """Without calling the residuals: their norms are used directly."""

    def forward(self, x, mask=None):
        one, two = self.attention_residual.norm, self.feed_forward_residual.norm
        if self.attention_residual.pre_norm:
            y = one(x)
            x = x + self.self_attention(y, y, mask)
            return x + self.feed_forward(two(x))
        x = one(x + self.self_attention(x, x, mask))
        return two(x + self.feed_forward(x))


@pytest.mark.parametrize("answer", [Layer, ByHand])
def test_right_layers_pass(capsys, answer):
    assert verdict(capsys, answer, "EncoderLayer")


def using(forward, **more):
    return type("Learner", (Layer,), {"forward": forward, **more})


@pytest.mark.parametrize(
    ("answer", "diagnosis"),
    [
        (
            using(
                lambda self, x, mask=None: self.feed_forward_residual(
                    self.attention_residual(x, lambda y: self.self_attention(y, y)),
                    self.feed_forward,
                )
            ),
            "the mask is not handed on",
        ),
        (
            using(
                lambda self, x, mask=None: self.feed_forward_residual(
                    self.attention_residual(x, lambda _: self.self_attention(x, x, mask)),
                    self.feed_forward,
                )
            ),
            "the attention gets the x outside",
        ),
        (
            using(
                lambda self, x, mask=None: self.feed_forward_residual(
                    self.attention_residual(x, lambda y: self.self_attention(y, x, mask)),
                    self.feed_forward,
                )
            ),
            "keys and values are made from the x outside",
        ),
        (
            using(lambda self, x, mask=None: self.feed_forward(self.self_attention(x, x, mask))),
            "no way around and no norm",
        ),
        (
            using(
                lambda self, x, mask=None: self.feed_forward_residual(
                    x + self.attention_residual(x, lambda y: self.self_attention(y, y, mask)),
                    self.feed_forward,
                )
            ),
            "x is added twice",
        ),
    ],
)
def test_wrong_layers_are_named(capsys, answer, diagnosis):
    assert diagnosis in verdict(capsys, answer, "EncoderLayer").report


def test_calling_the_attention_at_once_is_an_error_that_is_shown(capsys):
    wrong = using(
        lambda self, x, mask=None: self.feed_forward_residual(
            self.attention_residual(x, self.self_attention(x, x, mask)), self.feed_forward
        )
    )
    report = verdict(capsys, wrong, "EncoderLayer").report
    assert "'Tensor' object is not callable" in report


@pytest.mark.parametrize("pre_norm", [True, False])
def test_the_layer_takes_the_weights_of_pytorchs(pre_norm):
    torch.manual_seed(0)
    theirs = nn.Transformer(12, 4, 2, 2, 20, batch_first=True, norm_first=pre_norm).eval()
    mine = nn.ModuleList(Layer(12, 4, 20, pre_norm) for _ in range(2))
    copied = from_torch(theirs).encoder
    mine.load_state_dict(copied.layers.state_dict())
    x = torch.randn(2, 5, 12)
    y = x
    for layer in mine:
        y = layer(y)
    torch.testing.assert_close(copied.norm(y), theirs.encoder(x))


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


signed = by_difference(lambda gap: gap.max())
averaged = by_difference(lambda gap: gap.abs().mean())


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
        (averaged, "differences are averaged"),
        (shortest_alone, "only the first sentence"),
        (wide, "the tolerance is too wide"),
        (lambda model, ids: not by_rows(model, ids), "the wrong way round"),
    ],
)
def test_wrong_tests_of_company_are_named(capsys, answer, diagnosis):
    assert diagnosis in verdict(capsys, answer, "same_in_company").report


def test_padding_on_both_sides_is_named(capsys):
    assert "That is what happens when" in verdict(capsys, padded, "same_in_company").report
