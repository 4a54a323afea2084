"""Checkers for the book's exercises: what is wrong with an answer and why, never the answer.

A chapter's exercises are checked with
``from transformer_lib.checks.chapter01 import check``, then ``check(my_function)``, or
``check(MyModule)`` where the answer is a class.
"""

from transformer_lib.checks.core import Checker
from transformer_lib.checks.exercise import Case, Exercise, Flaw, Parts, but
from transformer_lib.checks.report import Result

__all__ = ["Case", "Checker", "Exercise", "Flaw", "Parts", "Result", "but"]
