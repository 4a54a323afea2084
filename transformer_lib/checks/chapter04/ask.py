"""The exercise `ask`: what it asks for, and how its answers go wrong."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor

from transformer_lib.checks.old.compare import rows_sum_to_one
from transformer_lib.checks.old.core import Case, Exercise
from transformer_lib.checks.old.inputs import random_tensor

_CROSS = ' (see the section "What if the question comes from another sentence?")'

Roles = tuple[Tensor, Tensor, Tensor]  # who asks, who is found, who answers


def _ask(
    x: Tensor,
    W_q: Tensor,
    W_k: Tensor,
    W_v: Tensor,
    memory: Tensor | None = None,
    *,
    roles: Callable[[Tensor, Tensor], Roles] = lambda x, m: (x, m, m),
    matrices: Callable[[Tensor, Tensor, Tensor], Roles] = lambda q, k, v: (q, k, v),
    project: Callable[[Tensor, Tensor], Tensor] = lambda x, W: x @ W,
    values: Callable[[Tensor, Tensor], Tensor] | None = None,
    turn: Callable[[Tensor], Tensor] = lambda key: key.transpose(-2, -1),
    scale: Callable[[Tensor, Tensor, Tensor, Tensor], float] = lambda x, k, v, m: (
        k.shape[-1] ** -0.5
    ),
    weigh: Callable[[Tensor], Tensor] = lambda scores: scores.softmax(dim=-1),
) -> tuple[Tensor, Tensor]:
    """The formula in steps, of which a mistake replaces one."""
    memory = x if memory is None else memory
    W_q, W_k, W_v = matrices(W_q, W_k, W_v)
    asks, found, answers = roles(x, memory)
    query, key = project(asks, W_q), project(found, W_k)
    value = (values or project)(answers, W_v)
    weights = weigh(query @ turn(key) * scale(x, key, value, memory))
    return weights @ value, weights


def _reference(
    x: Tensor, W_q: Tensor, W_k: Tensor, W_v: Tensor, memory: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    return _ask(x, W_q, W_k, W_v, memory)


def _but(**step: Callable) -> Callable:
    return partial(_ask, **step)


def _part(part: Callable[[Tensor, Tensor], object]) -> Callable[..., object]:
    """An answer that computes the right thing and returns it in another way."""
    return lambda x, W_q, W_k, W_v, memory=None: part(*_ask(x, W_q, W_k, W_v, memory))


def _memory_or_x(
    x: Tensor, W_q: Tensor, W_k: Tensor, W_v: Tensor, memory: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    return _ask(x, W_q, W_k, W_v, memory or x)


def _if_memory(
    x: Tensor, W_q: Tensor, W_k: Tensor, W_v: Tensor, memory: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    return _ask(x, W_q, W_k, W_v, memory if memory else x)


def _causal(
    x: Tensor, W_q: Tensor, W_k: Tensor, W_v: Tensor, memory: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    def weigh(scores: Tensor) -> Tensor:
        future = torch.ones(scores.shape[-2:]).tril() == 0
        return scores.masked_fill(future, float("-inf")).softmax(-1)

    return _ask(x, W_q, W_k, W_v, memory, weigh=weigh)


def _none_multiplied(
    x: Tensor, W_q: Tensor, W_k: Tensor, W_v: Tensor, memory: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    asked: Any = memory
    _ = asked @ W_k
    return _ask(x, W_q, W_k, W_v, memory)


def _case(label: str, x: tuple, memory: tuple | None, d_k: int, d_v: int) -> Case:
    """The parameters are passed in order: a learner may call them differently."""
    d_x, d_m = x[-1], (memory or x)[-1]
    W = [random_tensor(*shape, seed=seed) for seed, shape in
         enumerate(((d_x, d_k), (d_m, d_k), (d_m, d_v)), start=1)]  # fmt: skip
    asked = [] if memory is None else [random_tensor(*memory, seed=4)]
    return Case(label, random_tensor(*x), *W, *asked)


ASK = Exercise(
    name="ask",
    reference=_reference,
    cases=[
        _case("one word asks itself", (1, 2), None, 2, 2),
        _case("self-attention, 3 words, all widths 2", (3, 2), None, 2, 2),
        _case("self-attention, 4 words, d_x = 5, d_k = 3, d_v = 2", (4, 5), None, 3, 2),
        _case("cross-attention, 3 ask 3, all widths 2", (3, 2), (3, 2), 2, 2),
        _case("cross-attention, 2 ask 5, all widths 3", (2, 3), (5, 3), 3, 3),
        _case("cross-attention, d_x = 5, d_m = 7, d_k = 3, d_v = 4", (2, 5), (6, 7), 3, 4),
        _case("a batch of 2, self-attention", (2, 5, 3), None, 4, 7),
        _case("2 by 3 batches, cross-attention", (2, 3, 4, 5), (2, 3, 7, 6), 3, 2),
    ],
    mistakes={
        "`memory` is not used: x asks x even where somebody else is to be asked": [
            _but(roles=lambda x, m: (x, x, x)),
        ],
        "the sides have changed places: `memory` asks and x is asked. Whoever asks gets the "
        "answers, one row each" + _CROSS: _but(roles=lambda x, m: (m, x, x)),
        "the values come from x: those who are asked have to answer" + _CROSS: [
            _but(roles=lambda x, m: (x, m, x)),
        ],
        "the keys come from x, so x is searched and `memory` answers" + _CROSS: [
            _but(roles=lambda x, m: (x, x, m)),
        ],
        "the queries come from `memory` as well: x never asks" + _CROSS: [
            _but(roles=lambda x, m: (m, m, m)),
        ],
        "x and `memory` are put one behind the other and asked together: only `memory` is asked": [
            lambda x, W_q, W_k, W_v, memory=None: _ask(
                x, W_q, W_k, W_v, x if memory is None else torch.cat([x, memory], -2)
            ),
        ],
        "`memory or x` asks a tensor whether it is true: ask whether `memory is None`": [
            _memory_or_x,
            _if_memory,
        ],
        "`memory` is None in self-attention, and None is no tensor: x takes its place": [
            _none_multiplied,
        ],
        "W_q and W_k have changed places": _but(matrices=lambda q, k, v: (k, q, v)),
        "W_k and W_v have changed places": _but(matrices=lambda q, k, v: (q, v, k)),
        "one projection does for all three: W_k and W_v are not used": [
            _but(matrices=lambda q, k, v: (q, q, q)),
        ],
        "the matrices are transposed, as nn.Linear keeps them: here it is x @ W": [
            _but(project=lambda x, W: x @ W.mT),
        ],
        "the values are not projected: the bare vectors are mixed, and W_v is not used": [
            _but(values=lambda answers, W: answers),
        ],
        "the keys are mixed where the values should be": [
            lambda x, W_q, W_k, W_v, memory=None: _ask(x, W_q, W_k, W_k, memory),
        ],
        "the scores are not divided by anything": _but(scale=lambda x, k, v, m: 1.0),
        "the scores are divided by d_k and not by its root": [
            _but(scale=lambda x, k, v, m: 1 / k.shape[-1]),
        ],
        "the root is taken of the width of x: d_k is the width that queries and keys share after "
        "their projections": _but(scale=lambda x, k, v, m: x.shape[-1] ** -0.5),
        "the scores are multiplied by the root of d_k instead of divided": [
            _but(scale=lambda x, k, v, m: k.shape[-1] ** 0.5),
        ],
        "the root is taken of the width of `memory`: d_k is the width that queries and keys share "
        "after their projections": _but(scale=lambda x, k, v, m: m.shape[-1] ** -0.5),
        "a causal mask is left over from chapter 2: here everybody may ask everybody": _causal,
        "the scores are returned where the weights should be: before the softmax, they are no "
        "weights": [
            lambda x, W_q, W_k, W_v, memory=None: (
                _ask(x, W_q, W_k, W_v, memory)[0],
                _ask(x, W_q, W_k, W_v, memory, weigh=lambda scores: scores)[1],
            ),
        ],
        "the weights are returned on their side: those who ask are rows": [
            _part(lambda output, weights: (output, weights.mT)),
        ],
        "the root is taken of the width of the values": [
            _but(scale=lambda x, k, v, m: v.shape[-1] ** -0.5),
        ],
        "the root is taken of a number of words and not of a width": [
            _but(scale=lambda x, k, v, m: x.shape[-2] ** -0.5),
            _but(scale=lambda x, k, v, m: m.shape[-2] ** -0.5),
            _but(scale=lambda x, k, v, m: len(m) ** -0.5),
            _but(scale=lambda x, k, v, m: len(x) ** -0.5),
        ],
        "the softmax runs over those who ask: each column sums to 1 and not each row": [
            _but(weigh=lambda scores: scores.softmax(-2)),
        ],
        "the softmax has a fixed axis, counted from the front: with a batch that is another axis": [
            _but(weigh=lambda scores: scores.softmax(1)),
            _but(weigh=lambda scores: scores.softmax(0)),
        ],
        "there is no softmax: the scores themselves mix the values": [
            _but(weigh=lambda scores: scores),
        ],
        "all axes of the keys are reversed (.T): with a batch in front, only the last two may "
        "change places": _but(turn=lambda key: key.permute(*reversed(range(key.dim())))),
        "the keys are turned by axes counted from the front: with a batch in front, only the last "
        "two may change places": [
            _but(turn=lambda key: key.transpose(0, 1)),
            _but(turn=lambda key: key.transpose(1, 2)),
        ],
        "the keys are not transposed": _but(turn=lambda key: key),
        "the output is right, but the weights are to be returned with it": [
            _part(lambda output, weights: output),
        ],
        "weights and output are returned in the wrong order: output first": [
            _part(lambda output, weights: (weights, output)),
        ],
    },
    section="What if each word may ask all the others?",
    properties=[rows_sum_to_one],
)
