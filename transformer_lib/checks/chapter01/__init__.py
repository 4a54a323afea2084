"""Checkers for chapter 1, *A dictionary that answers almost*."""

from transformer_lib.checks.chapter01.distance_lookup import DISTANCE_LOOKUP
from transformer_lib.checks.chapter01.my_attend import MY_ATTEND
from transformer_lib.checks.chapter01.my_softmax import MY_SOFTMAX
from transformer_lib.checks.old.core import Checker

__all__ = ["check"]

check = Checker(MY_SOFTMAX, DISTANCE_LOOKUP, MY_ATTEND)
