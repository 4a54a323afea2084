"""Answers that are classes: built, looked over, and given the weights of the reference.

Two modules compute the same only with the same weights. A parameter with the name that the exercise
states gets its weights by name. Any other spelling is matched by shape, then by what the parameters
start as (a gain of ones, a bias of zeros), then by the order in which they are made; where that was
a guess and the result is wrong, the report says what was taken for what.
"""

import copy
import inspect
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from transformer_lib.checks.exercise import Case, Flaw
from transformer_lib.checks.show import dtype_name

__all__ = ["Built", "build", "misfit"]


@dataclass(frozen=True)
class Built:
    """A module ready to be called: in `eval()`, with the reference's weights.

    Args:
        module: in the dtype of the case's input, or the one that the case names.
        parameters: its parameters under the reference's names.
        renamed: names of the reference -> of the module, where they differ.
        note: what was taken for what, where that was a guess.
    """

    module: nn.Module
    parameters: dict[str, Tensor]
    renamed: dict[str, str]
    note: str | None


def build(reference: Any, answer: Any, case: Case) -> Built:
    """An instance of `answer` for this case.

    Raises:
        Flaw: `answer` isn't a module, or its parameters are hidden, shared or the wrong ones.
    """
    if not (isinstance(answer, type) and issubclass(answer, nn.Module)):
        name = getattr(answer, "__name__", "Answer")
        raise Flaw(f"It must be a subclass of nn.Module: `class {name}(nn.Module)`.")
    right, module = (_fresh(each, reference, case) for each in (reference, answer))
    _look_for_hidden(module)
    _look_for_shared(module, right)
    wanted, mine = dict(right.named_parameters()), dict(module.named_parameters())
    found = _matched(wanted, mine, module)
    noise = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for theirs in wanted:  # in one order, whichever names were found first
            yours = found[theirs]
            change = torch.randn(wanted[theirs].shape, generator=noise)
            # Gains of 1 and biases of 0 would hide that an answer leaves them out.
            small = change.dim() < 2
            change = (2 * change).round() / 4 if small else change * change.shape[-1] ** -0.5
            weight = wanted[theirs] + change
            mine[yours].copy_(weight.where(weight != 0, 0.25))  # 0 would hide what it multiplies
    tensors = [v for v in (*case.args, *case.kwargs.values()) if isinstance(v, Tensor)]
    dtype = next((t.dtype for t in tensors if t.is_floating_point()), torch.float32)
    return Built(
        module.to(case.weights or dtype).eval(),
        {theirs: mine[found[theirs]] for theirs in wanted},
        {theirs: found[theirs] for theirs in wanted if theirs != found[theirs]},
        _guesses(wanted, found),
    )


def misfit(
    name: str, function: Any, args: Sequence[Any], kwargs: Mapping[str, Any], names: Sequence[str]
) -> None:
    """Raises a Flaw where the learner's definition doesn't take the arguments it is given."""
    try:
        signature = inspect.signature(function)
    except Exception:  # built in, or nothing to call
        return
    try:
        signature.bind(*args, **kwargs)
    except TypeError:
        call = ", ".join([*names[: len(args)], *(f"{keyword}=…" for keyword in kwargs)])
        raise Flaw(
            f"The exercise calls {name}({call}); yours is defined as {name}{signature}."
        ) from None


def _fresh(kind: Any, reference: Any, case: Case) -> nn.Module:
    """By position where the names are others, so that parameters may have any."""
    torch.default_generator.manual_seed(0)
    init = copy.deepcopy(dict(case.init or {}))
    order = [*inspect.signature(reference).parameters]
    theirs = [*inspect.signature(kind).parameters]
    shared = [name for name in theirs if name in init]
    if len(shared) == len(init) and shared != [name for name in order if name in init]:
        raise Flaw(
            f"The exercise calls {kind.__name__}({', '.join(init)}); yours is defined as "
            f"{kind.__name__}({', '.join(theirs)})."
        )
    if len(shared) == len(init):
        return kind(**init)
    first = []
    for name in order:
        if name not in init:
            break
        first.append(init.pop(name))
    misfit(kind.__name__, kind, first, init, order)
    return kind(*first, **init)


# -------------------------------------------------------------------- what .parameters() cannot see


def _look_for_hidden(module: nn.Module) -> None:
    seen = {id(p) for p in module.parameters()}
    for prefix, part in module.named_modules():
        for attribute, value in vars(part).items():
            if attribute in ("_parameters", "_buffers", "_modules"):
                continue
            if any(id(p) not in seen for p in _trainable(value)):
                name = f"{prefix}.{attribute}".lstrip(".")
                raise Flaw(
                    f"Your `{name}` is a plain {type(value).__name__.lower()}, and PyTorch doesn't "
                    "register it: `.parameters()` doesn't list what is trained there, so no "
                    f"optimizer will change it. Make it an `nn.{_registered(value)}`."
                )


def _registered(value: Any) -> str:
    if isinstance(value, Tensor):
        return "Parameter"
    items = value.values() if isinstance(value, dict) else value
    what = "Module" if any(isinstance(item, nn.Module) for item in items) else "Parameter"
    return f"{what}{'Dict' if isinstance(value, dict) else 'List'}"


