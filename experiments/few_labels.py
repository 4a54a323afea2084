"""What a few labels teach a model that has read, and one that hasn't: the record of chapter 20.

    python experiments/few_labels.py

The chapter's ways to fine-tune, with five seeds; a linear layer reads the frozen BERT, from the
first token and from the mean; the changes of fine-tuning are cut to a low rank. The GPT is
fine-tuned on 30 labels with its old loss, without, and with its old loss on stories. `right` is the
accuracy on 1,000 new sentences: is the animal small or big? About three minutes on one core.
"""

import copy
import random
from collections.abc import Callable
from typing import Any

import torch
from blanks import linear, mean_of_tokens
from result_file import chapter, write_result
from torch import Tensor

from transformer_lib.data import Story, stories

LABELS, FEW, SEEDS, RANKS = (10, 30, 100, 300), 30, range(5), (0, 1, 2, 4, 64)
book = chapter(20, "data", "mine-before", "mine", "helpers", "tasks")
BERTClassifier, GPTClassifier = book["BERTClassifier"], book["GPTClassifier"]
bert_loss, gpt_loss, right = book["bert_loss"], book["gpt_loss"], book["right"]
POOL, TEST = book["unsaid"](1_000, seed=10), book["unsaid"](1_000, seed=11)


def fine_tune(
    kind: type, pretrained: Any, told: list[Story], loss_on: Callable[..., Any], seed: int,
    updates: int = 150, peak: float = 0.001,
) -> Any:  # fmt: skip
    """A classifier of this kind around a copy of the model, trained on the labels of `told`."""
    torch.manual_seed(seed)
    model = kind(copy.deepcopy(pretrained), n_labels=2)
    loss_of = loss_on(model, told)
    book["descend"](model, loss_of, len(told), updates, peak, size=30, warmup=15)
    return model


def labels_alone(model: Any, told: list[Story]) -> Callable[[Tensor], Tensor]:
    return gpt_loss(model, told, share=0)


def on_stories(model: Any, told: list[Story]) -> Callable[[Tensor], Tensor]:
    """The loss of the labels, and the old loss on 32 stories of pretraining."""
    label_loss, old_loss = labels_alone(model, told), book["what_follows"](model.gpt)
    return lambda some: label_loss(some) + 0.5 * old_loss(torch.randint(len(book["told"]), (32,)))


@torch.no_grad()
def frozen(bert: Any, train: list[Story], first: bool) -> float:
    found = []
    for told in (train, TEST):
        ids, segments, labels = book["labeled"](told)
        x = bert.encode(ids, segments)
        found += [x[:, 0] if first else mean_of_tokens(x, ids), labels]
    return linear(*found)


@torch.no_grad()
def cut(before: Any, after: Any, rank: int) -> Any:
    """`after`, with what fine-tuning changed in each matrix of the layers cut to a rank."""
    model, old = copy.deepcopy(after), dict(before.encoder.named_parameters())
    for name, parameter in model.bert.encoder.named_parameters():
        if parameter.dim() == 2:
            u, s, v = torch.linalg.svd(parameter - old[name], full_matrices=False)
            parameter.copy_(old[name] + u[:, :rank] * s[:rank] @ v[:rank])
    return model


@torch.no_grad()
def four_terms(before: Any, after: Any) -> float:
    """The share of the largest 4 terms in the change of the second layer's queries."""
    new, old = (bert.encoder.layers[1].attention.query.weight for bert in (after.bert, before))
    squares = torch.linalg.svdvals(new - old).square()
    return (squares[:4].sum() / squares.sum()).item()


@torch.no_grad()
def next_words(gpt: Any) -> float:
    """The loss of GPT's old task, on new stories."""
    told = [(story.first, story.second) for story in stories(800, seed=1) if story.alive]
    ids, _ = book["to_ids"](told)
    return book["next_words"](gpt(ids), ids).item()


def one_seed(seed: int) -> dict[str, Any]:
    bert, gpt = book["pretrained"](seed)
    drawn = random.Random(seed).sample(POOL, max(LABELS))
    torch.manual_seed(seed)
    unread = book["BERT"](len(book["pieces"]), **book["sizes"])
    told = {n: drawn[:n] for n in LABELS}
    berts = {n: fine_tune(BERTClassifier, bert, told[n], bert_loss, seed) for n in LABELS}
    gpts = {n: fine_tune(GPTClassifier, gpt, told[n], gpt_loss, seed) for n in LABELS}
    scratch = {n: fine_tune(BERTClassifier, unread, told[n], bert_loss, seed, 300, 0.002)
               for n in LABELS}  # fmt: skip
    ways = {
        "old loss kept": gpts[FEW],
        "labels alone": fine_tune(GPTClassifier, gpt, told[FEW], labels_alone, seed),
        "on stories": fine_tune(GPTClassifier, gpt, told[FEW], on_stories, seed),
    }
    old_task = {"before": {"loss": next_words(gpt)}} | {
        name: {"right": right(model, TEST), "loss": next_words(model.gpt)}
        for name, model in ways.items()
    }
    return {
        "right": {
            "BERT's way": [right(model, TEST) for model in berts.values()],
            "GPT's way": [right(model, TEST) for model in gpts.values()],
            "from scratch": [right(model, TEST) for model in scratch.values()],
            "frozen, mean": [frozen(bert, told[n], first=False) for n in LABELS],
            "frozen, [CLS]": [frozen(bert, told[n], first=True) for n in LABELS],
        },
        "rank": [right(cut(bert, berts[FEW], rank), TEST) for rank in RANKS],
        "four terms": four_terms(bert, berts[FEW]),
        "GPT's way": old_task,
    }


write_result(
    labels=LABELS,
    ranks=RANKS,
    seeds=[one_seed(seed) for seed in SEEDS],
)
