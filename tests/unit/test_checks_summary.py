"""The summary of a checker: what a student hands in."""

import pytest
import torch
from torch import nn

from transformer_lib.checks.chapter05 import check
from transformer_lib.checks.chapter07 import check as check_modules


def causal(t, s):
    return torch.ones(t, s, dtype=torch.bool).tril(s - t)


def said(checker, name: str, answer) -> str:
    text = " ".join(checker.summary({"1.1": name}, {name: answer}).split())
    return text.removeprefix(f"1.1 {name}: ").partition(" 0 of 1 passed; ")[0]


def test_a_right_answer_passes_whatever_its_own_name():
    other = causal
    assert check.summary({"5.6": "causal"}, {"causal": other}) == (
        "5.6 causal: passed\n1 of 1 passed; 1 of 1 points for the cases that pass"
    )


def test_an_answer_that_is_wrong_in_one_case_does_not_look_like_one_without_an_idea():
    wrong = {"causal": lambda t, s: torch.ones(t, t, dtype=torch.bool).tril()}
    text = check.summary({"5.6": "causal"}, wrong)
    assert "not passed, 2 of 4 cases pass." in text
    assert text.endswith("\n0 of 1 passed; 0.5 of 1 points for the cases that pass")


def test_an_answer_with_nothing_in_it_is_open():
    def idle(t, s): ...

    def explained(t, s):
        """Which keys each query may see."""
        ...  # your lines

    class Idle(nn.Module):
        def __init__(self, d_model, eps=1e-5):
            super().__init__()
            ...  # your lines

        def forward(self, x): ...  # your lines

    class Empty(nn.Module): ...  # your lines

    assert check.summary({"1.1": "causal"}, {}).startswith(
        "1.1 causal: open, nothing here is called causal\n"
    )
    assert said(check, "causal", idle) == "open"
    assert said(check, "causal", explained) == "open"
    assert said(check, "causal", None) == "open"
    assert said(check_modules, "LayerNorm", Idle) == "open"
    assert said(check_modules, "LayerNorm", Empty) == "open"


def test_an_answer_with_something_in_it_is_not_open():
    def nothing(t, s):
        t + s

    class Started(nn.Module):
        def __init__(self, d_model, eps=1e-5):
            super().__init__()
            self.eps = eps

        def forward(self, x): ...

    assert said(check, "causal", nothing) == (
        "not passed, 0 of 4 cases pass. `causal` returned None: is a `return` missing?"
    )
    assert said(check_modules, "LayerNorm", Started).startswith("not passed")


def test_what_is_no_function_is_not_passed_and_raises_nothing():
    assert said(check, "causal", 5).startswith("not passed. `check` was given ")
    built = nn.LayerNorm(3)
    assert said(check_modules, "LayerNorm", built).startswith("not passed. `check` was given ")


def test_it_prints_nothing_and_keeps_to_the_width_of_a_cell(capsys):
    text = check.summary({"5.6": "causal"}, {"causal": lambda t, s: torch.ones(t, s).tril()})
    assert capsys.readouterr().out == ""
    assert max(map(len, text.splitlines())) <= 76


def test_an_unknown_exercise_is_named():
    with pytest.raises(ValueError, match=r"exercises must name some of .*causal.*; got 'casual'"):
        check.summary({"5.6": "casual"}, {})
