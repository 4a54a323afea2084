"""What a few labels teach a model that has read, and one that hasn't: the record of chapter 20.

    python experiments/few_labels.py

The task: is the animal of a sentence small or big, when no word says so? An encoder pretrained on
blanks is fine-tuned, from its first token; one that has read nothing is trained in the same way;
and a linear layer reads the frozen encoder, from the first token and from the mean. Two controls
with 30 labels: labels decided by a coin for each animal, and twice the updates. The changes of
fine-tuning are also cut to a low rank. A decoder pretrained on next words is fine-tuned on 30
labels, from the same start with its old loss, without, and with its old loss on stories. Five
seeds draw the pretrained models, the labeled sentences, and the new layer. About three minutes on
one core.
"""

from __future__ import annotations

import copy
import random
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from blanks import CONFIG, MASK, PAD, hide, linear, minimize, rows
from result_file import head, write_result
from torch import Tensor, nn

from transformer_lib.data import Story, stories
from transformer_lib.models import DecoderOnly, EncoderOnly

LABELS, FEW, SEEDS = (10, 30, 100, 300), 30, (0, 1, 2, 3, 4)
READING, UPDATES, RANKS = 1_000, 150, (0, 1, 2, 4, 64)
NEXT_WORDS = type(CONFIG)(**CONFIG.__dict__ | {"n_token_types": 0, "output_bias": False})
Question = Callable[[Story], int]


def unsaid(n: int, seed: int) -> list[Story]:
    """Stories of an animal whose first sentence doesn't say how big it is."""
    found = stories(8 * n, seed=seed)
    return [s for s in found if s.alive and not {"small", "big"} & set(s.first.split())][:n]


def animal(story: Story) -> str:
    return story.first.split()[story.roles.index("animal")]


def is_big(story: Story) -> int:
    return int(story.size == "big")


POOL, TEST = unsaid(1_000, seed=10), unsaid(1_000, seed=11)
TOLD = [story for story in stories(20_000, seed=0) if story.alive]
IDS, SEGMENTS = rows([(story.first, story.second) for story in TOLD])


def firsts(told: list[Story]) -> tuple[Tensor, Tensor]:
    """The first sentences alone, with one column of padding at least, and their segments."""
    ids, segments = rows([(story.first, "") for story in told])
    longest = int((ids != PAD).sum(1).max()) + 1
    return ids[:, :longest], segments[:, :longest]


class Encoder(EncoderOnly):
    """A BERT with a linear layer on the vector of [CLS]."""

    def __init__(self) -> None:
        super().__init__(CONFIG)
        for table in (self.embedding.weight, self.embedding.types.weight,
                      self.embedding.positions.table):  # fmt: skip
            nn.init.normal_(table, std=0.1)
        self.label = nn.Linear(CONFIG.d_model, 2)

    def reading_loss(self) -> Tensor:
        some = torch.randint(len(IDS), (32,))
        given, words = hide(IDS[some], share=0.3)
        asked = words != PAD
        x = self.encode(given, SEGMENTS[some])[asked]
        logits = self.embedding.logits(self.head_norm(F.gelu(self.head_dense(x))))
        return F.cross_entropy(logits, words[asked])

    def labels_of(self, ids: Tensor, segments: Tensor) -> Tensor:
        return self.label(self.encode(ids, segments)[:, 0])


class Decoder(DecoderOnly):
    """A GPT with a linear layer on the vector of the extract token, which it has never read."""

    def __init__(self) -> None:
        super().__init__(NEXT_WORDS)
        for table in (self.embedding.weight, self.embedding.positions.table):
            nn.init.normal_(table, std=0.1)
        self.label = nn.Linear(CONFIG.d_model, 2)

    def next_words(self, ids: Tensor) -> Tensor:
        logits = self(ids[:, :-1])
        return F.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten(), ignore_index=PAD)

    def reading_loss(self) -> Tensor:
        return self.next_words(IDS[torch.randint(len(IDS), (32,))])

    def labels_of(self, ids: Tensor, segments: Tensor) -> Tensor:
        each, end = torch.arange(len(ids)), (ids != PAD).sum(1)
        ids = ids.clone()
        ids[each, end] = MASK
        return self.label(self.decoder(self.embedding(ids))[each, end])


def rates(peak: float, steps: int, warmup: int) -> list[float]:
    return [
        peak * min(1, (step + 1) / warmup, 1.3 * (steps - step) / steps) for step in range(steps)
    ]


def pretrained(kind: Any, seed: int) -> Any:
    torch.manual_seed(seed)
    model = kind()
    minimize(model, model.reading_loss, rates(4e-3, READING, warmup=60))
    return model


def fine_tune(
    model: Any, told: list[Story], seed: int, question: Question = is_big, updates: int = UPDATES,
    peak: float = 1e-3, old_loss: Callable[[Any, Tensor], Tensor] | None = None,
) -> Any:  # fmt: skip
    """A copy of the model, with a new layer, trained on the labels of `told`."""
    model = copy.deepcopy(model)
    torch.manual_seed(seed)
    model.label.reset_parameters()
    (ids, segments), labels = firsts(told), torch.tensor([question(story) for story in told])

    def loss_of() -> Tensor:
        some = torch.randint(len(ids), (30,))
        loss = F.cross_entropy(model.labels_of(ids[some], segments[some]), labels[some])
        return loss if old_loss is None else loss + 0.5 * old_loss(model, ids[some])

    minimize(model, loss_of, rates(peak, updates, warmup=15))
    return model


