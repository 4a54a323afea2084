"""Answers that are classes: built, looked over, and given the weights of the reference.

Two modules compute the same only with the same weights. Whose parameters have the names that the
exercise states gets them by name. Any other spelling is matched by shape, then by what the
parameters start as (a gain of ones, a bias of zeros), then by the order in which they are made;
where that was a guess and the result is wrong, the report says what was taken for what.
"""

from __future__ import annotations

import copy
import functools
import inspect
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from transformer_lib.checks.old.exercise import Case
from transformer_lib.checks.old.seeding import seeded

__all__ = ["Built", "Flaw", "arguments", "build"]


class Flaw(Exception):
    """What is wrong with a module before it computes anything, said to the learner.

    Two answers show the same mistake where `kind` is the same, whatever their names are.
    """

    def __init__(self, kind: Any, message: str) -> None:
        super().__init__(message)
        self.kind = kind


@dataclass(frozen=True)
class Built:
    """A module ready to be called.

    Args:
        module: in `eval()`, with the reference's weights, in the dtype of the case's input.
        parameters: its parameters under the reference's names.
        note: what was taken for what, where that was a guess.
        renamed: names of the reference -> of the module, where they differ.
        calls: by name of each part, how often its `forward` ran without its hooks.
    """

    module: nn.Module
    parameters: dict[str, Tensor]
    note: str | None
    renamed: dict[str, str]
    calls: Counter[str]

    def check_hooks(self) -> None:
        for name, skipped in self.calls.items():
            if skipped:
                raise Flaw(
                    "hooks",
                    f"Your module calls `{name}.forward(…)`: that skips the hooks of `{name}`, "
                    "by which others look inside. The part itself is to be called.",
                )


def build(reference: Any, answer: Any, case: Case) -> Built:
    """An instance of `answer` for this case.

    Raises:
        Flaw: `answer` is no module, or its parameters are hidden, shared, copied, or others.
    """
    if not isinstance(answer, type):
        raise Flaw("class", "Your answer must be a class: a subclass of nn.Module.")
    if not issubclass(answer, nn.Module):
        base = f"`class {answer.__name__}(nn.Module)`"
        raise Flaw("base", f"Your class must be a subclass of nn.Module: {base}.")
    right, module = _right(reference, case), _fresh(answer, reference, case)
    _look_for_hidden(module)
    _look_for_repeated(module, right)
    pairs, note = _matched(right, module)
    noise = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for theirs, mine in pairs.values():
            # Gains of 1 and biases of 0 would hide that an answer leaves them out.
            size = 0.5 if theirs.dim() < 2 else theirs.shape[-1] ** -0.5
            mine.copy_(theirs + size * torch.randn(theirs.shape, generator=noise))
    inputs = [v for v in (*case.args, *case.kwargs.values()) if isinstance(v, Tensor)]
    dtype = next((t.dtype for t in inputs if t.is_floating_point()), torch.float32)
    module = module.to(dtype).eval()
    parameters = {name: mine for name, (_, mine) in pairs.items()}
    names = {id(mine): name for name, mine in module.named_parameters()}
    named = {theirs: names[id(mine)] for theirs, mine in parameters.items()}
    renamed = {theirs: mine for theirs, mine in named.items() if mine != theirs}
    return Built(module, parameters, note, renamed, _count_calls(module))


@functools.lru_cache(maxsize=64)
def _right(reference: Any, case: Case) -> nn.Module:
    """Made once for all answers: it is only looked at."""
    return _fresh(reference, reference, case)


def _fresh(kind: Any, reference: Any, case: Case) -> nn.Module:
    args, kwargs = arguments(kind, reference, copy.deepcopy(dict(case.init or {})))
    with seeded(0):
        return kind(*args, **kwargs)


