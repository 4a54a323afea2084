"""What is said of an exception: where it came up, on which tensors, and what it means."""

from __future__ import annotations

import inspect
import linecache
import math
import re
import tokenize
from collections.abc import Callable, Iterator
from types import CodeType, TracebackType
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

_TWO_DTYPES = "Two dtypes meet: one tensor is made in, or cast to, a fixed dtype."
_NO_MASK = "A mask must be bool: it holds True and False, no numbers."
# What Python and PyTorch say, and what it means, whatever the exercise is.
_MEANINGS = {
    "before Module.__init__() call": "`super().__init__()` is missing: it is the first line of "
    "`__init__`.",
    "object has no attribute '_": "`super().__init__()` is missing: it is the first line of "
    "`__init__`.",
    "Boolean value of Tensor with more than one value": "`if`, `and`, `or` and `not` need one "
    "truth value, and this tensor holds several: use `is not None`, `.any()` or `.all()`.",
    "to have the same dtype": _TWO_DTYPES,
    "must have the same dtype": _TWO_DTYPES,
    "expected scalar type": _TWO_DTYPES,
    "only supports boolean masks": _NO_MASK,
    "integer and Boolean-type tensors": _NO_MASK,
    "number of subscripts in the equation": "The einsum equation doesn't have as many letters as "
    "the tensor has axes; `...` stands for any number of them.",
    "Expected target size": "`F.cross_entropy` expects the classes on axis 1; here they are on the "
    "last.",
    "to match target batch_size": "There are not as many labels as predictions.",
    "Tensors must have same number of dimensions": "The tensors that are joined don't have the "
    "same number of axes.",
    "Sizes of tensors must match except in dimension": "The tensors are joined along the wrong "
    "axis, or their shapes differ in more than one.",
    "must match the size of tensor": "These shapes don't broadcast: counted from the last axis, "
    "two lengths must be equal or one of them 1.",
    "tuple indices must be integers": "A tuple of results is used as one tensor: unpack it first.",
    "'tuple' object has no attribute": "A tuple of results is used as one tensor: unpack it first.",
    "NoneType": "None is used as a value: an argument may be None, or a function of yours returns "
    "nothing.",
    "Can't call numpy() on Tensor that requires grad": "NumPy has no gradients: the gradient "
    "would be lost here. Stay with tensors.",
    "leaf Variable that requires grad": "A parameter is changed in place.",
    "expected a non-empty list of Tensors": "The list is empty: the loop that fills it doesn't "
    "run for this input.",
    "view size is not compatible": "`view` doesn't work after a transpose; `reshape` does.",
    "Dimension out of range": "The tensor doesn't have that axis; axes count from 0, or from the "
    "end with -1.",
    "cannot be converted to": "`.item()`, `int()` and `float()` need a tensor with one number.",
    "only one element tensors": "Python's `math`, `int()` and `float()` take one number, not a "
    "tensor of several.",
    "tensors used as indices must be": "An index must hold whole numbers, or True and False.",
    "does not match the shape of the indexed tensor": "The mask that selects doesn't have the "
    "shape of the tensor's first axes.",
    "Index tensor must have the same number of dimensions": "The index of `gather` or `scatter` "
    "needs as many axes as the tensor.",
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
    at = [f"    in the line  {_short(line)}"] if line else []
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
    codes, own = set(_codes(answer)), _globals(answer)
    last: TracebackType | None = None
    trace = error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code in codes or trace.tb_frame.f_globals is own:
            last = trace
        trace = trace.tb_next
    if last is None:
        return "", {}
    line = linecache.getline(last.tb_frame.f_code.co_filename, last.tb_lineno).strip()
    line = _without_comment(line)
    names = dict.fromkeys(re.findall(r"(?<![\w.])(?:self\.)?[A-Za-z_]\w*", line))
    found = {name: _held(name, last.tb_frame.f_locals) for name in names}
    return line, {n: t for n, t in [*found.items()][:4] if isinstance(t, Tensor)}


def _without_comment(line: str) -> str:
    try:
        for token in tokenize.generate_tokens(iter([line]).__next__):
            if token.type == tokenize.COMMENT:
                return line[: token.start[1]].rstrip()
    except (tokenize.TokenError, SyntaxError):  # the statement goes on in the next line
        pass
    return line


def _short(line: str) -> str:
    """As much of a line as a code cell has room for."""
    return line if len(line) <= 59 else f"{line[:57]} …"


def _held(name: str, held: dict[str, Any]) -> Any:
    """What a name stands for. Nothing of the learner's runs for that, properties included."""
    if not name.startswith("self."):
        return held.get(name)
    attributes = getattr(held.get("self"), "__dict__", {})
    parameters = attributes.get("_parameters", {})
    return attributes.get(name[5:], parameters.get(name[5:]))


def _codes(answer: Any) -> Iterator[CodeType]:
    """Of a function, or of the methods of a class, and of what is defined in them."""
    waiting = [getattr(each, "__code__", None) for each in _functions(answer)]
    while waiting:
        code = waiting.pop()
        if isinstance(code, CodeType):
            yield code
            waiting += [each for each in code.co_consts if isinstance(each, CodeType)]


def _functions(answer: Any) -> list[Any]:
    each = vars(answer).values() if isinstance(answer, type) else [answer]
    return [_unwrapped(function) for function in each]


def _unwrapped(function: Any) -> Any:
    """Without a decorator, such as `torch.no_grad()`."""
    try:
        return inspect.unwrap(function)
    except Exception:
        return function


def _globals(answer: Any) -> Any:
    found = (getattr(function, "__globals__", None) for function in _functions(answer))
    return next((each for each in found if each is not None), None)
