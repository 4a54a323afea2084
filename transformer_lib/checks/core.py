"""Exercise checkers: run a learner's function, say what is wrong with it and why.

A chapter's checker is a list of exercises. Each exercise brings a reference, cases chosen to
separate the right answer from the wrong ones, and the mistakes people are known to make, written
as functions. The learner's function runs on every case. Where it fails, its outputs are compared
with the outputs of each known mistake: the one that agrees on *all* cases is the diagnosis. The
report shows evidence (an exception, a shape, a row sum, a wrong entry), never the answer.
"""

from __future__ import annotations

import copy
import inspect
import linecache
import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from transformer_lib.checks.compare import difference, mismatch, show, with_article

__all__ = ["Case", "Checker", "Exercise", "Result"]


class Case:
    """One call of the learner's function: a label for the report, then the arguments.

    Pass by keyword only what the exercise names as a keyword: a learner may call the other
    parameters what they like.

    >>> Case("a sharp softmax", [1.0, 2.0], temperature=0.1).kwargs
    {'temperature': 0.1}
    """

    def __init__(self, label: str, /, *args: Any, **kwargs: Any) -> None:
        self.label, self.args, self.kwargs = label, args, kwargs

    @property
    def size(self) -> int:
        """How many numbers go in; the report shows the smallest failing input."""
        values = (*self.args, *self.kwargs.values())
        return sum(v.numel() if isinstance(v, Tensor) else 1 for v in values)


@dataclass(frozen=True, kw_only=True)
class Exercise:
    """What a *build* exercise asks for, and how its answers go wrong.

    Args:
        name: name of the function the learner writes; `check` finds the exercise by it.
        reference: a right answer, called with each case's arguments. Its parameter names are
            used in the report.
        cases: from the smallest to the most demanding.
        mistakes: description -> wrong function, or several that show the same mistake. The
            description completes the sentence "That is what happens when …".
        section: title of the section to read again.
        properties: functions `(result, expected, /, **inputs) -> str | None` that give evidence
            better than "entry [0, 1] is wrong": a sentence on the property that fails, or None.
    """

    name: str
    reference: Callable[..., Any]
    cases: Sequence[Case]
    mistakes: Mapping[str, Callable[..., Any] | Sequence[Callable[..., Any]]]
    section: str
    properties: Sequence[Callable[..., str | None]] = ()

    def inputs(self, case: Case) -> dict[str, Any]:
        """The case's arguments under the names that the exercise gives them."""
        bound = inspect.signature(self.reference).bind(*case.args, **case.kwargs)
        return dict(bound.arguments)


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


# ---------------------------------------------------------------- running the learner's function


@dataclass(frozen=True)
class _Outcome:
    value: Any = None
    error: Exception | None = None
    changed: str | None = None  # the argument that was altered in place


def _run(exercise: Exercise, function: Callable[..., Any], case: Case) -> _Outcome:
    args, kwargs = copy.deepcopy((case.args, case.kwargs))
    try:
        value = function(*args, **kwargs)
    except Exception as error:  # whatever a learner's code can raise belongs in the report
        return _Outcome(error=error)
    after = (*args, *kwargs.values())
    for (name, before), now in zip(exercise.inputs(case).items(), after, strict=True):
        if difference(now, before):
            return _Outcome(value, changed=name)
    return _Outcome(value)


