"""The exercise `attend_more`: what it asks for, and how its answers go wrong."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from transformer_lib.checks.old.core import Case, Exercise
from transformer_lib.checks.old.inputs import in_float64, random_tensor

Cache = tuple[Tensor, Tensor]
Result = tuple[Tensor, Cache]


def _joined(old: Tensor, new: Tensor) -> Tensor:
    return torch.cat([old, new])


def _hidden(query: Tensor, t: int) -> Tensor:
    n = len(query)
    return torch.ones(n, t + n, dtype=torch.bool, device=query.device).triu(t + 1)


def _attend_more(query: Tensor, key: Tensor, value: Tensor, cache: Cache) -> Result:
    return _attend(query, key, value, cache)


def _attend(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    cache: Cache,
    *,
    join: Callable[[Tensor, Tensor], Tensor] = _joined,
    join_values: Callable[[Tensor, Tensor], Tensor] | None = None,
    hidden: Callable[[Tensor, int], Tensor] = _hidden,
    scale: Callable[[Tensor], float] = lambda keys: keys.size(-1) ** -0.5,
    dim: int = -1,
    after: bool = False,
    fill: float = -torch.inf,
    result: Callable[..., Result] = lambda out, keys, values, *given: (out, (keys, values)),
) -> Result:
    keys, values = join(cache[0], key), (join_values or join)(cache[1], value)
    scores = query @ keys.T * scale(keys)
    mask = hidden(query, len(keys) - len(query))
    if after:
        weights = scores.softmax(dim).masked_fill(mask, 0.0)
    else:
        weights = scores.masked_fill(mask, fill).softmax(dim)
    return result(weights @ values, keys, values, query, key, value, cache)


def _wrong(**part: Any) -> Callable[..., Result]:
    return lambda query, key, value, cache: _attend(query, key, value, cache, **part)


def _nothing(query: Tensor, t: int) -> Tensor:
    return torch.zeros(len(query), t + len(query), dtype=torch.bool)


def _hiding(hidden: Callable[[Tensor, int], Tensor]) -> list[Callable[..., Result]]:
    """A row with everything hidden is NaN, or the mean where the fill is a finite number."""
    return [_wrong(hidden=hidden, fill=fill) for fill in (-torch.inf, -1e9)]


def _from(first: Callable[[int], int]) -> list[Callable[..., Result]]:
    return _hiding(lambda query, t: torch.ones(len(query), t + len(query)).triu(first(t)).bool())


def _old_only(query: Tensor, key: Tensor, value: Tensor, cache: Cache) -> Result:
    """What is new enters the cache after it has been read."""
    out, _ = _attend(query, key[:0], value[:0], cache, hidden=lambda q, t: _nothing(q, t + len(q)))
    return out, (torch.cat([cache[0], key]), torch.cat([cache[1], value]))


def _new_only(query: Tensor, key: Tensor, value: Tensor, cache: Cache) -> Result:
    out, _ = _attend(query, key, value, (key[:0], value[:0]))
    return out, (torch.cat([cache[0], key]), torch.cat([cache[1], value]))


def _nan(out: Tensor, keys: Tensor, values: Tensor, *given: Any) -> Result:
    return out * torch.nan, (keys, values)


def _behind(old: Tensor, new: Tensor) -> Tensor:
    return torch.cat([new, old])


def _case(label: str, n: int, t: int, d: int = 5, seed: int = 0) -> Case:
    query, key, value = (random_tensor(n, d, seed=seed + i) for i in range(3))
    cache = (random_tensor(t, d, seed=seed + 3), random_tensor(t, d, seed=seed + 4))
    return Case(label, query, key, value, cache)


ATTEND_MORE = Exercise(
    name="attend_more",
    reference=_attend_more,
    cases=[
        _case("one new token, three in the cache", 1, 3),
        _case("one new token, nothing in the cache", 1, 0, seed=5),
        _case("four new tokens, nothing in the cache", 4, 0, seed=10),
        _case("two new tokens, three in the cache", 2, 3, seed=15),
        _case("three new tokens, seven in the cache", 3, 7, d=11, seed=20),
        in_float64(_case("two new tokens, five in the cache", 2, 5, seed=25)),
    ],
    mistakes={
        "nothing is hidden: of several new tokens the first must not look at the later ones": [
            _wrong(hidden=_nothing),
        ],
        "the mask is that of a text without a cache: new token i may see all t old ones, and the "
        "new ones up to itself": _from(lambda t: 1),
        "a new token does not see itself": _from(lambda t: t),
        "the mask begins at the number of new tokens: it begins behind the t old ones": _hiding(
            lambda query, t: torch.ones(len(query), t + len(query)).triu(len(query) + 1).bool()
        )
        + _hiding(lambda query, t: torch.ones(len(query), t + len(query)).triu(len(query)).bool()),
        "a hidden score is set to 0, which is no small score: e to the 0 is 1": [_wrong(fill=0.0)],
        "the mask is multiplied by infinity, and 0 times infinity is NaN: `masked_fill` sets the "
        "hidden scores alone": [_wrong(result=_nan)],
        "the mask is the wrong way round: a new token sees only what comes after it": _hiding(
            lambda query, t: ~_hidden(query, t)
        ),
        "a new token sees the one that comes after it": _from(lambda t: t + 2),
        "only the old tokens are looked at: what is new joins the cache before it is read": [
            _old_only,
        ],
        "the cache is not looked at": [_new_only],
        "new keys and values stand before the old ones": [
            _wrong(join=_behind),
            _wrong(
                result=lambda out, keys, values, query, key, value, cache: (
                    out,
                    (_behind(cache[0], key), _behind(cache[1], value)),
                )
            ),
        ],
        "the weights are right, but the old cache is returned: the next token would not find this "
        "one": [_wrong(result=lambda out, k, v, query, key, value, cache: (out, cache))],
        "the cache that is returned holds the new keys and values only": [
            _wrong(result=lambda out, k, v, query, key, value, cache: (out, (key, value))),
        ],
        "keys and values are exchanged in the cache that is returned": [
            _wrong(result=lambda out, keys, values, *given: (out, (values, keys))),
        ],
        "the queries are kept and not the keys: they have asked, and nobody needs them again": [
            _wrong(
                result=lambda out, keys, values, query, key, value, cache: (
                    out,
                    (torch.cat([cache[0], query]), values),
                )
            ),
        ],
        "keys and values are mixed in one cache: `key` joins cache[0], and `value` joins "
        "cache[1]": [
            lambda query, key, value, cache: _attend(query, key, key, cache),
            lambda query, key, value, cache: _attend(query, value, value, cache),
            lambda query, key, value, cache: _attend(query, key, value, (cache[0], cache[0])),
            lambda query, key, value, cache: _attend(query, key, value, (cache[1], cache[1])),
        ],
        "the cache is joined along the features: tokens are rows": [
            _wrong(join=lambda old, new: torch.cat([old, new], dim=-1)),
        ],
        "the new values are left out": [_wrong(join_values=lambda old, new: old)],
        "only the newest token's row is returned": [
            _wrong(result=lambda out, keys, values, *given: (out[-1:], (keys, values))),
        ],
        "the scores are not divided by the root of d": [_wrong(scale=lambda keys: 1.0)],
        "the scores are divided by d, not by its root (`** 1/2` is a half, not a root)": [
            _wrong(scale=lambda keys: 1 / keys.size(-1)),
            _wrong(scale=lambda keys: 1 / (2 * keys.size(-1))),
            _wrong(scale=lambda keys: 2 / keys.size(-1)),
            _wrong(scale=lambda keys: keys.size(-1) / 2),
        ],
        "the scores are divided by the root of how many keys there are: it is their width": [
            _wrong(scale=lambda keys: len(keys) ** -0.5),
        ],
        "the softmax runs over the queries and not over the keys": [
            _wrong(dim=0),
            _wrong(dim=0, after=True),
        ],
        "the mask comes after the softmax: the removed weight is lost": [_wrong(after=True)],
    },
    advises=["dtype"],
    section="What is computed twice?",
)
