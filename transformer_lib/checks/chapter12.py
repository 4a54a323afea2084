"""Checkers for chapter 12, *Text to tensors, and back*."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import combinations, pairwise
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
    pairs: Callable[[Pieces], Iterable[Any]] = pairwise,
    add: Callable[[int, int], int] = lambda before, times: before + times,
    best: Callable[[Counter], Any] = first_of_the_best,
) -> Any:
    found: Counter = Counter()
    for pieces, times in cuts.items():
        for pair in pairs(pieces):
            found[pair] = add(found[pair], times)
    return best(found)


def apart(pieces: Pieces) -> Iterator[Any]:
    """Without overlap, as merges are made: `e e e` holds one pair."""
    last = None
    for pair in pairwise(pieces):
        last = None if pair == last else pair
        if last:
            yield pair


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
        "each word counts once, however often it was met": counting(add=lambda n, times: n + 1),
        "among equally frequent pairs, the one that was met first is returned": counting(
            best=lambda found: max(found, key=found.__getitem__)
        ),
        "among equally frequent pairs, the last in alphabetical order is returned": counting(
            best=lambda found: max(found, key=lambda pair: (found[pair], pair))
        ),
        "a pair keeps the count of the last word that has it: the counts are to be added": counting(
            add=lambda n, times: times
        ),
        "a pair that occurs twice in a word is counted once": counting(
            pairs=lambda pieces: set(pairwise(pieces))
        ),
        "pairs that overlap are counted once: all neighbors count": counting(pairs=apart),
        "the pairs that begin at every second piece are missing": counting(
            pairs=lambda pieces: zip(pieces[::2], pieces[1::2], strict=False)
        ),
        "pieces that are not neighbors are counted, too": counting(
            pairs=lambda pieces: combinations(pieces, 2)
        ),
        "the loop runs over the words alone, not over the counts that `cuts` has for them": (
            without_items
        ),
        "equally frequent pairs are compared as strings, their pieces joined": counting(
            best=lambda found: min(found, key=lambda pair: (-found[pair], "".join(pair)))
        ),
        "the rarest pair is returned": counting(
            best=lambda found: min(found, key=lambda pair: (found[pair], pair))
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
        "`<eos>` is still read in rows that have room after it": partial(after, BOS),
        "`<eos>` was erased, and nothing was shifted": without_end,
        "the first token was replaced by `<bos>`, and nothing was shifted": begun,
        "the rows move to the left: what is read comes after what must be said": lambda labels: (
            torch.cat([labels[:, 1:], torch.full_like(labels[:, :1], PAD)], dim=1)
        ),
        "the rows are rolled: what drops out on the right comes in on the left": (
            lambda labels: labels.roll(1, 1)
        ),
        "the rows move down, not to the right: positions are on axis 1": lambda labels: without_end(
            torch.cat([torch.full_like(labels[:1], BOS), labels[:-1]])
        ),
        "the rows move by two positions": lambda labels: without_end(
            after(BOS, after(BOS, labels))
        ),
        "the first token is `<pad>`": lambda labels: without_end(after(PAD, labels)),
        "the first token is `<eos>`": partial(after, EOS),
        "`<eos>` is erased where it is in `labels`: after the shift it's one position further": (
            lambda labels: after(BOS, labels).masked_fill(labels == EOS, PAD)
        ),
        "`<eos>` is replaced by `<bos>`": lambda labels: without_end(after(BOS, labels), BOS),
    },
)

# ------------------------------------------------------------------------------------- wordpiece

UNKNOWN = "[UNK]"


def wordpiece(
    word: str,
    vocabulary: set[str],
    *,
    mark: Callable[[int], str] = lambda start: "##" if start else "",
    ends: Callable[[int, int], Iterable[int]] = lambda start, n: range(n, start, -1),
    hole: Callable[[list[str], str], list[str]] = lambda pieces, rest: [UNKNOWN],
    written: Callable[[int, str], str] = lambda start, piece: piece,
) -> list[str]:
    pieces: list[str] = []
    start = 0
    while start < len(word):
        for end in ends(start, len(word)):
            if mark(start) + word[start:end] in vocabulary:
                break
        else:
            return hole(pieces, word[start:])
        pieces.append(written(start, mark(start) + word[start:end]))
        start = end
    return pieces


def letter_by_letter(word: str, vocabulary: set[str]) -> list[str]:
    """A letter that doesn't fit becomes an [UNK] of its own."""
    every = vocabulary | {mark + letter for letter in word for mark in ("", "##")}
    return [p if p in vocabulary else UNKNOWN for p in wordpiece(word, every)]


