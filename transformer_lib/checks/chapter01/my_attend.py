"""The exercise `my_attend`: what it asks for, and how its answers go wrong."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import normalize

from transformer_lib.checks.chapter01.my_softmax import normalized
from transformer_lib.checks.old.core import Case, Exercise
from transformer_lib.checks.old.inputs import random_tensor

_FRUIT = torch.tensor([2.0, 0.2])
_KEYS = torch.tensor([[2.0, 1.0], [2.0, -1.0], [-2.0, 0.0]])
_PRICES = torch.tensor([[10.0], [5.0], [2.0]])


def _scores(queries: Tensor, keys: Tensor) -> Tensor:
    return queries @ keys.transpose(-2, -1)


def _attend(queries: Tensor, keys: Tensor, values: Tensor) -> Tensor:
    return _scores(queries, keys).softmax(dim=-1) @ values


def _all_axes_reversed(keys: Tensor) -> Tensor:  # what `.T` does, without its warning
    return keys.permute(*reversed(range(keys.dim())))


MY_ATTEND = Exercise(
    name="my_attend",
    reference=_attend,
    cases=[
        Case("one query", _FRUIT[None], _KEYS, _PRICES),
        Case(
            "4 queries, 3 keys, values of width 5",
            random_tensor(4, 2),
            random_tensor(3, 2, seed=1),
            random_tensor(3, 5),
        ),
        Case(
            "as many queries as keys as features",
            random_tensor(3, 3),
            random_tensor(3, 3, seed=1),
            random_tensor(3, 3, seed=2),
        ),
        Case(
            "7 features, values as wide as there are keys",
            random_tensor(2, 7),
            random_tensor(5, 7, seed=1),
            random_tensor(5, 5),
        ),
        Case(
            "a batch of 2",
            random_tensor(2, 3, 7),
            random_tensor(2, 5, 7, seed=1),
            random_tensor(2, 5, 11),
        ),
        Case(
            "2 by 3 batches",
            random_tensor(2, 3, 5, 7),
            random_tensor(2, 3, 4, 7, seed=1),
            random_tensor(2, 3, 4, 6),
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
            lambda q, k, v: normalized(_scores(q, k)) @ v,
        ],
        "the exponentials are not divided by their sum": lambda q, k, v: _scores(q, k).exp() @ v,
        "the scores are distances, and not dot products": [
            lambda q, k, v: (-torch.cdist(q, k).square()).softmax(-1) @ v,
            lambda q, k, v: (-torch.cdist(q, k)).softmax(-1) @ v,
        ],
        "the scores are cosines: the length of a query or a key no longer counts": [
            lambda q, k, v: _scores(normalize(q, dim=-1), normalize(k, dim=-1)).softmax(-1) @ v,
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
        "the weights are turned on their side before they mix: a key's column mixes the values": [
            lambda q, k, v: _scores(q, k).softmax(-1).mT @ v,
        ],
        "weights and values have changed places in the product": [
            lambda q, k, v: v @ _scores(q, k).softmax(-1),
        ],
        "weights and values are multiplied number by number: it takes a matrix product to mix": [
            lambda q, k, v: _scores(q, k).softmax(-1) * v,
            lambda q, k, v: (_scores(q, k).softmax(-1) * v).sum(-1),
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
