"""Comparing a learner's result with a right one, and putting the difference into words.

Right answers come in many forms (another order of summation, float64, a list where a tuple was
meant): what is compared is structure, shape, bool or not, NaN, and values up to rounding. Every
sentence describes the learner's result and the property it misses; none gives the right value.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from decimal import Decimal
from numbers import Integral, Real
from typing import Any

import torch
from torch import Tensor

from transformer_lib.checks.old.wording import (
    at,
    dtype_name,
    index,
    inside,
    kind,
    number,
    shape,
    show,
)

# Loose enough for another order of summation in float32, tight enough to tell any mistake that
# the cases are built to show.
RTOL, ATOL = 1e-4, 1e-5


class _Mismatch(Exception):
    """Type, shape or NaN: the values cannot be compared at all."""


def _leaves(result: Any, expected: Any, what: str) -> Iterator[tuple[str, Any, Any]]:
    """Pairs to compare, as `(what it is, result, expected)`."""
    if isinstance(expected, list) and not (expected and isinstance(expected[0], Tensor)):
        yield from _items(result, expected, what)
    elif isinstance(expected, tuple | list):
        fields = getattr(expected, "_fields", None)
        if not isinstance(result, tuple | list) or len(result) != len(expected):
            names = f" ({', '.join(fields)})" if fields else ""
            raise _Mismatch(f"{what} must be {len(expected)} things{names}; it is {kind(result)}.")
        for i, (r, e) in enumerate(zip(result, expected, strict=True)):
            yield from _leaves(
                r, e, f"Your {fields[i]}" if fields else f"Item {i} of {inside(what)}"
            )
    elif isinstance(expected, Mapping):
        if not isinstance(result, Mapping):
            raise _Mismatch(f"{what} must be a dict; it is {kind(result)}.")
        for key in result:
            if key not in expected:
                raise _Mismatch(f"{what} has the key {show(key)}, which does not belong there.")
        if len(result) < len(expected):
            some = "one more" if len(expected) - len(result) == 1 else "more"
            raise _Mismatch(f"{what} has {_keys(len(result))}; it must have {some}.")
        for key in expected:
            yield from _leaves(result[key], expected[key], f"{what} for {key!r}")
    else:
        yield what, result, expected


def _keys(count: int) -> str:
    return "1 key" if count == 1 else f"{count} keys"


def _items(result: Any, expected: list, what: str) -> Iterator[tuple[str, Any, Any]]:
    """A list of data, such as merges or tokens: its length is part of the answer."""
    if not isinstance(result, tuple | list):
        raise _Mismatch(f"{what} must be a list; it is {kind(result)}.")
    for i, (r, e) in enumerate(zip(result, expected, strict=False)):
        words = isinstance(e, tuple) and all(isinstance(part, str) for part in e)
        # A pair of strings is one thing to look at, and as good in a list.
        pair = (tuple(r) if isinstance(r, list) else r, e) if words else None
        item = f"Item {i} of {inside(what)}"
        yield from [(item, *pair)] if pair else _leaves(r, e, item)
    if len(result) != len(expected):
        some = "fewer" if len(result) > len(expected) else "more"
        count = "1 item" if len(result) == 1 else f"{len(result)} items"
        raise _Mismatch(f"{what} has {count}; it must have {some}.")


# ------------------------------------------------------------------------- numbers and tensors


def _tensors(result: Any, expected: Any, what: str) -> tuple[Tensor, Tensor]:
    """Both as ordinary tensors of one shape."""
    one = not isinstance(expected, Tensor) or expected.dim() == 0
    truth = isinstance(expected, bool) or (
        isinstance(expected, Tensor) and expected.dtype is torch.bool
    )
    if not isinstance(result, Tensor):
        plain = _plain(result) if one else None
        if plain is None or (truth and one and not isinstance(plain, bool)):
            wanted = "True or False" if truth else "one number"
            if isinstance(expected, Tensor) and not one:
                wanted = f"a tensor of shape {shape(expected)}"
            raise _Mismatch(f"{what} must be {wanted}; it is {kind(result)}.")
        result, expected = _number_pair(plain, expected, what)
    result = _ordinary(result, what)
    expected = torch.as_tensor(expected).detach().cpu()
    if result.shape != expected.shape:
        wanted = f"have shape {shape(expected)}"
        if one:
            wanted = "be True or False" if truth else "be one number"
        raise _Mismatch(f"{what} has shape {shape(result)}; it must {wanted}.")
    misfit = _wrong_dtype(result, expected)
    if misfit:
        raise _Mismatch(f"{what} has dtype {dtype_name(result)}; {misfit}.")
    lost = result.isnan() & ~expected.isnan()
    if lost.any():
        where = at(lost)
        raise _Mismatch(f"{what} is NaN{where}." if where else f"{what} is NaN.")
    return result, expected


def _plain(value: Any) -> bool | int | float | None:
    """One number as Python's own, be it NumPy's, a Fraction or a Decimal; None if it is none."""
    if getattr(value, "shape", None) == () and callable(getattr(value, "item", None)):
        value = value.item()
    if isinstance(value, bool | int | float):
        return value
    if isinstance(value, Integral):
        return int(value)
    return float(value) if isinstance(value, Real | Decimal) else None


def _number_pair(result: bool | int | float, expected: Any, what: str) -> tuple[Tensor, Any]:
    """As tensors. Integers of any size are compared exactly."""
    large = isinstance(result, int) and abs(result) >= 2**63
    if large or (isinstance(expected, int) and abs(expected) >= 2**63):
        if result != expected:
            digits = int(int(result).bit_length() * 0.30103) + 1 if large else 0
            shown = f"a number of about {digits} digits" if digits > 19 else f"{result:,}"
            raise _Mismatch(f"{what} is {shown}, and that is not right.")
        return torch.tensor(0), 0
    # A count in the millions has no place in float32.
    return torch.tensor(
        result, dtype=torch.float64 if isinstance(result, float) else None
    ), expected


def _ordinary(tensor: Tensor, what: str) -> Tensor:
    """Dense, on the CPU, without a graph: what numbers can be read from."""
    if tensor.is_nested:
        raise _Mismatch(f"{what} is a nested tensor; it must be an ordinary one.")
    if tensor.is_meta:
        raise _Mismatch(f'{what} is on the device "meta", which keeps shapes and no numbers.')
    tensor = tensor.detach()
    if tensor.is_quantized:
        tensor = tensor.dequantize()
    if tensor.layout is not torch.strided:
        tensor = tensor.to_dense()
    return tensor.cpu()


def _wrong_dtype(result: Tensor, expected: Tensor) -> str | None:
    if expected.dtype is torch.bool:
        return None if result.dtype is torch.bool else "it must be bool"
    if result.is_complex() and not expected.is_complex():
        return "its numbers must be real"
    return None


def _no_integers(result: Tensor, expected: Tensor, what: str) -> None:
    ids = not expected.is_floating_point() and expected.dtype is not torch.bool
    if ids and expected.dim() > 0 and (result.is_floating_point() or result.dtype is torch.bool):
        raise _Mismatch(f"{what} has dtype {dtype_name(result)}; it must hold integers.")


def mismatch(result: Any, expected: Any) -> str | None:
    """The evidence where type, shape or NaN forbid comparing values at all."""
    try:
        for part, r, e in _leaves(result, expected, "Your result"):
            if isinstance(e, Tensor | int | float):
                _no_integers(*_tensors(r, e, part), part)
    except _Mismatch as found:
        return str(found)
    except Exception as error:  # a class of the learner's own may raise wherever it is touched
        return _incomparable("Your result", result, error)
    return None


def difference(
    result: Any, expected: Any, what: str = "Your result", *, atol: float = ATOL
) -> str | None:
    """None where both are the same up to rounding, else the evidence on `what`."""
    try:
        for part, r, e in _leaves(result, expected, what):
            if not isinstance(e, Tensor | int | float):
                if not _equal(r, e):
                    return f"{part} is {show(r)}, and that is not right."
                continue
            r, e = _tensors(r, e, part)
            wrong = _wrong(r, e, atol)
            if wrong.any():
                return _wrong_entries(part, r, wrong)
    except _Mismatch as found:
        return str(found)
    except Exception as error:
        return _incomparable(what, result, error)
    return None


def other_dtype(result: Any, expected: Any) -> str | None:
    """The evidence where a float tensor in `result` has not the dtype of its counterpart."""
    parts = [(p, r, e) for p, r, e in _leaves(result, expected, "Your result")
             if isinstance(e, Tensor) and e.is_floating_point()]  # fmt: skip
    for part, r, e in parts:
        if getattr(r, "dtype", None) != e.dtype:
            have = "they have" if len(parts) == 1 else f"{inside(part)} has"
            found = dtype_name(r) if isinstance(r, Tensor) else type(r).__name__
            return (
                f"The numbers are right, but {have} dtype {found}; for this input, {dtype_name(e)}."
            )
    return None


def _wrong(result: Tensor, expected: Tensor, atol: float) -> Tensor:
    if expected.is_complex():
        result, expected = (torch.view_as_real(t.to(torch.complex128)) for t in (result, expected))
    if not expected.is_floating_point() and not result.is_floating_point():
        return result != expected  # a count is right or wrong, however large it is
    # Coarse numbers, such as bfloat16, are as close as they can be told apart.
    grain = 4 * torch.finfo(expected.dtype).eps if expected.is_floating_point() else 0.0
    rtol = max(RTOL, grain) if expected.is_floating_point() else 0.0
    least = max(atol, grain)
    return ~torch.isclose(result.double(), expected.double(), rtol, least, equal_nan=True)


def _incomparable(what: str, result: Any, error: Exception) -> str:
    return f"{what}, {kind(result)}, cannot be compared: that raises {type(error).__name__}."


def _equal(result: Any, expected: Any) -> bool:
    if type(expected).__eq__ is object.__eq__:  # it knows itself only
        return type(result) is type(expected)
    try:
        return bool(result == expected)
    except Exception:  # an array compares entry by entry
        return repr(result) == repr(expected)


def _wrong_entries(what: str, result: Tensor, wrong: Tensor) -> str:
    value = number(result[tuple(wrong.nonzero()[0].tolist())])
    count, total = int(wrong.sum()), result.numel()
    if total == 1:
        return f"{what} is {value}, and that is not right."
    which = f"{count} of the {total} entries"
    if count == total:
        which = "Both entries" if total == 2 else f"All {total} entries"
    first = f"the first{at(wrong)}: yours is {value}"
    return f"{which} of {inside(what)} {'is' if count == 1 else 'are'} wrong, {first}."


# -------------------------------------------------------------------- properties of attention


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
    place = tuple(wrong.nonzero()[0].tolist())
    which = f"Row {index(place)} of your weights sums" if place else "Your weights sum"
    return f"{which} to {number(sums[place])}; the sum must be {number(wanted[place])}."


def weights_between_0_and_1(result: Any, expected: Any, /, **inputs: Any) -> str | None:
    """Property of attention weights: none is negative, none is above 1.

    Takes a tensor of weights, or a pair `(output, weights)`.
    """
    weights = result if isinstance(result, Tensor) else result[-1]
    for wrong, rule in ((weights < 0, "is never negative"), (weights > 1 + ATOL, "is at most 1")):
        if wrong.any():
            place = tuple(wrong.nonzero()[0].tolist())
            return f"Your weight{at(wrong)} is {number(weights[place])}; a weight {rule}."
    return None
