"""How far a few labels go, with and without pretraining: the record of chapter 20.

    python experiments/few_labels.py

The task: is the animal of a sentence small or big, when no word says so? Four classifiers: an
encoder pretrained on blanks, fine-tuned; a decoder pretrained on next words, fine-tuned with its
old loss beside the new one; a linear layer on the encoder's frozen vectors; and an encoder without
pretraining. Three seeds each, on 10 to 1,000 labels. About ten minutes on one core.
"""

from __future__ import annotations

import random
from typing import Any

import torch
import torch.nn.functional as F
from blanks import CONFIG, IDS, PAD, Bert, linear, minimize, pretrained, rates, rows
from blanks import SIZE as BATCH
from result_file import head, write_result
from torch import Tensor, nn

from transformer_lib.data import Story, stories
from transformer_lib.models import DecoderOnly

LABELS = (10, 30, 100, 300, 1000)
EXTRACT = IDS["[MASK]"]  # a token that the decoder has never seen
UPDATES, READING = 150, 1_500  # updates on labels, and of pretraining


def unsaid(n: int, seed: int) -> list[Story]:
    """Stories of an animal whose first sentence doesn't say how big it is."""
    found = stories(8 * n, seed=seed)
    return [s for s in found if s.alive and not {"small", "big"} & set(s.first.split())][:n]


POOL, TEST = unsaid(1_000, seed=10), unsaid(1_000, seed=11)


def truth(told: list[Story]) -> Tensor:
    return torch.tensor([int(story.size == "big") for story in told])


class Decoder(DecoderOnly):
    """A GPT with a linear layer on the vector of the extract token."""

    def __init__(self) -> None:
        super().__init__(CONFIG_GPT)
        nn.init.normal_(self.embedding.weight, std=0.1)
        nn.init.normal_(self.embedding.positions.table, std=0.1)
        self.label = nn.Linear(CONFIG.d_model, 2)


CONFIG_GPT = type(CONFIG)(**{**CONFIG.__dict__, "n_token_types": 0})


def next_words(model: Decoder, ids: Tensor) -> Tensor:
    logits = model(ids[:, :-1])
    return F.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten(), ignore_index=PAD)


def pretrained_decoder(seed: int, steps: int) -> Decoder:
    torch.manual_seed(seed)
    model = Decoder()
    told = stories(12_000, seed=0)
    ids, _ = rows([(s.first, s.second if i % 2 else "") for i, s in enumerate(told)])
    minimize(model, lambda: next_words(model, ids[torch.randint(len(ids), (BATCH,))]), rates(steps))
    return model.eval()


def descend(model: nn.Module, loss_of: Any, n: int, updates: int, peak: float) -> None:
    """Fine-tune all parameters on `n` labels; `loss_of(rows)` is the loss of some of them."""
    rates = [
        peak * min(1, (step + 1) / 15, 1.1 * (updates - step) / updates) for step in range(updates)
    ]
    minimize(model, lambda: loss_of(torch.randint(n, (min(32, n),))), rates)


def right(logits: Tensor, labels: Tensor) -> float:
    return round((logits.argmax(1) == labels).float().mean().item(), 4)


def encoder_way(model: Bert, train: list[Story], updates: int, peak: float) -> float:
    """A linear layer on the vector of [CLS]; all parameters are trained."""
    ids, segments = rows([(story.first, "") for story in train])
    labels = truth(train)
    model.label = nn.Linear(CONFIG.d_model, 2)

    def logits(ids: Tensor, segments: Tensor) -> Tensor:
        return model.label(model.encode(ids, segments)[:, 0])

    def loss(some: Tensor) -> Tensor:
        return F.cross_entropy(logits(ids[some], segments[some]), labels[some])

    descend(model, loss, len(train), updates, peak)
    with torch.no_grad():
        return right(logits(*rows([(story.first, "") for story in TEST])), truth(TEST))


def decoder_way(model: Decoder, train: list[Story], updates: int, old_task: float) -> float:
    """Start, text, delimiter, extract: a linear layer on the last one, beside the old loss."""

    def read(told: list[Story]) -> tuple[Tensor, Tensor]:
        ids, _ = rows([(story.first, "") for story in told])
        at = (ids != PAD).sum(1)
        ids[torch.arange(len(ids)), at] = EXTRACT
        return ids, at

    def logits(ids: Tensor, at: Tensor) -> Tensor:
        x = model.decoder(model.embedding(ids))
        return model.label(x[torch.arange(len(ids)), at])

    (ids, at), labels = read(train), truth(train)
    plain = ids.masked_fill(ids == EXTRACT, PAD)

    def loss(some: Tensor) -> Tensor:
        new = F.cross_entropy(logits(ids[some], at[some]), labels[some])
        return new + old_task * next_words(model, plain[some]) if old_task else new

    descend(model, loss, len(train), updates, 1e-3)
    with torch.no_grad():
        return right(logits(*read(TEST)), truth(TEST))


@torch.no_grad()
def frozen(model: Bert, train: list[Story]) -> float:
    def means(told: list[Story]) -> Tensor:
        ids, segments = rows([(story.first, "") for story in told])
        real = (ids != PAD)[..., None]
        return (model.encode(ids, segments) * real).sum(1) / real.sum(1)

    return round(linear(means(train), truth(train), means(TEST), truth(TEST)), 4)


def main() -> None:
    torch.set_num_threads(1)
    names = ["BERT's way", "GPT's way", "GPT's way, old loss gone", "frozen", "from scratch"]
    record = head(
        f"accuracy on {len(TEST)} new sentences: is the animal small or big; "
        f"{UPDATES} updates on the labels, twice as many from scratch; seeds 0 to 2"
    ) | {
        "labels": LABELS,
        "right": {name: [] for name in names},
    }
    for seed in (0, 1, 2):
        bert = pretrained(seed, steps=READING).state_dict()
        gpt = pretrained_decoder(seed, READING).state_dict()
        found: dict[str, list[float]] = {name: [] for name in names}
        for n in LABELS:
            train = random.Random(seed).sample(POOL, n)

            def fresh(kind: Any, parameters: Any = None, seed: int = seed) -> Any:
                torch.manual_seed(seed)
                model = kind()
                if parameters:
                    model.load_state_dict(parameters)
                return model

            found["BERT's way"].append(encoder_way(fresh(Bert, bert), train, UPDATES, 1e-3))
            found["GPT's way"].append(decoder_way(fresh(Decoder, gpt), train, UPDATES, 0.5))
            gone = decoder_way(fresh(Decoder, gpt), train, UPDATES, 0.0)
            found["GPT's way, old loss gone"].append(gone)
            found["frozen"].append(frozen(fresh(Bert, bert), train))
            found["from scratch"].append(encoder_way(fresh(Bert), train, 2 * UPDATES, 2e-3))
            print(seed, n, {name: row[-1] for name, row in found.items()}, flush=True)
        for name in names:
            record["right"][name].append(found[name])
        write_result("few-labels", record)


if __name__ == "__main__":
    main()
