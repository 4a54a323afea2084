"""The project's checkers: answers that real learners give, each diagnosed by name."""

import warnings

import pytest
import torch
import torch.nn.functional as F
from judging import judges
from torch import nn

from transformer_lib import layers as norms
from transformer_lib.checks.project import check

pytestmark = pytest.mark.slow

verdict, passes, is_told = judges(check)


# ----------------------------------------------------------------------------------------- RMSNorm


def norm(compute):
    class RMSNorm(nn.Module):
        def __init__(self, d_model, eps=1e-5):
            super().__init__()
            self.weight = nn.Parameter(torch.ones(d_model))
            self.eps = eps

        def forward(self, x):
            return compute(x, self.weight, self.eps)

    return RMSNorm


def as_pytorch(x, gain, eps):
    wide = x.double() if x.dtype == torch.float64 else x.float()
    return F.rms_norm(wide, x.shape[-1:], gain.to(wide), eps).to(x.dtype)


def as_hugging_face(x, gain, eps):
    kind = x.dtype
    x = x.to(torch.promote_types(kind, torch.float32))
    x = x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + eps)
    return gain * x.to(kind)


def with_a_narrow_weight(x, gain, eps):
    return as_hugging_face(x, gain.to(x.dtype), eps)


def converted_back_last(x, gain, eps):
    return as_hugging_face(x, gain, eps).to(x.dtype)


def through_the_library(x, gain, eps):
    with warnings.catch_warnings():  # of weights in another type: no fused kernel
        warnings.simplefilter("ignore")
        return F.rms_norm(x, x.shape[-1:], gain, eps)


def with_a_norm(x, gain, eps):
    wide = x.double()
    square = wide.norm(dim=-1, keepdim=True) ** 2 / x.shape[-1]
    return (gain.double() * wide / torch.sqrt(eps + square)).type_as(x)


@pytest.mark.parametrize(
    "compute",
    [as_pytorch, with_a_narrow_weight, converted_back_last, through_the_library, with_a_norm],
)
def test_a_right_norm_passes(capsys, compute):
    passed, said = verdict(capsys, norm(compute), "RMSNorm")
    assert passed
    assert said == "✓ RMSNorm: all 9 cases pass."


def test_a_norm_that_takes_the_type_of_its_weight_is_named(capsys):
    """The exercise asks for the type that came in, and F.rms_norm returns it."""
    is_told(capsys, norm(as_hugging_face), "RMSNorm", "the conversion back comes last")
    _, said = verdict(capsys, norm(as_hugging_face), "RMSNorm")
    assert "float32; for this input, float16, where the weights have stayed in float32" in said


def test_the_norm_of_the_library_passes(capsys):
    class RMSNorm(norms.RMSNorm):
        pass

    passes(capsys, RMSNorm, "RMSNorm")


def in_float32(compute):
    """In float64, where that is what comes in."""

    def widened(x, gain, eps):
        kind = torch.promote_types(x.dtype, torch.float32)
        return compute(x.to(kind), gain.to(kind), eps).to(x.dtype)

    return norm(widened)


def wide(x):
    return x.to(torch.promote_types(x.dtype, torch.float32))


