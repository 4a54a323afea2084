"""Checkers for chapter 3, *Before the Transformer: the bottleneck*."""

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor

from transformer_lib.checks import Case, Checker, Exercise
from transformer_lib.checks.inputs import integers

__all__ = ["check"]

Step = Callable[[Tensor], Tensor]
Two = Callable[[Tensor, Tensor], Tensor]

# ------------------------------------------------------------------------------------- look_back


def dot(query: Tensor, states: Tensor) -> Tensor:
    return torch.einsum("bk,bsk->bs", query, states)


def hide(scores: Tensor, real: Tensor) -> Tensor:
    return scores.masked_fill(~real, -torch.inf)


def as_they_are(scores: Tensor, real: Tensor) -> Tensor:
    return scores


def weighted(weights: Tensor, states: Tensor) -> Tensor:
    return torch.einsum("bs,bsk->bk", weights, states)


def look_back(
    h: Tensor,
    states: Tensor,
    W: Tensor,
    real: Tensor,
    *,
    mask: Two = hide,
    weigh: Step = lambda scores: scores.softmax(-1),
    after: Two = as_they_are,
    mix: Two = weighted,
) -> tuple[Tensor, Tensor]:
    weights = after(weigh(mask(dot(h @ W, states), real)), real)
    return mix(weights, states), weights


def projected(h: Tensor, states: Tensor, W: Tensor, real: Tensor) -> tuple[Tensor, Tensor]:
    return look_back(h, states, W, real, mix=lambda w, states: weighted(w, states @ W.mT))


def look_cases() -> list[Case]:
    def line(why: str, h: list[float], *states: list[float], hidden: str = "") -> Case:
        real = torch.tensor([letter not in hidden for letter in "abc"[: len(states)]])
        square = torch.eye(2)
        return Case((torch.tensor([h]), torch.tensor([states]), square, real[None]), why)

    def text(why: str, s: int, d: int, k: int, *lengths: int) -> Case:
        shapes = (len(lengths), d), (len(lengths), s, k), (d, k)
        three = [integers(*shape, seed=i, most=1) for i, shape in enumerate(shapes)]
        return Case((*three, torch.arange(s) < torch.tensor(lengths)[:, None]), why)

    return [
        line("the context is a mixture of states: equal scores share the weight equally",
             [1.0, 0], [2.0, 10], [2, 20]),
        line("softmax makes the weights from the scores, which have no scale", [1.0, 0],
             [1.0, 10], [2, 20]),
        Case((torch.tensor([[1.0, 0]]), torch.tensor([[[1.0, 0], [0, 2]]]),
              torch.tensor([[0.0, 1], [2, 0]]), torch.ones(1, 2).bool()), "the query is `h @ W`"),
        Case((torch.ones(1, 1), torch.tensor([[[0.0, 1], [1, 0]]]), torch.tensor([[2.0, 1]]),
              torch.ones(1, 2).bool()), "the query is `h @ W`: `h` may have another width"),
        line("the weight of padding goes to the real letters", [1.0, 0], [1.0, 10], [2, 20],
             [3, 50], hidden="c"),
        line("padding may come first: `real` says where it is", [1.0, 0], [3.0, 50], [1, 10],
             [2, 20], hidden="a"),
        text("each line attends to its own states", 3, 2, 2, 3, 3),
        text("each line has its own padding", 4, 2, 3, 4, 2),
        text("as many lines as letters: rows of weights belong to lines", 3, 2, 2, 3, 1, 2),
        text("a line may have a single letter", 1, 2, 3, 1, 1),
        line("exp must not overflow where scores are large", [100.0, 0], [1.0, 10], [2, 20]),
        line("real scores may lie far below 0, here at -150", [15.0, 0], [-10.0, 1], [-10, 2],
             [-10, 3], hidden="c"),
    ]  # fmt: skip


look = partial(partial, look_back)

LOOK_BACK = Exercise(
    name="look_back",
    reference=look_back,
    cases=look_cases,
    section="What if the line stays uncovered?",
    keeps=frozenset({"gradient"}),
    mistakes={
        "the padding is zeroed after the softmax: the weight it had is lost": look(
            mask=as_they_are, after=torch.mul
        ),
        "the mask is the wrong way round: it hides the letters and leaves the padding": look(
            mask=lambda s, real: s.masked_fill(real, -torch.inf)
        ),
        "a score at padding becomes 0, and e^0 = 1 is a weight like any other": look(
            mask=torch.mul
        ),
        "minus infinity is multiplied by a table of 0 and 1: 0 · ∞ is NaN": look(
            mask=lambda s, real: s - torch.inf * ~real
        ),
        "the softmax runs over the lines, not over the letters": look(
            weigh=lambda scores: scores.softmax(0)
        ),
        "the projected states are mixed, not the states themselves": projected,
    },
)

# -------------------------------------------------------------------------------- additive_score


def pairs(q: Tensor, k: Tensor) -> Tensor:
    return q.unsqueeze(-2) + k.unsqueeze(-3)


def additive_score(
    query: Tensor,
    key: Tensor,
    W: Tensor,
    U: Tensor,
    v: Tensor,
    *,
    join: Two = pairs,
    bend: Step = torch.tanh,
) -> Tensor:
    return bend(join(query @ W, key @ U)) @ v


def score_cases() -> list[Case]:
    def case(why: str, *batch: int, t: int, s: int, d_q: int, d_k: int, m: int) -> Case:
        shapes = (*batch, t, d_q), (*batch, s, d_k), (d_q, m), (d_k, m), (m,)
        return Case(tuple(integers(*each, seed=i, most=1) for i, each in enumerate(shapes)), why)

    one, two = torch.tensor([[1.0]]), torch.tensor([[1.0], [-2.0]])
    W, U, v = torch.tensor([[1.0, 0]]), torch.tensor([[1.0, -1]]), torch.tensor([3.0, 2])
    return [
        Case((one, one, one, one, torch.tensor([3.0])), "the tanh comes before v"),
        Case((one, one, one, two[1:], torch.tensor([3.0])), "W is for the query, U for the key"),
        Case((one, two, W, U, v), "each key gets one score"),
        Case((two, two, W, U, v), "each query meets each key; rows belong to queries"),
        case("all widths may differ", t=2, s=3, d_q=2, d_k=4, m=3),
        case("as many queries as features: W and U stand to the right", t=3, s=3, d_q=3, d_k=3,
             m=3),
        case("with axes in front, axes are counted from the end", 2, t=2, s=3, d_q=2, d_k=2, m=2),
        case("there may be several axes in front", 2, 3, t=3, s=2, d_q=3, d_k=4, m=5),
    ]  # fmt: skip


score = partial(partial, additive_score)

ADDITIVE_SCORE = Exercise(
    name="additive_score",
    reference=additive_score,
    cases=score_cases,
    section="Which other scores are there?",
    mistakes={
        "there is no tanh: every query then ranks the keys alike": score(bend=lambda x: x),
        "tanh is taken of query and key separately, before they are added": score(
            join=lambda q, k: pairs(q.tanh(), k.tanh()), bend=lambda x: x
        ),
        "the projections are multiplied, not added": score(
            join=lambda q, k: q.unsqueeze(-2) * k.unsqueeze(-3)
        ),
        "query t meets key t only: queries and keys each need an axis of their own": score(
            join=torch.add
        ),
    },
)

check = Checker(ADDITIVE_SCORE, LOOK_BACK)
