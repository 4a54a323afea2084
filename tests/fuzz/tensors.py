"""Calls of what takes tensors: attention, masks, positions, norms, dropout, caches."""

from __future__ import annotations

import math
import random
from typing import Any

import torch
from torch import Tensor

from transformer_lib import layers, masks, positions
from transformer_lib.attention import attention, fused_attention, mix
from transformer_lib.cache import AttentionCache, KVCache
from transformer_lib.dropout import Dropout, drop
from transformer_lib.recurrent import AdditiveScore, LuongScore

from . import Call, call

HUGE = [10**9, 2**62, 2**63, 10**30]  # where a number is no size


def shaped(*shape: int, finite: bool = True) -> Any:
    """A check: the result is one tensor of this shape."""

    def check(result: Tensor, given: dict[str, Any]) -> None:
        assert tuple(result.shape) == shape, tuple(result.shape)

    return check


def like(name: str) -> Any:
    """A check: the result has the shape and the dtype of that argument."""

    def check(result: Tensor, given: dict[str, Any]) -> None:
        x = given[name]
        assert result.shape == x.shape and result.dtype is x.dtype and result.device == x.device

    return check


def same(result: Tensor, expected: Tensor) -> None:
    """Up to the precision of the result, NaN where NaN is expected."""
    exact = {torch.float64: 1e-6, torch.float32: 1e-4}.get(result.dtype, 5e-2)
    torch.testing.assert_close(
        result.double(), expected.double(), rtol=exact, atol=exact, equal_nan=True
    )


# --- attention -----------------------------------------------------------------------------------


def attended(query: Tensor, key: Tensor, value: Tensor, mask=None, bias=None, scale=None) -> Tensor:
    """Attention in float64, each row for itself; a row without keys gives zeros."""
    query, key, value = query.double(), key.double(), value.double()
    scores = query @ key.mT * (query.size(-1) ** -0.5 if scale is None else scale)
    if bias is not None:
        scores = scores + bias.double()
    if mask is not None:
        scores = scores.masked_fill(~mask, -math.inf)
    weights = scores.softmax(-1)
    if mask is not None:
        weights = torch.where(mask, weights, 0.0)
    return weights @ value


def checked_attention(result: Any, given: dict[str, Any]) -> None:
    output = result if isinstance(result, Tensor) else result.output
    names = ("query", "key", "value", "mask", "bias", "scale")
    tensors = [given[name] for name in names[:5] if given[name] is not None]
    if any(x.device.type == "meta" for x in tensors) or given["dropout"]:
        assert output.shape[-2:] == (given["query"].size(-2), given["value"].size(-1))
    elif all(x.dtype is torch.bool or x.isfinite().all() for x in tensors):
        if given.get("causal"):
            causal = masks.causal_mask(given["query"].size(-2), given["key"].size(-2))
            given = given | {"mask": causal if given["mask"] is None else given["mask"] & causal}
        same(output, attended(**{name: given[name] for name in names}))


for function in (attention, fused_attention):

    @call(function)
    def _(draw: random.Random, function: Any = function) -> Call:
        b, h, t, s = 2, 3, 5, 7
        causal = {} if function is attention else {"causal": draw.random() < 0.5}
        return Call(
            {
                "query": torch.randn(b, h, t, 11),
                "key": torch.randn(b, h, s, 11),
                "value": torch.randn(b, h, s, 13),
                "mask": draw.choice((None, torch.rand(b, 1, t, s) < 0.5)),
                "bias": draw.choice((None, torch.randn(h, t, s))),
                "scale": draw.choice((None, 0.3)),
                "dropout": draw.choice((0.0, 0.0, 0.1)),
                **causal,
            },
            check=checked_attention,
        )


@call(mix)
def _(draw: random.Random) -> Call:
    b, h, t, s = 2, 3, 5, 7
    given = {
        "scores": torch.randn(b, h, t, s),
        "value": torch.randn(b, h, s, 13),
        "mask": draw.choice((None, torch.rand(b, 1, t, s) < 0.5)),
        "dropout": draw.choice((0.0, 0.1)),
    }

    def check(result: Any, given: dict[str, Any]) -> None:
        assert result.output.shape[-2:] == (given["scores"].size(-2), given["value"].size(-1))

    return Call(given, check=check)