def _examine(exercise: Exercise, function: Callable[..., Any]) -> Result:
    name, cases = exercise.name, exercise.cases
    outcomes = [_run(exercise, function, case) for case in cases]
    findings = [
        _finding(exercise, function, case, outcome)
        for case, outcome in zip(cases, outcomes, strict=True)
    ]
    failed = {i: finding for i, finding in enumerate(findings) if finding}
    if not failed:
        passed = "its case passes" if len(cases) == 1 else f"all {len(cases)} cases pass"
        return Result(True, f"✓ {name}: {passed}.")

    mistake = _diagnose(exercise, outcomes, list(failed))
    # Without a diagnosis the learner has to look alone, at the smallest case that shows it.
    shown = next(iter(failed)) if mistake else min(failed, key=lambda i: cases[i].size)
    evidence, speaks_for_itself = failed[shown]
    lines = [f"✗ {name}, case {shown + 1} of {len(cases)}: {cases[shown].label}", evidence]
    if mistake:
        lines.append(f"That is what happens when {mistake}.")
    else:
        if not speaks_for_itself:
            lines.append("No mistake that this checker knows gives these outputs.")
        lines.append("This is the smallest input that fails:")
        lines += [f"  {k} = {show(v)}" for k, v in exercise.inputs(cases[shown]).items()]
    others = _others(len(cases), len(failed))
    lines.append(f'Look again at the section "{exercise.section}". {others}')
    return Result(False, "\n  ".join(lines))


def _finding(
    exercise: Exercise, function: Callable[..., Any], case: Case, outcome: _Outcome
) -> tuple[str, bool] | None:
    """What is wrong with one outcome, and whether that needs no further diagnosis."""
    if outcome.error is not None:
        return _explain_error(exercise, function, case, outcome.error), True
    expected = exercise.reference(*copy.deepcopy(case.args), **copy.deepcopy(case.kwargs))
    if outcome.value is None and expected is not None:
        return "Your function returned None: is a `return` missing?", True
    evidence = mismatch(outcome.value, expected)
    if evidence:
        return evidence, False
    evidence = difference(outcome.value, expected)
    if evidence:
        inputs = exercise.inputs(case)
        sentences = (p(outcome.value, expected, **inputs) for p in exercise.properties)
        return next(filter(None, sentences), evidence), False
    if outcome.changed:
        return (
            f"The result is right, but your function changed its input `{outcome.changed}` in "
            "place: whoever uses it afterwards gets other numbers.",
            True,
        )
    return None


def _explain_error(
    exercise: Exercise, function: Callable[..., Any], case: Case, error: Exception
) -> str:
    names = [*exercise.inputs(case)][: len(case.args)]
    call = ", ".join([*names, *(f"{name}=…" for name in case.kwargs)])
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        signature = None
    if signature is not None:
        try:
            signature.bind(*case.args, **case.kwargs)
        except TypeError:
            return (
                f"The exercise calls {exercise.name}({call}); "
                f"yours is defined as {exercise.name}{signature}."
            )
    message = (str(error).strip().splitlines() or ["no message"])[0]
    text = f"Your function raised {type(error).__name__}: {message}"
    line = _line_of(function, error)
    return f"{text}\n  in the line   {line}" if line else text


def _line_of(function: Callable[..., Any], error: Exception) -> str | None:
    """The learner's own line in which `error` came up."""
    code, line, trace = getattr(function, "__code__", None), None, error.__traceback__
    while code is not None and trace is not None:
        if trace.tb_frame.f_code is code:
            line = linecache.getline(code.co_filename, trace.tb_lineno).strip() or None
        trace = trace.tb_next
    return line


# ------------------------------------------------------------------------------ known mistakes


def _diagnose(
    exercise: Exercise, outcomes: Sequence[_Outcome], failed: Sequence[int]
) -> str | None:
    """The first known mistake whose outcome agrees with the learner's on every case."""
    # Many mistakes end in a RuntimeError about shapes. Where no wrong number tells them apart,
    # the messages must.
    only_errors = all(outcomes[i].error is not None for i in failed)
    for description, wrong in exercise.mistakes.items():
        for variant in wrong if isinstance(wrong, Sequence) else [wrong]:
            if all(
                _agree(outcome, _run(exercise, variant, case), messages=only_errors)
                for case, outcome in zip(exercise.cases, outcomes, strict=True)
            ):
                return description
    return None


def _agree(one: _Outcome, other: _Outcome, *, messages: bool) -> bool:
    if one.error is None or other.error is None:
        return one.error is other.error and difference(one.value, other.value) is None
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
