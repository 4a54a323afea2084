"""The exercise checkers' machinery: evidence in the learner's terms, one diagnosis, no answer."""

import functools
import importlib
import json
import pkgutil
import re
from pathlib import Path

import pytest
import torch

import transformer_lib.checks
from transformer_lib.checks import Case, Checker, Exercise, rows_sum_to_one, weights_between_0_and_1
from transformer_lib.checks.running import run

ROOT = Path(__file__).resolve().parents[2]


def scores(*shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(shape[-1]))


def normalize_after_masking(x, mask=None):
    weights = x.softmax(-1)
    return weights if mask is None else weights * mask


check = Checker(
    Exercise(
        name="weigh",
        reference=lambda scores, mask=None: (
            scores if mask is None else scores.masked_fill(~mask, -1e9)
        ).softmax(-1),
        cases=[
            Case("two scores", torch.tensor([1.0, 2.0])),
            Case("rows of three", scores(2, 3)),
            Case("a causal mask", scores(3, 3), mask=torch.ones(3, 3).tril().bool()),
        ],
        mistakes={
            "the mask comes after the softmax": normalize_after_masking,
            "the softmax runs over the wrong axis": lambda s, mask=None: s.softmax(0),
            "the logarithm is taken": lambda s, mask=None: s.log_softmax(-1),
        },
        section="Where the mask goes",
        properties=[rows_sum_to_one],
    ),
    Exercise(
        name="pair",
        reference=lambda x: (x + 1, x > 0),
        cases=[Case("a vector", torch.tensor([-1.0, 2.0]))],
        mistakes={},
        section="Two at once",
    ),
    Exercise(
        name="length",
        reference=lambda x: x.square().sum().sqrt().item(),
        cases=[Case("3, 4", torch.tensor([3.0, 4.0])), Case("a long one", scores(40))],
        mistakes={},
        section="How long is it?",
    ),
)


def named(name, function):
    function.__name__ = name
    return function


def as_answer(exercise, answer):
    """`answer` as the learner would hand it in; what is a mistake keeps its name."""
    if isinstance(answer, type):
        return type(exercise.name, (answer,), {})
    return named(exercise.name, lambda *a, **k: answer(*a, **k))


def report(capsys, function, name=None):
    function = named(name or function.__name__, function)
    result = check(function)
    printed = capsys.readouterr().out
    assert printed.split() == result.report.split()
    lines = printed.splitlines()
    assert max(len(line) for line in lines if not line.startswith("    ")) <= 76
    return "" if result else result.report + "\n"


def test_right_answers_written_differently_pass(capsys):
    def weigh(values, mask=None):  # other names, a loop, float64
        values = values.double()
        if mask is not None:
            values = torch.where(mask, values, float("-inf"))
        rows = [(row - row.max()).exp() for row in values.reshape(-1, values.shape[-1])]
        return torch.stack([row / row.sum() for row in rows]).reshape(values.shape)

    result = check(weigh)
    assert result.passed
    assert result
    assert capsys.readouterr().out == "✓ weigh: all 3 cases pass.\n"


def test_a_known_mistake_is_named_with_the_property_it_breaks(capsys):
    def weigh(scores, mask=None):
        weights = torch.einsum("...s->...s", scores.softmax(dim=-1))
        return weights if mask is None else weights.masked_fill(~mask, 0)

    text = report(capsys, weigh)
    assert text.startswith("✗ weigh, case 3 of 3: a causal mask\n  Row 0 of your weights sums to ")
    assert "; the sum must be 1.\n" in text
    assert "  That is what happens when the mask comes after the softmax.\n" in text
    assert text.endswith('Look again at the section "Where the mask goes". The other cases pass.\n')


def test_a_weight_that_is_no_proportion_is_shown():
    pair = ("output", torch.tensor([[0.5, 0.5], [1.5, -0.5]]))
    assert rows_sum_to_one(pair, pair) is None
    evidence = weights_between_0_and_1(pair, pair)
    assert evidence == "Your weight at [1, 1] is -0.5; a weight is never negative."
    evidence = weights_between_0_and_1(torch.tensor(1.5), None)
    assert evidence == "Your weight is 1.5; a weight is at most 1."
    assert weights_between_0_and_1(torch.tensor([1.0, 0.0]), None) is None


