"""Running an answer on a case: a learner's, a mistake's and the reference's alike."""

from __future__ import annotations

import contextlib
import copy
import functools
import inspect
import io
import itertools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from torch import Tensor, nn

from transformer_lib.checks.deadline import time_limit
from transformer_lib.checks.old import modules
from transformer_lib.checks.old.compare import difference
from transformer_lib.checks.old.exercise import Case, Exercise, called
from transformer_lib.checks.old.seeding import seeded
from transformer_lib.checks.old.wording import kind

__all__ = ["Outcome", "Returns", "by_name", "contents", "known", "once", "run", "silent"]

_MOST_ITEMS = 100_000  # of what a generator gives


@dataclass
class Returns:
    """What an answer that is called by its exercise's `use` gave back.

    Args:
        none: whether None was among it.
        last: what the last call gave, or None while it runs and after it has raised.
    """

    none: bool = False
    last: str | None = None


@dataclass(frozen=True)
class Outcome:
    """What came of one run.

    Args:
        value: the result.
        error: the exception, where there was one.
        changed: the first argument that was altered in place and should not have been.
        after: what the inputs hold that are there to be changed.
        weights: of a module, under the names that the exercise gives them.
        note: how weights were matched, where their names did not tell.
        returns: what the answer itself gave back, where the exercise makes something else of it.
    """

    value: Any = None
    error: BaseException | None = None
    changed: str | None = None
    after: Mapping[str, Any] = field(default_factory=dict)
    weights: Mapping[str, Tensor] = field(default_factory=dict)
    note: str | None = None
    returns: Returns = field(default_factory=Returns)

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
    built, returns = None, Returns()
    with seeded(seed):
        try:
            with limit:
                if case.init is not None:
                    built = modules.build(exercise.reference, answer, case)
                used = built.module if built else _watched(exercise, answer, returns)
                value = exercise.use(used, *args, **kwargs)
                if isinstance(value, Iterator):
                    value = list(itertools.islice(value, _MOST_ITEMS))
                if inspect.iscoroutine(value):
                    value.close()  # or Python warns that nobody has waited for it
                if built:
                    built.check_hooks()
        except KeyboardInterrupt:  # the reader stops the check itself
            raise
        except BaseException as error:  # whatever else can be raised is for the report
            weights = built.parameters if built else {}
            return Outcome(error=error, weights=weights, returns=returns)
    now = by_name(exercise, case, args, kwargs)
    changed = next(
        (
            name
            for name, before in exercise.inputs(case).items()
            if name not in exercise.changes and _altered(now[name], before)
        ),
        None,
    )
    after = {name: contents(now[name]) for name in exercise.changes if name in now}
    weights, note = (built.parameters, built.note) if built else ({}, None)
    return Outcome(value, None, changed, after, weights, note, returns)


def _watched(exercise: Exercise, answer: Callable[..., Any], returns: Returns) -> Any:
    """`answer`, noting what it gives back where `use` stands between it and the result."""
    if exercise.use is called or isinstance(answer, type):
        return answer

    @functools.wraps(answer)
    def watched(*args: Any, **kwargs: Any) -> Any:
        returns.last = None
        value = answer(*args, **kwargs)
        returns.none = returns.none or value is None
        returns.last = kind(value)
        return value

    return watched


def known(exercise: Exercise, answer: Callable[..., Any], case: Case) -> Outcome:
    """`run` of the exercise's reference or of one of its mistakes, which always gives the same.

    So each runs once on each case, however many answers are compared with it. Kept is what is
    compared, without the run behind it: the graph of its gradients, the frames of an error.
    """

    def settled() -> Outcome:
        outcome = run(exercise, answer, case)
        if outcome.error is not None and answer is not exercise.reference:
            outcome.error.with_traceback(None)
        return replace(
            outcome, value=_detached(outcome.value), after=_detached(outcome.after), weights={}
        )

    return once(exercise, (id(answer), id(case)), settled)


def once(exercise: Exercise, key: Any, make: Callable[[], Any]) -> Any:
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


def by_name(exercise: Exercise, case: Case, args: tuple, kwargs: Mapping) -> dict[str, Any]:
    return exercise.inputs(Case(case.label, *args, init=case.init, **kwargs))


def contents(value: Any) -> Any:
    """What can be compared in an input: of a model, what it has learned."""
    return dict(value.state_dict()) if isinstance(value, nn.Module) else value


def _altered(now: Any, before: Any) -> bool:
    now, before = contents(now), contents(before)
    # A copy of a model, a function or an object of a class of one's own equals nothing else.
    comparable = Tensor | int | float | str | list | tuple | dict | set
    return isinstance(before, comparable) and bool(difference(now, before))
