"""The exercise checkers' framework: what it says of an answer, and what it leaves alone."""

import asyncio
import contextlib
import importlib
import io
import json
import math
import pkgutil
import random
import re
import signal
import subprocess
import sys
import time
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

import transformer_lib.checks
from transformer_lib.checks import Case, Checker, Exercise, Flaw, Parts, run
from transformer_lib.checks.chapter05 import check as functions
from transformer_lib.checks.chapter07 import check as modules
from transformer_lib.checks.chapter13 import check as training
from transformer_lib.checks.compare import difference
from transformer_lib.checks.inputs import integers

ROOT = Path(__file__).resolve().parents[2]


def checker(reference, *cases, name="f", **more):
    exercise = {"section": "Again", "mistakes": {}, **more}
    return Checker(Exercise(name=name, reference=reference, cases=lambda: list(cases), **exercise))


def report(check, answer):
    (answer.__name__,) = check.exercises
    return check(answer).report


def said(check, answer):
    return " ".join(report(check, answer).split())


double = checker(
    lambda x: 2 * x,
    Case((torch.tensor([1.0, 2.0]),), "twice 1 is 2"),
    Case((torch.tensor([3.0, 4.0]),), "3 is added to itself"),
    mistakes={"the number is squared": lambda x: x**2},
    section="Twice as much",
)
scalar = checker(lambda x: 2 * x, Case((1,), "twice 1 is 2"), Case((3,), "3 is added to itself"))


# ------------------------------------------------------------------------------- the report


def test_the_whole_report():
    assert report(double, lambda x: x * x) == (
        "✗ f: 0 of 2 cases pass. 1 of the 2 numbers in the result is wrong.\n"
        "    f(torch.tensor([1.0, 2.0]))\n"
        "    gives     torch.tensor([1.0, 4.0])\n"
        "    expected  torch.tensor([2.0, 4.0])\n"
        "That is what happens when the number is squared.\n"
        'See the section "Twice as much".'
    )
    assert report(double, lambda x: x + x) == "✓ f: all cases pass."


def test_without_a_known_mistake_the_case_says_its_point():
    text = report(double, lambda x: x + torch.tensor([1.0, 2.0]))
    assert text.startswith("✗ f: 1 of 2 cases passes. Both numbers in the result are wrong.\n")
    assert "The point of this case: 3 is added to itself.\n" in text


def test_a_mistake_must_agree_in_every_case():
    assert "the number is squared" not in report(double, lambda x: x**2 if x[0] < 2 else 0 * x)


def test_a_call_can_be_pasted():
    long = torch.tensor([1 / 3, torch.inf, -3e9], dtype=torch.float64)
    for args, kwargs in (
        ((integers(2, 3), {"a": ["b"], "c": [1, 2.5]}), {"n": None}),
        ((long, ()), {"n": {1}}),
        ((integers(4, 5).half(), "word"), {"n": b"\x00"}),
        ((integers(4, 5).long(), [True]), {"n": torch.zeros(2, 1).bool()}),
    ):
        check = checker(lambda x, words, *, n: 1, Case(args, "", kwargs=kwargs))
        code = re.findall("^    (.*)$", report(check, lambda x, words, *, n: 0), re.M)
        names = {"torch": torch, "f": lambda *a, n: (a, n)}
        exec("\n".join([*code[:-1], f"given = {code[-1]}"]), names)
        assert not difference(names["given"], (args, kwargs["n"]))
        assert names["given"][0][0].dtype is args[0].dtype


def test_what_cannot_be_typed_is_handed_out():
    check = checker(lambda f, x: f(x), Case((math.sqrt, 4), "f is called"))
    answer = lambda f, x: f(x) + 1  # noqa: E731
    text = report(check, answer)
    assert "    f, args, kwargs = check.case(f, 1)\n    f(*args, **kwargs)\n" in text
    f, args, kwargs = check.case(answer, 1)
    assert f(*args, **kwargs) == 3
    with pytest.raises(ValueError, match="number must be 1 to 1; got 2"):
        check.case(answer, 2)


def test_numbers_too_many_to_show_are_not_mixed_with_shapes():
    check = checker(lambda x: 2 * x, Case((torch.ones(7, 11),), "long"))
    text = report(check, lambda x: x)
    assert "check.case(f, 1)" in text
    assert "The first is at [0, 0]: 1; expected 2.\n" in text


