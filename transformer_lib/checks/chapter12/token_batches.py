"""The exercise `token_batches`: what it asks for, and how its answers go wrong."""

from __future__ import annotations

from collections.abc import Callable

from transformer_lib.checks.old.core import Case, Exercise

Batches = list[list[int]]
Full = Callable[[list[int], int, int], bool]
Answer = Callable[[list[int], int], Batches]


def _maker(
    *,
    full: Full = lambda batch, new, most: (len(batch) + 1) * new > most,
    order: Callable[[list[int]], list[int]] = lambda lengths: sorted(
        range(len(lengths)), key=lengths.__getitem__
    ),
    keep_last: bool = True,
    lose: bool = False,
) -> Callable[[list[int], int], Batches]:
    """`full`: of the lengths in the batch, that of the newcomer and the budget."""

    def token_batches(lengths: list[int], max_tokens: int) -> Batches:
        batches: Batches = []
        batch: list[int] = []
        for i in order(lengths):
            if batch and full([lengths[j] for j in batch], lengths[i], max_tokens):
                batches.append(batch)
                batch = [] if lose else [i]
            else:
                batch.append(i)
        return [*batches, batch] if batch and keep_last else batches

    return token_batches


def _of_lengths(lengths: list[int], max_tokens: int) -> Batches:
    return [[lengths[i] for i in batch] for batch in _RIGHT(lengths, max_tokens)]


def _of_places(lengths: list[int], max_tokens: int) -> Batches:
    """Indices into the sorted list."""
    return _RIGHT(sorted(lengths), max_tokens)


