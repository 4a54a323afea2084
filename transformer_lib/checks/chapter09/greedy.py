"""The exercise `greedy`: what it asks for, and how its answers go wrong."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor

from transformer_lib.checks.chapter09.loops import (
    by_rows,
    one_end,
    one_row,
    one_row_to_the_end,
    swapped,
    write,
)
from transformer_lib.checks.chapter09.writer import Writer
from transformer_lib.checks.old.core import Case, Exercise
from transformer_lib.checks.old.ids import whole_ids


class Written(NamedTuple):
    """What `greedy` returned, and how often it called the encoder."""

    ids: Tensor
    encoder_calls: int


def _counted(
    answer: Callable[..., Tensor],
    /,
    model: Writer,
    source: Tensor,
    max_len: int,
    bos_id: int,
    eos_id: int,
    pad_id: int,
) -> Written | None:
    ids = answer(model, source, max_len, bos_id, eos_id, pad_id)
    return None if ids is None else Written(whole_ids(ids), model.encoded)


def _reference(
    model: Any, source: Tensor, max_len: int, bos_id: int, eos_id: int, pad_id: int
) -> Tensor:
    return write(model, source, max_len, bos_id, eos_id, pad_id)


def _but(**steps: Callable[..., Any]) -> Callable[..., Tensor]:
    return partial(write, **steps)


def _fixed_ids(model: Any, source: Tensor, max_len: int, *ids: int) -> Tensor:
    return write(model, source, max_len, 1, 2, 0)


def _floats(
    model: Any, source: Tensor, max_len: int, bos_id: int, eos_id: int, pad_id: int
) -> Tensor:
    return _reference(model, source, max_len, bos_id, eos_id, pad_id).float()


def _without_ends(target: Tensor, eos_id: int, pad_id: int) -> Tensor:
    ids = target[:, 1:]
    return ids.masked_fill(ids == eos_id, pad_id)


def _up_to_the_first_end(target: Tensor, eos_id: int, pad_id: int) -> Tensor:
    return target[:, 1:-1]


def _unfilled(word: Tensor, ended: Tensor, pad_id: int, eos_id: int) -> Tensor:
    return word


def _never(ended: Tensor, at_end: Tensor) -> bool:
    return False


def _just_ended(ended: Tensor, target: Tensor, eos_id: int, pad_id: int) -> Tensor:
    return target[:, -1] == eos_id


def _end_or_padding(ended: Tensor, target: Tensor, eos_id: int, pad_id: int) -> Tensor:
    return (target[:, -1] == eos_id) | (target[:, -1] == pad_id)


def _without_padded_columns(target: Tensor, eos_id: int, pad_id: int) -> Tensor:
    ids = target[:, 1:]
    return ids[:, (ids != pad_id).any(dim=0)]


def _first_and_last(model: Any, source: Tensor, target: Tensor, memory: Tensor) -> Tensor:
    return model.encode(source)


_NO_END = "a sentence that has ended is written on: after its own end it gets `pad_id`"
_ENDS = [[7, 0, 0, 0], [3, 4, 5, 6], [8, 9, 0, 0]]


def _case(
    label: str, source: list[list[int]], max_len: int, ids: tuple[int, int, int] = (1, 2, 0)
) -> Case:
    return Case(label, Writer(*ids), torch.tensor(source), max_len, *ids)


GREEDY = Exercise(
    name="greedy",
    reference=_reference,
    use=_counted,
    cases=[
        _case("one sentence of one word", [[5]], 4),
        _case("one sentence of three words", [[3, 4, 5]], 9),
        _case("one sentence that is cut off at 2", [[3, 4, 5]], 2),
        _case("one sentence that says pad_id before its end", [[3, 13, 4]], 9),
        _case("two sentences that end together", [[3, 4], [5, 6]], 9),
        _case("three sentences that end at different times", _ENDS, 9),
        _case("three sentences, max_len where the longest ends", _ENDS, 5),
        _case("three sentences, cut off at 3", _ENDS, 3),
        _case("a sentence that never ends, beside one that does", [[3, 10], [4, 0]], 6),
        _case("other ids: bos 6, eos 4, pad 2", [[3, 5, 7], [8, 2, 2]], 9, (6, 4, 2)),
        _case(
            "a sentence that says pad_id before its end, beside a short one",
            [[3, 13, 4], [5, 0, 0]],
            9,
        ),
        _case("bos and eos are the same id", [[3, 5, 7], [8, 0, 0]], 9, (2, 2, 0)),
    ],
    mistakes={
        "the encoder runs again for every word: the source does not change, so its memory does "
        'not either (see the section "How often must it read?")': [
            _but(encode=lambda model, source: source, remember=_first_and_last),
            _but(remember=_first_and_last),
        ],
        "the encoder is given what was written: it belongs to the decoder's input": [
            _but(remember=lambda model, source, target, memory: model.encode(target)),
            _but(
                encode=lambda model, source: source,
                remember=lambda model, source, target, memory: model.encode(target),
            ),
        ],
        "the encoder runs once for every sentence: `model.encode` takes the whole batch": [
            by_rows,
        ],
        "target and memory have changed places: it is `model.decode(target, memory)`": [
            swapped,
        ],
        "the decoder is given the source, or other ids, as its memory: the memory is what "
        "`model.encode(source)` returns": [
            _but(encode=lambda model, source: source),
        ],
        "the first token that the decoder reads is not `bos_id` (but the padding id, say)": [
            _but(first=lambda bos_id, eos_id, pad_id: pad_id),
        ],
        "the first token that the decoder reads is the end token: it must be `bos_id`": [
            _but(first=lambda bos_id, eos_id, pad_id: eos_id),
        ],
        "the ids of begin, end and padding, or one of them, are fixed: they are arguments": [
            _fixed_ids,
            _but(fill=lambda word, ended, pad_id, eos_id: word.masked_fill(ended, 0)),
            _but(end=lambda ended, target, *ids: ended | (target[:, -1] == 2)),
            _but(first=lambda *ids: 1),
        ],
        "everybody stops when the first sentence ends: each has its own end": [
            _but(done=lambda ended, at_end: bool(at_end.any())),
            _but(done=lambda ended, at_end: bool(ended.any())),
            _but(done=lambda ended, at_end: bool(at_end[0])),
            _but(done=lambda ended, at_end: bool(at_end[0]), fill=_unfilled),
            _but(done=lambda ended, at_end: bool(at_end.any()), fill=_unfilled),
        ],
        "the text begins with one row: every sentence of the batch needs its own `bos_id`": [
            one_row,
            one_row_to_the_end,
        ],
        "the ids are made without a dtype, as by torch.zeros, and that makes floats": [
            _floats,
            _but(read=lambda target: target.float()),
        ],
        "the end is asked for as if there were one sentence: `word == eos_id` has an answer for "
        "each of them": [
            partial(one_end, number=lambda word: word),
            partial(one_end, number=lambda word: word.item()),
        ],
        "it stops only when all sentences end at the same word: remember who has ended before": [
            _but(done=lambda ended, at_end: bool(at_end.all())),
            _but(done=lambda ended, at_end: bool(at_end.all()), fill=_unfilled),
        ],
        _NO_END: [
            _but(fill=_unfilled),
            _but(fill=_unfilled, done=_never),
        ],
        "a sentence is held for one word only: the word after the end is padding, and the next "
        "one is not; remember who has ended, for good": [
            _but(end=_just_ended, done=lambda ended, at_end: bool(at_end.all())),
            _but(end=_just_ended, done=_never),
            _but(end=_just_ended),
        ],
        "after its end a sentence gets `eos_id` again and again, where it should get `pad_id`": [
            _but(fill=lambda word, ended, pad_id, eos_id: word.masked_fill(ended, eos_id)),
        ],
        "it never stops before `max_len`, even if all have ended": [_but(done=_never)],
        "`max_len` is not used: a text that does not end by itself is written for ever": [
            _but(steps=lambda max_len: 1000),
            _but(steps=lambda max_len: 1000, fill=_unfilled),
        ],
        "the token of the beginning is returned as well: only what was written is asked for": [
            _but(finish=lambda target, eos_id, pad_id: target),
        ],
        "the end tokens are gone: they were written, and are asked for": [
            _but(finish=_without_ends),
        ],
        "the columns in which all sentences have `pad_id` are gone: a model may say it as a word": [
            _but(finish=_without_padded_columns),
        ],
        "the last column is gone": [_but(finish=_up_to_the_first_end)],
        "the loop runs once too often, or once too little, where `max_len` cuts it off": [
            _but(steps=lambda max_len: max_len - 1),
            _but(steps=lambda max_len: max_len + 1),
        ],
        "the logits of the first place are read: the next word is said at the last place": [
            _but(newest=lambda logits: logits[:, 0]),
        ],
        "the decoder gets the newest word alone: it must get all that was written": [
            _but(read=lambda target: target[:, -1:]),
        ],
        "the decoder gets what was written without the beginning: `bos_id` stays in front": [
            _but(read=lambda target: target[:, 1:] if target.size(1) > 1 else target),
        ],
        "the token of the beginning is taken for the end where both have the same id: look for the "
        "end in what was written": [
            _but(begun=lambda bos_id, eos_id: bos_id == eos_id),
            _but(end=lambda ended, target, eos_id, pad_id: (target == eos_id).any(dim=1)),
        ],
        "padding is taken for the end: `eos_id` alone ends a sentence": [
            _but(end=_end_or_padding),
        ],
        "the newest column alone says who has ended: a model may say `pad_id` as a word, and "
        "`bos_id` may be the end's id; remember who has ended": [
            _but(end=_end_or_padding, begun=lambda bos_id, eos_id: bos_id == eos_id),
        ],
        "the least probable word is taken: argmax, not argmin": [
            _but(newest=lambda logits: -logits[:, -1]),
        ],
    },
    section="How often must it read?",
)
