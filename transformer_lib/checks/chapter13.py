"""Checkers for chapter 13, *Training: from noise to zweiundvierzig*."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from transformer_lib.checks import Case, Checker, Exercise, Flaw, Parts
from transformer_lib.checks.inputs import normal

__all__ = ["check"]

PAD, BOS, EOS = 0, 1, 2

# --------------------------------------------------------------------------------- three_tensors

Rows = list[list[int]]


def padded(rows: Rows) -> Tensor:
    width = max(map(len, rows))
    return torch.tensor([row + [PAD] * (width - len(row)) for row in rows])


def three_tensors(
    source_ids: Rows,
    target_ids: Rows,
    *,
    reads: Callable[[list[int]], list[int]] = lambda row: [BOS, *row],
    says: Callable[[list[int]], list[int]] = lambda row: [*row, EOS],
) -> tuple[Tensor, ...]:
    return (
        padded(source_ids),
        padded([reads(row) for row in target_ids]),
        padded([says(row) for row in target_ids]),
    )


def cut_after_padding(source_ids: Rows, target_ids: Rows) -> tuple[Tensor, ...]:
    whole = padded([[BOS, *row, EOS] for row in target_ids])
    return padded(source_ids), whole[:, :-1], whole[:, 1:]


def end_after_padding(source_ids: Rows, target_ids: Rows) -> tuple[Tensor, ...]:
    target = padded(target_ids)
    ends = torch.full((len(target), 1), EOS)
    reads = padded([[BOS, *row] for row in target_ids])
    return padded(source_ids), reads, torch.cat([target, ends], 1)


pairs = partial(partial, three_tensors)

THREE_TENSORS = Exercise(
    name="three_tensors",
    reference=three_tensors,
    cases=lambda: [
        Case(([[5, 6]], [[7, 8, 9]]), "the decoder reads one token and predicts the next"),
        Case(([[5, 6, 7]], [[4]]), "a target of one token asks two questions"),
        Case(([[5, 6], [7, 8]], [[4, 3, 9], [9, 4, 5]]), "each pair is a row"),
        Case(([[5, 6, 7], [8]], [[7, 8, 9, 3], [4, 6]]), "short rows are padded at the end"),
        Case(([[5, 6, 3, 4, 7], [8]], [[7], [4, 6]]), "each tensor is as wide as its longest row"),
    ],
    section="How many questions are in one pair?",
    mistakes={
        "the shift is missing: the decoder reads the very tokens that it should predict": pairs(
            reads=lambda row: row, says=lambda row: row
        ),
        "`<eos>` is missing in the labels": pairs(says=lambda row: row),
        "the decoder reads `<eos>` as well": pairs(reads=lambda row: [BOS, *row, EOS]),
        "`<bos>` is among the labels": pairs(says=lambda row: [BOS, *row, EOS]),
        "`<bos>` is missing: the decoder has nothing to read before the first token": pairs(
            reads=lambda row: row
        ),
        "the last column is cut off after padding: shorter rows keep their `<eos>`": (
            cut_after_padding
        ),
        "`<eos>` comes after the padding, not after the last token of its row": end_after_padding,
        "`target_input` and `labels` are swapped": (
            lambda s, t: tuple(three_tensors(s, t)[i] for i in (0, 2, 1))
        ),
    },
)

# --------------------------------------------------------------------------------- smoothed_loss


def per_label(loss: Tensor, real: Tensor) -> Tensor:
    return loss[real].sum() / real.sum()


def smoothed_loss(
    logits: Tensor,
    labels: Tensor,
    epsilon: float,
    *,
    log_p: Callable[[Tensor], Tensor] = lambda logits: logits.log_softmax(-1),
    reduce: Callable[[Tensor, Tensor], Tensor] = per_label,
) -> Tensor:
    logarithms = log_p(logits)
    surprise = -logarithms.gather(-1, labels[..., None]).squeeze(-1)
    return reduce((1 - epsilon) * surprise - epsilon * logarithms.mean(-1), labels != PAD)


def loss_cases() -> list[Case]:
    two = torch.tensor([[[1.0, 0, 3], [0, 3, 1]], [[2, 1, -1], [1, 1, 0]]])
    labels = torch.tensor([[4, 3, 2], [5, 2, 0]])
    return [
        Case((two[:1, :1], torch.tensor([[2]]), 0.0), "without smoothing this is the surprise"),
        Case((two[:1, :1], torch.tensor([[1]]), 0.3), "epsilon is spread over all V tokens"),
        Case((two[:1], torch.tensor([[2, 1]]), 0.1), "the loss is averaged over the labels"),
        Case((two, torch.tensor([[2, 1], [2, 0]]), 0.1), "padding doesn't count"),
        Case((normal(2, 3, 7), labels, 0.2), "each label counts the same, in long rows and short"),
        Case((300 * normal(2, 3, 7), labels, 0.1), "no probability may underflow to 0"),
    ]


loss = partial(partial, smoothed_loss)

SMOOTHED_LOSS = Exercise(
    name="smoothed_loss",
    reference=smoothed_loss,
    cases=loss_cases,
    section="Should a model ever be certain?",
    keeps=frozenset({"gradient"}),
    mistakes={
        "padding is counted as if it were a label": loss(reduce=lambda x, real: x.mean()),
        "the sum leaves padding out, but the number it is divided by doesn't": loss(
            reduce=lambda x, real: (x * real).mean()
        ),
        "each row is averaged by itself: a label in a short row then counts for more": loss(
            reduce=lambda x, real: ((x * real).sum(-1) / real.sum(-1)).mean()
        ),
        "the surprise keeps its full weight: epsilon of it goes to all tokens": (
            lambda x, y, e: smoothed_loss(x, y, 0) + e * smoothed_loss(x, y, 1)
        ),
        "the softmax goes over the positions: it goes over the vocabulary": loss(
            log_p=lambda x: x.log_softmax(1)
        ),
        "the logits go through softmax twice": loss(log_p=lambda x: x.softmax(-1).log_softmax(-1)),
    },
)

# --------------------------------------------------------------------------------- learning_rate


def learning_rate(step: int, d_model: int, warmup: int) -> float:
    return d_model**-0.5 * min(step**-0.5, step * warmup**-1.5)


LEARNING_RATE = Exercise(
    name="learning_rate",
    reference=learning_rate,
    cases=lambda: [
        Case(
            (1, 16, 4), "the first step is step 1, and during the warm-up the smaller term counts"
        ),
        Case((4, 16, 4), "at the peak both terms are equal"),
        Case((9, 16, 4), "after the peak the rate falls with the square root of the step"),
        Case((1000, 6, 10), "it goes on falling"),
        Case((2, 16, 1), "a warm-up of one step ends at once"),
        Case((4000, 512, 4000), "this is the peak of the paper's base model"),
    ],
    section="How large a step?",
    atol=1e-9,
    mistakes={
        "the formula has `min`, not `max`": (
            lambda step, d, w: d**-0.5 * max(step**-0.5, step * w**-1.5)
        ),
        "the rate grows with d_model: the minus in the exponent is missing": (
            lambda step, d, w: learning_rate(step, 1 / d, w)
        ),
        "the second term is step / warmup": lambda step, d, w: d**-0.5 * min(step**-0.5, step / w),
        "the steps are counted from 0": lambda step, d, w: learning_rate(step + 1, d, w),
        "d_model is in the first term only: parentheses are missing around `min`": (
            lambda step, d, w: min(d**-0.5 * step**-0.5, step * w**-1.5)
        ),
        "`** -1/2` divides by 2: Python takes the power first": (
            lambda step, d, w: d**-1 / 2 * min(step**-1 / 2, step * w**-1.5)
        ),
    },
)

# ---------------------------------------------------------------------------------- joint_update


class Part(NamedTuple):
    source: Tensor
    target_input: Tensor
    labels: Tensor


class OneAtATime(torch.autograd.Function):
    """The logits as they are; the backward pass notices whether another part came between."""

    @staticmethod
    def forward(ctx: Any, logits: Tensor, model: Scorer, source: Tensor) -> Tensor:
        ctx.model, ctx.source, ctx.training = model, source, model.training
        return logits.clone()

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:  # type: ignore
        if not ctx.training:
            raise Flaw("The model is trained in `eval()`, which turns its dropout off.")
        if ctx.model.newest is not ctx.source:
            raise Flaw(
                "A part goes through the model before the previous one has gone through "
                "`backward`: both are in memory at the same time."
            )
        return gradient, None, None


class Scorer(nn.Module):
    """As little of a translator as can be trained: what is read, and the mean of the source."""

    newest: Tensor | None = None

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Parameter(normal(6, 3))
        self.head = nn.Parameter(normal(3, 6, seed=1))

    def forward(self, source: Tensor, target_input: Tensor) -> Tensor:
        found = self.table[source].mean(1, keepdim=True)
        logits = (self.table[target_input] + found) @ self.head
        if not logits.requires_grad:
            return logits
        self.newest = source
        return OneAtATime.apply(logits, self, source)  # type: ignore


def surprises(model: nn.Module, part: Part) -> Tensor:
    logits = model(part.source, part.target_input)
    return F.cross_entropy(logits.mT, part.labels, ignore_index=PAD, reduction="sum")


def count(part: Part) -> int:
    return int((part.labels != PAD).sum())


def joint_update(
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    batches: Sequence[Part],
    *,
    share: Callable[[Part, Sequence[Part]], float] = lambda part, parts: sum(map(count, parts)),
    order: str = "clear parts step",
    returned: Callable[[list[float]], float] = sum,
) -> float:
    losses: list[float] = []
    for act in order.split():
        if act == "clear":
            optimizer.zero_grad()
        elif act == "step":
            optimizer.step()
        for part in batches if "parts" in act else []:
            loss = surprises(model, part) / share(part, batches)
            losses.append(loss.item())
            if "cleared" in act:
                optimizer.zero_grad()
            loss.backward()
            if "stepped" in act:
                optimizer.step()
    return returned(losses)


def mean(losses: list[float]) -> float:
    return sum(losses) / len(losses)


def own(part: Part, parts: Sequence[Part]) -> float:
    return count(part)


def twice(
    answer: Callable[..., Any], /, model: nn.Module, optimizer: Any, batches: list[Part]
) -> Parts:
    """A gradient that was not cleared shows in the second update."""
    losses = Parts({f"The loss of the {n} update": answer(model, optimizer, batches)
                    for n in ("first", "second")})  # fmt: skip
    if any(isinstance(loss, Tensor) for loss in losses.values()):
        raise Flaw("The loss is a tensor: return a float, as `.item()` makes it.")
    return losses


def update_cases() -> list[Case]:
    def case(why: str, *parts: Part) -> Case:
        model = Scorer()
        # Adam would hide a gradient that is a constant times too large.
        return Case((model, torch.optim.SGD(model.parameters(), lr=0.5), list(parts)), why)

    def part(*rows: Rows) -> Part:
        return Part(*map(torch.tensor, rows))

    short = part([[5, 3, 4]], [[1, 3]], [[3, 2]])
    long = part([[3, 4, 5], [4, 5, 3]], [[1, 5, 4, 3], [1, 4, 0, 0]], [[5, 4, 3, 2], [4, 2, 0, 0]])
    pads = part([[4, 3], [5, 5], [3, 4]], [[1, 4], [1, 0], [1, 5]], [[4, 2], [2, 0], [5, 2]])
    return [
        case("one part is an ordinary update, and nothing is clipped", short),
        case("padding is not counted", pads),
        case(
            "two parts of equal size count the same, in one step",
            short,
            short._replace(source=long[0][:1]),
        ),
        case(
            "a label counts the same in a short part and in a long one, also in the loss returned",
            short,
            long,
        ),
        case("one step follows after all parts", long, short, pads),
    ]


update = partial(partial, joint_update)

JOINT_UPDATE = Exercise(
    name="joint_update",
    reference=joint_update,
    cases=update_cases,
    section="Does it learn?",
    use=twice,
    changes=frozenset({"model"}),
    mistakes={
        "`zero_grad` is missing: the second update still goes where the first went": update(
            order="parts step"
        ),
        "the gradient is cleared before every part: only the last one's is left": update(
            order="clearedparts step"
        ),
        "every part takes a step of its own": update(
            order="partsclearedstepped", share=own, returned=mean
        ),
        "each part is averaged by itself: a label in a short part then counts for more": update(
            share=own, returned=mean
        ),
        "`backward` gets the sum of the surprises, not the loss per label": update(
            share=lambda part, parts: 1
        ),
        "the step is missing": update(order="clear parts"),
    },
)

check = Checker(THREE_TENSORS, SMOOTHED_LOSS, LEARNING_RATE, JOINT_UPDATE)
