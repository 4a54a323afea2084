"""The project's checkers: right answers in every form, and what is said of wrong ones."""

import torch
import torch.nn.functional as F
from torch import nn

from tests.unit.judging import table
from transformer_lib.checks.project import check


def but(base, **steps):
    return type("Learner", (base,), steps)


# --------------------------------------------------------------------------------------- RMSNorm


def norm(compute, default=1e-5):
    class Norm(nn.Module):
        def __init__(self, d_model, eps=default):
            super().__init__()
            self.weight = nn.Parameter(torch.ones(d_model))
            self.eps = eps

        def forward(self, x):
            return compute(x, self.weight, self.eps)

    return Norm


def wide(x):
    return x.to(torch.promote_types(x.dtype, torch.float32))


def as_pytorch(x, gain, eps):
    y = wide(x)
    return F.rms_norm(y, x.shape[-1:], gain.to(y), eps).to(x.dtype)


def as_hugging_face(x, gain, eps):
    y = wide(x)
    return gain * (y * torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + eps)).to(x.dtype)


def by_length(x, gain, eps):
    y = x.double()
    square = y.norm(dim=-1, keepdim=True) ** 2 / x.shape[-1]
    return (gain.double() * y / torch.sqrt(eps + square)).type_as(x)


def cast_twice(x, gain, eps):
    """In 16 bits, the two gradients of x overflow before they are added."""
    return (wide(x) / (wide(x).pow(2).mean(-1, True) + eps).sqrt() * gain).to(x.dtype)


# ---------------------------------------------------------------------------------------- rotate


def cos_and_sin(x, start, base=10_000, of=lambda angle: angle):
    rates = 1.0 / base ** (torch.arange(0, x.shape[-1], 2).double() / x.shape[-1])
    angle = of(torch.outer(torch.arange(start, start + x.shape[-2]).double(), rates))
    return angle.cos().to(x.dtype), angle.sin().to(x.dtype)


def as_published(x, start=0, base=10_000, **more):
    cos, sin = cos_and_sin(x, start, base, **more)
    first, second = x[..., : x.shape[-1] // 2], x[..., x.shape[-1] // 2 :]
    half_turned = torch.cat((-second, first), dim=-1)
    return x * torch.cat([cos, cos], -1) + half_turned * torch.cat([sin, sin], -1)


def complex_numbers(x, start=0, base=10_000):
    cos, sin = cos_and_sin(x.double(), start, base)
    found = torch.complex(*x.double().chunk(2, dim=-1)) * torch.complex(cos, sin)
    return torch.cat([found.real, found.imag], dim=-1).to(x.dtype)


# ---------------------------------------------------------------------------------------- SwiGLU


class SwiGLU(nn.Module):
    def __init__(self, d_model, d_ff):
        super().__init__()
        self.gate = nn.Linear(d_model, d_ff, bias=False)
        self.up = nn.Linear(d_model, d_ff, bias=False)
        self.down = nn.Linear(d_ff, d_model, bias=False)

    def forward(self, x):
        gate = self.gate(x)
        return self.down(gate * torch.sigmoid(gate) * self.up(x))


class OtherNames(nn.Module):
    def __init__(self, d_model, d_ff):
        super().__init__()
        self.w1 = nn.Linear(d_model, d_ff, bias=False)
        self.w3 = nn.Linear(d_model, d_ff, bias=False)
        self.w2 = nn.Linear(d_ff, d_model, bias=False)

    def forward(self, x):
        return self.w2(F.silu(self.w1(x)) * self.w3(x))


def network(forward):
    return but(SwiGLU, forward=forward)


# ----------------------------------------------------------------------------------------- Heads


class Heads(nn.Module):
    """With PyTorch's own attention."""

    def __init__(self, d_model, n_heads, n_kv_heads, base=10_000):
        super().__init__()
        self.base = base
        self.n, self.g, self.d = n_heads, n_kv_heads, d_model // n_heads
        self.query = nn.Linear(d_model, d_model, bias=False)
        self.key = nn.Linear(d_model, self.g * self.d, bias=False)
        self.value = nn.Linear(d_model, self.g * self.d, bias=False)
        self.output = nn.Linear(d_model, d_model, bias=False)

    def cut(self, y):
        return y.view(*y.shape[:2], -1, self.d).transpose(1, 2)

    def turn(self, q, k, v, start):
        return as_published(q, start, self.base), as_published(k, start, self.base), v

    def join(self, cache, k, v):
        return torch.cat([cache[0], k], 2), torch.cat([cache[1], v], 2)

    def mask(self, t, s):
        return torch.arange(s) <= s - t + torch.arange(t)[:, None]

    def attend(self, q, k, v):
        mask = self.mask(q.size(2), k.size(2))
        return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, enable_gqa=True)

    def seen(self, cache):
        return 0 if cache is None else cache[0].shape[2]

    def keep(self, cache, k, v):
        return k, v

    def forward(self, x, cache=None):
        q, k, v = (self.cut(part(x)) for part in (self.query, self.key, self.value))
        q, k, v = self.turn(q, k, v, self.seen(cache))
        if cache is not None:
            k, v = self.join(cache, k, v)
        return self.output(self.attend(q, k, v).transpose(1, 2).flatten(2)), self.keep(cache, k, v)


