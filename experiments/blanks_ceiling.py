"""What the best possible guesser gets right where chapter 19's BERT is scored, by the grammar.

    python experiments/blanks_ceiling.py

For each word hidden in 1,000 stories, it adds up the probabilities of all of the grammar's 193,536
stories that fit the text with its blanks. With 15 % hidden, they are chapter 19's blanks. Two
minutes on one core.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from result_file import chapter, write_result
from torch import Tensor, nn

from transformer_lib.data import stories, world

SHARES = (0.05, 0.15, 0.3, 0.5)
book = chapter(19, "world", "mine-before", "pack", "mine")
to_ids, WORDS, PAD, MASK = book["to_ids"], book["pieces"], book["PAD"], book["MASK"]


class EveryChoice:
    """Draws like `random.Random`, but one way of choosing after the other, until all are done."""

    def __init__(self) -> None:
        self.way: list[list[int]] = []  # for each choice: which, of how many

    def choice(self, of: Sequence[Any]) -> Any:
        if self.made == len(self.way):
            self.way.append([0, len(of)])
        self.made += 1
        self.probability /= len(of)
        return of[self.way[self.made - 1][0]]

    def random(self) -> float:  # the grammar asks whether it's below 1/2
        return self.choice((0.0, 0.5))

    def stories(self) -> Iterator[tuple[world.Story, float]]:
        """All stories, each as often as there are ways to draw it, with the way's probability."""
        while True:
            self.made, self.probability = 0, 1.0
            yield world._story(self), self.probability
            while self.way and self.way[-1][0] + 1 == self.way[-1][1]:
                self.way.pop()
            if not self.way:
                return
            self.way[-1][0] += 1


def guesses(
    given: Tensor, asked: Tensor, there: Tensor, weights: Tensor, share: float
) -> Iterator[Tensor]:
    """For one text (S,) and the stories of its length (M, S): each asked word's probabilities."""
    masked, swapped, kept = 0.8, 0.1, 0.1
    other = 1 / (len(WORDS) - MASK - 1)
    same = 1 - share + share * (kept + swapped * other)  # a word that is seen is the true one
    equal = there == given
    fits = torch.where(equal | (given < MASK), same, share * swapped * other)
    fits = torch.where(given == MASK, share * masked, fits).double()  # (M, S)
    whole = weights * fits.prod(1)
    for place in asked.nonzero()[:, 0].tolist():
        if given[place] == MASK:
            at = torch.ones(1, dtype=torch.double)
        else:
            at = torch.where(equal[:, place], kept + swapped * other, swapped * other).double()
        p = torch.zeros(len(WORDS), dtype=torch.double)
        p.index_add_(0, there[:, place], whole / fits[:, place] * at)
        yield p / p.sum()


every: dict[tuple[str, str], float] = defaultdict(float)
for story, probability in EveryChoice().stories():
    every[story.first, story.second] += probability
groups = defaultdict(list)
for first, second in every:
    groups[len(first.split()), len(second.split())].append((first, second))
new = [(story.first, story.second) for story in stories(1_000, seed=1)]
ids, _ = to_ids(new)
by_length = {}
for length, texts in groups.items():
    there, _ = to_ids(texts)
    there = nn.functional.pad(there, (0, ids.size(1) - there.size(1)))
    by_length[length] = there, torch.tensor([every[text] for text in texts]).double()
found = {}
for share in SHARES:
    torch.manual_seed(0)  # as in the chapter
    given, labels = book["hide"](ids, len(WORDS), share)
    right, losses = 0, []
    for text, hidden, wanted in zip(new, given, labels, strict=True):
        asked = wanted != PAD
        there = by_length[len(text[0].split()), len(text[1].split())]
        for p, word in zip(guesses(hidden, asked, *there, share), wanted[asked], strict=True):
            right += int(p.argmax() == word)
            losses.append(-p[word].log().item())
    found[f"{share:.0%}"] = {
        "asked": len(losses),
        "right": round(right / len(losses), 4),
        "loss": round(sum(losses) / len(losses), 4),
    }
write_result(shares=found)