def test_agreement_on_some_cases_only_is_said_to_be_no_more(capsys):
    def weigh(scores, mask=None):  # log_softmax, but only without a mask
        return scores.log_softmax(-1) if mask is None else scores.masked_fill(~mask, -9).softmax(0)

    text = report(capsys, weigh)
    assert (
        "In 2 of the 3 cases that fail, that is what happens when the logarithm is taken.\n" in text
    )
    assert "In the others something else goes wrong.\n  This is the input:\n" in text
    assert text.endswith("No other case passes yet.\n")


def test_errors_of_one_type_are_no_diagnosis_unless_they_say_the_same(capsys):
    def fail(message):
        raise RuntimeError(message)

    def identity(x):
        return x if x.numel() <= 2 else fail("shapes do not fit")

    for message, known in (("shapes do not fit", True), ("no such axis", False)):
        identity_check = Checker(
            Exercise(
                name="identity",
                reference=lambda x: x,
                cases=[Case("two", torch.ones(2)), Case("four", torch.ones(4))],
                mistakes={
                    "the lengths are mixed up": lambda x, message=message: (
                        x if x.numel() == 2 else fail(message)
                    )
                },
                section="Itself",
            )
        )
        assert ("the lengths are mixed up" in identity_check(identity).report) is known


def test_what_an_exercise_brings_runs_once_on_each_case_however_many_answers_come():
    ran = []

    def noted(name, function):
        def run(x):
            # The right answer alone runs on other inputs too, where no mistake has a name.
            if name == "squared" or x.tolist() in ([1.0], [3.0, 3.0, 3.0]):
                ran.append(name)
            return function(x)

        return run

    double_check = Checker(
        Exercise(
            name="double",
            reference=noted("right", lambda x: 2 * x),
            cases=[Case("one", torch.ones(1)), Case("three", 3 * torch.ones(3))],
            mistakes={"squared": noted("squared", lambda x: x * x)},
            section="Twice as much",
        )
    )
    for _ in range(2):
        assert "when squared" in double_check(named("double", lambda x: x**2)).report
        assert double_check(named("double", lambda x: x + x))
        assert "when squared" not in double_check(named("double", lambda x: x**3)).report
    assert sorted(ran) == ["right", "right", "squared", "squared"]


def test_without_a_diagnosis_evidence_and_input_are_of_one_case(capsys):
    def double(x):
        raise RuntimeError(f"{len(x)} numbers")

    double_check = Checker(
        Exercise(
            name="double",
            reference=lambda x: 2 * x,
            cases=[Case("four", torch.ones(4)), Case("three", torch.ones(3))],
            mistakes={},
            section="Twice as much",
        )
    )
    report = double_check(double).report
    assert report.startswith(
        "✗ double, case 2 of 2: three\n  Your function raised RuntimeError: 3 n"
    )
    assert "x = torch.tensor([1.0, 1.0, 1.0])\n" in report


def test_the_smallest_failing_input_is_shown(capsys):
    def length(x):
        return x.abs().max()

    text = report(capsys, length)
    assert "Your result is 4, and that is not right." in text
    assert "x = torch.tensor([3.0, 4.0])" in text
    assert "5" not in text.replace("case", "")  # the answer is not given away


@pytest.mark.parametrize(
    ("function", "evidence"),
    [
        (lambda x: None, "Your function returned None: is a `return` missing?"),
        (lambda x: "five", "Your result must be one number; it is a str."),
        (lambda x: x, "Your result has shape (2,); it must be one number."),
        (lambda x: (1, 2), "Your result must be one number; it is a tuple of length 2."),
        (lambda x: float("nan"), "Your result is NaN."),
        (lambda: 1, "The exercise calls length(x); yours is defined as length()."),
    ],
)
def test_what_cannot_be_compared_says_why(capsys, function, evidence):
    assert evidence in report(capsys, function, "length")