def _trainable(value: Any) -> Iterator[Tensor]:
    if isinstance(value, Tensor) and value.requires_grad:
        yield value
    elif isinstance(value, nn.Module):
        yield from value.parameters()
    elif isinstance(value, list | tuple | dict):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _trainable(item)


def _look_for_shared(module: nn.Module, right: nn.Module) -> None:
    """One layer used twice, or copies of one layer, where the exercise wants several."""
    wanted, mine = (Counter(p.shape for p in each.parameters()) for each in (right, module))
    if not wanted <= mine:
        twins = _twins(module, id)
        if twins and not _twins(right, id):
            raise Flaw(f"Your `{twins[0]}` and `{twins[1]}` are one and the same parameter.")
    twins = _twins(module, _numbers)
    if twins and not _twins(right, _numbers):
        raise Flaw(
            f"Your `{twins[0]}` and `{twins[1]}` start with the same numbers, as copies of each "
            "other do."
        )


def _twins(module: nn.Module, same: Callable[[Tensor], Any]) -> tuple[str, str] | None:
    first: dict[Any, str] = {}
    # A table of embeddings may well stand at both ends of a model: that is weight tying.
    tables = {id(part.weight) for part in module.modules() if isinstance(part, nn.Embedding)}
    for name, parameter in module.named_parameters(remove_duplicate=same is not id):
        if id(parameter) in tables:
            continue
        if (twin := first.setdefault(same(parameter), name)) != name:
            return twin, name
    return None


def _numbers(parameter: Tensor) -> Any:
    """What a parameter starts with, where that was drawn; ones and zeros may well repeat."""
    drawn = parameter.numel() > 1 and parameter.min() != parameter.max()
    return (parameter.shape, *parameter.flatten().tolist()) if drawn else id(parameter)


# ------------------------------------------------------------------------------ whose weight is it?

Parameters = Mapping[str, nn.Parameter]


def _matched(wanted: Parameters, mine: Parameters, module: nn.Module) -> dict[str, str]:
    """Names of the reference -> names of the module."""
    found: dict[str, str] = {}
    free = [*mine]
    for fits in (
        lambda theirs, yours: theirs == yours and _shape(wanted, theirs) == _shape(mine, yours),
        lambda theirs, yours: _looks(wanted[theirs]) == _looks(mine[yours]),
        lambda theirs, yours: _shape(wanted, theirs) == _shape(mine, yours),
    ):
        for theirs in [name for name in wanted if name not in found]:
            yours = next((name for name in free if fits(theirs, name)), None)
            if yours is not None:
                found[theirs] = yours
                free.remove(yours)
    missing = [name for name in wanted if name not in found]
    if missing:
        raise Flaw(_plain(module, {_shape(wanted, name) for name in missing})
                   or _lacking(wanted, missing, mine, free))  # fmt: skip
    if free:
        raise Flaw(f"Your module has {_listed(mine, free)}, which the exercise doesn't have.")
    for theirs, yours in found.items():
        dtype, dtype_here = dtype_name(wanted[theirs]), dtype_name(mine[yours])
        if dtype_here != dtype:
            raise Flaw(f"Your `{yours}` has dtype {dtype_here}; it must be {dtype}.")
        start, start_here = _looks(wanted[theirs])[1], _looks(mine[yours])[1]
        if start is not None and start_here != start:
            how = "with random numbers" if start_here is None else f"at {start_here:g}"
            raise Flaw(f"Your `{yours}` starts {how}; it must start at {start:g}.")
    return found


def _guesses(wanted: Parameters, found: Mapping[str, str]) -> str | None:
    alike = Counter(_looks(wanted[theirs]) for theirs in found if theirs != found[theirs])
    taken = [
        f"`{yours}` as {theirs}"
        for theirs, yours in found.items()
        if theirs != yours and alike[_looks(wanted[theirs])] > 1
    ]
    if not taken:
        return None
    return f"(Your parameters were matched in the order you make them: {', '.join(taken)}.)"


def _shape(parameters: Parameters, name: str) -> tuple[int, ...]:
    return tuple(parameters[name].shape)


def _looks(parameter: Tensor) -> tuple[tuple[int, ...], float | None]:
    """Shape, and the number it starts at where that is the same everywhere."""
    shape = tuple(parameter.shape)
    if parameter.numel() < 2:
        return shape, None
    least, most = parameter.detach().aminmax()
    return shape, least.item() if least == most else None


def _plain(module: nn.Module, missing: set[tuple[int, ...]]) -> str | None:
    """The evidence where a tensor has the shape of what is missing but isn't a parameter."""
    for prefix, part in module.named_modules():
        for attribute, value in (*vars(part).items(), *part.named_buffers(recurse=False)):
            if isinstance(value, Tensor) and tuple(value.shape) in missing:
                name = f"{prefix}.{attribute}".lstrip(".")
                return (
                    f"Your `{name}` is a plain tensor, not an nn.Parameter: no optimizer will "
                    "train it."
                )
    return None


def _listed(parameters: Parameters, names: Sequence[str]) -> str:
    return ", ".join(f"`{name}` of shape {_shape(parameters, name)}" for name in names)


def _lacking(wanted: Parameters, missing: list[str], mine: Parameters, free: list[str]) -> str:
    instead = f"; it has {_listed(mine, free)} instead" if free else ""
    several = "parameters" if len(missing) > 1 else "parameter"
    return f"Your module has no {several} {_listed(wanted, missing)}{instead}."
