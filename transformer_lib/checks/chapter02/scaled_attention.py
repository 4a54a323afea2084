"""The exercise `scaled_attention`: what it asks for, and how its answers go wrong."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor
from torch.nn.functional import normalize

from transformer_lib.checks.old.core import Case, Exercise
from transformer_lib.checks.old.inputs import random_tensor

_SEE = ' (see the section "Which scores make softmax draw this triangle?")'


def _scores(query: Tensor, key: Tensor) -> Tensor:
    return query @ key.transpose(-2, -1)


def _banned(scores: Tensor, diagonal: int = 0) -> Tensor:
    return torch.ones_like(scores, dtype=torch.bool).tril(diagonal).logical_not()


def _before(scores: Tensor) -> Tensor:
    return scores.masked_fill(_banned(scores), float("-inf"))


def _rows(scores: Tensor) -> Tensor:
    return scores.softmax(dim=-1)


def _scaled_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    causal: bool = False,
    *,
    scale: Callable[[Tensor, Tensor, Tensor], float] = lambda q, k, v: q.shape[-1] ** -0.5,
    score: Callable[[Tensor, Tensor], Tensor] = _scores,
    mask: Callable[[Tensor], Tensor] = _before,
    weigh: Callable[[Tensor], Tensor] = _rows,
    after: Callable[[Tensor], Tensor] = lambda weights: weights,
    mix: Callable[[Tensor, Tensor, Tensor], Tensor] = lambda weights, k, v: weights @ v,
) -> Tensor:
    """The formula in five steps, of which a mistake replaces one."""
    scores = score(query, key) * scale(query, key, value)
    weights = weigh(mask(scores) if causal else scores)
    return mix(after(weights) if causal else weights, key, value)


def _reference(query: Tensor, key: Tensor, value: Tensor, causal: bool = False) -> Tensor:
    return _scaled_attention(query, key, value, causal)


def _but(**step: Callable) -> Callable[..., Tensor]:
    return partial(_scaled_attention, **step)


def _same(scores: Tensor) -> Tensor:
    return scores


def _cosines(query: Tensor, key: Tensor) -> Tensor:
    return _scores(normalize(query, dim=-1), normalize(key, dim=-1))


def _spread_to_1(scores: Tensor, dim: int | tuple[int, ...]) -> Tensor:
    return scores / scores.std(dim=dim, keepdim=True)


def _all_axes_reversed(key: Tensor) -> Tensor:  # what `.T` does, without its warning
    return key.permute(*reversed(range(key.dim())))


def _both_results(q: Tensor, k: Tensor, v: Tensor, causal: bool = False) -> tuple[Tensor, Tensor]:
    return _reference(q, k, v, causal), _scaled_attention(q, k, v, causal, mix=lambda w, k, v: w)


def _always_masked(q: Tensor, k: Tensor, v: Tensor, causal: bool = False) -> Tensor:
    return _reference(q, k, v, causal=True)


def _emptied(weights: Tensor) -> Tensor:
    return weights.masked_fill(_banned(weights), 0.0)


_KEY = torch.tensor([[0.6, 0, 1, 0], [1, 1.8, 0, 0], [0.6, 0, 0, 1], [0.6, 0, -1, 0]])

# Scores of -85, which exp still tells from 0. Little of a large value that leaks shows.
_FAR_DOWN = [
    torch.full((3, 4), 10.0),
    torch.full((3, 4), -4.25),
    torch.diag(torch.tensor([1.0, 1e6, 1e6])),
]

SCALED_ATTENTION = Exercise(
    name="scaled_attention",
    reference=_reference,
    cases=[
        Case(
            "one query, four keys, d_k = 4",
            torch.tensor([[1.2, 2.0, 0.0, 0.0]]),
            _KEY,
            torch.tensor([[10.0, 0], [20, 0], [0, 10], [0, 20]]),
        ),
        Case(
            "3 queries, 5 keys, d_k = 2, d_v = 7",
            random_tensor(3, 2),
            random_tensor(5, 2, seed=1),
            random_tensor(5, 7, seed=2),
        ),
        Case(
            "as many queries as keys, d_k = d_v = 3",
            random_tensor(3, 3),
            random_tensor(3, 3, seed=1),
            random_tensor(3, 3, seed=2),
        ),
        Case(
            "d_k = 64",
            random_tensor(2, 64),
            random_tensor(3, 64, seed=1),
            random_tensor(3, 5, seed=2),
        ),
        Case(
            "a batch of 2",
            random_tensor(2, 3, 7),
            random_tensor(2, 5, 7, seed=1),
            random_tensor(2, 5, 11, seed=2),
        ),
        Case(
            "2 by 3 batches",
            random_tensor(2, 3, 5, 7),
            random_tensor(2, 3, 4, 7, seed=1),
            random_tensor(2, 3, 4, 6, seed=2),
        ),
        Case(
            "causal, 4 tokens, d_k = 5",
            random_tensor(4, 5),
            random_tensor(4, 5, seed=1),
            random_tensor(4, 3, seed=2),
            causal=True,
        ),
        Case(
            "causal, 2 by 3 batches",
            random_tensor(2, 3, 5, 7),
            random_tensor(2, 3, 5, 7, seed=1),
            random_tensor(2, 3, 5, 6, seed=2),
            causal=True,
        ),
        Case("causal, all scores are minus 85", *_FAR_DOWN, causal=True),
    ],
    mistakes={
        "the scores are not divided by anything": _but(scale=lambda q, k, v: 1.0),
        "the scores are not divided by anything and `causal` is not used: this is the answer to "
        "chapter 1's last build exercise": _but(scale=lambda q, k, v: 1.0, mask=_same),
        "the scores are divided by d_k and not by its root, or queries and keys by a root each, "
        "which comes to the same: they are now too much alike (see the section "
        '"How large is a dot product?")': [
            _but(scale=lambda q, k, v: 1 / q.shape[-1]),
        ],
        "a power binds before a division: d_k**1/2 is d_k/2, and the root is d_k**0.5": [
            _but(scale=lambda q, k, v: q.shape[-1] ** -1 / 2),
            _but(scale=lambda q, k, v: 1 / (q.shape[-1] ** 1 / 2)),
        ],
        "the fourth root is taken: ** 0.25 is right where queries and keys are divided by it, each "
        "of them": [
            _but(scale=lambda q, k, v: q.shape[-1] ** -0.25),
        ],
        "the scores are divided by their own standard deviation, as it happens to be: then no "
        "query can be more decided than another": [
            _but(score=lambda q, k: _spread_to_1(_scores(q, k), -1), scale=lambda q, k, v: 1.0),
            _but(
                score=lambda q, k: _spread_to_1(_scores(q, k), (-2, -1)), scale=lambda q, k, v: 1.0
            ),
            _but(score=lambda q, k: _scores(q, k) / _scores(q, k).std(), scale=lambda q, k, v: 1.0),
        ],
        "the scores are cosines: the length of a query or a key no longer counts": [
            _but(score=_cosines, scale=lambda q, k, v: 1.0),
            _but(score=_cosines),
        ],
        "the scores are multiplied by the root of d_k instead of divided": [
            _but(scale=lambda q, k, v: q.shape[-1] ** 0.5),
        ],
        "the number under the root is fixed: 64 is the paper's d_k, not yours": [
            _but(scale=lambda q, k, v: 1 / 8),
        ],
        "the number under the root is fixed: 512 is the width of the paper's model, and no d_k": [
            _but(scale=lambda q, k, v: 512**-0.5),
        ],
        "the number under the root is fixed: 4 was d_k in the worked example only": [
            _but(scale=lambda q, k, v: 1 / 2),
        ],
        "the root is taken of the number of keys: the spread grows with d_k alone": [
            _but(scale=lambda q, k, v: k.shape[-2] ** -0.5),
        ],
        "the root is taken of the number of queries": [
            _but(scale=lambda q, k, v: q.shape[-2] ** -0.5),
        ],
        "the root is taken of the width of the values: dot products do not meet the values": [
            _but(scale=lambda q, k, v: v.shape[-1] ** -0.5),
        ],
        "the root is taken of the first axis: len(query) or len(key) is not d_k": [
            _but(scale=lambda q, k, v: len(q) ** -0.5),
            _but(scale=lambda q, k, v: len(k) ** -0.5),
        ],
        "the weights are divided and not the scores: the rows no longer sum to 1": [
            lambda q, k, v, causal=False: (
                _scaled_attention(q, k, v, causal, scale=lambda q, k, v: 1.0) * q.shape[-1] ** -0.5
            ),
            lambda q, k, v, causal=False: _reference(q, k, v, causal) * q.shape[-1] ** -0.5,
        ],
        "`causal` is not used: every query sees the keys that come after it": _but(mask=_same),
        "`causal` is not asked: the triangle is there even where nobody wanted it": _always_masked,
        "the output is right, but the weights are returned with it: the exercise wants the output "
        "alone": _both_results,
        "the fill is the wrong way round: minus infinity stands where looking is allowed, and the "
        "last row has nothing else" + _SEE: [
            _but(mask=lambda s: s.masked_fill(~_banned(s), float("-inf"))),
            _but(mask=lambda s: s.masked_fill(~_banned(s), -1e9)),
            _but(mask=lambda s: s.masked_fill(~_banned(s), torch.finfo(s.dtype).min)),
        ],
        "the fill is a fixed number, and real scores lie below it: then query t takes from what "
        "comes after it": [
            _but(mask=lambda s, fill=fill: s.masked_fill(_banned(s), fill))
            for fill in (-10.0, -50.0, -100.0)
        ],
        "minus infinity is multiplied by a table of 1 and 0: 0 · ∞ is NaN, so it has to be filled "
        "in": [
            _but(mask=lambda s: s + (_banned(s) * float("-inf"))),
            _but(mask=lambda s: s + (~_banned(s) * float("-inf"))),
            _but(mask=lambda s: s * float("-inf") * _banned(s)),
        ],
        "the triangle of 1 and 0 is added to the scores: that forbids nothing" + _SEE: [
            _but(mask=lambda s: s + ~_banned(s)),
        ],
        "query t may not see key t: the diagonal belongs to the past" + _SEE: [
            _but(mask=lambda s: s.masked_fill(_banned(s, -1), float("-inf"))),
            _but(mask=lambda s: s.masked_fill(_banned(s, -1), torch.finfo(s.dtype).min)),
            _but(mask=lambda s: s.masked_fill(_banned(s, -1), -1e9)),
        ],
        "the triangle is the upper one: query t sees itself and what comes after it" + _SEE: [
            _but(mask=lambda s: s.masked_fill(_banned(s.mT).mT, float("-inf"))),
        ],
        "a banned score becomes 0, and e^0 = 1 is a weight like any other" + _SEE: [
            _but(mask=lambda s: s.masked_fill(_banned(s), 0.0)),
        ],
        "the mask comes after the softmax: the removed weight is lost instead of shared out": [
            _but(mask=_same, after=_emptied),
        ],
        "minus infinity is filled in after the softmax, where it is a weight; before the softmax "
        "it is a score, and becomes 0" + _SEE: [
            _but(mask=_same, after=_before),
        ],
        "the triangle is 4 by 4 for tokens of any number: take its size from the scores": [
            _but(mask=lambda s: s.masked_fill(torch.ones(4, 4).tril() == 0, float("-inf"))),
        ],
        "the softmax runs over the queries and not over the keys: each column sums to 1": [
            _but(weigh=lambda s: s.softmax(-2)),
            _but(weigh=lambda s: s.nan_to_num(neginf=-1e9).softmax(-2)),
        ],
        "the softmax has a fixed axis, counted from the front: with a batch that is another axis": [
            _but(weigh=lambda s: s.softmax(1)),
            _but(weigh=lambda s: s.softmax(0)),
        ],
        "the softmax runs over the whole table of scores and not over each row": [
            _but(weigh=lambda s: s.flatten(-2).softmax(-1).reshape(s.shape)),
            _but(weigh=lambda s: s.flatten().softmax(-1).reshape(s.shape)),
        ],
        "there is no softmax: the scores themselves mix the values": [
            _but(weigh=_same),
            _but(weigh=_same, mask=lambda s: s.tril()),
        ],
        "the exponentials are not divided by their sum": _but(weigh=torch.exp),
        "the keys are not transposed: where the shapes fit at all, each query meets columns of "
        "features instead of keys": _but(score=lambda q, k: q @ k),
        "the transpose takes all axes (.T) or the first two, where only the last two may change "
        "places": [
            _but(score=lambda q, k: q @ _all_axes_reversed(k)),
            _but(score=lambda q, k: q @ k.transpose(0, 1)),
            _but(score=lambda q, k: q @ k.transpose(1, 2)),
        ],
        "queries and keys have changed places: that gives one row per key": [
            _but(score=lambda q, k: _scores(k, q)),
        ],
        "the weights are returned, and the values never mixed": _but(mix=lambda w, k, v: w),
        "the weights are turned on their side before they mix: a key's column mixes the values": [
            _but(mix=lambda w, k, v: w.mT @ v),
        ],
        "weights and values have changed places in the product": _but(mix=lambda w, k, v: v @ w),
        "weights and values are multiplied number by number: it takes a matrix product to mix": [
            _but(mix=lambda w, k, v: w * v),
            _but(mix=lambda w, k, v: (w * v).sum(-1)),
        ],
        "the keys are mixed and not the values": _but(mix=lambda w, k, v: w @ k),
    },
    section="Can you compute the formula by hand?",
)