class WithADict(Heads):
    """And with a cache that is detached."""

    def forward(self, x, cache=None):
        output, kept = Heads.forward(self, x, cache and (cache["k"], cache["v"]))
        return output, dict(zip("kv", (part.detach() for part in kept), strict=True))


class ByHand(Heads):
    def attend(self, q, k, v):
        k, v = (y[:, :, None].expand(-1, -1, self.n // self.g, -1, -1).flatten(1, 2)
                for y in (k, v))  # fmt: skip
        scores = torch.einsum("bhtd,bhsd->bhts", q, k) / self.d**0.5
        hidden = ~self.mask(q.size(2), k.size(2))
        return torch.where(hidden, float("-inf"), scores).softmax(-1) @ v


class Stacked(Heads):
    def forward(self, x, cache=None):
        output, kept = Heads.forward(self, x, None if cache is None else cache.unbind())
        return output, torch.stack(kept)


class Remembering(Heads):
    kept = None

    def forward(self, x, cache=None):
        output, self.kept = Heads.forward(self, x, self.kept)
        return output, self.kept


def heads(**steps):
    return but(Heads, **steps)


# ----------------------------------------------------------------------------------------- Llama

RMSNorm = norm(as_hugging_face)


class Layer(nn.Module):
    def __init__(self, d_model, n_heads, n_kv_heads, d_ff, base):
        super().__init__()
        self.heads = Heads(d_model, n_heads, n_kv_heads, base)
        self.feed_forward = SwiGLU(d_model, d_ff)
        self.norms = nn.ModuleList([RMSNorm(d_model), RMSNorm(d_model)])


class Llama(nn.Module):
    def __init__(self, vocab_size, d_model, n_heads, n_kv_heads, n_layers, d_ff, base=10_000):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, d_model)
        self.layers = nn.ModuleList(
            [Layer(d_model, n_heads, n_kv_heads, d_ff, base) for _ in range(n_layers)]
        )
        self.norm = RMSNorm(d_model)
        self.output = nn.Linear(d_model, vocab_size, bias=False)

    def one(self, layer, x, cache):
        added, cache = layer.heads(layer.norms[0](x), cache)
        return x + added + layer.feed_forward(layer.norms[1](x + added)), cache

    def cache_of(self, caches, i):
        return caches[i]

    def forward(self, ids, caches=None):
        x, new = self.embedding(ids), []
        for i, layer in enumerate(self.layers):
            x, cache = self.one(layer, x, None if caches is None else self.cache_of(caches, i))
            new.append(cache)
        return self.output(self.norm(x)), new


class DeafToBase(Llama):
    def __init__(self, vocab_size, d_model, n_heads, n_kv_heads, n_layers, d_ff, base=0):
        super().__init__(vocab_size, d_model, n_heads, n_kv_heads, n_layers, d_ff)


class LastEps(Llama):
    def __init__(self, *sizes, **named):
        super().__init__(*sizes, **named)
        self.norm.eps = 1e-6


def after(change):
    """What is made of the logits and the new caches."""
    return but(
        Llama,
        forward=lambda self, ids, caches=None: change(*Llama.forward(self, ids, caches), caches),
    )


def second_norm_missing(self, layer, x, cache):
    added, cache = layer.heads(layer.norms[0](x), cache)
    return x + added + layer.feed_forward(x + added), cache


# ----------------------------------------------------------------------------------------- write


def in_a_list(model, ids, length):
    model.eval()
    out, caches = [ids], None
    for _ in range(length):
        logits, caches = model(out[-1], caches)
        out.append(logits[:, -1].argmax(-1, keepdim=True))
    return torch.cat(out, dim=1)


def one_call_more(model, ids, length):
    logits, caches = model(ids)
    for _ in range(length):
        new = logits[:, -1:].softmax(-1).argmax(-1)
        ids = torch.cat([ids, new], dim=1)
        logits, caches = model(new, caches=caches)
    return ids


def read_in_pieces(model, ids, length):
    caches = None
    for token in ids.split(1, dim=1):
        logits, caches = model(token, caches)
    for _ in range(length):
        new = logits[:, -1].argmax(-1, keepdim=True)
        ids = torch.cat([ids, new], dim=1)
        logits, caches = model(new, caches)
    return ids


