"""Evidence on what goes wrong around the numbers: exceptions, signatures, inputs that stay."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from transformer_lib.checks.deadline import StillRunning
from transformer_lib.checks.old.behind import is_clash, message
from transformer_lib.checks.old.compare import difference
from transformer_lib.checks.old.exercise import Case, Exercise, called
from transformer_lib.checks.old.modules import Flaw, arguments
from transformer_lib.checks.old.places import places
from transformer_lib.checks.old.running import Outcome, contents

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
    exercise: Exercise, answer: Callable[..., Any], case: Case, outcome: Outcome
) -> str:
    error = outcome.error
    assert error is not None
    if isinstance(error, Flaw):
        return str(error)
    misfit = _misfit(exercise, answer, case)
    if misfit:
        return misfit
    your = "Your function" if case.init is None else "Your class"
    found = places(answer, error)
    text = f"{your} raised {type(error).__name__}: {message(error)}"
    if isinstance(error, StillRunning):
        text = f"{your} was still running after {exercise.seconds:g} seconds, and was stopped"
    elif isinstance(error, SystemExit):
        text = f"{your} ends Python: it calls exit() or quit(), or raises SystemExit"
    elif outcome.returns.last and not found:
        text = (
            f"{your} returned {outcome.returns.last}, which cannot be used: that raises "
            f"{type(error).__name__}: {message(error)}"
        )
    lines = [
        f"  {word}   {p.line}" for word, p in zip(("in the line", "and there"), found, strict=False)
    ]
    if found and found[-1].met and not isinstance(error, StillRunning):
        lines.append(f"  where {found[-1].shapes(types=is_clash(error))}")
    return "\n".join([text, *lines])


def _misfit(exercise: Exercise, answer: Any, case: Case) -> str | None:
    """The evidence where the learner's definition does not take the arguments it is given."""
    calls = []
    if case.init is not None:
        args, kwargs = arguments(answer, exercise.reference, case.init)
        names = [*case.init][: len(args)]
        calls.append((exercise.name, answer, args, kwargs, names))
    if exercise.use is called:
        function, name = answer, exercise.name
        if case.init is not None:
            function, name = getattr(answer, "forward", None), "forward"
        names = [*exercise.inputs(case)][: len(case.args)]
        calls.append((name, function, case.args, case.kwargs, names))
    for name, function, args, kwargs, names in calls:
        try:
            signature = inspect.signature(function)
        except Exception:  # built in, or nothing to call
            continue
        if name == "forward":  # without self, which PyTorch fills in
            signature = signature.replace(parameters=[*signature.parameters.values()][1:])
        try:
            signature.bind(*args, **kwargs)
        except TypeError:
            call = ", ".join([*names, *(f"{keyword}=…" for keyword in kwargs)])
            return f"The exercise calls {name}({call}); yours is defined as {name}{signature}."
    return None
