"""Answers that return ids: a table of vectors takes whole numbers only."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from transformer_lib.checks.old.modules import Flaw

__all__ = ["whole_ids"]


def whole_ids(ids: Any, what: str = "ids") -> Any:
    """`ids` as they are.

    Raises:
        Flaw: they are floats.
    """
    if isinstance(ids, Tensor) and ids.is_floating_point():
        dtype = str(ids.dtype).removeprefix("torch.")
        raise Flaw(
            ("floats", what),
            f"Your {what} have dtype {dtype}: they are whole numbers, and a table of vectors "
            "takes nothing else.",
        )
    return ids
