"""Answers written without looking at the checkers' lists, and what became of them."""

import random

import numpy as np
import pytest
import torch
from torch import nn

from transformer_lib.checks.chapter02 import check as chapter02
from transformer_lib.checks.chapter03 import check as chapter03
from transformer_lib.checks.chapter04 import check as chapter04
from transformer_lib.checks.chapter05 import check as chapter05
from transformer_lib.checks.chapter06 import check as chapter06
from transformer_lib.checks.chapter07 import check as chapter07
from transformer_lib.checks.chapter08 import check as chapter08

pytestmark = pytest.mark.slow


def report(check, name, answer):
    answer.__name__ = name
    return check(answer).report


# ------------------------------------------------------------------------------------- functions


def filled_with(fill):
    def answer(query, key, value, causal=False):
        scores = query @ key.mT / key.size(-1) ** 0.5
        if causal:
            future = torch.ones(scores.shape[-2:]).triu(1).bool()
            scores = scores.masked_fill(future, fill)
        return scores.softmax(-1) @ value

    return answer


@pytest.mark.parametrize("fill", [-50, -100])
def test_a_fill_that_real_scores_reach_is_named(fill):
    text = report(chapter02, "scaled_attention", filled_with(fill))
    assert "the fill is a fixed number, and real scores lie below it" in text
    assert report(chapter02, "scaled_attention", filled_with(-1e9))[0] == "✓"


def test_something_small_below_the_line_is_0_in_float16():
    def answer(query, key, value, mask):
        scores = (query @ key.mT / key.shape[-1] ** 0.5).masked_fill(~mask, -60000)
        scores = scores - scores.max(-1, keepdim=True).values
        powers = scores.exp() * mask
        return powers / (powers.sum(-1, keepdim=True) + 1e-9) @ value

    text = report(chapter05, "masked_attention", answer)
    assert "in float16, a query with nothing to attend to\n" in text
    assert "1e-9 is 0 there" in text


def test_loops_are_right_where_no_gradient_is_asked_for_and_hear_of_it():
    def answer(query, key, W, U, v):
        q, k = (query @ W).numpy(), (key @ U).numpy()
        return torch.from_numpy(np.tanh(q[..., :, None, :] + k[..., None, :, :]) @ v.numpy())

    text = report(chapter03, "additive_score", answer)
    assert text.startswith(
        "✓ additive_score: all 6 cases pass.\n  Right. One more thing, not asked"
    )
    assert "no gradient reaches `query`" in text


def one_seeded(f, x):
    torch.manual_seed(0)
    order = torch.randperm(len(x))
    return torch.allclose(f(x[order]), f(x)[order], atol=1e-5)


def the_last_decides(f, x):
    same = False
    for _ in range(20):
        order = torch.randperm(len(x))
        same = torch.allclose(f(x[order]), f(x)[order], atol=1e-5)
    return same


def by_pythons_random(f, x):
    order = list(range(len(x)))
    random.shuffle(order)
    return torch.allclose(f(x[order]), f(x)[order], atol=1e-5)


@pytest.mark.parametrize(
    ("answer", "evidence"),
    [
        (one_seeded, "only one shuffle decides, the first, the last or a fixed one"),
        (the_last_decides, "a single shuffle misses some of these, so try many"),
        (by_pythons_random, "gives another result when it runs again on the same input"),
    ],
)
def test_one_shuffle_is_never_enough(answer, evidence):
    first, again = (report(chapter04, "is_equivariant", answer) for _ in range(2))
    assert evidence in first
    assert first == again


def test_numpys_truth_is_a_truth():
    def answer(f, x):
        orders = [np.random.permutation(len(x)) for _ in range(20)]
        return np.bool_(all(np.allclose(f(x[o]), f(x)[o], atol=1e-5) for o in orders))

    assert report(chapter04, "is_equivariant", answer)[0] == "✓"


def test_a_token_drawn_at_random_may_be_the_old_one():
    def answer(model, ids, vocab_size):
        before = model(ids)
        for place in range(1, ids.shape[1]):
            changed = ids.clone()
            changed[:, place] = torch.randint(0, vocab_size, (len(ids),))
            if not torch.equal(model(changed)[:, :place], before[:, :place]):
                return True
        return False

    assert "happens to be the\n" not in (text := report(chapter05, "leaks", answer))
    assert "the new token may be the old one" in text


