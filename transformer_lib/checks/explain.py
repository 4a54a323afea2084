"""Evidence on what goes wrong around the numbers: exceptions, signatures, inputs that stay."""

from __future__ import annotations

import inspect
import linecache
from collections.abc import Callable, Iterator
from types import CodeType
from typing import Any

from transformer_lib.checks.compare import difference
from transformer_lib.checks.deadline import StillRunning
from transformer_lib.checks.exercise import Case, Exercise, called
from transformer_lib.checks.modules import Flaw
from transformer_lib.checks.running import Outcome, contents

__all__ = ["explain_error", "wrong_change"]


def wrong_change(
    exercise: Exercise, case: Case, outcome: Outcome, right: Outcome, yours: str
) -> str | None:
    """The evidence where inputs that are there to be changed hold the wrong numbers afterwards."""
    before = exercise.inputs(case)
    for name, wanted in right.after.items():
        now = outcome.after[name]
        evidence = difference(now, wanted, f"`{name}` afterwards", atol=exercise.atol)
        if evidence:
            unmoved = difference(now, contents(before[name])) is None
            return f"{yours} leaves `{name}` as it was." if unmoved else evidence
    return None


def explain_error(
    exercise: Exercise, answer: Callable[..., Any], case: Case, error: BaseException
) -> str:
    if isinstance(error, Flaw):
        return str(error)
    misfit = _misfit(exercise, answer, case)
    if misfit:
        return misfit
    your = "Your function" if case.init is None else "Your class"
    message = (str(error).strip().splitlines() or ["no message"])[0]
    text = f"{your} raised {type(error).__name__}: {message}"
    if isinstance(error, StillRunning):
        text = f"{your} was still running after {exercise.seconds:g} seconds, and was stopped"
    line = _line_of(answer, error)
    return f"{text}\n  in the line   {line}" if line else text


def _misfit(exercise: Exercise, answer: Any, case: Case) -> str | None:
    """The evidence where the learner's definition does not take the arguments it is given."""
    calls = []
    if case.init is not None:
        calls.append((exercise.name, answer, (), case.init, []))
    if exercise.use is called:
        function, name = answer, exercise.name
        if case.init is not None:
            function, name = getattr(answer, "forward", None), "forward"
        names = [*exercise.inputs(case)][: len(case.args)]
        calls.append((name, function, case.args, case.kwargs, names))
    for name, function, args, kwargs, names in calls:
        try:
            signature = inspect.signature(function)
        except (TypeError, ValueError):
            continue
        if name == "forward":  # without self, which PyTorch fills in
            signature = signature.replace(parameters=[*signature.parameters.values()][1:])
        try:
            signature.bind(*args, **kwargs)
        except TypeError:
            call = ", ".join([*names, *(f"{keyword}=…" for keyword in kwargs)])
            return f"The exercise calls {name}({call}); yours is defined as {name}{signature}."
    return None


def _line_of(answer: Callable[..., Any], error: BaseException) -> str | None:
    """The learner's own line in which `error` came up."""
    codes, line, trace = set(_codes(answer)), None, error.__traceback__
    while trace is not None:
        code = trace.tb_frame.f_code
        if code in codes:
            line = linecache.getline(code.co_filename, trace.tb_lineno).strip() or None
        trace = trace.tb_next
    return line


def _codes(answer: Any) -> Iterator[CodeType]:
    """The learner's own code: of a function, or of the methods of a class."""
    for function in vars(answer).values() if isinstance(answer, type) else [answer]:
        code = getattr(function, "__code__", None)
        if code is not None:
            yield code
