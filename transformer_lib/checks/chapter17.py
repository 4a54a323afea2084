"""Checkers for chapter 17, *Faster: attention in blocks*."""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor

from transformer_lib.checks import Case, Checker, Exercise, Flaw
from transformer_lib.checks.inputs import integers, normal

__all__ = ["check"]

# ------------------------------------------------------------------------------ attend_in_blocks

T, S, SIZE = 7, 11, 3
PRODUCTS = {"matmul", "__matmul__", "__rmatmul__", "mm", "bmm", "einsum"}


class Watched(Tensor):
    """Notices a table of its `T` queries by more than `SIZE` keys."""

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = super().__torch_function__(func, types, args, kwargs)
        pair = sorted(out.shape[-2:]) if isinstance(out, Tensor) else []
        if pair == [T, S]:
            raise Flaw(f"A table of all queries by all keys, {T} by {S}, is written down.")
        if func.__name__ in PRODUCTS and T in pair and sum(pair) - T > SIZE:
            raise Flaw(
                f"The scores of {sum(pair) - T} keys are computed at once, and `size` is {SIZE}."
            )
        return out

    def __deepcopy__(self, memo: Any) -> Tensor:
        return self.clone()


Pair = Callable[[Tensor, Tensor], tuple[Any, Any]]


def fading(top: Tensor, new: Tensor) -> tuple[Tensor, Tensor]:
    return (top - new).exp(), (top - new).exp()


def attend_in_blocks(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    size: int,
    *,
    shrink: Pair = fading,
    keep: Callable[[Tensor, Tensor], Tensor] = lambda top, new: new,
) -> Tensor:
    top = query.new_full((*query.shape[:-1], 1), -torch.inf)
    total, mixture = torch.zeros_like(top), query.new_zeros(*query.shape[:-1], value.shape[-1])
    for k, v in zip(key.split(size, -2), value.split(size, -2), strict=True):
        scores = query @ k.mT / query.shape[-1] ** 0.5
        new = torch.maximum(top, scores.amax(-1, keepdim=True))
        weights = (scores - new).exp()
        for_total, for_mixture = shrink(top, new)
        total = for_total * total + weights.sum(-1, keepdim=True)
        mixture = for_mixture * mixture + weights @ v
        top = keep(top, new)
    return mixture / total


def block_means(query: Tensor, key: Tensor, value: Tensor, size: int) -> Tensor:
    blocks = zip(key.split(size, -2), value.split(size, -2), strict=True)
    parts = [(query @ k.mT / query.shape[-1] ** 0.5).softmax(-1) @ v for k, v in blocks]
    return torch.stack(parts).mean(0)


def block_cases() -> list[Case]:
    def line(size: int, *scores: float, why: str) -> Case:
        """A query, and keys whose scores are `scores`."""
        keys = torch.tensor(scores).float()[:, None]
        return Case((torch.ones(1, 1), keys, torch.eye(len(scores)), size), why)

    def some(*batch: int, t: int, s: int, d: int, d_v: int, size: int, why: str) -> Case:
        query, key, value = (
            normal(*batch, *shape, seed=i) for i, shape in enumerate(((t, d), (s, d), (s, d_v)))
        )
        # Later keys fit better, so that the largest score moves.
        return Case((2 * query, key * torch.linspace(0.3, 2, s)[:, None], value, size), why)

    few = some(t=T, s=S, d=3, d_v=2, size=SIZE, why="no more than `size` keys are read at a time")
    query, key, value, size = few.args
    return [
        line(2, 0, 0, why="no score comes before the first block, and equal scores have equal "
             "weights"),
        line(2, 0, 0, 0, why="the last block may be smaller"),
        Case(
            (3 * torch.eye(1, 9), torch.tensor([[1.0], [2]]) * torch.eye(1, 9), torch.eye(2), 2),
            "the scores are divided by √d, here 3, before exp",
        ),
        line(1, 1, 2, why="after a larger score, what was added before counts for less"),
        line(1, 2, 1, why="after a smaller score, what was added before counts as it did"),
        line(5, 0, 1, why="a block may have room for more than all keys"),
        Case(
            (integers(2, 3), integers(4, 3, seed=1), integers(4, 2, seed=2), 2),
            "each query has a largest score and a sum of its own",
        ),
        some(3, t=5, s=9, d=7, d_v=2, size=2, why="the keys are the second axis from the right"),
        some(2, 3, t=5, s=13, d=7, d_v=9, size=6, why="there may be several axes in front"),
        line(1, 1, 300, 2, why="exp must not overflow, whatever order large scores come in"),
        line(1, -300, -301, why="all scores may lie far below 0"),
        Case(
            (
                2 * torch.eye(2, 4),
                torch.tensor([[300.0, 1, 0, 0], [301, 2, 0, 0]]),
                torch.eye(2),
                1,
            ),
            "a query's scores may all lie far below those of another query",
        ),
        Case((query.as_subclass(Watched), key, value, size), few.why),
    ]  # fmt: skip


