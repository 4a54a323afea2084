"""The exercise `Heads`: grouped heads with rotary positions and a cache."""

from __future__ import annotations

import torch
from torch import Tensor

from transformer_lib.checks.old.core import Case, Exercise
from transformer_lib.checks.old.inputs import in_float64, random_tensor
from transformer_lib.checks.project.grouped import (
    Heads,
    NotGrown,
    OtherLayout,
    OwnPiece,
    Remembers,
    SpreadAfter,
    SpreadFirst,
    Swapped,
    TurnedAgain,
    TurnedLate,
    TurnedWhole,
    behind,
    forgets,
    in_pieces,
    in_turn,
    no_mask,
)
from transformer_lib.checks.project.rotate import neighbors, turned
from transformer_lib.checks.project.small import but

__all__ = ["HEADS"]

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
        _case("a second text, without a cache", [4, 3], result="second"),
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
            behind(lambda self, seen: seen + 1),
        ],
        "the offset is another number than that of the tokens in the cache: they lie along the "
        "axis before the last": [
            behind(lambda self, seen: 2),  # both tensors, or the texts
            behind(lambda self, seen: self.key.out_features // self.d_head),
            behind(lambda self, seen: self.d_head),
        ],
        "the keys lie in the cache unturned, and all are turned anew at each step: turn a key "
        "once, before it goes in": TurnedLate,
        "keys and values are repeated before they go into the cache: it holds one set for each "
        "group, which is what makes it small": [SpreadFirst, SpreadAfter],
        "in the cache the tokens stand before the heads: its shape is (B, n_kv_heads, S, d_head)": [
            OtherLayout,
        ],
        "the keys from the cache are turned once more at every step: turn a key once, before it "
        "goes in": [TurnedAgain],
        "the cache is not used: a token sees those of its own piece only": [
            but(Heads, grow=lambda self, old, new: new),
            OwnPiece,
        ],
        "the new keys stand before those of the cache: they come behind": [
            but(Heads, grow=lambda self, old, new: torch.cat([new, old], dim=-2)),
        ],
        "the cache holds the last piece alone: it has to grow": [
            but(
                Heads,
                forward=lambda self, x, cache=None: forgets(self, x, cache),
            ),
        ],
        "the mask is missing: a token sees those behind it": but(Heads, mask=no_mask),
        "a token sees the one behind it: the mask is one key too wide": [
            but(Heads, mask=lambda self, t, s: torch.ones(t, s).tril(s - t + 1).bool()),
        ],
        "behind a cache the mask is missing: of its own piece, a query sees only itself and what "
        "stands before it": [
            but(Heads, mask=lambda self, t, s: torch.ones(t, s).tril(s if s > t else 0).bool()),
        ],
        "the mask begins at the first key: behind a cache, the first new token sees all that is in "
        "the cache": [but(Heads, mask=lambda self, t, s: torch.ones(t, s).tril().bool())],
        "behind a cache the mask is square: it has as many columns as there are keys, those of the "
        "cache too": [but(Heads, mask=lambda self, t, s: torch.ones(t, t).tril().bool())],
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
        "the keys are repeated in the wrong order, and the values in the right one: 0, 0, 0, 1, 1, "
        "1": [
            but(Heads, attend=lambda self, q, k, v: Heads.attend(self, q, in_turn(self, k), v)),
        ],
        "the values are repeated in the wrong order, and the keys in the right one: 0, 0, 0, 1, 1, "
        "1": [
            but(Heads, attend=lambda self, q, k, v: Heads.attend(self, q, k, in_turn(self, v))),
        ],
        "keys and values have changed places in the attention: it asks for query, key, value": [
            but(Heads, attend=lambda self, q, k, v: Heads.attend(self, q, v, k)),
        ],
        "the module remembers the text before: where no cache is handed over, a new text begins": [
            Remembers,
        ],
        "the new values are joined to the keys of the cache: its values are `cache[1]`": [
            but(
                Heads,
                forward=lambda self, x, cache=None: Heads.forward(
                    self, x, cache and (cache[0], cache[0])
                ),
            ),
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
            TurnedWhole,
        ],
        "the cache that came in is handed out again: the new one holds its own piece as well": [
            NotGrown,
        ],
        "the values come first in the cache: it is keys and values, in this order": Swapped,
        "the output matrix is not used": [
            but(Heads, finish=lambda self, mixed: mixed),
        ],
    },
    section="Stage 4: heads with a memory",
    keeps=("names",),
)
