"""What is said of an exception: where it came up, on which tensors, and what it means."""

import inspect
import linecache
import math
import re
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from torch import Tensor

from transformer_lib.checks.compare import Difference
from transformer_lib.checks.deadline import StillRunning
from transformer_lib.checks.exercise import Flaw
from transformer_lib.checks.show import dtype_name, shape

__all__ = ["GUESS", "explained"]

# What most often makes a product impossible, for answers whose mistake isn't known.
GUESS = "There is one transpose too many or too few, or a shape is wrong earlier."

# These say what is wrong: an example, a diagnosis or a section would only distract.
_PLAIN = (NameError, ImportError, SyntaxError, RecursionError, NotImplementedError, MemoryError)

_NO_SUPER = "`super().__init__()` is missing: it is the first line of `__init__`."
_TUPLE = "A tuple of results is used as one tensor: unpack it first."
_TWO_DTYPES = "Two dtypes meet: one tensor is made in, or cast to, a fixed dtype."
_NO_MASK = "A mask must be bool: it holds True and False, no numbers."
# What Python and PyTorch say, and what it means, whatever the exercise is.
_MEANINGS = {
    "before Module.__init__() call": _NO_SUPER,
    "object has no attribute '_": _NO_SUPER,
    "Boolean value of Tensor with more than one value": "`if`, `and`, `or` and `not` need one "
    "truth value, and this tensor holds several: use `is not None`, `.any()` or `.all()`.",
    "have the same dtype": _TWO_DTYPES,
    "expected scalar type": _TWO_DTYPES,
    "only supports boolean masks": _NO_MASK,
    "integer and Boolean-type tensors": _NO_MASK,
    "number of subscripts in the equation": "The einsum equation doesn't have as many letters as "
    "the tensor has axes; `...` stands for any number of them.",
    "Expected target size": "`F.cross_entropy` expects the classes on axis 1; here they are on the "
    "last.",
    "Sizes of tensors must match except in dimension": "The tensors are joined along the wrong "
    "axis, or their shapes differ in more than one.",
    "must match the size of tensor": "These shapes don't broadcast: counted from the last axis, "
    "two lengths must be equal or one of them 1.",
    "torch.return_types.max": "With a dim, `max` returns values and indices: take `.values`, "
    "or use `amax`.",
    "tuple indices must be integers": _TUPLE,
    "'tuple' object has no attribute": _TUPLE,
    "NoneType": "None is used as a value: an argument may be None, or a function of yours returns "
    "nothing.",
    "Can't call numpy() on Tensor that requires grad": "NumPy has no gradients: the gradient "
    "would be lost here. Stay with tensors.",
    "view size is not compatible": "`view` doesn't work after a transpose; `reshape` does.",
    "Dimension out of range": "The tensor doesn't have that axis; axes count from 0, or from the "
    "end with -1.",
    "elements cannot be converted to": "`.item()`, `int()` and `float()` need a tensor with one "
    "number.",
    "only one element tensors": "Python's `math`, `int()` and `float()` take one number, not a "
    "tensor of several.",
    "is out of bounds for": "That entry doesn't exist: the axis is shorter, or another is meant.",
    "index out of range in self": "An embedding is asked for an id that it doesn't have.",
}


