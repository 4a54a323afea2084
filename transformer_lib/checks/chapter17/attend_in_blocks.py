"""The exercise `attend_in_blocks`: what it asks for, and how its answers go wrong."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from transformer_lib.checks.chapter17 import blocks
from transformer_lib.checks.old.core import Case, Exercise
from transformer_lib.checks.old.inputs import in_float64, random_tensor, times
from transformer_lib.checks.old.modules import Flaw

_PRODUCTS = (torch.ops.aten.mm, torch.ops.aten.bmm)


class _Watch(TorchDispatchMode):
    """Notes whether a table of all queries by all keys is made, and how many keys meet at once."""

    def __init__(self, t: int, s: int, d: int, d_v: int) -> None:
        super().__init__()
        self.table, self.seen = {(t, s), (s, t)}, False
        self.t, self.d, self.d_v, self.keys = t, d, d_v, 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        if isinstance(out, Tensor):
            shape = tuple(out.shape[-2:])
            self.seen |= shape in self.table
            if func.overloadpacket in _PRODUCTS and args[0].shape[-1] == self.d:
                keys = shape[1] if shape[0] == self.t else shape[0] if shape[1] == self.t else 0
                self.keys = max(self.keys, keys if keys != self.d_v else 0)
        return out


def watched(
    answer: Callable[..., Any], /, query: Tensor, key: Tensor, value: Tensor, size: int
) -> Any:
    """The answer.

    Raises:
        Flaw: it was made the forbidden way.
    """
    (t, d), s = query.shape[-2:], key.shape[-2]
    with _Watch(t, s, d, value.shape[-1]) as watch:
        out = answer(query, key, value, size)
    if t == 1 or size >= s or not isinstance(out, Tensor):
        return out
    # In blocks of one key, one number for each block is a table of this size.
    if watch.seen and size > 1:
        raise Flaw("table", f"A table of all queries by all keys, {t} by {s}, is written down.")
    # A sum over `d` numbers is a score: no block of weights is as long.
    if watch.keys > size and d > size:
        raise Flaw(
            ("keys", watch.keys),
            f"The scores of {watch.keys} keys are made at once, and `size` is {size}.",
        )
    return out


def _case(label: str, batch: tuple[int, ...], t: int, s: int, d: int, d_v: int, size: int) -> Case:
    query, key, value = (
        random_tensor(*batch, *shape, seed=i) for i, shape in enumerate([(t, d), (s, d), (s, d_v)])
    )
    # Later keys fit better, so that the largest score moves.
    return Case(label, 2 * query, key * torch.linspace(0.3, 2, s)[:, None], value, size)


# A result with one more column, for the sum, must not look like a table of queries by keys: in no
# case is `s` or `t` one more than `d` or `d_v`.
def _near(score: float, label: str) -> Case:
    """Six keys whose scores are within a few of `score`."""
    query, key = torch.ones(3, 4), torch.full((6, 4), score / 2) + random_tensor(6, 4)
    return Case(label, query, key, random_tensor(6, 7, seed=1), 2)


_PRIMES = _case("7 queries, 11 keys in blocks of 4", (), 7, 11, 5, 3, 4)

ATTEND_IN_BLOCKS = Exercise(
    name="attend_in_blocks",
    reference=blocks.attend_in_blocks,
    cases=[
        _case("one query, one block", (), 1, 3, 2, 4, 3),
        _case("two queries, four keys in blocks of 2", (), 2, 4, 5, 7, 2),
        _PRIMES,
        _case("keys one at a time", (), 3, 5, 2, 11, 1),
        _case("a block larger than all keys", (), 3, 5, 2, 7, 8),
        _case("a batch with heads", (2, 3), 5, 13, 7, 9, 6),
        times(1e3, _PRIMES),
        _near(500.0, "scores around 500, all keys nearly alike"),
        _near(-500.0, "scores around -500, all keys nearly alike"),
        in_float64(_PRIMES),
    ],
    mistakes={
        "what was added before is not made smaller when a larger score turns up: sum and mixture "
        "are relative to an old maximum": [
            blocks.wrong(shrink=lambda top, new: (1.0, 1.0)),
            blocks.wrong(shrink=lambda top, new: (1.0, 1.0), new_top=lambda top, block: block),
        ],
        "the sum is made smaller, and the mixture is not": [
            blocks.wrong(shrink=lambda top, new: ((top - new).exp(), 1.0)),
        ],
        "the mixture is made smaller, and the sum is not": [
            blocks.wrong(shrink=lambda top, new: (1.0, (top - new).exp())),
        ],
        "the factor is upside down, exp(new - old): what came before must shrink": [
            blocks.wrong(shrink=lambda top, new: ((new - top).exp(), (new - top).exp())),
        ],
        "the factor stands at the new block: what came before must shrink": [
            blocks.wrong(
                weigh=lambda scores, top, new: (top - new).exp() * (scores - new).exp(),
                shrink=lambda top, new: (1.0, 1.0),
            ),
        ],
        "the new block's weights are relative to the old largest score, which begins at minus "
        "infinity: subtract the new one": [
            blocks.wrong(weigh=lambda scores, top, new: (scores - top).exp()),
        ],
        "the factor is the difference itself: exp is missing": [
            blocks.wrong(shrink=lambda top, new: (top - new, top - new)),
        ],
        "each block has a softmax of its own, and the answers are averaged: a block of poor keys "
        "then counts like one of good keys": [blocks.each_block("mean")],
        "each block has a softmax of its own, and the answers are added up: every block's weights "
        "sum to 1": [blocks.each_block("sum")],
        "no maximum is subtracted: exp of a large score is infinite, and infinite by infinite is "
        "NaN": blocks.no_top,
        "the largest score so far begins at 0: where all scores are far below 0, all weights are "
        "0, and 0 by 0 is NaN": blocks.wrong(
            new_top=lambda top, own: torch.maximum(top, own).clamp(0)
        ),
        "the largest score of the first block is kept for good: where a later block has a much "
        "larger one, exp of the difference is infinite": blocks.first_top,
        "the maximum is the block's own and not the largest so far: with it, exp(old - new) can be "
        "infinite": blocks.wrong(new_top=lambda top, block: block),
        "the scores are not divided by the root of d": blocks.wrong(scale=lambda q, v, size: 1.0),
        "the scores are divided by d and not by its root": [
            blocks.wrong(scale=lambda q, v, size: 1 / q.shape[-1]),
        ],
        "the scores are multiplied by the root of d": [
            blocks.wrong(scale=lambda q, v, size: q.shape[-1] ** 0.5),
        ],
        "a power binds before a division: d ** 1 / 2 is half of d, and the root is d ** 0.5": [
            blocks.wrong(scale=lambda q, v, size: 2 / q.shape[-1]),
        ],
        "the scores are divided by the root of something else: d is the width of a query": [
            blocks.wrong(scale=lambda q, v, size: v.shape[-1] ** -0.5),
            blocks.wrong(scale=lambda q, v, size: size**-0.5),
            blocks.wrong(scale=lambda q, v, size: v.shape[-2] ** -0.5),
        ],
        "d is read from the axis 1, which is the last one only where there are two: it is "
        "`query.shape[-1]`": blocks.wrong(scale=lambda q, v, size: q.shape[1] ** -0.5),
        "the division by the sum is missing at the end": blocks.wrong(end=lambda m, total: m),
        "the last block is left out where it is smaller than the others": [
            blocks.wrong(whole_blocks=True),
        ],
        "only the last block counts: what came before is not added, or the largest score so far is "
        "not kept for the next block": [
            blocks.wrong(add=lambda shrunk, own: own),
            blocks.top_not_kept,
        ],
        "one sum is kept for all queries: each query has a sum of its own": [
            blocks.widely("sum"),
            blocks.row_top_one_sum,
        ],
        "one largest score for all queries is subtracted: where a query's own are far below it, "
        "all its weights are 0, and 0 by 0 is NaN": blocks.widely("top"),
        "the mixture is divided by the sum in every block, and then divided again": [
            blocks.in_every_block,
        ],
        "the keys are cut along the first axis, as `split(size)` does if nobody says dim, and "
        "`key[i:j]` in any case: with a batch that is the batch": [
            blocks.by_first_axis,
            blocks.slices_of_the_first_axis,
        ],
        "`chunk(size)` makes `size` blocks: `split(size)` makes blocks of `size` keys": [
            blocks.in_parts(lambda key, size: key.chunk(size, -2)),
        ],
        "there is one block more than the keys fill, and it is empty: with `size` keys each, "
        "begin at 0, `size`, 2 `size` and so on, as long as that is below the number of keys": [
            blocks.one_block_too_many(lambda scores: scores.amax(-1, keepdim=True)),
            blocks.one_block_too_many(lambda scores: scores.max(-1, keepdim=True).values),
        ],
        "only the first block counts": blocks.one_block,
        "all weights are made at once: the numbers are right, but a table of all queries by all "
        "keys was written down": blocks.at_once,
    },
    use=watched,
    section="Can a softmax be cut into blocks?",
    advises=["dtype"],
)
