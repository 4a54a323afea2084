"""Answers that raise, and answers with two mistakes: what a check reads in them."""

import sys

import pytest
import torch
import torch.nn.functional as F

from transformer_lib.checks import Case, Checker, Exercise
from transformer_lib.checks.inputs import in_float64, random_tensor
from transformer_lib.checks.summary import diagnosis

X = random_tensor(2, 3, 5)


AXES = Case("three axes", X)


def checker(reference=lambda x: x + 1, cases=(AXES,), mistakes=None, **more):
    exercise = {"reference": reference, "cases": cases, "mistakes": mistakes or {}, **more}
    return Checker(Exercise(name="answer", section="Again", **exercise))


def told(function, **exercise):
    function.__name__ = "answer"
    return " ".join(checker(**exercise)(function).report.split())


# ------------------------------------------------------------------------------------- exceptions


def nothing():
    pass


@pytest.mark.parametrize(
    ("function", "mistake"),
    [
        (lambda x: x.view(3, 7), "a shape is asked for that takes 21 numbers, and there are 30"),
        (lambda x: x.view(7, -1), "takes a multiple of 7 numbers, and there are 30"),
        (lambda x: x[:, :, [5]], "an axis of length 5 is asked for its entry 5"),
        (lambda x: x.mT.view(2, 15), "`view` is asked of what a `transpose` has left"),
        (lambda x: x.sum(3), "an axis is named that the tensor does not have"),
        (lambda x: x * x[0].item(), "a single number is asked of a tensor that holds several"),
        (lambda x: torch.cat([x[i] for i in range(0)]), "a list stays empty"),
        (lambda x: x + nothing(), "None stands where a number or a tensor is used"),
        (lambda x: x[x[0, 0, :2]], "floats stand where places are counted"),
        (lambda x: x[x[0] > 0], "chooses from another one whose first axes"),
        (lambda x: F.embedding(torch.tensor([2]), x[0, :2]), "a row that it does not have"),
        (lambda x: x.gather(-1, x.argmax(-1)), "`[..., None]` adds the one that is missing"),
        (lambda x: x.scatter(-1, x.argmax(-1), 0.0), "with another number of axes than its tensor"),
        (lambda x: x @ x.T, "`x` has more than two: `.mT` exchanges the last two"),
        (lambda x: x.double() @ x.mT, "numbers of two types meet"),
    ],
)
@pytest.mark.filterwarnings("ignore")
def test_what_an_exception_means_is_said(function, mistake):
    report = checker()(named(function)).report
    assert "That is what happens when" in report
    assert mistake in diagnosis(report)  # and not in the line of code that is shown


def test_the_tensors_of_a_line_are_listed():
    def answer(x):
        first, wide = x[0], x[0].double()
        if len(x) > 2:
            return first
        return first @ wide.mT

    assert "in the line return first @ wide.mT where `first` has dtype float32, `wide` float64" in (
        told(answer)
    )
    assert "where `x` has shape (2, 3, 5) That" in told(lambda x: x.view(7))


@pytest.mark.skipif(sys.version_info < (3, 11), reason="Python does not tell which part raised")
@pytest.mark.parametrize(
    ("function", "met"),
    [
        (
            lambda x: x.sum(1) + (x.exp() @ x.mT) / x.sum(2),
            "`x.exp() @ x.mT` has shape (2, 3, 3), `x.sum(2)` (2, 3)",
        ),
        (lambda x: torch.cat([x, x.mT], dim=0) + 1, "`x` has shape (2, 3, 5), `x.mT` (2, 5, 3)"),
        (lambda x: x[x[0] > 0].sum(), "`x` has shape (2, 3, 5), `x[0] > 0` (3, 5)"),
        (lambda x: F.linear(x, weight=x[0].mT), "`x` has shape (2, 3, 5), `x[0].mT` (5, 3)"),
    ],
)
def test_what_met_in_the_part_of_a_line_that_raised_is_listed(function, met):
    assert f"where {met} That" in told(function)


