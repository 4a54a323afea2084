"""Exercise checkers: run a learner's function or class, say what is wrong with it and why.

A chapter's checker is a list of exercises. Each exercise brings a reference, cases chosen to
separate the right answer from the wrong ones, and the mistakes people are known to make, written
as functions or classes. The learner's answer runs on every case. Where it fails, its outputs are
compared with the outputs of each known mistake: the one that agrees on *all* cases is the
diagnosis. The report shows evidence (an exception, a shape, a row sum, a wrong entry), never the
answer.
"""

from __future__ import annotations

import copy
import functools
import inspect
import textwrap
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import FrameType
from typing import Any

from torch import nn

from transformer_lib.checks.old.exercise import Case, Exercise, called
from transformer_lib.checks.old.keeping import lost
from transformer_lib.checks.old.modules import build
from transformer_lib.checks.old.report import examine
from transformer_lib.checks.old.running import silent
from transformer_lib.checks.old.summary import diagnosis, is_open
from transformer_lib.checks.old.wording import inside, kind

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
      This is the input:
        x = 3.0
      To run it again:
        f, args, kwargs = check.case(double, 2)
        f(*args, **kwargs)
      Look again at the section "Twice as much". The other case passes.
    >>> result.passed
    False
    """

    def __init__(self, *exercises: Exercise) -> None:
        self.exercises = {exercise.name: exercise for exercise in exercises}

    def __call__(self, answer: Callable[..., Any]) -> Result:
        """Print the report on `answer`, a function or a class, and return its `Result`.

        Whatever is handed over, the report says what is wrong with it: nothing is raised.
        """
        result = self._result(answer, self._exercise(answer, inspect.currentframe()))
        print("\n".join(_wrapped(line) for line in result.report.splitlines()))
        return result

    def _result(self, answer: Any, exercise: Exercise | str) -> Result:
        if isinstance(exercise, str):
            return Result(False, f"✗ {exercise}")
        result = Result(*examine(exercise, answer))
        remarked = "\n" in result.report
        note = self.remark(exercise, answer) if result and not remarked else None
        return Result(result.passed, f"{result.report}\n  {note}") if note else result

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
        5.3 leaks: open
        5.6 causal: not passed. That is what happens when the mask is square: it has
          as many columns as rows, whatever s is.
        0 of 2 passed
        """
        lines, passed = [], 0
        for number, name in exercises.items():
            if name not in self.exercises:
                known = ", ".join(self.exercises)
                raise ValueError(f"exercises must name some of {known}; got {name!r}")
            answer, said = answers.get(name), "open"
            if not is_open(answer):
                right = callable(answer) and not isinstance(answer, nn.Module)
                exercise = self.exercises[name] if right else self._exercise(answer, None)
                result = self._result(answer, exercise)
                passed += result.passed
                said = "passed" if result else f"not passed. {diagnosis(result.report)}"
            lines.append(_wrapped(f"{number} {name}: {said}"))
        return "\n".join([*lines, f"{passed} of {len(exercises)} passed"])

    def remark(self, exercise: Exercise, answer: Any) -> str | None:
        """What a right answer is told besides that it is right."""
        for what in exercise.advises:
            for case in exercise.cases:
                with silent():
                    evidence = lost(exercise, answer, case, [what])
                if evidence:
                    return f"Right. One more thing, not asked for: {inside(evidence)}"
        return None

    def case(
        self, answer: Callable[..., Any], number: int
    ) -> tuple[Callable[..., Any], tuple, dict]:
        """What a report's case calls, and with what: `f, args, kwargs`, to look at it yourself.

        `f` is `answer`, or where that is a class, a module with the weights of the check.

        Raises:
            ValueError: no exercise has the name of `answer`, or it has no case of this number.
        """
        exercise = self._exercise(answer, inspect.currentframe())
        if isinstance(exercise, str):
            raise ValueError(exercise)
        if not 1 <= number <= len(exercise.cases):
            raise ValueError(f"number must be 1 to {len(exercise.cases)}; got {number}")
        case = exercise.cases[number - 1]
        args, kwargs = copy.deepcopy((case.args, case.kwargs))
        f = answer if case.init is None else build(exercise.reference, answer, case).module
        return f if exercise.use is called else functools.partial(exercise.use, f), args, kwargs

    def _exercise(self, answer: Any, frame: FrameType | None) -> Exercise | str:
        """The exercise of `answer`, by its own name or by that of a variable that holds it."""
        names = ", ".join(self.exercises)
        first = next(iter(self.exercises))
        if not callable(answer):
            return (
                f"check was given {kind(answer)}, and not a function.\n  Hand over the function "
                f"itself, without parentheses or arguments: check({first})."
            )
        name = getattr(answer, "__name__", None)
        name = name if isinstance(name, str) else None
        caller = frame.f_back if frame else None
        if name not in self.exercises and caller is not None:
            known = {**caller.f_globals, **caller.f_locals}
            name = next((n for n in self.exercises if known.get(n) is answer), name)
        if isinstance(answer, nn.Module):
            name = type(answer).__name__
            if name in self.exercises:
                return (
                    f"check was given a module that is built already.\n  Hand over the class "
                    f"itself, without parentheses or arguments: check({name})."
                )
        if name in self.exercises:
            return self.exercises[name]
        what = kind(answer) if name is None else f"`{name}`"
        what = "a lambda without a name" if name == "<lambda>" else what
        return (
            f"check knows no exercise for {what}.\n  This chapter's exercises are {names}. Give "
            f"your answer the name of its exercise: def {first}(…), or {first} = …."
        )


def _wrapped(line: str) -> str:
    """A line of the report as wide as a code cell; lines of code stay whole."""
    if line.startswith("    "):
        return line
    return textwrap.fill(line, 76, subsequent_indent="  ", break_on_hyphens=False)
