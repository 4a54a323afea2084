"""What is said of an answer: how many cases pass, the first that fails, and why."""

import dis
import inspect
import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from numbers import Real
from types import CodeType
from typing import Any

from torch import Tensor, nn

from transformer_lib.checks import run
from transformer_lib.checks.compare import Difference, difference
from transformer_lib.checks.errors import GUESS, explained
from transformer_lib.checks.exercise import Case, Exercise, Flaw, called
from transformer_lib.checks.run import Outcome, attempt, cases_of, inputs, known
from transformer_lib.checks.session import session
from transformer_lib.checks.show import dtype_name, kind, literal

__all__ = ["Result", "examine", "is_empty", "wrapped"]

_WIDTH = 76  # of a code cell
_LONGEST = 100  # of two results in which a reader can find the difference


@dataclass(frozen=True, eq=False)
class Result:
    """What `check` returns: true when every case passed. A notebook shows nothing for it."""

    passed: bool
    report: str = field(repr=False)
    count: str = field(default="", repr=False)  # "9 of 11 cases pass"
    reason: str = field(default="", repr=False)  # a sentence on what is wrong
    share: float = field(default=0.0, repr=False)  # of the cases, 0 to 1

    def __bool__(self) -> bool:
        return self.passed

    def _ipython_display_(self) -> None:  # the report is printed already
        pass


def examine(exercise: Exercise, answer: Callable[..., Any]) -> Result:
    """Whether the answer is right, and the report on it."""
    with session(0):  # whatever an answer spoils, and wherever it is stopped
        return _examine(exercise, answer)


def _examine(exercise: Exercise, answer: Callable[..., Any]) -> Result:
    name, cases = exercise.name, cases_of(exercise)
    if is_empty(answer):
        return Result(False, f"`{name}` is still empty.", reason="It is still empty.")
    used = _forbidden(exercise, answer)
    if used:
        return Result(False, wrapped(f"✗ {name}: {used}"), reason=used)
    outcomes = attempt(exercise, answer)
    findings = [_finding(exercise, answer, i, outcome) for i, outcome in enumerate(outcomes)]
    if "gradient" in exercise.keeps and not any(findings):
        # A wrong formula has another gradient as well, and none is cut off.
        rights = (known(exercise, exercise.reference, case) for case in cases)
        lost = [_lost_gradient(exercise, *pair) for pair in zip(outcomes, rights, strict=True)]
        findings = [(Difference(said, alone=True), []) if said else None for said in lost]
    failed = [i for i, finding in enumerate(findings) if finding]
    if not failed:
        return Result(True, f"✓ {name}: all cases pass.{_renamed(outcomes)}", share=1.0)
    passed, tried = len(outcomes) - len(failed), len(outcomes)
    first = failed[0]
    finding, details = findings[first]  # type: ignore
    count = f"{passed} of {tried} cases {'passes' if passed == 1 else 'pass'}"
    if tried < len(cases):  # the last one didn't end
        count = "" if first == tried - 1 else f"{passed} of the first {tried} cases pass"
    head = f"{count}. {finding.sentence}" if count else finding.sentence
    lines, reason = [f"✗ {name}: {head}", *details], finding.sentence
    point = f"The point of this case: {cases[first].why}."
    if not finding.alone:
        lines += _example(exercise, first, outcomes[first], finding)
        mistake = _mistake(exercise, outcomes, failed) if tried == len(cases) else None
        mistake = mistake or _default(exercise, answer, failed)
        if mistake:
            reason = f"That is what happens when {mistake}."
            lines = [*(line for line in lines if line != GUESS), reason]
        else:
            built = outcomes[first].built
            # An exception or a dtype speaks for itself.
            plain = outcomes[first].error is not None or " has dtype " in finding.sentence
            if first > 0 or not plain:
                lines.append(point)
            lines += [built.note] if built and built.note else []
        lines.append(f'See the section "{exercise.section}".')
    elif first > 0 and outcomes[first].changed:  # in the other cases it changes nothing
        lines.append(point)
    lines += _prints(outcomes[first])
    return Result(False, "\n".join(map(wrapped, lines)), count, reason, passed / len(cases))