def test_a_list_is_shown_whole_where_one_item_is_wrong():
    check = checker(lambda x: [[x, 2]], Case((1,), "two of them"))
    for answer in (lambda x: [[x]], lambda x: [[x, 3]]):
        assert "    gives     [[1" in report(check, answer)
        assert "    expected  [[1, 2]]\n" in report(check, answer)


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (lambda x: print(end=""), "`f` returned None: is a `return` missing?"),
        (lambda x: np.ones(2), "The result is a NumPy array; it must be a tensor."),
        (lambda x: [2.0, 4.0], "The result is a list of length 2; it must be a tensor."),
        (lambda x: (y for y in x), "The result is a generator, which `yield` makes"),
        (lambda x: asyncio.sleep(0), "`f` returned a coroutine: write `def` without `async`."),
        (lambda x: x.sum, "The result is a function: are the parentheses of a call missing?"),
        (lambda x: (2 * x, x), "Its item 0 is right: return that alone."),
        (lambda: 1, "The exercise calls f(x); yours is defined as f()."),
        (lambda x: y, "It raises NameError: name 'y' is not defined"),  # noqa: F821
        (lambda x: torch.sofmax(x), "It raises AttributeError: module 'torch' has no attribute"),
        (lambda x: exit(), "It calls `exit()`, which would end Python."),
        (lambda x: input(), "It calls `input()`, and nobody is there to answer"),
        (lambda x: x.mul_(2), "it changes its input `x` in place"),
    ],
)
def test_what_speaks_for_itself_is_all_there_is(answer, words):
    text = said(double, answer)
    assert words in text
    for more in ("The point of", "That is what", "See the section", "check.case"):
        assert more not in text


def test_an_error_is_shown_with_the_line_the_shapes_and_its_meaning():
    def answer(x):
        weight = torch.ones(3, 4)
        return weight @ x

    text = report(double, answer)
    assert "    in the line  return weight @ x\n" in text
    assert "    where `weight` has shape (3, 4), `x` has shape (2,)\n" in text


def test_a_guess_is_for_an_unknown_mistake_alone():
    x = torch.ones(2, 3)
    answer = lambda x: x @ x  # noqa: E731
    for mistakes in ({}, {"a transpose is missing": answer}):
        check = checker(lambda x: x @ x.mT, Case((x,), "rows meet rows"), mistakes=mistakes)
        assert ("one transpose too many" in said(check, answer)) is not bool(mistakes)


def test_no_code_of_the_learner_runs_again_to_explain_an_error():
    ran = []

    def noted(x):
        ran.append(1)
        return x.reshape(5)

    def answer(x):
        return noted(x) + x

    report(double, answer)
    assert len(ran) == 2  # once for each case


def test_an_empty_answer_is_told_so_and_nothing_more():
    def f(x):
        """Twice x."""
        ...

    class LayerNorm(nn.Module):
        def __init__(self, d_model, eps=1e-5):
            super().__init__()
            ...

        def forward(self, x): ...

    assert report(double, f) == "`f` is still empty."
    assert modules(LayerNorm).report == "`LayerNorm` is still empty."
    assert report(double, lambda x: 5) != "`f` is still empty."


def test_prints_come_last_and_of_the_shown_case_alone(capsys):
    def answer(x):
        for i in range(400):
            print(i, x.sum().item())
        return 2 * x if x[0] < 2 else x

    text = report(double, answer)
    head, prints = text.split("It printed (the first 20 lines):\n")
    assert "See the section" in head
    assert prints.splitlines() == [f"    {i} 7.0" for i in range(20)]
    assert capsys.readouterr().out == f"{text}\n"
    assert report(double, lambda x: print("fine") or 2 * x) == "✓ f: all cases pass."


def test_what_a_use_finds_has_names():
    def use(answer, /, x):
        return Parts({"The second result": answer(answer(x))})

    check = checker(lambda x: 2 * x, Case((1,), "it is called twice"), use=use)
    assert "The second result is 9; expected 4." in said(check, lambda x: x + 4)
    assert "`f` returned None" in said(check, lambda x: print(x))


def test_a_use_and_a_model_can_say_what_is_wrong():
    def strict(x):
        raise Flaw("The model is asked twice.")

    check = checker(lambda f, x: x, Case((strict, 1), "no model needed"))
    assert said(check, lambda f, x: f(x)) == "✗ f: 0 of 1 cases pass. The model is asked twice."


