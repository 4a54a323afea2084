"""Chapter 7's checkers: right answers in every form, and what is said of wrong ones."""

import torch
from torch import nn

from tests.unit.judging import table
from transformer_lib.checks.chapter07 import check

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
        self.beta = nn.Parameter(torch.zeros(d_model))
        self.gamma = nn.Parameter(torch.ones(d_model))
        self.eps, self.d = eps, d_model

    def forward(self, x):
        x = x - x.sum(-1, keepdim=True) / self.d
        spread = torch.sqrt(torch.einsum("...d,...d->...", x, x) / self.d + self.eps)
        return self.gamma * x / spread[..., None] + self.beta


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


class InOneLine(nn.Module):
    """Right: the one norm has a second name, by where it stands."""

    def __init__(self, d_model, pre_norm):
        super().__init__()
        self.norm = nn.LayerNorm(d_model)
        ends = (self.norm, nn.Identity())
        self.first, self.last = ends if pre_norm else ends[::-1]

    def forward(self, x, sublayer):
        return self.last(x + sublayer(self.first(x)))


def answer_in_place(self, x, sublayer):
    y = sublayer(x)
    y += x
    return self.norm(y)


def added_in_place(self, x, sublayer):
    x += sublayer(self.norm(x))
    return x


class Wrapper(nn.Module):
    def __init__(self, d_model, eps=1e-5):
        super().__init__()
        self.norm = nn.LayerNorm(d_model, eps)

    def forward(self, x):
        return self.norm(x)


class Plain(nn.Module):
    def __init__(self, d_model, eps=1e-5):
        super().__init__()
        self.weight, self.bias = torch.ones(d_model), torch.zeros(d_model)

    def forward(self, x):
        return self.weight * right(x, 1e-5) + self.bias


class Zeros(ByVar):
    def __init__(self, d_model, eps=1e-5):
        super().__init__(d_model, eps)
        self.weight = nn.Parameter(torch.zeros(d_model))


class Doubles(ByVar):
    def __init__(self, d_model, eps=1e-5):
        super().__init__(d_model, eps)
        self.double()


def forgets_init(self, d_model, d_ff):
    self.widen = nn.Linear(d_model, d_ff)


test_right, test_wrong = table(
    check,
    right={
        "LayerNorm": [ByVar, Gamma],
        "MyFeedForward": [
            InARow,
            network(token_by_token),
        ],
        "Residual": [residual(pre, post), residual(pre, post, ByVar), InOneLine],
    },
    wrong={
        "LayerNorm": [
            (norm(lambda x, e: right(x.float(), e).to(x.dtype)), "go through single precision"),
            (norm(lambda x, e: right(x, e).detach()), "no gradient reaches `x`"),
            (Plain, "Your `weight` is a plain tensor, not an nn.Parameter"),
            (Doubles, "Your `weight` has dtype float64; it must be float32"),
            (Zeros, "Your `weight` starts at 0; it must start at 1"),
            (type("LayerNorm", (nn.LayerNorm,), {}), "It is a subclass of the finished LayerNorm"),
            (Wrapper, "It uses the finished LayerNorm: write what that does yourself."),
        ],
        "MyFeedForward": [
            (
                network(lambda self, x: self.narrow(self.widen(x).relu()), lambda d, f: (d, d)),
                "Your module has no parameters `widen.weight` of shape (7, 3)",
            ),
            (
                type("MyFeedForward", (nn.Module,), {"__init__": forgets_init}),
                "`super().__init__()` is missing",
            ),
        ],
        "Residual": [
            (residual(added_in_place, post), "changes its input `x`"),
            (residual(pre, answer_in_place), "here `sublayer` returns `x` itself"),
        ],
    },
)


def test_a_right_module_with_other_names_is_told():
    Gamma.__name__ = "LayerNorm"
    assert "`gamma` for weight, `beta` for bias" in check(Gamma).report
