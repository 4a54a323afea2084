"""Checkers for chapter 21, *What has changed since 2017*."""

from transformer_lib.checks.chapter21.grouped_attention import GROUPED_ATTENTION
from transformer_lib.checks.chapter21.rms_norm import RMS_NORM
from transformer_lib.checks.chapter21.swiglu import SWIGLU
from transformer_lib.checks.chapter21.to_halves import TO_HALVES
from transformer_lib.checks.old.core import Checker

__all__ = ["check"]

check = Checker(RMS_NORM, TO_HALVES, SWIGLU, GROUPED_ATTENTION)
