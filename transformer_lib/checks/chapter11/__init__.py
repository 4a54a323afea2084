"""Checkers for chapter 11, *The whole Transformer*."""

from transformer_lib.checks.chapter11.count_parameters import COUNT_PARAMETERS
from transformer_lib.checks.chapter11.my_transformer import MY_TRANSFORMER
from transformer_lib.checks.old.core import Checker

__all__ = ["check"]

check = Checker(COUNT_PARAMETERS, MY_TRANSFORMER)
