"""Checkers for answers that are classes, on exercises like those of chapters 6, 7, 8 and 10."""

import copy
import math
from typing import Any

import pytest
import torch
from torch import nn

from transformer_lib.checks import Case, Checker, Exercise
from transformer_lib.checks.inputs import (
    attention_cases,
    in_bfloat16,
    in_float64,
    not_contiguous,
    random_tensor,
    sequence_cases,
    times,
)


def verdict(check, answer, name=None):
    answer.__name__ = name or answer.__name__
    return check(answer)


def but(base, **parts):
    """A subclass of `base` in which a mistake replaces methods or class attributes."""
    return type(base.__name__, (base,), parts)


# --------------------------------------------------------------------------------------- LayerNorm


class LayerNorm(nn.Module):
    axes, affine = -1, True

    def __init__(self, d_model, eps=1e-5):
        super().__init__()
        self.eps = eps
        if self.affine:
            self.gain = nn.Parameter(torch.ones(d_model))
            self.bias = nn.Parameter(torch.zeros(d_model))

    def center(self, x):
        return x - x.mean(self.axes, keepdim=True)

    def spread(self, x):
        return (x.var(self.axes, unbiased=False, keepdim=True) + self.eps).sqrt()

    def forward(self, x):
        x = self.center(x) / self.spread(x)
        return self.gain * x + self.bias if self.affine else x


NORM_CASES = sequence_cases(7, eps=1e-3)
NORM = Checker(
    Exercise(
        name="LayerNorm",
        reference=LayerNorm,
        cases=[
            *NORM_CASES,
            times(1e-2, NORM_CASES[1]),
            in_float64(NORM_CASES[1]),
            in_bfloat16(NORM_CASES[1]),
            not_contiguous(NORM_CASES[1]),
        ],
        mistakes={
            "the variance is divided by d - 1": but(
                LayerNorm, spread=lambda self, x: (x.var(-1, keepdim=True) + self.eps).sqrt()
            ),
            "eps stands outside the root": but(
                LayerNorm,
                spread=lambda self, x: x.std(-1, unbiased=False, keepdim=True) + self.eps,
            ),
            "mean and variance are taken over tokens and features": but(LayerNorm, axes=(-2, -1)),
            "mean and variance are taken over the batch": but(LayerNorm, axes=0),
            "there is no gain and no bias": but(LayerNorm, affine=False),
            "the mean stays in": but(LayerNorm, center=lambda self, x: x),
        },
        section="Norms",
        keeps=("dtype", "device", "gradient"),
    )
)


class OtherNames(nn.Module):
    """Right, with other names, in another order."""

    def __init__(self, d_model, eps):
        super().__init__()
        self.beta = nn.Parameter(torch.zeros(d_model))
        self.gamma = nn.Parameter(torch.ones(d_model))
        self.small = eps

    def forward(self, inputs):
        return nn.functional.layer_norm(
            inputs, inputs.shape[-1:], self.gamma, self.beta, self.small
        )


class Unbiased(OtherNames):
    def forward(self, inputs):
        centered = inputs - inputs.mean(-1, keepdim=True)
        variance = (centered**2).sum(-1, keepdim=True) / (inputs.shape[-1] - 1)
        return self.gamma * centered * torch.rsqrt(variance + self.small) + self.beta


class Bare(nn.Module):
    def __init__(self, d_model, eps):
        super().__init__()

    def forward(self, x):
        return x


def test_a_right_class_passes_whatever_its_parameters_are_called():
    assert verdict(NORM, LayerNorm)
    assert verdict(NORM, OtherNames, "LayerNorm").report == "✓ LayerNorm: all 9 cases pass."


@pytest.mark.parametrize("mistake", NORM.exercises["LayerNorm"].mistakes)
def test_every_mistake_in_a_class_is_diagnosed_as_itself(mistake):
    wrong: Any = NORM.exercises["LayerNorm"].mistakes[mistake]
    assert f"That is what happens when {mistake}." in NORM(wrong).report


