"""The model solution of the exercise `Heads`, in steps, and what can go wrong there."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from transformer_lib.checks.old.modules import Flaw
from transformer_lib.checks.old.wording import kind
from transformer_lib.checks.project.rotate import turned
from transformer_lib.checks.project.small import but

__all__ = [
    "Cache",
    "Heads",
    "NotGrown",
    "OtherLayout",
    "OwnPiece",
    "Remembers",
    "SpreadAfter",
    "SpreadFirst",
    "Swapped",
    "TurnedAgain",
    "TurnedLate",
    "TurnedWhole",
    "behind",
    "forgets",
    "in_pieces",
    "in_turn",
    "no_mask",
]


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

    Where `result` is "cache", what lies in the cache in the end. Where it is "second", another text
    goes first, and the output is that of the second.

    Raises:
        Flaw: not two things are returned, or the cache is not keys and values.
    """
    if result == "second":
        in_pieces(heads, x.flip(1), sizes)
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
    if result != "cache":
        return torch.cat(outputs, dim=1)
    pair = [*cache.values()] if isinstance(cache, Mapping) else cache
    if not isinstance(pair, tuple | list) or len(pair) != 2:
        raise Flaw("pair", f"The cache must be a pair of keys and values; it is {kind(cache)}.")
    return Kept(*pair)


class TurnedAgain(Heads):
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


class TurnedLate(TurnedAgain):
    """Keys lie in the cache as they were; all of them are turned where they are needed."""

    def forward(self, x: Tensor, cache: Cache | None = None) -> tuple[Tensor, Any]:
        key, value = self.split(self.key(x)), self.split(self.value(x))
        if cache is not None:
            key, value = self.grow(cache[0], key), self.grow(cache[1], value)
        return super().forward(x, cache)[0], (key, value)


class SpreadFirst(Heads):
    """The cache holds keys and values for each head of the queries."""

    def forward(self, x: Tensor, cache: Cache | None = None) -> tuple[Tensor, Any]:
        n_heads = self.query.out_features // self.d_head
        group = n_heads * self.d_head // self.key.out_features
        own = None if cache is None else (cache[0][:, ::group], cache[1][:, ::group])
        output, (key, value) = Heads.forward(self, x, own)
        return output, (self.spread(key, n_heads), self.spread(value, n_heads))


class SpreadAfter(Heads):
    """The same, where a new piece is joined as it comes: it has fewer heads than the cache."""

    def forward(self, x: Tensor, cache: Cache | None = None) -> tuple[Tensor, Any]:
        output, kept = Heads.forward(self, x, cache)
        n_heads = self.query.out_features // self.d_head
        return output, tuple(self.spread(part, n_heads) for part in kept)


class Remembers(Heads):
    """The module keeps the cache, whatever is handed over."""

    kept: Cache | None = None

    def forward(self, x: Tensor, cache: Cache | None = None) -> tuple[Tensor, Any]:
        output, self.kept = Heads.forward(self, x, self.kept)
        return output, self.kept


class OtherLayout(Heads):
    """The tokens stand before the heads in the cache, as `unflatten` leaves them."""

    def forward(self, x: Tensor, cache: Cache | None = None) -> tuple[Tensor, Any]:
        own = None if cache is None else (cache[0].transpose(1, 2), cache[1].transpose(1, 2))
        output, (key, value) = Heads.forward(self, x, own)
        return output, (key.transpose(1, 2), value.transpose(1, 2))


class OwnPiece(Heads):
    """The cache grows, and nobody looks into it."""

    def forward(self, x: Tensor, cache: Cache | None = None) -> tuple[Tensor, Any]:
        kept = Heads.forward(self, x, cache)[1]
        seen = cache[0].shape[-2] if cache else 0
        output = but(Heads, place=lambda self, _: seen).forward(self, x)[0]
        return output, kept


class TurnedWhole(Heads):
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


class NotGrown(Heads):
    def forward(self, x: Tensor, cache: Cache | None = None) -> tuple[Tensor, Any]:
        output, kept = Heads.forward(self, x, cache)
        return output, cache or kept


class Swapped(Heads):
    def forward(self, x: Tensor, cache: Cache | None = None) -> tuple[Tensor, Any]:
        output, (key, value) = Heads.forward(self, x, cache and (cache[1], cache[0]))
        return output, (value, key)


def behind(place: Callable[[Heads, int], int]) -> type:
    """Behind a cache, a piece begins at another place than the cache's length."""
    return but(Heads, place=lambda self, seen: place(self, seen) if seen else 0)


def in_turn(self: Heads, x: Tensor) -> Tensor:
    """Heads that have been repeated 0, 0, 1, 1, as 0, 1, 0, 1."""
    group = x.shape[1] * self.d_head // self.key.out_features
    return x[:, ::group].repeat(1, group, 1, 1)


def no_mask(self: Heads, t: int, s: int) -> Tensor:
    return torch.ones(t, s).bool()


def forgets(self: Heads, x: Tensor, cache: Cache | None) -> tuple[Tensor, Cache]:
    output, (key, value) = Heads.forward(self, x, cache)
    return output, (key[:, :, -x.shape[1] :], value[:, :, -x.shape[1] :])
