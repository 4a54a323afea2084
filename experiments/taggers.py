"""What are the neighbors of a word worth to a tagger? The record of chapter 4.

    python experiments/taggers.py

Trains the `Tagger` of chapter 4 with several masks, with and without positions, and with a layer of
PyTorch's that gets the axes of a batch in the wrong order, all from five seeds. Each run lists the
shares of right tags among all words of the test sentences, among the occurrences of *new*, and
among twins, after 1000 steps and after 2000. The learning rate falls over the whole run, so the two
are separate runs. "at most" is the best that any tagger with the same information can get on the
test sentences, counted and not trained. Ten minutes on one thread.
"""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable
from fractions import Fraction

import torch
import torch.nn.functional as F
from result_file import head, write_result
from torch import Tensor, nn

from transformer_lib import attention

SEEDS = range(5)
STEPS = (1000, 2000)
COLUMNS = ("all", "new", "twins")
Sentence = tuple[tuple[str, str], ...]  # words, each with its tag

# ------------------------------------------------------------------------------------ sentences

NOUNS = ["saw", "fish", "duck", "light", "cook", "dog"]
VERBS = ["saw", "fish", "duck", "light", "cook", "see", "like"]
pick = random.Random(0).choice


def noun_phrase(pronouns: list[str]) -> list[tuple[str, str]]:
    article = (pick(["the", "a"]), "DET")
    adjective = (pick(["light", "fresh", "new"]), "ADJ")
    noun = (pick(NOUNS), "NOUN")
    return pick(
        [
            [(pick(pronouns), "PRON")],
            [("new", "NAME"), ("york", "NAME")],
            [adjective, ("shoes", "NOUN")],
            [article, noun],
            [article, adjective, noun],
        ]
    )


def make_sentence() -> Sentence:
    subject = noun_phrase(["I", "you", "they"])
    verb, helper = (pick(VERBS), "VERB"), (pick(["can", "will"]), "AUX")
    if pick([True, False]):
        middle = [helper, verb]
    elif subject[0][1] == "PRON":
        middle = [verb]
    else:
        middle = [("saw", "VERB")]
    return tuple(subject + middle + noun_phrase(["me", "you", "them"]))


sentences = list(dict.fromkeys(make_sentence() for _ in range(8000)))
random.Random(0).shuffle(sentences)
vocabulary = sorted({word for s in sentences for word, _ in s})
tags = sorted({tag for s in sentences for _, tag in s})


def in_batches(sentences: list[Sentence], size: int) -> list[tuple[Tensor, Tensor]]:
    batches = []
    for length in range(3, 9):
        numbers = torch.tensor(
            [
                [(vocabulary.index(word), tags.index(tag)) for word, tag in s]
                for s in sentences
                if len(s) == length
            ]
        )
        batches += [part.unbind(-1) for part in numbers.split(size)]
    return batches


training = in_batches(sentences[:-1000], 64)
test = in_batches(sentences[-1000:], 1000)  # one batch for each length


def columns_of(ids: Tensor, answer: Tensor) -> Tensor:
    """Which words count in each column: `(3, B, T)`."""
    same_word = ids[:, :, None] == ids[:, None]
    other_tag = answer[:, :, None] != answer[:, None]
    twins = (same_word.sum(dim=-1) == 2) & (same_word & other_tag).any(dim=-1)
    return torch.stack([ids >= 0, ids == vocabulary.index("new"), twins])


# -------------------------------------------------------------------------------------- taggers

everyone = torch.ones(8, 8).bool()
itself = torch.eye(8).bool()
past = everyone.tril()


class SingleHead(nn.Module):
    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.query = nn.Linear(d_model, d_model)
        self.key = nn.Linear(d_model, d_model)
        self.value = nn.Linear(d_model, d_model)

    def forward(self, x: Tensor, memory: Tensor, mask: Tensor) -> Tensor:
        return attention(self.query(x), self.key(memory), self.value(memory), mask).output


class Borrowed(nn.Module):
    """PyTorch's layer, which takes `(T, B, d)` unless told otherwise and gets `(B, T, d)`."""

    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.layer = nn.MultiheadAttention(d_model, num_heads=1)

    def forward(self, x: Tensor, memory: Tensor, mask: Tensor) -> Tensor:
        return self.layer(x, memory, memory)[0]


class Tagger(nn.Module):
    def __init__(self, mask: Tensor, positions: bool, borrowed: bool) -> None:
        super().__init__()
        self.mask, self.positions = mask, positions
        self.word = nn.Embedding(len(vocabulary), 32)
        self.position = nn.Embedding(8, 32)
        self.attention = SingleHead(32)
        self.read = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, len(tags)))
        if borrowed:
            self.attention = Borrowed(32)

    def forward(self, ids: Tensor) -> Tensor:
        length = ids.size(1)
        x = self.word(ids)
        if self.positions:
            x = x + self.position.weight[:length]
        received = self.attention(x, x, self.mask[:length, :length])
        return self.read(torch.cat([x, received], dim=-1))