def test_a_mistake_in_other_words_is_diagnosed_with_evidence():
    text = verdict(NORM, Unbiased, "LayerNorm").report
    assert "That is what happens when the variance is divided by d - 1." in text
    assert "All 7 entries of your result are wrong, the first at [0, 0, 0]: yours is" in text


def test_parameters_that_are_not_there_are_named():
    text = verdict(NORM, Bare, "LayerNorm").report
    assert "Nothing in your module can be gain (7,), bias (7,).\n" in text
    assert "That is what happens when there is no gain and no bias." in text


def test_a_bias_that_is_not_used_shows_although_it_starts_at_zero():
    forgotten = but(LayerNorm, forward=lambda self, x: self.gain * self.center(x) / self.spread(x))
    assert "entries of your result are wrong" in NORM(forgotten).report


def test_dropout_that_eval_turns_off_passes():
    class Dropping(LayerNorm):
        def __init__(self, d_model, eps):
            super().__init__(d_model, eps)
            self.drop = nn.Dropout(0.5)

        def forward(self, x):
            return self.drop(super().forward(x))

    assert verdict(NORM, Dropping, "LayerNorm")


def scalar_gain(name):
    class Scalar(nn.Module):
        def __init__(self, d_model):
            super().__init__()
            setattr(self, name, nn.Parameter(torch.ones(1)))

        def forward(self, x):
            return getattr(self, name) * x

    return Scalar


def test_parameters_that_do_not_fit_are_the_same_mistake_under_any_name():
    class Gain(nn.Module):
        def __init__(self, d_model):
            super().__init__()
            self.gain = nn.Parameter(torch.ones(d_model))

        def forward(self, x):
            return self.gain * x

    check = Checker(
        Exercise(
            name="Gain",
            reference=Gain,
            cases=sequence_cases(7),
            mistakes={"one gain serves all features": scalar_gain("gain")},
            section="Gains",
        )
    )
    text = verdict(check, scalar_gain("g"), "Gain").report
    assert "Nothing in your module can be gain (7,); it has g (1,) instead." in text
    assert "That is what happens when one gain serves all features." in text


def started_at(number):
    class Zero(LayerNorm):
        def __init__(self, d_model, eps):
            super().__init__(d_model, eps)
            self.gain = nn.Parameter(torch.full((d_model,), number))

    return Zero


def with_parts(**parts):
    class Hiding(LayerNorm):
        def __init__(self, d_model, eps):
            super().__init__(d_model, eps)
            for name, part in parts.items():
                setattr(self, name, part)

    return Hiding


class NoSuper(nn.Module):
    def __init__(self, d_model, eps):
        self.gain = nn.Parameter(torch.ones(d_model))


class Positional(LayerNorm):
    def __init__(self, width):
        super().__init__(width)


class TwoInputs(LayerNorm):
    def forward(self, x, mask):
        return x


class InFloat32(OtherNames):
    def forward(self, inputs):
        return super().forward(inputs).float()


class Detached(LayerNorm):
    def spread(self, x):
        return super().spread(x).detach()


class OnTheCpu(LayerNorm):
    def center(self, x):
        return super().center(x) + torch.zeros(x.shape, dtype=x.dtype)


class StillDropping(LayerNorm):
    def forward(self, x):
        return nn.functional.dropout(super().forward(x), 0.1)


@pytest.mark.parametrize(
    ("answer", "evidence"),
    [
        (started_at(0.0), "Your `gain` starts at 0; it must start at 1, where it changes nothing."),
        (with_parts(parts=[nn.Linear(2, 2)]), "Your `parts` is a plain list, into which PyTorch"),
        (with_parts(w={"a": torch.ones(1, requires_grad=True)}), "Your `w` is a plain dict"),
        (
            with_parts(extra=nn.Linear(2, 3)),
            "has parameters that the exercise does not: extra.weight (3, 2), extra.bias (3,).",
        ),
        (NoSuper, "Your class raised AttributeError: cannot assign parameter"),
        (NoSuper, "in the line   self.gain = nn.Parameter(torch.ones(d_model))"),
        (Positional, "The exercise calls LayerNorm(d_model, eps); yours is defined as LayerNorm("),
        (TwoInputs, "The exercise calls forward(x); yours is defined as forward(x, mask)."),
        (InFloat32, "dtype float32; for this input, float64."),
        (Detached, "but the gradient that reaches `x` is not: part of the way back is cut"),
        (OnTheCpu, "on another device, your code meets a tensor that was left behind"),
        (StillDropping, "although it is in eval(): it draws random numbers, or remembers"),
        (lambda x: x, "Your answer must be a class: a subclass of nn.Module."),
    ],
)
def test_what_is_wrong_with_a_module_is_said(answer, evidence):
    assert evidence in verdict(NORM, answer, "LayerNorm").report


