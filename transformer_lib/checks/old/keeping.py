"""What an answer with the right numbers may still lose: dtype, names, device, gradient."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from transformer_lib.checks.old import modules
from transformer_lib.checks.old.compare import difference, other_dtype
from transformer_lib.checks.old.exercise import Case, Exercise
from transformer_lib.checks.old.running import by_name, known, once, run
from transformer_lib.checks.old.seeding import seeded
from transformer_lib.checks.old.wording import kind

__all__ = ["lost"]


def lost(
    exercise: Exercise, answer: Callable[..., Any], case: Case, keeps: Sequence[str]
) -> str | None:
    """The evidence where an answer with the right numbers loses what `keeps` names."""
    probes = {
        "dtype": _dtype,
        "mixed": _mixed,
        "number": _number,
        "names": _names,
        "device": _device,
        "gradient": _gradient,
    }
    for what, probe in probes.items():
        if what in keeps:
            evidence = probe(exercise, answer, case)
            if evidence:
                return evidence
    return None


def _dtype(exercise: Exercise, answer: Callable[..., Any], case: Case) -> str | None:
    outcome = run(exercise, answer, case)
    if outcome.error is not None:
        return None
    right = known(exercise, exercise.reference, case)
    return other_dtype(outcome.value, right.value)


def _mixed(exercise: Exercise, answer: Callable[..., Any], case: Case) -> str | None:
    """A module keeps its weights in float32, and its input has 16 bits."""
    narrow = any(isinstance(v, Tensor) and v.dtype is torch.float16 for v in case.args)
    if case.init is None or not narrow:
        return None
    args, kwargs = copy.deepcopy((case.args, case.kwargs))
    try:
        with seeded(0), torch.no_grad():
            result, right = (
                exercise.use(
                    modules.build(exercise.reference, kind, case).module.float(), *args, **kwargs
                )
                for kind in (answer, exercise.reference)
            )
    except Exception:  # numbers of two types need not meet
        return None
    evidence = other_dtype(result, right)
    return (
        f"{evidence[:-1]}, where the weights have stayed in float32. What is multiplied by such a "
        "weight is float32 as well: the conversion back comes last."
        if evidence
        else None
    )


def _number(exercise: Exercise, answer: Callable[..., Any], case: Case) -> str | None:
    right = known(exercise, exercise.reference, case).value
    result = run(exercise, answer, case).value
    array = isinstance(result, Tensor) or type(result).__name__ == "ndarray"
    if array and isinstance(right, int | float):
        return (
            f"The number is right, but it is {kind(result)}: a plain number is asked for, such as "
            "`.item()` gives."
        )
    return None


def _names(exercise: Exercise, answer: Callable[..., Any], case: Case) -> str | None:
    with seeded(0):
        renamed = modules.build(exercise.reference, answer, case).renamed
    if not renamed:
        return None
    theirs, yours = next(iter(renamed.items()))
    others = f" ({len(renamed)} names differ)" if len(renamed) > 1 else ""
    return (
        f"The numbers are right, but the parts have other names than the exercise gives them: "
        f"your `{yours}` is its `{theirs}`{others}. Parameters are loaded by these names."
    )


def _device(exercise: Exercise, answer: Callable[..., Any], case: Case) -> str | None:
    """Every input is moved to the device "meta", which knows shapes only and clashes like a GPU."""
    # No time limit here: what PyTorch imports for this device the first time must not be cut off.
    args, kwargs = _mapped((case.args, case.kwargs), lambda t: t.to("meta"))
    try:
        with seeded(0):
            if case.init is not None:
                answer = modules.build(exercise.reference, answer, case).module.to("meta")
            exercise.use(answer, *args, **kwargs)
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        # Other exceptions: on this device there is nothing to look at, no .item() for instance.
        if "is not on the expected device" in str(error):
            return (
                "The numbers are right, but only on the CPU: on another device, your code "
                "meets a tensor that was left behind, or made, on the CPU."
            )
    return None


# ------------------------------------------------------------------------------------ gradients

_IN_PLACE = (
    "The numbers are right, but no gradient comes back: an operation that works in place, such as "
    "`+=`, `/=` or `.relu_()`, has overwritten numbers that the way back needs."
)


class _NoWayBack(Exception):
    """The evidence where the gradient raises."""


def _gradient(exercise: Exercise, answer: Callable[..., Any], case: Case) -> str | None:
    try:
        found = _gradients(exercise, answer, case)
    except _NoWayBack as evidence:
        return str(evidence)
    wanted = once(
        exercise,
        ("gradients", id(case)),
        lambda: _gradients(exercise, exercise.reference, case),
    )
    for name, gradient in wanted.items():
        if gradient is None:
            continue
        yours = found.get(name)
        if yours is None:
            return (
                f"The numbers are right, but no gradient reaches `{name}`: the way back from your "
                "result is cut, as by .detach(), .data, .item(), .numpy() or torch.tensor()."
            )
        if gradient.isfinite().all() and not yours.isfinite().all():
            return (
                f"The numbers are right, but the gradient that reaches `{name}` is not finite. "
                "Most likely something is divided by 0, or by a number too small for this dtype."
            )
        if difference(yours, gradient, atol=max(exercise.atol, 1e-4)):
            return (
                f"The numbers are right, but the gradient that reaches `{name}` is not: part of "
                "the way back is cut, as by .detach() or .data."
            )
    return None


def _gradients(
    exercise: Exercise, answer: Callable[..., Any], case: Case
) -> Mapping[str, Tensor | None]:
    """Of one weighted sum of all results, for every float input and parameter."""
    args, kwargs = _mapped(copy.deepcopy((case.args, case.kwargs)), lambda t: t.clone())
    leaves: dict[str, Tensor] = {}
    for name, value in by_name(exercise, case, args, kwargs).items():
        if isinstance(value, Tensor) and value.is_floating_point():
            leaves[name] = value.requires_grad_()
    try:
        with seeded(0), torch.enable_grad():
            if case.init is not None:
                built = modules.build(exercise.reference, answer, case)
                answer, leaves = built.module, {**leaves, **built.parameters}
            total = _weighted_sum(exercise.use(answer, *args, **kwargs))
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # "can't call numpy() on a tensor that requires grad"
        if "in-place" in str(error):
            raise _NoWayBack(_IN_PLACE) from None
        return {}
    if total is None:
        return {}
    try:
        gradients = torch.autograd.grad(total, [*leaves.values()], allow_unused=True)
    except Exception as error:
        if "inplace" in str(error):
            raise _NoWayBack(_IN_PLACE) from None
        message = (str(error).strip().splitlines() or ["no message"])[0]
        raise _NoWayBack(
            f"The numbers are right, but computing their gradient raises {type(error).__name__}: "
            f"{message}"
        ) from None
    return dict(zip(leaves, gradients, strict=True))


def _weighted_sum(result: Any) -> Tensor | None:
    total = None
    for tensor in _float_tensors(result):
        if tensor.requires_grad:
            tensor = tensor if tensor.layout is torch.strided else tensor.to_dense()
            weights = torch.linspace(1, 2, tensor.numel(), dtype=torch.float64)
            one = (tensor.double().flatten() * weights).sum()
            total = one if total is None else total + one
    return total


def _float_tensors(value: Any) -> list[Tensor]:
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
