"""Wrong calls of every public function: tables of right calls, and ways to spoil one.

`tests/unit/test_fuzz.py` draws from them. A table's entry makes a fresh right call:

    @call(causal_mask)
    def _(draw):
        return Call({"t": 3, "s": 5}, check=lambda result, given: ...)

and is needed for every public function and method; a test says which one has none.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

__all__ = ["CALLS", "Call", "call"]

Check = Callable[[Any, dict[str, Any]], None]


@dataclass
class Call:
    """A right call, and what to think of its result.

    Args:
        given: the arguments, by name. Each may be spoiled.
        run: takes them; the function that the entry is for, if None.
        fixed: further arguments, which stay as they are.
        check: raises AssertionError if the result is wrong for the arguments given.
        errors: what else than ValueError and TypeError is a proper answer; a missing file, say.
        calls_others: whether it calls a function among its arguments, whose errors are its own.
        anything: whether an argument may be anything at all, NaN too.
        extra: further values that an argument can be spoiled with.
    """

    given: dict[str, Any]
    run: Callable[..., Any] | None = None
    fixed: dict[str, Any] = field(default_factory=dict)
    check: Check | None = None
    errors: tuple[type[Exception], ...] = ()
    calls_others: bool = False
    anything: bool = False
    extra: dict[str, list[Any]] = field(default_factory=dict)


CALLS: dict[Any, Callable[[random.Random], Call]] = {}


def call(function: Any) -> Callable[[Callable[[random.Random], Call]], Any]:
    """Enter into the table how a function is called: a plain function, a class, a method."""

    def enter(make: Callable[[random.Random], Call]) -> Any:
        def complete(draw: random.Random) -> Call:
            made = make(draw)
            if made.run is None:
                made.run = function
            return made

        key = getattr(function, "__func__", function)  # a classmethod is bound anew at each look
        assert key not in CALLS, f"{function} stands twice in the table"
        CALLS[key] = complete
        return make

    return enter
