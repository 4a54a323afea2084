"""Checkers for chapter 18, *GPT: one stack that continues*."""

from transformer_lib.checks.chapter18.drawn_from import DRAWN_FROM
from transformer_lib.checks.chapter18.text_loss import TEXT_LOSS, Reader
from transformer_lib.checks.old.core import Checker

__all__ = ["Reader", "check"]

check = Checker(DRAWN_FROM, TEXT_LOSS)
