"""What the best possible guesser gets right where chapter 19's BERT is scored, by the grammar.

    python experiments/blanks_ceiling.py

Goes through all stories that the grammar makes. For each hidden position and each word, it adds up
the probabilities of the stories that fit the text with its blanks. That's done with 15 % of the
words hidden, as in the chapter, and with other shares. Two minutes on one core.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import torch
from blanks import MASK, MASKED, PAD, SEP, SWAPPED, WORDS, hide, rows
from result_file import head, write_result
from torch import Tensor

from transformer_lib.data import stories, world

SHARES = (0.05, 0.15, 0.3, 0.5)
Drawn = Iterator[tuple[tuple[str, ...], float]]


def evenly(*choices: Any) -> Drawn:
    """One word from each list, all equally likely."""
    each = [[choice] if isinstance(choice, str) else list(choice) for choice in choices]
    found = list(itertools.product(*each))
    yield from ((words, 1 / len(found)) for words in found)


def mixed(*parts: tuple[float, Drawn]) -> Drawn:
    for share, drawn in parts:
        yield from ((words, share * p) for words, p in drawn)


def joined(*parts: Drawn) -> Drawn:
    for several in itertools.product(*[list(part) for part in parts]):
        p = 1.0
        for _, q in several:
            p *= q
        yield tuple(word for words, _ in several for word in words), p


def of_animal(topic: str, size: str) -> Iterator[tuple[str, str, float]]:
    place = world._ANIMALS[topic]
    adjective = mixed((0.6, evenly(size)), (0.2, evenly(world._ANY)), (0.2, evenly(world._MOODS)))
    animal = list(joined(adjective, evenly(place[size])))
    people = [person for both in world._PEOPLE.values() for person in both]
    end = evenly(("eats", "finds"), place["taste"], place["food"])
    near = evenly(world._RESTS, "near", "the", place["place"])
    first = mixed(
        (0.5, joined(evenly("the"), iter(animal), end)),
        (0.25, joined(evenly("the"), iter(animal), near)),
        (0.25, joined(evenly("the", people, world._CARES, "the"), iter(animal))),
    )
    ends = list(evenly("then the", size, "animal", world._RESTS, "near the", place["place"]))
    for (words, p), (more, q) in itertools.product(first, ends):
        yield " ".join(words), " ".join(more), p * q


def of_thing(topic: str, who: str) -> Iterator[tuple[str, str, float]]:
    place = world._THINGS[topic]
    thing = list(evenly((*world._ANY, "small", "big"), place["thing"]))
    first = mixed(
        (0.5, joined(evenly("the", world._PEOPLE[who], place["does"], "the"), iter(thing))),
        (0.5, joined(evenly("the"), iter(thing),
                     evenly(("lies", "falls"), "near the", place["place"]))),
    )  # fmt: skip
    what = list(evenly(f"then {who}", place["then"], "the", ("long", "short"), place["what"]))
    for (words, p), (more, q) in itertools.product(first, what):
        yield " ".join(words), " ".join(more), p * q


def all_stories() -> dict[tuple[str, str], float]:
    found: dict[tuple[str, str], float] = defaultdict(float)
    for topic in world.TOPICS:
        animal = topic in world._ANIMALS
        for kind in ("small", "big") if animal else ("she", "he"):
            for first, second, p in (of_animal if animal else of_thing)(topic, kind):
                found[first, second] += p / len(world.TOPICS) / 2
    return found


def guesses(
    given: Tensor, asked: Tensor, there: Tensor, weights: Tensor, share: float
) -> Iterator[Tensor]:
    """For one text (S,) and the stories of its length (M, S): each asked word's probabilities."""
    other = 1 / (len(WORDS) - MASK - 1)
    kept = 1 - MASKED - SWAPPED
    same = 1 - share + share * (kept + SWAPPED * other)  # a word that is seen is the true one
    swapped = share * SWAPPED * other
    equal = there == given
    fits = torch.where(equal | (given <= SEP), same, swapped)
    fits = torch.where(given == MASK, share * MASKED, fits).double()  # (M, S)
    whole = weights * fits.prod(1)
    for place in asked.nonzero()[:, 0].tolist():
        if given[place] == MASK:
            at = torch.ones(1, dtype=torch.double)
        else:
            at = torch.where(equal[:, place], kept + SWAPPED * other, SWAPPED * other).double()
        p = torch.zeros(len(WORDS), dtype=torch.double)
        p.index_add_(0, there[:, place], whole / fits[:, place] * at)
        yield p / p.sum()


def main() -> None:
    torch.set_num_threads(1)
    every = all_stories()
    new = [(story.first, story.second) for story in stories(1_000, seed=1)]
    assert abs(sum(every.values()) - 1) < 1e-9 and all(text in every for text in new)
    groups: dict[tuple[int, int], list[tuple[str, str]]] = defaultdict(list)
    for first, second in every:
        groups[len(first.split()), len(second.split())].append((first, second))
    by_length = {
        length: (rows(texts)[0], torch.tensor([every[text] for text in texts]).double())
        for length, texts in groups.items()
    }
    ids, _ = rows(new)
    record = head(
        f"the best guesses by the grammar's {len(every):,} stories, at the words that are hidden "
        "in 1,000 of them; with 15 % they are those of chapter 19"
    ) | {"shares": {}}
    for share in SHARES:
        torch.manual_seed(0)  # as in the chapter
        given, labels = hide(ids, share)
        right, losses = 0, []
        for text, hidden, wanted in zip(new, given, labels, strict=True):
            asked = wanted != PAD
            found = by_length[len(text[0].split()), len(text[1].split())]
            for p, word in zip(guesses(hidden, asked, *found, share), wanted[asked], strict=True):
                right += int(p.argmax() == word)
                losses.append(-p[word].log().item())
        record["shares"][f"{share:.0%}"] = {
            "asked": len(losses),
            "right": round(right / len(losses), 4),
            "loss": round(sum(losses) / len(losses), 4),
        }
        print(share, record["shares"][f"{share:.0%}"], flush=True)
    write_result("blanks-ceiling", record)


if __name__ == "__main__":
    main()
