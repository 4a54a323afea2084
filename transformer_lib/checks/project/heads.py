"""The exercise `Heads`: grouped heads with rotary positions and a cache."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from transformer_lib.checks.core import Case, Exercise
from transformer_lib.checks.inputs import in_float64, random_tensor
from transformer_lib.checks.modules import Flaw
from transformer_lib.checks.project.rotate import neighbors, turned
from transformer_lib.checks.project.small import but
from transformer_lib.checks.wording import kind

__all__ = ["HEADS", "Cache", "Heads", "in_pieces"]

Cache = tuple[Tensor, Tensor]


class Heads(nn.Module):
    """Self-attention of a Llama, in steps."""

    def __init__(self, d_model: int, n_heads: int, n_kv_heads: int) -> None:
        super().__init__()
        self.d_head = d_model // n_heads
        d_kv = n_kv_heads * self.d_head
        self.query = nn.Linear(d_model, d_model, bias=False)
        self.key = nn.Linear(d_model, d_kv, bias=False)
        self.value = nn.Linear(d_model, d_kv, bias=False)
        self.output = nn.Linear(d_model, d_model, bias=False)

    def split(self, x: Tensor) -> Tensor:
        return x.unflatten(-1, (-1, self.d_head)).transpose(1, 2)

    def content(self, x: Tensor) -> Tensor:
        return self.value(x)

    def join(self, x: Tensor) -> Tensor:
        return x.transpose(1, 2).flatten(2)

    def place(self, seen: int) -> int:
        return seen

    def turn_query(self, x: Tensor, start: int) -> Tensor:
        return turned(x, start)

    def turn_key(self, x: Tensor, start: int) -> Tensor:
        return turned(x, start)

    def turn_value(self, x: Tensor, start: int) -> Tensor:
        return x

    def grow(self, old: Tensor, new: Tensor) -> Tensor:
        return torch.cat([old, new], dim=-2)

    def mask(self, t: int, s: int) -> Tensor:
        return torch.ones(t, s).tril(s - t).bool()

    def spread(self, x: Tensor, n_heads: int) -> Tensor:
        return x.repeat_interleave(n_heads // x.shape[1], dim=1)

    def scale(self, query: Tensor) -> float:
        return query.shape[-1] ** -0.5

    def attend(self, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        scores = query @ key.mT * self.scale(query)
        mask = self.mask(query.shape[-2], key.shape[-2]).to(scores.device)
        scores = scores.masked_fill(~mask, torch.finfo(scores.dtype).min)
        return scores.softmax(dim=-1) @ value

    def finish(self, mixed: Tensor) -> Tensor:
        return self.output(mixed)

    def forward(self, x: Tensor, cache: Cache | None = None) -> tuple[Tensor, Any]:
        start = self.place(cache[0].shape[-2] if cache else 0)
        query = self.turn_query(self.split(self.query(x)), start)
        key = self.turn_key(self.split(self.key(x)), start)
        value = self.turn_value(self.split(self.content(x)), start)
        if cache is not None:
            key, value = self.grow(cache[0], key), self.grow(cache[1], value)
        n_heads = query.shape[1]
        mixed = self.attend(query, self.spread(key, n_heads), self.spread(value, n_heads))
        return self.finish(self.join(mixed)), (key, value)


class Kept(NamedTuple):
    """What lies in the cache."""

    cached_keys: Any
    cached_values: Any


def in_pieces(heads: Any, /, x: Tensor, sizes: list[int], result: str = "output") -> Any:
    """The output for all tokens, fed in pieces, each with the cache of those before it.

    Where `result` is "cache", what lies in the cache in the end.

    Raises:
        Flaw: not two things are returned, or the cache is not keys and values.
    """
    cache, outputs = None, []
    for piece in x.split(sizes, dim=1):
        found = heads(piece) if cache is None else heads(piece, cache)
        if not isinstance(found, tuple | list) or len(found) != 2:
            raise Flaw("two", "`forward` must return two things: the output and the cache.")
        output, cache = found
        if cache is None:
            raise Flaw("none", "The cache that `forward` returns is None: it must hold keys and "
                               "values.")  # fmt: skip
        if not isinstance(output, Tensor):
            raise Flaw("tensor", "The first thing that `forward` returns must be the output, a "
                                 "tensor.")  # fmt: skip
        outputs.append(output)
    if result == "output":
        return torch.cat(outputs, dim=1)
    pair = [*cache.values()] if isinstance(cache, Mapping) else cache
    if not isinstance(pair, tuple | list) or len(pair) != 2:
        raise Flaw("pair", f"The cache must be a pair of keys and values; it is {kind(cache)}.")
    return Kept(*pair)


class _TurnedAgain(Heads):
    """What lies in the cache is turned once more at every step."""

    def forward(self, x: Tensor, cache: Cache | None = None) -> tuple[Tensor, Any]:
        seen = cache[0].shape[-2] if cache else 0
        query = turned(self.split(self.query(x)), seen)
        key, value = self.split(self.key(x)), self.split(self.value(x))
        if cache is not None:
            key, value = self.grow(cache[0], key), self.grow(cache[1], value)
        key, n_heads = turned(key), query.shape[1]
        mixed = self.attend(query, self.spread(key, n_heads), self.spread(value, n_heads))
        return self.output(self.join(mixed)), (key, value)


class _TurnedLate(_TurnedAgain):
    """Keys lie in the cache as they were; all of them are turned where they are needed."""

    def forward(self, x: Tensor, cache: Cache | None = None) -> tuple[Tensor, Any]:
        key, value = self.split(self.key(x)), self.split(self.value(x))
        if cache is not None:
            key, value = self.grow(cache[0], key), self.grow(cache[1], value)
        return super().forward(x, cache)[0], (key, value)


class _SpreadFirst(Heads):
    """The cache holds keys and values for each head of the queries."""

    def forward(self, x: Tensor, cache: Cache | None = None) -> tuple[Tensor, Any]:
        n_heads = self.query.out_features // self.d_head
        group = n_heads * self.d_head // self.key.out_features
        own = None if cache is None else (cache[0][:, ::group], cache[1][:, ::group])
        output, (key, value) = Heads.forward(self, x, own)
        return output, (self.spread(key, n_heads), self.spread(value, n_heads))


class _OtherLayout(Heads):
    """The tokens stand before the heads in the cache, as `unflatten` leaves them."""

    def forward(self, x: Tensor, cache: Cache | None = None) -> tuple[Tensor, Any]:
        own = None if cache is None else (cache[0].transpose(1, 2), cache[1].transpose(1, 2))
        output, (key, value) = Heads.forward(self, x, own)
        return output, (key.transpose(1, 2), value.transpose(1, 2))


class _OwnPiece(Heads):
    """The cache grows, and nobody looks into it."""

    def forward(self, x: Tensor, cache: Cache | None = None) -> tuple[Tensor, Any]:
        kept = Heads.forward(self, x, cache)[1]
        seen = cache[0].shape[-2] if cache else 0
        output = but(Heads, place=lambda self, _: seen).forward(self, x)[0]
        return output, kept


class _TurnedWhole(Heads):
    def forward(self, x: Tensor, cache: Cache | None = None) -> tuple[Tensor, Any]:
        start = cache[0].shape[-2] if cache else 0
        query, key = (
            self.split(turned(part(x)[:, None], start)[:, 0]) for part in (self.query, self.key)
        )
        value = self.split(self.value(x))
        if cache is not None:
            key, value = self.grow(cache[0], key), self.grow(cache[1], value)
        n_heads = query.shape[1]
        mixed = self.attend(query, self.spread(key, n_heads), self.spread(value, n_heads))
        return self.output(self.join(mixed)), (key, value)


class _NotGrown(Heads):
    def forward(self, x: Tensor, cache: Cache | None = None) -> tuple[Tensor, Any]:
        output, kept = Heads.forward(self, x, cache)
        return output, cache or kept


class _Swapped(Heads):
    def forward(self, x: Tensor, cache: Cache | None = None) -> tuple[Tensor, Any]:
        output, (key, value) = Heads.forward(self, x, cache and (cache[1], cache[0]))
        return output, (value, key)


def _behind(place: Callable[[Heads, int], int]) -> type:
    """Behind a cache, a piece begins at another place than the cache's length."""
    return but(Heads, place=lambda self, seen: place(self, seen) if seen else 0)


