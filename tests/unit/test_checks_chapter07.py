"""Chapter 7's checkers: answers that real learners give, each diagnosed by name."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from transformer_lib.checks.chapter07 import check

pytestmark = pytest.mark.slow


def verdict(capsys, answer, name):
    answer.__name__ = name
    result = check(answer)
    capsys.readouterr()
    return result


# ------------------------------------------------------------------------------------- LayerNorm


class ByVar(nn.Module):
    """Right: with `var`, `rsqrt`, and the names of the exercise in another order."""

    def __init__(self, d_model, eps=1e-5):
        super().__init__()
        self.bias = nn.Parameter(torch.zeros(d_model))
        self.weight = nn.Parameter(torch.ones(d_model))
        self.epsilon = eps

    def forward(self, x):
        variance, mean = torch.var_mean(x, dim=-1, correction=0, keepdim=True)
        return torch.addcmul(
            self.bias, (x - mean) * torch.rsqrt(variance + self.epsilon), self.weight
        )


class Gamma(nn.Module):
    """Right, with the names of the paper, by sums."""

    def __init__(self, d_model, eps=1e-5):
        super().__init__()
        self.gamma = nn.Parameter(torch.ones(d_model))
        self.beta = nn.Parameter(torch.zeros(d_model))
        self.eps, self.d = eps, d_model

    def forward(self, x):
        x = x - x.sum(-1, keepdim=True) / self.d
        spread = torch.sqrt(torch.einsum("...d,...d->...", x, x) / self.d + self.eps)
        return self.gamma * x / spread[..., None] + self.beta


@pytest.mark.parametrize("answer", [ByVar, Gamma])
def test_right_norms_pass(capsys, answer):
    assert verdict(capsys, answer, "LayerNorm")


def norm(function, affine=lambda self, x: self.weight * x + self.bias):
    class Answer(nn.Module):
        def __init__(self, d_model, eps=1e-5):
            super().__init__()
            self.weight = nn.Parameter(torch.ones(d_model))
            self.bias = nn.Parameter(torch.zeros(d_model))
            self.eps = eps

        def forward(self, x):
            return affine(self, function(x, self.eps))

    return Answer


def right(x, eps):
    return (x - x.mean(-1, keepdim=True)) / (x.var(-1, correction=0, keepdim=True) + eps).sqrt()


def over(axes):
    def function(x, eps):
        mean = x.mean(dim=axes, keepdim=True)
        return (x - mean) / torch.sqrt(((x - mean) ** 2).mean(dim=axes, keepdim=True) + eps)

    return function


def over_all_but_the_first(x, eps):
    return over(tuple(range(1, x.dim())))(x, eps)


@pytest.mark.parametrize(
    ("answer", "diagnosis"),
    [
        (norm(lambda x, e: (x - x.mean(-1, True)) / (x.std(-1, keepdim=True) + e)), "by d - 1"),
        (norm(lambda x, e: (x - x.mean(-1, True)) / (x.var(-1, keepdim=True) + e) ** 0.5), "d - 1"),
        (
            norm(lambda x, e: (x - x.mean(-1, True)) / (x.std(-1, correction=0, keepdim=True) + e)),
            "eps stands outside the root",
        ),
        (norm(lambda x, e: right(x, 0)), "eps is left out"),
        (norm(lambda x, e: right(x, 1e-5)), "eps is fixed"),
        (norm(lambda x, e: right(x, 1e-12)), "eps is fixed"),
        (norm(lambda x, e: (x - x.mean(-1)) / x.std(-1)), "`keepdim=True` is missing"),
        (
            norm(lambda x, e: (x - x.mean(-1, True)) / (x.var(-1, correction=0, keepdim=True) + e)),
            "the root is missing",
        ),
        (
            norm(
                lambda x, e: (
                    (x - x.mean(-1, True)) / ((x.var(-1, correction=0, keepdim=True) + e) ** 1 / 2)
                )
            ),
            "`** 1/2` is no root",
        ),
        (norm(over(-2)), "over the tokens of a sentence"),
        (norm(over((-2, -1))), "over tokens and features together"),
        (norm(over_all_but_the_first), "over tokens and features together"),
        (norm(lambda x, e: (x - x.mean()) / (x.var(unbiased=False) + e).sqrt()), "the whole input"),
        (norm(over(0)), "over the first axis, the batch"),
        (norm(over(2)), "counted from the front"),
        (norm(over(1)), "counted from the front"),
        (
            norm(lambda x, e: x / (x.square().mean(-1, keepdim=True) + e).sqrt()),
            "that is RMS norm",
        ),
        (
            norm(lambda x, e: x / (x.var(-1, correction=0, keepdim=True) + e).sqrt()),
            "the mean stays in: it is subtracted first",
        ),
        (norm(lambda x, e: x - x.mean(-1, keepdim=True)), "and not divided by its deviation"),
        (
            norm(
                lambda x, e: (
                    (x - x.mean(-1, True))
                    / ((x**2).mean(-1, True) - x.mean(-1, True) ** 2 + e) ** 0.5
                )
            ),
            "the mean square minus the squared mean",
        ),
        (norm(lambda x, e: right(x.float(), e).to(x.dtype)), "around a million"),
        (norm(lambda x, e: F.normalize(x - x.mean(-1, True), dim=-1, eps=e)), "No known mistake"),
        (
            norm(lambda x, e: (y := x - x.mean(-1, True)) / (y.norm(dim=-1, keepdim=True) + e)),
            "divided by its length",
        ),
        (norm(right, lambda self, x: x), "are there and not used"),
        (norm(right, lambda self, x: self.weight * x), "`bias` is there and not added"),
        (norm(right, lambda self, x: x + self.bias), "`weight` is there and not multiplied"),
        (norm(right, lambda self, x: self.weight * (x + self.bias)), "added before the factor"),
    ],
)
def test_wrong_norms_are_named(capsys, answer, diagnosis):
    report = verdict(capsys, answer, "LayerNorm").report
    assert diagnosis in report or (diagnosis == "No known mistake" and "✗" in report), report


def test_a_norm_without_parameters_is_named(capsys):
    class Plain(nn.Module):
        def __init__(self, d_model, eps=1e-5):
            super().__init__()
            self.eps = eps

        def forward(self, x):
            return right(x, self.eps)

    assert (
        "there is no learned factor and no learned shift"
        in verdict(capsys, Plain, "LayerNorm").report
    )


def test_parameters_that_start_elsewhere_are_named(capsys):
    class Zeros(ByVar):
        def __init__(self, d_model, eps=1e-5):
            super().__init__(d_model, eps)
            self.weight = nn.Parameter(torch.zeros(d_model))

    assert "Your `weight` starts at 0" in verdict(capsys, Zeros, "LayerNorm").report


# --------------------------------------------------------------------------------- MyFeedForward


def network(function, inner=lambda d_model, d_ff: (d_model, d_ff)):
    class Answer(nn.Module):
        def __init__(self, d_model, d_ff):
            super().__init__()
            d, f = inner(d_model, d_ff)
            self.widen, self.narrow = nn.Linear(d, f), nn.Linear(f, d)

        def forward(self, x):
            return function(self, x)

    return Answer


class InARow(nn.Module):
    def __init__(self, d_model, d_ff):
        super().__init__()
        self.widen = nn.Linear(d_model, d_ff)
        self.act = nn.ReLU()
        self.narrow = nn.Linear(d_ff, d_model)

    def forward(self, x):
        return nn.Sequential(self.widen, self.act, self.narrow)(x)


def token_by_token(self, x):
    flat = [
        self.narrow(torch.clamp(self.widen(token), min=0)) for token in x.reshape(-1, x.size(-1))
    ]
    return torch.stack(flat).view(x.shape)


def by_einsum(self, x):
    inner = torch.einsum("...d,fd->...f", x, self.widen.weight) + self.widen.bias
    inner = torch.maximum(inner, torch.zeros_like(inner))
    return torch.einsum("...f,df->...d", inner, self.narrow.weight) + self.narrow.bias


@pytest.mark.parametrize("answer", [InARow, network(token_by_token), network(by_einsum)])
def test_right_networks_pass(capsys, answer):
    assert verdict(capsys, answer, "MyFeedForward")


@pytest.mark.parametrize(
    ("answer", "diagnosis"),
    [
        (network(lambda self, x: self.narrow(self.widen(x))), "the ReLU is missing"),
        (network(lambda self, x: F.relu(self.narrow(self.widen(x)))), "the ReLU comes at the end"),
        (
            network(lambda self, x: F.relu(self.narrow(F.relu(self.widen(x))))),
            "a second ReLU at the",
        ),
        (network(lambda self, x: self.narrow(self.widen(F.relu(x)))), "the ReLU comes first"),
        (network(lambda self, x: self.narrow(F.gelu(self.widen(x)))), "another one than the ReLU"),
        (
            network(lambda self, x: self.narrow(torch.tanh(self.widen(x)))),
            "another one than the ReLU",
        ),
        (network(lambda self, x: self.narrow(self.widen(x).softmax(-1))), "a softmax stands where"),
        (network(lambda self, x: self.narrow(self.widen(x).abs())), "the absolute value"),
        (
            network(lambda self, x: self.narrow(self.widen(x).clamp(max=0))),
            "`min` stands where `max`",
        ),
        (
            network(lambda self, x: x + self.narrow(self.widen(x).relu())),
            "the residual connection is in it",
        ),
        (
            network(lambda self, x: self.narrow(self.widen(x).relu()), lambda d, f: (d, 4 * d)),
            "four times d_model",
        ),
        (
            network(lambda self, x: self.narrow(self.widen(x).relu()), lambda d, f: (f, d)),
            "the two widths have changed places",
        ),
        (
            network(lambda self, x: self.narrow(self.widen(x).relu()), lambda d, f: (d, d)),
            "the inner width is d_model",
        ),
        (
            network(lambda self, x: self.narrow.forward(self.widen(x).relu())),
            "skips the hooks of `narrow`",
        ),
    ],
)
def test_wrong_networks_are_named(capsys, answer, diagnosis):
    assert diagnosis in verdict(capsys, answer, "MyFeedForward").report


# -------------------------------------------------------------------------------------- Residual


def residual(pre, post, make=nn.LayerNorm):
    class Answer(nn.Module):
        def __init__(self, d_model, pre_norm):
            super().__init__()
            self.norm = make(d_model)
            self.first = pre_norm

        def forward(self, x, sublayer):
            return (pre if self.first else post)(self, x, sublayer)

    return Answer


def pre(self, x, sublayer):
    return torch.add(sublayer(self.norm(x)), x)


def post(self, x, sublayer):
    total = sublayer(x) + x
    return self.norm(total)


def lost(self, x, sublayer):
    x = self.norm(x)
    return x + sublayer(x)


@pytest.mark.parametrize("make", [nn.LayerNorm, ByVar])
def test_right_ways_around_pass(capsys, make):
    assert verdict(capsys, residual(pre, post, make), "Residual")


class InOneLine(nn.Module):
    """Right: the one norm has a second name, by where it stands."""

    def __init__(self, d_model, pre_norm):
        super().__init__()
        self.norm = nn.LayerNorm(d_model)
        ends = (self.norm, nn.Identity())
        self.first, self.last = ends if pre_norm else ends[::-1]

    def forward(self, x, sublayer):
        return self.last(x + sublayer(self.first(x)))


def test_a_norm_of_two_names_passes(capsys):
    assert verdict(capsys, InOneLine, "Residual")


def answer_in_place(self, x, sublayer):
    y = sublayer(x)
    y += x
    return self.norm(y)


def added_in_place(self, x, sublayer):
    x += sublayer(self.norm(x))
    return x


@pytest.mark.parametrize(
    ("answer", "diagnosis"),
    [
        (residual(lost, post), "the stream is lost in pre-norm"),
        (residual(pre, pre), "this is pre-norm both times"),
        (residual(post, post), "this is post-norm both times"),
        (residual(post, pre), "have changed places"),
        (residual(lambda s, x, f: f(s.norm(x)), lambda s, x, f: s.norm(f(x))), "itself is not add"),
        (
            residual(lambda s, x, f: f(s.norm(x)), post),
            "the residual connection is missing in pre-norm",
        ),
        (
            residual(pre, lambda s, x, f: s.norm(f(x))),
            "the residual connection is missing in post-norm",
        ),
        (residual(pre, lambda s, x, f: x + s.norm(f(x))), "`x` is added afterwards"),
        (
            residual(lambda s, x, f: x + s.norm(f(x)), lambda s, x, f: x + s.norm(f(x))),
            "behind the part and in front of the sum, in both orders",
        ),
        (residual(lambda s, x, f: s.norm(x + f(s.norm(x))), post), "a second norm behind the sum"),
        (residual(pre, lambda s, x, f: s.norm(x + f(s.norm(x)))), "the part reads a normalized"),
        (residual(lambda s, x, f: x + f(x), lambda s, x, f: x + f(x)), "there is no norm, in"),
        (residual(lambda s, x, f: x + f(x), post), "the norm is missing in pre-norm"),
        (residual(pre, lambda s, x, f: x + f(x)), "the norm is missing in post-norm"),
        (residual(lambda s, x, f: s.norm(x) + f(x), post), "only what is added is normalized"),
        (residual(added_in_place, post), "changed"),
        (residual(pre, answer_in_place), "which may be `x` itself, is changed in place"),
        (residual(pre, lambda s, x, f: s.norm(x) + f(x)), "and not the sum is normalized"),
        (residual(lambda s, x, f: x + s.norm(f(s.norm(x))), post), "second norm on the branch"),
    ],
)
def test_wrong_ways_around_are_named(capsys, answer, diagnosis):
    assert diagnosis in verdict(capsys, answer, "Residual").report


def test_who_passes_under_other_names_is_told(capsys):
    result = verdict(capsys, Gamma, "LayerNorm")
    assert result
    assert "the exercise calls them bias, weight; yours are" in result.report
    assert "calls them" not in verdict(capsys, ByVar, "LayerNorm").report
