"""Ways to attend block by block: the right one and wrong ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor


def scale(query: Tensor, value: Tensor, size: int) -> float:
    return query.shape[-1] ** -0.5


def attend_in_blocks(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    size: int,
    *,
    scale: Callable[[Tensor, Tensor, int], float] = scale,
    new_top: Callable[[Tensor, Tensor], Tensor] = torch.maximum,
    weigh: Callable[[Tensor, Tensor, Tensor], Tensor] = lambda scores, top, new: (
        scores - new
    ).exp(),
    shrink: Callable[[Tensor, Tensor], tuple[Tensor | float, Tensor | float]] = lambda top, new: (
        (top - new).exp(),
        (top - new).exp(),
    ),
    add: Callable[[Tensor | float, Tensor], Tensor] = lambda shrunk, own: shrunk + own,
    end: Callable[[Tensor, Tensor], Tensor] = lambda mixture, total: mixture / total,
    whole_blocks: bool = False,
) -> Tensor:
    """Block by block, with parts that a mistake replaces."""
    last = key.shape[-2] // size * size if whole_blocks else key.shape[-2]
    top = query.new_full((*query.shape[:-1], 1), -torch.inf)
    total, mixture = torch.zeros_like(top), query.new_zeros(*query.shape[:-1], value.shape[-1])
    for start in range(0, last, size):
        rows = slice(start, min(start + size, last))
        scores = query @ key[..., rows, :].mT * scale(query, value, size)
        new = new_top(top, scores.amax(-1, keepdim=True))
        weights = weigh(scores, top, new)
        first, second = shrink(top, new)
        if start == 0:
            first = second = 0.0
        total = add(first * total, weights.sum(-1, keepdim=True))
        mixture = add(second * mixture, weights @ value[..., rows, :])
        top = new
    return end(mixture, total)


def wrong(**parts: Any) -> Callable[..., Tensor]:
    return lambda query, key, value, size: attend_in_blocks(query, key, value, size, **parts)


def each_block(how: str) -> Callable[..., Tensor]:
    def answer(query: Tensor, key: Tensor, value: Tensor, size: int) -> Tensor:
        found = []
        for k, v in zip(key.split(size, -2), value.split(size, -2), strict=True):
            scores = query @ k.mT * query.shape[-1] ** -0.5
            found.append(scores.softmax(-1) @ v)
        return torch.stack(found).mean(0) if how == "mean" else torch.stack(found).sum(0)

    return answer


def no_top(query: Tensor, key: Tensor, value: Tensor, size: int) -> Tensor:
    return attend_in_blocks(
        query, key, value, size,
        new_top=lambda top, block: torch.zeros_like(block),
        shrink=lambda top, new: (1.0, 1.0),
    )  # fmt: skip


def first_top(query: Tensor, key: Tensor, value: Tensor, size: int) -> Tensor:
    return attend_in_blocks(
        query, key, value, size,
        new_top=lambda top, block: torch.where(top == -torch.inf, block, top),
        shrink=lambda top, new: (1.0, 1.0),
    )  # fmt: skip


def at_once(query: Tensor, key: Tensor, value: Tensor, size: int) -> Tensor:
    return (query @ key.mT * query.shape[-1] ** -0.5).softmax(-1) @ value


def by_first_axis(query: Tensor, key: Tensor, value: Tensor, size: int) -> Tensor:
    """Blocks of a batch, each of which sees all its keys; in two dimensions all is well."""
    top, total, mixture = query.new_tensor(-torch.inf), 0.0, 0.0
    for k, v in zip(key.split(size), value.split(size), strict=True):
        scores = query @ k.mT * query.shape[-1] ** -0.5
        new = torch.maximum(top, scores.amax(-1, keepdim=True))
        shrink, weights = (top - new).exp(), (scores - new).exp()
        total = shrink * total + weights.sum(-1, keepdim=True)
        mixture = shrink * mixture + weights @ v
        top = new
    return mixture / total  # type: ignore[operator]


def widely(reach: str) -> Callable[..., Tensor]:
    """One largest score for all queries, and, if ``reach`` says so, one sum."""

    def answer(query: Tensor, key: Tensor, value: Tensor, size: int) -> Tensor:
        top, total, mixture = query.new_tensor(-torch.inf), 0.0, 0.0
        for k, v in zip(key.split(size, -2), value.split(size, -2), strict=True):
            scores = query @ k.mT * query.shape[-1] ** -0.5
            new = torch.maximum(top, scores.max())
            shrink, weights = (top - new).exp(), (scores - new).exp()
            own = weights.sum() if reach == "sum" else weights.sum(-1, keepdim=True)
            total = shrink * total + own
            mixture = shrink * mixture + weights @ v
            top = new
        return mixture / total  # type: ignore[operator]

    return answer


def row_top_one_sum(query: Tensor, key: Tensor, value: Tensor, size: int) -> Tensor:
    top, total, mixture = query.new_full((*query.shape[:-1], 1), -torch.inf), 0.0, 0.0
    for k, v in zip(key.split(size, -2), value.split(size, -2), strict=True):
        scores = query @ k.mT * query.shape[-1] ** -0.5
        new = torch.maximum(top, scores.amax(-1, keepdim=True))
        shrink, weights = (top - new).exp(), (scores - new).exp()
        total = shrink * total + weights.sum()
        mixture = shrink * mixture + weights @ v
        top = new
    return mixture / total  # type: ignore[operator]


def in_every_block(query: Tensor, key: Tensor, value: Tensor, size: int) -> Tensor:
    top, total, out = query.new_full((*query.shape[:-1], 1), -torch.inf), 0.0, 0.0
    for k, v in zip(key.split(size, -2), value.split(size, -2), strict=True):
        scores = query @ k.mT * query.shape[-1] ** -0.5
        new = torch.maximum(top, scores.amax(-1, keepdim=True))
        shrink, weights = (top - new).exp(), (scores - new).exp()
        total = shrink * total + weights.sum(-1, keepdim=True)
        out = (shrink * out + weights @ v) / total
        top = new
    return out  # type: ignore[return-value]


def top_not_kept(query: Tensor, key: Tensor, value: Tensor, size: int) -> Tensor:
    """The old maximum stays at minus infinity, so nothing of what came before is left."""
    last = (key.shape[-2] - 1) // size * size
    return attend_in_blocks(query, key[..., last:, :], value[..., last:, :], size)


def one_block(query: Tensor, key: Tensor, value: Tensor, size: int) -> Tensor:
    return attend_in_blocks(query, key[..., :size, :], value[..., :size, :], size)


def one_block_too_many(largest: Callable[[Tensor], Tensor]) -> Callable[..., Tensor]:
    """Where `size` divides the number of keys, the last block is empty."""

    def answer(query: Tensor, key: Tensor, value: Tensor, size: int) -> Tensor:
        if key.shape[-2] % size == 0:
            return largest(query @ key[..., :0, :].mT)
        return attend_in_blocks(query, key, value, size)

    return answer


def slices_of_the_first_axis(query: Tensor, key: Tensor, value: Tensor, size: int) -> Tensor:
    out = query
    for start in range(0, key.shape[-2], size):
        out = query @ key[start : start + size].mT  # of a batch the second is empty
    return out if query.dim() > 2 else attend_in_blocks(query, key, value, size)


def in_parts(split: Callable[[Tensor, int], tuple[Tensor, ...]]) -> Callable[..., Tensor]:
    """Right, with blocks that are cut in another way."""

    def answer(query: Tensor, key: Tensor, value: Tensor, size: int) -> Tensor:
        for k in split(key, size):
            _ = query @ k.mT
        return attend_in_blocks(query, key, value, size)

    return answer
