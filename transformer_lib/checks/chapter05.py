"""Checkers for chapter 5, *Masks*."""

from collections.abc import Callable, Iterable
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor

from transformer_lib.checks import Case, Checker, Exercise
from transformer_lib.checks.inputs import integers, normal

__all__ = ["check"]

# ------------------------------------------------------------------------------ masked_attention

Weigh = Callable[[Tensor, Tensor], Tensor]


def lowest(scores: Tensor) -> float:
    return torch.finfo(scores.dtype).min


def filled(fill: float | Callable[[Tensor], float], then: Weigh = lambda w, mask: w) -> Weigh:
    """Weights whose hidden scores are `fill`; `then` is done to the weights."""

    def weigh(scores: Tensor, mask: Tensor) -> Tensor:
        number = fill(scores) if callable(fill) else fill
        return then(scores.masked_fill(~mask, number).softmax(-1), mask)

    return weigh


def emptied(weights: Tensor, mask: Tensor) -> Tensor:
    return weights.masked_fill(~mask, 0)


right = filled(lowest, then=emptied)


def attend(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor,
    *,
    weigh: Weigh = right,
) -> Tensor:
    return weigh(query @ key.mT / query.shape[-1] ** 0.5, mask) @ value


def line(*scores: float, hidden: int = 0) -> tuple[Tensor, ...]:
    """A query and keys whose scaled scores are `scores`; the last `hidden` are masked."""
    keys = torch.tensor([[score, 0.0, 0, 0] for score in scores])
    seen = torch.arange(len(scores)) < len(scores) - hidden
    return torch.tensor([[2.0, 0, 0, 0]]), keys, torch.eye(len(scores)), seen[None]


def batch(*sizes: int, t: int, s: int, make: Callable[..., Tensor] = normal) -> list[Tensor]:
    shapes = ((t, 4), (s, 4), (s, 6))
    return [make(*sizes, *shape, seed=i) for i, shape in enumerate(shapes)]


def attention_cases() -> list[Case]:
    triangle = torch.ones(3, 3).tril().bool()
    padding = torch.arange(5) < torch.tensor([5, 2])[:, None, None]
    half = [x.half() for x in batch(t=3, s=3)]
    low = torch.tensor([[-200.0, 1, 0, 0], [-200, 2, 0, 0], [0.03, 0, 0, 0]])
    return [
        Case(line(0, 0), "equal scores share the weight equally"),
        Case(line(1, 2), "the scores are divided by √d_k, here 2, before the softmax"),
        Case(line(1, 2, 3, hidden=1), "the weight of a hidden key goes to the other keys"),
        Case(line(1, 2, hidden=2), "a query that may attend to nothing gets zeros, not NaN"),
        Case(
            (*batch(t=3, s=3, make=integers), triangle),
            "each query has its own row in the mask",
        ),
        Case(line(199, 200, 201), "exp must not overflow where scores are large"),
        Case(
            (torch.tensor([[2.0, 0, 0, 0], [-2, 0, 0, 0]]), *line(199, 201)[1:3], ones(2, 2)),
            "one query's scores may lie far below another's",
        ),
        Case(line(1, 2, 202, hidden=1), "a hidden score must not decide anything"),
        Case(
            (torch.tensor([[200.0, 2, 0, 0]]), low, torch.eye(3), line(0, 0, 0, hidden=1)[3]),
            "a real score may lie as low as -20,000",
        ),
        Case(
            (*batch(2, 3, t=7, s=5), padding[:, None]),
            "axes are counted from the end: batches may have several",
        ),
        Case((*half, triangle), "float16 has no number as low as -1e9"),
        Case((*half, triangle & False), "in float16, too, nothing to attend to means zeros"),
    ]


but = partial(partial, attend)

MASKED_ATTENTION = Exercise(
    name="masked_attention",
    reference=attend,
    cases=attention_cases,
    section="Which number stands in for minus infinity?",
    keeps=frozenset({"dtype"}),
    forbids=(F.scaled_dot_product_attention,),
    mistakes={
        "the mask comes after the softmax: a hidden key's weight is lost": but(
            weigh=lambda s, m: emptied(s.softmax(-1), m)
        ),
        "the hidden scores are filled with -1e9, which float16 doesn't have": but(
            weigh=filled(-1e9)
        ),
        "the hidden scores are minus infinity: a query that may attend to nothing gets 0/0": but(
            weigh=filled(-torch.inf)
        ),
        "a query that may attend to nothing spreads its weight evenly over hidden keys": but(
            weigh=filled(lowest)
        ),
        "the mask is upside down: True means may attend": but(
            weigh=lambda s, m: filled(lowest)(s, ~m)
        ),
        "the mask hides what it allows: True means may attend": but(
            weigh=lambda s, m: right(s, ~m)
        ),
        "a hidden score becomes 0, and e^0 = 1 is a weight like any other": but(
            weigh=lambda s, m: (s * m).softmax(-1)
        ),
    },
)

# ---------------------------------------------------------------------------------------- causal


def ones(t: int, s: int) -> Tensor:
    return torch.ones(t, s, dtype=torch.bool)


def causal(t: int, s: int) -> Tensor:
    return ones(t, s).tril(s - t)


