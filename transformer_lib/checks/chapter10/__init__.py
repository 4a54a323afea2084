"""Checkers for chapter 10, *Where am I? Positions*."""

from transformer_lib.checks.chapter10.rotate import ROTATE
from transformer_lib.checks.chapter10.sinusoids import SINUSOIDS
from transformer_lib.checks.old.core import Checker

__all__ = ["check"]

check = Checker(ROTATE, SINUSOIDS)
