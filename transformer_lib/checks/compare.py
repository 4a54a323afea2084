"""Comparing a learner's result with a right one, and putting the difference into words.

Right answers come in many forms (another order of summation, float64, a list where a tuple was
meant): what is compared is structure, shape, bool or not, NaN, and values up to rounding. Every
sentence describes the learner's result and the property it misses; none gives the right value.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from numbers import Real
from typing import Any

import torch
from torch import Tensor, nn

# Loose enough for another order of summation in float32, tight enough to tell any mistake that
# the cases are built to show.
RTOL, ATOL = 1e-4, 1e-5


class _Mismatch(Exception):
    """Type, shape or NaN: the values cannot be compared at all."""


def _leaves(result: Any, expected: Any, what: str) -> Iterator[tuple[str, Any, Any]]:
    """Pairs to compare, as `(what it is, result, expected)`."""
    if isinstance(expected, Tensor | int | float):
        yield (what, *_tensors(result, expected, what))
    elif isinstance(expected, list) and expected and not isinstance(expected[0], Tensor):
        yield from _items(result, expected, what)
    elif isinstance(expected, tuple | list):
        fields = getattr(expected, "_fields", None)
        if not isinstance(result, tuple | list) or len(result) != len(expected):
            names = f" ({', '.join(fields)})" if fields else ""
            raise _Mismatch(f"{what} must be {len(expected)} things{names}; it is {_kind(result)}.")
        for i, (r, e) in enumerate(zip(result, expected, strict=True)):
            yield from _leaves(r, e, f"Your {fields[i]}" if fields else f"Item {i} of {_in(what)}")
    elif isinstance(expected, Mapping):
        if not isinstance(result, Mapping):
            raise _Mismatch(f"{what} must be a dict; it is {_kind(result)}.")
        for key in result:
            if key not in expected:
                raise _Mismatch(f"{what} has the key {key!r}, which does not belong there.")
        if len(result) < len(expected):
            some = "one more" if len(expected) - len(result) == 1 else "more"
            raise _Mismatch(f"{what} has {len(result)} keys; it must have {some}.")
        for key in expected:
            yield from _leaves(result[key], expected[key], f"{what} for {key!r}")
    else:
        yield what, result, expected


def _items(result: Any, expected: list, what: str) -> Iterator[tuple[str, Any, Any]]:
    """A list of data, such as merges or tokens: its length is part of the answer."""
    if not isinstance(result, tuple | list):
        raise _Mismatch(f"{what} must be a list; it is {_kind(result)}.")
    for i, (r, e) in enumerate(zip(result, expected, strict=False)):
        words = isinstance(e, tuple) and all(isinstance(part, str) for part in e)
        # A pair of strings is one thing to look at, and as good in a list.
        pair = (tuple(r) if isinstance(r, list) else r, e) if words else None
        item = f"Item {i} of {_in(what)}"
        yield from [(item, *pair)] if pair else _leaves(r, e, item)
    if len(result) != len(expected):
        some = "fewer" if len(result) > len(expected) else "more"
        raise _Mismatch(f"{what} has {len(result)} items; it must have {some}.")


def _tensors(result: Any, expected: Any, what: str) -> tuple[Tensor, Tensor]:
    one_number = not isinstance(expected, Tensor) or expected.dim() == 0
    if not isinstance(result, Tensor):
        if not (one_number and isinstance(result, Real)):
            wanted = "one number" if one_number else f"a tensor of shape {_shape(expected)}"
            raise _Mismatch(f"{what} must be {wanted}; it is {_kind(result)}.")
        # A count in the millions has no place in float32.
        result = torch.tensor(result, dtype=torch.float64 if isinstance(result, float) else None)
    expected = torch.as_tensor(expected)
    if result.shape != expected.shape:
        wanted = "be one number" if one_number else f"have shape {_shape(expected)}"
        raise _Mismatch(f"{what} has shape {_shape(result)}; it must {wanted}.")
    if expected.dtype is torch.bool and result.dtype is not torch.bool:
        raise _Mismatch(f"{what} has dtype {_dtype(result)}; it must be bool.")
    result, expected = result.detach().cpu(), expected.detach().cpu()
    lost = result.isnan() & ~expected.isnan()
    if lost.any():
        where = _at(lost)
        raise _Mismatch(f"{what} is NaN{where}." if where else f"{what} is NaN.")
    return result, expected


def mismatch(result: Any, expected: Any) -> str | None:
    """The evidence where type, shape or NaN forbid comparing values at all."""
    try:
        list(_leaves(result, expected, "Your result"))
    except _Mismatch as found:
        return str(found)
    return None


def difference(
    result: Any, expected: Any, what: str = "Your result", *, atol: float = ATOL
) -> str | None:
    """None where both are the same up to rounding, else the evidence on `what`."""
    try:
        for part, r, e in _leaves(result, expected, what):
            if not isinstance(e, Tensor):
                if not _equal(r, e):
                    return f"{part} is {show(r)}, and that is not right."
                continue
            if r.dtype is torch.bool or e.dtype is torch.bool:
                wrong = r != e
            else:
                # Coarse numbers, such as bfloat16, are as close as they can be told apart.
                grain = 4 * torch.finfo(e.dtype).eps if e.is_floating_point() else 0.0
                # A count is right or wrong, however large it is.
                rtol = max(RTOL, grain) if e.is_floating_point() else 0.0
                least = max(atol, grain)
                close = torch.isclose(r.double(), e.double(), rtol, least, equal_nan=True)
                wrong = ~close
            if wrong.any():
                return _wrong_entries(part, r, wrong)
    except _Mismatch as found:
        return str(found)
    return None


def _equal(result: Any, expected: Any) -> bool:
    if type(expected).__eq__ is object.__eq__:  # it knows itself only
        return type(result) is type(expected)
    try:
        return bool(result == expected)
    except Exception:  # an array compares entry by entry
        return repr(result) == repr(expected)


def _wrong_entries(what: str, result: Tensor, wrong: Tensor) -> str:
    value = _number(result[tuple(wrong.nonzero()[0].tolist())])
    count, total = int(wrong.sum()), result.numel()
    if total == 1:
        return f"{what} is {value}, and that is not right."
    which = f"{count} of the {total} entries"
    if count == total:
        which = "Both entries" if total == 2 else f"All {total} entries"
    first = f"the first{_at(wrong)}: yours is {value}"
    return f"{which} of {_in(what)} {'is' if count == 1 else 'are'} wrong, {first}."


def rows_sum_to_one(result: Any, expected: Any, /, **inputs: Any) -> str | None:
    """Property of attention weights: every row sums to 1 (or to 0, where nothing is allowed).

    Takes a tensor of weights, or a pair `(output, weights)`.
    """
    if not isinstance(result, Tensor):
        result, expected = result[-1], expected[-1]
    sums, wanted = result.double().sum(-1), expected.double().sum(-1)
    wrong = ~torch.isclose(sums, wanted, rtol=RTOL, atol=ATOL)
    if not wrong.any():
        return None
    index = tuple(wrong.nonzero()[0].tolist())
    which = f"Row {_index(index)} of your weights sums" if index else "Your weights sum"
    return f"{which} to {_number(sums[index])}; the sum must be {_number(wanted[index])}."


def weights_between_0_and_1(result: Any, expected: Any, /, **inputs: Any) -> str | None:
    """Property of attention weights: none is negative, none is above 1.

    Takes a tensor of weights, or a pair `(output, weights)`.
    """
    weights = result if isinstance(result, Tensor) else result[-1]
    for wrong, rule in ((weights < 0, "is never negative"), (weights > 1 + ATOL, "is at most 1")):
        if wrong.any():
            place = tuple(wrong.nonzero()[0].tolist())
            return f"Your weight{_at(wrong)} is {_number(weights[place])}; a weight {rule}."
    return None


# ------------------------------------------------------------------------------------- wording


def with_article(noun: str) -> str:
    return f"an {noun}" if noun[:1].lower() in "aeiou" else f"a {noun}"


def _in(what: str) -> str:
    """`what` inside a sentence."""
    return what[0].lower() + what[1:]


def _kind(value: Any) -> str:
    if isinstance(value, Tensor):
        return f"a tensor of shape {_shape(value)}"
    if isinstance(value, tuple | list):
        return f"{with_article(type(value).__name__)} of length {len(value)}"
    return with_article(type(value).__name__)


def _shape(tensor: Tensor) -> str:
    return str(tuple(tensor.shape))


def _dtype(tensor: Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")


def _index(index: Sequence[int]) -> str:
    return str(index[0]) if len(index) == 1 else str(list(index))


def _at(flags: Tensor) -> str:
    return f" at {flags.nonzero()[0].tolist()}" if flags.dim() else ""


def _number(value: Tensor) -> str:
    number = value.item()
    if isinstance(number, bool):
        return str(number)
    whole = 1000 <= abs(number) < 2**53 and number == int(number)
    return f"{int(number):,}" if whole else f"{number:.3g}"


def show(value: Any) -> str:
    if isinstance(value, nn.Module):
        return with_article(type(value).__name__)
    if isinstance(value, tuple | list) and any(isinstance(v, Tensor) for v in value):
        return f"({', '.join(map(show, value))})"
    if not isinstance(value, Tensor):
        return getattr(value, "__name__", repr(value))
    if value.numel() > 16:
        return f"{_dtype(value)} tensor of shape {_shape(value)}"

    def listed(item: Any) -> Any:
        if isinstance(item, list):
            return [listed(i) for i in item]
        return round(item, 3) if isinstance(item, float) else item

    return f"tensor({listed(value.tolist())})"