@call(AdditiveScore)
def _(draw: random.Random) -> Call:
    return Call({"d_query": 3, "d_key": 5, "d_hidden": 7})


@call(LuongScore)
def _(draw: random.Random) -> Call:
    kind = draw.choice(("dot", "general", "concat"))
    return Call({"kind": kind, "d_query": 5, "d_key": 5, "d_hidden": 7})


def score_modules(draw: random.Random) -> Any:
    kind = draw.choice(("dot", "general", "concat"))
    return LuongScore(kind=kind, d_query=5, d_key=5, d_hidden=7)


def a_score(draw: random.Random) -> Any:
    return AdditiveScore(d_query=5, d_key=5, d_hidden=7)


def checked_scores(result: Tensor, given: dict[str, Any]) -> None:
    query, key = given["query"], given["key"]
    assert result.shape[-2:] == (query.size(-2), key.size(-2)), tuple(result.shape)


for scores, make_score in (
    (AdditiveScore, a_score),
    (LuongScore, score_modules),
):

    @call(scores.forward)
    def _(draw: random.Random, make_score: Any = make_score) -> Call:
        return Call(
            {"query": torch.randn(2, 3, 5), "key": torch.randn(2, 7, 5)},
            run=make_score(draw),
            check=checked_scores,
        )

    @call(scores.prepare)
    def _(draw: random.Random, make_score: Any = make_score) -> Call:
        return Call({"key": torch.randn(2, 7, 5)}, run=make_score(draw).prepare)

    @call(scores.compare)
    def _(draw: random.Random, make_score: Any = make_score) -> Call:
        score = make_score(draw)
        prepared = score.prepare(torch.randn(2, 7, 5)).detach()
        return Call({"query": torch.randn(2, 3, 5), "prepared": prepared}, run=score.compare)


# --- masks ---------------------------------------------------------------------------------------


@call(masks.padding_mask)
def _(draw: random.Random) -> Call:
    def check(result: Tensor, given: dict[str, Any]) -> None:
        ids = given["ids"]
        assert result.shape == (len(ids), 1, 1, ids.size(1)) and result.dtype is torch.bool
        if ids.device.type != "meta":
            assert result[:, 0, 0].equal(ids != given["pad_id"])

    return Call({"ids": torch.randint(3, (2, 5)), "pad_id": 0}, check=check, extra={"pad_id": HUGE})


def expected_mask(t: int, s: int | None, sees: Any) -> list[list[bool]]:
    s = t if s is None else s
    return [[sees(s - t + i, j) for j in range(s)] for i in range(t)]


@call(masks.causal_mask)
def _(draw: random.Random) -> Call:
    def check(result: Tensor, given: dict[str, Any]) -> None:
        if result.device.type == "cpu":
            wanted = expected_mask(given["t"], given["s"], lambda i, j: j <= i)
            assert result.tolist() == wanted and result.dtype is torch.bool

    return Call(
        {"t": 3, "s": draw.choice((None, 5)), "device": draw.choice((None, "cpu"))}, check=check
    )


@call(masks.local_mask)
def _(draw: random.Random) -> Call:
    def check(result: Tensor, given: dict[str, Any]) -> None:
        if result.device.type == "cpu":
            window = given["window"]
            wanted = expected_mask(given["t"], given["s"], lambda i, j: abs(i - j) <= window)
            assert result.tolist() == wanted and result.dtype is torch.bool

    given = {"t": 5, "s": draw.choice((None, 7)), "window": 2, "device": draw.choice((None, "cpu"))}
    return Call(given, check=check, extra={"window": HUGE})


# --- positions -----------------------------------------------------------------------------------


@call(positions.SinusoidalPositions)
def _(draw: random.Random) -> Call:
    return Call({"d_model": 6, "max_len": 11, "base": 100.0}, extra={"base": [1e30, 10**400]})


@call(positions.RotaryPositions)
def _(draw: random.Random) -> Call:
    return Call({"d_head": 6, "max_len": 11, "base": 100.0}, extra={"base": [1e30, 10**400]})