def _by_number(lengths: list[int], max_tokens: int) -> Batches:
    order = sorted(range(len(lengths)), key=lengths.__getitem__)
    size = max(1, max_tokens // max(lengths))
    return [order[i : i + size] for i in range(0, len(order), size)]


def _empty_first(lengths: list[int], max_tokens: int) -> Batches:
    return [[], *_RIGHT(lengths, max_tokens)]


def _by_value(lengths: list[int], max_tokens: int) -> Batches:
    """`lengths.index` finds the first of several equals, again and again."""
    return [[lengths.index(lengths[i]) for i in batch] for batch in _RIGHT(lengths, max_tokens)]


def _one_list(lengths: list[int], max_tokens: int) -> Batches:
    """Appended again and again, and cleared each time: all batches hold what the last one does."""
    batches = _RIGHT(lengths, max_tokens)
    return [batches[-1]] * len(batches)


def _longest_first(lengths: list[int]) -> list[int]:
    return sorted(range(len(lengths)), key=lambda i: -lengths[i])


def _reversed(lengths: list[int]) -> list[int]:
    return sorted(range(len(lengths)), key=lengths.__getitem__, reverse=True)


def _turned_round(lengths: list[int]) -> list[int]:
    return sorted(range(len(lengths)), key=lengths.__getitem__)[::-1]


def _ties_backwards(lengths: list[int]) -> list[int]:
    return _longest_first(lengths)[::-1]


def _without_texts(answer: Answer, then: Callable[[], Batches]) -> Answer:
    """`answer`, but for no texts at all: what happens there is another question."""
    return lambda lengths, max_tokens: answer(lengths, max_tokens) if lengths else then()


_RIGHT = _maker()
# What people's answers do without texts: right, one empty batch, lengths[0], max(lengths).
_NOTHING: list[Callable[[], Batches]] = [
    lambda: [], lambda: [[]], lambda: [][0], lambda: max([])
]  # fmt: skip

_MISTAKES: dict[str, list[Answer]] = {
    "the padding is not counted: the lengths are added up, and a batch costs its rows times "
    "the longest of them": [_maker(full=lambda batch, new, most: sum(batch) + new > most)],
    "the newcomer's own length is not counted: rows are filled up to the longest, which is "
    "the newcomer": [
        _maker(full=lambda batch, new, most: (len(batch) + 1) * batch[-1] > most),
        _maker(full=lambda batch, new, most: (len(batch) + 1) * batch[0] > most),
    ],
    "the newcomer's own row is not counted: with it the batch has one row more": [
        _maker(full=lambda batch, new, most: len(batch) * new > most)
    ],
    "the batch is looked at before the newcomer is in it: it may come out too large": [
        _maker(full=lambda batch, new, most: len(batch) * batch[-1] > most),
        _maker(full=lambda batch, new, most: len(batch) * batch[-1] >= most),
        _maker(full=lambda batch, new, most: sum(batch) > most),
        _maker(full=lambda batch, new, most: sum(batch) >= most),
    ],
    "a batch that fills its budget exactly is counted as too large": [
        _maker(full=lambda batch, new, most: (len(batch) + 1) * new >= most)
    ],
    "each text is counted as one place longer, as if for <eos>: take `lengths` as they are": [
        _maker(full=lambda batch, new, most: (len(batch) + 1) * (new + 1) > most)
    ],
    "max_tokens is taken for a number of texts": [
        _maker(full=lambda batch, new, most: len(batch) + 1 > most)
    ],
    "all batches have the same number of texts: short texts would leave room for more": [
        _by_number
    ],
    "the texts are not sorted: they come in the order in which they were given": [
        _maker(order=lambda lengths: list(range(len(lengths)))),
        _maker(
            order=lambda lengths: list(range(len(lengths))),
            full=lambda batch, new, most: (len(batch) + 1) * max([*batch, new]) > most,
        ),
        _maker(
            order=lambda lengths: list(range(len(lengths))),
            full=lambda batch, new, most: sum(batch) + new > most,
        ),
    ],
    "the longest come first": [
        _maker(order=order, full=full)
        for order in (_longest_first, _reversed, _turned_round)
        for full in (
            lambda batch, new, most: (len(batch) + 1) * batch[0] > most,
            lambda batch, new, most: (len(batch) + 1) * new > most,
        )
    ],
    "equals come in the wrong order: the earlier one first": [_maker(order=_ties_backwards)],
    "the last batch is missing: nothing closes it after the loop": [_maker(keep_last=False)],
    "the text that no longer fits is lost: it begins the next batch": [_maker(lose=True)],
    "the batches hold lengths; they must hold indices into `lengths`": [_of_lengths],
    "the indices are those of the sorted list, not of `lengths`": [_of_places],
    "an index occurs twice: `lengths.index` always finds the first of several equals": [_by_value],
    "the first batch is empty": [_empty_first],
    "all batches are one and the same list, which `clear()` empties each time: begin a new list": [
        _one_list
    ],
}

TOKEN_BATCHES = Exercise(
    name="token_batches",
    reference=_RIGHT,
    cases=[
        Case("one text", [3], 5),
        Case("all fit", [2, 3], 6),
        Case("in order of length", [1, 2, 4, 5], 8),
        Case("mixed lengths", [2, 9, 3, 2, 8], 18),
        Case("equals keep their order", [4, 2, 4, 2, 4, 2, 4], 8),
        Case("the padding breaks the budget", [1, 1, 1, 1, 6], 12),
        Case("each by itself", [7, 5, 6], 7),
        Case("many", [3, 11, 7, 2, 2, 5, 9, 4, 11, 6, 1, 8, 3, 10, 5, 7], 22),
        Case("no text at all", [], 5),
    ],
    mistakes={
        **{
            description: [_without_texts(answer, then) for answer in answers for then in _NOTHING]
            for description, answers in _MISTAKES.items()
        },
        "without any text there is one batch all the same, an empty one: there is none": [
            _without_texts(_RIGHT, _NOTHING[1])
        ],
        "without any text it fails: then there is no batch, and the result is an empty list": [
            _without_texts(_RIGHT, then) for then in _NOTHING[2:]
        ],
    },
    section="How much of a batch is nothing?",
)
