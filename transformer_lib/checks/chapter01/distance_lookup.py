"""The exercise `distance_lookup`: what it asks for, and how its answers go wrong."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from transformer_lib.checks.old.core import Case, Exercise
from transformer_lib.checks.old.inputs import random_tensor

_FRUIT = torch.tensor([2.0, 0.2])
_KEYS = torch.tensor([[2.0, 1.0], [2.0, -1.0], [-2.0, 0.0]])
_PRICES = torch.tensor([[10.0], [5.0], [2.0]])


def _squared(query: Tensor, keys: Tensor) -> Tensor:
    return (query - keys).square().sum(dim=-1)


def _distance_lookup(
    query: Tensor, keys: Tensor, values: Tensor, temperature: float = 1.0
) -> Tensor:
    return (-_squared(query, keys) / temperature).softmax(dim=-1) @ values


def _unshifted(query: Tensor, keys: Tensor, values: Tensor, temperature: float = 1.0) -> Tensor:
    e = (-_squared(query, keys) / temperature).exp()
    return e / e.sum() @ values


def _shares(powers: Tensor) -> Tensor:
    return powers / powers.sum()


def _inverse(
    near: Callable[[Tensor, float], Tensor], then: Callable[[Tensor], Tensor] = _shares
) -> Callable[..., Tensor]:
    def lookup(query: Tensor, keys: Tensor, values: Tensor, temperature: float = 1.0) -> Tensor:
        return then(near(_squared(query, keys), temperature)) @ values

    return lookup


# What learners call near: one over the distance or its square, with something that keeps it from
# being 1 / 0 or without, at a temperature or at none.
_NEAR: list[Callable[[Tensor, float], Tensor]] = [
    lambda d, t: 1 / (1 + d),
    lambda d, t: 1 / (1 + d / t),
    lambda d, t: 1 / (1 + d) / t,
    lambda d, t: 1 / (1 + d.sqrt()),
    lambda d, t: 1 / (1 + d.sqrt() / t),
    lambda d, t: 1 / (1 + d.sqrt()) / t,
    lambda d, t: 1 / d,
    lambda d, t: 1 / d / t,
    lambda d, t: 1 / d.sqrt(),
    lambda d, t: 1 / d.sqrt() / t,
    *(lambda d, t, e=e: 1 / (d + e) for e in (1e-6, 1e-8, 1e-9)),
    *(lambda d, t, e=e: 1 / (d.sqrt() + e) for e in (1e-6, 1e-8, 1e-9)),
]

DISTANCE_LOOKUP = Exercise(
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
        Case(
            "as many keys as features",
            random_tensor(3),
            random_tensor(3, 3, seed=1),
            random_tensor(3, 2),
        ),
        Case(
            "seven keys, two features",
            random_tensor(2),
            random_tensor(7, 2, seed=1),
            random_tensor(7, 3),
        ),
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
        "the weights are one over the distance, without exp: that is near, too, but no softmax of "
        "the scores asked for": [
            *(_inverse(near) for near in _NEAR),
        ],
        "the softmax is given one over the distance: the score of a key is minus its square": [
            *(_inverse(near, then=lambda w: w.softmax(-1)) for near in _NEAR),
        ],
        "the squares are halved, as in the formula of the normal distribution, or by a stray "
        "**1/2, which is a half and no root": [
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
        "the squares are added up over the keys as well: each key needs a score of its own": [
            lambda q, k, v, temperature=1.0: 1.0 * v,  # the softmax of a single score
            lambda q, k, v, temperature=1.0: v.sum(0),
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
        "weights and values are multiplied number by number: the products must be added up over "
        "the keys, which weights @ values does": [
            lambda q, k, v, temperature=1.0: (-_squared(q, k) / temperature).softmax(-1) * v,
            lambda q, k, v, temperature=1.0: (
                (-_squared(q, k) / temperature).softmax(-1)[:, None] * v
            ),
            lambda q, k, v, temperature=1.0: (
                (-_squared(q, k) / temperature).softmax(-1) * v
            ).sum(),
            lambda q, k, v, temperature=1.0: (
                (-_squared(q, k) / temperature).softmax(-1)[:, None] * v
            ).sum(),
        ],
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
    section="Must likeness be a dot product?",
)