NORMS = {
    "the weight is missing": in_float32(lambda x, g, e: x / (x.pow(2).mean(-1, True) + e).sqrt()),
    "that is layer normalization": in_float32(
        lambda x, g, e: F.layer_norm(x, x.shape[-1:], g, None, e)
    ),
    "eps stands outside": in_float32(lambda x, g, e: g * x / (x.pow(2).mean(-1, True).sqrt() + e)),
    "eps is missing": in_float32(lambda x, g, e: g * x / x.pow(2).mean(-1, True).sqrt()),
    "the root is missing": in_float32(lambda x, g, e: g * x / (x.pow(2).mean(-1, True) + e)),
    "added up": in_float32(lambda x, g, e: g * x / (x.pow(2).sum(-1, True) + e).sqrt()),
    "in 16 bits": norm(lambda x, g, e: g * x / (x.pow(2).mean(-1, True) + e).sqrt()),
    "1 is added to the weight": in_float32(
        lambda x, g, e: (1 + g) * x / (x.pow(2).mean(-1, True) + e).sqrt()
    ),
    "the root is rounded to 16 bits": norm(
        lambda x, g, e: g * (x / (wide(x).pow(2).mean(-1, True) + e).sqrt().to(x.dtype))
    ),
    "the mean square is rounded to 16 bits": norm(
        lambda x, g, e: (
            g * wide(x) / (wide(wide(x).pow(2).mean(-1, True).to(x.dtype)) + e).sqrt()
        ).to(x.dtype)
    ),
    "float64 becomes float32": norm(
        lambda x, g, e: (g * F.rms_norm(x.float(), x.shape[-1:], None, e)).to(x.dtype)
    ),
    "the length is divided by d": in_float32(
        lambda x, g, e: g * x / (x.norm(dim=-1, keepdim=True) / x.shape[-1] + e)
    ),
    "over the tokens as well": in_float32(
        lambda x, g, e: g * x / (x.pow(2).mean((-2, -1), True) + e).sqrt()
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", NORMS)
def test_a_wrong_norm_is_named(capsys, what):
    is_told(capsys, NORMS[what], "RMSNorm", what)


HALVES = [
    lambda x, g, e: (g * wide(x) / (wide(x.pow(2)).mean(-1, True) + e).sqrt()).to(x.dtype),
    lambda x, g, e: (g * wide(x) / (wide(x.pow(2).mean(-1, True)) + e).sqrt()).to(x.dtype),
    lambda x, g, e: g * x * torch.rsqrt(x.pow(2).mean(-1, True) + e),
]


@pytest.mark.parametrize("compute", HALVES)
def test_squares_in_16_bits_are_named_in_each_form(capsys, compute):
    is_told(capsys, norm(compute), "RMSNorm", "the squares are computed in 16 bits")


def test_a_factor_in_16_bits_is_named(capsys):
    in_half = norm(lambda x, g, e: g * x * torch.rsqrt(wide(x).square().mean(-1, True) + e).to(x))
    is_told(capsys, in_half, "RMSNorm", "the root is rounded to 16 bits")


class Shorter(norm(as_hugging_face)):
    def __init__(self, d_model, eps=1e-6):
        super().__init__(d_model, eps)


def test_another_eps_than_the_one_asked_for_is_named(capsys):
    is_told(capsys, Shorter, "RMSNorm", "eps is another one than 1e-5 where none is handed over")


def test_a_deviation_is_named(capsys):
    deviation = in_float32(
        lambda x, g, e: g * x / (x.var(-1, unbiased=False, keepdim=True) + e).sqrt()
    )
    is_told(capsys, deviation, "RMSNorm", "`std` and `var` subtract the mean before they square")


def test_a_weight_that_is_no_parameter_is_told(capsys):
    class RMSNorm(norm(as_pytorch)):
        def __init__(self, d_model, eps=1e-5):
            super().__init__(d_model, eps)
            del self.weight
            self.weight = torch.ones(d_model)

    is_told(capsys, RMSNorm, "RMSNorm", "Your `weight` is a tensor and no nn.Parameter")


# ------------------------------------------------------------------------------------------ rotate


def cos_and_sin(x, start, base=10_000, width=None):
    width = width or x.shape[-1]
    rates = 1.0 / base ** (torch.arange(0, width, 2).double() / width)
    angle = torch.outer(torch.arange(start, start + x.shape[-2]).double(), rates)
    return angle.cos().to(x.dtype), angle.sin().to(x.dtype)


def half_turned(x):
    first, second = x[..., : x.shape[-1] // 2], x[..., x.shape[-1] // 2 :]
    return torch.cat((-second, first), dim=-1)


def as_published(x, start=0):
    cos, sin = cos_and_sin(x, start)
    return x * torch.cat([cos, cos], -1) + half_turned(x) * torch.cat([sin, sin], -1)


def complex_numbers(x, start=0):
    cos, sin = cos_and_sin(x.double(), start)
    first, second = x.double().chunk(2, dim=-1)
    found = torch.complex(first, second) * torch.complex(cos, sin)
    return torch.cat([found.real, found.imag], dim=-1).to(x.dtype)


@pytest.mark.parametrize("function", [as_published, complex_numbers])
def test_a_right_turn_passes(capsys, function):
    passes(capsys, lambda x, start=0: function(x, start), "rotate")


def of_neighbors(x, start=0):
    cos, sin = cos_and_sin(x, start)
    even, odd = x[..., 0::2], x[..., 1::2]
    return torch.stack([even * cos - odd * sin, even * sin + odd * cos], dim=-1).flatten(-2)


def other_way(x, start=0):
    cos, sin = cos_and_sin(x, start)
    return x * torch.cat([cos, cos], -1) - half_turned(x) * torch.cat([sin, sin], -1)


def by_rates(rates, kind=None, end=torch.float64):
    """The angles are kept in the type `end`, and the sines and cosines in `kind`."""

    def turn(x, start=0):
        d_head = x.shape[-1]
        place = torch.arange(start, start + x.shape[-2]).double()
        angle = torch.outer(place, rates(torch.arange(d_head // 2).double(), d_head)).to(end)
        cos, sin = angle.cos().to(kind or x.dtype), angle.sin().to(kind or x.dtype)
        return x * torch.cat([cos, cos], -1) + half_turned(x) * torch.cat([sin, sin], -1)

    return turn


def up_to_t(x, start=0):
    place = torch.arange(start, x.shape[2]).unsqueeze(1)
    angle = place / 10_000 ** (torch.arange(0, x.shape[3], 2) / x.shape[3])
    a, b = x.chunk(2, dim=-1)
    return torch.cat([a * angle.cos() - b * angle.sin(), a * angle.sin() + b * angle.cos()], -1)


def halves_of(x, cos, sin):
    first, second = x.chunk(2, dim=-1)
    return torch.cat([first * cos - second * sin, first * sin + second * cos], dim=-1)


def first_overwritten(x, start=0):
    cos, sin = cos_and_sin(x, start)
    first, second = x.chunk(2, dim=-1)
    first = first * cos - second * sin
    second = first * sin + second * cos
    return torch.cat((first, second), dim=-1)


def doubled(x, start=0):
    cos, sin = (each.repeat_interleave(2, dim=-1) for each in cos_and_sin(x, start))
    return x * cos + half_turned(x) * sin


def neighbors_joined(x, start=0):
    cos, sin = cos_and_sin(x, start)
    even, odd = x[..., ::2], x[..., 1::2]
    return torch.cat([even * cos - odd * sin, even * sin + odd * cos], dim=-1)


def growing(kind):
    def rotate(x, start=0):
        pair = torch.arange(0, x.shape[-1], 2, dtype=kind) / x.shape[-1]
        angle = torch.arange(start, start + x.shape[-2])[:, None] * 10000.0**pair
        return halves_of(x, angle.cos().to(x), angle.sin().to(x))

    return rotate


def growing_by_division(x, start=0):
    pair = torch.arange(0, x.shape[-1], 2).double()
    angle = torch.arange(start, start + x.shape[-2])[:, None] / 10000 ** (-pair / x.shape[-1])
    return halves_of(x, angle.cos().to(x), angle.sin().to(x))


TURNS = {
    "where no `start` is handed over": lambda x, start=1: as_published(x, start),
    "the first half is overwritten": first_overwritten,
    "each angle stands twice in a row": doubled,
    "neighbors are taken as arrows: here entry i": neighbors_joined,
    "the exponent has the wrong sign": growing(torch.float64),
    "the exponent has the wrong sign:": growing(torch.float32),
    "the exponent has the wrong sign: each": growing_by_division,
    "the places end at T": up_to_t,
    "counted along the heads": lambda x, start=0: (
        x * torch.cat([cos_and_sin(x.transpose(1, 2), start)[0]] * 2, -1)
        + half_turned(x) * torch.cat([cos_and_sin(x.transpose(1, 2), start)[1]] * 2, -1)
    ),
    "neighbors are taken as arrows": of_neighbors,
    "the start is forgotten": lambda x, start=0: as_published(x, 0),
    "begin one too late": lambda x, start=0: as_published(x, start + 1),
    "the other way round": other_way,
    "the base is 10,000": lambda x, start=0: (
        x * torch.cat([cos_and_sin(x, start, 1000)[0]] * 2, -1)
        + half_turned(x) * torch.cat([cos_and_sin(x, start, 1000)[1]] * 2, -1)
    ),
    "along the heads": lambda x, start=0: as_published(x.transpose(1, 2), start).transpose(1, 2),
    "the exponent is half": by_rates(lambda i, d: 10_000 ** (-i / d)),
    "the exponent is twice": by_rates(lambda i, d: 10_000 ** (-4 * i / d)),
    "i counts from 1": by_rates(lambda i, d: 10_000 ** (-2 * (i + 1) / d)),
    "computed or kept in 16 bits": lambda x, start=0: by_rates(
        lambda i, d: 10_000 ** (-2 * i / d), end=x.dtype
    )(x, start),
    "they have dtype float64": by_rates(lambda i, d: 10_000 ** (-2 * i / d), kind=torch.float64),
}


@pytest.mark.parametrize("what", TURNS)
def test_a_wrong_turn_is_named(capsys, what):
    is_told(capsys, TURNS[what], "rotate", what)


# ------------------------------------------------------------------------------------------ SwiGLU


def network(mix):
    class SwiGLU(nn.Module):
        def __init__(self, d_model, d_ff):
            super().__init__()
            self.gate = nn.Linear(d_model, d_ff, bias=False)
            self.up = nn.Linear(d_model, d_ff, bias=False)
            self.down = nn.Linear(d_ff, d_model, bias=False)

        def forward(self, x):
            return self.down(mix(self.gate(x), self.up(x)))

    return SwiGLU


def test_a_right_network_passes(capsys):
    passes(capsys, network(lambda gate, up: gate * torch.sigmoid(gate) * up), "SwiGLU")


def test_other_names_of_the_parts_are_told(capsys):
    class SwiGLU(nn.Module):
        def __init__(self, d_model, d_ff):
            super().__init__()
            self.w1 = nn.Linear(d_model, d_ff, bias=False)
            self.w3 = nn.Linear(d_model, d_ff, bias=False)
            self.w2 = nn.Linear(d_ff, d_model, bias=False)

        def forward(self, x):
            return self.w2(F.silu(self.w1(x)) * self.w3(x))

    is_told(capsys, SwiGLU, "SwiGLU", "your `w1.weight` is its `gate.weight` (3 names differ)")


NETWORKS = {
    "gate and up are swapped": network(lambda gate, up: F.silu(up) * gate),
    "the gate is a sigmoid": network(lambda gate, up: torch.sigmoid(gate) * up),
    "the gate has another function": network(lambda gate, up: F.gelu(gate) * up),
    "silu is missing": network(lambda gate, up: up * gate),
    "are added": network(lambda gate, up: up + F.silu(gate)),
    "around the product": network(lambda gate, up: F.silu(up * gate)),
    "up is left out": network(lambda gate, up: F.silu(gate)),
}


def reading(forward):
    return type("SwiGLU", (network(None),), {"forward": forward})


@pytest.mark.parametrize(
    "forward",
    [
        lambda self, x: self.down(self.up(F.silu(self.gate(x)))),
        lambda self, x: self.down(F.silu(self.gate(x)) * self.up(F.silu(self.gate(x)))),
        lambda self, x: self.down(F.silu(self.gate(self.up(x))) * self.up(x)),
    ],
)
def test_a_part_that_does_not_read_x_is_named(capsys, forward):
    is_told(capsys, reading(forward), "SwiGLU", "gate or up reads what the other one gives")


@pytest.mark.parametrize("what", NETWORKS)
def test_a_wrong_network_is_named(capsys, what):
    is_told(capsys, NETWORKS[what], "SwiGLU", what)


# ------------------------------------------------------------------------------------------- Heads


def heads(
    turn_values=False, offset=True, key_offset=True, scale=None, interleave=True, causal="end",
    turn=as_published, order=1, grow=True, after=False, output=True,
):  # fmt: skip
    class Heads(nn.Module):
        def __init__(self, d_model, n_heads, n_kv_heads):
            super().__init__()
            self.n, self.g, self.d = n_heads, n_kv_heads, d_model // n_heads
            self.query = nn.Linear(d_model, d_model, bias=False)
            self.key = nn.Linear(d_model, self.g * self.d, bias=False)
            self.value = nn.Linear(d_model, self.g * self.d, bias=False)
            self.output = nn.Linear(d_model, d_model, bias=False)

        def forward(self, x, cache=None):
            b, t, _ = x.shape
            q = self.query(x).view(b, t, self.n, self.d).transpose(1, 2)
            k = self.key(x).view(b, t, self.g, self.d).transpose(1, 2)
            v = self.value(x).view(b, t, self.g, self.d).transpose(1, 2)
            seen = cache[0].shape[2] if cache is not None else 0
            start = seen if offset else 0
            q = turn(q, start)
            if not after:
                k = turn(k, start if key_offset else 0)
            if turn_values:
                v = turn(v, start)
            if cache is not None and grow:
                k = torch.cat([cache[0], k][::order], dim=2)
                v = torch.cat([cache[1], v][::order], dim=2)
            kept, s = (k, v), k.shape[2]
            if after:  # keys lie in the cache as they were, and are turned where needed
                k = turn(k, 0)
            if interleave:
                k, v = (y.repeat_interleave(self.n // self.g, 1) for y in (k, v))
            else:
                k, v = (y.repeat(1, self.n // self.g, 1, 1) for y in (k, v))
            scores = q @ k.transpose(2, 3) * (self.d**-0.5 if scale is None else scale)
            if causal:
                last = {
                    "end": s - t,
                    "start": 0,
                    "square": 0,
                    "wide": s - t + 1,
                    "alone": s if s > t else 0,
                }
                mask = torch.ones(t, t if causal == "square" else s).tril(last[causal])
                scores = scores.masked_fill(mask == 0, float("-inf"))
            mixed = (scores.softmax(-1) @ v).transpose(1, 2).reshape(b, t, -1)
            return (self.output(mixed) if output else mixed), kept

    return Heads


class Wide(heads()):
    """Keys and values are repeated first, and so kept."""

    def forward(self, x, cache=None):
        n = self.n // self.g
        own = None if cache is None else tuple(part[:, ::n] for part in cache)
        output, kept = super().forward(x, own)
        return output, tuple(part.repeat_interleave(n, dim=1) for part in kept)


class Turned(heads()):
    """The cache is (B, S, n_kv_heads, d_head)."""

    def forward(self, x, cache=None):
        own = None if cache is None else tuple(part.transpose(1, 2) for part in cache)
        output, kept = super().forward(x, own)
        return output, tuple(part.transpose(1, 2) for part in kept)


class Stepwise(heads()):
    """The offset is the cache's length along the axis `along`, and `use` says who looks in."""

    along, use = 2, True

    def forward(self, x, cache=None):
        b, t, _ = x.shape
        q, k, v = (
            part(x).view(b, t, -1, self.d).transpose(1, 2)
            for part in (self.query, self.key, self.value)
        )
        start = 0 if cache is None else cache[0].shape[self.along]
        q, k = as_published(q, start), as_published(k, start)
        kept = (
            (k, v) if cache is None else (torch.cat([cache[0], k], 2), torch.cat([cache[1], v], 2))
        )
        k, v = kept if self.use else (k, v)
        mask = torch.ones(t, k.shape[2]).tril(k.shape[2] - t).bool()
        mixed = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, enable_gqa=True)
        return self.output(mixed.transpose(1, 2).flatten(2)), kept


class Fused(heads()):
    def forward(self, x, cache=None):
        b, t, _ = x.shape
        q, k, v = (
            part(x).view(b, t, n, self.d).transpose(1, 2)
            for part, n in ((self.query, self.n), (self.key, self.g), (self.value, self.g))
        )
        start = 0 if cache is None else cache["k"].shape[2]
        q, k = as_published(q, start), as_published(k, start)
        if cache is not None:
            k, v = torch.cat([cache["k"], k], 2), torch.cat([cache["v"], v], 2)
        mask = torch.arange(k.shape[2]) <= start + torch.arange(t)[:, None]
        mixed = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, enable_gqa=True)
        return self.output(mixed.transpose(1, 2).flatten(2)), {"k": k, "v": v}


class Joined(heads()):
    """The pieces of the solution, of which a subclass replaces one."""

    def join(self, cache, k, v):
        return torch.cat([cache[0], k], 2), torch.cat([cache[1], v], 2)

    def widen(self, k, v):
        return (x.repeat_interleave(self.n // self.g, 1) for x in (k, v))

    def order(self, k, v):
        return k, v

    def keep(self, kept, wide):
        return kept

    def forward(self, x, cache=None):
        b, t, _ = x.shape
        q, k, v = (
            part(x).view(b, t, -1, self.d).transpose(1, 2)
            for part in (self.query, self.key, self.value)
        )
        start = 0 if cache is None else cache[0].size(2)
        q, k = as_published(q, start), as_published(k, start)
        if cache is not None:
            k, v = self.join(cache, k, v)
        kept = k, v
        wide = k, v = tuple(self.widen(k, v))
        mask = torch.ones(t, start + t).tril(start).bool()
        mixed = F.scaled_dot_product_attention(q, *self.order(k, v), attn_mask=mask)
        return self.output(mixed.transpose(1, 2).flatten(2)), self.keep(kept, wide)


@pytest.mark.parametrize("answer", [heads(), Fused, Joined])
def test_right_heads_pass(capsys, answer):
    passes(capsys, answer, "Heads")


class Remembering(heads()):
    """The cache stays in the module, and the argument is not looked at."""

    kept = None

    def forward(self, x, cache=None):
        b, t, _ = x.shape
        q, k, v = (
            part(x).view(b, t, -1, self.d).transpose(1, 2)
            for part in (self.query, self.key, self.value)
        )
        start = 0 if self.kept is None else self.kept[0].size(2)
        q, k = as_published(q, start), as_published(k, start)
        if self.kept is not None:
            k, v = torch.cat([self.kept[0], k], 2), torch.cat([self.kept[1], v], 2)
        self.kept = (k, v)
        mask = torch.ones(t, start + t).tril(start).bool()
        mixed = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, enable_gqa=True)
        return self.output(mixed.transpose(1, 2).flatten(2)), self.kept


def joined(**parts):
    return type("Heads", (Joined,), parts)


def one_in_turn(which):
    def widen(self, *pair):
        n = self.n // self.g
        return [
            x.repeat(1, n, 1, 1) if i == which else x.repeat_interleave(n, 1)
            for i, x in enumerate(pair)
        ]

    return widen


HEADS = {
    "the module remembers the text before": Remembering,
    "keys and values are repeated before they go": joined(keep=lambda self, kept, wide: wide),
    "the new values are joined to the keys": joined(
        join=lambda self, cache, k, v: (torch.cat([cache[0], k], 2), torch.cat([cache[0], v], 2))
    ),
    "keys and values have changed places": joined(order=lambda self, k, v: (v, k)),
    "the keys are repeated in the wrong order": joined(widen=one_in_turn(0)),
    "the values are repeated in the wrong order": joined(widen=one_in_turn(1)),
    "the scores are not scaled": heads(scale=1.0),
    "it is its root": heads(scale=1 / 4),
    "the values are turned too": heads(turn_values=True),
    "the offset of the cache is forgotten: with": heads(offset=False),
    "forgotten for the keys": heads(key_offset=False),
    "the cache is not used": heads(grow=False),
    "the new keys stand before": heads(order=-1),
    "the mask is missing": heads(causal=None),
    "the mask begins at the first key": heads(causal="start"),
    "behind a cache the mask is square": heads(causal="square"),
    "repeated in the wrong order": heads(interleave=False),
    "neighbors are turned": heads(turn=of_neighbors),
    "nothing is turned": heads(turn=lambda x, start: x),
    "lie in the cache unturned": heads(after=True),
    "before they go into the cache": Wide,
    "the tokens stand before the heads": Turned,
    "another number than that of the tokens": type("H", (Stepwise,), {"along": 1}),
    "the cache is not used: a token sees": type("H", (Stepwise,), {"use": False}),
    "one key too wide": heads(causal="wide"),
    "behind a cache the mask is missing": heads(causal="alone"),
    "the output matrix is not used": heads(output=False),
}


@pytest.mark.parametrize("what", HEADS)
def test_wrong_heads_are_named(capsys, what):
    is_told(capsys, HEADS[what], "Heads", what)


def test_a_cache_that_is_no_pair_is_told(capsys):
    class Heads(heads()):
        def forward(self, x, cache=None):
            output, kept = super().forward(x, None if cache is None else cache.unbind())
            return output, torch.stack(kept)

    is_told(capsys, Heads, "Heads", "must be a pair of keys and values; it is a tensor")


def test_heads_that_forget_the_cache_are_told(capsys):
    class Heads(heads()):
        def forward(self, x, cache=None):
            return super().forward(x, cache)[0]

    is_told(capsys, Heads, "Heads", "must return two things")

    class None_(heads()):
        def forward(self, x, cache=None):
            return super().forward(x, cache)[0], None

    is_told(capsys, None_, "Heads", "is None: it must hold keys and values")


# ------------------------------------------------------------------------------------------- Llama

RMSNorm, SwiGLU, Heads = norm(as_hugging_face), network(lambda g, u: F.silu(g) * u), heads()


def whole(layer, end=None, embed=None, cache_of=lambda caches, i: caches[i], kind=Heads):
    class Layer(nn.Module):
        def __init__(self, d_model, n_heads, n_kv_heads, d_ff):
            super().__init__()
            self.heads = kind(d_model, n_heads, n_kv_heads)
            self.feed_forward = SwiGLU(d_model, d_ff)
            self.norms = nn.ModuleList([RMSNorm(d_model), RMSNorm(d_model)])

    class Llama(nn.Module):
        def __init__(self, vocab_size, d_model, n_heads, n_kv_heads, n_layers, d_ff):
            super().__init__()
            self.embedding = nn.Embedding(vocab_size, d_model)
            self.layers = nn.ModuleList(
                [Layer(d_model, n_heads, n_kv_heads, d_ff) for _ in range(n_layers)]
            )
            self.norm = RMSNorm(d_model)
            self.output = nn.Linear(d_model, vocab_size, bias=False)

        def forward(self, ids, caches=None):
            x = embed(self, ids) if embed else self.embedding(ids)
            new = []
            for i, part in enumerate(self.layers):
                x, cache = layer(part, x, cache_of(caches, i) if caches else None)
                new.append(cache)
            return (end(self, x) if end else self.output(self.norm(x))), new

    return Llama


def right(layer, x, cache):
    added, cache = layer.heads(layer.norms[0](x), cache)
    x = x + added
    return x + layer.feed_forward(layer.norms[1](x)), cache


def post_norm(layer, x, cache):
    added, cache = layer.heads(x, cache)
    x = layer.norms[0](x + added)
    return layer.norms[1](x + layer.feed_forward(x)), cache


def norms_swapped(layer, x, cache):
    added, cache = layer.heads(layer.norms[1](x), cache)
    return x + added + layer.feed_forward(layer.norms[0](x + added)), cache


def one_norm_twice(layer, x, cache):
    added, cache = layer.heads(layer.norms[0](x), cache)
    return x + added + layer.feed_forward(layer.norms[0](x + added)), cache


def side_by_side(layer, x, cache):
    added, cache = layer.heads(layer.norms[0](x), cache)
    return x + layer.feed_forward(layer.norms[1](x)) + added, cache


def nothing_added(layer, x, cache):
    x, cache = layer.heads(layer.norms[0](x), cache)
    return x + layer.feed_forward(layer.norms[1](x)), cache


def test_a_right_llama_passes(capsys):
    passes(capsys, whole(right), "Llama")


def tied(kind):
    class Llama(kind):
        def __init__(self, *sizes):
            super().__init__(*sizes)
            self.output.weight = self.embedding.weight

    return Llama


def with_eps(small, of):
    class Llama(whole(right)):
        def __init__(self, *sizes):
            super().__init__(*sizes)
            for part in of(self):
                part.eps = small

    return Llama


@pytest.mark.parametrize(
    "of",
    [
        lambda llama: [m for m in llama.modules() if hasattr(m, "eps")],
        lambda llama: [llama.norm],
        lambda llama: [n for layer in llama.layers for n in layer.norms],
    ],
)
def test_another_eps_of_the_norms_is_named(capsys, of):
    is_told(capsys, with_eps(1e-6, of), "Llama", "not all norms have the eps that is asked for")


def test_the_caches_of_one_layer_alone_are_told(capsys):
    class Llama(whole(right)):
        def forward(self, ids, caches=None):
            logits, found = super().forward(ids, caches)
            return logits, found[-1]

    is_told(capsys, Llama, "Llama", "must be a list with one for each layer")


def test_the_cache_of_the_last_layer_alone_is_told(capsys):
    class Llama(whole(right)):
        def forward(self, ids, caches=None):
            logits, caches = super().forward(ids, caches)
            return logits, caches[-1:]

    is_told(capsys, Llama, "Llama", "returns has 1: there is one for each of the 3 layers")


class OfLists(Heads):
    def forward(self, x, cache=None):
        start = 0 if cache is None else cache[0].size(2)
        return super().forward(x, None if start == 0 else cache)


def test_the_caches_of_all_layers_for_each_are_named(capsys):
    """The cache is then a list of pairs, and `.size` or `.shape` is asked of a pair."""
    for kind in (Heads, OfLists):
        answer = whole(right, cache_of=lambda caches, i: caches, kind=kind)
        is_told(capsys, answer, "Llama", "each layer gets the caches of all: layer i gets")


def test_a_llama_that_remembers_the_text_before_is_named(capsys):
    class Llama(whole(right)):
        def forward(self, ids, caches=None):
            logits, new = super().forward(ids, getattr(self, "kept", None))
            self.kept = new
            return logits, new

    is_told(capsys, Llama, "Llama", "the model remembers the text before")


LLAMAS = {
    "the last norm is missing": whole(right, end=lambda self, x: self.output(x)),
    "behind the sublayers": whole(post_norm),
    "the two norms of a layer are swapped": whole(norms_swapped),
    "one norm is used twice": whole(one_norm_twice),
    "side by side": whole(side_by_side),
    "behind the heads: the residual": whole(nothing_added),
    "multiplied by the root of d_model": whole(
        right, embed=lambda self, ids: self.embedding(ids) * self.embedding.weight.shape[1] ** 0.5
    ),
    "uses the table of the embedding": whole(
        right, end=lambda self, x: F.linear(self.norm(x), self.embedding.weight)
    ),
    "it is asked for logits": whole(
        right, end=lambda self, x: self.output(self.norm(x)).softmax(-1)
    ),
    "the output uses the table": tied(whole(right)),
    "the caches are not handed": whole(right, cache_of=lambda caches, i: None),
    "the cache of the first": whole(right, cache_of=lambda caches, i: caches[0]),
    "only the logits of the last": whole(
        right, end=lambda self, x: self.output(self.norm(x))[:, -1:]
    ),
}


@pytest.mark.parametrize("what", LLAMAS)
def test_a_wrong_llama_is_named(capsys, what):
    is_told(capsys, LLAMAS[what], "Llama", what)


# ------------------------------------------------------------------------------------------- write


def right_text(model, ids, length):
    out, caches = [ids], None
    for _ in range(length):
        logits, caches = model(out[-1], caches)
        out.append(logits[:, -1].argmax(-1, keepdim=True))
    return torch.cat(out, dim=1)


def one_call_more(model, ids, length):
    logits, caches = model(ids)
    for _ in range(length):
        new = logits[:, -1:].argmax(-1)
        ids = torch.cat([ids, new], dim=1)
        logits, caches = model(new, caches)
    return ids


@pytest.mark.parametrize("function", [right_text, one_call_more])
def test_a_right_text_passes(capsys, function):
    passes(capsys, lambda *given: function(*given), "write")


def text(keep=True, whole_text=False, first=False, new_only=False, more=0):
    def write(model, ids, length):
        start, read, caches = ids.shape[1], ids, None
        for _ in range(length + more):
            logits, new = model(read, caches)
            caches = new if keep else None
            chosen = logits[:, 0 if first else -1].argmax(-1)[:, None]
            ids = torch.cat([ids, chosen], dim=1)
            read = ids if whole_text else chosen
        return ids[:, start:] if new_only else ids

    return write


TEXTS = {
    "the caches are not handed on": text(keep=False),
    "on top of the caches": text(whole_text=True),
    "without the caches": text(whole_text=True, keep=False),
    "at the first place": text(first=True),
    "only the new tokens": text(new_only=True),
    "one token too many": text(more=1),
}


def last_tokens(model, ids, length):
    return right_text(model, ids, length)[:, -length:]


def one_token_for_all(model, ids, length):
    read, caches = ids, None
    for _ in range(length):
        logits, caches = model(read, caches)
        read = logits[0, -1].argmax().repeat(len(ids), 1)
        ids = torch.cat([ids, read], dim=1)
    return ids


def only_the_last(model, ids, length):
    caches = None
    for _ in range(length):
        logits, caches = model(ids[:, -1:], caches)
        ids = torch.cat([ids, logits[:, -1:].argmax(-1)], dim=1)
    return ids


def one_text_read(model, ids, length):
    read, caches = ids, None
    for _ in range(length):
        logits, caches = model(read, caches)
        read = logits[0, -1].argmax().view(1, 1)
        ids = torch.cat([ids, read.repeat(len(ids), 1)], dim=1)
    return ids


def without_the_first(model, ids, length):
    logits, caches = model(ids)
    for _ in range(length):
        token = logits[:, -1:].argmax(-1)
        logits, caches = model(token, caches)
        ids = torch.cat([ids, logits[:, -1:].argmax(-1)], dim=1)
    return ids


@pytest.mark.parametrize(
    ("function", "what"),
    [
        (last_tokens, "only the new tokens"),
        (one_token_for_all, "continued like the first"),
        (without_the_first, "the first new token is read and not written"),
        (only_the_last, "the last token of the text is read alone"),
        (one_text_read, "given 1 of the 2 texts, together with the caches of all"),
    ],
)
def test_texts_that_are_right_for_some_inputs_are_named(capsys, function, what):
    is_told(capsys, lambda *given: function(*given), "write", what)


@pytest.mark.parametrize("what", TEXTS)
def test_a_wrong_text_is_named(capsys, what):
    is_told(capsys, TEXTS[what], "write", what)


def choosing(choose):
    def write(model, ids, length):
        read, caches = ids, None
        for _ in range(length):
            logits, caches = model(read, caches)
            read = choose(logits)
            ids = torch.cat([ids, read], dim=1)
        return ids

    return write


def one_late(model, ids, length):
    read, caches = ids, None
    for _ in range(length):
        logits, caches = model(read, caches)
        read = ids[:, -1:]
        ids = torch.cat([ids, logits[:, -1].argmax(-1, keepdim=True)], dim=1)
    return ids


def put_in_front(model, ids, length):
    read, caches = ids, None
    for _ in range(length):
        logits, caches = model(read, caches)
        read = logits[:, -1].argmax(-1, keepdim=True)
        ids = torch.cat([read, ids], dim=1)
    return ids


def up_to(model, ids, length):
    read, caches = ids, None
    while ids.shape[1] < length:
        logits, caches = model(read, caches)
        read = logits[:, -1].argmax(-1, keepdim=True)
        ids = torch.cat([ids, read], dim=1)
    return ids


def read_in_pieces(model, ids, length):
    caches = None
    for token in ids.split(1, dim=1):
        logits, _ = model(token, caches)
    for _ in range(length):
        new = logits[:, -1].argmax(-1, keepdim=True)
        ids = torch.cat([ids, new], dim=1)
        logits, caches = model(new, caches)
    return ids


def last_piece_kept(model, ids, length):
    for token in ids.split(1, dim=1):
        logits, caches = model(token)
    for _ in range(length):
        new = logits[:, -1].argmax(-1, keepdim=True)
        ids = torch.cat([ids, new], dim=1)
        logits, caches = model(new, caches)
    return ids


def guesses_for_the_text(model, ids, length):
    if length == 0:
        return ids
    logits, caches = model(ids)
    ids = torch.cat([ids[:, :1], logits.argmax(-1)], dim=1)
    for _ in range(length - 1):
        logits, caches = model(ids[:, -1:], caches)
        ids = torch.cat([ids, logits.argmax(-1)], dim=1)
    return ids


def two_are_read(model, ids, length):
    read, caches = ids, None
    for _ in range(length):
        logits, caches = model(read, caches)
        ids = torch.cat([ids, logits[:, -1].argmax(-1, keepdim=True)], dim=1)
        read = ids[:, -2:]
    return ids


def not_taken_apart(model, ids, length):
    for _ in range(length):
        logits = model(ids)
        ids = torch.cat([ids, logits[:, -1:].argmax(-1)], dim=1)
    return ids


def a_method_of_a_pair(model, ids, length):
    for _ in range(length):
        ids = torch.cat([ids, model(ids).argmax(-1)[:, -1:]], dim=1)
    return ids


def returned_at_once(model, ids, length):
    read, caches = ids, None
    for _ in range(length):
        logits, caches = model(read, caches)
        read = logits[:, -1].argmax(-1, keepdim=True)
        ids = torch.cat([ids, read], dim=1)
        return ids


def joined_below(join):
    def write(model, ids, length):
        read, caches = ids, None
        for _ in range(length):
            logits, caches = model(read, caches)
            read = logits[:, -1].argmax(-1, keepdim=True)
            ids = join([ids, read])
        return ids

    return write


def ends_at(token):
    def write(model, ids, length):
        read, caches = ids, None
        for _ in range(length):
            logits, caches = model(read, caches)
            read = logits[:, -1:].argmax(-1)
            ids = torch.cat([ids, read], dim=1)
            if (read == token).all():
                break
        return ids

    return write


@pytest.mark.parametrize(
    ("function", "what"),
    [
        (ends_at(0), "no token is an end"),
        (ends_at(1), "no token is an end"),
        (ends_at(2), "no token is an end"),
        (choosing(lambda logits: logits[:, -1].softmax(-1).multinomial(1)), "the token is drawn"),
        (choosing(lambda logits: logits[:, -2:-1].argmax(-1)), "the last place but one"),
        (choosing(lambda logits: logits[:, -2].argmax(-1)[:, None]), "the last place but one"),
        (choosing(lambda x: x[:, -min(2, x.shape[1])].argmax(-1)[:, None]), "last place but one"),
        (choosing(lambda x: x[:, -1].argmax(0)[: len(x), None]), "`argmax` goes over the texts"),
        (choosing(lambda logits: logits.argmax(1)[:, -1:]), "`argmax` goes over the texts"),
        (choosing(lambda logits: logits[:, -1:].argmax(1)), "`argmax` goes over the texts"),
        (choosing(lambda x: x[:, -1].argmax().repeat(len(x), 1)), "`argmax` has no `dim`"),
        (choosing(lambda x: x[:, -1].argmax().reshape(1, 1)), "one token is chosen for all"),
        (choosing(lambda x: x[0, -1].argmax().view(1, 1)), "one token is chosen for all"),
        (choosing(lambda x: torch.tensor([[x[0, -1].argmax().item()]])), "one token is chosen"),
        (returned_at_once, "the `return` stands in the loop"),
        (joined_below(torch.cat), "joined below the texts"),
        (joined_below(lambda parts: torch.cat(parts, dim=0)), "joined below the texts"),
        (one_late, "the token before the new one is read"),
        (put_in_front, "in front of the text"),
        (up_to, "as the length of the whole text"),
        (read_in_pieces, "without handing their caches on"),
        (last_piece_kept, "without handing their caches on"),
        (guesses_for_the_text, "the text is replaced by guesses"),
        (two_are_read, "more than the new token is read"),
        (not_taken_apart, "take them apart first"),
        (a_method_of_a_pair, "take them apart first"),
    ],
)
def test_texts_of_a_second_look_are_named(capsys, function, what):
    is_told(capsys, lambda *given: function(*given), "write", what)


@pytest.mark.parametrize("name", ["RMSNorm", "SwiGLU", "Heads", "Llama"])
def test_an_empty_class_is_told(capsys, name):
    answer = type(name, (nn.Module,), {})
    result, said = verdict(capsys, answer, name)
    assert not result and "Traceback" not in said
