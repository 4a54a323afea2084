"""Which inputs reach a wrong result, where no known mistake gives it: one too many, or one too few.

An input is changed at one place, and the answer and the reference run again. What moves clearly in
one result, and not by the last bit in the other, says what the answer looks at.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor

from transformer_lib.checks.old.exercise import Case, Exercise
from transformer_lib.checks.old.running import known, run
from transformer_lib.checks.old.wording import index

__all__ = ["reach"]

_MOST_PLACES = 48  # of one input that are changed


def reach(exercise: Exercise, answer: Callable[..., Any], case: Case, result: Any) -> str | None:
    """One sentence on an input that reaches the result where it must not, or does not, or None."""
    try:
        return _reach(exercise, answer, case, result)
    except Exception:  # a result of a kind that cannot be compared, or it takes too long
        return None


def _reach(exercise: Exercise, answer: Callable[..., Any], case: Case, result: Any) -> str | None:
    until = time.process_time() + exercise.seconds
    functions = (answer, exercise.reference)

    def both(case: Case) -> list[Tensor]:
        if time.process_time() > until:
            raise TimeoutError
        return [_numbers(run(exercise, f, case, seconds=exercise.seconds).value) for f in functions]

    before = [_numbers(result), _numbers(known(exercise, exercise.reference, case).value)]
    if before[0].shape != before[1].shape or not before[0].isfinite().all():
        return None

    def moved(name: str, value: Any) -> tuple[_Moves, _Moves]:
        after = both(_with(exercise, case, name, value))
        yours, right = (_Moves(*pair) for pair in zip(after, before, strict=True))
        return yours, right

    inputs = exercise.inputs(case)
    for name, value in inputs.items():
        if _can_change(value):
            tried = [moved(name, other) for other in _others(value)]
            if all(right.clearly.any() and not yours.at_all.any() for yours, right in tried):
                return f"`{name}` can be another one, and your result stays the same"
    for name, value in inputs.items():
        if not (isinstance(value, Tensor) and _can_change(value)):
            continue
        for place in _places(value):
            changes = needs = torch.ones_like(before[0], dtype=torch.bool)
            for instead in _others(value[place]):
                other = value.clone()
                other[place] = instead
                yours, right = moved(name, other)
                changes = changes & yours.clearly & ~right.at_all
                needs = needs & right.clearly & ~yours.at_all
                if not (changes.any() or needs.any()):
                    break
            if value.dtype is torch.bool and before[1].numel() == 1:
                changes = changes & False  # what a flag adds and takes may cancel in one number
            for flags, what in (
                (changes, "changes with `{}`{}, which must not reach it"),
                (needs, "does not change with `{}`{}, and it must"),
            ):
                if flags.any():
                    where = _at(flags.nonzero()[0].tolist())
                    entry = f"the entry{where} of your result" if where else "your result"
                    return f"{entry} {what.format(name, _at(place))}"
    return None


class _Moves:
    """Which entries of a result have moved: clearly, and at all. A small move decides nothing."""

    def __init__(self, now: Tensor, then: Tensor) -> None:
        self.clearly = ~torch.isclose(now, then, 1e-3, 1e-5, equal_nan=True)
        self.at_all = ~torch.isclose(now, then, 0, 0, equal_nan=True)


def _numbers(value: Any) -> Tensor:
    numbers = torch.as_tensor(value).detach()
    if numbers.is_complex():
        raise TypeError("complex numbers are not compared")
    return numbers.double()


def _with(exercise: Exercise, case: Case, name: str, value: Any) -> Case:
    """The case with another value of one input."""
    inputs = {**exercise.inputs(case), name: value}
    kwargs = {key: inputs.pop(key) for key in case.kwargs}
    return Case(case.label, *inputs.values(), init=case.init, **kwargs)


def _can_change(value: Any) -> bool:
    if isinstance(value, Tensor):
        return value.numel() > 0 and (value.is_floating_point() or value.dtype is torch.bool)
    return isinstance(value, float)


def _others(value: Any) -> list[Any]:
    """Other values: two, unless it is boolean. One alone may leave a right result as it is."""
    if isinstance(value, Tensor) and value.dtype is torch.bool:
        return [~value]
    if not isinstance(value, Tensor):
        return [value + 0.7, value / 2]
    # Neither one for all nor in equal steps: a softmax of each row, or of each column, would not
    # see that.
    noise = torch.linspace(0.7, 1.4, value.numel()).square().reshape(value.shape).to(value)
    return [value + noise, value - 2 * noise]


def _places(value: Tensor) -> Iterator[tuple[int, ...]]:
    count = value.numel()
    steps = min(count, _MOST_PLACES)
    for number in sorted({round(i * (count - 1) / max(steps - 1, 1)) for i in range(steps)}):
        yield tuple(int(i) for i in torch.unravel_index(torch.tensor(number), value.shape))


def _at(place: Any) -> str:
    return f" at {index(place)}" if len(place) else ""
