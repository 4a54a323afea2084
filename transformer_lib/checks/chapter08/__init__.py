"""Checkers for chapter 8, *The encoder*."""

from transformer_lib.checks.chapter08.either_order import EITHER_ORDER
from transformer_lib.checks.chapter08.multi_head_attention import MULTI_HEAD_ATTENTION
from transformer_lib.checks.chapter08.same_in_company import SAME_IN_COMPANY
from transformer_lib.checks.old.core import Checker

__all__ = ["check"]

check = Checker(MULTI_HEAD_ATTENTION, EITHER_ORDER, SAME_IN_COMPANY)
