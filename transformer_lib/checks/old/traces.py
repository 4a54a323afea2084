"""What wrong numbers have in common with the right ones, where no known mistake gives them."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from transformer_lib.checks.old.compare import difference

__all__ = ["trace"]

Pair = tuple[Tensor, Tensor, Mapping[str, Any]]


def trace(pairs: Sequence[tuple[Any, Any, Mapping[str, Any]]]) -> str | None:
    """One sentence that holds for all wrong results, or None.

    Args:
        pairs: of each case that fails the result, the right one and the inputs.
    """
    tensors = [pair for pair in pairs if _is_plain(pair[0]) and _is_plain(pair[1])]
    if not pairs or len(tensors) < len(pairs) or all(right.numel() < 2 for _, right, _ in tensors):
        return None
    inputs = set.intersection(*(set(names) for _, _, names in tensors))
    try:
        signs = _signs(sorted(inputs))
        return next((what for what, holds in signs if all(map(holds, tensors))), None)
    except Exception:  # a tensor of a kind that cannot be computed with
        return None


def _signs(inputs: list[str]) -> Iterator[tuple[str, Callable[[Pair], bool]]]:
    for name in inputs:
        yield f"your result is the input `{name}`", lambda p, n=name: _same(p[0], p[2][n])
    yield (
        "the numbers are right and in the right order, and only the shape is another",
        lambda p: _same(p[0].flatten(), p[1].flatten()),
    )
    for i, j in itertools.combinations(range(-1, -4, -1), 2):
        yield (
            f"the axes {j} and {i} are exchanged",
            lambda p, i=i, j=j: (
                min(p[0].dim(), p[1].dim()) >= -j and _same(p[0].transpose(i, j), p[1])
            ),
        )
    yield "every number has the wrong sign", lambda p: _same(-p[0], p[1])
    for name in inputs:
        yield (
            f"`{name}` is added to the right result",
            lambda p, n=name: _fits(p[2][n], p[1]) and _same(p[0], p[1] + p[2][n]),
        )
    for axis in (-1, -2, -3):
        yield (
            f"the right numbers stand in another order along the axis {axis}",
            lambda p, axis=axis: _sorted_alike(p[0], p[1], axis),
        )
    for axis in (-1, 0, -2, -3):
        yield (
            f"the axis {axis} is gone: the numbers are summed, averaged or chosen along it, or "
            "come from one of its places",
            lambda p, axis=axis: _without_axis(p[1], axis) == [*p[0].shape],
        )
    for axis in (-1, 0, -2, -3):
        yield (
            f"there is an axis too many: without the axis {axis} the shape is right",
            lambda p, axis=axis: _without_axis(p[0], axis) == [*p[1].shape],
        )
    yield "all numbers are right but for one and the same factor", _one_factor
    yield (
        "each row is right but for a factor of its own, so what it is divided by or multiplied "
        "with is wrong",
        _factor_by_row,
    )


def _is_plain(value: Any) -> bool:
    plain = isinstance(value, Tensor) and value.layout is torch.strided
    return plain and not (value.is_nested or value.is_quantized or value.is_meta)


def _fits(value: Any, right: Tensor) -> bool:
    floats = isinstance(value, Tensor) and value.is_floating_point() and right.is_floating_point()
    return floats and value.shape == right.shape


def _same(one: Any, other: Any) -> bool:
    return _is_plain(one) and _is_plain(other) and difference(one, other) is None


def _sorted_alike(one: Tensor, other: Tensor, axis: int) -> bool:
    if one.shape != other.shape or one.dim() < -axis or one.size(axis) < 2:
        return False
    return _same(one.sort(axis).values, other.sort(axis).values)


def _without_axis(value: Tensor, axis: int) -> list[int] | None:
    """The shape that is left."""
    sizes = [*value.shape]
    if not -len(sizes) <= axis < len(sizes):
        return None
    del sizes[axis]
    return sizes


def _one_factor(pair: Pair) -> bool:
    result, right, _ = pair
    return result.numel() > 1 and _factor_by_row(
        (result.flatten()[None], right.flatten()[None], {})
    )


def _factor_by_row(pair: Pair) -> bool:
    """Each row lies along the right one: their product is as large as that of their lengths."""
    result, right, _ = pair
    if result.shape != right.shape or result.dim() < 1 or result.size(-1) < 2:
        return False
    a, b = result.detach().double(), right.detach().double()
    if not (a.isfinite().all() and b.isfinite().all()) or not a.any():
        return False
    lengths = a.norm(dim=-1) * b.norm(dim=-1)
    return bool(torch.isclose((a * b).sum(-1).abs(), lengths, rtol=1e-6, atol=1e-12).all())
