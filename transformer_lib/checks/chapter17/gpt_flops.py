"""The exercise `gpt_flops`: what it asks for, and how its answers go wrong."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from transformer_lib.checks.old.core import Case, Exercise


class _Sizes(NamedTuple):
    n: int
    d: int
    f: int
    layers: int
    v: int


def _flops(
    s: _Sizes,
    *,
    projections: float = 4,  # times d^2
    forward: float = 2,  # feed-forward, times d f
    logits: Callable[[_Sizes], float] = lambda s: s.v * s.d,
    attention: Callable[[_Sizes], float] = lambda s: 12 * s.layers * s.d * s.n**2,
    extra: Callable[[_Sizes], float] = lambda s: 0,  # more numbers that every token meets
    each: float = 6,  # FLOPs of a number and token
) -> float:
    layer = projections * s.d**2 + forward * s.d * s.f
    return each * s.n * (s.layers * layer + logits(s) + extra(s)) + attention(s)


def _but(**parts: object) -> Callable[..., float]:
    def answer(n: int, d_model: int, d_ff: int, n_layers: int, vocab_size: int) -> float:
        return _flops(_Sizes(n, d_model, d_ff, n_layers, vocab_size), **parts)  # type: ignore

    return answer


def _scaled(factor: float) -> Callable[..., float]:
    def answer(n: int, d_model: int, d_ff: int, n_layers: int, vocab_size: int) -> float:
        return factor * _flops(_Sizes(n, d_model, d_ff, n_layers, vocab_size))

    return answer


def _gpt_flops(n: int, d_model: int, d_ff: int, n_layers: int, vocab_size: int) -> float:
    return _flops(_Sizes(n, d_model, d_ff, n_layers, vocab_size))


def _whole_translator(n: int, d_model: int, d_ff: int, n_layers: int, vocab_size: int) -> float:
    d, f, layers = d_model, d_ff, n_layers
    both = 6 * layers * (6 * d * d + 2 * d * f) * 2 * n
    return both + 6 * vocab_size * d * n + 36 * layers * d * n * n


def _per_token(n: int, d_model: int, d_ff: int, n_layers: int, vocab_size: int) -> float:
    return _gpt_flops(n, d_model, d_ff, n_layers, vocab_size) / n


def _four_d(n: int, d_model: int, d_ff: int, n_layers: int, vocab_size: int) -> float:
    return _gpt_flops(n, d_model, 4 * d_model, n_layers, vocab_size)


def _no_attention(s: _Sizes) -> float:
    return 0


def _attention(factor: float) -> Callable[[_Sizes], float]:
    return lambda s: factor * s.layers * s.d * s.n**2


GPT_FLOPS = Exercise(
    name="gpt_flops",
    reference=_gpt_flops,
    cases=[
        Case("one token, all sizes 1", 1, 1, 1, 1, 1),
        Case("small primes", 7, 5, 11, 3, 13),
        Case("a long text in a narrow model", 101, 2, 3, 5, 7),
        Case("a large vocabulary", 3, 5, 7, 2, 1009),
        Case("GPT at 512 tokens", 512, 768, 3072, 12, 40_478),
    ],
    mistakes={
        "only the way forward is counted: the way back costs twice as much again": [
            _scaled(1 / 3),
        ],
        "two products are counted for each matrix: there is one forward and there are two back, a "
        "gradient for the matrix and one for what went in": _scaled(2 / 3),
        "a multiplication and its addition are counted as one": _scaled(1 / 2),
        "the matrices are counted forward and back, and attention's scores and mixture only once "
        "or twice": [_but(attention=_attention(4)), _but(attention=_attention(8))],
        "half of attention's n by n is missing: scores and mixture are two products, and a causal "
        "mask saves nothing here": [
            _but(attention=_attention(6)),
            _but(attention=lambda s: 12 * s.layers * s.d * s.n * (s.n + 1) / 2),
            _but(attention=_attention(2)),
        ],
        "attention's scores and mixture are missing: queries meet keys as well, n by n": [
            _but(attention=_no_attention),
        ],
        "attention grows with n where it should grow with n²": [
            _but(attention=lambda s: 12 * s.layers * s.d * s.n),
        ],
        "the square stands at d_model: attention's n by n grows with n² and with d_model": [
            _but(attention=lambda s: 12 * s.layers * s.d**2 * s.n),
        ],
        "only the matrices in the layers are counted: the logits, and attention's n by n, are "
        "missing": _but(logits=lambda s: 0, attention=_no_attention),
        "the matrices are counted for one layer only": [
            _but(extra=lambda s: (1 - s.layers) * (4 * s.d**2 + 2 * s.d * s.f)),
        ],
        "attention's scores and mixture are counted for one layer only": [
            _but(attention=lambda s: 12 * s.d * s.n**2),
        ],
        "attention's scores and mixture have lost d_model: a score is a sum over the width": [
            _but(attention=lambda s: 12 * s.layers * s.n**2),
        ],
        "the n by n of three attentions is counted: a language model has one in each layer": [
            _but(attention=_attention(36)),
        ],
        "attention's n by n is counted twice: a layer has one attention with two products, and "
        "forward and back are three times the work of forward": _but(attention=_attention(24)),
        "cross-attention is counted: a decoder alone has four matrices of attention in a layer, "
        "not six or eight": [
            _but(projections=6),
            _but(projections=8),
            _but(projections=8, attention=_attention(24)),
        ],
        "the whole translator is counted, (17.1) with both sides of n tokens": [
            _whole_translator,
        ],
        "the output projection of attention is missing: queries, keys, values and the way out": [
            _but(projections=3),
        ],
        "three of the four matrices of attention are missing": _but(projections=1),
        "one matrix of the feed-forward network is missing: it has two, up and down": [
            _but(forward=1),
        ],
        "the inner width is taken as 4 d_model: it is d_ff": _four_d,
        "the logits are missing: every token is multiplied by the whole vocabulary": [
            _but(logits=lambda s: 0),
        ],
        "the logits are counted for one token of the text: every token has to guess": [
            _but(logits=lambda s: s.v * s.d / s.n),
        ],
        "the logits are counted in every layer": [
            _but(logits=lambda s: s.layers * s.v * s.d),
        ],
        "looking up the embedding is counted: it picks a row and multiplies nothing": [
            _but(logits=lambda s: 2 * s.v * s.d),
        ],
        "biases or norms are counted: products of matrices alone": [
            _but(extra=lambda s: s.layers * (9 * s.d + s.f)),
            _but(extra=lambda s: s.layers * (5 * s.d + s.f)),
            _but(extra=lambda s: s.layers * (9 * s.d + s.f) + 2 * s.d),
            _but(extra=lambda s: s.layers * (4 * s.d + s.d + s.f) + 2 * s.d),
        ],
        "the work of one token is returned: it is asked for the whole text": _per_token,
    },
    section="How long will a run take?",
)
