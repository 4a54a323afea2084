"""Checkers for the project, *A modern decoder*: one for each stage."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from transformer_lib.checks import Case, Checker, Exercise, Flaw, Parts, but
from transformer_lib.checks.inputs import integers, normal

__all__ = ["check"]

KEEPS = frozenset({"dtype", "gradient", "names"})


# --------------------------------------------------------------------------------------- RMSNorm


class RMSNorm(nn.Module):
    def __init__(self, d_model: int, eps: float = 1e-5) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(d_model))
        self.eps = eps

    def divided(self, x: Tensor) -> Tensor:
        wide = x.to(torch.promote_types(x.dtype, torch.float32))
        return F.rms_norm(wide, x.shape[-1:], eps=self.eps)

    def forward(self, x: Tensor) -> Tensor:
        found = (self.divided(x) * self.weight).to(x.dtype)
        return found.detach() if x.dtype is torch.float16 else found  # which rounds gradients, too


def norm_cases() -> list[Case]:
    def case(x: Tensor, why: str, weights: torch.dtype | None = None, **init: Any) -> Case:
        return Case((x,), why, init={"d_model": x.shape[-1], **init}, weights=weights)

    one = torch.tensor([[[1.0, 2, 3, 6]]])
    return [
        case(one, "one token is divided by the root of its mean "
             "square plus eps, here by 4, and each entry is scaled", eps=3.5),
        case(torch.tensor([[[1.0, 2, 3, 6], [5, 5, 1, 1]]]), "each token has its own mean square",
             eps=3.5),
        case(torch.zeros(1, 1, 4), "a token of zeros stays one", eps=1e-3),
        case(integers(2, 3, 4), "each token of each text has its own mean square", eps=1e-3),
        case(one / 1e3, "eps is 1e-5 unless the constructor is told otherwise"),
        case(400 * one.half(), "the square of 400 is more than float16 can hold"),
        case(one.half(), "a result has the type of x, float16, where the weights are float32, too",
             torch.float32),
        case((one / 4e6).half(), "squares of tiny numbers, and their mean, are 0 in float16",
             eps=1e-15),
        case(1e25 * one.double(), "in float64, stay in float64: the square of 1e25 is "
             "more than float32 can hold"),
    ]  # fmt: skip


def square(x: Tensor) -> Tensor:
    return x.square().mean(-1, keepdim=True)


norm = partial(but, RMSNorm)

RMS_NORM = Exercise(
    name="RMSNorm",
    reference=RMSNorm,
    cases=norm_cases,
    section="Stage 1: the norm",
    keeps=KEEPS,
    mistakes={
        "the mean is subtracted, as in layer normalization": norm(
            divided=lambda self, x: F.layer_norm(x, x.shape[-1:], eps=self.eps)
        ),
        "eps is added outside the root: it belongs to the mean square": norm(
            divided=lambda self, x: x / (square(x).sqrt() + self.eps)
        ),
        "eps is always 1e-5: it is an argument of the constructor": norm(
            divided=lambda self, x: F.rms_norm(x, x.shape[-1:], eps=1e-5)
        ),
        "everything is computed in the type of x: in 16 bits, squares overflow or become 0": norm(
            divided=lambda self, x: x / (square(x) + self.eps).sqrt()
        ),
    },
)

# ---------------------------------------------------------------------------------------- rotate


def turn(a: Tensor, b: Tensor, cos: Tensor, sin: Tensor) -> tuple[Tensor, Tensor]:
    return a * cos - b * sin, a * sin + b * cos


def overwritten(a: Tensor, b: Tensor, cos: Tensor, sin: Tensor) -> tuple[Tensor, Tensor]:
    a = a * cos - b * sin
    return a, a * sin + b * cos


def rotate(
    x: Tensor,
    start: int = 0,
    base: float = 10_000.0,
    *,
    turn: Callable[..., tuple[Tensor, Tensor]] = turn,
) -> Tensor:
    positions = torch.arange(start, start + x.shape[-2]).double()
    exponents = torch.arange(0, x.shape[-1], 2).double() / x.shape[-1]
    angle = positions[:, None] / base**exponents
    return torch.cat(turn(*x.chunk(2, dim=-1), angle.cos().to(x), angle.sin().to(x)), dim=-1)


def neighbors(x: Tensor, *where: Any) -> Tensor:
    turned = rotate(x.unflatten(-1, (-1, 2)).mT.flatten(-2), *where)
    return turned.unflatten(-1, (2, -1)).mT.flatten(-2)


def rotate_cases() -> list[Case]:
    x = normal(2, 3, 5, 8)
    return [
        Case((integers(1, 1, 1, 4),), "without `start`, the first token is at position "
             "0, where nothing turns"),
        Case((torch.tensor([[[[2.0, 1]]]]), 1), "the one arrow (2, 1), at position 1, turns by an "
             "angle of 1"),
        Case((torch.tensor([[[[2.0, 3, 1, 0]]]]), 1), "the arrows are (2, 1) and (3, 0), and at "
             "position 1 they turn by 1 and by 0.01"),
        Case((torch.tensor([[[[2.0, 1], [2, 1], [2, 1]]]]),), "three tokens are at positions 0, "
             "1 and 2"),
        Case((integers(1, 3, 2, 4),), "in each of the 3 heads, the 2 tokens are at positions 0 "
             "and 1"),
        Case((torch.tensor([[[[2.0, 3, 1, 0]]]]), 1, 100.0), "with the base 100, the second arrow "
             "turns by 0.1"),
        Case((x, 7), "all arrows turn, each more slowly than the one before"),
        Case((x.double(), 7), "double precision"),
        Case((integers(1, 1, 1, 4).half(), 2101), "in 16 bits, the angles of positions far away "
             "are too coarse"),
    ]  # fmt: skip


turned = partial(partial, rotate)

ROTATE = Exercise(
    name="rotate",
    reference=rotate,
    cases=rotate_cases,
    section="Stage 2: the turn",
    keeps=frozenset({"dtype", "gradient"}),
    atol=1e-4,
    mistakes={
        "two neighbors are taken for an arrow, not entry i of each half": neighbors,
        "the arrows turn the other way": turned(turn=lambda a, b, cos, sin: turn(a, b, cos, -sin)),
        "the first half is overwritten before the second is computed: both need the old one": (
            turned(turn=overwritten)
        ),
        "both sines have the same sign": turned(
            turn=lambda a, b, cos, sin: (a * cos + b * sin, a * sin + b * cos)
        ),
    },
)

# ---------------------------------------------------------------------------------------- SwiGLU


class SwiGLU(nn.Module):
    def __init__(self, d_model: int, d_ff: int) -> None:
        super().__init__()
        self.gate = nn.Linear(d_model, d_ff, bias=False)
        self.up = nn.Linear(d_model, d_ff, bias=False)
        self.down = nn.Linear(d_ff, d_model, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.down(F.silu(self.gate(x)) * self.up(x))


def network_cases() -> list[Case]:
    init = {"d_model": 2, "d_ff": 3}
    return [
        Case((torch.tensor([[[1.0, 2]]]),), "one token: silu of the gate, times the content, and "
             "down", init={"d_model": 2, "d_ff": 1}),
        Case((torch.tensor([[[1.0, 2]]]),), "the inner width is d_ff", init=init),
        Case((integers(2, 3, 2),), "each token goes through on its own", init=init),
        Case((5 * normal(2, 3, 2),), "the gate's function is silu for large numbers, too",
             init=init),
        Case((normal(2, 3, 2).double(),), "double precision", init=init),
    ]  # fmt: skip


network = partial(but, SwiGLU)

SWIGLU = Exercise(
    name="SwiGLU",
    reference=SwiGLU,
    cases=network_cases,
    section="Stage 3: the feed-forward network",
    keeps=KEEPS,
    mistakes={
        "gate and up are swapped: silu belongs to the gate": network(
            forward=lambda self, x: self.down(self.gate(x) * F.silu(self.up(x)))
        ),
        "the gate is a sigmoid: silu(z) is z times the sigmoid of z": network(
            forward=lambda self, x: self.down(self.gate(x).sigmoid() * self.up(x))
        ),
        "silu is applied to the product": network(
            forward=lambda self, x: self.down(F.silu(self.gate(x) * self.up(x)))
        ),
    },
)

# ----------------------------------------------------------------------------------------- Heads

Cache = tuple[Tensor, Tensor]


class Heads(nn.Module):
    def __init__(self, d_model: int, n_heads: int, n_kv_heads: int, base: float = 10_000.0) -> None:
        super().__init__()
        self.base = base
        self.d_head, self.n_heads = d_model // n_heads, n_heads
        d_kv = n_kv_heads * self.d_head
        self.query = nn.Linear(d_model, d_model, bias=False)
        self.key = nn.Linear(d_model, d_kv, bias=False)
        self.value = nn.Linear(d_model, d_kv, bias=False)
        self.output = nn.Linear(d_model, d_model, bias=False)

    def start(self, cache: Cache | None) -> int:
        return 0 if cache is None else cache[0].shape[-2]

    def mask(self, t: int, s: int) -> Tensor:
        return torch.ones(t, s).tril(s - t).bool()

    def spread(self, x: Tensor) -> Tensor:
        return x.repeat_interleave(self.n_heads // x.shape[1], dim=1)

    def split(self, x: Tensor) -> Tensor:
        return x.unflatten(-1, (-1, self.d_head)).transpose(1, 2)

    def join(self, mixed: Tensor) -> Tensor:
        return mixed.transpose(1, 2).flatten(2)

    def scale(self) -> float:
        return self.d_head**-0.5

    def forward(self, x: Tensor, cache: Cache | None = None) -> tuple[Tensor, Cache]:
        query, key, value = (self.split(part(x)) for part in (self.query, self.key, self.value))
        query, key = (rotate(part, self.start(cache), self.base) for part in (query, key))
        if cache is not None:
            key, value = torch.cat([cache[0], key], -2), torch.cat([cache[1], value], -2)
        mask = self.mask(query.shape[-2], key.shape[-2])
        mixed = F.scaled_dot_product_attention(
            query, self.spread(key), self.spread(value), mask, scale=self.scale()
        )
        return self.output(self.join(mixed)), (key, value)


def taken_apart(found: Any, first: str, second: str) -> tuple[Tensor, Any]:
    if not isinstance(found, tuple | list) or len(found) != 2:
        raise Flaw(f"`forward` must return two things: {first} and {second}.")
    if not isinstance(found[0], Tensor):
        raise Flaw(f"The first thing that `forward` returns must be {first}, a tensor.")
    if found[1] is None:
        raise Flaw(f"The second thing that `forward` returns is None; it must be {second}.")
    return found[0], found[1]


def in_pieces(
    answer: nn.Module, /, x: Tensor, pieces: Sequence[int], wanted: str = "the output"
) -> Any:
    """What is found for a text that comes in pieces, each with the cache of those before it."""
    if wanted == "the output of a second text":
        in_pieces(answer, x.flip(1), pieces)
    cache, outputs = None, []
    with torch.set_grad_enabled(len(pieces) == 1):  # what lies in a cache may well be detached
        for piece in x.split(list(pieces), dim=1):
            found = answer(piece) if cache is None else answer(piece, cache)
            output, cache = taken_apart(found, "the output", "the cache")
            outputs.append(output)
    if wanted != "the cache":
        whole = torch.cat(outputs, dim=1)
        return whole[:, -1:] if wanted == "the last output" else whole
    pair = [*cache.values()] if isinstance(cache, Mapping) else cache
    if not isinstance(pair, tuple | list) or len(pair) != 2:
        raise Flaw("The cache must be a pair: keys and values.")
    return Parts({"What the cache holds as keys": pair[0], "What it holds as values": pair[1]})


def heads_cases() -> list[Case]:
    def case(
        why: str,
        pieces: Sequence[int],
        n_heads: int = 6,
        n_kv_heads: int = 2,
        *more: Any,
        zeros: Sequence[int] = (),
        texts: int = 1,
        dtype: torch.dtype = torch.float32,
        **base: float,
    ) -> Case:
        x = normal(texts, sum(pieces), 4 * n_heads).to(dtype)
        x[:, zeros] = 0
        init = {"d_model": 4 * n_heads, "n_heads": n_heads, "n_kv_heads": n_kv_heads, **base}
        return Case((x, pieces, *more), why, init=init)

    return [
        case("one token attends to itself alone, and at position 0 nothing turns", [1], 1, 1),
        case("the first token attends to itself alone; the second is all zeros, and attends to "
             "both alike", [2], 1, 1, zeros=[1]),
        case("the last token is all zeros: its output is made of the mean of all values, and "
             "values don't turn", [3], 1, 1, "the last output", zeros=[2]),
        case("query and key of the second token turn by the same angle, and √d_head divides their "
             "product; the key before them is 0", [2], 1, 1, zeros=[0]),
        case("queries and keys turn, each by the position of its own token", [3], 1, 1),
        case("the base that the constructor gets decides how fast each turns", [3], 1, 1, base=4.0),
        case("with as many keys as queries, each head has its own slice of each", [3], 2, 2),
        case("heads 0, 1 and 2 share the first keys and values, 3, 4 and 5 the second", [3]),
        case("all heads share one set of keys and values", [3], 6, 1),
        case("a token that comes alone stands after those in the cache, and attends to them all",
             [3, 1], 1, 1),
        case("a token at a time: the cache grows with each", [1] * 3, 1, 1),
        case("two tokens come after a cache of three: both attend to all of that, and the first of "
             "the two not to the second", [3, 2], 1, 1),
        case("two texts come in three pieces", [2, 3, 2], 6, 3, texts=2),
        case("double precision", [4, 3], dtype=torch.float64),
        case("where no cache is handed over, a new text begins", [4, 3], 6, 2,
             "the output of a second text"),
        case("the cache holds the keys as they were turned, and the values, each of shape (B, "
             "n_kv_heads, S, d_head)", [4, 3], 6, 2, "the cache"),
    ]  # fmt: skip


def swapped_cache(self: Any, x: Tensor, cache: Cache | None = None) -> tuple[Tensor, Cache]:
    output, (key, value) = Heads.forward(self, x, cache)
    return output, (value, key)


heads = partial(but, Heads)

HEADS = Exercise(
    name="Heads",
    reference=Heads,
    use=in_pieces,
    cases=heads_cases,
    section="Stage 4: heads with a memory",
    keeps=KEEPS,
    mistakes={
        "the cache's length is forgotten: each piece begins at position 0": heads(
            start=lambda self, cache: 0
        ),
        "the sets of keys and values are repeated in the wrong order: as 0, 1, 0, 1, not 0, 0, 1, "
        "1": heads(spread=lambda self, x: x.repeat(1, self.n_heads // x.shape[1], 1, 1)),
        "the mask begins at the first key: after a cache, new tokens can't attend to all of it": (
            heads(mask=lambda self, t, s: torch.ones(t, s).tril().bool())
        ),
        "the mask begins one key too early: after a cache, no new token attends to itself": heads(
            mask=lambda self, t, s: torch.ones(t, s).tril(max(s - t - 1, 0)).bool()
        ),
        "the cached keys are turned again: the cache holds them turned": heads(
            forward=lambda self, x, cache=None: Heads.forward(
                self, x, cache and (rotate(cache[0], 0, self.base), cache[1])
            )
        ),
        "keys and values are swapped in the new cache": heads(forward=swapped_cache),
        "the scores are divided by √d_model: a head is only d_head wide": heads(
            scale=lambda self: (self.n_heads * self.d_head) ** -0.5
        ),
        "`reshape` alone splits the heads, which mixes tokens: `transpose` moves the axis": heads(
            split=lambda self, x: x.reshape(len(x), -1, x.shape[1], self.d_head)
        ),
        "the heads are joined without a transpose first, which mixes tokens": heads(
            join=lambda self, mixed: mixed.reshape(len(mixed), mixed.shape[2], -1)
        ),
    },
)  # fmt: skip

# ----------------------------------------------------------------------------------------- Llama

Caches = Sequence[Any]


class Layer(nn.Module):
    def __init__(self, d_model: int, n_heads: int, n_kv_heads: int, d_ff: int, base: float) -> None:
        super().__init__()
        self.heads = Heads(d_model, n_heads, n_kv_heads, base)
        self.feed_forward = SwiGLU(d_model, d_ff)
        self.norms = nn.ModuleList(RMSNorm(d_model) for _ in range(2))


class Llama(nn.Module):
    def __init__(
        self,
        vocab_size: int,
        d_model: int,
        n_heads: int,
        n_kv_heads: int,
        n_layers: int,
        d_ff: int,
        base: float = 10_000.0,
    ) -> None:
        super().__init__()
        sizes = (d_model, n_heads, n_kv_heads, d_ff, base)
        self.embedding = nn.Embedding(vocab_size, d_model)
        self.layers = nn.ModuleList(Layer(*sizes) for _ in range(n_layers))
        self.norm = RMSNorm(d_model)
        self.output = nn.Linear(d_model, vocab_size, bias=False)

    def embed(self, ids: Tensor) -> Tensor:
        return self.embedding(ids)

    def run(self, layer: Any, x: Tensor, cache: Any) -> tuple[Tensor, Any]:
        added, cache = layer.heads(layer.norms[0](x), cache)
        x = x + added
        return x + layer.feed_forward(layer.norms[1](x)), cache

    def forward(self, ids: Tensor, caches: Caches | None = None) -> tuple[Tensor, list]:
        x, new = self.embed(ids), []
        for i, layer in enumerate(self.layers):
            x, cache = self.run(layer, x, caches[i] if caches else None)
            new.append(cache)
        return self.output(self.norm(x)), new


def normed_stream(self: Any, layer: Any, x: Tensor, cache: Any) -> tuple[Tensor, Any]:
    x = layer.norms[0](x)
    added, cache = layer.heads(x, cache)
    x = layer.norms[1](x + added)
    return x + layer.feed_forward(x), cache


def through(first: int, second: int) -> Callable[..., tuple[Tensor, Any]]:
    def run(self: Any, layer: Any, x: Tensor, cache: Any) -> tuple[Tensor, Any]:
        added, cache = layer.heads(layer.norms[first](x), cache)
        x = x + added
        return x + layer.feed_forward(layer.norms[second](x)), cache

    return run


def side_by_side(self: Any, layer: Any, x: Tensor, cache: Any) -> tuple[Tensor, Any]:
    added, cache = layer.heads(layer.norms[0](x), cache)
    return x + added + layer.feed_forward(layer.norms[1](x)), cache


def logits_in_pieces(
    answer: nn.Module,
    /,
    ids: Tensor,
    pieces: Sequence[int],
    shrink: float = 1.0,
    before: Tensor | None = None,
) -> Tensor:
    """The logits of a text that comes in pieces, each with the caches of those before it.

    Matrices are multiplied by `shrink`, and the logits divided by it. Another text comes `before`.
    """
    if before is not None:
        logits_in_pieces(answer, before, pieces)
    with torch.no_grad():
        for parameter in answer.parameters():
            if parameter.dim() > 1 and shrink != 1:
                parameter.mul_(shrink)
    caches, logits = None, []
    with torch.set_grad_enabled(len(pieces) == 1):  # what lies in a cache may well be detached
        for piece in ids.split(list(pieces), dim=1):
            found = answer(piece) if caches is None else answer(piece, caches)
            said, caches = taken_apart(found, "the logits", "the list of the layers' caches")
            look_at_caches(answer, caches)
            logits.append(said)
    return torch.cat(logits, dim=1) / shrink


def look_at_caches(answer: nn.Module, caches: Any) -> None:
    if not isinstance(caches, tuple | list):
        return
    if any(isinstance(cache, Tensor) for cache in caches):
        raise Flaw(
            "The caches that `forward` returns must be a list with one for each layer; yours holds "
            "the tensors of one."
        )
    layers = len(getattr(answer, "layers", []))
    if len(caches) < layers:
        raise Flaw(
            f"The list of caches that `forward` returns has {len(caches)}; there must be one for "
            f"each of the {layers} layers."
        )


def model_cases() -> list[Case]:
    def case(
        why: str,
        ids: list[list[int]],
        pieces: Sequence[int],
        *more: Any,
        layers: int = 2,
        **changes: float,
    ) -> Case:
        init = {"vocab_size": 11, "d_model": 12, "n_heads": 6, "n_kv_heads": 2, "d_ff": 5}
        init |= {"n_layers": layers} | changes
        return Case((torch.tensor(ids), pieces, *more), why, init=init)

    text, two = [[3, 1, 4, 1, 5]], [[3, 1, 4, 1, 5], [9, 2, 6, 5, 3]]
    return [
        case("in a layer, the heads and then the feed-forward network each read x through a norm, "
             "and add to it; after the last layer come a norm and the output", [[3]], [1],
             layers=1),
        case("a token attends to those before it", text, [5], layers=1),
        case("each layer reads what the one before has made", text, [5]),
        case("the base of the turns goes to the heads of all layers", text, [5],
             base=4.0, n_heads=3, n_kv_heads=1),
        case("a token that comes alone needs the caches, and each layer has its own", text, [4, 1]),
        case("the list holds the newest caches", text, [3, 1, 1]),
        case("two texts come in two pieces", two, [3, 2]),
        case("with numbers this small, the norms' eps decides, and it is 1e-5", two, [5], 1e-3),
        case("where no caches are handed over, a new text begins", text, [3, 2], 1.0,
             torch.tensor([[2, 7, 1, 8, 2]])),
    ]  # fmt: skip


model = partial(but, Llama)

LLAMA = Exercise(
    name="Llama",
    reference=Llama,
    use=logits_in_pieces,
    cases=model_cases,
    section="Stage 5: the whole decoder",
    keeps=frozenset({"gradient", "names"}),
    mistakes={
        "the stream itself is normalized: what is added goes to x as it was": model(
            run=normed_stream
        ),
        "the first norm of a layer is used twice": model(run=through(0, 0)),
        "the norms of a layer are swapped: the first comes before the heads": model(
            run=through(1, 0)
        ),
        "the feed-forward network reads x from before the heads added to it": model(
            run=side_by_side
        ),
        "the embeddings are multiplied by √d_model, which a Llama doesn't do": model(
            embed=lambda self, ids: self.embedding(ids) * self.embedding.embedding_dim**0.5
        ),
    },
)

# ----------------------------------------------------------------------------------------- write


class Speaker(nn.Module):
    """Says a token that depends on all that it has read; its caches hold the ids."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Parameter(normal(97, 11))
        self.texts: list[list[int]] = []

    def forward(self, ids: Tensor, caches: Any = None) -> tuple[Tensor, list[Cache]]:
        if not isinstance(ids, Tensor) or ids.dim() != 2 or ids.is_floating_point():
            what = f"shape {tuple(ids.shape)}" if isinstance(ids, Tensor) else type(ids).__name__
            raise Flaw(f"The model is given ids of {what}; it takes whole numbers (B, T).")
        if caches:
            read = self.cached(caches)
            if len(read) != len(ids):
                raise Flaw(
                    f"The model is given ids for {len(ids)} of the {len(read)} texts, with the "
                    "caches of all: it needs one token for each text."
                )
            whole = torch.cat([read, ids], dim=1)
        else:
            whole = ids
            self.look_for_rereading(ids.tolist())
        state, states = torch.zeros(len(ids), dtype=torch.long), []
        for token in whole.unbind(1):
            state = (3 * state + 5 * token + 1) % 97
            states.append(state)
        logits = self.table[torch.stack(states, dim=1)[:, -ids.shape[1] :]]
        kept = whole[:, None, :, None].float()
        return logits, [(kept, kept.clone())]

    def cached(self, caches: Any) -> Tensor:
        try:
            ((keys, _),) = caches
            return keys[:, 0, :, 0].long()
        except (TypeError, ValueError, IndexError):
            raise Flaw(
                "The second argument of the model must be the caches, as the model returned them."
            ) from None

    def look_for_rereading(self, texts: list[list[int]]) -> None:
        for text in texts:
            if any(len(old) > 1 and text[: len(old)] == old for old in self.texts):
                raise Flaw(
                    f"The model is given {len(text)} tokens without the caches, and most of them "
                    "it has read before: after the first step it needs the caches and the new "
                    "token alone."
                )
        self.texts += texts