def from_the_right(word: str, vocabulary: set[str]) -> list[str]:
    pieces: list[str] = []
    end = len(word)
    while end:
        for start in range(end):
            piece = ("##" if start else "") + word[start:end]
            if piece in vocabulary:
                break
        else:
            return [UNKNOWN]
        pieces.insert(0, piece)
        end = start
    return pieces


def cuts_of(word: str, vocabulary: set[str], mark: str = "") -> Iterator[list[str]]:
    if not word:
        yield []
    for end in range(len(word), 0, -1):
        if mark + word[:end] in vocabulary:
            for rest in cuts_of(word[end:], vocabulary, "##"):
                yield [mark + word[:end], *rest]


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
        "the pieces after the first are looked up without `##`, and get it afterwards": cutting(
            mark=lambda at: "", written=lambda start, piece: "##" * bool(start) + piece
        ),
        "the pieces after the first are returned without their `##`": cutting(
            written=lambda start, piece: piece.removeprefix("##")
        ),
        "the first piece is looked up with `##`, too": cutting(mark=lambda at: "##"),
        "the shortest piece is taken, not the longest": cutting(
            ends=lambda start, n: range(start + 1, n + 1)
        ),
        "only the rest becomes `[UNK]`, and the pieces before it stay": cutting(
            hole=lambda pieces, rest: [*pieces, UNKNOWN]
        ),
        "the pieces before the rest that doesn't fit are returned, without an `[UNK]`": cutting(
            hole=lambda pieces, rest: pieces
        ),
        "each letter that doesn't fit becomes an `[UNK]`, and the cut goes on after it": (
            letter_by_letter
        ),
        "a dead end sends the search back to a shorter piece": (
            lambda word, vocabulary: next(cuts_of(word, vocabulary), [UNKNOWN])
        ),
        "single letters are never tried: a range ends one too early": cutting(
            ends=lambda start, n: range(n, start + 1, -1)
        ),
        "the cut goes from right to left": from_the_right,
    },
)  # fmt: skip

# --------------------------------------------------------------------------------- token_batches


def by_length(lengths: list[int]) -> list[int]:
    return sorted(range(len(lengths)), key=lambda i: lengths[i])


def token_batches(
    lengths: list[int],
    max_tokens: int,
    *,
    order: Callable[[list[int]], list[int]] = by_length,
    full: Callable[..., bool] = lambda batch, new, most: (len(batch) + 1) * new > most,
    lose: bool = False,
) -> list[list[int]]:
    """`full` gets the lengths of a batch, and that of the next text."""
    batches: list[list[int]] = [[]]
    for i in order(lengths):
        if full([lengths[j] for j in batches[-1]], lengths[i], max_tokens):
            batches.append([])
            if lose:
                continue
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
        "the next text's own row is not counted": batching(
            full=lambda batch, new, most: len(batch) * new > most
        ),
        "a batch that would be filled exactly is treated as too large": batching(
            full=lambda batch, new, most: bool(batch) and (len(batch) + 1) * new >= most
        ),
        "`max_tokens` is taken for a number of texts": batching(
            full=lambda batch, new, most: len(batch) >= most
        ),
        "the texts are not sorted": batching(order=lambda lengths: [*range(len(lengths))]),
        "the longest texts come first": batching(
            order=lambda lengths: sorted(range(len(lengths)), key=lambda i: -lengths[i]),
        ),
        "the last batch is missing": lambda lengths, most: token_batches(lengths, most)[:-1],
        "the text that no longer fits is lost: it begins the next batch": batching(lose=True),
        "the batches hold lengths, not indices": of_lengths,
        "the indices are those of the sorted list, not of `lengths`": (
            lambda lengths, most: token_batches(sorted(lengths), most)
        ),
        "`lengths.index` finds the first of several equals each time": lambda lengths, most: [
            [lengths.index(n) for n in batch] for batch in of_lengths(lengths, most)
        ],
    },
)  # fmt: skip

check = Checker(BEST_PAIR, SHIFT_RIGHT, WORDPIECE, TOKEN_BATCHES)
