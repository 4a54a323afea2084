"""The loop of `greedy` in steps, and loops that are wrong as a whole."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

__all__ = ["by_rows", "one_end", "one_row", "one_row_to_the_end", "swapped", "write"]


def write(
    model: Any,
    source: Tensor,
    max_len: int,
    bos_id: int,
    eos_id: int,
    pad_id: int,
    *,
    first: Callable[..., int] = lambda bos_id, eos_id, pad_id: bos_id,
    encode: Callable[[Any, Tensor], Tensor] = lambda model, source: model.encode(source),
    remember: Callable[..., Tensor] = lambda model, source, target, memory: memory,
    read: Callable[[Tensor], Tensor] = lambda target: target,
    newest: Callable[[Tensor], Tensor] = lambda logits: logits[:, -1],
    fill: Callable[..., Tensor] = lambda word, ended, pad_id, eos_id: word.masked_fill(
        ended, pad_id
    ),
    end: Callable[..., Tensor] = lambda ended, target, eos_id, pad_id: (
        ended | (target[:, -1] == eos_id)
    ),
    begun: Callable[..., bool] = lambda bos_id, eos_id: False,
    done: Callable[[Tensor, Tensor], bool] = lambda ended, at_end: bool(ended.all()),
    steps: Callable[[int], int] = lambda max_len: max_len,
    finish: Callable[..., Tensor] = lambda target, eos_id, pad_id: target[:, 1:],
) -> Tensor:
    """The loop in steps, of which a mistake replaces one or some."""
    memory = encode(model, source)
    target = source.new_full((len(source), 1), first(bos_id, eos_id, pad_id))
    ended = torch.full((len(source),), begun(bos_id, eos_id))
    for _ in range(0 if ended.all() else steps(max_len)):
        memory = remember(model, source, target, memory)
        word = newest(model.decode(read(target), memory)).argmax(-1)
        word = fill(word, ended, pad_id, eos_id)
        target = torch.cat([target, word[:, None]], dim=1)
        ended = end(ended, target, eos_id, pad_id)
        if done(ended, word == eos_id):
            break
    return finish(target, eos_id, pad_id)


def one_row(
    model: Any, source: Tensor, max_len: int, bos_id: int, eos_id: int, pad_id: int
) -> Tensor:
    memory, target = model.encode(source), torch.tensor([[bos_id]])
    for _ in range(max_len):
        word = model.decode(target, memory)[:, -1].argmax(-1)
        target = torch.cat([target, word[:, None]], dim=1)
        if word[0] == eos_id:
            break
    return target[:, 1:]


def one_end(
    model: Any,
    source: Tensor,
    max_len: int,
    bos_id: int,
    eos_id: int,
    pad_id: int,
    *,
    number: Callable[[Tensor], Any],
) -> Tensor:
    """`if word == eos_id`, or `word.item()`: an error as soon as there are two sentences."""
    memory, target = model.encode(source), source.new_full((len(source), 1), bos_id)
    for _ in range(max_len):
        word = model.decode(target, memory)[:, -1].argmax(-1)
        target = torch.cat([target, word[:, None]], dim=1)
        if number(word) == eos_id:
            break
    return target[:, 1:]


def one_row_to_the_end(
    model: Any, source: Tensor, max_len: int, bos_id: int, eos_id: int, pad_id: int
) -> Tensor:
    """As `one_row`, with an end to look for in what was written, whatever `max_len` says."""
    memory, target = model.encode(source), torch.tensor([[bos_id]])
    while (target[:, 1:] != eos_id).all():
        word = model.decode(target, memory)[:, -1].argmax(-1)
        target = torch.cat([target, word[:, None]], dim=1)
    return target[:, 1:]


def swapped(
    model: Any, source: Tensor, max_len: int, bos_id: int, eos_id: int, pad_id: int
) -> Tensor:
    memory, target = model.encode(source), source.new_full((len(source), 1), bos_id)
    ended = torch.zeros(len(source), dtype=torch.bool)
    while not ended.all() and target.size(1) <= max_len:
        word = model.decode(memory, target)[:, -1].argmax(-1).masked_fill(ended, pad_id)
        target = torch.cat([target, word[:, None]], dim=1)
        ended = ended | (word == eos_id)
    return target[:, 1:]


def by_rows(
    model: Any, source: Tensor, max_len: int, bos_id: int, eos_id: int, pad_id: int
) -> Tensor:
    rows = [write(model, row[None], max_len, bos_id, eos_id, pad_id)[0] for row in source]
    return torch.nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=pad_id)
