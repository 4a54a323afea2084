"""What a few labels teach a model that has read, and one that hasn't: the record of chapter 20.

    python experiments/few_labels.py

The chapter's ways to fine-tune, with five seeds; a linear layer reads the frozen encoder, from the
first token and from the mean; the changes of fine-tuning are cut to a low rank. A decoder is
fine-tuned on 30 labels with its old loss, without, and with its old loss on stories. `right` is the
accuracy on 1,000 new sentences: is the animal small or big? About three minutes on one core.
"""

import copy
import random
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from blanks import CONFIG, MASK, PAD, Bert, linear, minimize, rows
from result_file import chapter, write_result
from torch import Tensor, nn

from transformer_lib.data import Story, stories
from transformer_lib.models import DecoderOnly

LABELS, FEW, SEEDS = (10, 30, 100, 300), 30, (0, 1, 2, 3, 4)
READING, UPDATES, RANKS = 1_000, 150, (0, 1, 2, 4, 64)
NEXT_WORDS = type(CONFIG)(**CONFIG.__dict__ | {"n_token_types": 0, "output_bias": False})
unsaid = chapter(20, "data")["unsaid"]
POOL, TEST = unsaid(1_000, seed=10), unsaid(1_000, seed=11)
TOLD = [story for story in stories(20_000, seed=0) if story.alive]
IDS, SEGMENTS = rows([(story.first, story.second) for story in TOLD])


def labeled(told: list[Story]) -> tuple[Tensor, Tensor, Tensor]:
    """The first sentences alone, with one column of padding at least, their segments, labels."""
    ids, segments = rows([(story.first, "") for story in told])
    longest = int((ids != PAD).sum(1).max()) + 1
    labels = torch.tensor([int(story.size == "big") for story in told])
    return ids[:, :longest], segments[:, :longest], labels


class Encoder(Bert):
    def reading_loss(self) -> Tensor:
        some = torch.randint(len(IDS), (32,))
        return self.blanks_loss(IDS[some], SEGMENTS[some], 0.3)[0]

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


def pretrained(kind: Any, seed: int) -> Any:
    torch.manual_seed(seed)
    model = kind()
    minimize(model, model.reading_loss, 4e-3, READING, warmup=60)
    return model


def fine_tune(
    model: Any, told: list[Story], seed: int, updates: int = UPDATES, peak: float = 1e-3,
    old_loss: Callable[[Any, Tensor], Tensor] | None = None,
) -> Any:  # fmt: skip
    """A copy of the model, with a new layer, trained on the labels of `told`."""
    model = copy.deepcopy(model)
    torch.manual_seed(seed)
    model.label.reset_parameters()
    ids, segments, labels = labeled(told)

    def loss_of() -> Tensor:
        some = torch.randint(len(ids), (30,))
        loss = F.cross_entropy(model.labels_of(ids[some], segments[some]), labels[some])
        return loss if old_loss is None else loss + 0.5 * old_loss(model, ids[some])

    minimize(model, loss_of, peak, updates, warmup=15)
    return model


@torch.no_grad()
def right(model: Any) -> float:
    ids, segments, labels = labeled(TEST)
    return (model.labels_of(ids, segments).argmax(1) == labels).float().mean().item()


@torch.no_grad()
def frozen(model: Encoder, train: list[Story], first: bool) -> float:
    found = []
    for told in (train, TEST):
        ids, segments, labels = labeled(told)
        x, real = model.encode(ids, segments), (ids != PAD)[..., None]
        found += [x[:, 0] if first else (x * real).sum(1) / real.sum(1), labels]
    return linear(*found)


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
    new, old = (model.encoder.layers[1].self_attention.in_proj.weight[: CONFIG.d_model]
                for model in (after, before))  # fmt: skip
    squares = torch.linalg.svdvals(new - old).square()
    return (squares[:4].sum() / squares.sum()).item()


def one_seed(seed: int) -> dict[str, Any]:
    bert, gpt = pretrained(Encoder, seed), pretrained(Decoder, seed)
    drawn = random.Random(seed).sample(POOL, max(LABELS))
    torch.manual_seed(seed)
    unread = Encoder()
    ways: dict[str, Callable[[Decoder, Tensor], Tensor] | None] = {
        "old loss kept": lambda model, ids: model.next_words(ids),
        "labels alone": None,
        "on stories": lambda model, ids: model.reading_loss(),
    }
    tuned = {n: fine_tune(bert, drawn[:n], seed) for n in LABELS}
    gpts = {n: fine_tune(gpt, drawn[:n], seed, old_loss=ways["old loss kept"]) for n in LABELS}
    scratch = [fine_tune(unread, drawn[:n], seed, updates=2 * UPDATES, peak=2e-3) for n in LABELS]
    found: dict[str, Any] = {
        "right": {
            "BERT's way": [right(model) for model in tuned.values()],
            "GPT's way": [right(model) for model in gpts.values()],
            "from scratch": [right(model) for model in scratch],
            "frozen, mean": [frozen(bert, drawn[:n], first=False) for n in LABELS],
            "frozen, [CLS]": [frozen(bert, drawn[:n], first=True) for n in LABELS],
        },
        "rank": [right(cut(bert, tuned[FEW], rank)) for rank in RANKS],
        "four terms": four_terms(bert, tuned[FEW]),
    }
    whole, _ = rows([(story.first, story.second) for story in stories(800, seed=1) if story.alive])
    models = {name: fine_tune(gpt, drawn[:FEW], seed, old_loss=ways[name]) for name in ways}
    with torch.no_grad():
        found["GPT's way"] = {
            name: {"right": right(model), "loss": model.next_words(whole).item()}
            for name, model in models.items()
        } | {"before": {"loss": gpt.next_words(whole).item()}}
    return found


write_result(
    labels=LABELS,
    ranks=RANKS,
    seeds=[one_seed(seed) for seed in SEEDS],
)