@call(positions.LearnedPositions)
def _(draw: random.Random) -> Call:
    return Call({"d_model": 5, "max_len": 11})


for added in (positions.SinusoidalPositions, positions.LearnedPositions):

    @call(added.forward)
    def _(draw: random.Random, added: Any = added) -> Call:
        return Call(
            {
                "x": torch.randn(2, 5, 6),
                **draw.choice(({"offset": 3}, {"positions": torch.randint(11, (2, 5))})),
            },
            run=added(d_model=6, max_len=11),
            check=like("x"),
            extra={"offset": HUGE},
        )


@call(positions.RotaryPositions.forward)
def _(draw: random.Random) -> Call:
    return Call(
        {
            "x": torch.randn(2, 3, 5, 6),
            **draw.choice(({"offset": 3}, {"positions": torch.randint(11, (2, 5))})),
        },
        run=positions.RotaryPositions(d_head=6, max_len=11),
        check=like("x"),
        extra={"offset": HUGE},
    )


def some_positions(draw: random.Random) -> Tensor | None:
    return draw.choice((None, torch.randint(11, (2, 7))))


@call(positions.RelativePositions)
def _(draw: random.Random) -> Call:
    return Call({"d_head": 5, "max_distance": 3})


@call(positions.RelativePositions.scores)
def _(draw: random.Random) -> Call:
    def check(result: Tensor, given: dict[str, Any]) -> None:
        query = given["query"]
        assert result.shape == (*query.shape[:3], given["s"]) and result.dtype is query.dtype

    relative = positions.RelativePositions(d_head=5, max_distance=3)
    given = {"query": torch.randn(2, 3, 4, 5), "s": 7, "positions": some_positions(draw)}
    return Call(given, run=relative.scores, check=check)


@call(positions.RelativePositions.mix)
def _(draw: random.Random) -> Call:
    def check(result: Tensor, given: dict[str, Any]) -> None:
        assert result.shape == (*given["weights"].shape[:3], 5)

    relative = positions.RelativePositions(d_head=5, max_distance=3)
    given = {"weights": torch.rand(2, 3, 4, 7), "positions": some_positions(draw)}
    return Call(given, run=relative.mix, check=check)


@call(positions.RelativePositionBias)
def _(draw: random.Random) -> Call:
    return Call(
        {"n_heads": 3, "bidirectional": draw.random() < 0.5, "n_buckets": 8, "max_distance": 20},
        extra={"max_distance": HUGE},
    )


@call(positions.RelativePositionBias.forward)
def _(draw: random.Random) -> Call:
    def check(result: Tensor, given: dict[str, Any]) -> None:
        rows = () if given["positions"] is None else (len(given["positions"]),)
        assert result.shape == (*rows, 3, given["t"], given["s"])

    bias = positions.RelativePositionBias(n_heads=3, bidirectional=draw.random() < 0.5)
    return Call({"t": 5, "s": 7, "positions": some_positions(draw)}, run=bias, check=check)


@call(positions.RelativePositionBias.bucket)
def _(draw: random.Random) -> Call:
    def check(result: Tensor, given: dict[str, Any]) -> None:
        assert result.shape == given["distance"].shape
        if result.device.type == "cpu":
            assert result.ge(0).all() and result.lt(32).all()

    bias = positions.RelativePositionBias(n_heads=3, bidirectional=draw.random() < 0.5)
    return Call({"distance": torch.arange(-7, 7)}, run=bias.bucket, check=check)


@call(positions.alibi_bias)
def _(draw: random.Random) -> Call:
    def check(result: Tensor, given: dict[str, Any]) -> None:
        t, s = given["t"], given["s"]
        rows = () if given["positions"] is None else (len(given["positions"]),)
        assert result.shape == (*rows, given["n_heads"], t, t if s is None else s)
        assert result.device.type == "meta" or result.le(0).all()

    given = {
        "n_heads": 3,
        "t": 5,
        "s": draw.choice((None, 7)),
        "device": draw.choice((None, "cpu")),
        "positions": None,
    }
    if given["s"] == 7:
        given["positions"] = some_positions(draw)
    return Call(given, check=check)