def explained(
    name: str, answer: Callable[..., Any], error: BaseException, seconds: float
) -> tuple[Difference, list[str]]:
    """The evidence, and lines on where it happened and what it means."""
    if isinstance(error, Flaw):
        return Difference(str(error), alone=True), []
    line, tensors = _where(answer, error)
    line_shown = line if len(line) <= 59 else f"{line[:57]} …"  # as much as a cell has room for
    at = [f"    in the line  {line_shown}"] if line else []
    if isinstance(error, StillRunning):
        said = f"It was still running after {seconds:g} seconds, and was stopped."
        return Difference(said, alone=True), at
    if isinstance(error, SystemExit | KeyboardInterrupt | GeneratorExit):
        said = "It calls `exit()`, which would end Python."
        if not isinstance(error, SystemExit):
            said = f"It raises {type(error).__name__}."
        return Difference(said, alone=True), at
    said = _message(error)
    alone = isinstance(error, _PLAIN) or (
        isinstance(error, AttributeError) and said.startswith("module ")
    )
    raised = Difference(f"It raises {type(error).__name__}: {said}", alone)
    if tensors and not alone:
        clash = "dtype" in said or "scalar type" in said
        what = "dtype" if clash else "shape"
        each = (
            f"`{known_as}` has {what} {dtype_name(t) if clash else shape(t)}"
            for known_as, t in tensors.items()
        )
        at.append(f"    where {', '.join(each)}")
    meaning = None if alone else _meaning(said, line, tensors)
    guess = [GUESS] if meaning and meaning.startswith("In this product") else []
    return raised, [*at, *([meaning] if meaning else []), *guess]


def _message(error: BaseException) -> str:
    try:
        return (str(error).strip().splitlines() or ["no message"])[0]
    except Exception:  # an exception class of the learner's own
        return "no message"


def _meaning(said: str, line: str, tensors: dict[str, Tensor]) -> str | None:
    for name, tensor in tensors.items():
        if tensor.dim() > 2 and re.search(rf"(?<![\w.]){re.escape(name)}\.(T\b|t\(\))", line):
            axes = tensor.dim()
            return f"`.T` reverses all axes, and `{name}` has {axes}: `.mT` swaps the last two."
    sides = re.search(r"shapes cannot be multiplied \(\d+x(\d+) and (\d+)x\d+\)", said)
    if sides:
        rows = "1 row" if sides[2] == "1" else f"{sides[2]} rows"
        columns = "1 column" if sides[1] == "1" else f"{sides[1]} columns"
        return (
            f"In this product the first matrix has {columns}, the second {rows}; these must be "
            "equal."
        )
    room = re.search(r"shape '\[([-\d, ]*)\]' is invalid for input of size (\d+)", said)
    if room:
        sizes = [int(size) for size in room[1].split(",") if size.strip()]
        needs = math.prod(size for size in sizes if size != -1)
        many = f"a multiple of {needs:,}" if -1 in sizes else f"{needs:,}"
        return f"That shape holds {many} numbers, and the tensor has {int(room[2]):,}."
    if "values to unpack (expected" in said and ("shape" in line or "size" in line):
        return "The shape is unpacked into a fixed number of names, and this input has other axes."
    return next((meaning for known, meaning in _MEANINGS.items() if known in said), None)


# ------------------------------------------------------------------------- the learner's own code


def _where(answer: Any, error: BaseException) -> tuple[str, dict[str, Tensor]]:
    """The last line of the learner's that ran, and the tensors that it names."""
    own, last, trace = _globals(answer), None, error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_globals is own:
            last = trace
        trace = trace.tb_next
    if last is None:
        return "", {}
    line = linecache.getline(last.tb_frame.f_code.co_filename, last.tb_lineno).strip()
    names = dict.fromkeys(re.findall(r"(?<![\w.])(?:self\.)?[A-Za-z_]\w*", line))
    found = {name: _held(name, last.tb_frame.f_locals) for name in [*names][:4]}
    return line, {name: value for name, value in found.items() if isinstance(value, Tensor)}


def _held(name: str, held: dict[str, Any]) -> Any:
    """What a name stands for. Nothing of the learner's runs for that, properties included."""
    if not name.startswith("self."):
        return held.get(name)
    attributes = getattr(held.get("self"), "__dict__", {})
    return attributes.get(name[5:], attributes.get("_parameters", {}).get(name[5:]))


def _globals(answer: Any) -> Any:
    """Of the module in which a function, or a method of a class, is defined."""
    for function in vars(answer).values() if isinstance(answer, type) else [answer]:
        with suppress(Exception):  # not a function
            return inspect.unwrap(function).__globals__  # without `torch.no_grad()`
    return None
