"""Checkers for chapter 18, *GPT: one stack that continues*."""

import math
from collections.abc import Callable, Sequence
from functools import partial

import torch
from torch import Tensor

from transformer_lib.checks import Case, Checker, Exercise, Flaw
from transformer_lib.checks.chapter14 import scattered, shared, unfinished
from transformer_lib.checks.inputs import normal

__all__ = ["check"]

# ------------------------------------------------------------------------------------ drawn_from


def warmed(logits: Tensor, temperature: float) -> Tensor:
    return (logits / temperature).softmax(-1)


def drawn_from(
    logits: Tensor,
    temperature: float,
    top_k: int | None,
    top_p: float,
    *,
    warm: Callable[[Tensor, float], Tensor] = warmed,
    inside: Callable[[Tensor, float], Tensor] = unfinished,
    normalize: Callable[[Tensor], Tensor] = shared,
    back: Callable[[Tensor, Tensor], Tensor] = scattered,
) -> Tensor:
    probs, order = warm(logits, temperature).sort(dim=-1, descending=True)
    kept = probs * (torch.arange(probs.size(-1)) < (top_k or probs.size(-1)))
    return back(normalize(kept * inside(shared(kept), top_p)), order)


def drawn_cases() -> list[Case]:
    def case(
        logits: list[float], temperature: float, top_k: int | None, top_p: float, why: str
    ) -> Case:
        return Case((torch.tensor([logits]).float(), temperature, top_k, top_p), why)

    return [
        case([3, 1, 0, -1], 1.0, None, 1.0, "with temperature 1, no `top_k` and `top_p` = 1, this "
             "is a softmax: nothing is dropped"),
        case([3, 1, 0, -1], 0.5, None, 1.0, "at temperature 0.5 the differences between "
             "logits count double"),
        case([0, 2, -1, 1], 1.0, 2, 1.0, "`top_k` = 2 keeps the two most probable letters, "
             "wherever they are, and their probabilities sum to 1"),
        case([0, 2, -1, 1], 1.0, None, 0.7, "the most probable letter has 0.64, and the second is "
             "needed to reach `top_p` = 0.7"),
        case([0, 2, -1, 1], 1.0, None, 0.5, "the most probable letter has 0.64, and that is enough "
             "for `top_p` = 0.5"),
        case([0, 2, -1, 1], 1.0, 2, 0.7, "of what `top_k` has left, the first letter has 0.73, "
             "which is enough for `top_p` = 0.7"),
        Case(
            (torch.tensor([[4, 0, 1, 0.5], [1, 0.8, 0.9, 1.1]]), 1.0, None, 0.8),
            "each row sums to 1, and a row that is sure keeps fewer letters than one that isn't",
        ),
        Case((2 * normal(5, 11, seed=2), 1.5, 6, 0.7), "temperature, `top_k`, `top_p`: in this "
             "order, and each row separately"),
        Case((normal(3, 7, seed=3), 3.0, 5, 0.9), "a high temperature makes rare letters likelier"),
    ]  # fmt: skip


drawn = partial(partial, drawn_from)

DRAWN_FROM = Exercise(
    name="drawn_from",
    reference=drawn_from,
    cases=drawn_cases,
    section="How do you make it write?",
    mistakes={
        "the temperature has no effect: the probabilities are divided by it, and "
        "normalizing cancels it": drawn(warm=lambda logits, t: logits.softmax(-1)),
        "the probabilities are returned in sorted order": drawn(back=lambda kept, order: kept),
        "`gather` is used with `order`, which says where each probability came from: that "
        "rearranges them once more": drawn(back=lambda kept, order: kept.gather(-1, order)),
        "the letter that brings the sum past top_p is dropped: then less than top_p is kept": drawn(
            inside=lambda share, top_p: share.cumsum(-1) <= top_p + 1e-6
        ),
        "a softmax follows the cuts: e^0 = 1, so dropped letters get a share again": drawn(
            normalize=lambda kept: kept.softmax(-1)
        ),
    },
)

# ------------------------------------------------------------------------------------- text_loss

Model = Callable[[Tensor], Tensor]
VOCAB, MOST = 30, 8


