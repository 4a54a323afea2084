"""The exercise `corpus_bleu`: what it asks for, and how its answers go wrong."""

from __future__ import annotations

import math
from functools import partial

from transformer_lib.checks.chapter14.bleu import (
    add,
    always,
    at_least_one,
    best_reference,
    clipped_together,
    corpus_bleu,
    ever,
    first_only,
    floor,
    joined,
    last_length,
    least,
    mean_of_precisions,
    mean_of_sentences,
    penalty_of_each,
    ratio,
    swapped,
    turned,
    unclipped,
    upside_down,
    wrong,
    zero_for_one,
)
from transformer_lib.checks.old.core import Case, Exercise

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
_BETWEEN_TOO = (
    "two cats sleep on the old sofa",
    [
        "two cats are sleeping on the old sofa",
        "two cats sleep on the sofa",
    ],
)
_CAPITAL = "The dog sleeps in the sun today", ["the dog sleeps in the warm sun today"]
_SHORT = (
    "a cat sleeps on the",
    ["a cat sleeps on the warm stove", "the cat sleeps on the warm stove"],
)


def case(label: str, *pairs: tuple[str, list[str]]) -> Case:
    return Case(label, [text for text, _ in pairs], [others for _, others in pairs])


CORPUS_BLEU = Exercise(
    name="corpus_bleu",
    reference=corpus_bleu,
    cases=[
        case("a translation equal to its reference", ("a dog runs fast", ["a dog runs fast"])),
        case("one sentence, one reference", _NEAR),
        case("a translation that is too short", _SHORT),
        case("one sentence, two references", _TWO),
        case("a translation that is too long", _LONG),
        case("words that are said twice", _REPEATS),
        case("two sentences", _NEAR, _LONG),
        case("four sentences", _TWO, _SHORT, _REPEATS, _NEAR),
        case("one of the sentences has three words", _TWO, ("a black cat", ["a black cat sleeps"])),
        case("two references as far in length, on either side", _BETWEEN),
        case("the longer one of them first", _BETWEEN_TOO),
        case("a capital letter", _CAPITAL),
        case("no run of four is right", ("a cat is on the mat", ["a cat sits on a mat"])),
    ],
    mistakes={
        "the result is the mean of the sentences' scores: count over the whole corpus, then "
        "divide": [
            *(mean_of_sentences(**how) for how in ({}, {"scale": 1}, {"smooth": 1})),
        ],
        "precisions are averaged over the sentences: add up the counts of all, then divide once": [
            mean_of_precisions,
        ],
        "matches are not clipped: a word said twice counts twice, though the reference has it "
        "once": [wrong(clip=unclipped)],
        "each n-gram counts once, however often it is said": [
            wrong(clip=ever),
            wrong(clip=ever, total=lambda ours, theirs: len(ours)),
        ],
        "the references' counts are added up: an n-gram may count as often as the one reference "
        "that has it most often": [wrong(allowed=add)],
        "an n-gram counts only if all references have it": [wrong(allowed=least)],
        "only the first reference is looked at": [first_only],
        "one reference is chosen for each sentence: an n-gram may come from any of them": [
            best_reference,
        ],
        "the brevity penalty is missing": [wrong(penalty=lambda ours, theirs: 1.0)],
        "the brevity penalty is applied to long translations as well, as a reward": [
            wrong(penalty=always)
        ],
        "long translations get a reward, and short ones no penalty: the factor is 1 at most": [
            wrong(penalty=at_least_one),
        ],
        "the exponent of the brevity penalty has the wrong sign: it is 1 − r/c": [
            wrong(penalty=turned),
        ],
        "the brevity penalty punishes the long ones and spares the short": [
            wrong(penalty=upside_down),
        ],
        "the two lengths of the brevity penalty are exchanged": [wrong(penalty=swapped)],
        "the brevity penalty is the ratio of the lengths: it is e to the power of 1 − r/c": [
            wrong(penalty=ratio),
        ],
        "the reference length is the shortest, the longest or the mean one: the one closest to "
        "the translation counts": [
            *(wrong(length=lambda n, found, pick=pick: pick(found)) for pick in (min, max)),
            wrong(length=lambda n, found: sum(found) / len(found)),
            wrong(length=lambda n, found: found[0]),
            wrong(length=lambda n, found: max(found, key=lambda r: abs(r - n))),
            wrong(length=lambda n, found: sum(found)),
        ],
        "the references' lengths are counted in characters: split them first": [
            wrong(measured=list),
        ],
        "the lengths are not added up, and that of the last sentence alone is left": [
            last_length(ours=True, theirs=True),
            last_length(ours=True, theirs=False),
            last_length(ours=False, theirs=True),
        ],
        "the score is 0 as soon as one sentence has no run of four: that is asked of the whole "
        "corpus": [zero_for_one],
        "the score is always 0: perhaps the references are not split into words, or n-grams of "
        "two lengths are compared": [lambda translations, references: 0.0],
        "of two references as far from the translation's length, the longer one is taken": [
            wrong(length=lambda n, found: min(found, key=lambda r: (abs(r - n), -r))),
            wrong(length=lambda n, found: max(found, key=lambda r: (-abs(r - n), r))),
        ],
        "of two references as far from the translation's length, the first one listed is taken": [
            wrong(length=lambda n, found: min(found, key=lambda r: abs(r - n))),
        ],
        "`** 1/4` is a fourth, and not a fourth root: `**` comes before `/`": [
            wrong(mean=lambda found: math.prod(found) / 4),
        ],
        "the logarithm of 0 is taken where no run of four is right: the score is 0 there": [
            wrong(mean=lambda found: math.exp(sum(map(math.log, found)) / 4)),
        ],
        "matches are counted with each reference and added up": [
            wrong(allowed=list, clip=lambda ours, all_: sum((ours & r).total() for r in all_)),
        ],
        "for each length of n-gram one reference is chosen: an n-gram may come from any of them": [
            wrong(allowed=list, clip=lambda ours, all_: max((ours & r).total() for r in all_)),
        ],
        "the texts are joined before they are counted: n-grams must not reach from one sentence "
        "into the next, nor be matched with another sentence's": [joined, clipped_together],
        "the brevity penalty is computed for each sentence: it is one for the whole corpus": [
            penalty_of_each,
        ],
        "capital letters are made small: nobody asked for that": [
            wrong(split=lambda text: text.lower().split()),
        ],
        "the precisions are averaged by their sum: theirs is a geometric mean": [
            wrong(mean=lambda found: sum(found) / len(found)),
            wrong(mean=lambda found: sum(found) / len(found) if min(found) > 0 else 0.0),
        ],
        "the precisions are multiplied, and the fourth root is missing": [wrong(mean=math.prod)],
        "only one length of n-gram is counted: BLEU takes 1, 2, 3 and 4": [
            *(wrong(orders=(n,)) for n in (1, 2, 4)),
        ],
        "the n-grams stop at 3, or go on to 5": [
            *(wrong(orders=range(1, n)) for n in (3, 4, 6)),
        ],
        "characters are counted, not words": [wrong(split=list)],
        "matches are divided by the reference's n-grams: that is recall": [
            wrong(total=lambda ours, theirs: theirs.total()),
        ],
        "the score runs from 0 to 1: it is asked for in percent": [wrong(scale=1)],
        "the score runs from 0 to 1 and is asked for in percent, and that is not all: multiply it "
        "by 100, and the check names what is left": [
            wrong(scale=1, **step)
            for step in (
                {"allowed": add},
                {"clip": unclipped},
                {"clip": ever},
                {"length": lambda n, found: min(found)},
                {"length": lambda n, found: found[0]},
                {"length": lambda n, found: min(found, key=lambda r: abs(r - n))},
                {"penalty": always},
                {"penalty": lambda ours, theirs: 1.0},
            )
        ],
        "counts of 0 are raised to something: smoothing was not asked for": [
            wrong(smooth=1),
            *(wrong(mean=partial(floor, least=10.0**-n)) for n in (6, 8, 9, 10, 12)),
        ],
    },
    section="How good is a translation of which there are several?",
)
