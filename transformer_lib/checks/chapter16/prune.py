"""The exercise `prune`: what it asks for, and how its answers go wrong."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from transformer_lib.checks.old.core import Case, Exercise

Head = str
Loss = Callable[[list[Head]], float]
Answer = Callable[[Loss, list[Head], float], Any]


class Priced:
    """A loss of whole numbers: prices of single heads, and of some that are gone together."""

    def __init__(self, full: int, prices: dict[str, int]) -> None:
        self.full, self.prices = full, prices

    def __call__(self, gone: Sequence[Head]) -> int:
        """The loss without the heads of `gone`."""
        return self.full + sum(
            price for heads, price in self.prices.items() if set(heads) <= set(gone)
        )

    def __repr__(self) -> str:
        return f"transformer_lib.checks.chapter16.Priced({self.full}, {self.prices})"


def _left(heads: list[Head], gone: list[Head]) -> list[Head]:
    return [head for head in heads if head not in gone]


def _prune(loss: Loss, heads: list[Head], budget: float) -> list[Head]:
    gone: list[Head] = []
    while len(gone) < len(heads):
        cheapest = min(_left(heads, gone), key=lambda head: loss([*gone, head]))
        if loss([*gone, cheapest]) > budget:
            break
        gone.append(cheapest)
    return gone


def _looping(
    price: Callable[[Loss, list[Head], Head], float] = lambda loss, gone, head: loss([*gone, head]),
    over: Callable[[Loss, list[Head], Head, float], bool] = lambda loss, gone, head, budget: (
        loss([*gone, head]) > budget
    ),
    pick: Callable[..., Head] = min,
    among: Callable[[list[Head], list[Head]], list[Head]] = _left,
) -> Answer:
    """The loop, with another price, another end or another choice."""

    def answer(loss: Loss, heads: list[Head], budget: float) -> list[Head]:
        gone: list[Head] = []
        while len(gone) < len(heads):
            head = pick(among(heads, gone), key=lambda head: price(loss, gone, head))
            if over(loss, gone, head, budget):
                break
            gone.append(head)
        return gone

    return answer


def _then(change: Callable[[list[Head], list[Head]], Any]) -> Answer:
    """The right heads, handed back in another form."""
    return lambda loss, heads, budget: change(_prune(loss, heads, budget), heads)


def _alone(loss: Loss, gone: list[Head], head: Head) -> float:
    return loss([head])


def _sum_of_prices(loss: Loss, gone: list[Head], head: Head, budget: float) -> bool:
    full = loss([])
    return full + sum(loss([one]) - full for one in [*gone, head]) > budget


def _one_too_many(loss: Loss, heads: list[Head], budget: float) -> list[Head]:
    gone: list[Head] = []
    while len(gone) < len(heads) and loss(gone) <= budget:
        gone.append(min(_left(heads, gone), key=lambda head: loss([*gone, head])))
    return gone


def _asks_afterwards(loss: Loss, heads: list[Head], budget: float) -> list[Head]:
    gone: list[Head] = []
    while len(gone) < len(heads):
        gone.append(min(_left(heads, gone), key=lambda head: loss([*gone, head])))
        if loss(gone) > budget:
            break
    return gone


def _all_cheap(loss: Loss, heads: list[Head], budget: float) -> list[Head]:
    return [head for head in heads if loss([head]) <= budget]


def _one_pass(loss: Loss, heads: list[Head], budget: float) -> list[Head]:
    gone: list[Head] = []
    for head in heads:
        if loss([*gone, head]) <= budget:
            gone.append(head)
    return gone


def _sorted_pass(loss: Loss, heads: list[Head], budget: float) -> list[Head]:
    gone: list[Head] = []
    for head in sorted(heads, key=lambda head: loss([head])):
        if loss([*gone, head]) <= budget:
            gone.append(head)
    return gone


def _from_nothing(loss: Loss, heads: list[Head], budget: float) -> list[Head]:
    gone = list(heads)
    while gone and loss(gone) > budget:
        gone.remove(min(gone, key=lambda head: loss([one for one in gone if one != head])))
    return gone


def _given_back(loss: Loss, heads: list[Head], budget: float) -> list[Head]:
    gone = _prune(loss, heads, float("inf"))
    while gone and loss(gone) > budget:
        gone.pop()
    return gone


def _gives_up(loss: Loss, heads: list[Head], budget: float) -> list[Head]:
    return _prune(loss, heads, budget) if loss([]) <= budget else []


def _only_first(loss: Loss, heads: list[Head], budget: float) -> list[Head]:
    return _prune(loss, heads, budget)[:1]


def _last_of_equals(heads: list[Head], key: Callable[[Head], float]) -> Head:
    return min(reversed(heads), key=key)


def _first_by_name(heads: list[Head], key: Callable[[Head], float]) -> Head:
    return min(sorted(heads), key=key)


def _asks_for_the_rest(end_too: bool) -> Answer:
    """`loss` gets the heads that stay."""

    def answer(loss: Loss, heads: list[Head], budget: float) -> list[Head]:
        def price(loss: Loss, gone: list[Head], head: Head) -> float:
            return loss(_left(heads, [*gone, head]))

        def over(loss: Loss, gone: list[Head], head: Head, budget: float) -> bool:
            return price(loss, gone, head) > budget

        loop = _looping(price, over) if end_too else _looping(price)
        return loop(loss, heads, budget)

    return answer


def _keeps_one(loss: Loss, heads: list[Head], budget: float) -> list[Head]:
    return _prune(loss, heads, budget)[: len(heads) - 1]


_PAIR = Priced(10, {"a": 1, "b": 2, "c": 4, "ab": 9})
_WEB = Priced(20, {"a": 5, "b": 3, "c": 4, "d": 6, "bc": 6, "bd": -3, "ac": 3, "acd": 8})
_EQUAL = Priced(5, {"a": 2, "b": 1, "c": 1, "d": 2, "bc": 2})
_BETTER = Priced(30, {"a": 3, "b": -2, "c": 2, "d": 1, "e": 7, "ad": -4, "cd": 5, "be": 2})

PRUNE = Exercise(
    name="prune",
    reference=_prune,
    cases=[
        Case("two heads, the budget allows one", Priced(10, {"a": 5, "b": 1}), ["a", "b"], 12),
        Case("two that stand in for each other", _PAIR, ["a", "b", "c"], 15),
        Case("exactly the budget", _PAIR, ["c", "b", "a"], 11),
        Case("nothing may go", _WEB, ["a", "b", "c", "d"], 22),
        Case("prices that change", _WEB, ["a", "b", "c", "d"], 31),
        Case("equally good ones", _EQUAL, ["a", "b", "c", "d"], 8),
        Case("the same, in another order", _EQUAL, ["d", "c", "b", "a"], 8),
        Case("a removal that helps", _BETTER, ["a", "b", "c", "d", "e"], 31),
        Case("a small budget", Priced(0, {"a": 1, "b": 2, "c": 4}), ["c", "b", "a"], 2),
        Case("all together cost less", Priced(1, {"a": 8, "b": 9, "ab": -16}), ["a", "b"], 5),
        Case("too much before anything goes", Priced(6, {"a": -2, "b": 3}), ["b", "a"], 5),
        Case("all may go", Priced(3, {"a": 2, "b": 1, "c": 3}), ["a", "b", "c"], 99),
    ],
    mistakes={
        "the prices of the single heads decide, measured once: measure those that are left again "
        "after every removal, together with the heads already gone": [
            _looping(price=_alone),
            _looping(price=_alone, over=_sum_of_prices),
            _looping(price=_alone, over=lambda loss, gone, head, budget: loss([head]) > budget),
            _sorted_pass,
        ],
        "the single losses are added up and compared with the budget: the loss of all that is "
        "gone, measured together, is what counts": _looping(over=_sum_of_prices),
        "only the newest head is measured against the budget: all that are gone count together": [
            _looping(over=lambda loss, gone, head, budget: loss([head]) > budget),
        ],
        "the head that brings the loss above the budget is removed before the end is noticed": [
            _one_too_many,
            _asks_afterwards,
            _looping(over=lambda loss, gone, head, budget: loss(gone) > budget),
            _looping(over=lambda loss, gone, head, budget: loss(gone) >= budget),
        ],
        "exactly the budget is refused: it is still allowed": [
            _looping(over=lambda loss, gone, head, budget: loss([*gone, head]) >= budget),
        ],
        "the budget is taken for an increase: it is a loss": [
            _looping(over=lambda loss, gone, head, b: loss([*gone, head]) - loss([]) > b),
        ],
        "the budget is taken for a number of heads: it is a loss": [
            lambda loss, heads, budget: _prune(loss, heads, float("inf"))[: int(budget)],
            lambda loss, heads, budget: _prune(loss, heads, float("inf"))[: -int(budget) or None],
        ],
        "the budget never ends it: stop before the loss exceeds it": [
            _looping(over=lambda loss, gone, head, budget: False),
        ],
        "the dearest head goes first: the one to remove is that without which the loss is lowest": [
            _looping(pick=max),
            _looping(price=_alone, pick=max),
        ],
        "the list holds the heads that stay: return those that are removed": [
            _then(lambda gone, heads: _left(heads, gone)),
        ],
        "the heads are not in the order of their removal": [
            _then(lambda gone, heads: [head for head in heads if head in gone]),
            _then(lambda gone, heads: sorted(gone)),
            _then(lambda gone, heads: gone[::-1]),
        ],
        "of equally good heads the last one goes: take the one that comes first in heads": [
            _looping(pick=_last_of_equals),
        ],
        "of equally good heads the first one by name goes: take the one that comes first in "
        "heads": _looping(pick=_first_by_name),
        "heads that are gone compete again: choose among those that are left": [
            _looping(among=lambda heads, gone: heads),
        ],
        "`loss` is asked about the heads that stay: it takes the list of those that are gone": [
            *map(_asks_for_the_rest, (True, False)),
        ],
        "heads are tried once, in the order of the list: each time all that are left compete": [
            _one_pass,
        ],
        "every head is tried by itself, and all that fit the budget alone go together": [
            _all_cheap,
        ],
        "it begins with no head at all and puts heads back: begin with all of them, and remove": [
            _from_nothing,
        ],
        "all heads are removed, and the last ones put back until the loss fits the budget: stop at "
        "the first removal that costs too much": _given_back,
        "nothing is removed where the loss is above the budget from the start: a removal may bring "
        "it down": _gives_up,
        "it ends after one removal": _only_first,
        "the last head always stays: if the budget allows it, all may go": _keeps_one,
        "a number is returned: the answer is the list of the removed heads": [
            _then(lambda gone, heads: len(gone)),
        ],
        "a set has no order: return a list, in the order of removal": [
            _then(lambda gone, heads: set(gone)),
        ],
    },
    section="What is lost without it?",
)
