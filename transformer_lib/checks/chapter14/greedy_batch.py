"""The exercise `greedy_batch`: what it asks for, and how its answers go wrong."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from transformer_lib.checks.old.core import Case, Exercise
from transformer_lib.checks.old.inputs import random_tensor

PAD, BOS, EOS = 0, 1, 2
Next = Callable[[Tensor], Tensor]
Texts = list[list[int]]


class Writer:
    """Rows with a text each: token after token, if all that was read before is right.

    Off its text, and after its end, it babbles: something that depends on all it has read.
    """

    def __init__(self, texts: Texts, vocab_size: int = 11) -> None:
        self.texts = [[BOS, *text, EOS] for text in texts]
        self.noise = random_tensor(64, vocab_size, seed=3)
        # What babbles does not say that it has ended, or fill up.
        self.noise[:, :3] -= 10

    def __call__(self, ids: Tensor) -> Tensor:
        if ids.dim() != 2 or len(ids) != len(self.texts):
            raise ValueError(
                f"next_logits takes ids of shape (B, t) with all {len(self.texts)} rows at once, "
                f"got {tuple(ids.shape)}"
            )
        if ids.is_floating_point():
            dtype = str(ids.dtype).removeprefix("torch.")
            raise TypeError(f"next_logits takes ids, which are whole numbers; got {dtype}")
        logits = []
        for row, text in zip(ids.tolist(), self.texts, strict=True):
            n = len(row)
            scores = self.noise[(7 * sum(row) + 5 * n + 3 * row[-1]) % 64].clone()
            if row == text[:n] and n < len(text):
                scores[text[n]] = scores.max() + 1.5
            logits.append(scores)
        return torch.stack(logits)

    def __repr__(self) -> str:
        texts = [text[1:-1] for text in self.texts]
        return f"transformer_lib.checks.chapter14.Writer({texts})"


def _until(ids: list[int]) -> list[int]:
    return ids[: ids.index(EOS)] if EOS in ids else ids


def _greedy_batch(next_logits: Next, n_rows: int, max_len: int) -> Texts:
    return _greedy(next_logits, n_rows, max_len)


def _greedy(
    next_logits: Next,
    n_rows: int,
    max_len: int,
    *,
    first: float = BOS,
    reads: Callable[[Tensor], Tensor] = lambda ids: ids,
    ends: Callable[[Tensor], Tensor] = lambda tokens: tokens == EOS,
    choose: Callable[[Tensor], Tensor] = lambda logits: logits.argmax(-1),
    over: Callable[[Tensor], bool] = lambda ended: bool(ended.all()),
    at_once: bool = False,
    fill: bool = False,
    steps: int = 0,
    result: Callable[[list[int]], list[int]] = lambda row: _until(row[1:]),
) -> Texts:
    ids = torch.full((n_rows, 1), first)
    ended = torch.zeros(n_rows, dtype=torch.bool)
    for _ in range(max_len + steps):
        tokens = choose(next_logits(reads(ids)))
        if fill:
            tokens = tokens.masked_fill(ended, PAD)
        ids = torch.cat([ids, tokens[:, None]], 1)
        ended = ends(tokens) if at_once else ended | ends(tokens)
        if over(ended):
            break
    return [result(row) for row in ids.tolist()]


def _wrong(**part: Any) -> Callable[..., Texts]:
    return lambda next_logits, n_rows, max_len: _greedy(next_logits, n_rows, max_len, **part)


def _without(row: list[int], *ids: int) -> list[int]:
    return [i for i in row[1:] if i not in ids]


def _as_a_tensor(**part: Any) -> Callable[..., Tensor]:
    def greedy_batch(next_logits: Next, n_rows: int, max_len: int) -> Tensor:
        return torch.tensor(_greedy(next_logits, n_rows, max_len, **part))

    return greedy_batch


def _rows_fall_out(next_logits: Next, n_rows: int, max_len: int) -> Texts:
    """In the order in which the rows end."""
    texts = _greedy_batch(next_logits, n_rows, max_len)
    return sorted(texts, key=len)


def _one_list(next_logits: Next, n_rows: int, max_len: int) -> Texts:
    """All rows are written into one list, token after token."""
    texts = _greedy_batch(next_logits, n_rows, max_len)
    return [[text[t] for t in range(max_len) for text in texts if t < len(text)]] * n_rows


def _first_for_all(logits: Tensor) -> Tensor:
    return logits[0].argmax(-1).expand(len(logits))


GREEDY_BATCH = Exercise(
    name="greedy_batch",
    reference=_greedy_batch,
    cases=[
        Case("one row, with the id 0 in it", Writer([[5, 0, 7]]), 1, 9),
        Case("two rows of one length", Writer([[5, 3, 7], [4, 4, 9]]), 2, 9),
        Case("the second row ends sooner", Writer([[5, 3, 7, 8], [6]]), 2, 9),
        Case("the first row ends sooner", Writer([[6, 3], [5, 3, 7, 8, 4], [9, 9, 9]]), 3, 9),
        Case("one row has nothing to say", Writer([[6, 3], [], [5, 4, 3]]), 3, 9),
        Case("the same token twice, then thrice", Writer([[4, 4], [4, 4, 4]]), 2, 9),
        Case("max_len comes first", Writer([[5, 3, 7, 8, 4, 6], [6, 6]]), 2, 4),
    ],
    mistakes={
        "all rows stop when the first one ends: the others are cut off": [
            _wrong(over=lambda ended: bool(ended.any())),
            _wrong(over=lambda ended: bool(ended.any()), result=lambda row: _without(row, EOS)),
            _wrong(over=lambda ended: bool(ended.any()), result=lambda row: row[1:]),
            _wrong(over=lambda ended: bool(ended[0])),
            _wrong(over=lambda ended: bool(ended[0]), result=lambda row: row[1:]),
            _wrong(over=lambda ended: bool(ended[-1])),
        ],
        "an id 0 is thrown away, or ends a text: only <eos>, 2, ends it, and all before it was "
        "written": [
            _wrong(result=lambda row: [i for i in _until(row[1:]) if i != PAD]),
            _wrong(fill=True, result=lambda row: _without(row, EOS, PAD)),
            _wrong(fill=True, result=lambda row: _without(row, EOS, BOS, PAD)),
            _wrong(ends=lambda tokens: (tokens == EOS) | (tokens == PAD)),
            _wrong(
                ends=lambda tokens: (tokens == EOS) | (tokens == PAD),
                fill=True,
                result=lambda row: _without(row, EOS, PAD),
            ),
        ],
        "the ids are made without a dtype, as by torch.ones, and that makes floats": [
            _wrong(first=1.0),
        ],
        "`[[]] * n_rows` is one list in several places: what one row writes, all have": [
            _one_list,
        ],
        "the first token read is not <bos>, id 1: in training every text began with it": [
            _wrong(first=first, result=result)
            for first in (PAD, EOS, 3)
            for result in (lambda row: _until(row[1:]), _until, lambda row: row[1:])
        ],
        "what a row writes after its <eos> is kept: it has ended, whatever is chosen later": [
            _wrong(over=over, result=result)
            for over in (lambda ended: bool(ended.all()), lambda ended: False)
            for result in (
                lambda row: _without(row, EOS),
                lambda row: row[1:],
                lambda row: _without(row, EOS, BOS, PAD),
            )
        ]
        + [
            _wrong(at_once=True, result=lambda row: _without(row, EOS)),
            _wrong(at_once=True, result=lambda row: row[1:]),
        ],
        "what fills a row up after its <eos> is still there": [
            _wrong(fill=True, result=lambda row: row[1:]),
            _wrong(fill=True, result=lambda row: _without(row, EOS)),
            _wrong(fill=True, result=lambda row: row),
        ],
        "the ids come back as one tensor, all rows as long as each other: a text is a list, and "
        "ends before its <eos>": [
            _as_a_tensor(over=over, fill=fill, result=result)
            for over in (lambda ended: bool(ended.all()), lambda ended: False)
            for fill in (False, True)
            for result in (lambda row: row[1:], lambda row: row)
        ],
        "<eos> is still there: it says that the text is over, and is no part of it": [
            _wrong(result=lambda row: [*_until(row[1:]), EOS]),
            _wrong(result=lambda row: row[1:][: row.index(EOS)] if EOS in row else row[1:]),
            _wrong(fill=True, result=lambda row: _without(row, PAD)),
        ],
        "<bos> is still there: it was read, not written": [
            _wrong(result=_until),
            _wrong(result=lambda row: row),
            _wrong(fill=True, result=lambda row: [i for i in row if i not in (EOS, PAD)]),
        ],
        "the model is shown the newest token only, and not all that was written before it": [
            _wrong(reads=lambda ids: ids[:, -1:]),
        ],
        "the model is shown what was written without <bos> in front": [
            _wrong(reads=lambda ids: ids[:, 1:] if ids.size(1) > 1 else ids),
        ],
        "the least probable token is taken": [
            _wrong(choose=lambda logits: logits.argmin(-1)),
        ],
        "all rows get the token that is best for the first": [
            _wrong(choose=_first_for_all),
        ],
        "the best row is chosen for each token, and not the best token for each row: argmax runs "
        "over the wrong axis": [
            _wrong(choose=lambda logits: logits.argmax(0)[: len(logits)]),
        ],
        "one token too few is written where `max_len` ends a text: <bos> does not count": [
            _wrong(steps=-1),
        ],
        "one token too many is written where `max_len` ends a text": [
            _wrong(steps=1),
        ],
        "the texts are no longer in the order of the rows": [_rows_fall_out],
    },
    section="What will you have at the end?",
)
