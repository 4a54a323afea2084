"""Checkers for chapter 16, *Looking inside: is a map an explanation?*"""

from collections.abc import Callable, Sequence
from functools import partial

import torch
from torch import Tensor

from transformer_lib.checks import Case, Checker, Exercise
from transformer_lib.checks.inputs import normal

__all__ = ["check"]

# -------------------------------------------------------------------------- alignment_error_rate


def rate(both_sure: Tensor, both_possible: Tensor, found: Tensor, sure: Tensor) -> Tensor:
    return 1 - (both_sure + both_possible) / (found + sure)


def alignment_error_rate(
    weights: Tensor,
    sure: Tensor,
    possible: Tensor,
    threshold: float,
    *,
    formula: Callable[[Tensor, Tensor, Tensor, Tensor], Tensor] = rate,
) -> Tensor:
    a = (weights >= threshold) & possible.any(-1, keepdim=True)
    return formula((a & sure).sum(), (a & possible).sum(), a.sum(), sure.sum())


def mean_of_texts(weights: Tensor, sure: Tensor, possible: Tensor, threshold: float) -> Tensor:
    texts = zip(weights, sure, possible, strict=True)
    return torch.stack([alignment_error_rate(*text, threshold) for text in texts]).mean()


def alignment_cases() -> list[Case]:
    sure = torch.tensor([[[1, 0, 0], [0, 0, 0], [0, 0, 1]]]).bool()
    possible = torch.tensor([[[1, 0, 0], [0, 1, 1], [0, 0, 1]]]).bool()
    clear = torch.tensor([[[0.6, 0.4, 0], [0.3, 0.5, 0.2], [0, 0.3, 0.7]]])
    even = torch.tensor([[[0.5, 0.5, 0], [0.25, 0.5, 0.25], [0, 0.25, 0.75]]])
    corner = torch.tensor([[[1, 0], [0, 0]]]).bool()

    def some(b: int, t: int, s: int, threshold: float, seed: int, padding: int) -> Case:
        """Most weight is on the diagonal; the last text has rows that are not letters."""
        diagonal = (torch.arange(t) * s // t)[:, None] == torch.arange(s)
        sure = diagonal.expand(b, t, s).clone()
        sure[:, t // 2] = False
        possible = sure.clone()
        possible[:, t // 2] = torch.arange(s) < max(2, s - 1)
        sure[-1, t - padding :] = possible[-1, t - padding :] = False
        weights = (1.5 * normal(b, t, s, seed=seed) + 1.5 * diagonal).softmax(-1)
        return Case((weights, sure, possible, threshold), "several texts, as the chapter has them")

    return [
        Case((sure.float(), sure, possible, 0.5), "a map of exactly the sure links has rate 0"),
        Case(
            (clear, sure, possible, 0.35),
            "of these four links two are sure, one is only possible and one is neither; no sure "
            "link is missing",
        ),
        Case((even, sure, possible, 0.5), "a weight of exactly the threshold is a link"),
        Case((even, sure, possible, 0.75), "a row may have no link, and sure links may be missing"),
        Case((even, sure, possible, 0.25), "each row may have several links"),
        Case(
            (torch.tensor([[[1.0, 0], [0.5, 0.5]]]), corner, corner, 0.5),
            "a row without any possible link isn't a letter",
        ),
        Case(
            (
                torch.tensor([[[1.0, 0], [0.5, 0.5]], [[0, 1.0], [0.5, 0.5]]]),
                torch.cat([corner, corner.mT.flip(-1)]),
                torch.cat([corner, torch.ones(1, 2, 2).bool()]),
                0.5,
            ),
            "the counts of all texts are added up before the division",
        ),
        some(3, 7, 5, 0.2, seed=2, padding=3),
    ]


aer = partial(partial, alignment_error_rate)

ALIGNMENT_ERROR_RATE = Exercise(
    name="alignment_error_rate",
    reference=alignment_error_rate,
    cases=alignment_cases,
    section="How do you score a map of a sentence?",
    mistakes={
        "sure links are counted only once above the line: they are possible as well": aer(
            formula=lambda a_s, a_p, a, s: 1 - a_p / (a + s)
        ),
        "1 minus is missing: this is how much is right": aer(
            formula=lambda a_s, a_p, a, s: (a_s + a_p) / (a + s)
        ),
        "each text gets its own rate, and the rates are averaged": mean_of_texts,
        "parentheses are missing below the line": aer(
            formula=lambda a_s, a_p, a, s: 1 - (a_s + a_p) / a + s
        ),
    },
)

# ----------------------------------------------------------------------------------------- prune

Loss = Callable[[list[str]], float]


class Priced:
    """A loss of whole numbers: prices of single heads, and of some that are gone together."""

    def __init__(self, full: int, **prices: int) -> None:
        self.full, self.prices = full, prices

    def __call__(self, gone: Sequence[str]) -> int:
        return self.full + sum(p for heads, p in self.prices.items() if set(heads) <= set(gone))


def rest(heads: list[str], gone: list[str]) -> list[str]:
    return [head for head in heads if head not in gone]


def prune(
    loss: Loss,
    heads: list[str],
    budget: float,
    *,
    price: Callable[..., float] = lambda loss, gone, head: loss([*gone, head]),
    pick: Callable[..., str] = min,
) -> list[str]:
    gone: list[str] = []
    while len(gone) < len(heads):
        head = pick(rest(heads, gone), key=lambda head: price(loss, gone, head))
        if loss([*gone, head]) > budget:
            break
        gone.append(head)
    return gone


def prune_cases() -> list[Case]:
    def case(loss: Priced, heads: str, budget: int, why: str) -> Case:
        return Case((loss, [*heads], budget), why)

    two = Priced(10, a=5, b=1)
    pair = Priced(10, a=1, b=2, c=4, ab=9)
    web = Priced(20, a=5, b=3, c=4, d=6, bc=6, bd=-3, ac=3, acd=8)
    equal = Priced(5, a=2, b=1, c=1, d=2, bc=2)
    better = Priced(30, a=3, b=-2, c=2, d=1, e=7, ad=-4, cd=5, be=2)
    return [
        case(two, "ab", 12, "no removal may bring the loss above the budget, 12: it is 10 with "
             "both heads, 15 without a, 11 without b and 16 without both"),
        case(two, "ab", 11, "the loss is 11 without b, and exactly the budget, here 11, is "
             "allowed"),
        case(two, "ab", 10, "even the better removal brings the loss to 11, and the budget is 10"),
        case(two, "ab", 99, "a large budget lets all heads go, the better one first"),
        case(pair, "abc", 16, "a goes first, and from then on b costs 11, not 2: together they can "
             "do less than each alone"),
        case(web, "abcd", 31, "after each removal all remaining heads are compared again"),
        case(equal, "abcd", 8, "of equally good heads, the one that comes first in `heads` goes"),
        case(equal, "dcba", 8, "the order of `heads` decides between equally good heads, not their "
             "names"),
        case(better, "abcde", 31, "a removal may lower the loss"),
        case(Priced(6, a=-2, b=3), "ba", 5, "the loss is above the budget at first, and the "
             "removal of a brings it below"),
        case(Priced(1, a=8, b=9, ab=-16), "ab", 5, "it stops at the first removal that costs too "
             "much, even if a second one would help"),
    ]  # fmt: skip


pruned = partial(partial, prune)

PRUNE = Exercise(
    name="prune",
    reference=prune,
    cases=prune_cases,
    section="What is lost without it?",
    mistakes={
        "the heads are ordered by what each costs alone, measured once: after every removal, those "
        "that are left must be measured again": pruned(price=lambda loss, gone, head: loss([head])),
        "the budget is taken as an increase: it is a loss": (
            lambda loss, heads, budget: prune(loss, heads, loss([]) + budget)
        ),
        "the most important head goes first: the one to remove is that without which the loss is "
        "lowest": pruned(pick=max),
        "the heads that stay are returned": (
            lambda loss, heads, budget: rest(heads, prune(loss, heads, budget))
        ),
        "`loss` is given the heads that stay, not those that are gone": (
            lambda loss, heads, budget: prune(lambda gone: loss(rest(heads, gone)), heads, budget)
        ),
    },
)

# --------------------------------------------------------------------------------- contributions


def contributions(
    weights: Tensor,
    values: Tensor,
    out_weight: Tensor,
    *,
    join: Callable[[Tensor], Tensor] = lambda added: added.sum(1),
    measure: Callable[[Tensor], Tensor] = lambda vectors: vectors.norm(dim=-1),
) -> Tensor:
    columns = out_weight.unflatten(1, (values.size(1), -1))
    turned = torch.einsum("bhsk,dhk->bhsd", values, columns)
    added = torch.einsum("bhts,bhsd->bhtsd", weights, turned)
    return measure(join(added))


def reshaped(weights: Tensor, values: Tensor, out_weight: Tensor) -> Tensor:
    b, _, t, s = weights.shape
    joined = (weights[..., None] * values[:, :, None]).reshape(b, t, s, -1)
    return (joined @ out_weight.mT).norm(dim=-1)


def contribution_cases() -> list[Case]:
    def single(value: list[float], matrix: list[list[float]], why: str) -> Case:
        weights, values = torch.tensor([[[[0.5]]]]), torch.tensor([[[value]]])
        return Case((weights, values, torch.tensor(matrix)), why)

    def some(b: int, h: int, t: int, s: int, d_head: int, why: str, seed: int = 0) -> Case:
        weights = normal(b, h, t, s, seed=seed).softmax(-1)
        values, d_model = normal(b, h, s, d_head, seed=seed + 1), h * d_head
        return Case((weights, values, normal(d_model, d_model, seed=seed + 2)), why)

    cancel = torch.tensor([[[[1.0], [2]], [[-1], [1]]]])
    return [
        single([6.0, 8], [[1.0, 0], [0, 1]], "half of the vector (6, 8) has length 5"),
        single(
            [6.0, 8],
            [[0.0, 1], [0, 0]],
            "a linear layer with the weight [[0, 1], [0, 0]] turns (6, 8) into (8, 0)",
        ),
        Case(
            (torch.full((1, 2, 1, 2), 0.5), cancel, torch.tensor([[1.0, 1], [0, 0]])),
            "the two heads add opposite vectors for the first piece, and these cancel",
        ),
        some(1, 1, 2, 3, 5, "each piece adds a vector of its own to each row"),
        some(1, 2, 3, 5, 3, "each head has its own weights and its own columns of the matrix"),
        some(2, 3, 5, 7, 2, "each text has its own weights and values", seed=10),
        some(2, 2, 3, 3, 5, "rows come before pieces", seed=13),
    ]


lengths = partial(partial, contributions)

CONTRIBUTIONS = Exercise(
    name="contributions",
    reference=contributions,
    cases=contribution_cases,
    section="Are large weights on small vectors?",
    mistakes={
        "the length is measured in each head, and the lengths are added: the heads' vectors must "
        "be added first, and they may cancel": lengths(
            join=lambda added: added.norm(dim=-1).sum(1), measure=lambda lengths: lengths
        ),
        "the output matrix is not transposed: nn.Linear keeps it as (output, input)": (
            lambda weights, values, matrix: contributions(weights, values, matrix.mT)
        ),
        "`reshape` joins the heads while their axis isn't next to the last one: numbers of "
        "different rows then get into one vector": reshaped,
        "the heads are averaged, not added": lengths(join=lambda added: added.mean(1)),
    },
)

check = Checker(ALIGNMENT_ERROR_RATE, PRUNE, CONTRIBUTIONS)