blocks = partial(partial, attend_in_blocks)

ATTEND_IN_BLOCKS = Exercise(
    name="attend_in_blocks",
    reference=attend_in_blocks,
    cases=block_cases,
    section="Can a softmax be cut into blocks?",
    mistakes={
        "the sum shrinks, but the mixture doesn't": blocks(
            shrink=lambda top, new: ((top - new).exp(), 1)
        ),
        "the mixture shrinks, but the sum doesn't": blocks(
            shrink=lambda top, new: (1, (top - new).exp())
        ),
        "the largest score so far isn't kept for the next block": blocks(keep=lambda top, new: top),
        "each block has a softmax of its own, and the results are averaged": block_means,
    },
)

# ------------------------------------------------------------------------------------- gpt_flops


def gpt_flops(
    n: int,
    d_model: int,
    d_ff: int,
    n_layers: int,
    vocab_size: int,
) -> float:
    layer = 4 * d_model**2 + 2 * d_model * d_ff
    matrices = 6 * n * (n_layers * layer + vocab_size * d_model)
    return float(matrices + 12 * n_layers * d_model * n**2)


GPT_FLOPS = Exercise(
    name="gpt_flops",
    reference=gpt_flops,
    cases=lambda: [
        Case((10, 3, 5, 0, 7), "without layers, only the logits are left, forward and back"),
        Case((1, 3, 0, 1, 0), "with an inner width of 0 and no vocabulary, attention is left: its "
             "matrices and its tables"),
        Case((10, 3, 0, 1, 0), "the work of attention's tables grows with the square of the "
             "length; a mask saves nothing: all n · n scores are computed"),
        Case((1, 3, 5, 1, 0), "now there is a feed-forward network, too, of inner width 5"),
        Case((1, 3, 5, 2, 0), "each layer has all of its products"),
        Case((7, 5, 11, 3, 13), "all sizes count together"),
        Case((512, 768, 3072, 12, 40_478), "this is GPT at 512 tokens"),
    ],
    section="How long will a run take?",
    mistakes={
        "a multiplication and the addition that follows count as one": (
            lambda *sizes: gpt_flops(*sizes) / 2
        ),
        "the backward pass counts once: it has two products for each one forward": (
            lambda *sizes: gpt_flops(*sizes) * 2 / 3
        ),
        "looking up the embedding is counted: it multiplies nothing": (
            lambda n, d, f, layers, v: gpt_flops(n, d, f, layers, 2 * v)
        ),
        "6 d² is taken from (17.3), cross-attention included: a decoder alone has 4 d²": (
            lambda n, d, f, layers, v: gpt_flops(n, d, f, layers, v) + 12 * n * layers * d**2
        ),
    },
)  # fmt: skip

# ---------------------------------------------------------------------------------- loss_weights

Counts = list[list[int]]
Weight = Callable[[int, list[int], Counts], float]


def labels(counts: Counts) -> int:
    return sum(map(sum, counts))


def loss_weights(
    counts: Counts,
    *,
    weight: Weight = lambda n, own, counts: n * len(counts) / labels(counts),
) -> list[list[float]]:
    return [[weight(n, own, counts) for n in own] for own in counts]


weighted = partial(partial, loss_weights)

LOSS_WEIGHTS = Exercise(
    name="loss_weights",
    reference=loss_weights,
    cases=lambda: [
        Case(([[5]],), "a single part on a single rank needs no change"),
        Case(([[30, 10]],), "the gradients of a rank's parts are added up, and each label counts "
             "the same"),
        Case(([[30], [10]],), "the gradients of the ranks are averaged, and each label counts the "
             "same"),
        Case(([[7, 5], [3, 2]],), "parts are added up, and ranks are averaged"),
        Case(([[30, 10], [20]],), "ranks may have different numbers of parts"),
        Case(([[2, 3, 5], [7], [11, 13]],), "there may be more than two ranks"),
    ],
    section="What if an update is too large for one machine?",
    mistakes={
        "the mean over the ranks is forgotten: averaging divides by their number once "
        "more": weighted(
            weight=lambda n, own, counts: n / labels(counts)
        ),
        "each part of a rank counts the same: a label in a short part then counts for more": (
            weighted(weight=lambda n, own, counts: 1 / len(own))
        ),
        "a part is divided by its own rank's labels: each rank then counts the same": weighted(
            weight=lambda n, own, counts: n / sum(own)
        ),
        "the part's own number of labels is missing: its mean must become a sum": weighted(
            weight=lambda n, own, counts: len(counts) / labels(counts)
        ),
    },
)  # fmt: skip

check = Checker(GPT_FLOPS, ATTEND_IN_BLOCKS, LOSS_WEIGHTS)
