"""Checkers for chapter 5, *Masks*."""

from transformer_lib.checks.chapter05.causal import CAUSAL
from transformer_lib.checks.chapter05.leaks import LEAKS
from transformer_lib.checks.chapter05.masked_attention import MASKED_ATTENTION
from transformer_lib.checks.core import Checker

__all__ = ["check"]

check = Checker(MASKED_ATTENTION, CAUSAL, LEAKS)
