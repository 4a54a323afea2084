"""The exercise `best_pair`: what it asks for, and how its answers go wrong."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from itertools import combinations, pairwise
from typing import Any

from transformer_lib.checks.old.core import Case, Exercise

Pieces = tuple[str, ...]
Cuts = dict[Pieces, int]


def _pick(
    *,
    pairs: Callable[[Pieces], Iterable[Any]] = pairwise,
    add: Callable[[int, int], int] = lambda before, times: before + times,
    best: Callable[[Counter], Any] = lambda found: _first_in_the_alphabet(found),
) -> Callable[[Cuts], Any]:
    """`pairs`: which of a word are counted, `add`: each how often, `best`: which is chosen."""

    def best_pair(cuts: Cuts) -> Any:
        found: Counter = Counter()
        for pieces, times in cuts.items():
            for pair in pairs(pieces):
                found[pair] = add(found[pair], times)
        return best(found)

    return best_pair


def _once_each(pieces: Pieces) -> Iterable[Any]:
    return dict.fromkeys(pairwise(pieces))


def _apart(pieces: Pieces) -> Iterable[Any]:
    """Without overlap, as merges are made: `e e e` has one pair."""
    last, taken = None, False
    for pair in pairwise(pieces):
        taken = pair == last and not taken
        last = pair
        if not taken:
            yield pair


def _by_twos(pieces: Pieces) -> Iterable[Any]:
    return zip(pieces[::2], pieces[1::2], strict=False)


def _letters(pieces: Pieces) -> Iterable[Any]:
    return pairwise("".join(pieces))


def _to_the_last(pieces: Pieces) -> Iterable[Any]:
    """Slices of two, and the last of them holds one piece."""
    return [pieces[i : i + 2] for i in range(len(pieces))]


def _without_items(best: Callable[[Counter], Any]) -> Callable[[Cuts], Any]:
    """`for pieces, times in cuts`: the two pieces of a word, where it has just two."""

    def best_pair(cuts: Cuts) -> Any:
        found: Counter = Counter()
        for pieces, times in cuts:
            for pair in pairwise(pieces):
                found[pair] += times  # type: ignore
        return best(found)

    return best_pair


def _across_words(cuts: Cuts) -> Any:
    return _pick()({tuple(piece for pieces in cuts for piece in pieces): 1})


def _across_repeated(cuts: Cuts) -> Any:
    return _pick()({tuple(p for pieces, n in cuts.items() for _ in range(n) for p in pieces): 1})


def _glued(found: Counter) -> Any:
    return min(found, key=lambda p: (-found[p], "".join(p)))


def _of_the_counts(cuts: Cuts) -> Any:
    return [pair for times in cuts.values() for pair in pairwise(times)]  # type: ignore


def _of_the_items(cuts: Cuts) -> Any:
    return Counter(pair for item in cuts.items() for pair in pairwise(item)).most_common(1)[0][0]


def _first_in_the_alphabet(found: Counter) -> Any:
    return min(found, key=lambda p: (-found[p], p))


def _last_of_equals(found: Counter) -> Any:
    return max(found, key=lambda p: (found[p], p))


BEST_PAIR = Exercise(
    name="best_pair",
    reference=_pick(),
    cases=[
        Case("one word of two letters", {("a", "b"): 1}),
        Case("a pair that occurs twice in a word", {tuple("zyzyab"): 1}),
        Case("the frequent word decides", {tuple("xyxy"): 1, tuple("ab"): 5}),
        Case(
            "equally frequent: the first in the alphabet",
            {tuple(word): 2 for word in ("zy", "ba", "ac", "ab")},
        ),
        Case("equally frequent, pieces of any length", {("ab", "c"): 2, ("a", "zz"): 2}),
        Case("pieces of several letters", {("un", "d", "x"): 3, ("d", "un"): 4, ("u", "n"): 1}),
        Case("only neighbors count", {tuple("axb"): 2, tuple("ayb"): 2, tuple("yb"): 1}),
        Case("two words side by side", {tuple("pq"): 2, tuple("rp"): 1, tuple("qr"): 1}),
        Case("a pair that overlaps itself", {tuple("eee"): 2, tuple("fg"): 3}),
        Case(
            "words that were met often",
            {tuple("▁low"): 5, tuple("▁lower"): 2, tuple("▁newest"): 6, tuple("▁widest"): 3},
        ),
    ],
    mistakes={
        "each word counts once, however often it was met": [
            _pick(add=lambda before, times: before + 1)
        ],
        "a pair has the count of one word alone: the counts of all words that have it are added "
        "up": [_pick(add=lambda before, times: times)],
        "each pair counts as often as its word was met, times the length of that word: a long "
        "word then counts for more": [_pick(pairs=lambda p: [*pairwise(p)] * len(p))],
        "a pair that occurs twice in a word is counted once": _pick(pairs=_once_each),
        "a pair that overlaps itself is counted without the overlap; the exercise counts all "
        "neighbors": _pick(pairs=_apart),
        "the word is cut into twos: the pairs that begin at every other piece are missing": [
            _pick(pairs=_by_twos)
        ],
        "the first or the last pair of a word is never counted: n pieces have n - 1 pairs": [
            _pick(pairs=lambda pieces: list(pairwise(pieces))[:-1]),
            _pick(pairs=lambda pieces: list(pairwise(pieces))[1:]),
        ],
        "the last piece of a word is counted alone: n pieces have n - 1 pairs": [
            _pick(pairs=_to_the_last)
        ],
        "letters are counted, and not pieces: what has been merged is one": _pick(pairs=_letters),
        "all pairs of pieces in a word are counted, not only neighbors": [
            _pick(pairs=lambda pieces: combinations(pieces, 2))
        ],
        "the end of one word and the beginning of the next are taken for neighbors": [
            _across_words,
            _across_repeated,
        ],
        "of equally frequent pairs it takes the one that was met first; asked for is the first in "
        "the alphabet": [
            _pick(best=lambda found: max(found, key=found.__getitem__)),
            _pick(best=lambda found: found.most_common(1)[0][0]),
        ],
        "of equally frequent pairs it takes the last in the alphabet": _pick(best=_last_of_equals),
        "of equally frequent pairs only the first pieces are compared: where they are the same, "
        "the second ones decide": [
            _pick(best=lambda found: min(found, key=lambda p: (-found[p], p[0])))
        ],
        "of equally frequent pairs the second pieces are compared first: Python begins with the "
        "first": [
            _pick(best=lambda found: min(found, key=lambda p: (-found[p], p[::-1]))),
            _pick(best=lambda found: min(found, key=lambda p: (-found[p], p[-1]))),
        ],
        "equally frequent pairs are compared as one string: a pair is compared piece by piece, "
        'and "a" comes before "ab" whatever follows': _pick(best=_glued),
        "the loop runs over the numbers of the dictionary: its keys are the words, its values how "
        "often each was met": [_of_the_counts, _of_the_items],
        "the loop runs over the words alone, and takes a word of two pieces for a word and its "
        "number: `cuts.items()` gives both": [
            _without_items(_first_in_the_alphabet),
            _without_items(lambda found: max(found, key=found.__getitem__)),
        ],
        "the rarest pair is returned": [
            _pick(best=lambda found: min(found, key=lambda p: (found[p], p))),
            _pick(best=lambda found: min(found, key=found.__getitem__)),
            _pick(best=lambda found: found.most_common()[-1][0]),
        ],
        "the two pieces are returned as one string: a merge must say where it joins": [
            _pick(best=lambda found: "".join(min(found, key=lambda p: (-found[p], p))))
        ],
        "the count is returned, and not the pair": [_pick(best=lambda found: max(found.values()))],
        "the pair is returned together with its count": [
            _pick(best=lambda found: min(found.items(), key=lambda item: (-item[1], item[0]))),
            _pick(best=lambda found: found.most_common(1)[0]),
            _pick(best=lambda found: found.most_common(1)),
        ],
    },
    section="Which pieces are worth a row?",
)
