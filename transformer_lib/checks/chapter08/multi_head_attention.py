"""The exercise `MultiHeadAttention`: what it asks for, and how its answers go wrong."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from transformer_lib.checks.chapter08.attending import (
    HIDDEN,
    MultiHeadAttention,
    after_softmax,
    but,
    every_third,
    made_from,
    merge_by_number,
    merge_wrong,
    query_bias_alone,
    softmax_over,
    split_wrong,
    thirds_in_each_head,
    turned,
    without_bias,
)
from transformer_lib.checks.old.core import Case, Exercise
from transformer_lib.checks.old.inputs import in_float64, random_tensor

_HEADS = ' (see chapter 6, "Do you need a loop over the heads?")'


class _FourLayers(nn.Module):
    def __init__(self, d_model: int, n_heads: int) -> None:
        super().__init__()
        self.q, self.k, self.v, self.out_proj = (nn.Linear(d_model, d_model) for _ in range(4))


class _ThreeAndNoOutput(_FourLayers):
    def __init__(self, d_model: int, n_heads: int) -> None:
        super().__init__(d_model, n_heads)
        del self.out_proj


def _linears(in_bias: bool, out_bias: bool, *, out: bool = True) -> type[nn.Module]:
    class Linears(nn.Module):
        def __init__(self, d_model: int, n_heads: int) -> None:
            super().__init__()
            self.in_proj = nn.Linear(d_model, 3 * d_model, bias=in_bias)
            if out:
                self.out_proj = nn.Linear(d_model, d_model, bias=out_bias)

    return Linears


class _PerHead(MultiHeadAttention):
    def __init__(self, d_model: int, n_heads: int) -> None:
        super().__init__(d_model, n_heads)
        d = d_model // n_heads
        self.in_proj = nn.Linear(d, 3 * d)


def _case(label: str, b: int, t: int, s: int, d: int, h: int, mask: Tensor | None = None) -> Case:
    given = {} if mask is None else {"mask": mask}
    x, memory = random_tensor(b, t, d), random_tensor(b, s, d, seed=1)
    return Case(label, x, memory, init={"d_model": d, "n_heads": h}, **given)


def _itself(label: str, b: int, t: int, d: int, h: int, mask: Tensor | None = None) -> Case:
    given = {} if mask is None else {"mask": mask}
    x = random_tensor(b, t, d, seed=2)
    return Case(label, x, x, init={"d_model": d, "n_heads": h}, **given)


_PADDING = (torch.tensor([3, 2, 7])[:, None] > torch.arange(7))[:, None, None]  # (3, 1, 1, 7)
_TRIANGLE = torch.ones(5, 5, dtype=torch.bool).tril()
# Of its own for each head, and each query has a key that it may see.
_PER_HEAD = (torch.arange(2 * 5 * 7).view(1, 2, 5, 7) % 3 > 0) | torch.eye(5, 7).bool()

MULTI_HEAD_ATTENTION = Exercise(
    name="MultiHeadAttention",
    reference=MultiHeadAttention,
    cases=[
        _case("one head, 2 queries, 3 keys", 1, 2, 3, 4, 1),
        _itself("one head, x as its own memory", 1, 3, 4, 1),
        _itself("2 heads, a batch of 2", 2, 5, 6, 2),
        _case("a memory of another length", 2, 3, 5, 12, 3),
        _case("as many queries as keys", 2, 5, 5, 6, 3),
        _itself("a triangle (T, S) as mask", 2, 5, 6, 2, _TRIANGLE),
        _case("a padding mask (B, 1, 1, S)", 3, 5, 7, 6, 2, _PADDING),
        _case("a mask for each head, (1, H, T, S)", 3, 5, 7, 6, 2, _PER_HEAD),
        in_float64(_case("16 heads of width 1", 1, 5, 3, 16, 16)),
    ],
    mistakes={
        "`memory` is not used: queries, keys and values are all made from x": made_from(0, 0, 0),
        "x and memory have changed places: the queries come from x, and what is looked at from "
        "memory": made_from(1, 0, 0),
        "everything is made from memory: the queries must come from x": made_from(1, 1, 1),
        "the values are made from x: keys and values are two sides of the same memory": made_from(
            0, 1, 0
        ),
        "the keys are made from x: keys and values are two sides of the same memory": made_from(
            0, 0, 1
        ),
        "the rows of `in_proj` are taken in another order: queries first, then keys, then values": [
            made_from(0, 1, 1, order=order)
            for order in ((1, 0, 2), (0, 2, 1), (2, 1, 0), (1, 2, 0), (2, 0, 1))
        ],
        "one third of `in_proj` serves for all three": [
            made_from(0, 1, 1, order=(i, i, i)) for i in range(3)
        ],
        "the keys are mixed where the values should be": made_from(0, 1, 1, order=(0, 1, 1)),
        "`in_proj` is cut head by head: its rows are all queries, then all keys, then all values, "
        "and only each third is cut into heads": but(project=thirds_in_each_head),
        "`in_proj` is cut into every third number: its rows are all queries, then all keys, then "
        "all values": but(project=every_third),
        "the weight of `in_proj` is used turned on its side: `nn.Linear` keeps (out, in), so it is "
        "x @ W.mT": but(project=turned),
        "the bias of `in_proj` is left out": but(project=without_bias),
        "only the queries get their bias": but(project=query_bias_alone),
        "the mask is not used": but(hide=lambda self, scores, mask: scores),
        "the mask is the wrong way round: True means may attend": [
            but(hide=lambda self, scores, mask: scores.masked_fill(mask, HIDDEN)),
            but(
                hide=lambda self, scores, mask: scores.masked_fill(
                    mask, torch.finfo(scores.dtype).min
                )
            ),
            but(hide=lambda self, scores, mask: scores.masked_fill(mask, -1e9)),
        ],
        "the mask comes after the softmax, and the rest does not sum to 1 any more": but(
            weigh=after_softmax
        ),
        "the mask is added to the scores: True and False are then 1 and 0, which forbids nothing": [
            but(hide=lambda self, scores, mask: scores + mask),
            but(hide=lambda self, scores, mask: scores + ~mask),
        ],
        "hidden scores are set to 0, and 0 is a score like any other: it takes -inf": [
            but(hide=lambda self, scores, mask: scores * mask),
        ],
        "the mask is turned: its last axis is that of the keys": [
            but(hide=lambda self, scores, mask: scores.masked_fill(~mask.mT, HIDDEN)),
        ],
        "the mask gets another axis: it comes as (B, H, T, S), or with axes of length 1": [
            but(hide=lambda self, scores, mask: scores.masked_fill(~mask.unsqueeze(1), HIDDEN)),
            but(hide=lambda self, scores, mask: scores.masked_fill(~mask[:, None, None], HIDDEN)),
        ],
        "`n_heads` is not used: this is one head of full width" + _HEADS: [
            but(split=lambda self, x: x[:, None]),
            but(split=lambda self, x: x[:, None], scale=lambda self, q: 1.0),
            but(
                split=lambda self, x: x[:, None],
                scale=lambda self, q: (q.shape[-1] // self.n_heads) ** -0.5,
            ),
        ],
        "the split into heads and the merge both lack the transpose" + _HEADS: but(
            split=split_wrong, merge=merge_wrong
        ),
        "the merge lacks the transpose: the rows of one head are read as if they were the heads of "
        "one token" + _HEADS: but(merge=merge_wrong),
        "the split lacks the transpose: a head gets whole tokens instead of a slice of each token"
        + _HEADS: but(split=split_wrong),
        "the heads' axis stands behind the tokens': at each token its heads attend to one another"
        + _HEADS: but(
            split=lambda self, x: x.unflatten(-1, (self.n_heads, -1)),
            merge=lambda self, x: x.flatten(2),
        ),
        "a head gets every n-th column, where it should get columns that stand together" + _HEADS: [
            but(split=lambda self, x: x.unflatten(-1, (-1, self.n_heads)).movedim(-1, 1)),
            but(
                split=lambda self, x: x.unflatten(-1, (-1, self.n_heads)).movedim(-1, 1),
                merge=merge_by_number,
            ),
        ],
        "the heads' results are joined number by number and not head by head" + _HEADS: but(
            merge=merge_by_number
        ),
        "the scores are not divided by anything": but(scale=lambda self, q: 1.0),
        "the scores are divided by the root of d_model: d_k is the width of one head": but(
            scale=lambda self, q: (self.n_heads * q.shape[-1]) ** -0.5
        ),
        "`** 1/2` is no root: Python takes the power first, and then divides by 2": [
            but(scale=lambda self, q: 2 / q.shape[-1]),
            but(scale=lambda self, q: 1 / (2 * q.shape[-1])),
        ],
        "the scores are divided by d_k and not by its root": but(
            scale=lambda self, q: 1 / q.shape[-1]
        ),
        "the scores are multiplied by the root of d_k instead of divided": but(
            scale=lambda self, q: q.shape[-1] ** 0.5
        ),
        "the root is taken of the number of heads: d_k is d_model / n_heads": but(
            scale=lambda self, q: self.n_heads**-0.5
        ),
        "the number under the root is fixed: 64 is the paper's d_k, not yours": but(
            scale=lambda self, q: 1 / 8
        ),
        "the root is taken of the number of tokens": but(scale=lambda self, q: q.shape[-2] ** -0.5),
        "the softmax runs over the queries and not over the keys": [
            softmax_over(-2, HIDDEN),
            softmax_over(-2, -1e9),
        ],
        "the softmax runs over the heads: each head must have weights of its own that sum to 1": [
            softmax_over(1, HIDDEN),
            softmax_over(1, -1e9),
        ],
        "there is no softmax: the scores themselves mix the values": [
            but(weigh=lambda self, scores, mask: scores),
            but(
                weigh=lambda self, scores, mask: scores if mask is None else self.hide(scores, mask)
            ),
            but(
                weigh=lambda self, scores, mask: (
                    scores if mask is None else scores.masked_fill(~mask, 0.0)
                )
            ),
        ],
        "`out_proj` is not used: the heads stand side by side, and nothing mixes them": but(
            out=lambda self, joined: joined
        ),
        "the bias of `out_proj` is left out": but(
            out=lambda self, joined: F.linear(joined, self.out_proj.weight)
        ),
        "x is added already: that belongs to the layer, and not to its attention": but(
            forward=lambda self, x, memory, mask=None: (
                x + MultiHeadAttention.forward(self, x, memory, mask)
            )
        ),
        "queries, keys and values have a layer each, where the exercise asks for one, `in_proj`, "
        "with all their rows: queries first, then keys, then values": [
            _FourLayers,
            _ThreeAndNoOutput,
        ],
        "a layer is made with `bias=False`: both have biases": [
            _linears(False, True),
            _linears(True, False),
            _linears(False, False),
        ],
        "`out_proj` is missing": _linears(True, True, out=False),
        "one head's projection serves all: `in_proj` makes 3 * d_model numbers from d_model": (
            _PerHead
        ),
    },
    section="Can one matrix make queries, keys and values?",
    keeps=("dtype", "device", "gradient"),
)
