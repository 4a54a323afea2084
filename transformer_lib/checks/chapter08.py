"""Checkers for chapter 8, *The encoder*."""

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from transformer_lib import layers
from transformer_lib.checks import Case, Checker, Exercise, Flaw, but
from transformer_lib.checks.chapter07 import MyFeedForward
from transformer_lib.checks.inputs import integers, normal

__all__ = ["check"]

KEEPS = frozenset({"dtype", "gradient"})


# ---------------------------------------------------------------------------- MultiHeadAttention


class MultiHeadAttention(nn.Module):
    def __init__(self, d_model: int, n_heads: int) -> None:
        super().__init__()
        self.in_proj = nn.Linear(d_model, 3 * d_model)
        self.out_proj = nn.Linear(d_model, d_model)
        self.n_heads = n_heads

    def third(self, x: Tensor, i: int) -> Tensor:
        return self.in_proj(x).chunk(3, -1)[i]

    def split(self, x: Tensor) -> Tensor:
        return x.unflatten(-1, (self.n_heads, -1)).transpose(1, 2)

    def merge(self, x: Tensor) -> Tensor:
        return x.transpose(1, 2).flatten(2)

    def scale(self, query: Tensor) -> float:
        return query.shape[-1] ** -0.5

    def weigh(self, scores: Tensor, mask: Tensor) -> Tensor:
        return scores.masked_fill(~mask, -torch.inf).softmax(-1)

    def forward(self, x: Tensor, memory: Tensor, mask: Tensor | None = None) -> Tensor:
        three = enumerate((x, memory, memory))
        query, key, value = (self.split(self.third(source, i)) for i, source in three)
        scores = query @ key.mT * self.scale(query)
        weights = scores.softmax(-1) if mask is None else self.weigh(scores, mask)
        return self.out_proj(self.merge(weights @ value))


def thirds_of_each_head(self: Any, x: Tensor, i: int) -> Tensor:
    return self.in_proj(x).unflatten(-1, (self.n_heads, 3, -1))[..., i, :].flatten(-2)


def projected(self: Any, x: Tensor, i: int) -> Tensor:
    return x @ self.in_proj.weight.chunk(3)[i] + self.in_proj.bias.chunk(3)[i]


def split_by_reshape(self: Any, x: Tensor) -> Tensor:
    return x.reshape(x.shape[0], self.n_heads, x.shape[1], -1)


def merge_by_reshape(self: Any, x: Tensor) -> Tensor:
    return x.reshape(x.shape[0], x.shape[2], -1)


def attention_cases() -> list[Case]:
    def case(why: str, d: int, h: int, t: int, s: int, *mask: Tensor, b: int = 1) -> Case:
        x, memory = integers(b, t, d), integers(b, s, d, seed=1)
        return Case((x, memory, *mask), why, init={"d_model": d, "n_heads": h})

    padding = (torch.arange(4) < torch.tensor([3, 1])[:, None])[:, None, None]
    triangle = torch.ones(3, 3).tril().bool()
    for_each_head = torch.stack([triangle, triangle.mT])[None]
    wide = normal(1, 3, 3).double(), normal(1, 4, 3, seed=1).double()
    return [
        case("the thirds of `in_proj` make queries from x, then keys and values from `memory`; "
             "here √d_k is 1, and `out_proj` comes last", 1, 1, 1, 2),
        case("the scores are divided by √d_k, here 2", 4, 1, 2, 3),
        case("each head has its own slice of each token, with its own weights", 4, 2, 2, 3),
        case("three heads of width 4", 12, 3, 2, 3),
        case("each text of a batch attends to its own memory", 4, 2, 3, 2, b=2),
        case("the mask is (T, S), and True means may attend", 4, 2, 3, 3, triangle),
        case("the mask is (B, 1, 1, S): each text has its own", 4, 2, 3, 4, padding, b=2),
        case("the mask is (1, H, T, S): each head has its own", 4, 2, 3, 3, for_each_head),
        Case(wide, "heads may be 1 wide, and numbers may be in double precision",
             init={"d_model": 3, "n_heads": 3}),
    ]  # fmt: skip


attend = partial(but, MultiHeadAttention)