CAUSAL = Exercise(
    name="causal",
    reference=causal,
    cases=lambda: [
        Case((1, 1), "every query may attend to its own position"),
        Case((3, 3), "query i may attend to positions 0 to i"),
        Case((1, 4), "one new token after three others may attend to all four"),
        Case((2, 5), "the queries are the last t of s positions"),
    ],
    section="Where does a mask change its meaning?",
    mistakes={
        "the triangle starts in the upper left corner: with more keys than queries, the queries "
        "are the last positions, not the first": lambda t, s: ones(t, s).tril(),
        "the mask is upside down: True means may attend": lambda t, s: ~causal(t, s),
        "the triangle is the upper one: a query then attends to what comes later": (
            lambda t, s: ones(t, s).triu(s - t)
        ),
        "the mask is square: it has as many columns as rows, whatever s is": (
            lambda t, s: ones(t, t).tril()
        ),
        "rows and columns are swapped: queries are rows, keys are columns": (
            lambda t, s: causal(t, s).mT
        ),
    },
)

# ----------------------------------------------------------------------------------------- leaks

Model = Callable[[Tensor], Tensor]
VOCAB = 7


class Reader:
    """A model that adds up what each position attends to: itself, its past, and `ahead`."""

    def __init__(self, ahead: Callable[..., bool], strength: float = 1.0) -> None:
        self.ahead, self.strength = ahead, strength
        self.table = normal(VOCAB, 3)

    def __call__(self, ids: Tensor) -> Tensor:
        x, (b, t) = F.embedding(ids, self.table), ids.shape
        weights = torch.zeros(b, t, t)
        for i in range(b):
            for q in range(t):
                for k in range(t):
                    seen = self.strength * self.ahead(q, k, t, i)
                    weights[i, q, k] = 1 / (1 + q - k) if k <= q else seen
        return weights @ x


def leaks(
    model: Model,
    ids: Tensor,
    vocab_size: int,
    *,
    copy: Callable[[Tensor], Tensor] = torch.clone,
    positions: Callable[[int], Iterable[int]] = lambda t: range(1, t),
    other: Callable[[Tensor, int], Tensor] = lambda old, vocab_size: (old + 1) % vocab_size,
    compared: Callable[[int], slice] = lambda i: slice(0, i),
) -> bool:
    before = model(ids)
    for i in positions(ids.shape[1]):
        changed = copy(ids)
        changed[:, i] = other(ids[:, i], vocab_size)
        if ((model(changed) - before)[:, compared(i)].abs() > 1e-6).any():
            return True
    return False


def at(query: int, key: int) -> Reader:
    return Reader(lambda q, k, t, b: (q, k) == (query, key))


def leak_cases() -> list[Case]:
    # 6 is the last of the vocabulary: ids + 1 must wrap around.
    one, bits = torch.tensor([[3, 1, 4, 1, 0, 5]]), torch.tensor([[0, 1, 1, 0, 1, 0]])
    two = torch.tensor([[3, 1, 4, 1, 0, 5], [6, 2, 6, 1, 0, 3]])
    honest = Reader(lambda *_: False)
    return [
        Case((honest, one, VOCAB), "this model attends to the past alone: no leak"),
        Case((Reader(lambda *_: True), one, VOCAB), "this model attends to everything"),
        Case((Reader(lambda q, k, *_: k == q + 1), one, VOCAB), "one diagonal too many leaks"),
        Case((honest, two, VOCAB), "in a batch of two, an honest model is still honest"),
        Case(
            (Reader(lambda q, k, t, _: k == t - 1), two, VOCAB),
            "attending to the last token from an earlier position is a leak",
        ),
        *(
            Case((at(q, k), two, VOCAB), f"only position {q} looks ahead, at position {k}")
            for q, k in ((2, 4), (0, 3), (3, 4), (0, 1), (4, 5), (1, 2))
        ),
        Case((Reader(lambda q, k, t, b: b == 1), two, VOCAB), "every row of the batch counts"),
        Case((Reader(lambda *_: True, 1e-3), two, VOCAB), "a leak that counts little is a leak"),
        *(
            Case((at(q, k), bits, 2), "a changed token must get another id, whichever it had")
            for q, k in ((0, 1), (1, 2), (2, 3), (3, 4), (4, 5), (0, 5), (1, 3), (2, 4))
        ),
    ]


tester = partial(partial, leaks)

LEAKS = Exercise(
    name="leaks",
    reference=leaks,
    cases=leak_cases,
    section="Does it see the future?",
    mistakes={
        "`ids` itself is changed: `=` and `ids[:, i]` only give it another name, `.clone()` copies "
        "it": tester(copy=lambda ids: ids),
        "outputs at or after the changed token are compared, though these may change": tester(
            compared=lambda i: slice(None)
        ),
        "only the last token is changed": tester(positions=lambda t: [t - 1]),
        "only the second token is changed, as when the loop returns in its first round": tester(
            positions=lambda t: [1]
        ),
        "the new token can be the old one: nothing changes then": tester(
            other=lambda old, vocab_size: torch.zeros_like(old)
        ),
    },
)

check = Checker(MASKED_ATTENTION, CAUSAL, LEAKS)