class Counting:
    """A model of texts 0, 1, 2, …: its loss is 8 after one letter, 7 after two, and so on."""

    def __init__(self, length: int) -> None:
        self.length = length

    def __call__(self, ids: Tensor) -> Tensor:
        if ids.dim() != 2:
            raise Flaw(f"`model` takes ids of shape (B, T); it was given shape {tuple(ids.shape)}.")
        if ids.size(1) > self.length:
            raise Flaw(
                f"The model was given {ids.size(1)} letters at once, and `length` is {self.length}."
            )
        right = -(MOST - torch.arange(ids.size(1))).float().expand(ids.shape)[..., None]
        wrong = torch.log((1 - right.exp()) / (VOCAB - 1)).expand(*ids.shape, VOCAB)
        return wrong.scatter(-1, (ids[..., None] + 1) % VOCAB, right)


def surprise(model: Model, reads: Tensor, labels: Tensor) -> Tensor:
    log_probs = model(reads[None])[0].log_softmax(-1)
    return -log_probs.gather(-1, labels[:, None])[:, 0]


Parts = Sequence[Tensor]


def mean(parts: Parts, ids: Tensor) -> float:
    return torch.cat([*parts]).mean().item()


def text_loss(
    model: Model,
    ids: Tensor,
    length: int,
    stride: int,
    *,
    asked: Callable[[Tensor, Tensor], Tensor] = lambda reads, labels: labels,
    skip: Callable[[int, int, int], int] = lambda known, n, stride: known,
    forget: bool = False,
    finish: Callable[[Parts, Tensor], float] = mean,
) -> float:
    parts, counted = [], 0
    for start in range(0, len(ids) - 1, stride):
        labels = ids[start + 1 : start + length + 1]
        reads = ids[start : start + len(labels)]
        new = skip(counted - start, len(labels), stride)
        first = new if forget else 0
        each = surprise(model, reads[first:], asked(reads, labels)[first:])
        parts.append(each[new - first :])
        counted = start + len(labels)
        if counted == len(ids) - 1:
            break
    return finish(parts, ids)


def loss_cases() -> list[Case]:
    def case(n: int, length: int, stride: int, why: str) -> Case:
        return Case((Counting(length), torch.arange(n), length, stride), why)

    return [
        case(9, 8, 8, "this model's loss is 8 after it has read one letter, 7 after two, and so on"
             ", and one whole window has eight answers"),
        case(9, 4, 4, "two windows side by side have the losses 8, 7, 6, 5 twice"),
        case(7, 4, 2, "the second window begins at letter 2, and only its last two answers are "
             "new: the losses are 8, 7, 6, 5, and then 6, 5"),
        case(4, 8, 4, "the text ends before the window is full: it has three answers, and its last "
             "letter is not read"),
        case(12, 8, 4, "the second window has only seven answers, of which four are known, and the "
             "end is reached"),
        case(13, 5, 1, "each later window has one new answer"),
        case(24, 8, 3, "there may be many windows"),
    ]  # fmt: skip


loss = partial(partial, text_loss)

TEXT_LOSS = Exercise(
    name="text_loss",
    reference=text_loss,
    cases=loss_cases,
    section="How many questions are in one window?",
    mistakes={
        "the answers are not shifted: the model is asked for the letter that it has just read": (
            loss(asked=lambda reads, labels: reads)
        ),
        "the loss is in bits: nats come from the natural logarithm": loss(
            finish=lambda parts, ids: mean(parts, ids) / math.log(2)
        ),
        "each window's mean counts the same, however few of its answers are new": loss(
            finish=lambda parts, ids: torch.stack([part.mean() for part in parts]).mean().item()
        ),
        "each window counts its last `stride` answers: in the first window more are new, and in a "
        "short one fewer": loss(skip=lambda known, n, stride: max(n - stride, 0)),
        "the model reads only the new letters, without the ones before them": loss(forget=True),
        "the sum is divided by the number of letters: the first one isn't predicted": loss(
            finish=lambda parts, ids: torch.cat([*parts]).sum().item() / len(ids)
        ),
    },
)

check = Checker(DRAWN_FROM, TEXT_LOSS)