def helper(x):
    return x.view(7)


def test_a_line_of_a_function_of_ones_own_is_shown_below_that_of_the_answer():
    said = told(lambda x: helper(x) + 1)
    assert "in the line said = told(lambda x: helper(x) + 1) and there return x.view(7)" in said


def test_a_decorator_does_not_hide_the_line():
    @torch.no_grad()
    def answer(x):
        return x.view(7)

    assert "in the line return x.view(7) where `x`" in told(answer)


def test_a_line_of_an_inner_function_is_found():
    def answer(x):
        def inner():
            return x.view(7)

        return inner()

    assert "in the line return x.view(7) where `x`" in told(answer)


# ------------------------------------------------------------------------------------- two mistakes

ROWS = [Case(f"{n} rows", random_tensor(n, 2, seed=n)) for n in (1, 2, 3, 4)]
MISTAKES = {
    "the mean is taken": lambda x: x.mean(0),
    "the sign is wrong": lambda x: -x.sum(0),
}


def two(x):
    """Also wrong in another way, where there are four rows."""
    return x.mean(0) if len(x) < 4 else x[0]


def test_the_mistake_behind_most_of_the_wrong_numbers_is_named():
    said = checker(reference=lambda x: x.sum(0), cases=ROWS, mistakes=MISTAKES)(named(two)).report
    assert said.startswith("✗ answer, case 2 of 4")
    assert "In 2 of the 3 cases that fail, that is what happens when the mean is taken." in said
    assert "\n  In the others something else goes wrong.\n" in said
    assert "the mean is taken" in diagnosis(said)


def named(function):
    function.__name__ = "answer"
    return function


@pytest.mark.parametrize(
    "answer",
    [
        lambda x: x.mean(0) if len(x) == 3 else x[0],  # one case alone may be chance
        lambda x: -x.sum(0) if len(x) > 2 else x.sum(0),  # this mistake would show earlier
    ],
)
def test_a_mistake_that_explains_too_little_is_not_named(answer):
    said = checker(reference=lambda x: x.sum(0), cases=ROWS, mistakes=MISTAKES)(named(answer))
    assert "what happens when" not in said.report


def test_two_mistakes_that_explain_the_same_are_not_named():
    both = {**MISTAKES, "it is divided": lambda x: x.sum(0) / len(x)}
    said = checker(reference=lambda x: x.sum(0), cases=ROWS, mistakes=both)(named(two))
    assert "what happens when" not in said.report


def test_yes_and_no_agree_too_easily():
    cases = [Case(str(n), n) for n in range(4)]
    said = checker(reference=lambda n: n > 1, cases=cases, mistakes={"all": lambda n: True})(
        named(lambda n: n != 2)
    )
    assert "what happens when" not in said.report


# ------------------------------------------------------------------------- what reaches the result

PAIRS = [Case("two rows of three", random_tensor(2, 3), torch.tensor([True, False, True]), 0.5)]


def masked(x, mask, share):
    return share * (x * mask).cumsum(-1)


@pytest.mark.parametrize(
    ("function", "sign"),
    [
        (lambda x, mask, share: 0.3 * (x * mask).cumsum(-1).exp(), "`share` can be another one"),
        (
            lambda x, mask, share: share * (x * mask).cumsum(-1).exp() + x.mean(0),
            "the entry at [1, 0] of your result changes with `x` at [0, 0], which must not",
        ),
        (
            lambda x, mask, share: share * (x * mask).exp(),
            "the entry at [0, 1] of your result does not change with `x` at [0, 0], and it must",
        ),
        (
            lambda x, mask, share: share * x.cumsum(-1).exp() * mask.any(),
            "`mask` can be another one, and your result stays the same",
        ),
    ],
)
def test_what_reaches_a_result_and_must_not_is_said(function, sign):
    assert f"but this shows in them: {sign}" in told(function, reference=masked, cases=PAIRS)


