"""The exercise `contributions`: what it asks for, and how its answers go wrong."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from transformer_lib.checks.old.core import Case, Exercise
from transformer_lib.checks.old.inputs import random_tensor


def _by_head(out_weight: Tensor, n_heads: int) -> Tensor:
    """``(d_model, H, d_k)``: the columns of each head."""
    return out_weight.unflatten(1, (n_heads, -1))


def _turned(values: Tensor, out_weight: Tensor) -> Tensor:
    """``(B, H, S, d_model)``: each value through its own head's part."""
    return torch.einsum("bhsk,dhk->bhsd", values, _by_head(out_weight, values.size(1)))


def _added(weights: Tensor, turned: Tensor) -> Tensor:
    return torch.einsum("bhts,bhsd->btsd", weights, turned)


def _contributions(weights: Tensor, values: Tensor, out_weight: Tensor) -> Tensor:
    return _added(weights, _turned(values, out_weight)).norm(dim=-1)


def _of(measure: Callable[[Tensor], Tensor]) -> Callable[..., Tensor]:
    """Another measure of the vectors ``(B, T, S, d_model)``."""
    return lambda weights, values, out_weight: measure(_added(weights, _turned(values, out_weight)))


def _heads(join: Callable[[Tensor], Tensor]) -> Callable[..., Tensor]:
    """The length for each head first, ``(B, H, T, S)``, and then joined."""
    return lambda weights, values, out_weight: join(
        weights * _turned(values, out_weight).norm(dim=-1)[:, :, None]
    )


def _with(part: Callable[[Tensor, int], Tensor]) -> Callable[..., Tensor]:
    """Another part of the matrix for each head, ``(d_model, H, d_k)``."""

    def answer(weights: Tensor, values: Tensor, out_weight: Tensor) -> Tensor:
        parts = part(out_weight, values.size(1))
        turned = torch.einsum("bhsk,dhk->bhsd", values, parts)
        return _added(weights, turned).norm(dim=-1)

    return answer


def _interleaved(out_weight: Tensor, n_heads: int) -> Tensor:
    return out_weight.unflatten(1, (-1, n_heads)).transpose(1, 2)


def _without_output(weights: Tensor, values: Tensor, out_weight: Tensor) -> Tensor:
    return torch.einsum("bhts,bhsk->btshk", weights, values).flatten(-2).norm(dim=-1)


def _sum_of_values(weights: Tensor, values: Tensor, out_weight: Tensor) -> Tensor:
    return torch.einsum("bhts,bhsk->btsk", weights, values).norm(dim=-1)


def _without_weights(weights: Tensor, values: Tensor, out_weight: Tensor) -> Tensor:
    lengths = _turned(values, out_weight).sum(1).norm(dim=-1)
    return lengths[:, None].expand(-1, weights.size(2), -1)


def _mean_weights(weights: Tensor, values: Tensor, out_weight: Tensor) -> Tensor:
    lengths = _turned(values, out_weight).sum(1).norm(dim=-1)
    return weights.mean(1) * lengths[:, None]


def _values_only(weights: Tensor, values: Tensor, out_weight: Tensor) -> Tensor:
    return (weights * values.norm(dim=-1)[:, :, None]).sum(1)


def _as_they_lie(weights: Tensor, values: Tensor, out_weight: Tensor) -> Tensor:
    """The heads are joined by `reshape` alone."""
    b, _, t, s = weights.shape
    joined = (weights[..., None] * values[:, :, None]).reshape(b, t, s, -1)
    return (joined @ out_weight.mT).norm(dim=-1)


def _whole_row(weights: Tensor, values: Tensor, out_weight: Tensor) -> Tensor:
    return _added(weights, _turned(values, out_weight)).sum(2).norm(dim=-1)


def _shares(weights: Tensor, values: Tensor, out_weight: Tensor) -> Tensor:
    lengths = _contributions(weights, values, out_weight)
    return lengths / lengths.sum(-1, keepdim=True)


def _turned_map(weights: Tensor, values: Tensor, out_weight: Tensor) -> Tensor:
    return _contributions(weights, values, out_weight).transpose(1, 2)


