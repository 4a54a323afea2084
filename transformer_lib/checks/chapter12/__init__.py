"""Checkers for chapter 12, *Text to tensors, and back*."""

from transformer_lib.checks.chapter12.shift_right import SHIFT_RIGHT
from transformer_lib.checks.chapter12.token_batches import TOKEN_BATCHES
from transformer_lib.checks.chapter12.wordpiece import WORDPIECE
from transformer_lib.checks.core import Checker

__all__ = ["check"]

check = Checker(SHIFT_RIGHT, WORDPIECE, TOKEN_BATCHES)
