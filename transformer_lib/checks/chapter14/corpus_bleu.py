"""The exercise `corpus_bleu`: what it asks for, and how its answers go wrong."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from transformer_lib.checks.core import Case, Exercise

Texts = Sequence[str]
Counts = Counter


def _grams(words: Sequence[str], n: int) -> Counts:
    return Counter(tuple(words[i : i + n]) for i in range(len(words) - n + 1))


def _most(found: list[Counts]) -> Counts:
    """How often each n-gram occurs in the reference that has it most often."""
    most: Counts = Counter()
    for counts in found:
        most |= counts
    return most


def _closest(length: int, references: list[int]) -> float:
    return min(references, key=lambda r: (abs(r - length), r))


def _penalty(ours: float, theirs: float) -> float:
    if ours == 0:
        return 0.0
    return 1.0 if ours >= theirs else math.exp(1 - theirs / ours)


def _mean(precisions: list[float]) -> float:
    if min(precisions) <= 0:
        return 0.0
    return math.exp(sum(map(math.log, precisions)) / len(precisions))


def _corpus_bleu(translations: Texts, references: Sequence[Texts]) -> float:
    return _bleu(translations, references)


def _bleu(
    translations: Texts,
    references: Sequence[Texts],
    *,
    split: Callable[[str], Sequence[str]] = str.split,
    allowed: Callable[[list[Counts]], Counts] = _most,
    clip: Callable[[Counts, Counts], int] = lambda ours, theirs: (ours & theirs).total(),
    total: Callable[[Counts, Counts], int] = lambda ours, theirs: ours.total(),
    length: Callable[[int, list[int]], float] = _closest,
    penalty: Callable[[float, float], float] = _penalty,
    orders: Sequence[int] = (1, 2, 3, 4),
    mean: Callable[[list[float]], float] = _mean,
    scale: float = 100,
    smooth: int = 0,
) -> float:
    matched, possible = dict.fromkeys(orders, 0.0), dict.fromkeys(orders, 0.0)
    ours = theirs = 0.0
    for text, others in zip(translations, references, strict=True):
        words, their_words = split(text), [split(other) for other in others]
        ours += len(words)
        theirs += length(len(words), [len(other) for other in their_words])
        for n in orders:
            grams, most = _grams(words, n), allowed([_grams(other, n) for other in their_words])
            matched[n] += clip(grams, most)
            possible[n] += total(grams, most)
    precisions = [(matched[n] + smooth) / max(possible[n] + smooth, 1) for n in orders]
    return scale * penalty(ours, theirs) * mean(precisions)


def _wrong(**part: Any) -> Callable[..., float]:
    return lambda translations, references: _bleu(translations, references, **part)


def _mean_of_sentences(**part: Any) -> Callable[..., float]:
    def corpus_bleu(translations: Texts, references: Sequence[Texts]) -> float:
        each = [_bleu([t], [r], **part) for t, r in zip(translations, references, strict=True)]
        return sum(each) / len(each)

    return corpus_bleu


def _mean_of_precisions(translations: Texts, references: Sequence[Texts]) -> float:
    """Each sentence's precisions, averaged over the sentences; one penalty for all."""
    pairs = list(zip(translations, references, strict=True))
    precisions = [
        sum(_bleu([t], [r], orders=(n,), penalty=lambda *_: 1.0, scale=1) for t, r in pairs)
        / len(pairs)
        for n in (1, 2, 3, 4)
    ]
    return _bleu(translations, references, mean=lambda _: _mean(precisions))


def _joined(translations: Texts, references: Sequence[Texts]) -> float:
    most = max(map(len, references))
    others = [" ".join(r[min(i, len(r) - 1)] for r in references) for i in range(most)]
    return _bleu([" ".join(translations)], [others])


