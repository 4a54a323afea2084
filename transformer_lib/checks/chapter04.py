"""Checkers for chapter 4, *Self-attention and cross-attention*."""

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from transformer_lib.attention import attention, fused_attention
from transformer_lib.checks import Case, Checker, Exercise
from transformer_lib.checks.inputs import integers, normal
from transformer_lib.masks import causal_mask
from transformer_lib.multihead import MultiHeadAttention

__all__ = ["check"]

# ------------------------------------------------------------------------------------------- ask

Roles = tuple[Tensor, Tensor, Tensor]  # what becomes queries, keys, and values


def ask(
    x: Tensor,
    W_q: Tensor,
    W_k: Tensor,
    W_v: Tensor,
    memory: Tensor | None = None,
    *,
    roles: Callable[[Tensor, Tensor], Roles] = lambda x, memory: (x, memory, memory),
    project: Callable[[Tensor, Tensor], Tensor] = torch.matmul,
    mask: Callable[[Tensor], Tensor] = lambda scores: scores,
    dim: int = -1,
) -> tuple[Tensor, Tensor]:
    three = roles(x, x if memory is None else memory)
    query, key, value = map(project, three, (W_q, W_k, W_v))
    weights = mask(query @ key.mT / key.shape[-1] ** 0.5).softmax(dim)
    return weights @ value, weights


def ask_cases() -> list[Case]:
    def case(why: str, *batch: int, x: tuple[int, int], memory: tuple[int, int] | None = None,
             d_k: int, d_v: int) -> Case:  # fmt: skip
        d_x, d_m = x[1], (memory or x)[1]
        shapes = [(*batch, *x), (d_x, d_k), (d_m, d_k), (d_m, d_v)]
        shapes += [(*batch, *memory)] if memory else []
        return Case(tuple(integers(*s, seed=i, most=2) for i, s in enumerate(shapes)), why)

    one, words = torch.tensor([[1.0]]), torch.tensor([[0.0], [1]])
    return [
        Case((one, 2 * one, 3 * one, 5 * one), "a word on its own gets its own value, x @ W_v"),
        Case((torch.tensor([[1.0], [1]]), one, one, one), "equal words share the weight equally"),
        Case((words, torch.ones(1, 4), torch.ones(1, 4), 10 * one), "the scores are divided by "
             "√d_k, here 2, before the softmax"),
        case("each of the three matrices has its own job", x=(2, 2), d_k=2, d_v=2),
        case("all widths may differ in self-attention, too", x=(3, 4), d_k=3, d_v=2),
        Case((one, one, one, 10 * one, words), "with `memory`, x asks and `memory` answers"),
        case("queries come from x, keys and values from `memory`", x=(2, 2), memory=(2, 2), d_k=2,
             d_v=2),
        case("x and `memory` may differ in length and in width", x=(2, 3), memory=(4, 5), d_k=2,
             d_v=3),
        case("with more axes, count from the end", 2, x=(2, 2), d_k=2, d_v=2),
        case("several axes may come first", 2, 3, x=(4, 5), memory=(3, 6), d_k=3, d_v=2),
    ]  # fmt: skip


but = partial(partial, ask)

ASK = Exercise(
    name="ask",
    reference=ask,
    cases=ask_cases,
    section="What if each word may ask all the others?",
    keeps=frozenset({"gradient"}),
    forbids=(
        F.scaled_dot_product_attention,
        attention,
        fused_attention,
        nn.MultiheadAttention,
        MultiHeadAttention,
    ),
    mistakes={
        "the values come from x: the words of `memory` are asked, so they must answer": but(
            roles=lambda x, memory: (x, memory, x)
        ),
        "the matrices are transposed, the way nn.Linear stores them: here it's x @ W": but(
            project=F.linear
        ),
        "the softmax runs over the words that ask, not over the words that answer": but(dim=-2),
        "a causal mask is left over from chapter 2: here each word attends to all words": but(
            mask=lambda s: s.masked_fill(torch.ones_like(s).triu(1).bool(), -torch.inf)
        ),
    },
)

# -------------------------------------------------------------------------------- is_equivariant

Layer = Callable[[Tensor], Tensor]


def close(a: Tensor, b: Tensor, atol: float = 1e-5) -> bool:
    return a.shape == b.shape and torch.allclose(a, b, atol=atol)


def shuffles(n: int, times: int = 20) -> Iterator[Tensor]:
    return (torch.randperm(n) for _ in range(times))


def swapped(n: int, i: int, j: int) -> Tensor:
    order = torch.arange(n)
    order[[i, j]] = order[[j, i]]
    return order


