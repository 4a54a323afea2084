"""What a checker says of an answer: for the tests of the chapters' checkers."""

from collections.abc import Callable
from typing import Any


def judges(check: Callable[[Any], bool]) -> tuple[Callable, Callable, Callable]:
    """`verdict`, `passes` and `fails` of one chapter's `check`; an answer is known by its name."""

    def verdict(capsys, answer, name) -> tuple[bool, str]:
        answer.__name__ = name
        result = check(answer)
        return bool(result), " ".join(capsys.readouterr().out.split())

    def passes(capsys, answer, name) -> None:
        passed, said = verdict(capsys, answer, name)
        assert passed, said

    def fails(capsys, answer, name, diagnosis) -> None:
        passed, said = verdict(capsys, answer, name)
        assert not passed
        assert diagnosis in said, said

    return verdict, passes, fails
