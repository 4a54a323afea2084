"""Checkers for chapter 1, *A dictionary that answers almost*."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from transformer_lib.checks.compare import rows_sum_to_one, weights_between_0_and_1
from transformer_lib.checks.core import Case, Checker, Exercise

__all__ = ["check"]

_FRUIT = torch.tensor([2.0, 0.2])
_KEYS = torch.tensor([[2.0, 1.0], [2.0, -1.0], [-2.0, 0.0]])
_PRICES = torch.tensor([[10.0], [5.0], [2.0]])


def _random(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


# ------------------------------------------------------------------------------------ my_softmax


def _softmax(scores: Tensor) -> Tensor:
    return scores.softmax(dim=-1)


def _shifted(scores: Tensor) -> Tensor:
    return (scores - scores.amax(dim=-1, keepdim=True)).exp()


def _normalized(powers: Tensor) -> Tensor:
    return powers / powers.sum(dim=-1, keepdim=True)


_MY_SOFTMAX = Exercise(
    name="my_softmax",
    reference=_softmax,
    cases=[
        Case("two scores, one negative", torch.tensor([2.0, -1.0])),
        Case("apple, banana, chair", torch.tensor([4.2, 3.8, -4.0])),
        Case("two rows of scores", _random(2, 3)),
        Case("as many rows as columns", _random(3, 3)),
        Case("a batch of two", _random(2, 3, 5)),
        Case("scores from 0 to 1000", torch.tensor([1000.0, 999.0, 0.0])),
        Case("one row near 1000, one near -1000", torch.tensor([[1e3, 999.0], [-1e3, -999.0]])),
    ],
    mistakes={
        "the scores are divided by their sum, without exp: a negative score becomes a negative "
        "weight": _normalized,
        "negative scores are made positive, or 0, without exp: then the order of the keys is lost, "
        "or it is not the differences that count": [
            lambda s: _normalized(s.abs()),
            lambda s: _normalized(s.relu()),
            lambda s: _normalized(s.square()),
        ],
        "the exponentials are not divided by their sum": [lambda s: s.exp(), _shifted],
        "the exponentials are divided by the sum of the scores, and not by their own": [
            lambda s: s.exp() / s.sum(-1, keepdim=True),
            lambda s: _shifted(s) / s.sum(-1, keepdim=True),
        ],
        "the largest score is subtracted above the line but not below it": [
            lambda s: _shifted(s) / s.exp().sum(-1, keepdim=True),
        ],
        "the scores are divided by the largest, instead of the largest being subtracted": [
            lambda s: (s / s.amax(-1, keepdim=True)).softmax(-1),
        ],
        "another number than e is raised to the power of the scores": [
            lambda s: _normalized(2**s),
            lambda s: (s * math.log(2)).softmax(-1),
            lambda s: _normalized(10**s),
            lambda s: (s * math.log(10)).softmax(-1),
        ],
        "exp overflows: in float32 e^89 is already inf, and inf / inf is not a number": [
            lambda s: _normalized(s.exp()),
        ],
        "what is subtracted is not the largest score: one that lies far above it still overflows": [
            lambda s: _normalized((s - s.amin(-1, keepdim=True)).exp()),
            lambda s: _normalized((s - s.mean(-1, keepdim=True)).exp()),
            lambda s: _normalized((s - s.min()).exp()),
        ],
        "large scores are cut off: the difference between two of them is lost": [
            lambda s: _normalized(s.clamp(max=80).exp()),
        ],
        "one number is subtracted from the whole tensor: in a row far below it every exp is 0, "
        "and 0 / 0 is not a number": lambda s: _normalized((s - s.max()).exp()),
        "max(dim=…) returns two things, the largest values and their places: take .values, or "
        "use amax": lambda s: _normalized((s - s.max(-1, keepdim=True)).exp()),
        "the maximum has lost its axis: without keepdim=True it is subtracted from the wrong rows, "
        "where the shapes fit at all": [
            lambda s: _normalized((s - s.amax(-1)).exp()),
            lambda s: (s - s.amax(-1)).exp() / (s - s.amax(-1)).exp().sum(-1),
        ],
        "the sum is taken over the whole tensor and not over each row": [
            lambda s: s.exp() / s.exp().sum(),
            lambda s: _shifted(s) / _shifted(s).sum(),
            lambda s: s.flatten().softmax(0).reshape(s.shape),
        ],
        "the softmax runs along the wrong axis: here it is the last axis that must sum to 1": [
            lambda s: s.softmax(0),
            lambda s: s.exp() / s.exp().sum(0, keepdim=True),
            lambda s: (s - s.max()).exp() / (s - s.max()).exp().sum(0, keepdim=True),
        ],
        "the sum has lost its axis: without keepdim=True the wrong rows are divided, where the "
        "shapes fit at all": [
            lambda s: s.exp() / s.exp().sum(-1),
            lambda s: _shifted(s) / _shifted(s).sum(-1),
            lambda s: (s - s.max()).exp() / (s - s.max()).exp().sum(-1),
        ],
        "the sum has a fixed axis: dim=1 is the last axis only of a tensor with two": [
            lambda s: s.softmax(1),
            lambda s: s.exp() / s.exp().sum(1, keepdim=True),
        ],
        "the sign of the scores is turned, so that the worst key gets the most": [
            lambda s: (-s).softmax(-1),
            lambda s: (-s).exp() / (-s).exp().sum(-1, keepdim=True),
        ],
        "you return the logarithm of the weights": lambda s: s.log_softmax(-1),
        "all the weight goes to the largest score": [
            lambda s: torch.nn.functional.one_hot(s.argmax(-1), s.shape[-1]),
        ],
    },
    section="How do scores become proportions?",
    properties=[rows_sum_to_one, weights_between_0_and_1],
)


# ------------------------------------------------------------------------------- distance_lookup


def _squared(query: Tensor, keys: Tensor) -> Tensor:
    return (query - keys).square().sum(dim=-1)


def _distance_lookup(
    query: Tensor, keys: Tensor, values: Tensor, temperature: float = 1.0
) -> Tensor:
    return (-_squared(query, keys) / temperature).softmax(dim=-1) @ values


def _unshifted(query: Tensor, keys: Tensor, values: Tensor, temperature: float = 1.0) -> Tensor:
    e = (-_squared(query, keys) / temperature).exp()
    return e / e.sum() @ values


_DISTANCE_LOOKUP = Exercise(
    name="distance_lookup",
    reference=_distance_lookup,
    cases=[
        Case(
            "the query lies on the first of two keys",
            torch.zeros(2),
            torch.tensor([[0.0, 0.0], [1.0, 0.5]]),
            torch.tensor([[1.0], [4.0]]),
        ),
        Case("fruit among apple, banana, chair", _FRUIT, _KEYS, _PRICES),
        Case("as many keys as features", _random(3), _random(3, 3, seed=1), _random(3, 2)),
        Case("seven keys, two features", _random(2), _random(7, 2, seed=1), _random(7, 3)),
        Case("a low temperature", _FRUIT, _KEYS, _PRICES, temperature=0.5),
        Case("a high temperature", _FRUIT, _KEYS, _PRICES, temperature=8.0),
        Case("all keys far away", torch.tensor([40.0, 0.0]), _KEYS, _PRICES),
    ],
    mistakes={
        "the minus sign is missing, so that the farthest key gets the most": [
            lambda q, k, v, temperature=1.0: (_squared(q, k) / temperature).softmax(-1) @ v,
        ],
        "the distance is not squared": [
            lambda q, k, v, temperature=1.0: (-_squared(q, k).sqrt() / temperature).softmax(-1) @ v,
        ],
        "the temperature is not used": lambda q, k, v, temperature=1.0: _distance_lookup(q, k, v),
        "the scores are multiplied by the temperature: then heat makes the lookup stricter": [
            lambda q, k, v, temperature=1.0: _distance_lookup(q, k, v, 1 / temperature),
        ],
        "the weights and not the scores are divided by the temperature: they no longer sum to 1": [
            lambda q, k, v, temperature=1.0: _distance_lookup(q, k, v) / temperature,
        ],
        "the scores are still dot products": [
            lambda q, k, v, temperature=1.0: (k @ q / temperature).softmax(-1) @ v,
        ],
        "the squares are halved, as in the formula of the normal distribution": [
            lambda q, k, v, temperature=1.0: _distance_lookup(q, k, v, 2 * temperature),
            lambda q, k, v, temperature=1.0: _distance_lookup(q, k, v, 2 * temperature**2),
        ],
        "the temperature is squared with the differences: divide the scores by it": [
            lambda q, k, v, temperature=1.0: _distance_lookup(q, k, v, temperature**2),
        ],
        "the differences are added up without their sign, and not squared": [
            lambda q, k, v, temperature=1.0: (-(q - k).abs().sum(-1) / temperature).softmax(-1) @ v,
        ],
        "the scores are cosines": [
            lambda q, k, v, temperature=1.0: (
                (torch.cosine_similarity(k, q, dim=-1) / temperature).softmax(-1) @ v
            ),
        ],
        "the exponentials are not divided by their sum": [
            lambda q, k, v, temperature=1.0: (-_squared(q, k) / temperature).exp() @ v,
        ],
        "the squares are not added up over the features: each key needs one score": [
            lambda q, k, v, temperature=1.0: (-(q - k).square() / temperature).softmax(-1).mT @ v,
            lambda q, k, v, temperature=1.0: (-(q - k).square() / temperature).softmax(0).mT @ v,
            lambda q, k, v, temperature=1.0: (-(q - k).square() / temperature).softmax(-1) @ v,
            lambda q, k, v, temperature=1.0: (-(q - k).square() / temperature).softmax(0) @ v,
        ],
        "the squares are averaged over the features instead of added up": [
            lambda q, k, v, temperature=1.0: (
                (-(q - k).square().mean(-1) / temperature).softmax(-1) @ v
            ),
        ],
        "the differences are added up before they are squared: then they cancel": [
            lambda q, k, v, temperature=1.0: (
                (-(q - k).sum(-1).square() / temperature).softmax(-1) @ v
            ),
        ],
        "the squares are added up over the keys and not over the features": [
            lambda q, k, v, temperature=1.0: (
                (-(q - k).square().sum(0) / temperature).softmax(-1) @ v
            ),
        ],
        "exp gives 0 for every key that is far away, and 0 / 0 is not a number": _unshifted,
        "the weights are returned, and the values never asked": [
            lambda q, k, v, temperature=1.0: (-_squared(q, k) / temperature).softmax(-1),
        ],
        "the scores mix the values before any softmax": [
            lambda q, k, v, temperature=1.0: -_squared(q, k) / temperature @ v,
        ],
        "the nearest key takes all": [
            lambda q, k, v, temperature=1.0: v[_squared(q, k).argmin()],
        ],
    },
    section="Move the question",
)


# ---------------------------------------------------------------------------------------- attend


def _scores(queries: Tensor, keys: Tensor) -> Tensor:
    return queries @ keys.transpose(-2, -1)


def _attend(queries: Tensor, keys: Tensor, values: Tensor) -> Tensor:
    return _scores(queries, keys).softmax(dim=-1) @ values


def _all_axes_reversed(keys: Tensor) -> Tensor:  # what `.T` does, without its warning
    return keys.permute(*reversed(range(keys.dim())))


_ATTEND = Exercise(
    name="attend",
    reference=_attend,
    cases=[
        Case("one query", _FRUIT[None], _KEYS, _PRICES),
        Case(
            "4 queries, 3 keys, values of width 5",
            _random(4, 2),
            _random(3, 2, seed=1),
            _random(3, 5),
        ),
        Case(
            "as many queries as keys as features",
            _random(3, 3),
            _random(3, 3, seed=1),
            _random(3, 3, seed=2),
        ),
        Case(
            "7 features, values as wide as there are keys",
            _random(2, 7),
            _random(5, 7, seed=1),
            _random(5, 5),
        ),
        Case("a batch of 2", _random(2, 3, 7), _random(2, 5, 7, seed=1), _random(2, 5, 11)),
        Case(
            "2 by 3 batches",
            _random(2, 3, 5, 7),
            _random(2, 3, 4, 7, seed=1),
            _random(2, 3, 4, 6),
        ),
    ],
    mistakes={
        "the softmax runs over the queries and not over the keys: each column sums to 1, and "
        "each answer depends on who else asks": lambda q, k, v: _scores(q, k).softmax(-2) @ v,
        "the softmax runs down the first axis: over the queries, and in a batch over the batch. "
        "Each answer then depends on who else asks": lambda q, k, v: _scores(q, k).softmax(0) @ v,
        "the axes are counted from the front: with a batch, or without one, the same number means "
        "another axis": [
            lambda q, k, v: _scores(q, k).softmax(1) @ v,
            lambda q, k, v: _scores(q, k).softmax(2) @ v,
            lambda q, k, v: (q @ k.transpose(1, 2)).softmax(-1) @ v,
            lambda q, k, v: (q @ k.permute(0, 2, 1)).softmax(-1) @ v,
            lambda q, k, v: torch.bmm(torch.bmm(q, k.transpose(1, 2)).softmax(-1), v),
        ],
        "the queries are taken one by one along the first axis, which in a batch holds sentences": [
            lambda q, k, v: torch.stack([(k @ one).softmax(-1) @ v for one in q]),
            lambda q, k, v: torch.stack([(one @ k.mT).softmax(-1) @ v for one in q]),
        ],
        "the softmax runs over the whole table of scores and not over each row": [
            lambda q, k, v: _scores(q, k).flatten(-2).softmax(-1).reshape(_scores(q, k).shape) @ v,
            lambda q, k, v: _scores(q, k).flatten().softmax(-1).reshape(_scores(q, k).shape) @ v,
        ],
        "there is no softmax: the scores themselves mix the values": [
            lambda q, k, v: _scores(q, k) @ v,
        ],
        "the scores are divided by their sum, without exp": [
            lambda q, k, v: _normalized(_scores(q, k)) @ v,
        ],
        "the exponentials are not divided by their sum": lambda q, k, v: _scores(q, k).exp() @ v,
        "the scores are distances, and not dot products": [
            lambda q, k, v: (-torch.cdist(q, k).square()).softmax(-1) @ v,
            lambda q, k, v: (-torch.cdist(q, k)).softmax(-1) @ v,
        ],
        "the scores are divided by the root of d_k: that is right in chapter 2, but not asked "
        "for here": lambda q, k, v: (_scores(q, k) * q.shape[-1] ** -0.5).softmax(-1) @ v,
        "the keys are not transposed: where the shapes fit at all, each query meets columns of "
        "features instead of keys": lambda q, k, v: (q @ k).softmax(-1) @ v,
        "the transpose takes all axes (.T) or the first two, where only the last two may change "
        "places": [
            lambda q, k, v: (q @ _all_axes_reversed(k)).softmax(-1) @ v,
            lambda q, k, v: (q @ k.transpose(0, 1)).softmax(-1) @ v,
        ],
        "queries and keys have changed places: that gives one row per key": [
            lambda q, k, v: _scores(k, q).softmax(-1) @ v,
        ],
        "the weights are returned, and the values never asked": [
            lambda q, k, v: _scores(q, k).softmax(-1),
        ],
        "the keys are mixed and not the values": lambda q, k, v: _attend(q, k, k),
        "the softmax is taken twice": lambda q, k, v: _scores(q, k).softmax(-1).softmax(-1) @ v,
        "the softmax comes last, over the mixed values": lambda q, k, v: (
            _scores(q, k) @ v
        ).softmax(-1),
        "the best key takes all": lambda q, k, v: (
            torch.nn.functional.one_hot(_scores(q, k).argmax(-1), k.shape[-2]).to(v) @ v
        ),
    },
    section="How do you ask many questions at once?",
)

check = Checker(_MY_SOFTMAX, _DISTANCE_LOOKUP, _ATTEND)
