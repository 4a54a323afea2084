"""Checkers for chapter 16, *Looking inside: is a map an explanation?*"""

from transformer_lib.checks.chapter16.alignment_error_rate import ALIGNMENT_ERROR_RATE
from transformer_lib.checks.chapter16.contributions import CONTRIBUTIONS
from transformer_lib.checks.chapter16.prune import PRUNE, Priced
from transformer_lib.checks.old.core import Checker

__all__ = ["Priced", "check"]

check = Checker(ALIGNMENT_ERROR_RATE, PRUNE, CONTRIBUTIONS)
