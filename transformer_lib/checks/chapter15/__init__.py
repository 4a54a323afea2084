"""Checkers for chapter 15, *Looking inside: is a map an explanation?*"""

from transformer_lib.checks.chapter15.alignment_error_rate import ALIGNMENT_ERROR_RATE
from transformer_lib.checks.chapter15.contributions import CONTRIBUTIONS
from transformer_lib.checks.chapter15.prune import PRUNE
from transformer_lib.checks.core import Checker

__all__ = ["check"]

check = Checker(ALIGNMENT_ERROR_RATE, PRUNE, CONTRIBUTIONS)
