"""The exercise `write`: greedy, with the caches of what has been read."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from transformer_lib.checks.core import Case, Exercise
from transformer_lib.checks.modules import Flaw
from transformer_lib.checks.project.decoder import Llama
from transformer_lib.checks.seeding import seeded

__all__ = ["WRITE"]


class _Watched:
    """A model that notes how many tokens it is given at each call."""

    def __init__(self, seed: int) -> None:
        with seeded(seed):
            self.model = Llama(11, 24, 6, 2, 2, 20).eval()
            for parameter in self.model.parameters():
                parameter.data += 0.3 * torch.randn_like(parameter)
        self.given: list[int] = []
        self.texts = 0
        self.alone = 0  # calls without caches

    def __call__(self, ids: Tensor, caches: list | None = None) -> tuple[Tensor, list]:
        if self.given and caches and len(ids) != self.texts:
            raise Flaw(
                "one text",
                f"The model is given {len(ids)} of the {self.texts} texts, together with the "
                "caches of all: hand it one token for each text.",
            )
        self.texts = len(ids)
        self.given.append(ids.shape[1])
        self.alone += not caches
        return self.model(ids, caches)

    def eval(self) -> _Watched:
        return self


def watched(answer: Callable[..., Any], /, ids: Tensor, length: int, seed: int) -> Any:
    """The ids that are written.

    Raises:
        Flaw: more than one token is read at a step, though the caches hold the others.
    """
    model = _Watched(seed)
    with torch.no_grad():
        out = answer(model, ids.clone(), length)
    again = [given for given in model.given[1:] if given != 1]
    if again:
        with_caches = model.alone < len(model.given)
        what = "on top of the caches" if with_caches else "without the caches"
        raise Flaw(
            what,
            f"After the first step the model is given {again[0]} tokens at once, {what}: it needs "
            "the caches and the new token alone.",
        )
    return out


def _write(
    model: Any,
    ids: Tensor,
    length: int,
    *,
    keep: Callable[[Any, list], Any] = lambda old, new: new,
    choose: Callable[[Tensor], Tensor] = lambda logits: logits[:, -1:].argmax(dim=-1),
    result: Callable[[Tensor, int], Tensor] = lambda ids, length: ids,
    steps: int = 0,
) -> Tensor:
    caches, read = None, ids
    first = ids.shape[1]
    for _ in range(length + steps):
        logits, new = model(read, caches)
        caches = keep(caches, new)
        read = choose(logits)
        ids = torch.cat([ids, read], dim=1)
    return result(ids, first)


def _reference(model: Any, ids: Tensor, length: int) -> Tensor:
    return _write(model, ids, length)


def _wrong(**parts: Any) -> Callable[..., Tensor]:
    return lambda model, ids, length: _write(model, ids, length, **parts)


def _whole_text(model: Any, ids: Tensor, length: int) -> Tensor:
    """The whole text at each step, and the caches as well."""
    caches = None
    for _ in range(length):
        logits, caches = model(ids, caches)
        ids = torch.cat([ids, logits[:, -1:].argmax(dim=-1)], dim=1)
    return ids


def _no_caches(model: Any, ids: Tensor, length: int) -> Tensor:
    for _ in range(length):
        logits, _ = model(ids)
        ids = torch.cat([ids, logits[:, -1:].argmax(dim=-1)], dim=1)
    return ids


def _last_tokens(model: Any, ids: Tensor, length: int) -> Tensor:
    return _write(model, ids, length)[:, -length:]


def _read_twice(model: Any, ids: Tensor, length: int) -> Tensor:
    (_, caches), read = model(ids), ids[:, -1:]
    for _ in range(length):
        logits, caches = model(read, caches)
        read = logits[:, -1:].argmax(dim=-1)
        ids = torch.cat([ids, read], dim=1)
    return ids


def _first_lost(model: Any, ids: Tensor, length: int) -> Tensor:
    out, first = _write(model, ids, length + 1), ids.shape[1]
    return torch.cat([out[:, :first], out[:, first + 1 :]], dim=1)


def _late(model: Any, ids: Tensor, length: int) -> Tensor:
    """Each step reads the token that stood last before the new one came."""
    caches, read = None, ids
    for _ in range(length):
        logits, caches = model(read, caches)
        read = ids[:, -1:]
        ids = torch.cat([ids, logits[:, -1:].argmax(dim=-1)], dim=1)
    return ids


def _text_without_caches(model: Any, ids: Tensor, length: int) -> Tensor:
    """The text itself is read token by token, and only what follows has caches."""
    return torch.cat([ids, _write(model, ids[:, -1:], length)[:, 1:]], dim=1)


def _last_without_caches(model: Any, ids: Tensor, length: int) -> Tensor:
    """The first new token is found without caches, and they begin with it."""
    first = _write(model, ids[:, -1:], min(length, 1))[:, 1:]
    return torch.cat([ids, _write(model, first, length - 1) if length else first], dim=1)


def _guessed_text(model: Any, ids: Tensor, length: int) -> Tensor:
    """The guesses stand where the text stood."""
    logits, caches = model(ids)
    ids = torch.cat([ids[:, :1], logits.argmax(dim=-1)], dim=1)
    for _ in range(length - 1):
        logits, caches = model(ids[:, -1:], caches)
        ids = torch.cat([ids, logits.argmax(dim=-1)], dim=1)
    return ids


def _in_front(model: Any, ids: Tensor, length: int) -> Tensor:
    caches, read = None, ids
    for _ in range(length):
        logits, caches = model(read, caches)
        read = logits[:, -1:].argmax(dim=-1)
        ids = torch.cat([read, ids], dim=1)
    return ids


def _drawn(logits: Tensor) -> Tensor:
    return torch.multinomial(logits[:, -1].softmax(dim=-1), 1)


def _last_but_one(logits: Tensor) -> Tensor:
    return logits[:, max(-2, -logits.shape[1]), None].argmax(dim=-1)


def _all_places(model: Any, ids: Tensor, length: int) -> Tensor:
    caches, read = None, ids
    for _ in range(length):
        logits, caches = model(read, caches)
        read = logits.argmax(dim=-1)
        ids = torch.cat([ids, read], dim=1)
    return ids


def _one_row(model: Any, ids: Tensor, length: int) -> Tensor:
    out = _write(model, ids[:1], length)
    return out.expand(len(ids), -1)


def _until(end: int) -> Callable[[Any, Tensor, int], Tensor]:
    """Stops behind the token that elsewhere means the end of a text."""

    def write(model: Any, ids: Tensor, length: int) -> Tensor:
        out, first = _write(model, ids, length), ids.shape[1]
        ends = (out[:, first:] == end).all(dim=0).nonzero()
        return out[:, : first + int(ends[0]) + 1] if len(ends) else out

    return write


def _case(label: str, ids: list[list[int]], length: int, seed: int = 0) -> Case:
    return Case(label, torch.tensor(ids), length, seed)


WRITE = Exercise(
    name="write",
    reference=_reference,
    use=watched,
    cases=[
        _case("one token behind one", [[3]], 1),
        _case("one token behind three", [[3, 1, 4]], 1),
        _case("two tokens behind three", [[3, 1, 4]], 2),
        _case("nine tokens, another model", [[2, 7, 1, 8]], 9, seed=3),
        _case("two texts", [[3, 1, 4], [1, 5, 9]], 7, seed=1),
        # 8 7 0 2 1 7: all that could be taken for an end.
        _case("0, 1 and 2 are tokens like others", [[3, 1, 4]], 6, seed=81),
        _case("nothing to write", [[3, 1, 4]], 0),
    ],
    mistakes={
        "the caches are not handed on: each new token is read as if it stood alone": [
            _wrong(keep=lambda old, new: None),
        ],
        "the caches of the first step are kept: they have to grow": [
            _wrong(keep=lambda old, new: old if old is not None else new),
        ],
        "more than the new token is read, on top of the caches: what was read before is in them "
        "twice": [
            _whole_text,
        ],
        "the caches are not used: the whole text is read at each step": _no_caches,
        "the least probable token is chosen": [
            _wrong(choose=lambda logits: logits[:, -1:].argmin(dim=-1)),
        ],
        "the token is chosen at the first place: the last one says what comes next": [
            _wrong(choose=lambda logits: logits[:, :1].argmax(dim=-1)),
        ],
        "the token is chosen at the last place but one: the last one says what comes next": [
            _wrong(choose=_last_but_one),
            _wrong(choose=lambda logits: logits[:, -2, None].argmax(dim=-1)),
            _wrong(choose=lambda logits: logits[:, -2:-1].argmax(dim=-1)),
        ],
        "the token is drawn: here it is the most probable one": _wrong(choose=_drawn),
        "`argmax` goes over the texts or the places: the vocabulary is the last axis": [
            _wrong(choose=lambda logits: logits[:, -1].argmax(dim=0)[: len(logits), None]),
            _wrong(choose=lambda logits: logits.argmax(dim=1)[:, -1:]),
            _wrong(choose=lambda logits: logits[:, -1:].argmax(dim=1)),
        ],
        "`argmax` has no `dim`: it then counts through the logits of all texts": [
            _wrong(choose=lambda logits: logits[:, -1].argmax().expand(len(logits), 1)),
            _wrong(choose=lambda logits: logits[:, -1].argmax().view(1, 1)),
        ],
        "the token before the new one is read: the new one is what the caches lack": _late,
        "the first new token is read and not written: it stands behind the text like the others": [
            _first_lost,
        ],
        "the last token of the text is read alone, or all of them one by one without handing their "
        "caches on: the tokens before are then forgotten": [
            _text_without_caches,
            _last_without_caches,
        ],
        "the text is replaced by guesses: it stays, and new tokens come behind it": [
            _guessed_text,
            lambda model, ids, length: _guessed_text(model, ids, length) if length else ids,
        ],
        "the new tokens are put in front of the text: they belong behind it": _in_front,
        "`length` is taken as the length of the whole text: it counts the new tokens": [
            lambda model, ids, length: _write(model, ids, max(length - ids.shape[1], 0)),
        ],
        "only the new tokens are returned: it is asked for the text with them behind it": [
            _wrong(result=lambda ids, first: ids[:, first:]),
            _last_tokens,
        ],
        "the last token of the text is read twice: it is in the caches when it is read again": [
            _read_twice,
        ],
        "the guesses at all places are written: the last one alone says what comes next": [
            _all_places,
        ],
        "one token too many is written": _wrong(steps=1),
        "writing stops at one token: here no token is an end, and `length` of them are asked for": [
            _until(0),
            _until(1),
            _until(2),
        ],
        "one token too few is written": [
            lambda model, ids, length: _write(model, ids, max(length - 1, 0)),
        ],
        "all texts are continued like the first": [
            _one_row,
            _wrong(choose=lambda logits: logits[:1, -1:].argmax(dim=-1).expand(len(logits), 1)),
        ],
    },
    section="Stage 6: writing",
)
