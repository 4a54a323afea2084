"""The mistake behind an error that means the same in every exercise."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from typing import Any

from transformer_lib.checks.old.modules import Flaw
from transformer_lib.checks.old.places import Place, places

__all__ = ["is_clash", "message", "mistake_in"]


def message(error: BaseException) -> str:
    try:
        return (str(error).strip().splitlines() or ["no message"])[0]
    except Exception:  # an exception class of the learner's own
        return "no message"


_CLASH = (
    "must have the same dtype",
    "expected scalar type",
    "to have the same dtype",
    "source and destination dtypes match",
)

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
    **dict.fromkeys(
        _CLASH,
        "numbers of two types meet: one of them is made in, or cast to, a fixed type",
    ),
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
    "the one in which they differ, or differ in two: the axis is another, or one holds too much",
    "must match the size of tensor": "two tensors meet whose shapes do not fit, counted from the "
    "last axis: an axis of length 1 is missing, as `[..., None]` or `keepdim=True` makes it, or "
    "one of them has another order of axes or another length",
    "tuple indices must be integers or slices": "several results that came together are used as "
    "one tensor: take them apart first, as in `a, b = f(x)`",
    "'tuple' object has no attribute": "several results that came together are used as one tensor: "
    "take them apart first, as in `a, b = f(x)`",
    "leaf Variable that requires grad": "a parameter is changed in place",
    "maximum recursion depth": "a function calls itself without end",
    "NoneType": "None stands where a number or a tensor is used: an argument may be None, or a "
    "function of your own has no `return`",
    "expected a non-empty list of Tensors": "a list stays empty: the loop that fills it does not "
    "run for this input",
    "view size is not compatible with input tensor's size and stride": "`view` is asked of what a "
    "`transpose` has left in another order: `reshape` takes that as well",
    "Dimension out of range": "an axis is named that the tensor does not have: it has fewer, and "
    "they are counted from 0",
    "cannot be converted to": "a single number is asked of a tensor that holds several, as by "
    "`.item()`, `int()` or `float()`",
    "tensors used as indices must be": "floats stand where places are counted: an index holds "
    "whole numbers, or True and False",
    "does not match the shape of the indexed tensor": "a tensor of True and False chooses from "
    "another one whose first axes are not as long as its own",
    "Index tensor must have the same number of dimensions": "`gather` or `scatter` gets an index "
    "with another number of axes than its tensor has: `[..., None]` adds the one that is missing",
    "index out of range in self": "a table of vectors is asked for a row that it does not have: an "
    "id is too large, or something else than ids is looked up",
}


def is_clash(error: BaseException) -> bool:
    """Whether numbers of two types have met."""
    return any(said in message(error) for said in _CLASH)


def mistake_in(answer: Callable[..., Any], error: BaseException | None) -> str | None:
    """The mistake behind an error that means the same in every exercise."""
    if error is None or isinstance(error, Flaw):
        return None
    said, found = message(error), places(answer, error)
    line = found[-1].line if found else ""
    if "values to unpack (expected" in said and ("shape" in line or "size" in line):
        return (
            "the shape is unpacked into a fixed number of names, and this input has another "
            "number of axes: count axes from the end, -1 is the last"
        )
    if re.match(r"(.*:\s*)?(raise|assert)\b", line):
        return "an error is raised on purpose, and the exercise asks for a result here"
    turned = _turned_around(found)
    if turned:
        return (
            f"`.T` turns the order of all axes around, and `{turned}` has more than two: `.mT` "
            "exchanges the last two, as `transpose(-2, -1)` does"
        )
    for sentence in (_product, _room, _entry):
        mistake = sentence(said)
        if mistake:
            return mistake
    return next((mistake for known, mistake in _BEHIND.items() if known in said), None)


def _turned_around(found: Sequence[Place]) -> str | None:
    """The name of a tensor of more than two axes whose `.T` is taken."""
    for place in found:
        for name in re.findall(r"(?<![\w.])(\w+)\.(?:T\b|t\(\))", place.line):
            if name in place.tensors and place.tensors[name].dim() > 2:
                return name
    return None


def _product(said: str) -> str | None:
    sides = re.search(
        r"mat1 and mat2 shapes cannot be multiplied \((\d+)x(\d+) and (\d+)x(\d+)\)", said
    )
    if not sides:
        return None
    why = "the first is cut or joined at the wrong place, or another matrix is meant"
    if sides[2] == sides[4]:
        why = (
            "a transpose is missing, as in `x @ weight.T`, for `nn.Linear` keeps a row for "
            "each output, or the first is cut at the wrong place, or another matrix is meant"
        )
    return (
        f"in a product the first matrix has {sides[2]} columns and the second {sides[3]} rows: "
        f"{why}"
    )


def _room(said: str) -> str | None:
    """Of `view` and `reshape`."""
    shape = re.search(r"shape '\[([-\d, ]*)\]' is invalid for input of size (\d+)", said)
    if not shape:
        return None
    sizes, there = [int(size) for size in shape[1].split(",") if size.strip()], int(shape[2])
    room = math.prod(size for size in sizes if size != -1)
    many = f"a multiple of {room:,}" if -1 in sizes else f"{room:,}"
    return (
        f"a shape is asked for that takes {many} numbers, and there are {there:,}: something "
        "before has made too many or too few, or the shape is that of another tensor"
    )


def _entry(said: str) -> str | None:
    """Of an index."""
    index = re.search(r"index (-?\d+) is out of bounds for dimension \d+ with size (\d+)", said)
    if not index:
        return None
    return (
        f"an axis of length {index[2]} is asked for its entry {index[1]}: another axis is meant, "
        "or the count goes too far"
    )