@torch.no_grad()
def right(model: Any, told: list[Story], question: Question = is_big) -> float:
    answers = model.labels_of(*firsts(told)).argmax(1)
    return (answers == torch.tensor([question(story) for story in told])).float().mean().item()


@torch.no_grad()
def frozen(model: Encoder, train: list[Story], first: bool) -> float:
    def vectors(told: list[Story]) -> Tensor:
        ids, segments = firsts(told)
        x, real = model.encode(ids, segments), (ids != PAD)[..., None]
        return x[:, 0] if first else (x * real).sum(1) / real.sum(1)

    labels = [torch.tensor([is_big(story) for story in told]) for told in (train, TEST)]
    return linear(vectors(train), labels[0], vectors(TEST), labels[1])


@torch.no_grad()
def cut(before: Encoder, after: Encoder, rank: int) -> Encoder:
    """`after`, with what fine-tuning changed in each matrix of the layers cut to a rank."""
    model, old = copy.deepcopy(after), dict(before.encoder.named_parameters())
    for name, parameter in model.encoder.named_parameters():
        if parameter.dim() == 2:
            u, s, v = torch.linalg.svd(parameter - old[name], full_matrices=False)
            parameter.copy_(old[name] + u[:, :rank] * s[:rank] @ v[:rank])
    return model


@torch.no_grad()
def four_terms(before: Encoder, after: Encoder) -> float:
    """The share of the largest 4 terms in the change of the second layer's queries."""
    change = [model.encoder.layers[1].self_attention.in_proj.weight[: CONFIG.d_model]
              for model in (after, before)]  # fmt: skip
    squares = torch.linalg.svdvals(change[0] - change[1]).square()
    return (squares[:4].sum() / squares.sum()).item()


def one_seed(seed: int) -> dict[str, Any]:
    bert, gpt = pretrained(Encoder, seed), pretrained(Decoder, seed)
    labeled = random.Random(seed).sample(POOL, max(LABELS))
    few = labeled[:FEW]
    strangers = [s for s in TEST if animal(s) not in {animal(s) for s in few}]
    torch.manual_seed(seed)
    unread = Encoder()
    ways: dict[str, Callable[[Decoder, Tensor], Tensor] | None] = {
        "old loss kept": lambda model, ids: model.next_words(ids),
        "labels alone": None,
        "on stories": lambda model, ids: model.reading_loss(),
    }
    names = ("BERT's way", "GPT's way", "from scratch", "frozen, mean", "frozen, [CLS]")
    curve: dict[str, list[float]] = {name: [] for name in names}
    tuned = {n: fine_tune(bert, labeled[:n], seed) for n in LABELS}
    for n, model in tuned.items():
        train = labeled[:n]
        scratch = fine_tune(unread, train, seed, updates=2 * UPDATES, peak=2e-3)
        gpts = fine_tune(gpt, train, seed, old_loss=ways["old loss kept"])
        shares = (right(model, TEST), right(gpts, TEST), right(scratch, TEST),
                  frozen(bert, train, first=False), frozen(bert, train, first=True))  # fmt: skip
        for line, share in zip(curve.values(), shares, strict=True):
            line.append(share)
    print(seed, curve, flush=True)

    toss = random.Random(seed)
    coins = {name: toss.randrange(2) for name in sorted({animal(story) for story in TEST})}
    tossed = fine_tune(bert, few, seed, lambda story: coins[animal(story)])
    friends = [story for story in TEST if story not in strangers]
    found: dict[str, Any] = {
        "right": curve,
        "twice the updates": {
            "BERT's way": right(fine_tune(bert, few, seed, updates=2 * UPDATES), TEST),
            "from scratch": right(
                fine_tune(unread, few, seed, updates=4 * UPDATES, peak=2e-3), TEST
            ),
        },
        "strangers": {
            "size": right(tuned[FEW], strangers),
            "coin": right(tossed, strangers, lambda story: coins[animal(story)]),
            "coin, animals with a label": right(
                tossed, friends, lambda story: coins[animal(story)]
            ),
        },
        "rank": [right(cut(bert, tuned[FEW], rank), TEST) for rank in RANKS],
        "four terms": four_terms(bert, tuned[FEW]),
    }

    whole, _ = rows([(story.first, story.second) for story in stories(800, seed=1) if story.alive])
    models = {name: fine_tune(gpt, few, seed, old_loss=loss) for name, loss in ways.items()}
    with torch.no_grad():
        found["GPT's way"] = {
            name: {"right": right(model, TEST), "loss": model.next_words(whole).item()}
            for name, model in models.items()
        } | {"before": {"loss": gpt.next_words(whole).item()}}
    print(seed, found, flush=True)
    return found


def main() -> None:
    torch.set_num_threads(1)
    record = head(
        f"accuracy on {len(TEST)} new sentences: is the animal small or big; {READING} updates of "
        f"pretraining, {UPDATES} on the labels, twice as many from scratch; seeds 0 to 4"
    ) | {"labels": LABELS, "ranks": RANKS, "seeds": []}
    for seed in SEEDS:
        record["seeds"].append(one_seed(seed))
        write_result("few-labels", record)


if __name__ == "__main__":
    main()
