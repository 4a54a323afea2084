"""Checkers for chapter 7, *The rest of the block*."""

from __future__ import annotations

from typing import Any

from transformer_lib.checks.chapter07.feed_forward import FEED_FORWARD
from transformer_lib.checks.chapter07.layer_norm import LAYER_NORM
from transformer_lib.checks.chapter07.residual import RESIDUAL
from transformer_lib.checks.core import Checker, Exercise
from transformer_lib.checks.modules import build

__all__ = ["check"]


class _ByName(Checker):
    """Tells who has passed under other names that weights will be loaded by name.

    The classes are parts of the reader's own Transformer, which takes PyTorch's weights.
    """

    def remark(self, exercise: Exercise, answer: Any) -> str | None:
        case = exercise.cases[0]
        wanted, found = (
            {name for name, _ in build(exercise.reference, kind, case).module.named_parameters()}
            for kind in (exercise.reference, answer)
        )
        if wanted == found:
            return super().remark(exercise, answer)
        return (
            f"Right. But the exercise calls them {', '.join(sorted(wanted))}; yours are "
            f"{', '.join(sorted(found))}. Code that loads weights by name will not find them."
        )


check = _ByName(LAYER_NORM, FEED_FORWARD, RESIDUAL)
