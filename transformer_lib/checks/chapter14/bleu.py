"""BLEU with any of its parts exchanged: what the exercise `corpus_bleu` makes mistakes of."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

Texts = Sequence[str]
Counts = Counter


def grams(words: Sequence[str], n: int) -> Counts:
    return Counter(tuple(words[i : i + n]) for i in range(len(words) - n + 1))


def most(found: list[Counts]) -> Counts:
    """How often each n-gram occurs in the reference that has it most often."""
    most: Counts = Counter()
    for counts in found:
        most |= counts
    return most


def closest(length: int, references: list[int]) -> float:
    return min(references, key=lambda r: (abs(r - length), r))


def penalty(ours: float, theirs: float) -> float:
    if ours == 0:
        return 0.0
    return 1.0 if ours >= theirs else math.exp(1 - theirs / ours)


def floor(precisions: list[float], least: float) -> float:
    return math.exp(sum(math.log(max(p, least)) for p in precisions) / len(precisions))


def mean(precisions: list[float]) -> float:
    if min(precisions) <= 0:
        return 0.0
    return math.exp(sum(map(math.log, precisions)) / len(precisions))


def corpus_bleu(translations: Texts, references: Sequence[Texts]) -> float:
    return bleu(translations, references)


def bleu(
    translations: Texts,
    references: Sequence[Texts],
    *,
    split: Callable[[str], Sequence[str]] = str.split,
    measured: Callable[[str], Sequence[str]] | None = None,
    allowed: Callable[[list[Counts]], Counts] = most,
    clip: Callable[[Counts, Counts], int] = lambda ours, theirs: (ours & theirs).total(),
    total: Callable[[Counts, Counts], int] = lambda ours, theirs: ours.total(),
    length: Callable[[int, list[int]], float] = closest,
    penalty: Callable[[float, float], float] = penalty,
    orders: Sequence[int] = (1, 2, 3, 4),
    mean: Callable[[list[float]], float] = mean,
    scale: float = 100,
    smooth: int = 0,
) -> float:
    matched, possible = dict.fromkeys(orders, 0.0), dict.fromkeys(orders, 0.0)
    ours = theirs = 0.0
    for text, others in zip(translations, references, strict=True):
        words, their_words = split(text), [split(other) for other in others]
        ours += len(words)
        theirs += length(len(words), [len((measured or split)(other)) for other in others])
        for n in orders:
            said = grams(words, n)
            in_theirs = allowed([grams(other, n) for other in their_words])
            matched[n] += clip(said, in_theirs)
            possible[n] += total(said, in_theirs)
    precisions = [(matched[n] + smooth) / max(possible[n] + smooth, 1) for n in orders]
    return scale * penalty(ours, theirs) * mean(precisions)


def wrong(**part: Any) -> Callable[..., float]:
    return lambda translations, references: bleu(translations, references, **part)


def mean_of_sentences(**part: Any) -> Callable[..., float]:
    def corpus_bleu(translations: Texts, references: Sequence[Texts]) -> float:
        each = [bleu([t], [r], **part) for t, r in zip(translations, references, strict=True)]
        return sum(each) / len(each)

    return corpus_bleu


def mean_of_precisions(translations: Texts, references: Sequence[Texts]) -> float:
    """Each sentence's precisions, averaged over the sentences; one penalty for all."""
    pairs = list(zip(translations, references, strict=True))
    precisions = [
        sum(bleu([t], [r], orders=(n,), penalty=lambda *_: 1.0, scale=1) for t, r in pairs)
        / len(pairs)
        for n in (1, 2, 3, 4)
    ]
    return bleu(translations, references, mean=lambda _: mean(precisions))


def joined(translations: Texts, references: Sequence[Texts]) -> float:
    most = max(map(len, references))
    others = [" ".join(r[min(i, len(r) - 1)] for r in references) for i in range(most)]
    return bleu([" ".join(translations)], [others])


def clipped_together(translations: Texts, references: Sequence[Texts]) -> float:
    """No n-gram crosses a border, but all may match any sentence's."""
    ours, theirs = 0.0, 0.0
    precisions = []
    for n in (1, 2, 3, 4):
        said: Counts = Counter()
        there: Counts = Counter()
        for text, others in zip(translations, references, strict=True):
            said += grams(text.split(), n)
            there += most([grams(other.split(), n) for other in others])
        precisions.append((said & there).total() / max(said.total(), 1))
    for text, others in zip(translations, references, strict=True):
        ours += len(text.split())
        theirs += closest(len(text.split()), [len(other.split()) for other in others])
    return 100 * penalty(ours, theirs) * mean(precisions)


def penalty_of_each(translations: Texts, references: Sequence[Texts]) -> float:
    found = [
        penalty(len(t.split()), closest(len(t.split()), [len(o.split()) for o in others]))
        for t, others in zip(translations, references, strict=True)
    ]
    return bleu(translations, references, penalty=lambda *_: sum(found) / len(found))


def last_length(*, ours: bool, theirs: bool) -> Callable[..., float]:
    """`c = ...` or `r = ...` in the loop, where `+=` is meant."""

    def corpus_bleu(translations: Texts, references: Sequence[Texts]) -> float:
        c = len(translations[-1].split())
        r = closest(c, [len(other.split()) for other in references[-1]])

        def of_the_last(all_ours: float, all_theirs: float) -> float:
            return penalty(c if ours else all_ours, r if theirs else all_theirs)

        return bleu(translations, references, penalty=of_the_last)

    return corpus_bleu


def zero_for_one(translations: Texts, references: Sequence[Texts]) -> float:
    pairs = zip(translations, references, strict=True)
    if any(bleu([text], [others]) == 0 for text, others in pairs):
        return 0.0
    return bleu(translations, references)


def first_only(translations: Texts, references: Sequence[Texts]) -> float:
    return bleu(translations, [others[:1] for others in references])


def best_reference(translations: Texts, references: Sequence[Texts]) -> float:
    """Of each sentence the one reference that it fits best."""
    chosen = [
        [max(others, key=lambda other: bleu([text], [[other]], smooth=1))]
        for text, others in zip(translations, references, strict=True)
    ]
    return bleu(translations, chosen)


def add(found: list[Counts]) -> Counts:
    return sum(found, Counter())


def least(found: list[Counts]) -> Counts:
    least = found[0]
    for counts in found[1:]:
        least &= counts
    return least


def unclipped(ours: Counts, theirs: Counts) -> int:
    return sum(count for gram, count in ours.items() if gram in theirs)


def ever(ours: Counts, theirs: Counts) -> int:
    return len(ours.keys() & theirs.keys())


def always(ours: float, theirs: float) -> float:
    return math.exp(1 - theirs / ours) if ours else 0.0


def ratio(ours: float, theirs: float) -> float:
    return min(1.0, ours / theirs)


def at_least_one(ours: float, theirs: float) -> float:
    return max(1.0, always(ours, theirs))


def turned(ours: float, theirs: float) -> float:
    """The exponent without its sign."""
    return min(1.0, math.exp(theirs / ours - 1))


def upside_down(ours: float, theirs: float) -> float:
    return 1.0 if ours <= theirs else math.exp(1 - ours / theirs)


def swapped(ours: float, theirs: float) -> float:
    return 1.0 if ours >= theirs else math.exp(1 - ours / theirs)
