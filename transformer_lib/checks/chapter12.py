"""Checkers for chapter 12, *Text to tensors, and back*."""

from collections import Counter
from collections.abc import Callable, Iterable
from functools import partial
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor

from transformer_lib.checks import Case, Checker, Exercise

__all__ = ["check"]

# ------------------------------------------------------------------------------------- best_pair

Pieces = tuple[str, ...]


def first_of_the_best(found: Counter) -> Any:
    return min(found, key=lambda pair: (-found[pair], pair))


def best_pair(
    cuts: dict[Pieces, int],
    *,
    best: Callable[[Counter], Any] = first_of_the_best,
) -> Any:
    found: Counter = Counter()
    for pieces, times in cuts.items():
        for pair in pairwise(pieces):
            found[pair] += times
    return best(found)


def without_items(cuts: dict[Pieces, int]) -> Any:
    found: Counter = Counter()
    for pieces, times in cuts:
        for pair in pairwise(pieces):
            found[pair] += times  # type: ignore
    return first_of_the_best(found)


def words(**times: int) -> dict[Pieces, int]:
    return {tuple(word): n for word, n in times.items()}


counting = partial(partial, best_pair)

BEST_PAIR = Exercise(
    name="best_pair",
    reference=best_pair,
    cases=lambda: [
        Case((words(ba=1),), "two neighbors are one pair"),
        Case((words(zyzyab=1),), "a pair that occurs twice in a word counts twice"),
        Case((words(xyxy=1, ab=3),), "a word that was met three times counts three times"),
        Case((words(xyz=2, xyw=2, ab=3),), "a pair may occur in several words"),
        Case(({("un", "d", "x"): 3, ("d", "un"): 4, ("u", "n"): 1},), "a piece may have several "
             "letters, and stays whole"),
        Case((words(ac=2, ba=2, zy=2, ab=2),), "these pairs are equally frequent, and the first in "
             "alphabetical order is asked for"),
        Case(({("ab", "c"): 2, ("a", "zz"): 2},), "Python compares tuples piece by piece"),
        Case((words(axb=2, ayb=2, yb=1),), "only neighbors are a pair"),
        Case((words(ya=1, bya=1, bz=1),), "no pair reaches from one word into the next"),
        Case((words(eee=2, fg=3),), "`e e e` holds two pairs, which overlap"),
    ],
    section="Which pieces are worth a row?",
    mistakes={
        "among equally frequent pairs, the one that was met first is returned": counting(
            best=lambda found: max(found, key=found.__getitem__)
        ),
        "the loop runs over the words alone, not over the counts that `cuts` has for them": (
            without_items
        ),
        "the pair is returned together with its count": counting(
            best=lambda found: found.most_common(1)[0]
        ),
    },
)  # fmt: skip

# ----------------------------------------------------------------------------------- shift_right

PAD, BOS, EOS = 0, 1, 2


def after(first: int, labels: Tensor) -> Tensor:
    return torch.cat([torch.full_like(labels[:, :1], first), labels[:, :-1]], dim=1)


def without_end(ids: Tensor, filler: int = PAD) -> Tensor:
    return ids.masked_fill(ids == EOS, filler)


def shift_right(labels: Tensor) -> Tensor:
    return without_end(after(BOS, labels))


def begun(labels: Tensor) -> Tensor:
    return torch.cat([torch.full_like(labels[:, :1], BOS), labels[:, 1:]], dim=1)


def shift_cases() -> list[Case]:
    def case(*rows: list[int], why: str) -> Case:
        return Case((torch.tensor(rows),), why)

    return [
        case([7, 8, 9, 2], why="each position reads the token before the one that it must say, and "
             "the first reads `<bos>`"),
        case([2], why="even a target without words reads `<bos>`"),
        case([7, 5, 2], [9, 6, 2], why="each row moves on its own"),
        case([7, 8, 9, 4, 2], [6, 5, 2, 0, 0], why="the shorter row reads no `<eos>` either"),
        case([5, 2, 0, 0, 0, 0], [6, 7, 3, 9, 4, 2], [2, 0, 0, 0, 0, 0], why="rows may end "
             "anywhere"),
    ]  # fmt: skip


SHIFT_RIGHT = Exercise(
    name="shift_right",
    reference=shift_right,
    cases=shift_cases,
    section="What does one batch look like?",
    mistakes={
        "nothing was shifted: the decoder reads the very token that it must say": torch.clone,
        "the first token was replaced by `<bos>`, and nothing was shifted": begun,
        "the rows move to the left: what is read comes after what must be said": lambda labels: (
            torch.cat([labels[:, 1:], torch.full_like(labels[:, :1], PAD)], dim=1)
        ),
        "the rows are rolled: what drops out on the right comes in on the left": (
            lambda labels: labels.roll(1, 1)
        ),
        "`<eos>` is erased where it is in `labels`: after the shift it's one position further": (
            lambda labels: after(BOS, labels).masked_fill(labels == EOS, PAD)
        ),
    },
)

