"""The exercise `additive_score`: what it asks for, and how its answers go wrong."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor

from transformer_lib.checks.old.core import Case, Exercise
from transformer_lib.checks.old.inputs import random_tensor


def _pairs(q: Tensor, k: Tensor) -> Tensor:
    return q.unsqueeze(-2) + k.unsqueeze(-3)


def _additive_score(
    query: Tensor,
    key: Tensor,
    W: Tensor,
    U: Tensor,
    v: Tensor,
    *,
    join: Callable[[Tensor, Tensor], Tensor] = _pairs,
    bend: Callable[[Tensor], Tensor] = torch.tanh,
    reduce: Callable[[Tensor, Tensor], Tensor] = lambda hidden, v: hidden @ v,
    after: Callable[[Tensor], Tensor] = lambda scores: scores,
) -> Tensor:
    """The score in four steps, of which a mistake replaces one."""
    return after(reduce(bend(join(query @ W, key @ U)), v))


def _reference(query: Tensor, key: Tensor, W: Tensor, U: Tensor, v: Tensor) -> Tensor:
    return _additive_score(query, key, W, U, v)


def _but(**step: Callable) -> Callable[..., Tensor]:
    return partial(_additive_score, **step)


def _same(x: Tensor) -> Tensor:
    return x


def _case(label: str, *batch: int, t: int, s: int, d_q: int, d_k: int, m: int) -> Case:
    sizes = ((*batch, t, d_q), (*batch, s, d_k), (d_q, m), (d_k, m), (m,))
    return Case(label, *(random_tensor(*size, seed=i) for i, size in enumerate(sizes)))


def _squeezed(query: Tensor, key: Tensor, W: Tensor, U: Tensor, v: Tensor) -> Tensor:
    return torch.tanh(query @ W + key @ U) @ v


ADDITIVE_SCORE = Exercise(
    name="additive_score",
    reference=_reference,
    cases=[
        _case("one query, one key", t=1, s=1, d_q=2, d_k=2, m=3),
        _case("one query, 5 keys", t=1, s=5, d_q=3, d_k=2, m=4),
        _case("3 queries, 5 keys", t=3, s=5, d_q=2, d_k=7, m=4),
        _case("as many queries as keys, all widths alike", t=4, s=4, d_q=4, d_k=4, m=4),
        _case("a batch of 2", 2, t=3, s=5, d_q=7, d_k=4, m=6),
        _case("2 by 3 batches", 2, 3, t=5, s=2, d_q=3, d_k=4, m=7),
    ],
    mistakes={
        "there is no tanh: then every query ranks the keys alike, since the query adds the same "
        "number to the scores of all of them": _but(bend=_same),
        "the two halves are bent before they are added: tanh(q W) + tanh(k U) is no comparison, "
        "each half is scored alone": _but(join=lambda q, k: _pairs(q.tanh(), k.tanh()), bend=_same),
        "the tanh comes last, around the score and not around the hidden layer": _but(
            bend=_same, after=torch.tanh
        ),
        "another function stands in the place of the tanh: a sigmoid": _but(bend=torch.sigmoid),
        "another function stands in the place of the tanh: a ReLU": _but(bend=torch.relu),
        "the projections are multiplied and not added: that is a dot product with weights": [
            _but(join=lambda q, k: q.unsqueeze(-2) * k.unsqueeze(-3)),
            _but(join=lambda q, k: q.unsqueeze(-2) * k.unsqueeze(-3), bend=_same),
        ],
        "the softmax is taken already: the exercise wants scores": [
            _but(after=lambda scores: scores.softmax(-1)),
        ],
        "the hidden layer is added up without v": [
            _but(reduce=lambda hidden, v: hidden.sum(-1)),
            _but(reduce=lambda hidden, v: hidden.mean(-1)),
        ],
        "v is multiplied but not summed: the hidden layer's axis is still there": [
            _but(reduce=lambda hidden, v: hidden * v),
        ],
        "an axis of length 1 is left at the end: v is one vector": [
            _but(reduce=lambda hidden, v: hidden @ v[:, None]),
        ],
        "the hidden layer is returned: v is missing": _but(reduce=lambda hidden, v: hidden),
        "the axes of queries and keys have changed places: rows belong to queries": [
            _but(join=lambda q, k: q.unsqueeze(-3) + k.unsqueeze(-2)),
        ],
        "queries and keys are put one behind the other: each is then scored alone, and no pair is "
        "compared": [
            _but(join=lambda q, k: torch.cat([q, k], -2)),
        ],
        "query t meets key t only: queries and keys need an axis each before they are added": [
            _squeezed,
        ],
        "the new axes are counted from the front: with a batch these are other axes": [
            _but(join=lambda q, k: q[:, None] + k[None]),
            _but(join=lambda q, k: q.unsqueeze(1) + k.unsqueeze(0)),
        ],
        "the new axes are counted from the front, for one batch axis: without one, or with two, "
        "these are other axes": [
            _but(join=lambda q, k: q[:, :, None] + k[:, None]),
        ],
        "W and U have changed places": lambda query, key, W, U, v: _reference(query, key, U, W, v),
        "one of the two matrices is used for both": [
            lambda query, key, W, U, v: _reference(query, key, W, W, v),
            lambda query, key, W, U, v: _reference(query, key, U, U, v),
        ],
        "the matrices are transposed: here a vector is a row, and stands to the left": [
            lambda query, key, W, U, v: _reference(query, key, W.T, U.T, v),
        ],
        "the scores are divided by a root: that belongs to the dot product of chapter 2": [
            lambda query, key, W, U, v: _reference(query, key, W, U, v) / len(v) ** 0.5,
            lambda query, key, W, U, v: _reference(query, key, W, U, v) / key.shape[-1] ** 0.5,
            lambda query, key, W, U, v: _reference(query, key, W, U, v) / query.shape[-1] ** 0.5,
        ],
        "the keys are left out: each query is scored alone": _but(
            join=lambda q, k: _pairs(q, torch.zeros_like(k))
        ),
        "the queries are left out: each key is scored alone": _but(
            join=lambda q, k: _pairs(torch.zeros_like(q), k)
        ),
    },
    section="Which other scores are there?",
    advises=["gradient"],
)