MULTI_HEAD_ATTENTION = Exercise(
    name="MultiHeadAttention",
    reference=MultiHeadAttention,
    cases=attention_cases,
    section="Can one matrix make queries, keys, and values?",
    keeps=KEEPS,
    mistakes={
        "`in_proj` is cut into heads first: its rows are all queries, all keys, all values": attend(
            third=thirds_of_each_head
        ),
        "the weight of `in_proj` isn't transposed: each of its rows makes one feature": attend(
            third=projected
        ),
        "the bias of `in_proj` is left out": attend(
            third=lambda self, x, i: x @ self.in_proj.weight.chunk(3)[i].mT
        ),
        "the split into heads and the merge both lack the transpose": attend(
            split=split_by_reshape, merge=merge_by_reshape
        ),
        "the merge lacks the transpose: it reads rows of one head as heads of one token": attend(
            merge=merge_by_reshape
        ),
        "the split lacks the transpose: a head gets whole tokens": attend(split=split_by_reshape),
        "the scores are divided by the root of d_model: d_k is the width of one head": attend(
            scale=lambda self, query: (self.n_heads * query.shape[-1]) ** -0.5
        ),
        "the mask comes after the softmax: the weight of hidden keys is lost": attend(
            weigh=lambda self, scores, mask: scores.softmax(-1) * mask
        ),
    },
)

# ----------------------------------------------------------------------------------- EitherOrder

Sublayer = Callable[[Tensor], Tensor]


class MultiHead(nn.Module):
    """As `mine.py` has it, with four matrices."""

    def __init__(self, d_model: int, n_heads: int) -> None:
        super().__init__()
        self.n_heads = n_heads
        self.query, self.key, self.value, self.output = (
            nn.Linear(d_model, d_model) for _ in range(4)
        )

    def forward(self, x: Tensor, memory: Tensor, mask: Tensor | None = None) -> Tensor:
        query, key, value = (
            y.unflatten(-1, (self.n_heads, -1)).transpose(1, 2)
            for y in (self.query(x), self.key(memory), self.value(memory))
        )
        mixed = F.scaled_dot_product_attention(query, key, value, mask)
        return self.output(mixed.transpose(1, 2).flatten(2))


class EitherOrder(nn.Module):
    """`pre` and `post` put one sublayer and its norm on the stream."""

    def __init__(self, d_model: int, n_heads: int, d_ff: int, pre_norm: bool) -> None:
        super().__init__()
        self.attention = MultiHead(d_model, n_heads)
        self.feed_forward = MyFeedForward(d_model, d_ff)
        self.norms = nn.ModuleList(nn.LayerNorm(d_model) for _ in range(2))
        self.pre_norm = pre_norm

    def pre(self, x: Tensor, norm: Sublayer, sublayer: Sublayer) -> Tensor:
        return x + sublayer(norm(x))

    def post(self, x: Tensor, norm: Sublayer, sublayer: Sublayer) -> Tensor:
        return norm(x + sublayer(x))

    def attend(self, y: Tensor, x: Tensor, mask: Tensor | None) -> Tensor:
        """`y` is what the sublayer reads, `x` the layer's own input."""
        return self.attention(y, y, mask)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        around, (one, two) = self.pre if self.pre_norm else self.post, self.norms
        found = around(x, one, lambda y: self.attend(y, x, mask))
        return around(found, two, self.feed_forward)


def one_norm(self: Any, x: Tensor, mask: Tensor | None = None) -> Tensor:
    around, norm = self.pre if self.pre_norm else self.post, self.norms[0]
    return around(around(x, norm, lambda y: self.attention(y, y, mask)), norm, self.feed_forward)


def first_sum_lost(self: Any, x: Tensor, mask: Tensor | None = None) -> Tensor:
    result = EitherOrder.forward(self, x, mask)
    y = self.norms[0](x)
    return result - self.attention(y, y, mask) if self.pre_norm else result


