"""Checkers for chapter 7, *The rest of the block*."""

from transformer_lib.checks.chapter07.feed_forward import FEED_FORWARD
from transformer_lib.checks.chapter07.layer_norm import LAYER_NORM
from transformer_lib.checks.chapter07.residual import RESIDUAL
from transformer_lib.checks.core import Checker

__all__ = ["check"]

check = Checker(LAYER_NORM, FEED_FORWARD, RESIDUAL)
