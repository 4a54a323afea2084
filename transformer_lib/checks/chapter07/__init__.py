"""Checkers for chapter 7, *The rest of the block*."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from transformer_lib.checks.chapter07.feed_forward import FEED_FORWARD
from transformer_lib.checks.chapter07.layer_norm import LAYER_NORM
from transformer_lib.checks.chapter07.residual import RESIDUAL
from transformer_lib.checks.core import Checker, Result

__all__ = ["check"]


class _ByName(Checker):
    """Tells who has passed under other names that weights will be loaded by name.

    The classes are parts of the reader's own Transformer, which takes PyTorch's weights.
    """

    def __call__(self, function: Callable[..., Any]) -> Result:
        result = super().__call__(function)
        if not result:
            return result
        exercise = self.exercises[function.__name__]
        init = exercise.cases[0].init or {}
        wanted, found = (
            {name for name, _ in build(**init).named_parameters()}
            for build in (exercise.reference, function)
        )
        if wanted == found:
            return result
        note = (
            f"  Right. But the exercise calls them {', '.join(sorted(wanted))}; yours are\n"
            f"  {', '.join(sorted(found))}. Code that loads weights by name will not find them."
        )
        print(note)
        return Result(True, f"{result.report}\n{note}")


check = _ByName(LAYER_NORM, FEED_FORWARD, RESIDUAL)