def wrapped(line: str) -> str:
    """As wide as a code cell; lines of code stay whole."""
    if line.startswith("    "):
        return line
    return textwrap.fill(line, _WIDTH, subsequent_indent="  ", break_on_hyphens=False)


# ------------------------------------------------------------------------------- before it runs


def is_empty(answer: Any) -> bool:
    """Whether an answer is missing, or holds nothing but `...`, `pass` and a docstring."""
    if not isinstance(answer, type):
        return answer is None or (inspect.isfunction(answer) and _does_nothing(answer.__code__))
    functions = [each for each in vars(answer).values() if inspect.isfunction(each)]
    bases = answer.__mro__[1:]
    own = any(base.__module__ not in ("builtins", "torch.nn.modules.module") for base in bases)
    return not own and all(_does_nothing(each.__code__) for each in functions)


_IDLE = {
    "RESUME", "NOP", "LOAD_CONST", "RETURN_CONST", "RETURN_VALUE", "POP_TOP", "COPY_FREE_VARS",
    "MAKE_CELL",
}  # fmt: skip


def _does_nothing(code: CodeType) -> bool:
    """Whether it returns None and does nothing else, but for the call that a class begins with."""
    if code.co_names in (("super", "__init__"), ("__init__", "super")) and not code.co_consts[1:]:
        return [step.opname for step in dis.get_instructions(code)].count("RETURN_VALUE") <= 1
    steps = [*dis.get_instructions(code)]
    return all(
        step.opname in _IDLE and (step.opname != "LOAD_CONST" or step.argval in (None, ...))
        for step in steps
    ) and all(step.argval is None for step in steps if step.opname == "RETURN_CONST")


def _forbidden(exercise: Exercise, answer: Any) -> str | None:
    """The sentence where an answer is, or names, what it is to write itself."""
    functions = [*vars(answer).values()] if isinstance(answer, type) else [answer]
    for finished in exercise.forbids:
        name = finished.__name__
        if isinstance(answer, type) and isinstance(finished, type) and issubclass(answer, finished):
            return f"It is a subclass of the finished {name}: write what that does yourself."
        for function in map(inspect.unwrap, filter(inspect.isfunction, functions)):
            if _uses(function.__code__, finished, function.__globals__):
                return f"It uses the finished {name}: write what that does yourself."
    return None


def _uses(code: CodeType, finished: Any, known: Mapping[str, Any]) -> bool:
    """Whether it takes `finished` from a module, or by its name: the learner's may be equal."""
    name = finished.__name__
    return any(
        step.argval == name and (step.opname != "LOAD_GLOBAL" or known.get(name) is finished)
        for step in dis.get_instructions(code)
    ) or any(_uses(each, finished, known) for each in code.co_consts if isinstance(each, CodeType))


# -------------------------------------------------------------------------- what is wrong with it


def _finding(
    exercise: Exercise, answer: Any, i: int, outcome: Outcome
) -> tuple[Difference, list[str]] | None:
    case = cases_of(exercise)[i]
    right = known(exercise, exercise.reference, case)
    if outcome.error is not None:
        return explained(exercise.name, answer, outcome.error, run.SECONDS)
    if outcome.value is None and right.value is not None:
        said = f"`{exercise.name}` returned None: is a `return` missing?"
        return Difference(said, alone=True), []
    found = difference(outcome.value, right.value, atol=exercise.atol)
    if found:
        alone = _right_item(exercise, outcome.value, right.value)
        changed = f" It also changes its input `{outcome.changed}`." if outcome.changed else ""
        sentence = (alone or found.sentence) + changed
        return Difference(sentence, bool(alone) or found.alone, found.first), []
    for name, wanted in right.after.items():
        found = difference(outcome.after[name], wanted, f"`{name}` afterwards", atol=exercise.atol)
        if found:
            before = inputs(exercise, case, case.args, case.kwargs)[name]
            if difference(outcome.after[name], run.contents(before)) is None:
                found = Difference(f"It leaves `{name}` as it was.")
            elif isinstance(before, nn.Module):
                found = Difference(
                    f"Afterwards, the parameters of `{name}` are not what they should be."
                )
            return found, []
    lost = _lost(exercise, outcome, right)
    return (Difference(lost, alone=True), []) if lost else None


