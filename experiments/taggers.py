"""What are the neighbors of a word worth to a tagger? The record of chapter 4.

    python experiments/taggers.py

Trains the chapter's taggers from five seeds, and lists their shares of right tags. "at most" is the
best that any tagger with the same information can get on the test sentences, counted and not
trained. Five minutes on one thread.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Hashable
from fractions import Fraction

import torch
from result_file import chapter, write_result
from torch import Tensor

SEEDS, STEPS = range(5), 2000
COLUMNS = ("all", "new", "twins")
CELLS = ("mine-before", "mine", "some-sentences", "tagger", "first-two")
book = chapter(4, *CELLS, "break-class", "break-alone")
Tagger, itself, everyone, past = (book[name] for name in ("Tagger", "itself", "everyone", "past"))


def mix(words: list[int]) -> Hashable:
    """How large a share of `words` each word is: all that a sum over them can know."""
    return frozenset((word, Fraction(n, len(words))) for word, n in Counter(words).items())


# For each kind: a fresh tagger, and what it can know of word i of a sentence besides the word
# itself. If that and the word are equal, so are the two results.
KINDS = {
    "itself": (lambda: Tagger(itself), lambda s, i: None),
    "everyone": (lambda: Tagger(everyone), lambda s, i: mix(s)),
    "the past": (lambda: Tagger(past), lambda s, i: mix(s[: i + 1])),
    "itself, positions": (lambda: Tagger(itself, True), lambda s, i: i),
    "everyone, positions": (lambda: Tagger(everyone, True), lambda s, i: (i, tuple(s))),
    "left neighbor": (
        lambda: Tagger(past.triu(-1)),
        lambda s, i: mix(s[max(i - 1, 0) : i + 1]),
    ),
    "both neighbors": (
        lambda: Tagger(everyone.tril(1).triu(-1)),
        lambda s, i: mix(s[max(i - 1, 0) : i + 2]),
    ),
    "borrowed": (book["borrowed"], lambda s, i: (i, len(s))),
}


def at_most(knows: Callable[[list[int], int], Hashable]) -> dict[str, float]:
    """The best shares that one answer for each word and what is known of it can get."""
    found = {}
    for column, name in enumerate(COLUMNS):
        counts = defaultdict(Counter)
        for ids, answer in book["test"]:
            for row, i in book["all_new_twins"](ids, answer)[column].nonzero().tolist():
                words = ids[row].tolist()
                counts[words[i], knows(words, i)][answer[row, i].item()] += 1
        best = sum(max(each.values()) for each in counts.values())
        found[name] = best / sum(each.total() for each in counts.values())
    return found


def named(shares: Tensor) -> dict[str, float]:
    return dict(zip(COLUMNS, shares.tolist(), strict=True))


most, runs, alone = {}, {}, []
for name, (fresh, knows) in KINDS.items():
    most[name] = at_most(knows)
    runs[name] = {STEPS: []}
    for seed in SEEDS:
        torch.manual_seed(seed)
        tagger = book["train"](fresh(), STEPS)
        runs[name][STEPS].append(named(book["shares"](tagger)))
        if name == "borrowed":
            alone.append(named(book["shares"](tagger, book["one_at_a_time"])))
write_result(**{"at most": most, "runs": runs, "one at a time": {STEPS: alone}})
