"""Which inputs reach a wrong result, where no known mistake gives it: one too many, or one too few.

An input is changed at one place, and the answer and the reference run again. What moves in one
result and not in the other says what the answer looks at.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor

from transformer_lib.checks.exercise import Case, Exercise
from transformer_lib.checks.running import known, run
from transformer_lib.checks.wording import index

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

    def moved(name: str, value: Any) -> list[Tensor]:
        after = both(_with(exercise, case, name, value))
        return [
            ~torch.isclose(now, then, 1e-5, 1e-7, equal_nan=True)
            for now, then in zip(after, before, strict=True)
        ]

    inputs = exercise.inputs(case)
    for name, value in inputs.items():
        if _can_change(value):
            yours, right = moved(name, _changed(value))
            if right.any() and not yours.any():
                return f"`{name}` can be another one, and your result stays the same"
    for name, value in inputs.items():
        if not (isinstance(value, Tensor) and _can_change(value)):
            continue
        for place in _places(value):
            other = value.clone()
            other[place] = _changed(value[place])
            yours, right = moved(name, other)
            for flags, what in (
                (yours & ~right, "changes with `{}`{}, which must not reach it"),
                (right & ~yours, "does not change with `{}`{}, and it must"),
            ):
                if flags.any():
                    where = _at(flags.nonzero()[0].tolist())
                    entry = f"the entry{where} of your result" if where else "your result"
                    return f"{entry} {what.format(name, _at(place))}"
    return None


def _numbers(value: Any) -> Tensor:
    return torch.as_tensor(value).detach().double()


def _with(exercise: Exercise, case: Case, name: str, value: Any) -> Case:
    """The case with another value of one input."""
    inputs = {**exercise.inputs(case), name: value}
    kwargs = {key: inputs.pop(key) for key in case.kwargs}
    return Case(case.label, *inputs.values(), init=case.init, **kwargs)


def _can_change(value: Any) -> bool:
    if isinstance(value, Tensor):
        return value.numel() > 0 and (value.is_floating_point() or value.dtype is torch.bool)
    return isinstance(value, float)


def _changed(value: Any) -> Any:
    if isinstance(value, Tensor) and value.dtype is torch.bool:
        return ~value
    noise = 0.7
    if isinstance(value, Tensor):  # neither one for all nor in equal steps: a softmax of each row,
        # or of each column, would not see that
        noise = torch.linspace(0.7, 1.4, value.numel()).square().reshape(value.shape).to(value)
    return value + noise


def _places(value: Tensor) -> Iterator[tuple[int, ...]]:
    count = value.numel()
    steps = min(count, _MOST_PLACES)
    for number in sorted({round(i * (count - 1) / max(steps - 1, 1)) for i in range(steps)}):
        yield tuple(int(i) for i in torch.unravel_index(torch.tensor(number), value.shape))


def _at(place: Any) -> str:
    return f" at {index(place)}" if len(place) else ""
