"""The exercise `count_parameters`: what it asks for, and how its answers go wrong."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from transformer_lib.checks.old.core import Case, Exercise


class _Sizes(NamedTuple):
    V: int
    d: int
    ff: int
    m: int  # layers of the encoder
    n: int  # of the decoder
    h: int
    k: int
    v: int
    pre: bool


_Count = Callable[[_Sizes], float]


def _query(s: _Sizes) -> float:
    return s.d * s.h * s.k


def _value(s: _Sizes) -> float:
    return s.d * s.h * s.v


def _biases(s: _Sizes) -> float:
    """Of one attention."""
    return s.h * (2 * s.k + s.v) + s.d


def _one_query(s: _Sizes) -> float:
    return s.d * s.k


def _one_value(s: _Sizes) -> float:
    return s.d * s.v


def _one_head_biases(s: _Sizes) -> float:
    return 2 * s.k + s.v + s.d


def _up(s: _Sizes) -> float:
    return s.d * s.ff


def _norm(s: _Sizes) -> float:
    return 2 * s.d


def _count(
    s: _Sizes,
    *,
    words: _Count = lambda s: s.V * s.d,
    query: _Count = _query,
    key: _Count = _query,
    value: _Count = _value,
    out: _Count = _value,
    biases: _Count = _biases,
    forward_biases: _Count = lambda s: s.ff + s.d,
    up: _Count = _up,
    down: _Count = _up,
    norm: _Count = _norm,
    encoder_norms: int = 2,
    decoder_norms: int = 3,
    decoder_attentions: int = 2,
    last: _Count = lambda s: 2 * s.pre,
) -> float:
    """The sum of all parts, of which a mistake replaces some."""
    attention = query(s) + key(s) + value(s) + out(s) + biases(s)
    forward = up(s) + down(s) + forward_biases(s)
    encoder = s.m * (attention + forward + encoder_norms * norm(s))
    decoder = s.n * (decoder_attentions * attention + forward + decoder_norms * norm(s))
    return words(s) + encoder + decoder + last(s) * norm(s)


def _of(count: _Count) -> Callable[..., float]:
    def count_parameters(
        vocab_size: int,
        d_model: int,
        d_ff: int,
        n_encoder: int,
        n_decoder: int,
        n_heads: int,
        d_k: int,
        d_v: int,
        pre_norm: bool,
    ) -> float:
        return count(
            _Sizes(vocab_size, d_model, d_ff, n_encoder, n_decoder, n_heads, d_k, d_v, pre_norm)
        )

    return count_parameters


def _but(**parts: Any) -> Callable[..., float]:
    return _of(lambda s: _count(s, **parts))


def _none(s: _Sizes) -> float:
    return 0


COUNT_PARAMETERS = Exercise(
    name="count_parameters",
    reference=_of(_count),
    cases=[
        Case("one layer each, one head", 2, 3, 5, 1, 1, 1, 7, 11, False),
        Case("the same with pre-norm", 2, 3, 5, 1, 1, 1, 7, 11, True),
        Case("3 layers and 2, 4 heads", 13, 12, 5, 3, 2, 4, 7, 11, False),
        Case("the paper's base, 37,000 words", 37_000, 512, 2048, 6, 6, 8, 64, 64, False),
        Case("narrow queries, pre-norm", 1009, 512, 2048, 6, 5, 8, 16, 64, True),
    ],
    mistakes={
        "the matrices of attention are counted without their biases": [_but(biases=_none)],
        "the biases of attention are 4 times d_model: those of queries, keys and values are as "
        "wide as all heads side by side": [_but(biases=lambda s: 4 * s.d)],
        "the output's bias is as wide as the heads: it is added to what comes out, d_model wide": [
            _but(biases=lambda s: s.h * (2 * s.k + 2 * s.v)),
        ],
        "the bias of attention's output is missing": [_but(biases=lambda s: s.h * (2 * s.k + s.v))],
        "only the output of attention has a bias: queries, keys and values have one as well": [
            _but(biases=lambda s: s.d),
        ],
        "only the output of attention is counted for all heads: each head has its own queries, "
        "keys and values": [
            _but(query=_one_query, key=_one_query, value=_one_value, biases=_one_head_biases),
        ],
        "the biases of queries, keys and values are counted for one head: they are as wide as all "
        "heads side by side": [_but(biases=_one_head_biases)],
        "the feed-forward network is counted without its biases": [_but(forward_biases=_none)],
        "the second bias of the feed-forward network is missing: it is d_model wide": [
            _but(forward_biases=lambda s: s.ff),
        ],
        "the first bias of the feed-forward network is missing: it is d_ff wide": [
            _but(forward_biases=lambda s: s.d),
        ],
        "no bias is counted anywhere": [_but(biases=_none, forward_biases=_none)],
        "both biases of the feed-forward network are d_ff wide: the second one is added to what "
        "comes back, d_model wide": [_but(forward_biases=lambda s: 2 * s.ff)],
        "both biases of the feed-forward network are d_model wide: the first one is added inside, "
        "where it is d_ff wide": [_but(forward_biases=lambda s: 2 * s.d)],
        "the feed-forward network has one matrix only: it goes up and comes back": [
            _but(down=_none),
            _but(down=_none, forward_biases=lambda s: s.ff),
            _but(down=_none, forward_biases=lambda s: s.d),
        ],
        "the table of words is counted twice, for source and target: it is one": [
            _but(words=lambda s: 2 * s.V * s.d),
        ],
        "the table of words is counted three times: source, target and output share it": [
            _but(words=lambda s: 3 * s.V * s.d),
        ],
        "the output has a bias for each word: here it has none": [
            _but(words=lambda s: s.V * s.d + s.V),
        ],
        "the table of words is missing": [_but(words=_none)],
        "a norm has one vector only: it has a gain and a shift": [_but(norm=lambda s: s.d)],
        "a norm has two numbers only: it has a gain and a shift for each of the d_model features": [
            _but(norm=lambda s: 2),
        ],
        "the norms of the layers are missing": [
            _but(encoder_norms=0, decoder_norms=0),
        ],
        "no norm is counted at all": [_but(norm=_none)],
        "a decoder layer has two norms: it has three sublayers, and a norm for each": [
            _but(decoder_norms=2),
        ],
        "a layer has one norm: there is one for each sublayer": [
            _but(encoder_norms=1, decoder_norms=1),
        ],
        "a decoder layer has one attention: it has two, one to itself and one to the memory": [
            _but(decoder_attentions=1),
            _but(decoder_attentions=1, decoder_norms=2),
        ],
        "the last norms are missing: with pre-norm each stack ends in one": [_but(last=_none)],
        "there is one last norm: each of the two stacks has its own": [_but(last=lambda s: s.pre)],
        "the last norms are counted with post-norm as well": [_but(last=lambda s: 2)],
        "the last norms are counted with post-norm, and not with pre-norm: it is the other way "
        "round": [_but(last=lambda s: 2 * (not s.pre))],
        "a last norm is counted in every layer: a stack has one, at its end": [
            _but(last=lambda s: s.pre * (s.m + s.n)),
        ],
        "the output of attention, W_o, is missing": [
            _but(out=_none),
            _but(out=_none, biases=lambda s: s.h * (2 * s.k + s.v)),
        ],
        "W_o is counted for one head: it takes all heads side by side, n_heads * d_v rows": [
            _but(out=lambda s: s.v * s.d),
        ],
        "W_o is counted as d_model by d_model: it has n_heads * d_v rows": [
            _but(out=lambda s: s.d * s.d),
        ],
        "attention is counted as in (11.3), 4 d_model² + 4 d_model: here the heads are as wide as "
        "d_k and d_v say": [
            _but(
                query=lambda s: s.d**2,
                key=lambda s: s.d**2,
                value=lambda s: s.d**2,
                out=lambda s: s.d**2,
                biases=lambda s: 4 * s.d,
            ),
        ],
        "the matrices of one head are counted: each head has its own": [
            _of(lambda s: _count(s._replace(h=1))),
        ],
        "every head has an output matrix as wide as all heads: W_o is one for all of them": [
            _but(out=lambda s: s.h * _value(s)),
            _but(out=lambda s: s.h * _value(s), biases=lambda s: s.h * (2 * s.k + s.v + s.d)),
        ],
        "d_v is not used where it should be: the values are d_v wide, and so is what a head hands "
        "to W_o": [
            _of(lambda s: _count(s._replace(v=s.k))),
            _but(value=_query),
            _but(value=_query, biases=lambda s: s.h * 3 * s.k + s.d),
        ],
        "the keys are counted as wide as the values: they are compared with queries, so d_k wide": [
            _but(key=_value, biases=lambda s: s.h * (s.k + 2 * s.v) + s.d),
            _but(key=_value),
        ],
        "queries and keys are counted as one matrix": [
            _but(key=_none, biases=lambda s: s.h * (s.k + s.v) + s.d),
            _but(key=_none),
        ],
        "both stacks are counted with the encoder's number of layers": [
            _of(lambda s: _count(s._replace(n=s.m))),
        ],
        "the numbers of layers are exchanged": [_of(lambda s: _count(s._replace(m=s.n, n=s.m)))],
        "the layers are counted once, whatever their number": [
            _of(lambda s: _count(s._replace(m=1, n=1))),
        ],
        "an encoder layer is counted like a decoder layer: it has no cross-attention": [
            _of(lambda s: _count(s._replace(m=0, n=s.m + s.n))),
        ],
        "positions are counted: waves are computed, and have no parameters": [
            _but(words=lambda s: (s.V + 512) * s.d),
        ],
    },
    section="How many numbers are in each part?",
)
