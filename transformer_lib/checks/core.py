"""The checkers of the book's exercises: a chapter's `check`."""

import copy
import functools
import inspect
import re
from collections.abc import Callable, Mapping
from types import FrameType
from typing import Any

from torch import nn

from transformer_lib.checks.exercise import Exercise, called
from transformer_lib.checks.modules import build
from transformer_lib.checks.report import Result, examine, is_empty, wrapped
from transformer_lib.checks.run import cases_of
from transformer_lib.checks.session import session
from transformer_lib.checks.show import kind

__all__ = ["Checker"]


class Checker:
    """Callable that checks a function or a class against the exercise of the same name.

    >>> from transformer_lib.checks import Case, Exercise
    >>> def double(x):
    ...     return x * x
    >>> check = Checker(
    ...     Exercise(
    ...         name="double",
    ...         reference=lambda x: 2 * x,
    ...         cases=lambda: [Case((0,), "twice 0 is 0"), Case((3,), "3 is added to itself")],
    ...         section="Twice as much",
    ...         mistakes={"the number is squared": lambda x: x**2},
    ...     )
    ... )
    >>> result = check(double)
    ✗ double: 1 of 2 cases passes. The result is 9; expected 6.
        double(3)
    That is what happens when the number is squared.
    See the section "Twice as much".
    >>> result.passed
    False
    """

    def __init__(self, *exercises: Exercise) -> None:
        self.exercises = {exercise.name: exercise for exercise in exercises}

    def __call__(self, answer: Callable[..., Any]) -> Result:
        """Print the report on `answer`, a function or a class, and return its `Result`.

        Whatever is handed over, the report says what is wrong with it: nothing is raised.
        """
        found = self._exercise(answer, inspect.currentframe())
        result = _result(found, answer)
        print(result.report)
        return result

    def summary(self, exercises: Mapping[str, str], answers: Mapping[str, Any]) -> str:
        """Text to hand in: for each exercise whether its answer passes, and if not, why.

        Where a function holds nothing but `...` and a docstring, or there is none, it is open.

        Args:
            exercises: number -> name of the exercise, as the report is to list them.
            answers: where the answers are found by these names, in a notebook `globals()`.

        Raises:
            ValueError: `exercises` names one that this checker does not know.

        >>> import torch
        >>> from transformer_lib.checks.chapter05 import check
        >>> def causal(t, s):
        ...     return torch.ones(t, t, dtype=torch.bool).tril()
        >>> print(check.summary({"5.3": "leaks", "5.6": "causal"}, {"causal": causal}))
        5.3 leaks: open, nothing here is called leaks
        5.6 causal: not passed, 2 of 4 cases pass. That is what happens when the
          mask is square: it has as many columns as rows, whatever s is.
        0 of 2 passed; 0.5 of 2 points for the cases that pass
        """
        lines, passed, points = [], 0, 0.0
        for number, name in exercises.items():
            if name not in self.exercises:
                known = ", ".join(self.exercises)
                raise ValueError(f"exercises must name some of {known}; got {name!r}")
            said = "open" if name in answers else f"open, nothing here is called {name}"
            answer = answers.get(name)
            if not is_empty(answer):
                found = self._exercise(answer, None)
                if callable(answer) and not isinstance(answer, nn.Module):
                    found = self.exercises[name]  # whatever its own name is
                result = _result(found, answer)
                passed += result.passed
                points += result.share
                count = f", {result.count}" if result.count else ""
                said = "passed" if result else f"not passed{count}. {_of_them(result.reason)}"
            lines.append(wrapped(f"{number} {name}: {said}"))
        of = f"of {len(exercises)}"
        last = f"{passed} {of} passed; {points:.3g} {of} points for the cases that pass"
        return "\n".join([*lines, last])

    def case(
        self, answer: Callable[..., Any], number: int
    ) -> tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]:
        """What a report's case calls, and with what: `f, args, kwargs`, to look at it yourself.

        `f` is `answer`, or where that is a class, a module with the weights of the check.

        Raises:
            ValueError: no exercise has the name of `answer`, or it has no case of this number.
        """
        exercise = self._exercise(answer, inspect.currentframe())
        if isinstance(exercise, str):
            raise ValueError(exercise)
        cases = cases_of(exercise)
        if not 1 <= number <= len(cases):
            raise ValueError(f"number must be 1 to {len(cases)}; got {number}")
        case = cases[number - 1]
        args, kwargs = copy.deepcopy((case.args, dict(case.kwargs)))
        f = answer
        if case.init is not None:
            with session(0):
                f = build(exercise.reference, answer, case).module
        return f if exercise.use is called else functools.partial(exercise.use, f), args, kwargs

    def _exercise(self, answer: Any, frame: FrameType | None) -> Exercise | str:
        """The exercise of `answer`, by its own name or by that of a variable that holds it."""
        first = next(iter(self.exercises))
        given = f"`check` was given {kind(answer)}, not a function: hand over the name alone, "
        if not callable(answer):
            return f"{given}as in check({first})."
        name = getattr(answer, "__name__", None)
        name = name if isinstance(name, str) else None
        caller = frame.f_back if frame else None
        if name not in self.exercises and caller is not None:
            known = {**caller.f_globals, **caller.f_locals}
            name = next((n for n in self.exercises if known.get(n) is answer), name)
        if isinstance(answer, nn.Module):
            name = type(answer).__name__
            if name in self.exercises:
                return f"`check` was given a module, not its class: write check({name})."
        if name in self.exercises:
            return self.exercises[name]
        what = kind(answer) if name is None else f"`{name}`"
        what = "a lambda without a name" if name == "<lambda>" else what
        return (
            f"`check` knows no exercise for {what}. This chapter's exercises are "
            f"{', '.join(self.exercises)}. Give your answer the name of its exercise: {first} = …."
        )


def _result(found: Exercise | str, answer: Any) -> Result:
    if isinstance(found, str):
        return Result(False, wrapped(found), reason=found)
    return examine(found, answer)


def _of_them(reason: str) -> str:
    """A sentence to a learner as it is said to a teacher."""
    return re.sub(r"\b([Yy])our\b", lambda said: "The" if said[1] == "Y" else "the", reason)