# ------------------------------------------------------------------------------------- wordpiece


def wordpiece(
    word: str,
    vocabulary: set[str],
    *,
    mark: Callable[[int], str] = lambda start: "##" if start else "",
    ends: Callable[[int, int], Iterable[int]] = lambda start, n: range(n, start, -1),
) -> list[str]:
    pieces: list[str] = []
    start = 0
    while start < len(word):
        for end in ends(start, len(word)):
            if mark(start) + word[start:end] in vocabulary:
                break
        else:
            return ["[UNK]"]
        pieces.append(mark(start) + word[start:end])
        start = end
    return pieces


cutting = partial(partial, wordpiece)

WORDPIECE = Exercise(
    name="wordpiece",
    reference=wordpiece,
    cases=lambda: [
        Case(("und", {"und", "un", "##d"}), "the whole word may be a piece, its last "
             "letter included"),
        Case(("under", {"und", "##er", "er"}), "a piece after the first has its `##`"),
        Case(("abba", {"a", "##b", "##a"}), "each of these pieces is one letter, and "
             "begins where the one before ends"),
        Case(("understand", {"un", "und", "under", "##d", "##er", "##st", "##and", "##stand"}),
             "several pieces fit, and the longest is taken"),
        Case(("abcd", {"a", "ab", "##c", "##d", "##bcd"}), "the first piece is as long as it can "
             "be, whatever that means for the rest"),
        Case(("undq", {"un", "und", "##er"}), "no piece has a *q*, so the whole word is unknown"),
        Case(("unqer", {"un", "##er", "er"}), "no piece has the *q* in the middle, so the whole "
             "word is unknown"),
        Case(("stander", {"stand", "st", "er"}), "a piece without `##` fits only at the beginning"),
        Case(("ersatz", {"##er", "##satz", "satz"}), "a piece with `##` never begins a word"),
        Case(("understand", {"un", "und", "##ders", "##tand", "##t"}), "a piece that was taken is "
             "never given back"),
    ],
    section="Does the order of the merges matter?",
    mistakes={
        "the pieces after the first are looked up without their `##`": cutting(mark=lambda at: ""),
        "the shortest piece is taken, not the longest": cutting(
            ends=lambda start, n: range(start + 1, n + 1)
        ),
    },
)  # fmt: skip

# --------------------------------------------------------------------------------- token_batches


def token_batches(
    lengths: list[int],
    max_tokens: int,
    *,
    full: Callable[..., bool] = lambda batch, new, most: (len(batch) + 1) * new > most,
) -> list[list[int]]:
    """`full` gets the lengths of a batch, and that of the next text."""
    batches: list[list[int]] = [[]]
    for i in sorted(range(len(lengths)), key=lambda i: lengths[i]):
        if full([lengths[j] for j in batches[-1]], lengths[i], max_tokens):
            batches.append([])
        batches[-1].append(i)
    return batches if batches[0] else []


def of_lengths(lengths: list[int], max_tokens: int) -> list[list[int]]:
    return [[lengths[i] for i in batch] for batch in token_batches(lengths, max_tokens)]


batching = partial(partial, token_batches)

TOKEN_BATCHES = Exercise(
    name="token_batches",
    reference=token_batches,
    cases=lambda: [
        Case(([3], 5), "one text is one batch"),
        Case(([5, 2], 6), "the shorter text comes first, and the two don't fit together"),
        Case(([2, 3], 6), "two rows of three positions fill this batch exactly"),
        Case(([1, 2, 6], 12), "with the third text, the other two would need padding, and "
             "that counts"),
        Case(([1, 2, 3, 9], 9), "short texts fill a batch with many rows, long ones with few"),
        Case(([4, 2, 4, 2, 4, 2, 4], 8), "equally long texts keep their order"),
        Case(([7, 5, 6], 7), "each text may need a batch of its own"),
        Case(([2, 9, 3, 2, 8], 18), "the result holds indices into `lengths`, as it was given"),
        Case(([3, 11, 7, 2, 2, 5, 9, 4, 11, 6, 1, 8, 3], 22), "each text is in one batch, and no "
             "batch could take the next text, too"),
        Case(([], 5), "without texts there are no batches, not even an empty one"),
    ],
    section="How much of a batch is padding?",
    mistakes={
        "the lengths are added up: padding is not counted": batching(
            full=lambda batch, new, most: sum(batch) + new > most
        ),
        "the next text's length is not used: with it, all rows become as long as it is": batching(
            full=lambda batch, new, most: bool(batch) and (len(batch) + 1) * batch[-1] > most
        ),
        "the last batch is missing": lambda lengths, most: token_batches(lengths, most)[:-1],
        "the batches hold lengths, not indices": of_lengths,
        "the indices are those of the sorted list, not of `lengths`": (
            lambda lengths, most: token_batches(sorted(lengths), most)
        ),
    },
)  # fmt: skip

check = Checker(BEST_PAIR, SHIFT_RIGHT, WORDPIECE, TOKEN_BATCHES)
