"""Checkers for the book's exercises: what is wrong with an answer and why, never the answer.

A chapter's exercises are checked with
``from transformer_lib.checks.chapter01 import check``, then ``check(my_function)``, or
``check(MyModule)`` where the answer is a class.
"""

from transformer_lib.checks.old.compare import rows_sum_to_one, weights_between_0_and_1
from transformer_lib.checks.old.core import Case, Checker, Exercise, Result

__all__ = ["Case", "Checker", "Exercise", "Result", "rows_sum_to_one", "weights_between_0_and_1"]
