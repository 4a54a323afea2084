"""Checkers for chapter 13, *Training: from noise to zweiundvierzig*."""

from transformer_lib.checks.chapter13.joint_update import JOINT_UPDATE
from transformer_lib.checks.chapter13.learning_rate import LEARNING_RATE
from transformer_lib.checks.chapter13.scorer import Scorer
from transformer_lib.checks.chapter13.smoothed_loss import SMOOTHED_LOSS
from transformer_lib.checks.chapter13.three_tensors import THREE_TENSORS
from transformer_lib.checks.core import Checker

__all__ = ["Scorer", "check"]

check = Checker(THREE_TENSORS, JOINT_UPDATE, SMOOTHED_LOSS, LEARNING_RATE)