def _clipped_together(translations: Texts, references: Sequence[Texts]) -> float:
    """No n-gram crosses a border, but all may match any sentence's."""
    ours, theirs = 0.0, 0.0
    precisions = []
    for n in (1, 2, 3, 4):
        said: Counts = Counter()
        most: Counts = Counter()
        for text, others in zip(translations, references, strict=True):
            said += _grams(text.split(), n)
            most += _most([_grams(other.split(), n) for other in others])
        precisions.append((said & most).total() / max(said.total(), 1))
    for text, others in zip(translations, references, strict=True):
        ours += len(text.split())
        theirs += _closest(len(text.split()), [len(other.split()) for other in others])
    return 100 * _penalty(ours, theirs) * _mean(precisions)


def _penalty_of_each(translations: Texts, references: Sequence[Texts]) -> float:
    found = [
        _penalty(len(t.split()), _closest(len(t.split()), [len(o.split()) for o in others]))
        for t, others in zip(translations, references, strict=True)
    ]
    return _bleu(translations, references, penalty=lambda *_: sum(found) / len(found))


def _first_only(translations: Texts, references: Sequence[Texts]) -> float:
    return _bleu(translations, [others[:1] for others in references])


def _best_reference(translations: Texts, references: Sequence[Texts]) -> float:
    """Of each sentence the one reference that it fits best."""
    chosen = [
        [max(others, key=lambda other: _bleu([text], [[other]], smooth=1))]
        for text, others in zip(translations, references, strict=True)
    ]
    return _bleu(translations, chosen)


def _add(found: list[Counts]) -> Counts:
    return sum(found, Counter())


def _least(found: list[Counts]) -> Counts:
    least = found[0]
    for counts in found[1:]:
        least &= counts
    return least


def _unclipped(ours: Counts, theirs: Counts) -> int:
    return sum(count for gram, count in ours.items() if gram in theirs)


def _ever(ours: Counts, theirs: Counts) -> int:
    return len(ours.keys() & theirs.keys())


def _always(ours: float, theirs: float) -> float:
    return math.exp(1 - theirs / ours) if ours else 0.0


def _ratio(ours: float, theirs: float) -> float:
    return min(1.0, ours / theirs)


def _upside_down(ours: float, theirs: float) -> float:
    return 1.0 if ours <= theirs else math.exp(1 - ours / theirs)


def _swapped(ours: float, theirs: float) -> float:
    return 1.0 if ours >= theirs else math.exp(1 - ours / theirs)


_NEAR = "a dog runs through the deep snow", ["a dog runs through deep snow in winter"]
_TWO = (
    "the man in the red hat plays the guitar",
    ["a man in a red hat plays the guitar on stage", "the man with the red hat is playing guitar"],
)
_REPEATS = (
    "two two two children play play play in the park today",
    ["two children play in the park", "two girls play in the park near the lake"],
)
_LONG = (
    "a young woman is sitting on a bench and is reading a book today",
    ["a young woman is sitting on a bench reading", "a woman is sitting on a bench and reading"],
)
_BETWEEN = (
    "a dog runs through the deep snow",
    ["a dog runs through deep snow", "a big dog runs through the deep snow"],
)
_CAPITAL = "The dog sleeps in the sun today", ["the dog sleeps in the warm sun today"]
_SHORT = (
    "a cat sleeps on the",
    ["a cat sleeps on the warm stove", "the cat sleeps on the warm stove"],
)


def _case(label: str, *pairs: tuple[str, list[str]]) -> Case:
    return Case(label, [text for text, _ in pairs], [others for _, others in pairs])