def test_an_input_that_is_meant_to_change_is_compared():
    def reference(rows):
        rows.append(1)
        return 0

    check = checker(reference, Case(([],), "1 is added"), changes=frozenset({"rows"}))
    assert report(check, reference)[0] == "✓"
    assert "It leaves `rows` as it was." in said(check, lambda rows: 0)


def test_gradient_and_dtype_and_plain_numbers_are_kept():
    case = Case((torch.tensor([1.0, 2.0]).double(),), "twice")
    for keeps, answer, words in (
        ("gradient", lambda x: 2 * x.detach(), "no gradient reaches `x`"),
        ("gradient", lambda x: torch.from_numpy(2 * x.numpy()), "NumPy has no gradients"),
        ("gradient", lambda x: x + x.detach(), "the gradient of `x` isn't: part of it is cut off"),
        ("dtype", lambda x: 2 * x.float(), "their dtype is float32; for this input it must be fl"),
    ):
        check = checker(lambda x: 2 * x, case, keeps=frozenset({keeps}))
        assert report(check, lambda x: x + x)[0] == "✓"
        assert words in said(check, answer)
    check = checker(lambda x: 2.0 * x, Case((3,), "a number"), keeps=frozenset({"number"}))
    assert "return a plain number" in said(check, lambda x: torch.tensor(6.0))


def test_a_wrong_formula_is_not_told_of_its_gradient():
    cases = [Case((torch.zeros(2),), "nothing"), Case((torch.ones(2),), "twice")]
    check = checker(lambda x: 2 * x, *cases, keeps=frozenset({"gradient"}))
    assert "1 of 2 cases passes. Both numbers" in said(check, lambda x: 3 * x * x)


def test_another_default_is_named_where_all_that_fails_relies_on_it():
    cases = [Case((1,), "n is left out"), Case((1, 5), "n is given")]
    check = checker(lambda x, n=2: n * x, *cases)
    assert "when `n` is 3 by default, not 2." in said(check, lambda x, n=3: n * x)
    assert "by default" not in said(check, lambda x, n=3: x - n)


def test_the_weights_of_a_module_can_stay_in_float32():
    class Scale(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.ones(2))

        def forward(self, x):
            return x * self.weight.to(x)

    class Widened(Scale):
        def forward(self, x):
            return x * self.weight

    x, keeps = torch.ones(1, 2).half(), frozenset({"dtype"})
    for weights, sign in ((None, "✓"), (torch.float32, "✗")):
        case = Case((x,), "16 bits", init={}, weights=weights)
        assert report(checker(Scale, case, name="Scale", keeps=keeps), Widened)[0] == sign


def test_an_answer_is_found_by_the_variable_that_holds_it():
    leaks = lambda *given: True  # noqa: E731
    assert functions(leaks).report.startswith("✗ leaks")
    assert "`check` knows no exercise for a lambda" in functions(lambda x: x).report
    assert "write check(LayerNorm)" in modules(nn.LayerNorm(3)).report
    assert "not a function: hand over the name alone" in functions(5).report


# ---------------------------------------------------------------------- what a check leaves alone


def spoiling(x):
    """Right, and it changes all the settings that it can reach."""
    torch.manual_seed(5)
    random.seed(5)
    np.random.seed(5)
    torch.set_default_dtype(torch.float64)
    torch.set_grad_enabled(False)
    warnings.simplefilter("error")
    sys.stdout = io.StringIO()
    return 2 * x


def settings():
    drawn = torch.rand(1).item(), random.random(), np.random.rand()
    return drawn, torch.get_default_dtype(), torch.is_grad_enabled()


def test_a_check_leaves_no_trace():
    def seeded():
        torch.manual_seed(1)
        random.seed(1)
        np.random.seed(1)

    seeded()
    before, stdout, filters = settings(), sys.stdout, [*warnings.filters]
    seeded()
    assert report(double, spoiling)[0] == "✓"
    assert settings() == before
    assert sys.stdout is stdout
    assert warnings.filters == filters


@contextlib.contextmanager
def in_float64():
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


