"""Checkers for the project, *A decoder of today*: one for each stage."""

from transformer_lib.checks.old.core import Checker
from transformer_lib.checks.project.heads import HEADS
from transformer_lib.checks.project.llama import LLAMA
from transformer_lib.checks.project.rotate import ROTATE
from transformer_lib.checks.project.small import RMS_NORM, SWIGLU
from transformer_lib.checks.project.write import WRITE

__all__ = ["check"]

check = Checker(RMS_NORM, ROTATE, SWIGLU, HEADS, LLAMA, WRITE)
