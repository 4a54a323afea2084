"""Checkers for chapter 12, *Text to tensors, and back*."""

from transformer_lib.checks.chapter12.best_pair import BEST_PAIR
from transformer_lib.checks.chapter12.shift_right import SHIFT_RIGHT
from transformer_lib.checks.chapter12.token_batches import TOKEN_BATCHES
from transformer_lib.checks.chapter12.wordpiece import WORDPIECE
from transformer_lib.checks.old.core import Checker

__all__ = ["check"]

check = Checker(BEST_PAIR, SHIFT_RIGHT, WORDPIECE, TOKEN_BATCHES)