@pytest.mark.parametrize(
    "session",
    [
        in_float64,
        torch.no_grad,
        torch.inference_mode,
        lambda: torch.autocast("cpu"),
        lambda: torch.device("meta"),
    ],
)
def test_a_check_behaves_as_in_a_fresh_kernel(session):
    def reference(x):
        return 2 * x + torch.ones(2)

    case = Case((torch.tensor([1.0, 2.0]),), "twice")
    check = checker(reference, case, keeps=frozenset({"gradient", "dtype"}))
    with session():
        sign = report(check, lambda x: 2 * x + 1)[0]
    assert sign == "✓"


def test_a_chapter_imported_in_an_odd_session_has_the_same_cases():
    code = (
        "import torch; torch.set_default_dtype(torch.float64); torch.set_grad_enabled(False)\n"
        "from transformer_lib.checks.chapter07 import check\n"
        "reference = check.exercises['LayerNorm'].reference\n"
        "print(check(reference), torch.get_default_dtype())"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)
    assert done.stdout.endswith("Result(passed=True) torch.float64\n"), done.stderr


def test_one_limit_holds_for_all_cases_together(monkeypatch):
    monkeypatch.setattr(run, "SECONDS", 0.2)
    calls = []

    def slow(x):
        calls.append(x)
        until = time.process_time() + 0.15
        while time.process_time() < until:
            pass
        return 2 * x

    check = checker(lambda x: 2 * x, *(Case((i,), "twice") for i in range(50)))
    assert "It was still running after 0.2 seconds" in said(check, slow)
    assert len(calls) < 4

    begun = time.monotonic()
    assert "It was still running after 0.2 seconds" in said(check, lambda x: time.sleep(60))
    assert time.monotonic() - begun < 30


