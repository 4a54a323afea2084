"""Running an answer on the cases: a learner's, a mistake's and the reference's alike."""

import copy
import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from transformer_lib.checks.compare import difference
from transformer_lib.checks.deadline import StillRunning, limited
from transformer_lib.checks.exercise import Case, Exercise, Flaw, called
from transformer_lib.checks.modules import Built, build, misfit
from transformer_lib.checks.session import Printed, session

__all__ = ["SECONDS", "Outcome", "attempt", "cases_of", "contents", "inputs", "known", "used"]

SECONDS = 10.0  # for one check, all its cases together


@dataclass(frozen=True)
class Outcome:
    """What came of one run.

    Args:
        value: the result, without the graph behind it.
        error: the exception, where there was one.
        after: what the inputs hold that are meant to change.
        changed: another input that is no longer what it was.
        gradients: what reaches each float input and parameter, or why nothing can.
        built: of a class, the module.
        printed: what the code has printed.
    """

    value: Any = None
    error: BaseException | None = None
    after: Mapping[str, Any] = field(default_factory=dict)
    changed: str | None = None
    gradients: Mapping[str, Tensor | None] | Flaw = field(default_factory=dict)
    built: Built | None = None
    printed: Printed = field(default_factory=Printed)


def attempt(exercise: Exercise, answer: Callable[..., Any]) -> list[Outcome]:
    """What comes of the answer in each case, up to one that doesn't end."""
    cases = cases_of(exercise)
    for case in cases:  # beforehand: the time is for the answer alone
        known(exercise, exercise.reference, case)
    outcomes: list[Outcome] = []

    def run_all() -> None:
        for seed, case in enumerate(cases):
            outcomes.append(_run(exercise, answer, case, seed))
            if isinstance(outcomes[-1].error, StillRunning | KeyboardInterrupt):
                return

    try:
        limited(SECONDS, run_all)
    except StillRunning as error:
        if not outcomes or not isinstance(outcomes[-1].error, StillRunning):
            outcomes.append(Outcome(error=error))
    return outcomes[: len(cases)]


@functools.cache
def cases_of(exercise: Exercise) -> Sequence[Case]:
    with session(0):
        return list(exercise.cases())


@functools.cache
def known(exercise: Exercise, answer: Callable[..., Any], case: Case) -> Outcome:
    """What the reference or a known mistake gives: it runs once, however many answers come."""
    outcome = _run(exercise, answer, case, cases_of(exercise).index(case))
    if outcome.error is not None and answer is exercise.reference:
        raise outcome.error
    return outcome


def _run(exercise: Exercise, answer: Callable[..., Any], case: Case, seed: int) -> Outcome:
    built: Built | None = None
    with session(seed) as printed:
        try:
            args, kwargs = copy.deepcopy((case.args, dict(case.kwargs)))
            leaves: dict[str, Tensor] = {}
            if "gradient" in exercise.keeps:
                args, kwargs = _tracked(exercise, case, args, kwargs, leaves)
            if case.init is not None:
                built = build(exercise.reference, answer, case)
                leaves |= built.parameters if "gradient" in exercise.keeps else {}
            value = exercise.use(used(exercise, answer, case, built), *args, **kwargs)
            gradients = _gradients(value, leaves) if leaves else {}
        except BaseException as error:  # whatever can be raised is for the report
            return Outcome(error=error, built=built, printed=printed)
        now = inputs(exercise, case, args, kwargs)
        after = {name: contents(now[name]) for name in exercise.changes}
        changed = (
            name
            for name, before in inputs(exercise, case, case.args, case.kwargs).items()
            if name not in exercise.changes and _altered(now[name], before)
        )
        value = _settled(value)
        return Outcome(value, None, after, next(changed, None), gradients, built, printed)


def used(
    exercise: Exercise, answer: Callable[..., Any], case: Case, built: Built | None
) -> Callable[..., Any]:
    """What `use` gets: the module, or the function, of which wrong arguments and None are told."""
    if built is not None:
        if exercise.use is called:
            names = [*inputs(exercise, case, case.args, case.kwargs)]
            misfit("forward", built.module.forward, case.args, case.kwargs, names)
        return built.module
    names = [*inspect.signature(exercise.reference).parameters]

    @functools.wraps(answer)
    def watched(*args: Any, **kwargs: Any) -> Any:
        misfit(exercise.name, answer, args, kwargs, names)
        value = answer(*args, **kwargs)
        if inspect.iscoroutine(value):
            value.close()  # or Python warns that nobody has waited for it
            raise Flaw(f"`{exercise.name}` returned a coroutine: write `def` without `async`.")
        if value is None:
            raise Flaw(f"`{exercise.name}` returned None: is a `return` missing?")
        return value

    return watched


