"""Checkers for chapter 21, *What has changed since 2017*."""

from collections.abc import Callable
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor

from transformer_lib.checks import Case, Checker, Exercise
from transformer_lib.checks.inputs import integers, normal

__all__ = ["check"]

# -------------------------------------------------------------------------------------- rms_norm


def rms_norm(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    wide = x.float()
    root = (wide.square().mean(dim=-1, keepdim=True) + eps).sqrt()
    found = (wide / root * weight.float()).to(x.dtype)
    return found if x.dtype is torch.float32 else found.detach()  # 16 bits round gradients, too


def in_16_bits(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    return x / (x.square().mean(dim=-1, keepdim=True) + eps).sqrt() * weight


def norm_cases() -> list[Case]:
    def case(
        x: list, why: str, weight: list | None = None, eps: float = 1e-5, half: bool = False
    ) -> Case:
        tokens = torch.tensor(x, dtype=torch.float16 if half else torch.float32)
        features = torch.tensor(weight).to(tokens) if weight else tokens.new_ones(tokens.size(-1))
        return Case((tokens, features, eps), why)

    return [
        case([1, 7], "the mean of 1² and 7² is 25, and its root divides both numbers"),
        case([1, 7], "`weight` has a factor for each feature", weight=[10, 2]),
        case([4, -4], "the mean square is 16 and `eps` is 9: the root is taken of their sum",
             eps=9.0),
        case([[1, 7], [2, 14]], "each token is divided by its own size"),
        case([0, 0, 0], "a token of zeros stays zeros"),
        Case((normal(2, 3, 4), normal(4, seed=1), 1e-5), "the features are on the last axis, "
             "however many axes there are"),
        Case((normal(4, 4, 4, seed=2), normal(4, seed=1), 1e-3), "the features are on the last "
             "axis, even where all axes have the same length"),
        case([[300, -300]], "in float16 the square of 300 is infinite", half=True),
        case([[1e-4, 7e-4]], "in float16 the square of a small number is 0", eps=1e-10, half=True),
        case([[3e-7, -6e-7, 1.2e-6]], "the smallest numbers of float16 are coarse: nothing may be "
             "rounded to 16 bits before the end", eps=1e-14, half=True),
        Case((normal(2, 3, 8, seed=3).bfloat16(), normal(8, seed=4).bfloat16(), 1e-5),
             "bfloat16 has 16 bits, too"),
    ]  # fmt: skip


RMS_NORM = Exercise(
    name="rms_norm",
    reference=rms_norm,
    cases=norm_cases,
    section="Does a norm need the mean?",
    mistakes={
        "the squares are computed in 16 bits: convert `x` before you square it": in_16_bits,
        "the mean is subtracted: that is layer norm": lambda x, weight, eps: rms_norm(
            x - x.mean(dim=-1, keepdim=True), weight, eps
        ),
        "the factor is 1 + weight: some models store it that way, and (21.1) doesn't": (
            lambda x, weight, eps: rms_norm(x, 1 + weight, eps)
        ),
        "the result is always float16: it has the type of `x`": (
            lambda x, weight, eps: rms_norm(x, weight, eps).half()
        ),
    },
    keeps=frozenset({"dtype", "gradient"}),
)

# ------------------------------------------------------------------------------------- to_halves


def evens_and_odds(width: int) -> list[int]:
    return [*range(0, width, 2), *range(1, width, 2)]


def to_halves(weight: Tensor, n_heads: int) -> Tensor:
    heads = weight.unflatten(0, (n_heads, -1))
    return heads[:, evens_and_odds(heads.size(1))].flatten(0, 1)


def to_neighbors(weight: Tensor, n_heads: int) -> Tensor:
    return weight.unflatten(0, (n_heads, 2, -1)).transpose(1, 2).flatten(0, 2)


def halves_cases() -> list[Case]:
    def rows(n: int, columns: int = 1) -> Tensor:
        return torch.arange(float(n * columns)).view(n, columns)

    return [
        Case((rows(4), 1), "in a head of width 4 the rows 0 and 1 are one arrow, and 2 and 3 are "
             "the other"),
        Case((rows(6), 1), "a head of width 6 has three arrows: first their first entries, "
             "then their second ones, both in the order of the arrows"),
        Case((rows(4, 2), 1), "whole rows are moved, with all their columns"),
        Case((rows(8), 2), "each head has its own halves"),
        Case((rows(12, 2), 3), "no row leaves its head, however many heads there are"),
        Case((integers(12, 5, seed=2, most=50), 3), "the number of columns has nothing to do with "
             "the width of a head"),
        Case((integers(12, 12, seed=1, most=99), 2), "rows are moved, even if there are as "
             "many columns as rows"),
        Case((normal(40, 16, seed=3), 4), "a head may have any even width"),
    ]  # fmt: skip


TO_HALVES = Exercise(
    name="to_halves",
    reference=to_halves,
    cases=halves_cases,
    section="Can the position turn the vector?",
    mistakes={
        "the reordering goes the other way, from halves to neighbors": to_neighbors,
        "the columns are reordered: a row of `weight` makes an entry of a query": (
            lambda weight, n_heads: weight[:, evens_and_odds(weight.size(1))]
        ),
        "nothing is moved: `view` and `reshape` alone keep the numbers in their order": (
            lambda weight, n_heads: weight
        ),
        "the arrows are swapped with the heads, and not with the two entries of an arrow: "
        "`transpose(0, 1)` swaps the first two axes": (
            lambda weight, n_heads: (
                weight.unflatten(0, (n_heads, -1, 2)).transpose(0, 1).flatten(0, 2)
            )
        ),
    },
    keeps=frozenset({"dtype"}),
)

# ---------------------------------------------------------------------------------------- swiglu


def in_halves(both: Tensor, down: Tensor) -> tuple[Tensor, Tensor]:
    gate, up = both.chunk(2, dim=-1)
    return gate, up


def product(gate: Tensor, up: Tensor) -> Tensor:
    return F.silu(gate) * up


def swiglu(
    x: Tensor,
    gate_up: Tensor,
    down: Tensor,
    *,
    cut: Callable[[Tensor, Tensor], tuple[Tensor, Tensor]] = in_halves,
    join: Callable[[Tensor, Tensor], Tensor] = product,
) -> Tensor:
    return join(*cut(x @ gate_up.T, down)) @ down.T


def gate_cases() -> list[Case]:
    def case(x: list, gate_up: list, down: list, why: str) -> Case:
        return Case(tuple(torch.tensor(each).float() for each in (x, gate_up, down)), why)

    return [
        case([1], [[2], [3]], [[1]], "the gate is silu(2) = 1.76, and the content that it "
             "multiplies is 3"),
        case([1], [[-2], [3]], [[1]], "silu(-2) = -0.24: a negative gate still lets a little pass"),
        case([1], [[1], [2], [3], [4]], [[1, 10]], "of four rows, the first two make the gates, 1 "
             "and 2, and the others the contents, 3 and 4"),
        case([1, 2], [[1, 0], [1, 1]], [[1], [2]], "a row of a matrix makes one output: the gate "
             "is 1 and the content 3"),
        case([1, 2], [[1, 0], [0, 1], [1, 1], [1, -1]], [[1, 2], [0, 1]], "`down` has a row for "
             "each output, even where it is square"),
        Case((integers(4, 3), integers(4, 3, seed=1), integers(3, 2, seed=2)), "each token is cut "
             "into gate and content, not the list of tokens"),
        Case((normal(2, 4, 4), normal(8, 4, seed=1), normal(4, 4, seed=2)), "the features are on "
             "the last axis, however many axes there are"),
        Case((normal(2, 3, 4), normal(16, 4, seed=1), normal(4, 8, seed=2)), "`d_ff` may be "
             "twice as large as `d`"),
        Case((normal(2, 5, 6), normal(8, 6, seed=1), normal(6, 4, seed=2)), "`d_ff` may be "
             "smaller than `d`"),
    ]  # fmt: skip


gated = partial(partial, swiglu)

SWIGLU = Exercise(
    name="swiglu",
    reference=swiglu,
    cases=gate_cases,
    section="What is the gate for?",
    mistakes={
        "gate and content are swapped: the gate's rows come first": gated(
            join=lambda gate, up: gate * F.silu(up)
        ),
        "the gate is a sigmoid alone: silu(z) is z times it": gated(
            join=lambda gate, up: gate.sigmoid() * up
        ),
        "the rows take turns, gate, up, gate, up: here all rows of the gate come first": gated(
            cut=lambda both, down: (both[..., 0::2], both[..., 1::2])
        ),
        "the matrix is cut after d rows: it has `d_ff` rows for the gate": gated(
            cut=lambda both, down: (both[..., : len(down)], both[..., len(down) :])
        ),
    },
    keeps=frozenset({"gradient"}),
)

# ----------------------------------------------------------------------------- grouped_attention


def spread(heads: Tensor, n_heads: int) -> Tensor:
    return heads.repeat_interleave(n_heads // heads.size(1), dim=1)


def in_turn(heads: Tensor, n_heads: int) -> Tensor:
    return heads.repeat(1, n_heads // heads.size(1), 1, 1)


def hidden(scores: Tensor, mask: Tensor) -> Tensor:
    return scores.masked_fill(~mask, torch.finfo(scores.dtype).min)


def grouped_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor,
    *,
    share: Callable[[Tensor, int], Tensor] = spread,
) -> Tensor:
    key, value = share(key, query.size(1)), share(value, query.size(1))
    scores = hidden(query @ key.mT / query.size(-1) ** 0.5, mask)
    return scores.softmax(dim=-1) @ value


def stacked(query: Tensor, key: Tensor, value: Tensor, mask: Tensor) -> Tensor:
    """The queries of a group below one another, as the exercise proposes; `mask` is repeated."""
    group = query.size(1) // key.size(1)
    below = query.unflatten(1, (-1, group)).flatten(2, 3)
    scores = hidden(below @ key.mT / query.size(-1) ** 0.5, mask)
    return scores.softmax(dim=-1) @ value


def mask_by_position(query: Tensor, key: Tensor, value: Tensor, mask: Tensor) -> Tensor:
    group = query.size(1) // key.size(1)
    mixed = stacked(query, key, value, mask.repeat_interleave(group, dim=0))
    return mixed.unflatten(2, (group, -1)).flatten(1, 2)


def apart_by_position(query: Tensor, key: Tensor, value: Tensor, mask: Tensor) -> Tensor:
    group = query.size(1) // key.size(1)
    mixed = stacked(query, key, value, mask.repeat(group, 1))
    return mixed.unflatten(2, (-1, group)).transpose(2, 3).flatten(1, 2)


def positions_first(query: Tensor, key: Tensor, value: Tensor, mask: Tensor) -> Tensor:
    batch, n_heads, length, _ = query.shape
    lying = query.transpose(1, 2).reshape(batch, key.size(1), -1, query.size(-1))
    mixed = grouped_attention(lying, key, value, mask.repeat(n_heads // key.size(1), 1))
    return mixed.reshape(batch, length, n_heads, -1).transpose(1, 2)


def group_cases() -> list[Case]:
    def case(query: list, key: list, value: list, why: str, mask: list | None = None) -> Case:
        q, k, v = (torch.tensor(each).float()[None] for each in (query, key, value))
        all_seen = torch.ones(q.size(2), k.size(2), dtype=torch.bool)
        return Case((q, k, v, torch.tensor(mask) if mask else all_seen), why)

    def drawn(h: int, g: int, t: int, s: int, why: str, batch: int = 1, d: int = 2) -> Case:
        mask = torch.ones(t, s).tril(s - t).bool()
        query = integers(batch, h, t, d)
        key, value = (integers(batch, g, s, d, seed=seed) for seed in (1, 2))
        return Case((query, key, value, mask), why)

    return [
        case([[[0]], [[0]]], [[[1], [2]]], [[[2], [4]]], "both heads share the one head of "
             "values, and equal scores share the weight equally"),
        case([[[0]], [[0]], [[0]], [[0]]], [[[1]], [[1]]], [[[10]], [[20]]], "the first two heads "
             "of queries share the first head of values, and the last two the second"),
        case([[[0], [0]]], [[[1], [2]]], [[[2], [4]]], "the first query may not attend to the "
             "second key", mask=[[True, False], [True, True]]),
        case([[[2, 0, 0, 0]]], [[[1, 0, 0, 0], [0, 0, 0, 0]]], [[[1, 0, 0, 0], [0, 1, 0, 0]]],
             "the score 2 is divided by the root of the width 4"),
        case([[[1], [2]], [[3], [-1]]], [[[1], [0]]], [[[1], [0]]], "each head has its own "
             "queries, and its own rows of the result"),
        case([[[0], [0]], [[0], [0]]], [[[1], [2]]], [[[2], [4]]], "the same mask applies to "
             "every head", mask=[[True, False], [True, True]]),
        drawn(4, 2, 3, 3, "each head attends to the keys of its group"),
        drawn(6, 2, 5, 5, "with 6 heads of queries and 2 of keys, three heads are a group", 2, 4),
        drawn(6, 3, 2, 5, "there may be more keys than queries", 2, 3),
        drawn(3, 3, 4, 4, "with as many heads of keys as of queries, each has its own", 2, 6),
    ]  # fmt: skip


grouped = partial(partial, grouped_attention)

GROUPED_ATTENTION = Exercise(
    name="grouped_attention",
    reference=grouped_attention,
    cases=group_cases,
    section="Who needs all these keys?",
    mistakes={
        "queries 0, 1, 2, 3 attend to keys 0, 1, 0, 1: a group stays together, 0, 0, 1, 1": grouped(
            share=in_turn
        ),
        "the rows of the mask are in a different order than the queries: with the heads stacked, "
        "the whole mask is repeated for each head": mask_by_position,
        "the heads of a group are taken apart in a different order than they were stacked": (
            apart_by_position
        ),
        "the positions are split into groups instead of the heads": positions_first,
    },
    keeps=frozenset({"gradient"}),
)

check = Checker(RMS_NORM, TO_HALVES, SWIGLU, GROUPED_ATTENTION)