def mix(words: list[int]) -> Hashable:
    """How large a share of `words` each word is: all that a sum over them can know."""
    return frozenset((word, Fraction(n, len(words))) for word, n in Counter(words).items())


# For each kind: mask, positions, borrowed; and what the tagger can know of word i of a sentence
# besides the word itself. If that and the word are equal, so are the two results.
KINDS: dict[str, tuple[tuple[Tensor, bool, bool], Callable[[list[int], int], Hashable]]] = {
    "itself": ((itself, False, False), lambda s, i: None),
    "everyone": ((everyone, False, False), lambda s, i: mix(s)),
    "the past": ((past, False, False), lambda s, i: mix(s[: i + 1])),
    "itself, positions": ((itself, True, False), lambda s, i: i),
    "everyone, positions": ((everyone, True, False), lambda s, i: (i, tuple(s))),
    "left neighbor": ((past.triu(-1), False, False), lambda s, i: mix(s[max(i - 1, 0) : i + 1])),
    "both neighbors": (
        (everyone.tril(1).triu(-1), False, False),
        lambda s, i: mix(s[max(i - 1, 0) : i + 2]),
    ),
    "borrowed": ((everyone, True, True), lambda s, i: (i, len(s))),
}


def at_most(knows: Callable[[list[int], int], Hashable]) -> dict[str, float]:
    """The best shares that one answer for each word and what is known of it can get."""
    counts = [defaultdict(Counter) for _ in COLUMNS]
    for ids, answer in test:
        for row, right, kinds in zip(
            ids.tolist(), answer.tolist(), columns_of(ids, answer).movedim(0, -1), strict=True
        ):
            for i, (word, tag) in enumerate(zip(row, right, strict=True)):
                for column, counts_here in zip(kinds[i].tolist(), counts, strict=True):
                    if column:
                        counts_here[word, knows(row, i)][tag] += 1
    best = [sum(max(c.values()) for c in column.values()) for column in counts]
    total = [sum(c.total() for c in column.values()) for column in counts]
    return {name: b / n for name, b, n in zip(COLUMNS, best, total, strict=True)}


@torch.no_grad()
def shares(guess: Callable[[Tensor], Tensor]) -> dict[str, float]:
    right, count = torch.zeros(3), torch.zeros(3)
    for ids, answer in test:
        kinds = columns_of(ids, answer)
        right += (kinds & (guess(ids) == answer)).sum(dim=(1, 2))
        count += kinds.sum(dim=(1, 2))
    return dict(zip(COLUMNS, (right / count).tolist(), strict=True))


def train(seed: int, steps: int, *options: Tensor | bool) -> Tagger:
    torch.manual_seed(seed)
    tagger = Tagger(*options)
    adam = torch.optim.Adam(tagger.parameters(), lr=5e-3)
    slower = torch.optim.lr_scheduler.LinearLR(adam, 1.0, 0.05, steps)
    for _ in range(steps):
        ids, answer = training[torch.randint(len(training), ())]
        loss = F.cross_entropy(tagger(ids).flatten(0, 1), answer.flatten())
        adam.zero_grad()
        loss.backward()
        adam.step()
        slower.step()
    return tagger.eval()


def main() -> None:
    torch.set_num_threads(1)
    record = head(
        "for each kind of tagger: the most that its information allows, and for each number of "
        "steps and each seed the shares of right tags"
    ) | {"seeds": list(SEEDS), "steps": STEPS, "at most": {}, "runs": {}, "one at a time": {}}
    for name, (options, knows) in KINDS.items():
        record["at most"][name] = at_most(knows)
        record["runs"][name] = {}
        for steps in STEPS:
            taggers = [train(seed, steps, *options) for seed in SEEDS]
            found = [shares(lambda ids, t=t: t(ids).argmax(dim=-1)) for t in taggers]
            record["runs"][name][str(steps)] = found
            print(f"{name}, {steps} steps", flush=True)
            for column in COLUMNS:
                most = record["at most"][name][column]
                print(f"  {column:<6}{most:7.1%} |", *(f"{f[column]:6.1%}" for f in found))
            if name == "borrowed":
                record["one at a time"][str(steps)] = [
                    shares(lambda ids, t=t: torch.cat([t(s[None]) for s in ids]).argmax(dim=-1))
                    for t in taggers
                ]
    write_result("taggers", record)


if __name__ == "__main__":
    main()