def test_the_readers_random_numbers_are_left_alone():
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    NORM(but(LayerNorm, forward=lambda self, x: x + torch.rand(x.shape)))
    torch.testing.assert_close(torch.rand(3), expected)


# ---------------------------------------------------------------------------- multi-head attention


class MultiHead(nn.Module):
    def __init__(self, d_model, n_heads):
        super().__init__()
        self.h = n_heads
        self.query, self.key, self.value, self.output = self.parts(d_model)

    def parts(self, d):
        return [nn.Linear(d, d) for _ in range(4)]

    def split(self, x):
        return x.unflatten(-1, (self.h, -1)).transpose(1, 2)

    def scale(self, q):
        return q.shape[-1] ** -0.5

    def weigh(self, scores, mask):
        if mask is None:
            return scores.softmax(-1)
        scores = scores.masked_fill(~mask, torch.finfo(scores.dtype).min)
        return scores.softmax(-1).masked_fill(~mask, 0.0)

    def join(self, x):
        return x.transpose(1, 2).flatten(2)

    def project(self, part, x):
        return part(x)

    def forward(self, x, mask=None):
        q, k, v = (self.split(self.project(part, x)) for part in (self.query, self.key, self.value))
        weights = self.weigh(q @ k.mT * self.scale(q), mask)
        return self.output(self.join(weights @ v))


def after(self, scores, mask):
    weights = scores.softmax(-1)
    return weights if mask is None else weights * mask


class NoOutput(MultiHead):
    def __init__(self, d_model, n_heads):
        super().__init__(d_model, n_heads)
        self.output = nn.Identity()


INIT = {"d_model": 12, "n_heads": 3}
X = random_tensor(2, 5, 12)
MULTI_HEAD = Checker(
    Exercise(
        name="MultiHead",
        reference=MultiHead,
        cases=[
            Case("one token", X[:1, :1], init=INIT),
            Case("one head", X, init={"d_model": 12, "n_heads": 1}),
            Case("three heads", X, init=INIT),
            Case("a causal mask", X, mask=torch.ones(5, 5).tril().bool(), init=INIT),
        ],
        mistakes={
            "the heads are split by view alone: a head gets parts of other tokens": but(
                MultiHead,
                split=lambda self, x: x.reshape(len(x), self.h, x.shape[1], -1),
                join=lambda self, x: x.reshape(len(x), x.shape[2], -1),
            ),
            "the root is taken of d_model and not of the width of a head": but(
                MultiHead, scale=lambda self, q: (self.h * q.shape[-1]) ** -0.5
            ),
            "the mask comes after the softmax": but(MultiHead, weigh=after),
            "the output projection is missing": NoOutput,
            "the heads are joined without turning the axes back": but(
                MultiHead, join=lambda self, x: x.reshape(len(x), x.shape[2], -1)
            ),
            "one projection serves as query, key and value": but(
                MultiHead,
                parts=lambda self, d: [p := nn.Linear(d, d), p, p, nn.Linear(d, d)],
            ),
        },
        section="Heads",
        keeps=("device", "gradient"),
    )
)


