"""Checkers for chapter 17, *Faster: attention in blocks*."""

from transformer_lib.checks.chapter17.attend_in_blocks import ATTEND_IN_BLOCKS
from transformer_lib.checks.chapter17.gpt_flops import GPT_FLOPS
from transformer_lib.checks.chapter17.loss_weights import LOSS_WEIGHTS
from transformer_lib.checks.old.core import Checker

__all__ = ["check"]

check = Checker(GPT_FLOPS, ATTEND_IN_BLOCKS, LOSS_WEIGHTS)
