"""Checkers for chapter 3, *Before the Transformer: the bottleneck*."""

from transformer_lib.checks.chapter03.additive_score import ADDITIVE_SCORE
from transformer_lib.checks.chapter03.look_back import LOOK_BACK
from transformer_lib.checks.old.core import Checker

__all__ = ["check"]

check = Checker(ADDITIVE_SCORE, LOOK_BACK)
