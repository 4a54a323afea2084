"""Where in the learner's own code an error came up, and which tensors met there."""

from __future__ import annotations

import ast
import inspect
import itertools
import linecache
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from types import CodeType, TracebackType
from typing import Any

import torch
from torch import Tensor

from transformer_lib.checks.deadline import time_limit
from transformer_lib.checks.old.running import silent
from transformer_lib.checks.old.seeding import seeded
from transformer_lib.checks.old.wording import dtype_name, shape

__all__ = ["Place", "places"]

_MOST_TENSORS = 4  # that are listed for a line


@dataclass(frozen=True)
class Place:
    """One line of the learner's.

    Args:
        line: its text.
        tensors: by the names that stand in it, in this order.
        met: by their text, what the operation or the call that raised was given. Where Python does
            not tell which one that was, as before its version 3.11: `tensors`.
    """

    line: str
    tensors: Mapping[str, Tensor]
    met: Mapping[str, Tensor]

    def shapes(self, *, types: bool = False) -> str:
        """What the tensors are that met: their shapes, or with `types` what their numbers are."""
        have, say = ("has dtype", dtype_name) if types else ("has shape", shape)
        # What is assigned to a part of a tensor does not count as given to it.
        numbers = {name: t for name, t in self.tensors.items() if t.dtype is not torch.bool}
        listed = (types and numbers) or self.met
        (text, first), *others = itertools.islice(listed.items(), _MOST_TENSORS)
        more = [f"`{text}` {say(tensor)}" for text, tensor in others]
        return ", ".join([f"`{text}` {have} {say(first)}", *more])


def places(answer: Callable[..., Any], error: BaseException) -> list[Place]:
    """The line of the answer, and the one of the learner's other functions where it ended."""
    codes, own = set(_codes(answer)), _globals(answer)
    lines: list[TracebackType] = []
    trace = error.__traceback__
    while trace is not None:
        frame = trace.tb_frame
        if frame.f_code in codes:
            lines = [trace]
        elif frame.f_globals is own:
            lines = [*lines[:1], trace]
        trace = trace.tb_next
    return [place for place in map(_place, lines) if place]


def _place(trace: TracebackType) -> Place | None:
    line = linecache.getline(trace.tb_frame.f_code.co_filename, trace.tb_lineno).strip()
    if not line:
        return None
    names = dict.fromkeys(re.findall(r"(?<![\w.])(?:self\.)?[A-Za-z_]\w*", line))
    tensors = _tensors(names, trace)
    met = _tensors(_operands(_raised(trace)), trace)
    return Place(line, tensors, met or tensors)


# ------------------------------------------------------------------------- the part of a line


def _raised(trace: TracebackType) -> str:
    """The part of the line that was being computed."""
    code = trace.tb_frame.f_code
    positions = getattr(code, "co_positions", None)
    if positions is None:  # before Python 3.11
        return ""
    position = next(itertools.islice(positions(), trace.tb_lasti // 2, None))
    if None in position:
        return ""
    first, last, begin, end = position
    lines = [linecache.getline(code.co_filename, i).encode() for i in range(first, last + 1)]
    lines[-1] = lines[-1][:end]
    lines[0] = lines[0][begin:]
    return b"".join(lines).decode()


def _operands(text: str) -> list[str]:
    """What the outermost operation or call of an expression is given."""
    try:
        node = ast.parse(f"({text})", mode="eval").body
    except SyntaxError:
        return []
    if isinstance(node, ast.BinOp):
        given = [node.left, node.right]
    elif isinstance(node, ast.Subscript):
        given = [node.value, *_items(node.slice)]
    elif isinstance(node, ast.Call):
        of = [node.func.value] if isinstance(node.func, ast.Attribute) else []
        given = [*of, *node.args, *(keyword.value for keyword in node.keywords)]
    else:
        given = []
    return [ast.unparse(each) for node in given for each in _items(node)]


def _items(node: ast.expr) -> list[ast.expr]:
    return [*node.elts] if isinstance(node, ast.List | ast.Tuple) else [node]


def _tensors(texts: Any, trace: TracebackType) -> dict[str, Tensor]:
    """Those of the expressions that are tensors, evaluated where the error came up."""
    found = {text: _value(text, trace) for text in texts}
    return {text: t for text, t in found.items() if isinstance(t, Tensor) and not t.is_nested}


def _value(text: str, trace: TracebackType) -> Any:
    """What was computed before the error came up is computed again."""
    frame = trace.tb_frame
    if text.isidentifier():
        return frame.f_locals.get(text)
    try:
        with silent(), seeded(0), time_limit(1.0):
            return eval(text, frame.f_globals, dict(frame.f_locals))
    except KeyboardInterrupt:
        raise
    except BaseException:  # this time it ends otherwise
        return None


# ------------------------------------------------------------------------- the learner's own code


def _codes(answer: Any) -> Iterator[CodeType]:
    """Of a function, or of the methods of a class."""
    for function in vars(answer).values() if isinstance(answer, type) else [answer]:
        code = getattr(_unwrapped(function), "__code__", None)
        if code is not None:
            yield from _with_inner(code)


def _with_inner(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _with_inner(constant)


def _unwrapped(function: Any) -> Any:
    """Without a decorator, such as `torch.no_grad()`."""
    try:
        return inspect.unwrap(function)
    except Exception:
        return function


def _globals(answer: Any) -> Any:
    functions = vars(answer).values() if isinstance(answer, type) else [answer]
    found = (getattr(_unwrapped(function), "__globals__", None) for function in functions)
    return next(filter(None, found), None)
