"""Checkers for chapter 15, *What is a difference worth?*"""

from transformer_lib.checks.chapter15.share_of_flips import SHARE_OF_FLIPS
from transformer_lib.checks.old.core import Checker

__all__ = ["check"]

check = Checker(SHARE_OF_FLIPS)
