"""The exercise `joint_update`: what it asks for, and how its answers go wrong."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from transformer_lib.checks.chapter13.scorer import Descent, Part, Scorer
from transformer_lib.checks.chapter13.updating import (
    RESULTS,
    at_once,
    cheating,
    divided_by,
    each_result,
    in_one_batch,
    joint_update,
    last_divided_by_all,
    last_mean,
    last_of_all,
    mean_again,
    mean_of_means,
    mean_of_totals,
    mean_surprise,
    of_softmax,
    only_the_last,
    own,
    own_of_all,
    padding_too,
    shifted_twice,
    sum_of_all,
    sum_of_means,
    sum_up_to_here,
    up_to_here,
    wrong,
)
from transformer_lib.checks.compare import difference
from transformer_lib.checks.core import Case, Exercise
from transformer_lib.checks.modules import Flaw


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
        right = [joint_update(*same) for _ in range(2)]
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


# No case has as many source ids as labels: that would not show which were counted.
_SHORT = _part([[5, 3, 4]], [[1, 3]], [[3, 2]])
_LONG = _part([[3, 4, 5], [4, 5, 3]], [[1, 5, 4, 3], [1, 4, 0, 0]], [[5, 4, 3, 2], [4, 2, 0, 0]])
_PADDED = _part([[4, 3], [5, 5], [3, 4]], [[1, 4], [1, 0], [1, 5]], [[4, 2], [2, 0], [5, 2]])

JOINT_UPDATE = Exercise(
    name="joint_update",
    reference=lambda model, optimizer, batches: joint_update(model, optimizer, batches),
    cases=[
        _case("one part without padding", _SHORT),
        _case("one part with padding", _PADDED),
        _case(
            "two parts with as many labels",
            _SHORT,
            _SHORT._replace(source=torch.tensor([[3, 4, 4]])),
        ),
        _case("a short part and a long one", _SHORT, _LONG),
        _case("three parts", _LONG, _SHORT, _PADDED),
    ],
    mistakes={
        "the old gradient is not cleared: zero_grad is missing, and the second update still goes "
        "where the first went": each_result(order="parts, step"),
        "the gradient is cleared before every part: only the last part's is left for the step": [
            *each_result(order="each clear, parts, step"),
            *each_result(order="each clear, parts, step", share=own),
            *each_result(order="each clear, parts, step", share=own_of_all),
            only_the_last,
            last_divided_by_all,
        ],
        "every part takes a step of its own: the later parts then see another model": [
            *each_result(order="each clear, parts, each step", share=own),
            *each_result(order="each clear, parts, each step"),
            *each_result(order="clear, parts, each step"),
            *each_result(order="clear, parts, each step", share=own),
        ],
        "each part is averaged by itself, and then the averages are: a label in a short part "
        "counts for more": each_result(share=own_of_all),
        "the averages of the parts are added up: the gradient grows with the number of parts": [
            *each_result(share=own),
        ],
        "all parts go through the model before any goes backward: then the memory holds them all, "
        "as if they were one batch": [at_once],
        "the parts are put together into one batch: it was too large for the memory": [
            in_one_batch
        ],
        "padding is counted as if it were a label": [
            *each_result(surprises=padding_too),
            *divided_by(lambda part: part.labels.numel(), surprises=padding_too),
        ],
        "the sum leaves padding out, but the number it is divided by does not": divided_by(
            lambda part: part.labels.numel()
        ),
        "the sum is divided by the number of sentences and not of labels": divided_by(
            lambda part: len(part.labels)
        ),
        "the sum is divided by the number of ids in the sources and not of labels": divided_by(
            lambda part: int((part.source != 0).sum())
        ),
        "the sum is divided by the number of parts and not of labels": divided_by(lambda part: 1),
        "the labels are counted as the parts come: the first part is then divided by its own "
        "number alone, and only the last by that of all": [
            wrong(share=up_to_here, result=result) for result in (sum_up_to_here, *RESULTS)
        ],
        "the mean of each part is divided once more, by the number of all labels: it needs "
        'reduction="sum"': [
            wrong(surprises=mean_surprise, result=result)
            for result in (None, sum_of_all, mean_of_totals)
        ],
        "the logits go through softmax twice: the cross-entropy does it already": [
            *each_result(surprises=of_softmax),
        ],
        "the surprises go backward undivided: the step is as many times too long as there are "
        "labels": each_result(share=lambda part, parts: 1),
        "nothing reaches the parameters: the step is missing, or comes where there is no gradient, "
        "before backward or after zero_grad": [
            *each_result(order="clear, parts"),
            *each_result(order="clear, step, parts"),
            *each_result(order="parts, clear, step"),
        ],
        "the step comes before backward: it follows the gradient of the update before": [
            *each_result(order="step, clear, parts"),
        ],
        "the decoder reads `labels`, which are the answers: it reads `target_input`": [
            *each_result(surprises=cheating),
        ],
        "labels are shifted once more: they already stand one place ahead of what is read": [
            *each_result(surprises=shifted_twice),
        ],
        "the update is right, but the sum of the surprises is returned, not the loss per label": [
            wrong(result=sum_of_all),
        ],
        "the update is right, but the loss of the last part alone is returned": [
            wrong(result=last_mean),
            wrong(result=last_of_all),
        ],
        "the update is right, but the loss returned is the mean of the parts' means": [
            wrong(result=mean_of_means),
            wrong(result=sum_of_means),
        ],
        "the update is right, but the loss returned is divided by the number of parts once more": [
            wrong(result=mean_again),
        ],
    },
    use=two_updates,
    changes=["model"],
    section="Does it learn?",
)
