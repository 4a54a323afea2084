"""Checkers for chapter 20, *Few labels*."""

from transformer_lib.checks.chapter20.add_extract import ADD_EXTRACT
from transformer_lib.checks.chapter20.joint_loss import JOINT_LOSS
from transformer_lib.checks.chapter20.low_rank import LOW_RANK
from transformer_lib.checks.old.core import Checker

__all__ = ["check"]

check = Checker(ADD_EXTRACT, JOINT_LOSS, LOW_RANK)
