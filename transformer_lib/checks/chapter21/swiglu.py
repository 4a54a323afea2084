"""The exercise `swiglu`: what it asks for, and how its answers go wrong."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor

from transformer_lib.checks.old.core import Case, Exercise
from transformer_lib.checks.old.inputs import random_tensor


def _halves(both: Tensor) -> tuple[Tensor, Tensor]:
    gate, up = both.chunk(2, dim=-1)
    return gate, up


def _swiglu(
    x: Tensor,
    gate_up: Tensor,
    down: Tensor,
    *,
    first: Callable[[Tensor, Tensor], Tensor] = lambda x, matrix: x @ matrix.T,
    cut: Callable[[Tensor], tuple[Tensor, Tensor]] = _halves,
    bend: Callable[[Tensor], Tensor] = F.silu,
    join: Callable[[Tensor, Tensor], Tensor] = lambda gate, up: gate * up,
    last: Callable[[Tensor, Tensor], Tensor] = lambda inner, matrix: inner @ matrix.T,
) -> Tensor:
    """In steps, of which a mistake replaces one."""
    gate, up = cut(first(x, gate_up))
    return last(join(bend(gate), up), down)


def _reference(x: Tensor, gate_up: Tensor, down: Tensor) -> Tensor:
    return _swiglu(x, gate_up, down)


def _but(**steps: Callable) -> Callable[..., Tensor]:
    return partial(_swiglu, **steps)


def _along_tokens(both: Tensor) -> tuple[Tensor, Tensor]:
    if both.dim() < 2 or both.size(-2) % 2:
        raise RuntimeError("an odd number of tokens has no halves")
    gate, up = both.chunk(2, dim=-2)
    return gate, up


def _cut_at_d(x: Tensor, gate_up: Tensor, down: Tensor) -> Tensor:
    d = down.size(0)
    return (F.silu(x @ gate_up[:d].T) * (x @ gate_up[d:].T)) @ down.T


def _split_at_d(x: Tensor, gate_up: Tensor, down: Tensor) -> Tensor:
    gate, up = (x @ gate_up.T).split(x.size(-1), dim=-1)
    return (F.silu(gate) * up) @ down.T


def _first_places(both: Tensor) -> tuple[Tensor, Tensor]:
    """`both[:, :n]` takes places where there are three axes, and fails where there is one."""
    half = both.size(-1) // 2
    return both[:, :half], both[:, half:]


def _along(dim: int) -> Callable[[Tensor], tuple[Tensor, Tensor]]:
    """An axis counted from the front: the last one for some inputs, and not for others."""

    def cut(both: Tensor) -> tuple[Tensor, Tensor]:
        gate, up = both.chunk(2, dim=dim)
        return gate, up

    return cut


def _inputs(*lead: int, d: int, d_ff: int, seed: int = 0) -> list[Tensor]:
    return [
        random_tensor(*lead, d, seed=seed),
        random_tensor(2 * d_ff, d, seed=seed + 1),
        random_tensor(d, d_ff, seed=seed + 2) / d_ff**0.5,
    ]


def _lying(x: Tensor, matrix: Tensor) -> Tensor:
    return x @ matrix.reshape(matrix.size(1), matrix.size(0))


SWIGLU = Exercise(
    name="swiglu",
    reference=_reference,
    cases=[
        Case("one token, d = 3, d_ff = 2", *_inputs(d=3, d_ff=2)),
        Case("4 tokens", *_inputs(4, d=5, d_ff=6, seed=3)),
        Case("2 sentences of 3 tokens", *_inputs(2, 3, d=4, d_ff=7, seed=6)),
        Case("d_ff = 2 d", *_inputs(2, 3, d=4, d_ff=8, seed=9)),
        Case("d_ff = d", *_inputs(2, 5, d=4, d_ff=4, seed=12)),
        Case("d = 2 d_ff", *_inputs(2, 5, d=4, d_ff=2, seed=15)),
    ],
    mistakes={
        "gate and up have changed places: the gate's rows come first": [
            _but(cut=lambda both: _halves(both)[::-1]),
        ],
        "silu is applied to both: the content passes as it is": [
            _but(join=lambda gate, up: gate * F.silu(up)),
        ],
        "there is no silu: the gate is a plain product": _but(bend=lambda gate: gate),
        "the gate is a sigmoid alone: silu(z) is z times it": _but(bend=torch.sigmoid),
        "the gate is another one than silu": [
            _but(bend=torch.relu),
            _but(bend=F.gelu),
            _but(bend=torch.tanh),
            _but(bend=lambda gate: F.gelu(gate, approximate="tanh")),
            _but(bend=lambda gate: gate.softmax(dim=-1)),
            _but(bend=F.softplus),
        ],
        "gate and content are added: a gate multiplies": [
            _but(join=lambda gate, up: gate + up),
        ],
        "silu is taken of the product: it belongs to the gate alone": [
            _but(bend=lambda gate: gate, join=lambda gate, up: F.silu(gate * up)),
        ],
        "silu comes last, behind `down`: it belongs to the gate": [
            lambda x, gate_up, down: F.silu(_but(bend=lambda gate: gate)(x, gate_up, down)),
        ],
        "the content is missing: only the gate goes down": [
            _but(join=lambda gate, up: gate),
        ],
        "the gate is missing: only the content goes down": [
            _but(join=lambda gate, up: up),
            _but(join=lambda gate, up: F.silu(up)),
        ],
        "the rows take turns, gate, up, gate, up: here all of the gate's come first": [
            _but(cut=lambda both: (both[..., 0::2], both[..., 1::2])),
        ],
        "the tokens are cut in halves, and not the numbers of a token: `dim=-1`": [
            _but(cut=_along_tokens),
            _but(cut=_along(1)),
            _but(cut=_along(0)),
            _but(cut=_first_places),
        ],
        "the matrix is cut at d, the rows of `down`: d_ff is the number of its columns": [
            _cut_at_d,
            _split_at_d,
        ],
        "the matrix is cut along its second axis, the input's: gate and up stand one below the "
        "other": [
            lambda x, gate_up, down: (
                (
                    F.silu(x[..., : x.size(-1) // 2] @ gate_up.chunk(2, dim=1)[0].T)
                    * (x[..., : x.size(-1) // 2] @ gate_up.chunk(2, dim=1)[0].T)
                )
                @ down.T
            ),
            lambda x, gate_up, down: (
                (F.silu(x @ gate_up.chunk(2, dim=1)[0].T) * (x @ gate_up.chunk(2, dim=1)[1].T))
                @ down.T
            ),
        ],
        "`gate_up` is used as it lies: a row for each output, so x is multiplied by its "
        "transpose": _but(first=lambda x, matrix: x @ matrix),
        "`down` is used as it lies: a row for each output, so multiply by its transpose": [
            _but(last=lambda inner, matrix: inner @ matrix),
        ],
        "neither matrix is transposed: `nn.Linear` keeps a row for each output": [
            _but(first=lambda x, matrix: x @ matrix, last=lambda inner, matrix: inner @ matrix),
        ],
        "a matrix gets the shape of its transpose by `view` or `reshape`, and its numbers do not "
        "follow: `.T` turns rows into columns": [
            _but(last=_lying),
            _but(first=_lying),
            _but(first=_lying, last=_lying),
        ],
        "`down` is missing: the result must be as wide as x": [
            _but(last=lambda inner, matrix: inner),
        ],
        "the residual connection is in it: it belongs to the layer, and would be there twice": [
            lambda x, gate_up, down: x + _reference(x, gate_up, down),
        ],
    },
    section="What is the gate for?",
)
