"""The exercise `is_equivariant`: what it asks for, and how its answers go wrong."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator

import torch
from torch import Tensor

from transformer_lib.attention import attention
from transformer_lib.checks.old.core import Case, Exercise
from transformer_lib.checks.old.inputs import random_tensor
from transformer_lib.masks import causal_mask

Layer = Callable[[Tensor], Tensor]


# ------------------------------------------------------- what is tested: the names are in reports


def doubled(x: Tensor) -> Tensor:
    return 2 * x


def columns_reversed(x: Tensor) -> Tensor:
    return x.flip(1)


def column_weights(x: Tensor) -> Tensor:
    return x * torch.arange(1.0, x.shape[1] + 1)


def self_attention(x: Tensor) -> Tensor:
    return attention(x, x, x).output


def cross_attention(x: Tensor) -> Tensor:
    memory = random_tensor(4, x.shape[1], seed=7)
    return attention(x, memory, memory).output


def mean_of_all(x: Tensor) -> Tensor:
    return x.mean(0).expand_as(x)


def causal_attention(x: Tensor) -> Tensor:
    return attention(x, x, x, causal_mask(len(x))).output


def places_added(x: Tensor) -> Tensor:
    return self_attention(x + torch.arange(len(x))[:, None] / 2)


def rows_reversed(x: Tensor) -> Tensor:
    return x.flip(0)


def rows_moved_on(x: Tensor) -> Tensor:
    return x.roll(1, 0)


def first_two_exchanged(x: Tensor) -> Tensor:
    return torch.cat([x[:2].flip(0), x[2:]])


def last_row_doubled(x: Tensor) -> Tensor:
    return torch.cat([x[:-1], 2 * x[-1:]])


def first_row_doubled(x: Tensor) -> Tensor:
    return torch.cat([2 * x[:1], x[1:]])


def second_row_doubled(x: Tensor) -> Tensor:
    return torch.cat([x[:1], 2 * x[1:2], x[2:]])


def third_row_doubled(x: Tensor) -> Tensor:
    return torch.cat([x[:2], 2 * x[2:3], x[3:]])


def fourth_row_doubled(x: Tensor) -> Tensor:
    return torch.cat([x[:3], 2 * x[3:4], x[4:]])


def places_only(x: Tensor) -> Tensor:
    return x + torch.arange(len(x))[:, None]


def places_faint(x: Tensor) -> Tensor:
    return x + torch.arange(len(x))[:, None] / 100


def columns_sorted(x: Tensor) -> Tensor:
    return x.sort(0).values


class _Reordered:
    """Puts the rows in one fixed order."""

    def __init__(self, order: tuple[int, ...]) -> None:
        self.order = list(order)
        self.__name__ = f"rows_in_the_order_{'_'.join(map(str, order))}"

    def __call__(self, x: Tensor) -> Tensor:
        return x[self.order]


def _orders() -> Iterator[tuple[int, ...]]:
    """Orders of 5 rows such that each shuffle that moves all rows commutes with one of them.

    So any single shuffle is taken in by one of these functions, or by one that doubles a row. A
    shuffle that moves all 5 rows is a cycle of 5, which commutes with its own powers, or an
    exchange of two rows beside a cycle of three, which commutes with that exchange.
    """
    for i, j in itertools.combinations(range(5), 2):
        order = [*range(5)]
        order[i], order[j] = j, i
        yield tuple(order)
    seen: set[tuple[int, ...]] = set()
    for rest in itertools.permutations(range(1, 5)):
        cycle = (0, *rest)
        order = tuple(cycle[(cycle.index(row) + 1) % 5] for row in range(5))
        if order not in seen:
            yield order
        power = order
        for _ in range(4):
            seen.add(power)
            power = tuple(order[row] for row in power)


# ---------------------------------------------------------------------------- how it is tested


def _shuffles(n: int) -> Iterator[Tensor]:
    generator = torch.Generator().manual_seed(1)
    for _ in range(12):
        yield torch.randperm(n, generator=generator)


def _close(a: Tensor, b: Tensor, atol: float = 1e-5) -> bool:
    return a.shape == b.shape and torch.allclose(a, b, atol=atol)


def _drawn(tries: int) -> Callable[[int], list[Tensor]]:
    """The shuffles that a learner's `torch.randperm` draws, since `_tried` sets the seed."""
    return lambda n: [torch.randperm(n) for _ in range(tries)]


def _holds(
    law: Callable[[Layer, Tensor, Tensor], bool],
    shuffles: Callable[[int], Iterable[Tensor]] = _shuffles,
) -> Callable[[Layer, Tensor], bool]:
    """An answer that tries one law with each of some shuffles."""
    return lambda f, x: all(law(f, x, order) for order in shuffles(len(x)))


def _law(f: Layer, x: Tensor, order: Tensor) -> bool:
    return _close(f(x[order]), f(x)[order])


def _is_equivariant(f: Layer, x: Tensor) -> bool:
    return _holds(_law)(f, x)


def _columns(f: Layer, x: Tensor) -> bool:
    return all(_close(f(x[:, order]), f(x)[:, order]) for order in _shuffles(x.shape[1]))


def _exchanged(n: int, i: int = 0, j: int = 1) -> list[Tensor]:
    order = torch.arange(n)
    order[[i, j]] = order[[j, i]]
    return [order]


def _two_shuffles(f: Layer, x: Tensor) -> bool:
    one, other = list(_shuffles(len(x)))[:2]
    return _close(f(x[one]), f(x)[other])


def _asserts(f: Layer, x: Tensor) -> bool:
    for order in _drawn(20)(len(x)):
        torch.testing.assert_close(f(x[order]), f(x)[order])
    return True