@pytest.mark.parametrize(
    ("function", "evidence"),
    [
        (lambda x: x, "Your result must be 2 things; it is a tensor of shape (2,)."),
        (
            lambda x: (x, x > 0),
            "Both entries of item 0 of your result are wrong, the first at [0]: yours is -1.",
        ),
        (lambda x: (x + 1, 1.0 * (x > 0)), "Item 1 of your result has dtype float32; it must be"),
        (
            lambda x: [x + 1, x < 0],
            "Both entries of item 1 of your result are wrong, the first at [0]: yours is True",
        ),
        (lambda x: (x + 1, [False, True]), "must be a tensor of shape (2,); it is a list of"),
        (lambda x: (x / 0 * 0, x > 0), "Item 0 of your result is NaN at [0]."),
    ],
)
def test_parts_are_compared_one_by_one(capsys, function, evidence):
    text = report(capsys, function, "pair")
    assert evidence in text
    assert text.endswith("It is the only case.\n")


def test_an_exception_is_shown_with_the_learners_own_line(capsys):
    def length(x):
        return (x @ x.reshape(3, 1)).sqrt()

    text = report(capsys, length)
    assert "Your function raised RuntimeError: shape '[3, 1]' is invalid" in text
    assert "in the line   return (x @ x.reshape(3, 1)).sqrt()\n" in text
    assert "No mistake that this checker knows" not in text


def test_a_forgotten_keyword_is_told_from_other_type_errors(capsys):
    def weigh(scores):
        return scores.softmax(-1)

    text = report(capsys, weigh)
    assert "The exercise calls weigh(scores, mask=…); yours is defined as weigh(scores)." in text

    def length(x):
        return len(3)

    assert "Your function raised TypeError: object of type 'int'" in report(capsys, length)


def test_changing_the_input_in_place_fails_and_leaves_the_case_as_it_was(capsys):
    def weigh(scores, mask=None):
        return (scores if mask is None else scores.masked_fill_(~mask, -1e9)).softmax(-1)

    for _ in range(2):
        text = report(capsys, weigh)
        assert "case 3 of 3" in text
        assert "your function changed its input `scores` in place" in text
        assert "No mistake" not in text


def test_changing_the_input_in_place_is_said_of_a_wrong_result_too(capsys):
    def weigh(scores, mask=None):
        scores -= 1
        return scores

    text = " ".join(report(capsys, weigh).split())
    assert "It also changed its input `scores` in place." in text


def test_an_einsum_with_a_letter_too_few_is_told_so(capsys):
    def length(x):
        return torch.einsum("ij,ij->", x, x) ** 0.5

    text = " ".join(report(capsys, length).split())
    assert "an equation of einsum has another number of letters than its input has axes" in text


def test_the_right_result_with_another_beside_it_is_told_so(capsys):
    def weigh(scores, mask=None):
        scores = scores if mask is None else scores.masked_fill(~mask, -1e9)
        return scores, scores.softmax(-1)

    text = " ".join(report(capsys, weigh).split())
    assert "Your result is a tuple of length 2. Its item 1 is right: return that alone." in text


def test_gradients_and_single_numbers_in_tensors_are_fine(capsys):
    def length(x):
        return (x.requires_grad_() ** 2).sum() ** 0.5

    assert report(capsys, length) == ""


def test_what_is_no_answer_is_said_and_raises_nothing(capsys):
    for thing, name in ((torch.ones(2), "a tensor of shape (2,)"), (None, "None"), (3, "an int")):
        result = check(thing)
        assert not result
        assert f"✗ check was given {name}, and not a function.\n" in result.report
        assert result.report.endswith("without parentheses or arguments: check(weigh).")
    assert "knows no exercise for `f`.\n" in check(named("f", lambda x: x)).report
    assert "knows no exercise for a lambda without a name." in check(lambda x: x).report
    assert "exercises are weigh, pair, length." in check(lambda x: x).report


def test_an_answer_under_another_name_is_found_by_the_variable_that_holds_it():
    def mine(x):
        return x.square().sum().sqrt()

    length = mine
    assert check(length)
    length = lambda x: x.norm()  # noqa: E731
    assert check(length)
    pair = functools.partial(lambda one, x: (x + one, x > 0), 1)
    assert check(pair)
    f, args, kwargs = check.case(length, 1)
    assert f(*args, **kwargs) == 5
    with pytest.raises(ValueError, match="number must be 1 to 2; got 3"):
        check.case(length, 3)


