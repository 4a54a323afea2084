"""Checkers for chapter 22, *Other people's weights*."""

from transformer_lib.checks.chapter22.own_names import OWN_NAMES
from transformer_lib.checks.chapter22.parity import PARITY
from transformer_lib.checks.chapter22.read_tensor import READ_TENSOR
from transformer_lib.checks.old.core import Checker

__all__ = ["check"]

check = Checker(READ_TENSOR, OWN_NAMES, PARITY)
