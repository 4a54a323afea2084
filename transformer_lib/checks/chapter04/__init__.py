"""Checkers for chapter 4, *Self-attention and cross-attention*."""

from transformer_lib.checks.chapter04.ask import ASK
from transformer_lib.checks.chapter04.is_equivariant import IS_EQUIVARIANT
from transformer_lib.checks.old.core import Checker

__all__ = ["check"]

check = Checker(ASK, IS_EQUIVARIANT)
