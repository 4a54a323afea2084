"""The exercise `joint_update`: what it asks for, and how its answers go wrong."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from transformer_lib.checks.chapter13.scorer import Descent, Part, Scorer
from transformer_lib.checks.compare import difference
from transformer_lib.checks.core import Case, Exercise
from transformer_lib.checks.modules import Flaw


def _total(logits: Tensor, labels: Tensor) -> Tensor:
    return F.cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=0, reduction="sum")


def _surprises(model: nn.Module, part: Part) -> Tensor:
    return _total(model(part.source, part.target_input), part.labels)


def _real(labels: Tensor) -> int:
    return int((labels != 0).sum())


def _all(parts: Sequence[Part]) -> int:
    return sum(_real(part.labels) for part in parts)


def _joint_update(
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    batches: Sequence[Part],
    *,
    surprises: Callable[[nn.Module, Part], Tensor] = _surprises,
    share: Callable[[Part, Sequence[Part]], float] = lambda part, parts: _all(parts),
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
    return result(totals, batches) if result else sum(totals) / _all(batches)


def _wrong(**part: Any) -> Callable[..., float]:
    return lambda model, optimizer, batches: _joint_update(model, optimizer, batches, **part)


def _own(part: Part, parts: Sequence[Part]) -> float:
    return _real(part.labels)


def _own_of_all(part: Part, parts: Sequence[Part]) -> float:
    return _real(part.labels) * len(parts)


def _places(part: Part, parts: Sequence[Part]) -> float:
    return sum(p.labels.numel() for p in parts)


def _means(totals: list[float], parts: Sequence[Part]) -> list[float]:
    return [t / _real(p.labels) for t, p in zip(totals, parts, strict=True)]


def _mean_of_means(totals: list[float], parts: Sequence[Part]) -> float:
    return sum(_means(totals, parts)) / len(parts)


def _sum_of_means(totals: list[float], parts: Sequence[Part]) -> float:
    return sum(_means(totals, parts))


def _last_mean(totals: list[float], parts: Sequence[Part]) -> float:
    return _means(totals, parts)[-1]


def _last(totals: list[float], parts: Sequence[Part]) -> float:
    return totals[-1] / _all(parts)


def _sum(totals: list[float], parts: Sequence[Part]) -> float:
    return sum(totals)


RESULTS = (None, _mean_of_means, _sum_of_means, _last_mean, _last, _sum)


def _each_result(**part: Any) -> list[Callable[..., float]]:
    """One mistake in the update, with all that people return."""
    return [_wrong(result=result, **part) for result in RESULTS]


def _padded(model: nn.Module, part: Part) -> Tensor:
    logits = model(part.source, part.target_input)
    return F.cross_entropy(logits.flatten(0, 1), part.labels.flatten(), reduction="sum")


def _cheating(model: nn.Module, part: Part) -> Tensor:
    return _total(model(part.source, part.labels), part.labels)


def _shifted_twice(model: nn.Module, part: Part) -> Tensor:
    return _total(model(part.source, part.target_input)[:, :-1], part.labels[:, 1:])


def _only_the_last(
    model: nn.Module, optimizer: torch.optim.Optimizer, batches: Sequence[Part]
) -> float:
    return _joint_update(model, optimizer, batches[-1:])


def _last_divided_by_all(
    model: nn.Module, optimizer: torch.optim.Optimizer, batches: Sequence[Part]
) -> float:
    return _joint_update(model, optimizer, batches[-1:], share=lambda *_: _all(batches))


def _at_once(model: nn.Module, optimizer: torch.optim.Optimizer, batches: Sequence[Part]) -> float:
    """One way back for all parts."""
    loss = sum(_surprises(model, part) for part in batches) / torch.tensor(_all(batches))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss.item()


def _in_one_batch(
    model: nn.Module, optimizer: torch.optim.Optimizer, batches: Sequence[Part]
) -> float:
    """The parts filled up and put together again."""
    widest = [max(part[i].size(1) for part in batches) for i in range(3)]
    whole = [
        torch.cat([F.pad(part[i], (0, widest[i] - part[i].size(1))) for part in batches])
        for i in range(3)
    ]
    return _joint_update(model, optimizer, [Part(*whole)])


def two_updates(
    answer: Callable[..., Any], /, model: nn.Module, optimizer: Any, batches: list[Part]
) -> list[Any] | None:
    """A gradient that was not cleared shows in the second."""
    same = copy.deepcopy((model, optimizer, batches))
    losses = [answer(model, optimizer, batches) for _ in range(2)]
    if any(loss is None for loss in losses):
        return None
    losses = [x.item() if isinstance(x, Tensor) and x.numel() == 1 else x for x in losses]
    # Is that all that is wrong? In the case of three parts, any other mistake shows in the numbers.
    if isinstance(model, Scorer) and model.late and len(batches) > 2:
        right = [_joint_update(*same) for _ in range(2)]
        numbers = (losses, dict(model.state_dict())), (right, dict(same[0].state_dict()))
        if difference(*numbers) is None:
            raise Flaw(
                "late",
                "The numbers are right, but a part went through the model before the one in "
                "front of it had gone backward: both were in memory at the same time.",
            )
    return losses


def _case(label: str, *parts: Part) -> Case:
    model = Scorer()
    return Case(label, model, Descent(model), list(parts))


def _part(source: list, target_input: list, labels: list) -> Part:
    return Part(torch.tensor(source), torch.tensor(target_input), torch.tensor(labels))


_SHORT = _part([[5]], [[1, 3]], [[3, 2]])
_LONG = _part([[3, 4], [4, 5]], [[1, 5, 4, 3], [1, 4, 0, 0]], [[5, 4, 3, 2], [4, 2, 0, 0]])
_PADDED = _part([[4], [5], [3]], [[1, 4], [1, 0], [1, 5]], [[4, 2], [2, 0], [5, 2]])

JOINT_UPDATE = Exercise(
    name="joint_update",
    reference=lambda model, optimizer, batches: _joint_update(model, optimizer, batches),
    cases=[
        _case("one part without padding", _SHORT),
        _case("one part with padding", _PADDED),
        _case("two parts with as many labels", _SHORT, _SHORT._replace(source=torch.tensor([[3]]))),
        _case("a short part and a long one", _SHORT, _LONG),
        _case("three parts", _LONG, _SHORT, _PADDED),
    ],
    mistakes={
        "the old gradient is not cleared: zero_grad is missing, and the second update still goes "
        "where the first went": _each_result(order="parts, step"),
        "the gradient is cleared before every part: only the last part's is left for the step": [
            *_each_result(order="each clear, parts, step"),
            *_each_result(order="each clear, parts, step", share=_own),
            *_each_result(order="each clear, parts, step", share=_own_of_all),
            _only_the_last,
            _last_divided_by_all,
        ],
        "every part takes a step of its own: the later parts then see another model": [
            *_each_result(order="each clear, parts, each step", share=_own),
            *_each_result(order="each clear, parts, each step"),
            *_each_result(order="clear, parts, each step"),
            *_each_result(order="clear, parts, each step", share=_own),
        ],
        "each part is averaged by itself, and then the averages are: a label in a short part "
        "counts for more": _each_result(share=_own_of_all),
        "the averages of the parts are added up: the gradient grows with the number of parts": [
            *_each_result(share=_own),
        ],
        "all parts go through the model before any goes backward: then the memory holds them all, "
        "as if they were one batch": [_at_once],
        "the parts are put together into one batch: it was too large for the memory": [
            _in_one_batch
        ],
        "padding is counted as if it were a label": [
            *_each_result(surprises=_padded),
            *_each_result(surprises=_padded, share=_places),
            _wrong(
                surprises=_padded,
                share=_places,
                result=lambda totals, parts: sum(totals) / _places(parts[0], parts),
            ),
        ],
        "the sum leaves padding out, but the number it is divided by does not": [
            *_each_result(share=_places),
            _wrong(
                share=_places,
                result=lambda totals, parts: sum(totals) / _places(parts[0], parts),
            ),
        ],
        "the sum is divided by the number of sentences and not of labels": [
            _wrong(
                share=lambda part, parts: sum(len(p.labels) for p in parts),
                result=result,
            )
            for result in (
                None,
                lambda totals, parts: sum(totals) / sum(len(p.labels) for p in parts),
            )
        ],
        "the surprises go backward undivided: the step is as many times too long as there are "
        "labels": _each_result(share=lambda part, parts: 1),
        "nothing reaches the parameters: the step is missing, or comes where there is no gradient, "
        "before backward or after zero_grad": [
            *_each_result(order="clear, parts"),
            *_each_result(order="clear, step, parts"),
            *_each_result(order="parts, clear, step"),
        ],
        "the step comes before backward: it follows the gradient of the update before": [
            *_each_result(order="step, clear, parts"),
        ],
        "the decoder reads `labels`, which are the answers: it reads `target_input`": [
            *_each_result(surprises=_cheating),
        ],
        "labels are shifted once more: they already stand one place ahead of what is read": [
            *_each_result(surprises=_shifted_twice),
        ],
        "the update is right, but the sum of the surprises is returned, not the loss per label": [
            _wrong(result=_sum),
        ],
        "the update is right, but the loss of the last part alone is returned": [
            _wrong(result=_last_mean),
            _wrong(result=_last),
        ],
        "the update is right, but the loss returned is the mean of the parts' means": [
            _wrong(result=_mean_of_means),
            _wrong(result=_sum_of_means),
        ],
    },
    use=two_updates,
    changes=["model"],
    section="Does it learn?",
)
