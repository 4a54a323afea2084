"""The exercise `attend_in_blocks`: what it asks for, and how its answers go wrong."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from transformer_lib.checks.core import Case, Exercise
from transformer_lib.checks.inputs import in_float64, random_tensor, times
from transformer_lib.checks.modules import Flaw


class _Watch(TorchDispatchMode):
    """Notes whether a table of all queries by all keys is made."""

    def __init__(self, t: int, s: int) -> None:
        super().__init__()
        self.table, self.seen = {(t, s), (s, t)}, False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        if isinstance(out, Tensor) and tuple(out.shape[-2:]) in self.table:
            self.seen = True
        return out


def watched(
    answer: Callable[..., Any], /, query: Tensor, key: Tensor, value: Tensor, size: int
) -> Any:
    """The answer.

    Raises:
        Flaw: it was made the forbidden way.
    """
    t, s = query.shape[-2], key.shape[-2]
    with _Watch(t, s) as watch:
        out = answer(query, key, value, size)
    # In blocks of one key, one number for each block is a table of this size.
    if watch.seen and 1 < size < s and t > 1 and isinstance(out, Tensor):
        raise Flaw("table", f"A table of all queries by all keys, {t} by {s}, is written down.")
    return out


def _scale(query: Tensor, value: Tensor, size: int) -> float:
    return query.shape[-1] ** -0.5


def _attend_in_blocks(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    size: int,
    *,
    scale: Callable[[Tensor, Tensor, int], float] = _scale,
    new_top: Callable[[Tensor, Tensor], Tensor] = torch.maximum,
    shrink: Callable[[Tensor, Tensor], tuple[Tensor | float, Tensor | float]] = lambda top, new: (
        (top - new).exp(),
        (top - new).exp(),
    ),
    add: Callable[[Tensor | float, Tensor], Tensor] = lambda shrunk, own: shrunk + own,
    end: Callable[[Tensor, Tensor], Tensor] = lambda mixture, total: mixture / total,
    whole_blocks: bool = False,
) -> Tensor:
    """Block by block, with parts that a mistake replaces."""
    last = key.shape[-2] // size * size if whole_blocks else key.shape[-2]
    top = query.new_full((*query.shape[:-1], 1), -torch.inf)
    total, mixture = torch.zeros_like(top), query.new_zeros(*query.shape[:-1], value.shape[-1])
    for start in range(0, last, size):
        rows = slice(start, min(start + size, last))
        scores = query @ key[..., rows, :].mT * scale(query, value, size)
        new = new_top(top, scores.amax(-1, keepdim=True))
        weights = (scores - new).exp()
        first, second = shrink(top, new)
        if start == 0:
            first = second = 0.0
        total = add(first * total, weights.sum(-1, keepdim=True))
        mixture = add(second * mixture, weights @ value[..., rows, :])
        top = new
    return end(mixture, total)


def _wrong(**parts: Any) -> Callable[..., Tensor]:
    return lambda query, key, value, size: _attend_in_blocks(query, key, value, size, **parts)


def _each_block(how: str) -> Callable[..., Tensor]:
    def answer(query: Tensor, key: Tensor, value: Tensor, size: int) -> Tensor:
        found = []
        for k, v in zip(key.split(size, -2), value.split(size, -2), strict=True):
            scores = query @ k.mT * query.shape[-1] ** -0.5
            found.append(scores.softmax(-1) @ v)
        return torch.stack(found).mean(0) if how == "mean" else torch.stack(found).sum(0)

    return answer


def _no_top(query: Tensor, key: Tensor, value: Tensor, size: int) -> Tensor:
    return _attend_in_blocks(
        query, key, value, size,
        new_top=lambda top, block: torch.zeros_like(block),
        shrink=lambda top, new: (1.0, 1.0),
    )  # fmt: skip


def _first_top(query: Tensor, key: Tensor, value: Tensor, size: int) -> Tensor:
    return _attend_in_blocks(
        query, key, value, size,
        new_top=lambda top, block: torch.where(top == -torch.inf, block, top),
        shrink=lambda top, new: (1.0, 1.0),
    )  # fmt: skip


def _at_once(query: Tensor, key: Tensor, value: Tensor, size: int) -> Tensor:
    return (query @ key.mT * query.shape[-1] ** -0.5).softmax(-1) @ value


def _by_first_axis(query: Tensor, key: Tensor, value: Tensor, size: int) -> Tensor:
    """Blocks of a batch, each of which sees all its keys; in two dimensions all is well."""
    top, total, mixture = query.new_tensor(-torch.inf), 0.0, 0.0
    for k, v in zip(key.split(size), value.split(size), strict=True):
        scores = query @ k.mT * query.shape[-1] ** -0.5
        new = torch.maximum(top, scores.amax(-1, keepdim=True))
        shrink, weights = (top - new).exp(), (scores - new).exp()
        total = shrink * total + weights.sum(-1, keepdim=True)
        mixture = shrink * mixture + weights @ v
        top = new
    return mixture / total  # type: ignore[operator]


def _widely(reach: str) -> Callable[..., Tensor]:
    """One largest score for all queries, and, if ``reach`` says so, one sum."""

    def answer(query: Tensor, key: Tensor, value: Tensor, size: int) -> Tensor:
        top, total, mixture = query.new_tensor(-torch.inf), 0.0, 0.0
        for k, v in zip(key.split(size, -2), value.split(size, -2), strict=True):
            scores = query @ k.mT * query.shape[-1] ** -0.5
            new = torch.maximum(top, scores.max())
            shrink, weights = (top - new).exp(), (scores - new).exp()
            own = weights.sum() if reach == "sum" else weights.sum(-1, keepdim=True)
            total = shrink * total + own
            mixture = shrink * mixture + weights @ v
            top = new
        return mixture / total  # type: ignore[operator]

    return answer


def _row_top_one_sum(query: Tensor, key: Tensor, value: Tensor, size: int) -> Tensor:
    top, total, mixture = query.new_full((*query.shape[:-1], 1), -torch.inf), 0.0, 0.0
    for k, v in zip(key.split(size, -2), value.split(size, -2), strict=True):
        scores = query @ k.mT * query.shape[-1] ** -0.5
        new = torch.maximum(top, scores.amax(-1, keepdim=True))
        shrink, weights = (top - new).exp(), (scores - new).exp()
        total = shrink * total + weights.sum()
        mixture = shrink * mixture + weights @ v
        top = new
    return mixture / total  # type: ignore[operator]


def _in_every_block(query: Tensor, key: Tensor, value: Tensor, size: int) -> Tensor:
    top, total, out = query.new_full((*query.shape[:-1], 1), -torch.inf), 0.0, 0.0
    for k, v in zip(key.split(size, -2), value.split(size, -2), strict=True):
        scores = query @ k.mT * query.shape[-1] ** -0.5
        new = torch.maximum(top, scores.amax(-1, keepdim=True))
        shrink, weights = (top - new).exp(), (scores - new).exp()
        total = shrink * total + weights.sum(-1, keepdim=True)
        out = (shrink * out + weights @ v) / total
        top = new
    return out  # type: ignore[return-value]


def _top_not_kept(query: Tensor, key: Tensor, value: Tensor, size: int) -> Tensor:
    """The old maximum stays at minus infinity, so nothing of what came before is left."""
    last = (key.shape[-2] - 1) // size * size
    return _attend_in_blocks(query, key[..., last:, :], value[..., last:, :], size)


def _one_block(query: Tensor, key: Tensor, value: Tensor, size: int) -> Tensor:
    return _attend_in_blocks(query, key[..., :size, :], value[..., :size, :], size)


def _case(label: str, batch: tuple[int, ...], t: int, s: int, d: int, d_v: int, size: int) -> Case:
    query, key, value = (
        random_tensor(*batch, *shape, seed=i) for i, shape in enumerate([(t, d), (s, d), (s, d_v)])
    )
    # Later keys fit better, so that the largest score moves.
    return Case(label, 2 * query, key * torch.linspace(0.3, 2, s)[:, None], value, size)


def _near(score: float, label: str) -> Case:
    """Six keys whose scores are within a few of `score`."""
    query, key = torch.ones(3, 4), torch.full((6, 4), score / 2) + random_tensor(6, 4)
    return Case(label, query, key, random_tensor(6, 5, seed=1), 2)


_PRIMES = _case("7 queries, 11 keys in blocks of 4", (), 7, 11, 5, 3, 4)

ATTEND_IN_BLOCKS = Exercise(
    name="attend_in_blocks",
    reference=_attend_in_blocks,
    cases=[
        _case("one query, one block", (), 1, 3, 2, 4, 3),
        _case("two queries, four keys in blocks of 2", (), 2, 4, 3, 5, 2),
        _PRIMES,
        _case("keys one at a time", (), 3, 5, 2, 7, 1),
        _case("a block larger than all keys", (), 3, 5, 2, 7, 8),
        _case("a batch with heads", (2, 3), 5, 13, 7, 4, 6),
        times(1e3, _PRIMES),
        _near(500.0, "scores around 500, all keys nearly alike"),
        _near(-500.0, "scores around -500, all keys nearly alike"),
        in_float64(_PRIMES),
    ],
    mistakes={
        "what was added before is not made smaller when a larger score turns up: sum and mixture "
        "are relative to an old maximum": [
            _wrong(shrink=lambda top, new: (1.0, 1.0)),
            _wrong(shrink=lambda top, new: (1.0, 1.0), new_top=lambda top, block: block),
        ],
        "the sum is made smaller, and the mixture is not": [
            _wrong(shrink=lambda top, new: ((top - new).exp(), 1.0)),
        ],
        "the mixture is made smaller, and the sum is not": [
            _wrong(shrink=lambda top, new: (1.0, (top - new).exp())),
        ],
        "the factor is upside down, exp(new - old): what came before must shrink": [
            _wrong(shrink=lambda top, new: ((new - top).exp(), (new - top).exp())),
        ],
        "the factor is the difference itself: exp is missing": [
            _wrong(shrink=lambda top, new: (top - new, top - new)),
        ],
        "each block has a softmax of its own, and the answers are averaged: a block of poor keys "
        "then counts like one of good keys": [_each_block("mean")],
        "each block has a softmax of its own, and the answers are added up: every block's weights "
        "sum to 1": [_each_block("sum")],
        "no maximum is subtracted: exp of a large score is infinite, and infinite by infinite is "
        "NaN": _no_top,
        "the largest score so far begins at 0: where all scores are far below 0, all weights are "
        "0, and 0 by 0 is NaN": _wrong(new_top=lambda top, own: torch.maximum(top, own).clamp(0)),
        "the largest score of the first block is kept for good: where a later block has a much "
        "larger one, exp of the difference is infinite": _first_top,
        "the maximum is the block's own and not the largest so far: with it, exp(old - new) can be "
        "infinite": _wrong(new_top=lambda top, block: block),
        "the scores are not divided by the root of d": _wrong(scale=lambda q, v, size: 1.0),
        "the scores are divided by d and not by its root": [
            _wrong(scale=lambda q, v, size: 1 / q.shape[-1]),
        ],
        "the scores are multiplied by the root of d": [
            _wrong(scale=lambda q, v, size: q.shape[-1] ** 0.5),
        ],
        "a power binds before a division: d ** 1 / 2 is half of d, and the root is d ** 0.5": [
            _wrong(scale=lambda q, v, size: 2 / q.shape[-1]),
        ],
        "the scores are divided by the root of something else: d is the width of a query": [
            _wrong(scale=lambda q, v, size: v.shape[-1] ** -0.5),
            _wrong(scale=lambda q, v, size: size**-0.5),
        ],
        "the division by the sum is missing at the end": _wrong(end=lambda m, total: m),
        "the last block is left out where it is smaller than the others": [
            _wrong(whole_blocks=True),
        ],
        "only the last block counts: what came before is not added, or the largest score so far is "
        "not kept for the next block": [_wrong(add=lambda shrunk, own: own), _top_not_kept],
        "one sum is kept for all queries: each query has a sum of its own": [
            _widely("sum"),
            _row_top_one_sum,
        ],
        "one largest score for all queries is subtracted: where a query's own are far below it, "
        "all its weights are 0, and 0 by 0 is NaN": _widely("top"),
        "the mixture is divided by the sum in every block, and then divided again": [
            _in_every_block,
        ],
        "the keys are cut along the first axis, which split does if nobody says dim: with a batch "
        "that is the batch": _by_first_axis,
        "only the first block counts": _one_block,
        "all weights are made at once: the numbers are right, but a table of all queries by all "
        "keys was written down": _at_once,
    },
    use=watched,
    section="Can a softmax be cut into blocks?",
    advises=["dtype"],
)