def _right_item(exercise: Exercise, value: Any, right: Any) -> str | None:
    """The sentence where the right result is there, and others with it."""
    if isinstance(value, list | tuple) and isinstance(right, Tensor):
        for i, item in enumerate(value):
            if isinstance(item, Tensor) and not difference(item, right, atol=exercise.atol):
                return f"The result is {kind(value)}. Its item {i} is right: return that alone."
    return None


def _lost(exercise: Exercise, outcome: Outcome, right: Outcome) -> str | None:
    """What an answer with the right numbers has lost or spoiled."""
    if outcome.changed:
        return (
            f"The result is right, but it changes its input `{outcome.changed}` in place: whoever "
            "uses it afterwards gets other numbers."
        )
    if "dtype" in exercise.keeps:
        for mine, wanted in zip(_floats(outcome.value, []), _floats(right.value, []), strict=False):
            if mine.dtype != wanted.dtype:
                return (
                    f"The numbers are right, but their dtype is {dtype_name(mine)}; for this input "
                    f"it must be {dtype_name(wanted)}."
                )
    if "number" in exercise.keeps and not isinstance(outcome.value, Real):
        return f"The number is right, but it is {kind(outcome.value)}: return a plain number."
    if "names" in exercise.keeps and outcome.built and outcome.built.renamed:
        theirs, yours = next(iter(outcome.built.renamed.items()))
        return (
            f"The numbers are right, but a parameter has another name: your `{yours}` must be "
            f"called `{theirs}`."
        )
    return None


def _floats(value: Any, found: list[Tensor]) -> list[Tensor]:
    """All float tensors in a result."""
    if isinstance(value, Tensor) and value.is_floating_point():
        found.append(value)
    elif isinstance(value, dict | list | tuple):
        for each in value.values() if isinstance(value, dict) else value:
            _floats(each, found)
    return found


def _lost_gradient(exercise: Exercise, outcome: Outcome, right: Outcome) -> str | None:
    if isinstance(outcome.gradients, Flaw):
        return str(outcome.gradients)
    assert not isinstance(right.gradients, Flaw), right.gradients
    for name, wanted in right.gradients.items():
        mine = outcome.gradients.get(name)
        if wanted is None:
            continue
        if mine is None:
            return (
                f"The numbers are right, but no gradient reaches `{name}`: something like "
                "`.detach()`, `.item()`, `.numpy()` or `torch.tensor()` cuts it off."
            )
        if wanted.isfinite().all() and not mine.isfinite().all():
            return (
                f"The numbers are right, but the gradient of `{name}` isn't finite. Most likely "
                "something is divided by 0, or by a number too small for this dtype."
            )
        if difference(mine, wanted, atol=max(exercise.atol, 1e-4)):
            return (
                f"The numbers are right, but the gradient of `{name}` isn't: part of it is cut "
                "off, as by `.detach()` or `.data`."
            )
    return None


def _renamed(outcomes: Sequence[Outcome]) -> str:
    """What a right module is told whose weights nobody will find by name."""
    built = outcomes[0].built
    if built is None or not built.renamed:
        return ""
    pairs = ", ".join(f"`{yours}` for {theirs}" for theirs, yours in built.renamed.items())
    return f"\n  It uses other names than the chapter: {pairs}."


# ------------------------------------------------------------------------------------ which mistake


def _mistake(exercise: Exercise, outcomes: Sequence[Outcome], failed: Sequence[int]) -> str | None:
    """The first known mistake that agrees with the answer in every case."""
    cases = cases_of(exercise)
    order = [*failed, *(i for i in range(len(cases)) if i not in failed)]  # quick to tell apart
    # Many mistakes end in the same exception: without a wrong number, the messages must agree.
    messages = all(outcomes[i].error is not None for i in failed)
    for description, wrong in exercise.mistakes.items():
        if all(_agree(exercise, outcomes[i], known(exercise, wrong, cases[i]), messages)
               for i in order):  # fmt: skip
            return description
    return None


