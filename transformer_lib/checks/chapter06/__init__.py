"""Checkers for chapter 6, *Many heads*."""

from transformer_lib.checks.chapter06.attention_flops import ATTENTION_FLOPS
from transformer_lib.checks.chapter06.multi_head import MULTI_HEAD
from transformer_lib.checks.old.core import Checker

__all__ = ["check"]

check = Checker(MULTI_HEAD, ATTENTION_FLOPS)
