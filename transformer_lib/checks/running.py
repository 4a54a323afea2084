"""Running an answer on a case: a learner's, a mistake's and the reference's alike."""

from __future__ import annotations

import contextlib
import copy
import inspect
import io
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor, nn

from transformer_lib.checks import modules
from transformer_lib.checks.compare import difference
from transformer_lib.checks.deadline import StillRunning, time_limit
from transformer_lib.checks.exercise import Case, Exercise

__all__ = ["Outcome", "contents", "known", "lost", "run", "silent"]


@dataclass(frozen=True)
class Outcome:
    """What came of one run.

    Args:
        value: the result.
        error: the exception, where there was one.
        changed: the first argument that was altered in place and should not have been.
        after: what the inputs hold that are there to be changed.
        note: how weights were matched, where their names did not tell.
    """

    value: Any = None
    error: BaseException | None = None
    changed: str | None = None
    after: Mapping[str, Any] = field(default_factory=dict)
    note: str | None = None

    @property
    def numbers(self) -> Any:
        """All that is compared."""
        return (self.value, self.after) if self.after else self.value


@contextlib.contextmanager
def silent() -> Iterator[None]:
    """The learner's own prints are shown once, not at every further run."""
    with contextlib.redirect_stdout(io.StringIO()):
        yield


def run(
    exercise: Exercise,
    answer: Callable[..., Any],
    case: Case,
    *,
    seed: int = 0,
    seconds: float | None = None,
) -> Outcome:
    """Run `answer` on copies of the case's inputs, with random numbers from `seed`.

    The random numbers of whoever calls are left as they are.
    """
    args, kwargs = copy.deepcopy((case.args, case.kwargs))
    limit = contextlib.nullcontext() if seconds is None else time_limit(seconds)
    built = None
    with modules.seeded(seed):
        try:
            with limit:
                if case.init is not None:
                    built = modules.build(exercise.reference, answer, case)
                value = exercise.use(built.module if built else answer, *args, **kwargs)
                if inspect.isgenerator(value):
                    value = list(value)
                if built:
                    built.check_hooks()
        except (Exception, StillRunning) as error:  # whatever can be raised is for the report
            return Outcome(error=error)
    now = _by_name(exercise, case, args, kwargs)
    changed = next(
        (
            name
            for name, before in exercise.inputs(case).items()
            if name not in exercise.changes and _altered(now[name], before)
        ),
        None,
    )
    after = {name: contents(now[name]) for name in exercise.changes if name in now}
    return Outcome(value, None, changed, after, built.note if built else None)


def known(exercise: Exercise, answer: Callable[..., Any], case: Case) -> Outcome:
    """`run` of the exercise's reference or of one of its mistakes, which always gives the same.

    So each runs once on each case, however many answers are compared with it. Kept is what is
    compared, without the run behind it: the graph of its gradients, the frames of an error.
    """

    def settled() -> Outcome:
        outcome = run(exercise, answer, case)
        if outcome.error is not None and answer is not exercise.reference:
            outcome.error.with_traceback(None)
        return replace(outcome, value=_detached(outcome.value), after=_detached(outcome.after))

    return _once(exercise, (id(answer), id(case)), settled)


def _once(exercise: Exercise, key: Any, make: Callable[[], Any]) -> Any:
    """What `make` gives, kept with the exercise, which also keeps whatever `key` is the id of."""
    if key not in exercise.known:
        exercise.known[key] = make()
    return exercise.known[key]


def _detached(value: Any) -> Any:
    if isinstance(value, Tensor):
        return value.detach()
    if type(value) is dict:
        return {key: _detached(v) for key, v in value.items()}
    if type(value) in (list, tuple):
        return type(value)(map(_detached, value))
    if isinstance(value, tuple) and hasattr(value, "_make"):  # a named tuple keeps its names
        return value._make(map(_detached, value))  # type: ignore
    return value


def _by_name(exercise: Exercise, case: Case, args: tuple, kwargs: Mapping) -> dict[str, Any]:
    return exercise.inputs(Case(case.label, *args, init=case.init, **kwargs))


def contents(value: Any) -> Any:
    """What can be compared in an input: of a model, what it has learned."""
    return dict(value.state_dict()) if isinstance(value, nn.Module) else value


def _altered(now: Any, before: Any) -> bool:
    now, before = contents(now), contents(before)
    # A copy of a model, a function or an object of a class of one's own equals nothing else.
    comparable = Tensor | int | float | str | list | tuple | dict | set
    return isinstance(before, comparable) and bool(difference(now, before))