def _no_mask(self: Heads, t: int, s: int) -> Tensor:
    return torch.ones(t, s).bool()


_SIZES = {"d_model": 24, "n_heads": 6, "n_kv_heads": 2}
_X = random_tensor(2, 7, 24)


def _case(
    label: str, sizes: list[int], x: Tensor = _X, result: str | None = None, **init: int
) -> Case:
    asked = {} if result is None else {"result": result}
    return Case(label, x, sizes, init=_SIZES | init, **asked)


HEADS = Exercise(
    name="Heads",
    reference=Heads,
    use=in_pieces,
    cases=[
        _case("one token", [1], _X[:1, :1]),
        _case("3 tokens, as many keys as queries", [3], _X[:1, :3], n_kv_heads=6),
        _case("7 tokens, 6 heads in 2 groups", [7]),
        _case("one head of keys and values for all", [7], n_kv_heads=1),
        _case("6 tokens, then 1 with the cache", [6, 1]),
        _case("one token at a time", [1] * 7),
        _case("4 tokens, then 3 with the cache", [4, 3]),
        _case("2, then 3, then 2", [2, 3, 2], n_kv_heads=3),
        in_float64(_case("float64, 4 tokens, then 3", [4, 3])),
        _case("the cache itself, after 4 tokens and 3 more", [4, 3], result="cache"),
    ],
    mistakes={
        "the scores are not scaled: they are divided by the root of d_head": [
            but(Heads, scale=lambda self, query: 1.0),
        ],
        "the scores are divided by the root of d_model: it is the root of d_head": [
            but(Heads, scale=lambda self, query: (query.shape[-1] * query.shape[1]) ** -0.5),
        ],
        "the scores are divided by d_head: it is its root": [
            but(Heads, scale=lambda self, query: 1 / query.shape[-1]),
        ],
        "the values are turned too: only queries and keys are": [
            but(Heads, turn_value=lambda self, x, start: turned(x, start)),
        ],
        "the queries are not turned: only keys are, and a distance needs both": [
            but(Heads, turn_query=lambda self, x, start: x),
        ],
        "the keys are not turned: only queries are, and a distance needs both": [
            but(Heads, turn_key=lambda self, x, start: x),
        ],
        "nothing is turned: the heads do not know where a token stands": [
            but(
                Heads,
                turn_key=lambda self, x, start: x,
                turn_query=lambda self, x, start: x,
            ),
        ],
        "neighbors are turned as arrows, and not the two halves": [
            but(
                Heads,
                turn_key=lambda self, x, start: neighbors(x, start),
                turn_query=lambda self, x, start: turned(x, start),
            ),
            but(
                Heads,
                turn_key=lambda self, x, start: neighbors(x, start),
                turn_query=lambda self, x, start: neighbors(x, start),
            ),
        ],
        "the offset of the cache is forgotten: with 6 tokens in the cache, the next one stands at "
        "place 6 and not at 0": [but(Heads, place=lambda self, seen: 0)],
        "the offset of the cache is forgotten for the queries: keys and queries have one place": [
            but(Heads, turn_query=lambda self, x, start: turned(x, 0)),
        ],
        "the offset of the cache is forgotten for the keys: keys and queries have one place": [
            but(Heads, turn_key=lambda self, x, start: turned(x, 0)),
        ],
        "the offset is one too small behind a cache: with 6 tokens in it, the next place is 6": [
            but(Heads, place=lambda self, seen: max(seen - 1, 0)),
        ],
        "the offset is one too large behind a cache: with 6 tokens in it, the next place is 6": [
            _behind(lambda self, seen: seen + 1),
        ],
        "the offset is another number than that of the tokens in the cache: they lie along the "
        "axis before the last": [
            _behind(lambda self, seen: 2),  # both tensors, or the texts
            _behind(lambda self, seen: self.key.out_features // self.d_head),
            _behind(lambda self, seen: self.d_head),
        ],
        "the keys lie in the cache unturned, and all are turned anew at each step: turn a key "
        "once, before it goes in": _TurnedLate,
        "keys and values are repeated before they go into the cache: it holds one set for each "
        "group, which is what makes it small": _SpreadFirst,
        "in the cache the tokens stand before the heads: its shape is (B, n_kv_heads, S, d_head)": [
            _OtherLayout,
        ],
        "the keys from the cache are turned once more at every step: turn a key once, before it "
        "goes in": [_TurnedAgain],
        "the cache is not used: a token sees those of its own piece only": [
            but(Heads, grow=lambda self, old, new: new),
            _OwnPiece,
        ],
        "the new keys stand before those of the cache: they come behind": [
            but(Heads, grow=lambda self, old, new: torch.cat([new, old], dim=-2)),
        ],
        "the cache holds the last piece alone: it has to grow": [
            but(
                Heads,
                forward=lambda self, x, cache=None: _forgets(self, x, cache),
            ),
        ],
        "the mask is missing: a token sees those behind it": but(Heads, mask=_no_mask),
        "a token sees the one behind it: the mask is one key too wide": [
            but(Heads, mask=lambda self, t, s: torch.ones(t, s).tril(s - t + 1).bool()),
        ],
        "behind a cache the mask is missing: of its own piece, a query sees only itself and what "
        "stands before it": [
            but(Heads, mask=lambda self, t, s: torch.ones(t, s).tril(s if s > t else 0).bool()),
        ],
        "the mask begins at the first key: behind a cache, the first new token sees all that is in "
        "the cache": [but(Heads, mask=lambda self, t, s: torch.ones(t, s).tril().bool())],
        "the mask hides a token from itself": [
            but(
                Heads,
                mask=lambda self, t, s: (
                    torch.ones(t, s).tril(s - t - 1).bool() | (torch.arange(s) == 0)
                ),
            ),
        ],
        "keys and values are repeated in the wrong order: with two sets for six heads it is 0, 0, "
        "0, 1, 1, 1": [
            but(Heads, spread=lambda self, x, n: x.repeat(1, n // x.shape[1], 1, 1)),
        ],
        "all heads look into the first keys and values": [
            but(Heads, spread=lambda self, x, n: x[:, :1].expand(-1, n, -1, -1)),
        ],
        "the heads are cut along the tokens: `transpose` is missing between cutting and use": [
            but(
                Heads,
                split=lambda self, x: x.reshape(
                    x.shape[0], x.shape[2] // self.d_head, x.shape[1], self.d_head
                ),
            ),
        ],
        "the heads are joined without turning the axes back": [
            but(Heads, join=lambda self, x: x.reshape(x.shape[0], x.shape[2], -1)),
        ],
        "the mask is upside down: True stands where a query may look, in the past": [
            but(Heads, mask=lambda self, t, s: torch.ones(t, s).triu(s - t).bool()),
            but(Heads, mask=lambda self, t, s: ~torch.ones(t, s).tril(s - t).bool()),
        ],
        "the values are made by the matrix of the keys": [
            but(Heads, content=lambda self, x: self.key(x)),
        ],
        "queries and keys are turned before they are cut into heads: each has its own halves": [
            _TurnedWhole,
        ],
        "the cache that came in is handed out again: the new one holds its own piece as well": [
            _NotGrown,
        ],
        "the values come first in the cache: it is keys and values, in this order": _Swapped,
        "the output matrix is not used": [
            but(Heads, finish=lambda self, mixed: mixed),
        ],
    },
    section="Stage 4: heads with a memory",
    keeps=("names",),
)


def _forgets(self: Heads, x: Tensor, cache: Cache | None) -> tuple[Tensor, Cache]:
    output, (key, value) = Heads.forward(self, x, cache)
    return output, (key[:, :, -x.shape[1] :], value[:, :, -x.shape[1] :])
