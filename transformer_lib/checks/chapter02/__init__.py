"""Checkers for chapter 2, *From averaging to scaled dot-product attention*."""

from transformer_lib.checks.chapter02.past_average import PAST_AVERAGE
from transformer_lib.checks.chapter02.scaled_attention import SCALED_ATTENTION
from transformer_lib.checks.old.core import Checker

__all__ = ["check"]

check = Checker(PAST_AVERAGE, SCALED_ATTENTION)