def _tried(answer: Callable[[Layer, Tensor], object], /, f: Layer, x: Tensor) -> object:
    # At this seed the first `torch.randperm(5)` exchanges the second row with the fourth: not
    # enough to find out about the others, which is the lesson of trying one shuffle.
    torch.manual_seed(_SEED)
    return answer(f, x)


def _any(tries: int) -> Callable[[Layer, Tensor], bool]:
    return lambda f, x: any(_law(f, x, order) for order in _drawn(tries)(len(x)))


_SEED = 92
_X = random_tensor(5, 3, seed=3)

_TESTED = [
    doubled, self_attention, causal_attention, places_added, cross_attention, columns_reversed,
    column_weights, rows_reversed, rows_moved_on, first_two_exchanged, first_row_doubled,
    second_row_doubled, third_row_doubled, fourth_row_doubled, last_row_doubled, places_only,
    places_faint, columns_sorted,
]  # fmt: skip

_NUMBERED = [*enumerate(_orders(), 1)]


def _drawn_once(seed: int) -> Callable[[Layer, Tensor], bool]:
    return _holds(
        _law, lambda n: [torch.randperm(n, generator=torch.Generator().manual_seed(seed))]
    )


def _taken_in(result: object, expected: object, /, f: Layer, **inputs: object) -> str | None:
    if expected or not result or not isinstance(f, _Reordered):
        return None
    return (
        "Your result is True for a function that puts the rows in another order, always the same: "
        "a single shuffle misses some of these, so try many, and ask all of them."
    )


IS_EQUIVARIANT = Exercise(
    name="is_equivariant",
    reference=_is_equivariant,
    cases=[
        *(Case(f"{f.__name__}, 5 words", f, _X) for f in _TESTED),
        *(Case(f"rows in a fixed order, {i}", _Reordered(order), _X) for i, order in _NUMBERED),
        Case("mean_of_all, 6 words of width 64", mean_of_all, random_tensor(6, 64, seed=5)),
        Case("self_attention, 6 words of width 64", self_attention, random_tensor(6, 64, seed=6)),
    ],
    mistakes={
        "the result is compared with the result of the unshuffled words as it stands: that tests "
        "whether nothing changes at all (invariance)": [
            _holds(lambda f, x, order: _close(f(x[order]), f(x))),
        ],
        "the words are shuffled before and the input is shuffled again, so f stands on one side "
        "only": _holds(lambda f, x, order: _close(f(x[order]), x[order])),
        "every last bit must agree: sums in another order round differently (see the note "
        '"To the last bit?")': [
            _holds(lambda f, x, order: torch.equal(f(x[order]), f(x)[order])),
        ],
        "the columns are shuffled: words are rows": _columns,
        "one shuffle is tried, and it turns the words around: a function that does the same "
        "passes": _holds(_law, lambda n: [torch.arange(n).flip(0)]),
        "one shuffle is tried, and it moves all words on by one: a function that does the same "
        "passes": [
            _holds(_law, lambda n: [torch.arange(n).roll(1)]),
            _holds(_law, lambda n: [torch.arange(n).roll(-1)]),
        ],
        "every function passes: only shapes are compared, or the one shuffle that is tried leaves "
        "every row where it is": [
            _holds(lambda f, x, order: f(x[order]).shape == f(x)[order].shape),
            _holds(_law, lambda n: [torch.arange(n)]),
            lambda f, x: True,
        ],
        "one shuffle that agrees is enough for True: all of them have to agree": [
            _any(tries) for tries in (5, 10, 12, 20, 30, 50, 100)
        ],
        "the tolerance is so wide that small differences pass: rounding is of the size of 1e-6": [
            _holds(lambda f, x, order: _close(f(x[order]), f(x)[order], atol=0.1)),
        ],
        "an assert stops the test where the answer should be False": _asserts,
        "only the first two words change places: what happens to the others goes unseen": [
            _holds(_law, _exchanged),
            _holds(lambda f, x, order: torch.equal(f(x[order]), f(x)[order]), _exchanged),
        ],
        "only the first and the last word change places: what happens to the others goes unseen": [
            _holds(_law, lambda n: _exchanged(n, 0, n - 1)),
        ],
        "sums or means over the words are compared: they do not tell which row is which": [
            _holds(lambda f, x, order: _close(f(x[order]).sum(0), f(x)[order].sum(0))),
            _holds(lambda f, x, order: _close(f(x[order]).sum(), f(x)[order].sum())),
        ],
        "the rows are sorted before they are compared: that throws away which row is which": [
            _holds(lambda f, x, order: _close(f(x[order]).sort(0)[0], f(x).sort(0)[0])),
        ],
        "the two sides are not shuffled alike: f(x[order]) belongs to f(x)[order], with one and "
        "the same order: no second draw, no inverse, not the same shuffle twice on one side": [
            _holds(lambda f, x, order: _close(f(x[order])[order], f(x))),
            _holds(lambda f, x, order: _close(f(x[order]), f(x)[order.argsort()])),
            _holds(lambda f, x, order: _close(f(x)[order], f(x))),
            _two_shuffles,
        ],
        "the answer is the wrong way round: True is for a function that passes": [
            lambda f, x: not _is_equivariant(f, x),
        ],
        "only one shuffle decides, the first, the last or a fixed one: what one shuffle does not "
        "show, the next may. Try many, and ask all of them": [
            _drawn_once(seed) for seed in (_SEED, *range(5), 42)
        ],
    },
    section="Could a better network do it?",
    properties=[_taken_in],
    use=_tried,
)
