"""What an exercise is: a right answer, the cases it is tried on, the mistakes people make in it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn

__all__ = ["Case", "Exercise", "Flaw", "Parts", "but", "called"]


class Flaw(Exception):
    """What is wrong with an answer, in a sentence that needs no example and no diagnosis.

    Raised by the `use` of an exercise, or by a model that a case hands to the answer.
    """


class Parts(dict[str, Any]):
    """What a `use` found, under the names that the report gives them.

    `Parts({"The second loss": 1.48})` makes the report say "The second loss is 1.48".
    """


def called(answer: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    """How an answer is used unless its exercise says otherwise."""
    return answer(*args, **kwargs)


def but(base: type[nn.Module], **methods: Any) -> type[nn.Module]:
    """A module with a mistake, which replaces one of its methods."""
    return type(base.__name__, (base,), methods)


@dataclass(frozen=True, eq=False)
class Case:
    """One use of an answer.

    Args:
        args: what the answer is called with, by position: learners name parameters as they like.
        why: what it means to fail here, never the answer. It completes "The point of this case: …".
        kwargs: what is passed by keyword, where the exercise names the keyword.
        init: for an answer that is a class, the keyword arguments of its constructor. The module
            gets the weights of the reference and is set to `eval()`; `args` go to `forward`.
        weights: the dtype of the module's parameters, where it isn't that of the input.
    """

    args: tuple[Any, ...]
    why: str
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    init: Mapping[str, Any] | None = None
    weights: torch.dtype | None = None


@dataclass(frozen=True, kw_only=True, eq=False)
class Exercise:
    """What a *build* exercise asks for, and how its answers go wrong.

    Args:
        name: of the function or class the learner writes; `check` finds the exercise by it.
        reference: a right answer. Its parameter names are used in the report.
        cases: makes the cases, in the order a teacher would try them: the simplest first, small
            whole numbers where they do. It runs once, with a fresh kernel's settings, whatever the
            reader's session has changed: so make tensors there and not beside it.
        section: title of the section that explains it.
        mistakes: description -> wrong answer, the most common first, twelve at most. The
            description completes "That is what happens when …" and names one cause.
        keeps: what a right result must keep besides its numbers: `"dtype"`, `"gradient"` (of every
            float input and parameter), `"number"` (a plain number of Python's, as the reference's),
            `"names"` (the parameters are called what the reference's are).
        changes: the inputs that an answer is meant to change in place, by name. What they hold
            afterwards is compared as well. A change of any other input is a mistake.
        forbids: finished classes and functions that the answer may not use.
        use: what is done with an answer, where calling it once doesn't tell right from wrong:
            `(answer, /, *args, **kwargs) -> result`. A module arrives built.
        atol: by how much two numbers may differ.
    """

    name: str
    reference: Callable[..., Any]
    cases: Callable[[], Sequence[Case]]
    section: str
    mistakes: Mapping[str, Callable[..., Any]]
    keeps: frozenset[str] = frozenset()
    changes: frozenset[str] = frozenset()
    forbids: tuple[Any, ...] = ()
    use: Callable[..., Any] = called
    atol: float = 1e-5
