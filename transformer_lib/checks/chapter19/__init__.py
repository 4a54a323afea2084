"""Checkers for chapter 19, *BERT: fill in the blank*."""

from transformer_lib.checks.chapter19.hidden_loss import HIDDEN_LOSS
from transformer_lib.checks.chapter19.mean_of_tokens import MEAN_OF_TOKENS
from transformer_lib.checks.chapter19.one_at_a_time import ONE_AT_A_TIME, Guesser
from transformer_lib.checks.old.core import Checker

__all__ = ["Guesser", "check"]

check = Checker(HIDDEN_LOSS, ONE_AT_A_TIME, MEAN_OF_TOKENS)