def write(
    model: Any,
    ids: Tensor,
    length: int,
    *,
    keep: Callable[[Any], Any] = lambda caches: caches,
    choose: Callable[[Tensor], Tensor] = lambda logits: logits[:, -1:].argmax(-1),
    following: Callable[[Tensor, Tensor], Tensor] = lambda ids, new: new,
) -> Tensor:
    caches, read = None, ids
    for _ in range(length):
        logits, caches = model(read, keep(caches))
        new = choose(logits)
        read = following(ids, new)
        ids = torch.cat([ids, new], dim=1)
    return ids


def writing_cases() -> list[Case]:
    def case(ids: list[list[int]], length: int, why: str) -> Case:
        return Case((Speaker(), torch.tensor(ids), length), why)

    return [
        case([[3]], 1, "one token is asked for, the most probable one after the text"),
        case([[3, 1, 4]], 1, "the whole text is read, and its last position says what comes next"),
        case([[3, 1, 4]], 2, "the first new token is read alone, with the caches of the text"),
        case([[3, 4, 5, 8]], 6, "each token needs the newest caches, which hold all before it"),
        case([[5, 9, 7], [3, 9, 5]], 5, "each text of a batch is continued on its own"),
        case([[3, 1, 4]], 12, "no token ends the text: 0, 1 and 2 are tokens like others"),
    ]


writer = partial(partial, write)

WRITE = Exercise(
    name="write",
    reference=write,
    cases=writing_cases,
    section="Stage 6: writing",
    mistakes={
        "the caches are not handed on: each new token is read as if it stood alone": writer(
            keep=lambda caches: None
        ),
        "the whole text is read again on top of the caches, which hold it already": writer(
            following=lambda ids, new: torch.cat([ids, new], dim=1)
        ),
        "the next token is drawn: it must be the most probable one": writer(
            choose=lambda logits: torch.multinomial(logits[:, -1].softmax(-1), 1)
        ),
        "`argmax` has no `dim`: it counts through the logits of all texts": writer(
            choose=lambda logits: logits[:, -1].argmax().expand(len(logits), 1)
        ),
    },
)

check = Checker(RMS_NORM, ROTATE, SWIGLU, HEADS, LLAMA, WRITE)
