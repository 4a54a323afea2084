"""Checkers for chapter 6, *Many heads*."""

from collections.abc import Callable
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from transformer_lib.attention import attention, fused_attention
from transformer_lib.checks import Case, Checker, Exercise
from transformer_lib.checks.inputs import integers
from transformer_lib.multihead import MultiHeadAttention

__all__ = ["check"]

# ------------------------------------------------------------------------------------ multi_head


def split_heads(x: Tensor, n_heads: int) -> Tensor:
    return x.unflatten(-1, (n_heads, -1)).transpose(-3, -2)


def merge_heads(x: Tensor) -> Tensor:
    return x.transpose(-3, -2).flatten(-2)


def multi_head(
    x: Tensor,
    W_q: Tensor,
    W_k: Tensor,
    W_v: Tensor,
    W_o: Tensor,
    n_heads: int,
    *,
    split: Callable[[Tensor, int], Tensor] = split_heads,
    scale: Callable[[Tensor, int], float] = lambda q, h: q.shape[-1] ** -0.5,
    dim: int = -1,
    merge: Callable[[Tensor], Tensor] = merge_heads,
) -> Tensor:
    query, key, value = (split(x @ W, n_heads) for W in (W_q, W_k, W_v))
    weights = (query @ key.mT * scale(query, n_heads)).softmax(dim)
    return merge(weights @ value) @ W_o


def split_by_reshape(x: Tensor, n_heads: int) -> Tensor:
    return x.reshape(*x.shape[:-2], n_heads, x.shape[-2], -1)


def merge_by_reshape(x: Tensor) -> Tensor:
    return x.reshape(*x.shape[:-3], x.shape[-2], -1)


def by_d_model(
    x: Tensor, W_q: Tensor, W_k: Tensor, W_v: Tensor, W_o: Tensor, n_heads: int
) -> Tensor:
    width, heads = x.shape[-1] // n_heads, []
    for i in range(n_heads):
        q, k, v = (x @ W[:, i * width : (i + 1) * width] for W in (W_q, W_k, W_v))
        heads.append((q @ k.mT / q.shape[-1] ** 0.5).softmax(-1) @ v)
    return torch.cat(heads, -1) @ W_o


def head_cases() -> list[Case]:
    def case(why: str, *batch: int, t: int, d: int, h: int, d_k: int, d_v: int) -> Case:
        shapes = (*batch, t, d), (d, h * d_k), (d, h * d_k), (d, h * d_v), (h * d_v, d)
        five = [integers(*shape, seed=i + 6, most=1) for i, shape in enumerate(shapes)]
        return Case((*five, h), why)

    one, four, words = torch.ones(1, 1), torch.ones(1, 4), torch.tensor([[0.0], [1.0]])
    return [
        Case((words, one, one, one, 10 * one, 1), "one head of width 1; at the end comes W_o"),
        Case((words, four, four, one, 10 * one, 1), "the scores are divided by √d_k, here 2"),
        case("each head has its own columns, and its own attention weights; then the heads are "
             "joined", t=3, d=2, h=2, d_k=1, d_v=1),
        case("a head's columns stand together: head 0 has the first d_k", t=3, d=2, h=2, d_k=2,
             d_v=2),
        case("with as many heads as tokens, shapes don't tell them apart", t=2, d=4, h=2, d_k=2,
             d_v=2),
        case("d_k is the width of one head, and need not be d_model / n_heads", t=3, d=2, h=2,
             d_k=4, d_v=3),
        case("with axes in front, axes are counted from the end", 2, t=3, d=2, h=2, d_k=1, d_v=1),
        case("there may be several axes in front", 2, 3, t=4, d=5, h=3, d_k=2, d_v=4),
    ]  # fmt: skip


but = partial(partial, multi_head)

MULTI_HEAD = Exercise(
    name="multi_head",
    reference=multi_head,
    cases=head_cases,
    section="Do you need a loop over the heads?",
    keeps=frozenset({"gradient"}),
    forbids=(
        F.scaled_dot_product_attention,
        attention,
        fused_attention,
        nn.MultiheadAttention,
        MultiHeadAttention,
    ),
    mistakes={
        "the split into heads and the merge both lack the transpose: a head is then a block of "
        "whole tokens": but(split=split_by_reshape, merge=merge_by_reshape),
        "the merge lacks the transpose: it reads the rows of one head as the heads of one token": (
            but(merge=merge_by_reshape)
        ),
        "the split lacks the transpose: a head gets whole tokens, not a slice of each": but(
            split=split_by_reshape
        ),
        "the heads' axis comes after the tokens': at each token its heads attend to one another": (
            but(split=lambda x, h: x.unflatten(-1, (h, -1)), merge=lambda x: x.flatten(-2))
        ),
        "the scores are divided by the root of the width of all heads together": but(
            scale=lambda q, h: (h * q.shape[-1]) ** -0.5
        ),
        "a head is taken to be d_model / n_heads columns wide": by_d_model,
        "the heads' axis is counted from the front, as if there were one axis before the tokens": (
            but(
                split=lambda x, h: x.unflatten(-1, (h, -1)).transpose(1, 2),
                merge=lambda x: x.transpose(1, 2).flatten(-2),
            )
        ),
        "the softmax runs over the queries, not over the keys": but(dim=-2),
        "the softmax runs over the heads, not over the keys": but(dim=-3),
    },
)

# ------------------------------------------------------------------------------- attention_flops


def attention_flops(n: int, d_model: int, n_heads: int, d_k: float, d_v: float) -> float:
    return 4 * n * n_heads * (d_k + d_v) * d_model + 2 * n * n * n_heads * (d_k + d_v)


ATTENTION_FLOPS = Exercise(
    name="attention_flops",
    reference=attention_flops,
    cases=lambda: [
        Case((1, 1, 1, 1, 1), "one of everything: four projections, scores, mixing"),
        Case((3, 1, 1, 1, 1), "projections grow with the tokens, scores and mixing with the pairs"),
        Case((1, 1, 2, 1, 1), "each head has its own projections, scores and mixing"),
        Case((1, 5, 1, 1, 1), "the four projections grow with d_model"),
        Case((1, 1, 1, 3, 1), "two projections and the scores grow with d_k"),
        Case((1, 1, 1, 1, 3), "two projections and the mixing grow with d_v"),
        Case((5, 7, 3, 2, 11), "all sizes at once"),
        Case((100, 512, 8, 64, 64), "the paper's sizes, and 100 tokens"),
    ],
    section="What do eight heads cost?",
    mistakes={
        "a multiplication with its addition counts 1: it counts 2": (
            lambda *sizes: attention_flops(*sizes) / 2
        ),
        "a sum of b products counts b - 1 additions: here it counts b": lambda n, d, h, k, v: (
            attention_flops(n, d, h, k, v) - 2 * n * h * (k + v) - n * n * h - n * d
        ),
        "the projection at the end, W_o, is missing": lambda n, d, h, k, v: (
            attention_flops(n, d, h, k, v) - 2 * n * h * v * d
        ),
        "this is the bill of one head": lambda n, d, h, k, v: attention_flops(n, d, 1, k, v),
        "the width of a head is taken to be d_model / n_heads: d_k and d_v are given": (
            lambda n, d, h, k, v: attention_flops(n, d, h, d / h, d / h)
        ),
        "the projection at the end is counted as d_model by d_model: it has n_heads * d_v rows": (
            lambda n, d, h, k, v: attention_flops(n, d, h, k, v) + 2 * n * d * (d - h * v)
        ),
    },
)

check = Checker(MULTI_HEAD, ATTENTION_FLOPS)