def _case(name: str, b: int, h: int, t: int, s: int, d_k: int, seed: int) -> Case:
    weights = random_tensor(b, h, t, s, seed=seed).softmax(-1)
    values = random_tensor(b, h, s, d_k, seed=seed + 1)
    return Case(name, weights, values, random_tensor(h * d_k, h * d_k, seed=seed + 2))


_OPPOSITE = Case(
    "two heads that cancel",
    torch.tensor([[[[0.5, 0.5]], [[0.5, 0.5]]]]),
    torch.tensor([[[[1.0], [2.0]], [[-1.0], [1.0]]]]),
    torch.tensor([[1.0, 1.0], [0.0, 0.0]]),
)
_CASES: list[Any] = [
    _case("one head, one piece", 1, 1, 1, 1, 2, seed=1),
    _OPPOSITE,
    _case("one head", 1, 1, 2, 3, 5, seed=4),
    _case("two heads of width 3", 1, 2, 3, 5, 3, seed=7),
    _case("a batch of 2, three heads", 2, 3, 5, 7, 2, seed=10),
    _case("as many pieces as rows", 2, 2, 3, 3, 5, seed=13),
]

CONTRIBUTIONS = Exercise(
    name="contributions",
    reference=_contributions,
    cases=_CASES,
    mistakes={
        "the length is taken in each head, and then the lengths are joined: the heads' vectors "
        "are added first, and may cancel": [
            _heads(lambda lengths: lengths.sum(1)),
            _heads(lambda lengths: lengths.mean(1)),
            _heads(lambda lengths: lengths.amax(1)),
            _heads(lambda lengths: lengths.square().sum(1).sqrt()),
        ],
        "each head has a map of its own: the heads' vectors are added up": [
            _heads(lambda lengths: lengths),
        ],
        "the output matrix is left out: a value adds to the output only after it was turned": [
            _without_output,
            _sum_of_values,
            _values_only,
        ],
        "the weights are left out: what a piece adds is its turned value times its weight": [
            _without_weights,
        ],
        "the weights are averaged over the heads before they meet the values: each head has its "
        "own weights and its own values": [
            _mean_weights,
            lambda weights, values, out_weight: (
                weights.sum(1) * _turned(values, out_weight).sum(1).norm(dim=-1)[:, None]
            ),
        ],
        "the output matrix is not transposed: nn.Linear keeps (output, input), so the heads lie "
        "on its columns": [
            _with(lambda w, h: _by_head(w.mT, h)),
        ],
        "the columns of the heads are interleaved: head 0 has the first d_k columns, not every "
        "H-th": [
            _with(_interleaved),
        ],
        "`reshape` joins the heads while their axis is the second: bring it next to the last one "
        "first, or numbers of several places get into one vector": _as_they_lie,
        "all heads go through the columns of head 0": [
            _with(lambda w, h: _by_head(w, h)[:, :1].expand(-1, h, -1)),
        ],
        "the heads are averaged: their vectors are added": [
            lambda weights, values, out_weight: (
                _contributions(weights, values, out_weight) / weights.size(1)
            ),
        ],
        "the square root is missing: this is the square of the length": [
            _of(lambda x: x.square().sum(-1)),
        ],
        "the length is the sum of the numbers' sizes: it is the root of the sum of squares": [
            _of(lambda x: x.abs().sum(-1)),
        ],
        "the numbers of the vector are added up: a length is the root of the sum of squares": [
            _of(lambda x: x.sum(-1)),
            _of(lambda x: x.sum(-1).abs()),
        ],
        "the length is averaged over the numbers of the vector": [
            _of(lambda x: x.square().mean(-1).sqrt()),
            _of(lambda x: x.abs().mean(-1)),
        ],
        "the pieces are added up too: each piece has a length of its own": _whole_row,
        "each row is divided by its sum: the lengths themselves are asked for": _shares,
        "rows and columns of the map have changed places": _turned_map,
    },
    section="Are large weights on small vectors?",
)
