"""Exercise checkers: run a learner's function or class, say what is wrong with it and why.

A chapter's checker is a list of exercises. Each exercise brings a reference, cases chosen to
separate the right answer from the wrong ones, and the mistakes people are known to make, written
as functions or classes. The learner's answer runs on every case. Where it fails, its outputs are
compared with the outputs of each known mistake: the one that agrees on *all* cases is the
diagnosis. The report shows evidence (an exception, a shape, a row sum, a wrong entry), never the
answer.
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from transformer_lib.checks.compare import difference, mismatch, show, with_article
from transformer_lib.checks.deadline import StillRunning
from transformer_lib.checks.exercise import Case, Exercise
from transformer_lib.checks.explain import explain_error, wrong_change
from transformer_lib.checks.modules import Flaw
from transformer_lib.checks.running import Outcome, known, lost, run, silent

__all__ = ["Case", "Checker", "Exercise", "Result"]


@dataclass(frozen=True, eq=False)
class Result:
    """What `check` returns: true when every case passed. A notebook shows nothing for it."""

    passed: bool
    report: str = field(repr=False)

    def __bool__(self) -> bool:
        return self.passed

    def _ipython_display_(self) -> None:  # the report is printed already
        pass


class Checker:
    """Callable that checks a function against the exercise of the same name.

    >>> def double(x):
    ...     return x * x
    >>> check = Checker(
    ...     Exercise(
    ...         name="double",
    ...         reference=lambda x: 2 * x,
    ...         cases=[Case("a zero", 0.0), Case("a number", 3.0)],
    ...         mistakes={"the number is squared": lambda x: x**2},
    ...         section="Twice as much",
    ...     )
    ... )
    >>> result = check(double)
    ✗ double, case 2 of 2: a number
      Your result is 9, and that is not right.
      That is what happens when the number is squared.
      Look again at the section "Twice as much". The other case passes.
    >>> result.passed
    False
    """

    def __init__(self, *exercises: Exercise) -> None:
        self.exercises = {exercise.name: exercise for exercise in exercises}

    def __call__(self, function: Callable[..., Any]) -> Result:
        """Print the report on `function` and return its `Result`.

        Raises:
            TypeError: `function` is not a function, for instance its result.
            ValueError: no exercise has its name.
        """
        if not callable(function):
            raise TypeError(
                "check takes the function itself, without parentheses or arguments: "
                f"check({next(iter(self.exercises))}); got {with_article(type(function).__name__)}"
            )
        name = getattr(function, "__name__", type(function).__name__)
        if name not in self.exercises:
            known = ", ".join(self.exercises)
            raise ValueError(f"check knows {known}; got a function named {name}")
        result = _examine(self.exercises[name], function)
        print("\n".join(_wrapped(line) for line in result.report.splitlines()))
        return result


# ---------------------------------------------------------------------- examining an answer


def _examine(exercise: Exercise, answer: Callable[..., Any]) -> Result:
    name, cases = exercise.name, exercise.cases
    outcomes: list[Outcome] = []
    for case in cases:
        outcomes.append(run(exercise, answer, case, seconds=exercise.seconds))
        if isinstance(outcomes[-1].error, StillRunning):  # once is enough to wait for
            break
    failed: dict[int, _Finding] = {}
    for i, outcome in enumerate(outcomes):
        finding = _finding(exercise, answer, cases[i], outcome)
        if finding:
            failed[i] = finding
    if not failed:
        passed = "its case passes" if len(cases) == 1 else f"all {len(cases)} cases pass"
        return Result(True, f"✓ {name}: {passed}.")

    mistake = _diagnose(exercise, outcomes, failed)
    # Without a diagnosis the learner has to look alone, at the smallest case that shows it.
    shown = next(iter(failed)) if mistake else min(failed, key=lambda i: cases[i].size)
    finding = failed[shown]
    lines = [f"✗ {name}, case {shown + 1} of {len(cases)}: {cases[shown].label}", finding.evidence]
    if mistake:
        lines.append(f"That is what happens when {mistake}.")
    else:
        if not finding.speaks_for_itself:
            lines.append("No mistake that this checker knows gives these outputs.")
            lines += filter(None, [outcomes[shown].note])
        if not isinstance(outcomes[shown].error, Flaw):
            lines.append("This is the smallest input that fails:")
            shown_inputs = {**(cases[shown].init or {}), **exercise.inputs(cases[shown])}
            lines += [f"  {k} = {show(v)}" for k, v in shown_inputs.items()]
    stopped = len(outcomes) < len(cases)
    others = "No other case was tried after it." if stopped else _others(len(cases), len(failed))
    lines.append(f'Look again at the section "{exercise.section}". {others}')
    return Result(False, "\n  ".join(lines))


@dataclass(frozen=True)
class _Finding:
    """What is wrong with one outcome.

    Args:
        evidence: a sentence in the learner's terms.
        speaks_for_itself: whether it says what is wrong, so that a diagnosis can be missing.
        numbers_are_right: whether comparing numbers has nothing to say about it.
    """

    evidence: str
    speaks_for_itself: bool = True
    numbers_are_right: bool = False


def _finding(
    exercise: Exercise, answer: Callable[..., Any], case: Case, outcome: Outcome
) -> _Finding | None:
    if outcome.error is not None:
        return _Finding(explain_error(exercise, answer, case, outcome.error))
    right = known(exercise, exercise.reference, case)
    if right.error is not None:
        raise right.error
    yours = "Your function" if case.init is None else "Your module"
    if outcome.value is None and right.value is not None:
        return _Finding(f"{yours} returned None: is a `return` missing?")
    evidence = mismatch(outcome.value, right.value)
    if evidence:
        return _Finding(evidence, speaks_for_itself=False)
    evidence = difference(outcome.value, right.value, atol=exercise.atol)
    if evidence:
        inputs = exercise.inputs(case)
        sentences = (p(outcome.value, right.value, **inputs) for p in exercise.properties)
        evidence = next(filter(None, sentences), evidence)
    else:
        evidence = wrong_change(exercise, case, outcome, right, yours)
    with silent():
        again = run(exercise, answer, case, seed=1, seconds=exercise.seconds)
        if again.error or difference(again.numbers, outcome.numbers, atol=exercise.atol):
            mode = "" if case.init is None else ", although it is in eval()"
            return _Finding(
                f"{yours} gives another result when it runs again on the same input{mode}: it "
                "draws random numbers, or remembers something."
            )
        if evidence:
            return _Finding(evidence, speaks_for_itself=False)
        if outcome.changed:
            return _Finding(
                f"The result is right, but {yours[0].lower()}{yours[1:]} changed its input "
                f"`{outcome.changed}` in place: whoever uses it afterwards gets other numbers."
            )
        evidence = lost(exercise, answer, case)
    return _Finding(evidence, numbers_are_right=True) if evidence else None


# ------------------------------------------------------------------------------ known mistakes


def _diagnose(
    exercise: Exercise, outcomes: Sequence[Outcome], failed: dict[int, _Finding]
) -> str | None:
    """The first known mistake whose outcome agrees with the learner's on every case."""
    stopped = len(outcomes) < len(exercise.cases) or isinstance(outcomes[-1].error, StillRunning)
    if stopped or all(finding.numbers_are_right for finding in failed.values()):
        return None
    # Many mistakes end in a RuntimeError about shapes. Where no wrong number tells them apart,
    # the messages must.
    only_errors = all(outcomes[i].error is not None for i in failed)
    for description, wrong in exercise.mistakes.items():
        for variant in wrong if isinstance(wrong, Sequence) else [wrong]:
            if all(
                _agree(exercise, outcome, known(exercise, variant, case), messages=only_errors)
                for case, outcome in zip(exercise.cases, outcomes, strict=True)
            ):
                return description
    return None


def _agree(exercise: Exercise, one: Outcome, other: Outcome, *, messages: bool) -> bool:
    if one.error is None or other.error is None:
        same = difference(one.numbers, other.numbers, atol=exercise.atol) is None
        return one.error is other.error and same
    if isinstance(one.error, Flaw) and isinstance(other.error, Flaw):
        return one.error.kind == other.error.kind
    same = type(one.error) is type(other.error)
    return same and not (messages and str(one.error) != str(other.error))


def _wrapped(line: str) -> str:
    """A line of the report as wide as a code cell; lines of code stay whole."""
    if line.startswith("    "):
        return line
    return textwrap.fill(line, 76, subsequent_indent="  ", break_on_hyphens=False)


def _others(cases: int, failed: int) -> str:
    passed, rest = cases - failed, cases - 1
    if rest == 0:
        return "It is the only case."
    if passed == rest:
        return "The other case passes." if rest == 1 else "The other cases pass."
    if passed == 0:
        return "No other case passes yet."
    return f"{passed} of the {rest} other cases {'passes' if passed == 1 else 'pass'}."