# --------------------------------------------------------------------- what an answer must keep


def lost(exercise: Exercise, answer: Callable[..., Any], case: Case) -> str | None:
    """The evidence where an answer with the right numbers loses what `exercise.keeps` names."""
    for what, probe in (("dtype", _dtype), ("device", _device), ("gradient", _gradient)):
        if what in exercise.keeps:
            evidence = probe(exercise, answer, case)
            if evidence:
                return evidence
    return None


def _dtype(exercise: Exercise, answer: Callable[..., Any], case: Case) -> str | None:
    found, wanted = (
        [t.dtype for t in tensors(outcome.value)]
        for outcome in (run(exercise, answer, case), known(exercise, exercise.reference, case))
    )
    if found == wanted:
        return None
    names = [", ".join(str(t).removeprefix("torch.") for t in ts) for ts in (found, wanted)]
    return f"The numbers are right, but they have dtype {names[0]}; for this input, {names[1]}."


def _device(exercise: Exercise, answer: Callable[..., Any], case: Case) -> str | None:
    """Every input is moved to the device "meta", which knows shapes only and clashes like a GPU."""
    args, kwargs = _mapped((case.args, case.kwargs), lambda t: t.to("meta"))
    try:
        if case.init is not None:
            answer = modules.build(exercise.reference, answer, case).module.to("meta")
        exercise.use(answer, *args, **kwargs)
    except Exception as error:
        # Other exceptions: on this device there is nothing to look at, no .item() for instance.
        if "is not on the expected device" in str(error):
            return (
                "The numbers are right, but only on the CPU: on another device, your code "
                "meets a tensor that was left behind, or made, on the CPU."
            )
    return None


def _gradient(exercise: Exercise, answer: Callable[..., Any], case: Case) -> str | None:
    found = _gradients(exercise, answer, case)
    wanted = _once(
        exercise,
        ("gradients", id(case)),
        lambda: _gradients(exercise, exercise.reference, case),
    )
    for name, gradient in wanted.items():
        if gradient is None:
            continue
        if found.get(name) is None:
            return (
                f"The numbers are right, but no gradient reaches `{name}`: the way back from your "
                "result is cut, as by .detach(), .data, .item(), .numpy() or torch.tensor()."
            )
        if difference(found[name], gradient, atol=max(exercise.atol, 1e-4)):
            return (
                f"The numbers are right, but the gradient that reaches `{name}` is not: part of "
                "the way back is cut, as by .detach() or .data."
            )
    return None


def _gradients(
    exercise: Exercise, answer: Callable[..., Any], case: Case
) -> dict[str, Tensor | None]:
    """Of one weighted sum of all results, for every float input and parameter."""
    args, kwargs = _mapped(copy.deepcopy((case.args, case.kwargs)), lambda t: t.clone())
    leaves = {}
    for name, value in _by_name(exercise, case, args, kwargs).items():
        if isinstance(value, Tensor) and value.is_floating_point():
            leaves[name] = value.requires_grad_()
    with modules.seeded(0), torch.enable_grad():
        if case.init is not None:
            built = modules.build(exercise.reference, answer, case)
            answer, leaves = built.module, {**leaves, **built.parameters}
        try:
            results = tensors(exercise.use(answer, *args, **kwargs))
        except Exception:  # "can't call numpy() on a tensor that requires grad"
            return {}
        total: Any = 0
        for result in results:
            if result.requires_grad:
                weights = torch.linspace(1, 2, result.numel(), dtype=torch.float64)
                total = total + (result.double().flatten() * weights).sum()
    if not isinstance(total, Tensor):
        return {}
    gradients = torch.autograd.grad(total, [*leaves.values()], allow_unused=True)
    return dict(zip(leaves, gradients, strict=True))


def tensors(value: Any) -> list[Tensor]:
    """All float tensors in a result, whatever they are wrapped in."""
    found: list[Tensor] = []
    _mapped(value, lambda t: found.append(t) if t.is_floating_point() else None)
    return found


def _mapped(value: Any, function: Callable[[Tensor], Any]) -> Any:
    """The same lists, tuples and dicts with `function` applied to every tensor."""
    if isinstance(value, Tensor):
        return function(value)
    if isinstance(value, Mapping):
        return {key: _mapped(v, function) for key, v in value.items()}
    if isinstance(value, tuple | list):
        return [_mapped(v, function) for v in value]
    return value
