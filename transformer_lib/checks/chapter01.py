"""Checkers for chapter 1, *A dictionary that answers almost*."""

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor

from transformer_lib.checks import Case, Checker, Exercise
from transformer_lib.checks.inputs import integers

__all__ = ["check"]

Step = Callable[[Tensor], Tensor]

# ------------------------------------------------------------------------------------ my_softmax


def shifted(scores: Tensor) -> Tensor:
    return (scores - scores.amax(-1, keepdim=True)).exp()


def normalized(powers: Tensor) -> Tensor:
    return powers / powers.sum(-1, keepdim=True)


def my_softmax(scores: Tensor, *, power: Step = shifted, divide: Step = normalized) -> Tensor:
    return divide(power(scores))


soft = partial(partial, my_softmax)

MY_SOFTMAX = Exercise(
    name="my_softmax",
    reference=my_softmax,
    cases=lambda: [
        Case((torch.tensor([1.0, 1.0]),), "equal scores share the weight equally"),
        Case(
            (torch.tensor([2.0, -1.0]),),
            "the larger score gets the larger weight, both are positive, and differences decide",
        ),
        Case((torch.tensor([3.0, 1.0, 0.0]),), "three weights sum to 1"),
        Case((torch.tensor([[1.0, 2, 0], [3, 0, 1]]),), "each row has its own sum, which is 1"),
        Case((torch.tensor([[1.0, 2], [3, 0]]),), "in a square, too, the rows sum to 1"),
        Case((integers(2, 3, 3),), "the last axis is the one that sums to 1"),
        Case((torch.tensor([1000.0, 999.0, 0.0]),), "exp must not overflow where scores are large"),
        Case(
            (torch.tensor([[1000.0, 999.0], [-1000.0, -999.0]]),),
            "a row may lie far below another row",
        ),
    ],
    section="How do scores become proportions?",
    forbids=(torch.softmax, torch.nn.Softmax),
    mistakes={
        "the scores are divided by their sum, without exp: a negative score becomes a negative "
        "weight": normalized,
        "exp overflows: in float32 e^89 is already inf, and inf / inf is not a number": soft(
            power=torch.exp
        ),
        "the exponentials are not divided by their sum": shifted,
        "more than a row's own largest number is subtracted: in a row far below it every exp is "
        "0, and 0 / 0 is not a number": soft(power=lambda s: (s - s.max()).exp()),
        "the softmax runs along the first axis": soft(divide=lambda p: p / p.sum(0, keepdim=True)),
        "the sum has lost its axis, because keepdim=True is missing": soft(
            divide=lambda p: p / p.sum(-1)
        ),
        "the maximum has lost its axis, because keepdim=True is missing": soft(
            power=lambda s: (s - s.amax(-1)).exp()
        ),
    },
)

# ------------------------------------------------------------------------------- distance_lookup


def distance_lookup(
    query: Tensor,
    keys: Tensor,
    values: Tensor,
    temperature: float = 1.0,
    *,
    score: Callable[[Tensor, Tensor], Tensor] = lambda q, k: -(q - k).square().sum(-1),
    heat: Callable[[Tensor, float], Tensor] = lambda scores, temperature: scores / temperature,
) -> Tensor:
    return heat(score(query, keys), temperature).softmax(-1) @ values


def lookup_cases() -> list[Case]:
    def case(query: list[float], keys: list[list[float]], why: str, **temperature: float) -> Case:
        values = torch.tensor([[10.0], [20], [40], [80]])[: len(keys)]
        return Case(
            (torch.tensor(query).float(), torch.tensor(keys), values), why, kwargs=temperature
        )

    ahead = [[0.0, 0], [1, 0], [2, 0]]
    return [
        case([1, 0], [[0.0, 0], [2, 0]], "two keys at the same distance count the same"),
        case([0, 0], [[0.0, 0], [1, 0]], "softmax turns minus the squared distances into weights"),
        case([0, 0], ahead, "the weight falls steeply with the distance"),
        case([0, 0], [[1.0, -1], [0, 2]], "each feature adds to the distance, whatever its sign"),
        case([1, 0, 2], [[1.0, 1, 1], [0, 0, 2], [2, 0, 0]], "each key gets one score"),
        Case((integers(2), integers(4, 2, seed=1), integers(4, 3)), "a value may have any width"),
        case(
            [0, 0],
            ahead,
            "a high temperature evens the weights out: it divides the scores",
            temperature=4.0,
        ),
        case([0, 0], ahead, "a low temperature sharpens them", temperature=0.5),
        case([40, 0], ahead, "a query far from all keys gets an answer, too"),
    ]


