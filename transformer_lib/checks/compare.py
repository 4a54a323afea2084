"""Comparing a learner's result with a right one, and putting the difference into words.

Right answers come in many forms (another order of summation, float64, a list where a tuple was
meant): what is compared is structure, shape, bool or not, NaN, and values up to rounding.
"""

import inspect
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from numbers import Real
from typing import Any

import torch
from torch import Tensor

from transformer_lib.checks.exercise import Parts
from transformer_lib.checks.show import dtype_name, inside, kind, number, shape

__all__ = ["Difference", "difference"]

RTOL, ATOL = 1e-4, 1e-5


@dataclass(frozen=True)
class Difference:
    """What is wrong with a result.

    Args:
        sentence: on the learner's result.
        alone: whether the sentence says it all, and an example or a diagnosis would only distract.
        first: a sentence on the first wrong number, for results too large to be shown.
    """

    sentence: str
    alone: bool = False
    first: str = ""


class _Found(Exception):
    def __init__(self, sentence: str, alone: bool = False, first: str = "") -> None:
        self.difference = Difference(sentence, alone, first)


def difference(
    result: Any, expected: Any, what: str = "The result", *, atol: float = ATOL
) -> Difference | None:
    """None where both are the same up to rounding."""
    try:
        for part, r, e in _leaves(result, expected, what):
            if isinstance(e, Tensor | int | float):
                _compare(*_as_tensors(r, e, part), part, atol)
            elif r != e:
                raise _Found(f"{part} is {_short(r)}.")
    except _Found as found:
        return found.difference
    except Exception as error:  # a class of the learner's own may raise wherever it is touched
        return Difference(f"{what} can't be compared: that raises {type(error).__name__}.", True)
    return None


# ------------------------------------------------------------------------------- part by part


def _leaves(result: Any, expected: Any, what: str) -> Iterator[tuple[str, Any, Any]]:
    """Pairs to compare, as `(what it is, result, expected)`."""
    odd = _odd(result, what) if expected is not None else None
    if odd:
        raise _Found(odd, alone=True)
    if isinstance(expected, Parts):
        for name in expected:
            yield from _leaves(result[name], expected[name], name)
    elif isinstance(expected, Mapping):
        yield from _entries(result, expected, what)
    elif isinstance(expected, tuple | list):
        yield from _items(result, expected, what)
    else:
        yield what, result, expected


def _odd(result: Any, what: str) -> str | None:
    """What no exercise asks for."""
    if result is None:
        return f"{what} is None: is a `return` missing?"
    if inspect.isgenerator(result):
        return f"{what} is a generator, which `yield` makes: return the value itself."
    if inspect.isroutine(result):
        return f"{what} is a function: are the parentheses of a call missing?"
    return None


def _entries(result: Any, expected: Mapping, what: str) -> Iterator[tuple[str, Any, Any]]:
    if not isinstance(result, Mapping):
        raise _Found(f"{what} is {kind(result)}; it must be a dict.", alone=True)
    if result.keys() != expected.keys():
        raise _Found(f"{what} doesn't have the keys that it must have.")
    for key in expected:
        yield from _leaves(result[key], expected[key], f"{what} for {key!r}")


def _items(result: Any, expected: tuple | list, what: str) -> Iterator[tuple[str, Any, Any]]:
    tensors = bool(expected) and all(isinstance(each, Tensor) for each in expected)
    wanted = f"{len(expected)} tensors" if tensors else "a list"
    if isinstance(expected, tuple) and not tensors:
        wanted = f"a tuple of {len(expected)}"
    if not isinstance(result, tuple | list):
        raise _Found(f"{what} is {kind(result)}; it must be {wanted}.", alone=True)
    if tensors and len(result) != len(expected):
        raise _Found(f"{what} is {kind(result)}; it must be {wanted}.")
    for i, (r, e) in enumerate(zip(result, expected, strict=False)):
        yield from _leaves(r, e, f"Item {i} of {inside(what)}")
    if len(result) != len(expected):
        items = "1 item" if len(result) == 1 else f"{len(result)} items"
        raise _Found(f"{what} has {items}; expected {len(expected)}.")


