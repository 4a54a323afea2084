"""Evidence on what goes wrong around the numbers: exceptions, signatures, inputs that stay."""

from __future__ import annotations

import inspect
import linecache
import re
from collections.abc import Callable, Iterator
from types import CodeType
from typing import Any

from transformer_lib.checks.compare import difference
from transformer_lib.checks.deadline import StillRunning
from transformer_lib.checks.exercise import Case, Exercise, called
from transformer_lib.checks.modules import Flaw, arguments
from transformer_lib.checks.running import Outcome, contents

__all__ = ["explain_error", "mistake_in", "wrong_change"]


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
    line = _line_of(answer, error)
    text = f"{your} raised {type(error).__name__}: {_message(error)}"
    if isinstance(error, StillRunning):
        text = f"{your} was still running after {exercise.seconds:g} seconds, and was stopped"
    elif isinstance(error, SystemExit):
        text = f"{your} ends Python: it calls exit() or quit(), or raises SystemExit"
    elif outcome.returns.last and not line:
        text = (
            f"{your} returned {outcome.returns.last}, which cannot be used: that raises "
            f"{type(error).__name__}: {_message(error)}"
        )
    return f"{text}\n  in the line   {line}" if line else text


def _message(error: BaseException) -> str:
    try:
        return (str(error).strip().splitlines() or ["no message"])[0]
    except Exception:  # an exception class of the learner's own
        return "no message"


# What Python and PyTorch say, and the mistake behind it, whatever the exercise is.
_BEHIND = {
    "before Module.__init__() call": "`super().__init__()` is missing: it is the first line of "
    "`__init__`",
    "object has no attribute '_parameters'": "`super().__init__()` is missing: it is the first "
    "line of `__init__`",
    "object has no attribute '_modules'": "`super().__init__()` is missing: it is the first line "
    "of `__init__`",
    "Boolean value of Tensor with more than one value": "a whole tensor is asked whether it is "
    "true, as in `if mask:`: ask `is not None`, or take `.any()` or `.all()`",
    "'Tensor' object is not callable": "a result stands where a function is called: hand over the "
    "function itself",
    "must have the same dtype": "numbers of two types meet: one of them is made in, or cast to, a "
    "fixed type",
    "expected scalar type": "numbers of two types meet: one of them is made in, or cast to, a "
    "fixed type",
    "to have the same dtype": "numbers of two types meet: one of them is made in, or cast to, a "
    "fixed type",
    "number of subscripts in the equation": "an equation of einsum has another number of letters "
    "than its input has axes: where that number varies, `...` stands for those in front",
    "Expected target size": "`F.cross_entropy` looks for the classes on the axis 1, and here they "
    "stand on the last one: flatten (B, T, V) to (B * T, V) and the answers with them, or exchange "
    "the axes with `transpose`",
    "to match target batch_size": "there is another number of questions than of answers: each "
    "place that is asked needs one answer, and no other place",
    "Tensors must have same number of dimensions": "tensors with different numbers of axes are "
    "joined: one of them has lost an axis, which `[:, None]` or `keepdim=True` keeps, or is "
    "another thing",
    "Sizes of tensors must match except in dimension": "tensors are joined along another axis than "
    "the one in which they differ",
    "must match the size of tensor": "two tensors meet whose shapes do not fit, counted from the "
    "last axis: an axis of length 1 is missing, as `[..., None]` or `keepdim=True` makes it, or "
    "one of them has another order of axes or another length",
    "tuple indices must be integers or slices": "several results that came together are used as "
    "one tensor: take them apart first, as in `a, b = f(x)`",
    "'tuple' object has no attribute": "several results that came together are used as one tensor: "
    "take them apart first, as in `a, b = f(x)`",
    "leaf Variable that requires grad": "a parameter is changed in place",
    "maximum recursion depth": "a function calls itself without end",
}


def mistake_in(answer: Callable[..., Any], error: BaseException | None) -> str | None:
    """The mistake behind an error that means the same in every exercise."""
    if error is None or isinstance(error, Flaw):
        return None
    message = _message(error)
    line = _line_of(answer, error) or ""
    if "values to unpack (expected" in message and ("shape" in line or "size" in line):
        return (
            "the shape is unpacked into a fixed number of names, and this input has another "
            "number of axes: count axes from the end, -1 is the last"
        )
    sides = re.search(
        r"mat1 and mat2 shapes cannot be multiplied \((\d+)x(\d+) and (\d+)x(\d+)\)", message
    )
    if sides:
        why = "the first is cut or joined at the wrong place, or another matrix is meant"
        if sides[2] == sides[4]:
            why = (
                "a transpose is missing, as in `x @ weight.T`, for `nn.Linear` keeps a row for "
                "each output, or the first is cut at the wrong place"
            )
        return (
            f"in a product the first matrix has {sides[2]} columns and the second {sides[3]} rows: "
            f"{why}"
        )
    if re.match(r"(.*:\s*)?(raise|assert)\b", line):
        return "an error is raised on purpose, and the exercise asks for a result here"
    return next((mistake for said, mistake in _BEHIND.items() if said in message), None)


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