@pytest.fixture
def a_terminal():
    """A process that a shell has started in the background ignores Ctrl-C."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("a_terminal")
def test_a_real_interrupt_still_interrupts():
    def pressed(x):
        with contextlib.suppress(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
        return 2 * x

    with pytest.raises(KeyboardInterrupt):
        report(double, pressed)

    def raised(x):
        raise KeyboardInterrupt

    assert "It raises KeyboardInterrupt." in said(double, raised)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_notebook_shows_the_report_once_and_survives_exit(capsys):
    from IPython.core.interactiveshell import InteractiveShell

    shell = InteractiveShell.instance()
    asked = []
    shell.ask_exit = lambda: asked.append(1)
    shell.run_cell(
        "from transformer_lib.checks.chapter05 import check\n"
        "def causal(t, s):\n    get_ipython().ask_exit()\n"
        "result = check(causal)"
    )
    assert not asked
    assert "It calls `exit()`" in shell.user_ns["result"].report
    data, metadata = shell.display_formatter.format(shell.user_ns["result"])
    assert data == metadata == {}


# ---------------------------------------------------------------------- whatever is handed over


class Untouchable:
    def _no(self, *args, **kwargs):
        raise RuntimeError("do not touch me")

    __eq__ = __len__ = __iter__ = __repr__ = __str__ = __bool__ = __float__ = __getitem__ = _no
    __hash__ = None


class SilentError(Exception):
    def __str__(self):
        raise RuntimeError("no message")


class OwnEnd(BaseException):
    pass


def raising(error):
    def raises():
        raise error

    return raises


def endless():
    while True:
        pass


def endless_and_deaf():
    while True:
        try:
            while True:
                print("again")
        except:  # noqa: E722
            pass


def recursive():
    return recursive()


async def later():
    return 1


def spoil(args):
    for each in args:
        if isinstance(each, torch.Tensor) and not each.is_leaf:
            each.mul_(2)
        elif isinstance(each, torch.Tensor | list):
            each[:] = each[:1] * len(each) if isinstance(each, list) else 1
        elif isinstance(each, nn.Module):
            each.requires_grad_(False)
    return 1


VALUES = [
    None, 0, 1, -1, True, False, 0.5, math.nan, math.inf, 1j, 10**400, "", "text", b"bytes", (), [],
    {}, set(), [[]], [1, 2], (None,), [None, None], {"a": 1}, {1}, range(3), ..., NotImplemented,
    int, torch, print, torch.nan, object(), Untouchable(), [Untouchable()], SilentError(),
    np.ones(2), np.float32(1), np.array(["a"]), torch.ones(()), torch.ones(0), torch.ones(2, 3),
    torch.full((3,), math.nan), torch.ones(2, dtype=torch.complex64), torch.ones(2).bool(),
    torch.ones(2).to_sparse(), torch.ones(2, device="meta"), nn.Linear(2, 2), nn.Linear,
    torch.nested.nested_tensor([torch.ones(1), torch.ones(2)]),
]  # fmt: skip
ACTS = [
    *(raising(e) for e in (ValueError(), SilentError(), OwnEnd(), KeyboardInterrupt(), Flaw("."))),
    *(raising(e) for e in (StopIteration(), GeneratorExit(), MemoryError(), SystemExit(3))),
    endless, endless_and_deaf, recursive, later, exit, lambda: (x for x in [1]), lambda: 1 / 0,
    lambda: iter([1]), lambda: undefined, input, lambda: torch.ones(2) @ torch.ones(3),  # noqa: F821
    lambda: print("x\n" * 1000), lambda: sys.stdout.close(),
]  # fmt: skip
HOSTILE = [
    *(lambda *args, value=value: value for value in VALUES),
    *(lambda *args, act=act: act() for act in ACTS),
    lambda *args: spoil(args),
    lambda **kwargs: 1,
    lambda *args: args,
    lambda *args: args[0],
]


def as_module(answer):
    class LayerNorm(nn.Module):
        def __init__(self, d_model, eps=1e-5):
            super().__init__()
            self.weight = nn.Parameter(torch.ones(d_model))
            self.bias = nn.Parameter(torch.zeros(d_model))

        def forward(self, *args):
            return answer(*args)

    return LayerNorm


@pytest.mark.parametrize(
    ("check", "name"),
    [(functions, "masked_attention"), (functions, "leaks"), (modules, "LayerNorm"),
     (training, "three_tensors"), (training, "joint_update")],
)  # fmt: skip
def test_no_answer_ends_in_a_traceback(check, name, monkeypatch):
    monkeypatch.setattr(run, "SECONDS", 0.1)
    for answer in HOSTILE:
        answer = as_module(answer) if name == "LayerNorm" else answer
        answer.__name__ = name
        text = check(answer).report
        assert text.startswith(("✗", f"`{name}` is still empty."))
        assert "transformer_lib" not in text
        assert len(text.splitlines()) < 45


@pytest.mark.parametrize(
    "init", [lambda self: None, lambda self, d_model, eps=1: endless(), lambda *given: exit()]
)
def test_no_constructor_ends_in_a_traceback(init, monkeypatch):
    monkeypatch.setattr(run, "SECONDS", 0.1)
    forward = {"forward": lambda self, x: 2 * x}
    answer = type("LayerNorm", (nn.Module,), {"__init__": init, **forward})
    assert modules(answer).report.startswith("✗")


# --------------------------------------------------------------- the checkers of all the chapters

CHAPTERS = {
    module.name: importlib.import_module(f"transformer_lib.checks.{module.name}").check
    for module in pkgutil.iter_modules(transformer_lib.checks.__path__)
    if module.name.startswith("chapter") or module.name == "project"
}
EXERCISES = [
    pytest.param(name, exercise, id=f"{name}-{exercise.name}")
    for name, check in CHAPTERS.items()
    for exercise in check.exercises.values()
]


@pytest.mark.parametrize(("chapter", "exercise"), EXERCISES)
def test_the_section_exists(chapter, exercise):
    (notebook,) = (ROOT / "chapters").glob(f"{chapter.removeprefix('chapter')}*.ipynb")
    cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
    text = "\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown")
    assert re.search(rf"^###? {re.escape(exercise.section)}$", text, re.M)


def as_answer(exercise, answer):
    if isinstance(answer, type):
        return type(exercise.name, (answer,), {})
    answer = (lambda f: lambda *args, **kwargs: f(*args, **kwargs))(answer)
    answer.__name__ = exercise.name
    return answer


@pytest.mark.parametrize(("chapter", "exercise"), EXERCISES)
def test_the_reference_passes_and_each_mistake_is_named(chapter, exercise):
    check = CHAPTERS[chapter]
    assert check(as_answer(exercise, exercise.reference))
    assert 0 < len(exercise.mistakes) <= 12
    for description, wrong in exercise.mistakes.items():
        result = check(as_answer(exercise, wrong))
        assert result.reason == f"That is what happens when {description}.", result.report
    for case in run.cases_of(exercise):
        assert case.why
        assert not case.why.endswith(".")