def order_cases() -> list[Case]:
    padding = (torch.arange(3) < torch.tensor([3, 1])[:, None])[:, None, None]

    def both(x: Tensor, why: str, *mask: Tensor) -> list[Case]:
        return [
            Case((x, *mask), f"with pre_norm={pre_norm}, {why}",
                 init={"d_model": 4, "n_heads": 2, "d_ff": 3, "pre_norm": pre_norm})
            for pre_norm in (True, False)
        ]  # fmt: skip

    return [
        *both(
            torch.tensor([[[1.0, 2, 3, 6]]]),
            "the order of norms and sums, and what each sum adds to",
        ),
        *both(integers(1, 3, 4), "tokens attend to one another, in n_heads heads"),
        *both(integers(2, 3, 4), "the attention gets the mask", padding),
        *both(normal(2, 3, 4).double(), "all in double precision"),
    ]


layer = partial(but, EitherOrder)

EITHER_ORDER = Exercise(
    name="EitherOrder",
    reference=EitherOrder,
    cases=order_cases,
    section="What is the encoder made of?",
    keeps=KEEPS,
    forbids=(layers.Residual,),
    mistakes={
        "keys and values are made from x with pre_norm=True: all three come from the normalized "
        "x": layer(attend=lambda self, y, x, mask: self.attention(y, x, mask)),
        "the stream is lost with pre_norm=True: x goes on normalized": layer(
            pre=lambda self, x, norm, f: norm(x) + f(norm(x))
        ),
        "`pre_norm` is ignored: the norm always comes first": layer(post=EitherOrder.pre),
        "`pre_norm` is ignored: the norm always comes last": layer(pre=EitherOrder.post),
        "x is not added to what the sublayers return": layer(
            pre=lambda self, x, norm, f: f(norm(x)), post=lambda self, x, norm, f: norm(f(x))
        ),
        "the second sum starts from x again with pre_norm=True, so what the attention added is "
        "gone": layer(forward=first_sum_lost),
        "only the sublayer's result is normalized with pre_norm=False, not the sum": layer(
            post=lambda self, x, norm, f: x + norm(f(x))
        ),
        "the first norm serves both sublayers: each has its own": layer(forward=one_norm),
    },
)

# ------------------------------------------------------------------------------- same_in_company

Model = Callable[[Tensor], Tensor]
Spoils = Callable[[Tensor, Tensor], Any]


class Reader:
    """A model that gives each token a mixture of its sentence.

    `spoils(ids, real)` is what is added to the outputs `(B, S, 3)` of real tokens.
    """

    def __init__(self, spoils: Spoils = lambda ids, real: 0.0) -> None:
        self.spoils, self.table = spoils, normal(10, 3)

    def __call__(self, ids: Tensor) -> Tensor:
        if ids.dim() != 2:
            raise Flaw(f"The model is given ids of shape {tuple(ids.shape)}; it takes (B, S).")
        real = (ids != 0)[..., None]
        x = self.table[ids]
        mixed = x + (x * real).sum(1, keepdim=True) / real.sum(1, keepdim=True).clamp(min=1)
        # What is in rows of padding means nothing, and depends on everything.
        return torch.where(real, mixed + self.spoils(ids, real), mixed.sum() + 7)

    def padding_too(self, ids: Tensor, real: Tensor) -> Tensor:
        return self.table[ids].mean(1, keepdim=True)

    def mean_of_the_batch(self, ids: Tensor, real: Tensor) -> Tensor:
        return -(self.table[ids] * real).sum((0, 1)) / real.sum()


def at(row: int, token: int, size: float) -> Reader:
    """One number moves, if its sentence is padded."""

    def spoils(ids: Tensor, real: Tensor) -> Tensor:
        moved = torch.zeros(*ids.shape, 3)
        if row < len(ids) and (ids[row] == 0).any():
            moved[row, token, 0] = size
        return moved

    return Reader(spoils)


def a_little(ids: Tensor, real: Tensor) -> Tensor:
    return 0.002 * (ids == 0).any(1)[:, None, None]


def against(ids: Tensor, real: Tensor) -> Tensor:
    """In a padded sentence, the first token moves one way and the last the other."""
    token, last = torch.arange(ids.shape[1]), real.sum(1) - 1
    moved = (token == 0).float() - (token == last).float()
    return 0.3 * (moved * (ids == 0).any(1, keepdim=True))[..., None]


