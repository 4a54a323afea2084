"""Checkers for chapter 2, *From averaging to scaled dot-product attention*."""

import operator
from collections.abc import Callable
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor

from transformer_lib.attention import attention, fused_attention
from transformer_lib.checks import Case, Checker, Exercise
from transformer_lib.checks.inputs import integers
from transformer_lib.masks import causal_mask

__all__ = ["check"]

# ---------------------------------------------------------------------------------- past_average


def band(x: Tensor, window: int, last: int = 0) -> Tensor:
    """1 where row t takes from row s: from `window` rows, of which the last is t + last."""
    ones = torch.ones(len(x), len(x))
    return ones.tril(last) * ones.triu(last - window + 1)


def shares(weights: Tensor) -> Tensor:
    return weights / weights.sum(-1, keepdim=True)


def past_average(
    x: Tensor,
    window: int,
    *,
    allowed: Callable[[Tensor, int], Tensor] = band,
    divide: Callable[[Tensor], Tensor] = shares,
) -> Tensor:
    return divide(allowed(x, window)) @ x


def slices_from_the_end(x: Tensor, window: int) -> Tensor:
    return torch.stack([x[t - window + 1 : t + 1].mean(0) for t in range(len(x))])


average = partial(partial, past_average)

PAST_AVERAGE = Exercise(
    name="past_average",
    reference=past_average,
    cases=lambda: [
        Case((torch.tensor([[4.0], [2], [9]]), 1), "a window of 1 holds row t alone"),
        Case((torch.tensor([[12.0], [18], [21], [5]]), 2), "a window of 2 holds row t and the row "
             "before it; row 0 has none before it"),
        Case((torch.tensor([[3.0, -1, 4]]), 2), "a single row is its own average"),
        Case((integers(3, 3), 3), "the window may be as long as the text"),
        Case((integers(5, 2), 3), "a row that is too old drops out of the window"),
        Case((integers(2, 6), 4), "the window may be longer than the text"),
        Case((integers(7, 3), 5), "rows are averaged, not columns"),
    ],
    section="Can softmax compute an average?",
    mistakes={
        "the window is not used: row t averages all rows so far": average(
            allowed=lambda x, window: band(x, len(x))
        ),
        "the window is one row too long": average(allowed=lambda x, window: band(x, window + 1)),
        "the window is one row too short": average(allowed=lambda x, window: band(x, window - 1)),
        "every row is divided by the window, though the first rows have fewer to average": (
            lambda x, window: band(x, window) / window @ x
        ),
        "row t leaves itself out": average(allowed=lambda x, window: band(x, window, -1)),
        "the first rows' slices start below 0, which Python counts from the end": (
            slices_from_the_end
        ),
        "the sum has lost its axis, because keepdim=True is missing: row t's count divides "
        "column t": (
            average(divide=lambda weights: weights / weights.sum(-1))
        ),
        "the columns are divided by their sums: the weights of a row must sum to 1": average(
            divide=lambda weights: weights / weights.sum(0, keepdim=True)
        ),
        "the scores are 0 outside the window: e^0 = 1 is a weight like any other": average(
            divide=lambda weights: weights.softmax(-1)
        ),
    },
)  # fmt: skip

# ------------------------------------------------------------------------------ scaled_attention

Step = Callable[[Tensor], Tensor]


def future(scores: Tensor) -> Tensor:
    return torch.ones_like(scores).triu(1).bool()


def hidden(scores: Tensor) -> Tensor:
    return scores.masked_fill(future(scores), -torch.inf)


def same(scores: Tensor) -> Tensor:
    return scores


def scaled_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    causal: bool = False,
    *,
    power: float = 0.5,
    divide: Callable[[Tensor, float], Tensor] = operator.truediv,
    mask: Step = hidden,
    weigh: Step = lambda scores: scores.softmax(-1),
    after: Step = same,
) -> Tensor:
    scores = divide(query @ key.mT, query.shape[-1] ** power)
    weights = weigh(mask(scores) if causal else scores)
    return (after(weights) if causal else weights) @ value


def attention_cases() -> list[Case]:
    def case(why: str, *sizes: int, t: int, s: int, d_k: int, d_v: int, **causal: bool) -> Case:
        shapes = (t, d_k), (s, d_k), (s, d_v)
        three = [integers(*sizes, *shape, seed=i, most=2) for i, shape in enumerate(shapes)]
        return Case(tuple(three), why, kwargs=causal)

    one = torch.tensor([[2.0, 0, 0, 0]])
    keys, values = torch.tensor([[1.0, 0, 0, 0], [2, 0, 0, 0]]), torch.tensor([[10.0], [20]])
    equal, low = torch.ones(3, 1), torch.full((3, 4), -4.25)
    return [
        Case((one, keys[:1].repeat(2, 1), values), "equal scores share the weight equally"),
        Case((one, keys, values), "the scores are divided by √d_k, here 2, before the softmax"),
        case("each row of weights belongs to a query", t=3, s=3, d_k=3, d_v=3),
        case("T, S, d_k and d_v may all differ", t=2, s=4, d_k=3, d_v=5),
        Case((equal, equal, torch.tensor([[10.0], [20], [60]])), "query t takes from keys 0 to t, "
             "and their weights sum to 1", kwargs={"causal": True}),
        Case((torch.full((3, 4), 10.0), low, torch.tensor([[1.0], [1e6], [1e6]])), "real scores "
             "may lie far below 0, here at -85", kwargs={"causal": True}),
        case("with causal=True, scores are still scaled", t=3, s=3, d_k=2, d_v=2, causal=True),
        case("with axes in front, axes are counted from the end", 2, t=2, s=3, d_k=2, d_v=2),
        case("there may be several axes in front", 2, 3, t=3, s=4, d_k=5, d_v=2),
        case("the triangle is T by T, however many texts there are", 2, 3, t=4, s=4, d_k=5,
             d_v=2, causal=True),
    ]  # fmt: skip


attend = partial(partial, scaled_attention)

SCALED_ATTENTION = Exercise(
    name="scaled_attention",
    reference=scaled_attention,
    cases=attention_cases,
    section="Can you compute the formula by hand?",
    forbids=(F.scaled_dot_product_attention, attention, fused_attention, causal_mask),
    mistakes={
        "the scores are divided by d_k, not by its root: they come out too much alike": attend(
            power=1
        ),
        "the scores are rounded down: `//` does so, `/` doesn't": attend(divide=operator.floordiv),
        "the mask is the wrong way round: what is allowed gets minus infinity": attend(
            mask=lambda s: s.masked_fill(~future(s), -torch.inf)
        ),
        "the mask comes after the softmax: the weight of what is forbidden is lost": attend(
            mask=same, after=torch.tril
        ),
        "a forbidden score becomes 0, and e^0 = 1 is a weight like any other": attend(
            mask=torch.tril
        ),
        "the softmax runs over the queries, not over the keys": attend(
            weigh=lambda scores: scores.softmax(-2)
        ),
    },
)

check = Checker(PAST_AVERAGE, SCALED_ATTENTION)