def test_a_notebook_shows_the_report_once():
    from IPython.core.interactiveshell import InteractiveShell

    def pair(x):
        return x + 1, x > 0

    data, metadata = InteractiveShell.instance().display_formatter.format(check(pair))
    assert data == metadata == {}


def test_a_checker_whose_own_reference_fails_is_loud():
    broken = Checker(
        Exercise(
            name="f",
            reference=lambda x: 1 / x,
            cases=[Case("zero", 0)],
            mistakes={},
            section="None",
        )
    )
    with pytest.raises(ZeroDivisionError):
        broken(named("f", lambda x: 0))


# ----------------------------------------------- the checkers of all chapters and of the project

CHAPTERS = {
    module.name: importlib.import_module(f"transformer_lib.checks.{module.name}")
    for module in pkgutil.iter_modules(transformer_lib.checks.__path__)
    if module.name.startswith("chapter") or module.name == "project"
}
EXERCISES = [
    pytest.param(module, exercise, id=f"{name}-{exercise.name}")
    for name, module in CHAPTERS.items()
    for exercise in module.check.exercises.values()
]


@pytest.mark.parametrize(("module", "exercise"), EXERCISES)
def test_the_reference_passes(module, exercise, capsys):
    assert module.check(as_answer(exercise, exercise.reference))


@pytest.mark.parametrize(("module", "exercise"), EXERCISES)
def test_an_exercise_knows_six_mistakes(module, exercise):
    assert len(exercise.mistakes) >= 6


# Each by itself: an exercise's dozens take a minute, and two processes share them. `make test` has
# the first three of each exercise.
MISTAKES = [
    pytest.param(
        *parameter.values,
        description,
        id=f"{parameter.id}-{number}",
        marks=pytest.mark.slow if number >= 3 else (),
    )
    for parameter in EXERCISES
    for number, description in enumerate(parameter.values[1].mistakes)
]


@pytest.mark.parametrize(("module", "exercise", "description"), MISTAKES)
def test_every_known_mistake_is_diagnosed_as_itself(module, exercise, description, capsys):
    wrong = exercise.mistakes[description]
    for variant in wrong if isinstance(wrong, list) else [wrong]:
        result = module.check(as_answer(exercise, variant))
        mistake, see, place = description.partition(" (see ")
        assert f"That is what happens when {mistake}." in result.report
        assert (f"Look again at {place[:-1]}." in result.report) == bool(see)
        assert "(see " not in result.report


@pytest.mark.slow
@pytest.mark.parametrize(("module", "exercise"), EXERCISES)
def test_a_known_mistake_takes_the_arguments_of_its_exercise(module, exercise):
    # One case for each way of calling it.
    cases = {(len(case.args), *sorted(case.kwargs)): case for case in exercise.cases}
    for description, wrong in exercise.mistakes.items():
        for variant in wrong if isinstance(wrong, list) else [wrong]:
            for case in cases.values():
                error = run(exercise, variant, case).error
                assert not re.search(r"takes .* positional arguments? but", str(error)), description


@pytest.mark.parametrize(("module", "exercise"), EXERCISES)
def test_the_section_to_read_again_exists(module, exercise):
    name = module.__name__.rpartition(".")[2].removeprefix("chapter")
    (notebook,) = (ROOT / "chapters").glob(f"{name}*.ipynb")
    cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
    text = "\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown")
    assert re.search(rf"^###? {re.escape(exercise.section)}$", text, re.M)


@pytest.mark.parametrize(("name", "module"), CHAPTERS.items())
def test_a_notebook_shows_how_many_cases_there_are(name, module):
    """A case more is a notebook to run again."""
    (notebook,) = (ROOT / "chapters").glob(f"{name.removeprefix('chapter')}*.ipynb")
    shown = re.findall(r"✓ (\w+): all (\d+) cases", notebook.read_text(encoding="utf-8"))
    assert shown
    for exercise, cases in shown:
        assert len(module.check.exercises[exercise].cases) == int(cases), exercise