def same_in_company(
    model: Model,
    ids: Tensor,
    *,
    rows: Callable[[Tensor], Iterable[int]] = lambda ids: range(len(ids)),
    alone: Callable[[Tensor, int, int], Tensor] = lambda ids, i, n: ids[i : i + 1, :n],
    compared: Callable[[int, int], slice] = lambda n, s: slice(0, n),
    far: Callable[[Tensor], Tensor] = lambda gap: gap.abs().max(),
    small: Callable[[Tensor], Tensor] = lambda gap: gap <= 1e-4,
) -> bool:
    together = model(ids)

    def same(i: int) -> bool:
        n = int((ids[i] != 0).sum())
        part = compared(n, ids.shape[1])
        return bool(small(far(together[i, part] - model(alone(ids, i, n))[0, part])))

    return all(same(i) for i in rows(ids))


def company_cases() -> list[Case]:
    two, full = torch.tensor([[5, 6, 7], [3, 4, 0]]), torch.tensor([[5, 6, 7], [3, 4, 2]])
    four = torch.tensor([[3, 4, 0, 0, 0], [5, 6, 7, 8, 9], [1, 2, 3, 0, 0], [8, 0, 0, 0, 0]])
    long = torch.tensor([[*range(1, 10), 1, 2, 3, 0], [*range(9, 0, -1), 5, 6, 7, 8]])
    honest, no_mask, of_batch = Reader(), Reader(), Reader()
    no_mask.spoils, of_batch.spoils = no_mask.padding_too, of_batch.mean_of_the_batch

    def case(model: Model, ids: Tensor, why: str) -> Case:
        return Case((model, ids), f"this model {why}")

    return [
        case(honest, two, "reads each sentence as it reads it alone: True"),
        case(no_mask, two, "reads padding, which a sentence alone doesn't have, so the answer is "
             "False"),
        case(honest, four, "is honest, and rows of padding mean nothing"),
        case(no_mask, four, "reads the padding of three sentences in four"),
        case(Reader(lambda ids, real: 1e-6 * ids.shape[1]), four, "is honest, and rounds: a "
             "difference below 0.0001 means nothing"),
        *(
            case(at(row, 0, 0.3), four, f"lets padding count in sentence {row} alone")
            for row in (0, 2, 3)
        ),
        *(
            case(at(2, token, size), four, f"lets padding move one number: of token {token}, "
                 f"{'up' if size > 0 else 'down'}")
            for token, size in ((1, -0.3), (2, 0.3), (0, -0.3))
        ),
        case(Reader(against), four, "lets padding move two tokens, one up and one down"),
        case(Reader(a_little), four, "lets padding move numbers by 0.002, which means something"),
        case(at(0, 4, 0.002), long, "lets padding move one number of a long sentence by 0.002"),
        case(of_batch, four, "subtracts the mean of the whole batch: neighbors matter"),
        case(of_batch, full, "lets neighbors matter, where no sentence is padded"),
        case(Reader(lambda ids, real: torch.where((ids == 0).any(1)[:, None, None], torch.nan, 0)),
             four, "returns NaN for padded sentences"),
    ]  # fmt: skip


tester = partial(partial, same_in_company)
WITH_PADDING = {"alone": lambda ids, i, n: ids[i : i + 1]}

SAME_IN_COMPANY = Exercise(
    name="same_in_company",
    reference=same_in_company,
    cases=company_cases,
    section="Is a sentence read the same way in a batch as alone?",
    mistakes={
        "too much equality is asked for, to the last bit or nearly: another shape may round "
        "differently": tester(small=lambda gap: gap == 0),
        "the sentence keeps its padding when it is alone: then padding is read both times": tester(
            **WITH_PADDING
        ),
        "rows of padding are compared, which mean nothing": tester(
            **WITH_PADDING, compared=lambda n, s: slice(0, s)
        ),
        "only the first sentence is tried": tester(rows=lambda ids: [0]),
        "the sign of the difference is kept: what is smaller in the batch goes unseen": tester(
            far=lambda gap: gap.max()
        ),
    },
)

check = Checker(MULTI_HEAD_ATTENTION, EITHER_ORDER, SAME_IN_COMPANY)