def test_nan_does_not_go_through():
    def answer(model, ids):
        for i, row in enumerate(ids):
            n = (row != 0).sum()
            if ((model(row[None, :n])[0] - model(ids)[i, :n]).abs() > 1e-4).any():
                return False
        return True

    assert "NaN goes through" in report(chapter08, "same_in_company", answer)


def test_wrong_numbers_come_before_a_lost_gradient():
    def answer(query, key, value, mask):
        weights = (query @ key.mT / key.shape[-1] ** 0.5).masked_fill(~mask, -torch.inf)
        return weights.softmax(-1).detach().nan_to_num() @ value * (1 if mask.dim() < 4 else 2)

    text = report(chapter05, "masked_attention", answer)
    assert "2 by 3 batches" in text
    assert "The numbers are right" not in text


def test_a_shape_unpacked_into_three_is_named():
    def answer(x, W_q, W_k, W_v, W_o, n_heads):
        B, T, D = x.shape
        return (x @ W_o.mT).view(B, T, D)

    text = report(chapter06, "multi_head", answer)
    assert "the shape is unpacked into a fixed number of names" in text


# --------------------------------------------------------------------------------------- modules


class InPlace(nn.Module):
    def __init__(self, d, e=1e-5):  # names of one's own
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.ones(d)), nn.Parameter(torch.zeros(d))
        self.e = e

    def forward(self, x):
        y = x - x.mean(-1, keepdim=True)
        y /= (y.square().mean(-1, keepdim=True) + self.e).sqrt()
        y *= self.weight
        return y + self.bias


class OutOfPlace(InPlace):
    def forward(self, x):
        y = x - x.mean(-1, keepdim=True)
        y = y / (y.square().mean(-1, keepdim=True) + self.e).sqrt()
        return y * self.weight + self.bias


class InFloat32(OutOfPlace):
    def forward(self, x):
        return super().forward(x.float()).to(x.dtype)


def test_a_module_that_works_in_place_is_told_so():
    text = report(chapter07, "LayerNorm", InPlace)
    assert "no gradient comes back: an operation that works" in text
    assert "    weight = torch.tensor([1.77, 0.8533, -0.08939, 1.284])\n" in text
    assert report(chapter07, "LayerNorm", OutOfPlace) == "✓ LayerNorm: all 13 cases pass."
    assert "cast to float32" in report(chapter07, "LayerNorm", InFloat32)


def test_the_failing_case_of_a_module_can_be_run_again():
    f, args, kwargs = chapter07.case(OutOfPlace, 2)
    torch.testing.assert_close(
        f(*args, **kwargs), nn.functional.layer_norm(*args, (7,), f.weight, f.bias, 1e-3)
    )


def test_parameters_in_another_order_are_said():
    class MultiHeadAttention(nn.Module):
        def __init__(self, n_heads, d_model):
            super().__init__()

    text = chapter08(MultiHeadAttention).report
    assert "yours is defined as MultiHeadAttention(n_heads, d_model)." in text


def test_a_missing_super_is_named():
    class NoSuper(nn.Module):
        def __init__(self, d_model, d_ff):
            self.up = nn.Linear(d_model, d_ff)

    text = report(chapter07, "MyFeedForward", NoSuper)
    assert "That is what happens when `super().__init__()` is missing" in text


def test_a_truth_asked_of_a_whole_mask_is_named():
    class Asks(nn.Module):
        def __init__(self, d_model, n_heads):
            super().__init__()
            self.in_proj = nn.Linear(d_model, 3 * d_model)
            self.out_proj = nn.Linear(d_model, d_model)
            self.h = n_heads

        def forward(self, x, memory, mask=None):
            W, b = self.in_proj.weight.chunk(3), self.in_proj.bias.chunk(3)
            q, k, v = (
                (a @ w.mT + c).unflatten(-1, (self.h, -1)).transpose(1, 2)
                for a, w, c in zip((x, memory, memory), W, b, strict=True)
            )
            scores = q @ k.mT / q.shape[-1] ** 0.5
            if mask:
                scores = scores.masked_fill(~mask, -torch.inf)
            return self.out_proj((scores.softmax(-1) @ v).transpose(1, 2).flatten(2))

    text = report(chapter08, "MultiHeadAttention", Asks)
    assert "a whole tensor is asked whether it is true" in text.replace("\n", " ")