lookup = partial(partial, distance_lookup)

DISTANCE_LOOKUP = Exercise(
    name="distance_lookup",
    reference=distance_lookup,
    cases=lookup_cases,
    section="Does similarity have to be a dot product?",
    mistakes={
        "the minus sign is missing: the farthest key gets the most": lookup(
            score=lambda q, k: (q - k).square().sum(-1)
        ),
        "the distance is not squared": lookup(score=lambda q, k: -(q - k).square().sum(-1).sqrt()),
        "the temperature is not used": lookup(heat=lambda scores, temperature: scores),
        "the scores are multiplied by the temperature: heat then makes the lookup stricter": lookup(
            heat=lambda scores, temperature: scores * temperature
        ),
        "the scores are still dot products": lookup(score=lambda q, k: k @ q),
        "the squares are added up over the keys, not over the features": lookup(
            score=lambda q, k: -(q - k).square().sum(0)
        ),
    },
)

# ------------------------------------------------------------------------------------- my_attend


def my_attend(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    *,
    score: Callable[[Tensor, Tensor], Tensor] = lambda q, k: q @ k.mT,
    weigh: Step = lambda scores: scores.softmax(-1),
) -> Tensor:
    return weigh(score(query, key)) @ value


def attend_cases() -> list[Case]:
    def case(why: str, *sizes: int, t: int, s: int, d_k: int, d_v: int) -> Case:
        shapes = (t, d_k), (s, d_k), (s, d_v)
        three = [integers(*sizes, *shape, seed=i, most=2) for i, shape in enumerate(shapes)]
        return Case(tuple(three), why)

    keys, values = torch.tensor([[1.0, 0], [0, 1]]), torch.tensor([[10.0], [20]])
    return [
        Case((torch.tensor([[1.0, 1]]), keys, values), "equal scores share the weight equally"),
        Case((torch.tensor([[2.0, 1]]), keys, values), "softmax of the dot products"),
        Case((torch.tensor([[2.0, 1], [0, 2]]), keys, values), "no query's answer depends on who "
             "else is asking"),
        case("each row of scores belongs to a query", t=3, s=3, d_k=3, d_v=3),
        case("T, S, d_k and d_v may differ", t=2, s=4, d_k=3, d_v=5),
        case("with an axis in front, axes are counted from the end", 2, t=2, s=3, d_k=2, d_v=2),
        case("there may be several axes in front", 2, 3, t=3, s=4, d_k=5, d_v=2),
    ]  # fmt: skip


attend = partial(partial, my_attend)

MY_ATTEND = Exercise(
    name="my_attend",
    reference=my_attend,
    cases=attend_cases,
    section="How do you ask many questions at once?",
    mistakes={
        "the softmax runs over the queries: each answer then depends on who else is asking": attend(
            weigh=lambda scores: scores.softmax(-2)
        ),
        "there is no softmax: the scores themselves mix the values": attend(weigh=lambda s: s),
        "the scores are divided by √d_k, which comes only in chapter 2": attend(
            score=lambda q, k: q @ k.mT / k.size(-1) ** 0.5
        ),
        "the keys are not transposed": attend(score=lambda q, k: q @ k),
    },
)

check = Checker(MY_SOFTMAX, DISTANCE_LOOKUP, MY_ATTEND)