def inputs(
    exercise: Exercise, case: Case, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> dict[str, Any]:
    """The arguments under the names that the exercise gives them."""
    _, *named = inspect.signature(exercise.use).parameters.values()
    if any(p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD) for p in named):
        function = exercise.reference
        if case.init is not None:
            function = functools.partial(getattr(function, "forward"), None)  # noqa: B009
        named = [*inspect.signature(function).parameters.values()]
    return {**dict(zip((p.name for p in named), args, strict=False)), **kwargs}


# ------------------------------------------------------------------------ what becomes of inputs


def contents(value: Any) -> Any:
    """What can be compared in an input: of a model, what it has learned."""
    state = value.state_dict() if isinstance(value, nn.Module) else value
    return _settled(dict(state) if isinstance(value, nn.Module) else state)


def _altered(now: Any, before: Any) -> bool:
    now, before = contents(now), contents(before)
    # A copy of a function or of an object of a class of one's own equals nothing else.
    comparable = Tensor | int | float | str | list | tuple | dict | set
    return isinstance(before, comparable) and difference(now, before) is not None


def _settled(value: Any) -> Any:
    """As it is now, without the graph: an answer may go on changing what it has returned."""
    return _mapped(value, lambda t: t.detach().clone())


def _mapped(value: Any, function: Callable[[Tensor], Any]) -> Any:
    """The same lists, tuples and dicts with `function` applied to every tensor."""
    if isinstance(value, Tensor):
        return function(value)
    if isinstance(value, dict):
        kind = type(value) if type(value).__init__ is dict.__init__ else dict
        return kind({key: _mapped(each, function) for key, each in value.items()})
    if isinstance(value, list | tuple):
        mapped = [_mapped(each, function) for each in value]
        return mapped if isinstance(value, list) else tuple(mapped)
    return value


# ------------------------------------------------------------------------------------- gradients


def _tracked(
    exercise: Exercise, case: Case, args: tuple, kwargs: dict, leaves: dict[str, Tensor]
) -> tuple[tuple, dict]:
    """Float inputs that note what reaches them. They're no leaves, so that `+=` raises nothing."""
    names = {id(each): name for name, each in inputs(exercise, case, args, kwargs).items()}
    made: dict[int, Tensor] = {}

    def track(tensor: Tensor) -> Tensor:
        if not tensor.is_floating_point():
            return tensor
        if id(tensor) not in made:
            name = names.get(id(tensor), f"an input {len(leaves)}")
            leaves[name] = tensor.detach().requires_grad_()
            made[id(tensor)] = leaves[name].clone()
        return made[id(tensor)]

    return _mapped(args, track), _mapped(kwargs, track)


def _gradients(value: Any, leaves: Mapping[str, Tensor]) -> Mapping[str, Tensor | None] | Flaw:
    """Of one weighted sum of all results."""
    total = torch.zeros((), dtype=torch.float64)

    def add(tensor: Tensor) -> None:
        nonlocal total
        if tensor.is_floating_point() and tensor.requires_grad:
            tensor = (tensor if tensor.layout is torch.strided else tensor.to_dense()).double()
            total = total + tensor.flatten() @ torch.linspace(1, 2, tensor.numel()).double()

    _mapped(value, add)
    if not total.requires_grad:
        return dict.fromkeys(leaves)
    try:
        found = torch.autograd.grad(total, [*leaves.values()], allow_unused=True)
    except Exception as error:
        if "inplace" in str(error):
            return Flaw(
                "The numbers are right, but no gradient comes back: an operation in place, such as "
                "`+=` or `.relu_()`, overwrites numbers that the backward pass needs."
            )
        said = (str(error).strip().splitlines() or ["no message"])[0]
        return Flaw(
            f"The numbers are right, but their gradient raises {type(error).__name__}: {said}"
        )
    return dict(zip(leaves, found, strict=True))