def text_by_text(model, ids, length):
    return torch.cat([in_a_list(model, row[None], length) for row in ids])


def writing(keep=True, read=None, end=-1):
    def write(model, ids, length):
        given, caches = ids, None
        for _ in range(length):
            logits, new = model(given, caches)
            caches = new if keep else None
            given = logits[:, -1].argmax(-1)[:, None]
            ids = torch.cat([ids, given], dim=1)
            if (given == end).all():
                break
            given = read(ids) if read else given
        return ids

    return write


test_right, test_wrong = table(
    check,
    right={
        "RMSNorm": [
            norm(as_pytorch),
            norm(lambda x, g, e: as_hugging_face(x, g.to(x.dtype), e)),
            norm(lambda x, g, e: as_hugging_face(x, g, e).to(x.dtype)),
            norm(lambda x, g, e: F.rms_norm(x, x.shape[-1:], g, e)),
            norm(by_length),
            norm(cast_twice),
        ],
        "rotate": [as_published, complex_numbers],
        "SwiGLU": [SwiGLU],
        "Heads": [Heads, WithADict, ByHand],
        "Llama": [Llama],
        "write": [in_a_list, one_call_more, read_in_pieces, text_by_text],
    },
    wrong={
        "RMSNorm": [
            (norm(lambda x, g, e: cast_twice(x, g.data, e)), "no gradient reaches `weight`"),
            (norm(lambda x, g, e: as_pytorch(x, g, e), 1e-8), "1e-08 by default, not 1e-05"),
            (norm(as_hugging_face), "their dtype is float32; for this input it must be float16"),
            (norm(lambda x, g, e: (x / (wide(x).pow(2).mean(-1, True) + e).sqrt().to(x) * g).to(x)),
             "of tiny numbers, and their mean, are 0"),
        ],
        "rotate": [
            (lambda x, start=0, base=0: as_published(x, start, base=1000), "turn by 1 and by 0.01"),
            (lambda x, start=0, base=0: as_published(x, start), "with the base 100"),
            (lambda x, start=1: as_published(x, start), "at position 0, where nothing turns"),
            (lambda x, *at: as_published(x, *at, of=lambda a: a.to(x.dtype)), "too coarse"),
            (lambda x, *at: as_published(x.float(), *at), "their dtype is float32"),
        ],
        "SwiGLU": [
            (network(lambda s, x: s.down(s.gate(x).tanh() * s.up(x))), "silu of the gate, times"),
            (network(lambda s, x: s.down(F.silu(s.gate(x)).data * s.up(x))), "the gradient of `x`"),
            (OtherNames, "your `w1.weight` must be called `gate.weight`"),
        ],
        "Heads": [
            (heads(keep=lambda self, cache, k, v: cache or (k, v)), "the cache grows with each"),
            (heads(keep=lambda self, cache, k, v: (k.repeat_interleave(self.n // self.g, 1), v),
                   join=lambda self, cache, k, v: Heads.join(
                       self, (cache[0][:, :: self.n // self.g], cache[1]), k, v)),
             "What the cache holds as keys has shape (1, 6, 7, 4)"),
            (heads(mask=lambda self, t, s: torch.ones(t, s).tril(s - t + 1).bool()),
             "the first token attends to itself alone"),
            (heads(turn=lambda self, *args: args[:3]), "each by the position"),
            (heads(turn=lambda self, q, k, v, start: (
                as_published(q, start), as_published(k, start), v)), "the base that the constr"),
            (heads(turn=lambda self, q, k, v, start: (*Heads.turn(
                self, q.detach(), k.detach(), v, start)[:2], v)), "reaches `query.weight`"),
            (Stacked, "must be a pair: keys and values"),
            (Remembering, "a new text begins"),
            (heads(forward=lambda self, x, cache=None: Heads.forward(self, x)[0]), "two things"),
        ],
        "Llama": [
            (DeafToBase, "the base of the turns goes"),
            (but(Llama, one=second_norm_missing), "each read x through a norm, and add to it"),
            (after(lambda logits, new, old: (logits, new[-1])), "must be a list with one for each"),
            (after(lambda logits, new, old: (logits, new[-1:])), "has 1; there must be one for"),
            (after(lambda logits, new, old: (logits, old or new)), "holds the newest caches"),
            (LastEps, "the norms' eps decides"),
        ],
        "write": [
            (writing(read=lambda ids: ids, keep=False), "most of them it has read before"),
            (writing(read=lambda ids: ids[:1, -1:]), "1 of the 2 texts, with the caches of all"),
            (writing(end=1), "no token ends the text"),
        ],
    },
)  # fmt: skip