class Mine(nn.Module):
    """With torch's own attention; the projections are made in the order of the exercise."""

    def __init__(self, d_model, n_heads):
        super().__init__()
        self.n = n_heads
        self.wq, self.wk = nn.Linear(d_model, d_model), nn.Linear(d_model, d_model)
        self.wv, self.wo = nn.Linear(d_model, d_model), nn.Linear(d_model, d_model)

    def scale(self, d_model):
        return (d_model // self.n) ** -0.5

    def forward(self, x, mask=None):
        b, t, d = x.shape
        q, k, v = (w(x).view(b, t, self.n, -1).mT.mT for w in (self.wq, self.wk, self.wv))
        y = nn.functional.scaled_dot_product_attention(
            *(z.transpose(1, 2) for z in (q, k, v)), attn_mask=mask, scale=self.scale(d)
        )
        return self.wo(y.transpose(1, 2).reshape(b, t, d))


class MineKeyFirst(Mine):
    def __init__(self, d_model, n_heads):
        super().__init__(d_model, n_heads)
        query = self.wq
        del self.wq
        self.wq = query


class MineWithoutOutput(Mine):
    def __init__(self, d_model, n_heads):
        super().__init__(d_model, n_heads)
        self.wo = nn.Identity()


@pytest.mark.parametrize("mistake", MULTI_HEAD.exercises["MultiHead"].mistakes)
def test_every_mistake_with_heads_is_diagnosed_as_itself(mistake):
    wrong: Any = MULTI_HEAD.exercises["MultiHead"].mistakes[mistake]
    assert f"That is what happens when {mistake}." in (
        verdict(MULTI_HEAD, wrong, "MultiHead").report
    )


def test_heads_made_in_another_way():
    assert verdict(MULTI_HEAD, MultiHead)
    assert verdict(MULTI_HEAD, Mine, "MultiHead")
    wide = but(Mine, scale=lambda self, d: d**-0.5)
    text = verdict(MULTI_HEAD, wide, "MultiHead").report
    assert "the root is taken of d_model and not of the width of a head" in text
    text = verdict(MULTI_HEAD, MineWithoutOutput, "MultiHead").report
    assert "That is what happens when the output projection is missing." in text


def test_weights_that_had_to_be_guessed_are_reported_where_the_result_is_wrong():
    text = verdict(MULTI_HEAD, MineKeyFirst, "MultiHead").report
    assert "(Your weights are taken in the order in which you make them: `wk.weight` as" in text
    assert "d_model = 12\n    n_heads = 3\n    x = torch.tensor([" in text


def test_calling_forward_by_hand_is_seen():
    skipping = but(MultiHead, project=lambda self, part, x: part.forward(x))
    text = MULTI_HEAD(skipping).report
    assert "Your module calls `query.forward(…)`: that skips the hooks of `query`" in text


# -------------------------------------------------------------------------- a stack, and positions


class Stack(nn.Module):
    def __init__(self, d_model, n_layers):
        super().__init__()
        self.layers = nn.ModuleList(self.make(d_model, n_layers))

    def make(self, d, n):
        return [nn.Linear(d, d) for _ in range(n)]

    def forward(self, x):
        for layer in self.layers:
            x = x + layer(x).relu()
        return x


STACK = Checker(
    Exercise(
        name="Stack",
        reference=Stack,
        cases=sequence_cases(7, n_layers=3),
        mistakes={
            "one layer is used again and again": but(
                Stack, make=lambda self, d, n: [nn.Linear(d, d)] * n
            )
        },
        section="Depth",
    )
)


def test_layers_that_are_one_or_start_alike():
    def copies(self, d, n):
        layer = nn.Linear(d, d)
        return [copy.deepcopy(layer) for _ in range(n)]

    assert STACK(Stack)
    text = STACK(but(Stack, make=lambda self, d, n: [nn.Linear(d, d)] * n)).report
    assert "Your `layers.0.weight` and `layers.1.weight` are one and the same parameter" in text
    assert "That is what happens when one layer is used again and again." in text
    text = STACK(but(Stack, make=copies)).report
    assert "Your `layers.0.weight` and `layers.1.weight` start with the same numbers" in text


def test_a_part_of_two_names_is_no_fault():
    class Listed(Stack):
        def __init__(self, d_model, n_layers):
            super().__init__(d_model, n_layers)
            self.last = self.layers[-1]

    Listed.__name__ = "Stack"
    assert STACK(Listed)
    text = STACK(but(Listed, make=lambda self, d, n: [nn.Linear(d, d)] * n)).report
    assert "That is what happens when one layer is used again and again." in text
    text = STACK(
        but(Listed, make=lambda self, d, n: [copy.deepcopy(one) for one in [nn.Linear(d, d)] * n])
    ).report
    assert "Your `layers.0.weight` and `layers.1.weight` start with the same numbers" in text


class Positions(nn.Module):
    def __init__(self, d_model, max_len):
        super().__init__()
        self.keep(self.table(d_model, max_len))

    def keep(self, table):
        self.register_buffer("waves", table, persistent=False)

    def rates(self, d):
        return 10000 ** (-torch.arange(0, d, 2) / d)

    def table(self, d, n):
        angles = torch.arange(n)[:, None] * self.rates(d)
        return torch.stack([angles.sin(), angles.cos()], -1).flatten(1)

    waves: torch.Tensor

    def forward(self, x, offset=0):
        return x + self.waves[offset : offset + x.shape[1]].to(x.dtype)


def halves(self, d, n):
    angles = torch.arange(n)[:, None] * self.rates(d)
    return torch.cat([angles.sin(), angles.cos()], -1)


POSITIONS = Checker(
    Exercise(
        name="Positions",
        reference=Positions,
        cases=[
            *sequence_cases(8, max_len=11),
            Case("an offset", torch.zeros(1, 3, 8), offset=4, init={"d_model": 8, "max_len": 11}),
        ],
        mistakes={
            "sines and cosines stand in two halves and do not take turns": but(
                Positions, table=halves
            ),
            "the exponent counts pairs and not dimensions": but(
                Positions, rates=lambda self, d: 10000 ** (-torch.arange(d // 2) / d)
            ),
            "the offset is not used": but(
                Positions, forward=lambda self, x, offset=0: x + self.waves[: x.shape[1]]
            ),
            "the table is given back without x": but(
                Positions,
                forward=lambda self, x, offset=0: self.waves[offset : offset + x.shape[1]],
            ),
        },
        section="Waves",
        keeps=("device",),
    )
)


class Loops(nn.Module):
    def __init__(self, d_model, max_len):
        super().__init__()
        rows = [
            [(math.cos if i % 2 else math.sin)(p / 10000 ** (i // 2 * 2 / d_model))
             for i in range(d_model)]
            for p in range(max_len)
        ]  # fmt: skip
        self.register_buffer("pe", torch.tensor(rows))

    pe: torch.Tensor

    def forward(self, x, offset=0):
        return x + self.pe[offset : offset + x.size(1)]


@pytest.mark.parametrize("mistake", POSITIONS.exercises["Positions"].mistakes)
def test_every_mistake_with_positions_is_diagnosed_as_itself(mistake):
    wrong: Any = POSITIONS.exercises["Positions"].mistakes[mistake]
    assert f"That is what happens when {mistake}." in POSITIONS(wrong).report


def test_a_table_that_is_no_buffer_is_left_behind():
    assert POSITIONS(Positions)
    assert verdict(POSITIONS, Loops, "Positions")
    plain = but(Positions, keep=lambda self, table: setattr(self, "waves", table))
    assert (
        "on another device, your code meets a tensor that was left behind"
        in POSITIONS(plain).report
    )


def test_attention_cases_reach_every_corner():
    def attend(query, key, value, mask=None):
        scores = query @ key.mT / query.shape[-1] ** 0.5
        if mask is not None:
            scores = scores.masked_fill(~mask, -torch.inf)
        return scores.softmax(-1) @ value

    def reference(query, key, value, mask=None):
        return attend(query, key, value, mask).nan_to_num(0.0)

    check = Checker(
        Exercise(
            name="attend",
            reference=reference,
            cases=attention_cases(),
            mistakes={"a row with nothing to attend to becomes NaN": attend},
            section="Empty rows",
        )
    )
    text = check(attend).report
    assert "case 7 of 8: a query with nothing to attend to\n  Your result is NaN at [1, 1, 0]." in (
        text
    )
    assert text.endswith("The other cases pass.")