def arguments(kind: Any, reference: Any, init: Mapping[str, Any]) -> tuple[tuple, dict[str, Any]]:
    """How a constructor is called: by position, so that its parameters may have any names."""
    first: list[Any] = []
    rest = dict(init)
    for name in inspect.signature(reference).parameters:
        if name not in rest:
            break
        first.append(rest.pop(name))
    theirs = [*inspect.signature(kind).parameters]
    shared = [name for name in theirs if name in init]
    if len(shared) == len(init) and shared != [name for name in init if name in shared]:
        call, yours = (f"{reference.__name__.strip('_')}({', '.join(names)})"
                       for names in (init, theirs))  # fmt: skip
        raise Flaw("order", f"The exercise calls {call}; yours is defined as {yours}.")
    if _fits(kind, init) and not _fits(kind, rest, *first):
        return (), dict(init)
    return tuple(first), rest


def _fits(kind: Any, kwargs: Mapping[str, Any], *args: Any) -> bool:
    try:
        inspect.signature(kind).bind(*args, **kwargs)
    except TypeError:
        return False
    return True


# -------------------------------------------------------------------- what .parameters() cannot see


def _look_for_hidden(module: nn.Module) -> None:
    seen = {id(p) for p in module.parameters()}
    for prefix, part in module.named_modules():
        for attribute, value in vars(part).items():
            if attribute in ("_parameters", "_buffers", "_modules") or not _may_hold(value):
                continue
            if any(id(p) not in seen for p in _trainable(value)):
                name = f"{prefix}.{attribute}".lstrip(".")
                what = f"a plain {type(value).__name__}"
                raise Flaw(
                    "hidden",
                    f"Your `{name}` is {what}, into which PyTorch does not look: `.parameters()` "
                    "does not see what is trained there, and no optimizer will change it.",
                )


def _may_hold(value: Any) -> bool:
    full = isinstance(value, list | tuple | dict) and bool(value)
    return full or isinstance(value, Tensor | nn.Module)


def _trainable(value: Any) -> Iterator[Tensor]:
    if isinstance(value, Tensor) and value.requires_grad:
        yield value
    elif isinstance(value, nn.Module):
        yield from value.parameters()
    elif isinstance(value, list | tuple | dict):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _trainable(item)


def _look_for_repeated(module: nn.Module, right: nn.Module) -> None:
    wanted, mine = (Counter(p.shape for p in each.parameters()) for each in (right, module))
    whole = wanted <= mine  # then a parameter of two names takes no other one's place
    for same, kind, evidence in (
        (id, "shared", "are one and the same parameter: what one learns, the other has learned"),
        (_numbers, "copied", "start with the same numbers, as copies of one another do"),
    ):
        twins = _twins(module, same, once=whole)
        if twins and not _twins(right, same):
            raise Flaw(kind, f"Your `{twins[0]}` and `{twins[1]}` {evidence}.")


def _numbers(parameter: Tensor) -> Any:
    """What a parameter starts with, where that was drawn; ones and zeros may well repeat."""
    drawn = parameter.numel() > 1 and parameter.min() != parameter.max()
    return (parameter.shape, *parameter.flatten().tolist()) if drawn else id(parameter)


def _twins(module: nn.Module, same: Any, *, once: bool = False) -> tuple[str, str] | None:
    first: dict[Any, str] = {}
    # A table of embeddings may well stand at both ends of a model: that is weight tying.
    tables = {id(part.weight) for part in module.modules() if isinstance(part, nn.Embedding)}
    for name, parameter in module.named_parameters(remove_duplicate=once):
        if id(parameter) in tables:
            continue
        if (twin := first.setdefault(same(parameter), name)) != name:
            return twin, name
    return None


# ------------------------------------------------------------------------------ whose weight is it?


