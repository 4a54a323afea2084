"""Which of an exercise's known mistakes an answer makes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from transformer_lib.checks.deadline import StillRunning
from transformer_lib.checks.old.compare import difference
from transformer_lib.checks.old.exercise import Case, Exercise
from transformer_lib.checks.old.modules import Flaw
from transformer_lib.checks.old.running import Outcome, known

__all__ = ["Diagnosis", "diagnose"]


@dataclass(frozen=True)
class Diagnosis:
    """A known mistake, and the cases that it accounts for: all that fail, or most of them."""

    mistake: str
    cases: Sequence[int]


def diagnose(
    exercise: Exercise, outcomes: Sequence[Outcome], failed: Sequence[int]
) -> Diagnosis | None:
    """The first known mistake whose outcome agrees with the learner's on every case.

    If there is none: the first that agrees wherever the learner's answer gives a result, on half
    of the cases or more, and is wrong as well wherever the answer raises an exception. What is
    left of a mistake may be a NaN in one answer and a division by 0 in the next.

    If there is none of these either, see `_partly`.
    """
    if len(outcomes) < len(exercise.cases) or isinstance(outcomes[-1].error, StillRunning):
        return None
    # Many mistakes end in a RuntimeError about shapes. Where no wrong number tells them apart,
    # the messages must.
    only_errors = all(outcomes[i].error is not None for i in failed)
    order = [*failed, *(i for i in range(len(outcomes)) if i not in failed)]  # quick to tell apart
    pairs = [(exercise.cases[i], outcomes[i]) for i in order]

    def same(case: Case, outcome: Outcome, variant: Callable[..., Any]) -> bool:
        return _agree(exercise, outcome, known(exercise, variant, case), messages=only_errors)

    def as_bad(case: Case, outcome: Outcome, variant: Callable[..., Any]) -> bool:
        if outcome.error is None or isinstance(outcome.error, Flaw):
            return same(case, outcome, variant)
        return not _is_right(exercise, variant, case)

    results = sum(outcome.error is None for outcome in outcomes)
    for agrees in [same] if only_errors or 2 * results < len(outcomes) else [same, as_bad]:
        for description, variant in _variants(exercise):
            if all(agrees(case, outcome, variant) for case, outcome in pairs):
                return Diagnosis(description, failed)
    return _partly(exercise, outcomes, failed)


def _partly(
    exercise: Exercise, outcomes: Sequence[Outcome], failed: Sequence[int]
) -> Diagnosis | None:
    """The mistake of an answer that makes another one besides.

    It gives the learner's wrong results in two cases or more, at least half of those that fail,
    and is right where the learner's answer is. No other mistake accounts for as many.
    """
    right = {i: known(exercise, exercise.reference, exercise.cases[i]) for i in failed}
    if any(isinstance(outcome.value, bool) for outcome in right.values()):
        return None  # all that are wrong agree
    results = [
        i
        for i in failed
        if outcomes[i].error is None and not _agree(exercise, outcomes[i], right[i])
    ]
    passed = [i for i in range(len(outcomes)) if i not in failed]
    best: dict[str, list[int]] = {}
    for description, variant in _variants(exercise):
        same = [
            i
            for i in results
            if _agree(exercise, outcomes[i], known(exercise, variant, exercise.cases[i]))
        ]
        enough = len(same) > 1 and 2 * len(same) >= len(failed)
        if enough and all(_is_right(exercise, variant, exercise.cases[i]) for i in passed):
            best[description] = max(same, best.get(description, []), key=len)
    most = max(map(len, best.values()), default=0)
    first, *others = [each for each, same in best.items() if len(same) == most] or [None]
    return None if first is None or others else Diagnosis(first, best[first])


def _variants(exercise: Exercise) -> Iterator[tuple[str, Callable[..., Any]]]:
    for description, wrong in exercise.mistakes.items():
        for variant in wrong if isinstance(wrong, Sequence) else [wrong]:
            yield description, variant


def _is_right(exercise: Exercise, variant: Callable[..., Any], case: Case) -> bool:
    right = known(exercise, exercise.reference, case)
    return _agree(exercise, right, known(exercise, variant, case))


def _agree(exercise: Exercise, one: Outcome, other: Outcome, *, messages: bool = False) -> bool:
    if one.error is None or other.error is None:
        same = difference(one.numbers, other.numbers, atol=exercise.atol) is None
        return one.error is other.error and same
    if isinstance(one.error, Flaw) and isinstance(other.error, Flaw):
        return one.error.kind == other.error.kind
    same = type(one.error) is type(other.error)
    return same and not (messages and _words(one.error) != _words(other.error))


def _words(error: BaseException) -> list[str]:
    """Of the message, in no order: which of two tensors PyTorch names first says nothing."""
    return sorted(str(error).split())