# --- norms, dropout -----------------------------------------------------------------


@call(layers.layer_norm)
def _(draw: random.Random) -> Call:
    given = {"x": torch.randn(2, 3, 5), "weight": torch.rand(5), "bias": torch.rand(5), "eps": 1e-5}
    return Call(given, check=like("x"))


@call(layers.rms_norm)
def _(draw: random.Random) -> Call:
    given = {"x": torch.randn(2, 3, 5), "weight": torch.rand(5), "eps": 1e-5}
    return Call(given, check=like("x"))


for norm in (layers.LayerNorm, layers.RMSNorm):

    @call(norm)
    def _(draw: random.Random) -> Call:
        return Call({"d_model": 5, "eps": 1e-5})

    @call(norm.forward)
    def _(draw: random.Random, norm: Any = norm) -> Call:
        return Call({"x": torch.randn(2, 3, 5)}, run=norm(5), check=like("x"))


def dropped(result: Tensor, given: dict[str, Any]) -> None:
    """Each number is gone, or divided by what is left."""
    x, p = given["x"], given.get("p", 0.5)
    assert result.shape == x.shape and result.dtype is x.dtype
    if x.device.type == "cpu" and x.isfinite().all():
        kept = result != 0
        same(result[kept], x[kept].double() / (1 - p))


@call(drop)
def _(draw: random.Random) -> Call:
    return Call({"x": torch.randn(2, 3, 5), "p": 0.3}, check=dropped)


@call(Dropout)
def _(draw: random.Random) -> Call:
    return Call({"p": 0.3})


@call(Dropout.forward)
def _(draw: random.Random) -> Call:
    return Call({"x": torch.randn(2, 3, 5)}, run=Dropout(0.5), check=dropped)


# --- caches --------------------------------------------------------------------------------------


def filled(length: int = 3) -> AttentionCache:
    cache = AttentionCache()
    if length:
        cache.append(torch.randn(2, 3, length, 5), torch.randn(2, 3, length, 5))
    return cache


@call(AttentionCache)
def _(draw: random.Random) -> Call:
    return Call({"grows": draw.random() < 0.5})


@call(AttentionCache.append)
def _(draw: random.Random) -> Call:
    cache = filled(before := draw.choice((0, 3)))

    def check(result: Any, given: dict[str, Any]) -> None:
        for all_of_them, new in zip(result, (given["key"], given["value"]), strict=True):
            assert all_of_them.size(2) == before + new.size(2)
            if new.device.type != "meta":
                torch.testing.assert_close(all_of_them[:, :, before:], new, equal_nan=True)

    new = {"key": torch.randn(2, 3, 4, 5), "value": torch.randn(2, 3, 4, 5)}
    return Call(new, run=cache.append, check=check)


@call(AttentionCache.reorder)
def _(draw: random.Random) -> Call:
    cache = filled()

    def check(result: None, given: dict[str, Any]) -> None:
        assert cache.read()[0].shape == (len(given["index"]), 3, 3, 5)

    return Call({"index": torch.tensor([1, 0, 1])}, run=cache.reorder, check=check)


@call(KVCache)
def _(draw: random.Random) -> Call:
    return Call({"n_layers": 2})


@call(KVCache.append_positions)
def _(draw: random.Random) -> Call:
    cache = KVCache(1)

    def check(result: Tensor, given: dict[str, Any]) -> None:
        assert result.shape == given["positions"].shape

    return Call({"positions": torch.randint(11, (2, 5))}, run=cache.append_positions, check=check)


@call(KVCache.reorder)
def _(draw: random.Random) -> Call:
    cache = KVCache(2)
    for layer in cache.layers:
        layer.self_attention.append(torch.randn(2, 3, 4, 5), torch.randn(2, 3, 4, 5))

    def check(result: None, given: dict[str, Any]) -> None:
        assert cache.layers[1].self_attention.read()[0].size(0) == len(given["index"])

    return Call({"index": torch.tensor([1, 0, 1])}, run=cache.reorder, check=check)