def _matched(
    right: nn.Module, module: nn.Module
) -> tuple[dict[str, tuple[Tensor, Tensor]], str | None]:
    wanted, mine = dict(right.named_parameters()), dict(module.named_parameters())
    looks = {id(p): _looks(p) for p in (*wanted.values(), *mine.values())}
    found: dict[str, str] = {}
    free = dict.fromkeys(mine)  # in order
    rules = (
        lambda theirs, yours: theirs == yours and _shape(wanted, theirs) == _shape(mine, yours),
        lambda theirs, yours: looks[id(wanted[theirs])] == looks[id(mine[yours])],
        lambda theirs, yours: _shape(wanted, theirs) == _shape(mine, yours),
    )
    for fits in rules:
        for theirs in [name for name in wanted if name not in found]:
            name = next((name for name in free if fits(theirs, name)), None)
            if name is not None:
                found[theirs] = name
                del free[name]
    missing, extra = [name for name in wanted if name not in found], [*free]
    if missing or extra:
        raise Flaw(("fit", *missing, *sorted(_shape(mine, name) for name in extra)), _plain(
            module, [_shape(wanted, name) for name in missing]
        ) or _unfit(
            {name: wanted[name] for name in missing}, {name: mine[name] for name in extra}
        ))  # fmt: skip
    for theirs, yours in found.items():
        start = looks[id(wanted[theirs])][1]
        if start is not None and looks[id(mine[yours])][1] != start:
            same = looks[id(mine[yours])][1]
            number = "starts with random numbers" if same is None else f"starts at {same:.3g}"
            wanted_at = f"it must start at {start:.3g}, where it changes nothing"
            raise Flaw(("start", theirs), f"Your `{yours}` {number}; {wanted_at}.")
    guessed = Counter(looks[id(wanted[theirs])] for theirs in found if theirs != found[theirs])
    taken = [
        f"`{yours}` as {theirs}"
        for theirs, yours in found.items()
        if theirs != yours and guessed[looks[id(wanted[theirs])]] > 1
    ]
    note = f"(Your weights are taken in the order in which you make them: {', '.join(taken)}.)"
    return {name: (wanted[name], mine[found[name]]) for name in wanted}, note if taken else None


def _shape(parameters: dict[str, nn.Parameter], name: str) -> tuple[int, ...]:
    return tuple(parameters[name].shape)


def _looks(parameter: Tensor) -> tuple[tuple[int, ...], float | None]:
    """Shape, and the number it starts at where that is one and the same everywhere."""
    shape = tuple(parameter.shape)
    if parameter.numel() < 2:
        return shape, None
    least, most = parameter.detach().aminmax()
    return shape, least.item() if least == most else None


def _plain(module: nn.Module, missing: list[tuple[int, ...]]) -> str | None:
    """The evidence where a tensor has the shape of what is missing, and is no parameter."""
    for prefix, part in module.named_modules():
        for attribute, value in (*vars(part).items(), *part.named_buffers(recurse=False)):
            if isinstance(value, Tensor) and tuple(value.shape) in missing:
                name = f"{prefix}.{attribute}".lstrip(".")
                return f"Your `{name}` is a tensor and no nn.Parameter: no optimizer will train it."
    return None


def _unfit(missing: dict[str, nn.Parameter], extra: dict[str, nn.Parameter]) -> str:
    def listed(parameters: dict[str, nn.Parameter]) -> str:
        return ", ".join(f"{name} {tuple(p.shape)}" for name, p in parameters.items())

    if not missing:
        return f"Your module has parameters that the exercise does not: {listed(extra)}."
    text = f"Nothing in your module can be {listed(missing)}"
    return f"{text}; it has {listed(extra)} instead." if extra else f"{text}."


# ---------------------------------------------------------------------------------------- the hooks


def _count_calls(module: nn.Module) -> Counter[str]:
    """Of every part: calls of `forward` less calls of its hooks."""
    calls: Counter[str] = Counter()
    for name, part in module.named_modules():
        if part is not module:
            _watch(part, name, calls)
    return calls


def _watch(part: nn.Module, name: str, calls: Counter[str]) -> None:
    forward = part.forward

    @functools.wraps(forward)
    def counted(*args: Any, **kwargs: Any) -> Any:
        calls[name] += 1
        return forward(*args, **kwargs)

    setattr(part, "forward", counted)  # noqa: B010
    part.register_forward_hook(lambda *_: calls.subtract([name]))
