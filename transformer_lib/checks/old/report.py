"""What is said of an answer: the case that shows it, the evidence, the mistake, the input."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from transformer_lib.checks.deadline import StillRunning
from transformer_lib.checks.old.behind import is_clash, mistake_in
from transformer_lib.checks.old.compare import difference, mismatch
from transformer_lib.checks.old.diagnose import diagnose
from transformer_lib.checks.old.exercise import Case, Exercise
from transformer_lib.checks.old.explain import explain_error, wrong_change
from transformer_lib.checks.old.keeping import lost
from transformer_lib.checks.old.modules import Flaw
from transformer_lib.checks.old.reach import reach
from transformer_lib.checks.old.running import Outcome, known, run, silent
from transformer_lib.checks.old.traces import trace
from transformer_lib.checks.old.wording import inside, kind, show

__all__ = ["examine"]


def examine(exercise: Exercise, answer: Callable[..., Any]) -> tuple[bool, str]:
    """Whether the answer is right, and the report on it."""
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
        return (True, f"✓ {name}: {passed}.")
    beside = [i for i in failed if _is_beside_the_point(exercise, cases[i], outcomes[i])]
    if len(beside) == len(failed) < len(cases):
        first = failed[beside[0]]
        return (
            True,
            f"✓ {name}: {len(cases) - len(failed)} of {len(cases)} cases pass.\n  Right. One more "
            f"thing, not asked for: with numbers in float64 {inside(first.evidence)}",
        )

    numbers = any(not finding.numbers_are_right for finding in failed.values())
    found = diagnose(exercise, outcomes, [*failed]) if numbers else None

    def pressing(i: int) -> tuple[bool, bool, int]:
        """An endless loop first, then wrong numbers, then what else is wrong.

        Without a diagnosis the learner has to look alone, at the smallest case that shows it.
        """
        endless = isinstance(outcomes[i].error, StillRunning)
        return not endless, failed[i].numbers_are_right, i if found else cases[i].size

    shown = min(found.cases if found else failed, key=pressing)
    finding, outcome = failed[shown], outcomes[shown]
    mistake = found.mistake if found else mistake_in(answer, outcome.error)
    lines = [f"✗ {name}, case {shown + 1} of {len(cases)}: {cases[shown].label}", finding.evidence]
    section = f'the section "{exercise.section}"'
    if mistake:
        mistake, section = _with_section(mistake, section)
        explained = len(found.cases if found else failed)
        partly = explained < len(failed)
        that = f"In {explained} of the {len(failed)} cases that fail, that" if partly else "That"
        lines.append(f"{that} is what happens when {mistake}.")
        if partly:
            lines.append("In the others something else goes wrong.")
    elif not finding.speaks_for_itself:
        with silent():
            seen = _trace(exercise, outcomes, failed) or reach(
                exercise, answer, cases[shown], outcome.value
            )
        lines.append(
            "No mistake that this checker knows gives these outputs"
            + (f", but this shows in them: {seen}." if seen else ".")
        )
        lines += filter(None, [outcome.note])
    if not isinstance(outcome.error, Flaw):
        lines.append("This is the input:" if mistake else "This is the smallest input that fails:")
        lines += [f"  {k} = {show(v)}" for k, v in _inputs(exercise, cases[shown], outcome).items()]
        lines.append("To run it again:")
        lines.append(f"  f, args, kwargs = check.case({name}, {shown + 1})")
        lines.append("  f(*args, **kwargs)")
    stopped = len(outcomes) < len(cases)
    others = "No other case was tried after it." if stopped else _others(len(cases), len(failed))
    lines.append(f"Look again at {section}. {others}")
    return (False, "\n  ".join(lines))


_SEE = re.compile(r' \(see ([^"()]*"[^"]*")\)')


def _with_section(mistake: str, section: str) -> tuple[str, str]:
    """The mistake, and the one section to read again: its own, where it names one."""
    own = _SEE.search(mistake)
    return (_SEE.sub("", mistake), own[1]) if own else (mistake, section)


def _inputs(exercise: Exercise, case: Case, outcome: Outcome) -> dict[str, Any]:
    """What the report shows of a case; of a module's weights, what has room in a line each."""
    weights = outcome.weights
    if len(weights) > 4 or any(w.numel() > 16 for w in weights.values()):
        weights = {}
    return {**(case.init or {}), **weights, **exercise.inputs(case)}


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
    right = known(exercise, exercise.reference, case)
    if right.error is not None:
        raise right.error
    yours = "Your function" if case.init is None else "Your module"
    none = outcome.error is None and outcome.value is None and right.value is not None
    if none or (outcome.returns.none and not right.returns.none):
        return _Finding(f"{yours} returned None: is a `return` missing?")
    if outcome.error is not None:
        return _Finding(explain_error(exercise, answer, case, outcome))
    changed = f" It also changed its input `{outcome.changed}` in place." if outcome.changed else ""
    evidence = mismatch(outcome.value, right.value)
    if evidence:
        alone = _right_item(exercise, outcome.value, right.value)
        return _Finding((alone or evidence) + changed, speaks_for_itself=alone is not None)
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
            return _Finding(evidence + changed, speaks_for_itself=False)
        if outcome.changed:
            return _Finding(
                f"The result is right, but {inside(yours)} changed its input "
                f"`{outcome.changed}` in place: whoever uses it afterwards gets other numbers."
            )
        evidence = lost(exercise, answer, case, exercise.keeps)
    return _Finding(evidence, numbers_are_right=True) if evidence else None


def _is_beside_the_point(exercise: Exercise, case: Case, outcome: Outcome) -> bool:
    """Whether a tensor of a fixed type meets float64, and the exercise says nothing of types."""
    inputs = exercise.inputs(case).values()
    wide = any(isinstance(value, Tensor) and value.dtype is torch.float64 for value in inputs)
    return (
        wide
        and "dtype" not in exercise.keeps
        and outcome.error is not None
        and is_clash(outcome.error)
    )


def _right_item(exercise: Exercise, value: Any, right: Any) -> str | None:
    """The evidence where the right result is there, and others beside it."""
    if isinstance(value, list | tuple) and isinstance(right, Tensor):
        for i, item in enumerate(value):
            if isinstance(item, Tensor) and not difference(item, right, atol=exercise.atol):
                return f"Your result is {kind(value)}. Its item {i} is right: return that alone."
    return None


def _trace(
    exercise: Exercise, outcomes: Sequence[Outcome], failed: dict[int, _Finding]
) -> str | None:
    cases = [exercise.cases[i] for i in failed]
    right = [known(exercise, exercise.reference, case).value for case in cases]
    return trace(
        [
            (outcomes[i].value, value, exercise.inputs(case))
            for i, value, case in zip(failed, right, cases, strict=True)
        ]
    )


def _others(cases: int, failed: int) -> str:
    passed, rest = cases - failed, cases - 1
    if rest == 0:
        return "It is the only case."
    if passed == rest:
        return "The other case passes." if rest == 1 else "The other cases pass."
    if passed == 0:
        return "No other case passes yet."
    return f"{passed} of the {rest} other cases {'passes' if passed == 1 else 'pass'}."