@pytest.mark.parametrize(
    ("function", "reference"),
    [
        # The reference moves by 0.000007 of the result: its input does reach it.
        (lambda x: x[:, :1] + x[:, 1:], lambda x: x[:, :1] + 1e-5 * x[:, 1:]),
        (lambda x: x[:, :1] + 1e-5 * x[:, 1:], lambda x: x[:, :1] + x[:, 1:]),
    ],
)
def test_a_small_move_decides_nothing(function, reference):
    case = Case("two numbers", torch.tensor([[1.0, 2.0]]))
    said = told(function, reference=reference, cases=[case])
    assert said.startswith("✗")
    assert "this shows in them" not in said


def test_a_place_that_does_not_reach_a_result_by_chance_is_not_blamed():
    """One change of the largest leaves a choice as it is; two flags cancel in one number."""
    largest = Case("three numbers", torch.tensor([[3.0, 1.0, 2.0]]))
    said = told(lambda x: x, reference=lambda x: (x == x.amax()) * 1.0, cases=[largest])
    assert "at [0, 0], which must not reach" not in said
    flags = Case("two flags", torch.tensor([True, True]))
    said = told(
        lambda x: 2.0 + x.sum(), reference=lambda x: (x.sum() - 1) * (2 - x.sum()), cases=[flags]
    )
    assert said.startswith("✗")
    assert "must not reach" not in said


def test_one_change_that_leaves_the_largest_where_it_is_decides_nothing():
    said = told(
        lambda x: (x == x.amax()).float(),
        reference=lambda x: x.softmax(-1),
        cases=[Case("two numbers", torch.tensor([[1.0, 2.0]]))],
    )
    assert said.startswith("✗")
    assert "can be another one" not in said


def test_a_softmax_that_is_divided_along_the_other_axis_is_felt():
    def divided(x):
        powers = (x - x.amax(-1, keepdim=True)).exp()
        return powers / powers.sum(0, keepdim=True)

    rows = Case("two rows of one difference", torch.tensor([[8.0, 7.0], [-7.0, -8.0]]))
    said = told(divided, reference=lambda x: x.softmax(-1), cases=[rows])
    assert said.startswith("✗")
    assert "can be another one" not in said


@pytest.mark.parametrize(
    "function",
    [
        lambda x, mask, share: share * (x * mask).cumsum(-1) ** 3,  # all that must reach it, does
        lambda x, mask, share: (share * (x * mask).cumsum(-1)).tolist(),
        lambda x, mask, share: share * (x * mask).cumsum(-1) / 0,
    ],
)
def test_nothing_is_said_of_what_reaches_it_where_all_is_right_or_nothing_can_be_known(function):
    said = told(function, reference=masked, cases=PAIRS)
    assert said.startswith("✗")
    assert "shows in them" not in said


@pytest.mark.parametrize(
    ("function", "sign"),
    [
        (lambda x: (x + 1).mean(-1), "the axis -1 is gone"),
        (lambda x: (x + 1)[0], "the axis 0 is gone"),
        (lambda x: (x + 2)[:, None], "without the axis -3 the shape is right"),
    ],
)
def test_an_axis_too_few_or_too_many_is_said(function, sign):
    assert sign in told(function, cases=[AXES, Case("other lengths", random_tensor(7, 11, 13))])


# ------------------------------------------------------------------------------------------ float64


def in_fixed_room(x):
    room = torch.zeros(2, 3, 5)
    room[x > 0] = x[x > 0]
    return room


@pytest.mark.parametrize(("keeps", "passes"), [((), True), (("dtype",), False)])
def test_a_fixed_type_is_wrong_only_where_types_are_asked_for(keeps, passes):
    cases = [AXES, in_float64(Case("the same", X))]
    check = checker(reference=lambda x: x.relu(), cases=cases, keeps=keeps)
    result = check(named(in_fixed_room))
    assert result.passed is passes
    assert ("1 of 2 cases pass.\n  Right. One more thing, not asked for" in result.report) is passes
    assert "`room` has dtype float32" in result.report
    assert not checker(reference=lambda x: x.relu(), cases=cases[1:])(named(in_fixed_room))
