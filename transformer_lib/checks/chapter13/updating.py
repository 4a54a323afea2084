"""The update of `joint_update` in parts, of which a mistake replaces some."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from transformer_lib.checks.chapter13.scorer import Part


def summed(logits: Tensor, labels: Tensor) -> Tensor:
    return F.cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=0, reduction="sum")


def surprises(model: nn.Module, part: Part) -> Tensor:
    return summed(model(part.source, part.target_input), part.labels)


def real_labels(labels: Tensor) -> int:
    return int((labels != 0).sum())


def all_labels(parts: Sequence[Part]) -> int:
    return sum(real_labels(part.labels) for part in parts)


def joint_update(
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    batches: Sequence[Part],
    *,
    surprises: Callable[[nn.Module, Part], Tensor] = surprises,
    share: Callable[[Part, Sequence[Part]], float] = lambda part, parts: all_labels(parts),
    order: str = "clear, parts, step",
    result: Callable[[list[float], Sequence[Part]], float] | None = None,
) -> float:
    """Every part's surprises, divided by `share`, go backward; `order` says when the rest is."""
    totals: list[float] = []

    def parts() -> None:
        for part in batches:
            total = surprises(model, part)
            totals.append(total.item())
            if "each clear" in order:
                optimizer.zero_grad()
            (total / share(part, batches)).backward()
            if "each step" in order:
                optimizer.step()

    for act in order.split(", "):
        {"clear": optimizer.zero_grad, "parts": parts, "step": optimizer.step}.get(act, int)()
    return result(totals, batches) if result else sum(totals) / all_labels(batches)


def wrong(**part: Any) -> Callable[..., float]:
    return lambda model, optimizer, batches: joint_update(model, optimizer, batches, **part)


def own(part: Part, parts: Sequence[Part]) -> float:
    return real_labels(part.labels)


def own_of_all(part: Part, parts: Sequence[Part]) -> float:
    return real_labels(part.labels) * len(parts)


def up_to_here(part: Part, parts: Sequence[Part]) -> float:
    """The labels of this part and of those before it."""
    place = next(i for i, other in enumerate(parts) if other is part)
    return all_labels(parts[: place + 1])


def means(totals: list[float], parts: Sequence[Part]) -> list[float]:
    return [t / real_labels(p.labels) for t, p in zip(totals, parts, strict=True)]


def mean_of_means(totals: list[float], parts: Sequence[Part]) -> float:
    return sum(means(totals, parts)) / len(parts)


def sum_of_means(totals: list[float], parts: Sequence[Part]) -> float:
    return sum(means(totals, parts))


def last_mean(totals: list[float], parts: Sequence[Part]) -> float:
    return means(totals, parts)[-1]


def last_of_all(totals: list[float], parts: Sequence[Part]) -> float:
    return totals[-1] / all_labels(parts)


def sum_of_all(totals: list[float], parts: Sequence[Part]) -> float:
    return sum(totals)


def mean_again(totals: list[float], parts: Sequence[Part]) -> float:
    return sum(totals) / all_labels(parts) / len(parts)


def mean_of_totals(totals: list[float], parts: Sequence[Part]) -> float:
    return sum(totals) / len(parts)


def sum_up_to_here(totals: list[float], parts: Sequence[Part]) -> float:
    return sum(t / up_to_here(p, parts) for t, p in zip(totals, parts, strict=True))


RESULTS = (None, mean_of_means, sum_of_means, last_mean, last_of_all, sum_of_all)


def each_result(**part: Any) -> list[Callable[..., float]]:
    """One mistake in the update, with all that people return."""
    return [wrong(result=result, **part) for result in RESULTS]


def divided_by(count: Callable[[Part], int], **part: Any) -> list[Callable[..., float]]:
    """The divisor is `count` of all parts; the loss returned has it, too, or another one."""

    def share(part: Part, parts: Sequence[Part]) -> float:
        return sum(map(count, parts))

    def result(totals: list[float], parts: Sequence[Part]) -> float:
        return sum(totals) / sum(map(count, parts))

    return [*each_result(share=share, **part), wrong(share=share, result=result, **part)]


def padding_too(model: nn.Module, part: Part) -> Tensor:
    logits = model(part.source, part.target_input)
    return F.cross_entropy(logits.flatten(0, 1), part.labels.flatten(), reduction="sum")


def of_softmax(model: nn.Module, part: Part) -> Tensor:
    return summed(model(part.source, part.target_input).softmax(-1), part.labels)


def mean_surprise(model: nn.Module, part: Part) -> Tensor:
    return surprises(model, part) / real_labels(part.labels)


def cheating(model: nn.Module, part: Part) -> Tensor:
    return summed(model(part.source, part.labels), part.labels)


def shifted_twice(model: nn.Module, part: Part) -> Tensor:
    return summed(model(part.source, part.target_input)[:, :-1], part.labels[:, 1:])


def only_the_last(
    model: nn.Module, optimizer: torch.optim.Optimizer, batches: Sequence[Part]
) -> float:
    return joint_update(model, optimizer, batches[-1:])


def last_divided_by_all(
    model: nn.Module, optimizer: torch.optim.Optimizer, batches: Sequence[Part]
) -> float:
    return joint_update(model, optimizer, batches[-1:], share=lambda *_: all_labels(batches))


def at_once(model: nn.Module, optimizer: torch.optim.Optimizer, batches: Sequence[Part]) -> float:
    """One way back for all parts."""
    loss = sum(surprises(model, part) for part in batches) / torch.tensor(all_labels(batches))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss.item()


def in_one_batch(
    model: nn.Module, optimizer: torch.optim.Optimizer, batches: Sequence[Part]
) -> float:
    """The parts filled up and put together again."""
    widest = [max(part[i].size(1) for part in batches) for i in range(3)]
    whole = [
        torch.cat([F.pad(part[i], (0, widest[i] - part[i].size(1))) for part in batches])
        for i in range(3)
    ]
    return joint_update(model, optimizer, [Part(*whole)])
