"""The exercise `attention_flops`: what it asks for, and how its answers go wrong."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from transformer_lib.checks.old.core import Case, Exercise


class _Sizes(NamedTuple):
    n: int
    d: int
    h: int
    k: int
    v: int


def _query(s: _Sizes) -> float:
    return 2 * s.n * s.d * s.h * s.k


def _value(s: _Sizes) -> float:
    return 2 * s.n * s.d * s.h * s.v


def _scores(s: _Sizes) -> float:
    return 2 * s.n * s.n * s.h * s.k


def _mix(s: _Sizes) -> float:
    return 2 * s.n * s.n * s.h * s.v


def _flops(
    s: _Sizes,
    *,
    query: Callable[[_Sizes], float] = _query,
    key: Callable[[_Sizes], float] = _query,
    value: Callable[[_Sizes], float] = _value,
    scores: Callable[[_Sizes], float] = _scores,
    mix: Callable[[_Sizes], float] = _mix,
    out: Callable[[_Sizes], float] = _value,  # (n, h v) times (h v, d): as much as the values
) -> float:
    """The sum of six products, of which a mistake replaces some."""
    return query(s) + key(s) + value(s) + scores(s) + mix(s) + out(s)


def _fewer(s: _Sizes) -> float:
    """Results of scores, mixing and the last projection: one addition less for each."""
    return s.h * s.n * s.n + s.h * s.n * s.v + s.n * s.d


def _none(s: _Sizes) -> float:
    return 0


def _but(**parts: Callable[[_Sizes], float]) -> Callable[..., float]:
    return _of(lambda s: _flops(s, **parts))


def _of(count: Callable[[_Sizes], float]) -> Callable[..., float]:
    def attention_flops(n: int, d_model: int, n_heads: int, d_k: int, d_v: int) -> float:
        return count(_Sizes(n, d_model, n_heads, d_k, d_v))

    return attention_flops


def _reference(n: int, d_model: int, n_heads: int, d_k: int, d_v: int) -> float:
    return _flops(_Sizes(n, d_model, n_heads, d_k, d_v))


ATTENTION_FLOPS = Exercise(
    name="attention_flops",
    reference=_reference,
    cases=[
        Case("one token, one head", 1, 2, 1, 3, 5),
        Case("5 tokens, one head", 5, 7, 1, 3, 2),
        Case("5 tokens, 3 heads", 5, 7, 3, 2, 11),
        Case("the paper's sizes, 100 tokens", 100, 512, 8, 64, 64),
        Case("more tokens than numbers", 1009, 16, 4, 5, 3),
    ],
    mistakes={
        "a multiplication with its addition counts 1: each of the two counts 1, so 2": [
            _of(lambda s: _flops(s) / 2),
            _of(lambda s: _flops(s) // 2),
        ],
        "the projection at the end, W_o, is missing": [_but(out=_none)],
        "no projection is counted, only scores and mixing": [
            _but(query=_none, key=_none, value=_none, out=_none),
        ],
        "only projections are counted: scores and mixing are missing": [
            _but(scores=_none, mix=_none),
        ],
        "mixing the values is missing: after the softmax there is one more product, (n, n) by "
        "(n, d_v)": [
            _but(mix=_none),
        ],
        "the scores are missing: (n, d_k) by (d_k, n)": [_but(scores=_none)],
        "the number of heads is missing: this is the bill of one head": [
            _of(lambda s: _flops(s._replace(h=1))),
        ],
        "scores and mixing are counted for one head: every head makes its own": [
            _but(scores=lambda s: _scores(s) / s.h, mix=lambda s: _mix(s) / s.h),
            _but(scores=lambda s: _scores(s) // s.h, mix=lambda s: _mix(s) // s.h),
        ],
        "the scores are counted for one head: every head makes its own": [
            _but(scores=lambda s: _scores(s) // s.h),
        ],
        "mixing is counted for one head: every head mixes its own": [
            _but(mix=lambda s: _mix(s) // s.h),
        ],
        "the projections are counted for one head: every head has its own": [
            _but(
                query=lambda s: _query(s) // s.h,
                key=lambda s: _query(s) // s.h,
                value=lambda s: _value(s) // s.h,
            ),
            _but(
                query=lambda s: _query(s) // s.h,
                key=lambda s: _query(s) // s.h,
                value=lambda s: _value(s) // s.h,
                out=lambda s: _value(s) // s.h,
            ),
        ],
        "the projection at the end is counted for one head: it is as wide as all heads side by "
        "side": [
            _but(out=lambda s: _value(s) // s.h),
        ],
        "queries, keys and values are counted once: there are three projections before the "
        "scores": [
            _but(key=_none, value=_none),
            _but(query=_none, key=_none),
        ],
        "only two of the three projections before the scores are counted": [
            _but(query=_none),  # without the values it is the bill without W_o
        ],
        "the width of a head is taken for d_model / n_heads: d_k and d_v are given": [
            _of(lambda s: _flops(s._replace(k=s.d / s.h, v=s.d / s.h))),
            _of(lambda s: _flops(s._replace(k=s.d // s.h, v=s.d // s.h))),
        ],
        "the heads are taken to be as wide as the model: d_k and d_v are the width of one head": [
            _of(lambda s: _flops(s._replace(k=s.d, v=s.d))),
        ],
        "the values are counted as wide as the queries: their width is d_v": [
            _of(lambda s: _flops(s._replace(v=s.k))),
            _but(value=_query),
            _but(value=_query, mix=_scores),
        ],
        "mixing is counted with the width of the keys: what is mixed are the values, d_v wide": [
            _but(mix=_scores),
        ],
        "scores and mixing are counted once for each token, and not once for each pair: n where "
        "it should be n times n": [
            _but(scores=lambda s: _scores(s) / s.n, mix=lambda s: _mix(s) / s.n),
        ],
        "the projections are counted for one token": [
            _of(lambda s: (2 * _query(s) + 2 * _value(s)) / s.n + _scores(s) + _mix(s)),
        ],
        "the projections are those of (6.3), with d_model for all heads together: here the heads "
        "are as wide as d_k and d_v say": [
            _of(lambda s: 8 * s.n * s.d**2 + _scores(s) + _mix(s)),
        ],
        "the projection at the end is counted as d_model by d_model: it has n_heads * d_v rows": [
            _but(out=lambda s: 2 * s.n * s.d**2),
        ],
        "b products are counted with b - 1 additions: by custom (and in the chapter) with b": [
            _of(lambda s: _flops(s) - 2 * s.n * s.h * s.k - s.n * s.h * s.v - _fewer(s)),
        ],
        "the parameters are counted: they do not depend on n, and are used once for every token": [
            _of(lambda s: (2 * _query(s) + 2 * _value(s)) / (2 * s.n)),
        ],
    },
    section="What do eight heads cost?",
)
