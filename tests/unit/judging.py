"""What a checker says of an answer: for the tests of the chapters' checkers."""

from typing import Any

import pytest

Answers = dict[str, list[Any]]


def table(check: Any, right: Answers, wrong: dict[str, list[tuple[Any, str]]]) -> tuple[Any, Any]:
    """Two tests of one chapter's `check`.

    Args:
        check: the chapter's checker.
        right: name of an exercise -> answers that pass, however they are written.
        wrong: name of an exercise -> wrong answers that are none of its named mistakes (those
            `test_checks.py` tries), each with words that the report says.
    """

    def said(name: str, answer: Any) -> str:
        answer.__name__ = name
        return " ".join(check(answer).report.split())

    @pytest.mark.parametrize(
        ("name", "answer"), [(n, a) for n, each in right.items() for a in each]
    )
    def test_right(name: str, answer: Any) -> None:
        assert said(name, answer).startswith(f"✓ {name}")

    @pytest.mark.parametrize(
        ("name", "answer", "words"), [(n, *each) for n, pairs in wrong.items() for each in pairs]
    )
    def test_wrong(name: str, answer: Any, words: str) -> None:
        report = said(name, answer)
        assert report.startswith("✗")
        assert words in report

    assert check.exercises.keys() == right.keys() >= wrong.keys()
    return test_right, test_wrong