def _short(value: Any) -> str:
    text = repr(value) if isinstance(value, str | int | float) else kind(value)
    return text if len(text) <= 60 else kind(value)


# ------------------------------------------------------------------------- numbers and tensors


def _as_tensors(result: Any, expected: Any, what: str) -> tuple[Tensor, Tensor]:
    """Both as ordinary tensors of one shape."""
    one = not isinstance(expected, Tensor) or expected.dim() == 0
    truth = isinstance(expected, bool) or (
        isinstance(expected, Tensor) and expected.dtype is torch.bool
    )
    wanted = "True or False" if truth else "one number"
    if not isinstance(result, Tensor):
        plain = _plain(result) if one else None
        if plain is None or (truth and one and not isinstance(plain, bool)):
            wanted = wanted if one else "a tensor"
            raise _Found(f"{what} is {kind(result)}; it must be {wanted}.", alone=True)
        expected = expected.item() if isinstance(expected, Tensor) else expected
        # A count in the millions has no place in float32.
        double = torch.float64
        return (
            torch.tensor(plain, dtype=double if isinstance(plain, float) else None),
            torch.tensor(expected, dtype=double if isinstance(expected, float) else None),
        )
    result, expected = result.detach(), torch.as_tensor(expected).detach().cpu()
    result = (result if result.layout is torch.strided else result.to_dense()).cpu()
    if result.shape != expected.shape:
        wanted = f"be {wanted}" if one else f"have shape {shape(expected)}"
        raise _Found(f"{what} has shape {shape(result)}; it must {wanted}.")
    ids = not expected.is_floating_point() and expected.dim() > 0 and not truth
    if truth and result.dtype is not torch.bool:
        raise _Found(f"{what} has dtype {dtype_name(result)}; it must be bool.")
    if ids and (result.is_floating_point() or result.dtype is torch.bool):
        raise _Found(f"{what} has dtype {dtype_name(result)}; it must hold whole numbers.")
    if result.is_complex():
        raise _Found(f"{what} has dtype {dtype_name(result)}; its numbers must be real.")
    return result, expected


def _plain(value: Any) -> bool | int | float | None:
    """One number as Python's own, be it NumPy's, a Fraction or a Decimal; else None."""
    if getattr(value, "shape", None) == () and callable(getattr(value, "item", None)):
        value = value.item()
    if isinstance(value, bool | int | float):
        return value
    return float(value) if isinstance(value, Real | Decimal) else None


def _compare(result: Tensor, expected: Tensor, what: str, atol: float) -> None:
    lost = result.isnan() & ~expected.isnan()
    if lost.any():
        raise _Found(f"{what} is NaN{f' at {_place(lost)}' if lost.dim() else ''}.")
    wrong = _wrong(result, expected, atol)
    if not wrong.any():
        return
    place = tuple(wrong.nonzero()[0].tolist())
    yours, right = number(result[place]), number(expected[place])
    if yours == right:  # they differ in a later digit
        yours, right = repr(result[place].item()), repr(expected[place].item())
    if result.numel() == 1:
        raise _Found(f"{what} is {yours}; expected {right}.")
    count, total = int(wrong.sum()), result.numel()
    which = f"{count} of the {total} numbers in {inside(what)} {'is' if count == 1 else 'are'}"
    if count == total:
        which = f"{'Both' if total == 2 else f'All {total}'} numbers in {inside(what)} are"
    first = f"The first is at {_place(wrong)}: {yours}; expected {right}."
    raise _Found(f"{which} wrong.", first=first)


def _place(flags: Tensor) -> str:
    return str(flags.nonzero()[0].tolist())


def _wrong(result: Tensor, expected: Tensor, atol: float) -> Tensor:
    if not expected.is_floating_point() and not result.is_floating_point():
        return result != expected  # a count is right or wrong, however large it is
    # Coarse numbers, such as bfloat16, are as close as they can be told apart.
    grain = 4 * torch.finfo(expected.dtype).eps if expected.is_floating_point() else 0.0
    rtol = max(RTOL, grain) if expected.is_floating_point() else 0.0
    return ~torch.isclose(
        result.double(), expected.double(), rtol, max(atol, grain), equal_nan=True
    )