CORPUS_BLEU = Exercise(
    name="corpus_bleu",
    reference=_corpus_bleu,
    cases=[
        _case("a translation equal to its reference", ("a dog runs fast", ["a dog runs fast"])),
        _case("one sentence, one reference", _NEAR),
        _case("a translation that is too short", _SHORT),
        _case("one sentence, two references", _TWO),
        _case("a translation that is too long", _LONG),
        _case("words that are said twice", _REPEATS),
        _case("two sentences", _NEAR, _LONG),
        _case("four sentences", _TWO, _SHORT, _REPEATS, _NEAR),
        _case(
            "one of the sentences has three words", _TWO, ("a black cat", ["a black cat sleeps"])
        ),
        _case("two references as far in length, on either side", _BETWEEN),
        _case("a capital letter", _CAPITAL),
        _case("no run of four is right", ("a cat is on the mat", ["a cat sits on a mat"])),
    ],
    mistakes={
        "the result is the mean of the sentences' scores: count over the whole corpus, then "
        "divide": [
            *(_mean_of_sentences(**how) for how in ({}, {"scale": 1}, {"smooth": 1})),
        ],
        "precisions are averaged over the sentences: add up the counts of all, then divide once": [
            _mean_of_precisions,
        ],
        "matches are not clipped: a word said twice counts twice, though the reference has it "
        "once": [_wrong(clip=_unclipped)],
        "each n-gram counts once, however often it is said": [
            _wrong(clip=_ever),
            _wrong(clip=_ever, total=lambda ours, theirs: len(ours)),
        ],
        "the references' counts are added up: an n-gram may count as often as the one reference "
        "that has it most often": [_wrong(allowed=_add)],
        "an n-gram counts only if all references have it": [_wrong(allowed=_least)],
        "only the first reference is looked at": [_first_only],
        "one reference is chosen for each sentence: an n-gram may come from any of them": [
            _best_reference,
        ],
        "the brevity penalty is missing": [_wrong(penalty=lambda ours, theirs: 1.0)],
        "the brevity penalty is applied to long translations as well, as a reward": [
            _wrong(penalty=_always)
        ],
        "the brevity penalty punishes the long ones and spares the short": [
            _wrong(penalty=_upside_down),
        ],
        "the two lengths of the brevity penalty are exchanged": [_wrong(penalty=_swapped)],
        "the brevity penalty is the ratio of the lengths: it is e to the power of 1 − r/c": [
            _wrong(penalty=_ratio),
        ],
        "the reference length is the shortest, the longest or the mean one: the one closest to "
        "the translation counts": [
            *(_wrong(length=lambda n, found, pick=pick: pick(found)) for pick in (min, max)),
            _wrong(length=lambda n, found: sum(found) / len(found)),
            _wrong(length=lambda n, found: found[0]),
            _wrong(length=lambda n, found: max(found, key=lambda r: abs(r - n))),
            _wrong(length=lambda n, found: sum(found)),
        ],
        "of two references as far from the translation's length, the longer one is taken": [
            _wrong(length=lambda n, found: min(found, key=lambda r: (abs(r - n), -r))),
        ],
        "the texts are joined before they are counted: n-grams must not reach from one sentence "
        "into the next, nor be matched with another sentence's": [_joined, _clipped_together],
        "the brevity penalty is computed for each sentence: it is one for the whole corpus": [
            _penalty_of_each,
        ],
        "capital letters are made small: nobody asked for that": [
            _wrong(split=lambda text: text.lower().split()),
        ],
        "the precisions are averaged by their sum: theirs is a geometric mean": [
            _wrong(mean=lambda found: sum(found) / len(found)),
            _wrong(mean=lambda found: sum(found) / len(found) if min(found) > 0 else 0.0),
        ],
        "the precisions are multiplied, and the fourth root is missing": [_wrong(mean=math.prod)],
        "only one length of n-gram is counted: BLEU takes 1, 2, 3 and 4": [
            *(_wrong(orders=(n,)) for n in (1, 2, 4)),
        ],
        "the n-grams stop at 3, or go on to 5": [
            *(_wrong(orders=range(1, n)) for n in (3, 4, 6)),
        ],
        "characters are counted, not words": [_wrong(split=list)],
        "matches are divided by the reference's n-grams: that is recall": [
            _wrong(total=lambda ours, theirs: theirs.total()),
        ],
        "the score runs from 0 to 1: it is asked for in percent": [_wrong(scale=1)],
        "1 is added to the counts: smoothing was not asked for": [_wrong(smooth=1)],
    },
    section="How good is a translation of which there are several?",
)