def _default(exercise: Exercise, answer: Any, failed: Sequence[int]) -> str | None:
    """Another default than the exercise has, where every case that fails relies on it."""
    try:
        wanted, mine = (inspect.signature(f).parameters for f in (exercise.reference, answer))
    except Exception:  # built in, or an object of the learner's own
        return None
    given: set[str] = set()
    for case in (cases_of(exercise)[i] for i in failed):
        given |= {*(case.init or {}), *inputs(exercise, case, case.args, case.kwargs)}
    for name, parameter in mine.items():
        default, right = parameter.default, getattr(wanted.get(name), "default", None)
        numbers = isinstance(default, Real) and isinstance(right, Real)
        if numbers and default != right and name not in given:
            return f"`{name}` is {default!r} by default, not {right!r}"
    return None


def _agree(exercise: Exercise, one: Outcome, other: Outcome, messages: bool) -> bool:
    if other.changed and not one.changed:
        return False
    if one.error is None and other.error is None:
        pair = (one.value, one.after), (other.value, other.after)
        return difference(*pair, atol=exercise.atol) is None
    if type(one.error) is not type(other.error):
        return False
    try:
        # In any order: which of two tensors PyTorch names first says nothing.
        return not messages or sorted(str(one.error).split()) == sorted(str(other.error).split())
    except Exception:
        return False


# --------------------------------------------------------------------------------- the example


def _example(exercise: Exercise, i: int, outcome: Outcome, finding: Difference) -> list[str]:
    """The call as it can be pasted, what it gave and what it should have."""
    case = cases_of(exercise)[i]
    call = _typed(exercise, case, outcome)
    if call is None:
        call = [f"f, args, kwargs = check.case({exercise.name}, {i + 1})", "f(*args, **kwargs)"]
    lines = [f"    {line}" for line in call]
    right = known(exercise, exercise.reference, case).value
    told = "; expected " in finding.sentence and not isinstance(right, list | tuple)
    if outcome.error is not None or told:
        return lines
    pair = [literal(value, rounded=True) for value in (outcome.value, right)]
    long = finding.first and max(len(text or "") for text in pair) > _LONGEST
    if long or None in pair or pair[0] == pair[1]:
        return [*lines, *filter(None, [finding.first])]
    return [*lines, f"    gives     {pair[0]}", f"    expected  {pair[1]}"]


def _typed(exercise: Exercise, case: Case, outcome: Outcome) -> list[str] | None:
    """The call with its whole input; None where that's long, or not to be typed."""
    if exercise.use is not called:
        return None
    given = inputs(exercise, case, case.args, case.kwargs)
    texts = {name: literal(value) for name, value in given.items()}
    f, before = exercise.name, []
    if case.init is not None:
        before = _weights(exercise, case, outcome)
        f = "f"
    if None in texts.values() or before is None:
        return None
    keyword = {name: f"{name}=" if name in case.kwargs else "" for name in texts}
    whole = f"{f}({', '.join(keyword[name] + text for name, text in texts.items())})"  # type: ignore
    if len(whole) <= _WIDTH:
        return [*before, whole]
    if sum(len(text or "") for text in texts.values()) > 800:
        return None
    names = ", ".join(f"{keyword[name]}{name}" for name in texts)
    return [*before, *(f"{name} = {text}" for name, text in texts.items()), f"{f}({names})"]


def _weights(exercise: Exercise, case: Case, outcome: Outcome) -> list[str] | None:
    """How a module of a few numbers is made again."""
    if outcome.built is None:
        return None
    init = ", ".join(f"{name}={value!r}" for name, value in (case.init or {}).items())
    lines = [f"f = {exercise.name}({init})"]
    names = {**{name: name for name in outcome.built.parameters}, **outcome.built.renamed}
    for theirs, parameter in outcome.built.parameters.items():
        text = literal(parameter.detach().clone())
        if text is None or len(text) > _WIDTH or len(lines) > 4:
            return None
        lines.append(f"f.{names[theirs]}.data = {text}")
    return lines


def _prints(outcome: Outcome) -> list[str]:
    lines = [line for line in outcome.printed.getvalue().splitlines() if line.strip()]
    if not lines:
        return []
    head = "It printed (the first 20 lines):" if len(lines) > 20 else "It printed:"
    return [head, *(f"    {line[:200]}" for line in lines[:20])]