def is_equivariant(
    f: Layer,
    x: Tensor,
    *,
    same: Callable[[Layer, Tensor, Tensor], bool] = lambda f, x, p: close(f(x[p]), f(x)[p]),
    orders: Callable[[int], Iterable[Tensor]] = shuffles,
    verdict: Callable[[Iterable[bool]], bool] = all,
) -> bool:
    return verdict(same(f, x, order) for order in orders(len(x)))


def columns(f: Layer, x: Tensor) -> bool:
    return all(close(f(x[:, p]), f(x)[:, p]) for p in shuffles(x.shape[1]))


def self_attention(x: Tensor) -> Tensor:
    return attention(x, x, x).output


def cross_attention(x: Tensor) -> Tensor:
    memory = normal(4, x.shape[1], seed=7)
    return attention(x, memory, memory).output


def causal_attention(x: Tensor) -> Tensor:
    return attention(x, x, x, causal_mask(len(x))).output


def doubling(row: int) -> Layer:
    return lambda x: torch.cat([x[:row], 2 * x[row : row + 1], x[row + 1 :]])


def reordering(order: Sequence[int]) -> Layer:
    return lambda x: x[[*order]]


def fixed_orders() -> Iterator[list[int]]:
    """Of 5 rows: each shuffle that moves all rows commutes with one of these orders.

    It is a cycle of 5, which commutes with its power that sends 0 to 1, or it swaps two rows and
    moves three in a cycle, which commutes with that swap.
    """
    yield from (swapped(5, i, j).tolist() for i, j in itertools.combinations(range(5), 2))
    for rest in itertools.permutations((2, 3, 4)):
        cycle = 0, 1, *rest
        yield [cycle[(cycle.index(row) + 1) % 5] for row in range(5)]


def equivariant_cases() -> list[Case]:
    x = integers(5, 3)

    def places(x: Tensor, size: float = 1.0) -> Tensor:
        return x + size * torch.arange(len(x))[:, None]

    def case(f: Layer, why: str, x: Tensor = x) -> Case:
        return Case((f, x), f"this `f` {why}")

    one_row = "is one that a single shuffle may miss: it treats one row differently"
    return [
        case(lambda x: 2 * x, "doubles every row: it is equivariant"),
        case(doubling(0), "doubles only the first row: a shuffle that leaves this row where it is "
             "doesn't show it"),
        case(self_attention, "is self-attention: it is equivariant"),
        case(reordering([4, 3, 2, 1, 0]), "puts the rows in reverse order: it is not equivariant"),
        case(lambda x: x.flip(1), "reverses the columns: it is equivariant, as only rows count"),
        case(lambda x: x * torch.arange(1.0, 4), "multiplies each column by its own number: "
             "it is equivariant"),
        case(lambda x: x.sort(0).values, "gives the same result for every order of the rows: "
             "it is not equivariant but invariant"),
        case(places, "adds its position to each row: it is not equivariant"),
        case(partial(places, size=0.01), "adds a little of its position to each row"),
        case(causal_attention, "is causal attention: the order of the rows matters"),
        case(cross_attention, "is cross-attention with a fixed memory: it is equivariant"),
        case(reordering([4, 0, 1, 2, 3]), "moves all rows on by one: it is not equivariant"),
        case(lambda x: x.mean(0).expand_as(x), "puts the mean into every row: it is equivariant "
             "up to rounding", normal(6, 64)),
        case(self_attention, "is self-attention: its rounding depends on the order",
             normal(6, 64, seed=1)),
        *(case(doubling(row), one_row) for row in (1, 2, 3, 4)),
        *(case(reordering(order), "is one that a single shuffle may miss: it puts the rows in "
               "a fixed order") for order in fixed_orders()),
    ]  # fmt: skip


tester = partial(partial, is_equivariant)

IS_EQUIVARIANT = Exercise(
    name="is_equivariant",
    reference=is_equivariant,
    cases=equivariant_cases,
    section="Could a better network do it?",
    mistakes={
        "only one shuffle is tried: the next one may show what it doesn't": tester(
            orders=partial(shuffles, times=1)
        ),
        "f(x[order]) is compared with f(x) as it is, which tests whether nothing changes": tester(
            same=lambda f, x, p: close(f(x[p]), f(x))
        ),
        "every last bit must agree: a sum in another order is rounded differently": tester(
            same=lambda f, x, p: torch.equal(f(x[p]), f(x)[p])
        ),
        "one shuffle that agrees is enough for True: all of them have to agree": tester(
            verdict=any
        ),
        "the columns are shuffled: words are rows": columns,
        "the two results are compared in different orders": tester(
            same=lambda f, x, p: close(f(x[p])[p], f(x))
        ),
    },
)

check = Checker(ASK, IS_EQUIVARIANT)
