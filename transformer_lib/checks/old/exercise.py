"""What an exercise is: a reference, the cases it is tried on, the mistakes people make in it."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor, nn

from transformer_lib.checks.old.compare import ATOL

__all__ = ["Case", "Exercise"]


class Case:
    """One use of the learner's answer: a label for the report, then the arguments.

    Pass by keyword only what the exercise names as a keyword: a learner may call the other
    parameters what they like. `init` is for answers that are classes: the keyword arguments of
    the constructor; the others then go to the module.

    >>> Case("a sharp softmax", [1.0, 2.0], temperature=0.1).kwargs
    {'temperature': 0.1}
    """

    def __init__(
        self, label: str, /, *args: Any, init: Mapping[str, Any] | None = None, **kwargs: Any
    ) -> None:
        self.label, self.args, self.kwargs, self.init = label, args, kwargs, init

    @property
    def size(self) -> int:
        """How many numbers go in; the report shows the smallest failing input."""
        return _size([*self.args, *self.kwargs.values()])


def _size(value: Any) -> int:
    if isinstance(value, Tensor):
        return value.numel()
    if isinstance(value, Mapping):
        return sum(_size(v) for v in value.values())
    if isinstance(value, list | tuple | set | frozenset):
        return sum(map(_size, value))
    return len(value) if isinstance(value, str) else 1


def called(answer: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    """How an answer is used unless its exercise says otherwise."""
    return answer(*args, **kwargs)


@dataclass(frozen=True, kw_only=True)
class Exercise:
    """What a *build* exercise asks for, and how its answers go wrong.

    An answer is a function, or a subclass of `nn.Module` where the cases have an `init`: it is
    then built, given the weights of the reference, set to `eval()` and called.

    Reference and mistakes run once on each case; what they give is kept for all answers to come:
    they remember nothing.

    Args:
        name: name of the function or class the learner writes; `check` finds the exercise by it.
        reference: a right answer, called with each case's arguments. Its parameter names are
            used in the report.
        cases: from the smallest to the most demanding.
        mistakes: description -> wrong answer, or several that show the same mistake. The
            description completes the sentence "That is what happens when …".
        section: title of the section to read again.
        properties: functions `(result, expected, /, **inputs) -> str | None` that give evidence
            better than "entry [0, 1] is wrong": a sentence on the property that fails, or None.
        use: what is done with an answer, where calling it once is not what tells right from
            wrong: `(answer, /, *args, **kwargs) -> result`, for the reference, the learner's
            answer and every mistake alike. Of a module it gets the instance.
        changes: the inputs that an answer changes in place because that is the point: a model in
            a training step. What they hold afterwards is compared like the result.
        keeps: what the answer must not lose, of `"dtype"` (the result has the reference's),
            `"mixed"` (also where a module's weights are in float32 and its input in 16 bits),
            `"number"` (where the reference's is a number of Python's, so is the result),
            `"names"` (the parameters are called what the reference's are), `"device"` (nothing is
            made on the CPU whatever the input) and `"gradient"` (of every float input and
            parameter).
        advises: of the same, what the exercise does not ask for. A right answer that loses
            it passes, and the report says so.
        atol: by how much two numbers may differ, larger where they are counted in random draws.
        seconds: when an answer that is still running is stopped.
    """

    name: str
    reference: Callable[..., Any]
    cases: Sequence[Case]
    mistakes: Mapping[str, Callable[..., Any] | Sequence[Callable[..., Any]]]
    section: str
    properties: Sequence[Callable[..., str | None]] = ()
    use: Callable[..., Any] = called
    changes: Sequence[str] = ()
    keeps: Sequence[str] = ()
    advises: Sequence[str] = ()
    atol: float = ATOL
    seconds: float = 10.0
    # What the reference and the mistakes give on the cases, once they have run (running.py).
    known: dict[Any, Any] = field(default_factory=dict, init=False, repr=False, compare=False)

    def inputs(self, case: Case) -> dict[str, Any]:
        """The case's arguments under the names that the exercise gives them."""
        return dict(self._signature(case).bind(*case.args, **case.kwargs).arguments)

    def _signature(self, case: Case) -> inspect.Signature:
        """Of `use` where it names its arguments, else of the reference."""
        _, *named = inspect.signature(self.use).parameters.values()
        if all(p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD) for p in named):
            return inspect.Signature(named)
        if case.init is None:
            return inspect.signature(self.reference)
        assert isinstance(self.reference, type) and issubclass(self.reference, nn.Module)
        _, *named = inspect.signature(self.reference.forward).parameters.values()
        return inspect.Signature(named)
