"""The model solution of the exercise `write`, in steps, and what can go wrong there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

__all__ = [
    "all_places",
    "drawn",
    "first_lost",
    "guessed_text",
    "in_front",
    "last_but_one",
    "last_tokens",
    "last_without_caches",
    "late",
    "no_caches",
    "one_row",
    "read_twice",
    "reference",
    "stops_after_one",
    "text_without_caches",
    "until",
    "whole_text",
    "written",
    "wrong",
]


def written(
    model: Any,
    ids: Tensor,
    length: int,
    *,
    keep: Callable[[Any, list], Any] = lambda old, new: new,
    choose: Callable[[Tensor], Tensor] = lambda logits: logits[:, -1:].argmax(dim=-1),
    result: Callable[[Tensor, int], Tensor] = lambda ids, length: ids,
    steps: int = 0,
    dim: int = 1,
) -> Tensor:
    caches, read = None, ids
    first = ids.shape[1]
    for _ in range(length + steps):
        logits, new = model(read, caches)
        caches = keep(caches, new)
        read = choose(logits)
        ids = torch.cat([ids, read], dim=dim)
    return result(ids, first)


def reference(model: Any, ids: Tensor, length: int) -> Tensor:
    return written(model, ids, length)


def wrong(**parts: Any) -> Callable[..., Tensor]:
    return lambda model, ids, length: written(model, ids, length, **parts)


def whole_text(model: Any, ids: Tensor, length: int) -> Tensor:
    """The whole text at each step, and the caches as well."""
    caches = None
    for _ in range(length):
        logits, caches = model(ids, caches)
        ids = torch.cat([ids, logits[:, -1:].argmax(dim=-1)], dim=1)
    return ids


def no_caches(model: Any, ids: Tensor, length: int) -> Tensor:
    for _ in range(length):
        logits, _ = model(ids)
        ids = torch.cat([ids, logits[:, -1:].argmax(dim=-1)], dim=1)
    return ids


def last_tokens(model: Any, ids: Tensor, length: int) -> Tensor:
    return written(model, ids, length)[:, -length:]


def read_twice(model: Any, ids: Tensor, length: int) -> Tensor:
    (_, caches), read = model(ids), ids[:, -1:]
    for _ in range(length):
        logits, caches = model(read, caches)
        read = logits[:, -1:].argmax(dim=-1)
        ids = torch.cat([ids, read], dim=1)
    return ids


def first_lost(model: Any, ids: Tensor, length: int) -> Tensor:
    out, first = written(model, ids, length + 1), ids.shape[1]
    return torch.cat([out[:, :first], out[:, first + 1 :]], dim=1)


def late(model: Any, ids: Tensor, length: int) -> Tensor:
    """Each step reads the token that stood last before the new one came."""
    caches, read = None, ids
    for _ in range(length):
        logits, caches = model(read, caches)
        read = ids[:, -1:]
        ids = torch.cat([ids, logits[:, -1:].argmax(dim=-1)], dim=1)
    return ids


def text_without_caches(model: Any, ids: Tensor, length: int) -> Tensor:
    """The text itself is read token by token, and only what follows has caches."""
    return torch.cat([ids, written(model, ids[:, -1:], length)[:, 1:]], dim=1)


def last_without_caches(model: Any, ids: Tensor, length: int) -> Tensor:
    """The first new token is found without caches, and they begin with it."""
    first = written(model, ids[:, -1:], min(length, 1))[:, 1:]
    return torch.cat([ids, written(model, first, length - 1) if length else first], dim=1)


def guessed_text(model: Any, ids: Tensor, length: int) -> Tensor:
    """The guesses stand where the text stood."""
    logits, caches = model(ids)
    ids = torch.cat([ids[:, :1], logits.argmax(dim=-1)], dim=1)
    for _ in range(length - 1):
        logits, caches = model(ids[:, -1:], caches)
        ids = torch.cat([ids, logits.argmax(dim=-1)], dim=1)
    return ids


def in_front(model: Any, ids: Tensor, length: int) -> Tensor:
    caches, read = None, ids
    for _ in range(length):
        logits, caches = model(read, caches)
        read = logits[:, -1:].argmax(dim=-1)
        ids = torch.cat([read, ids], dim=1)
    return ids


def drawn(logits: Tensor) -> Tensor:
    return torch.multinomial(logits[:, -1].softmax(dim=-1), 1)


def last_but_one(logits: Tensor) -> Tensor:
    return logits[:, max(-2, -logits.shape[1]), None].argmax(dim=-1)


def all_places(model: Any, ids: Tensor, length: int) -> Tensor:
    caches, read = None, ids
    for _ in range(length):
        logits, caches = model(read, caches)
        read = logits.argmax(dim=-1)
        ids = torch.cat([ids, read], dim=1)
    return ids


def one_row(model: Any, ids: Tensor, length: int) -> Tensor:
    out = written(model, ids[:1], length)
    return out.expand(len(ids), -1)


def until(end: int) -> Callable[[Any, Tensor, int], Tensor]:
    """Stops behind the token that elsewhere means the end of a text."""

    def write(model: Any, ids: Tensor, length: int) -> Tensor:
        out, first = written(model, ids, length), ids.shape[1]
        ends = (out[:, first:] == end).all(dim=0).nonzero()
        return out[:, : first + int(ends[0]) + 1] if len(ends) else out

    return write


def stops_after_one(model: Any, ids: Tensor, length: int) -> Tensor | None:
    """`return` stands in the loop."""
    return written(model, ids, 1) if length else None
