"""The exercise `leaks`: what it asks for, and how its answers go wrong."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from functools import partial

import torch
from torch import Tensor

from transformer_lib.checks.core import Case, Exercise
from transformer_lib.checks.inputs import random_tensor

_Model = Callable[[Tensor], Tensor]
_VOCAB = 7
# 6 is the last of the vocabulary: ids + 1 must wrap around. Place 3 holds a 1 and place 4 a 0 in
# both sequences: neither is another token everywhere.
_ONE = torch.tensor([[3, 1, 4, 1, 0, 5]])
_TABLE = random_tensor(_VOCAB, 3).tolist()
_BITS = torch.tensor([[0, 1, 1, 0, 1, 0]])
_TWO = torch.tensor([[3, 1, 4, 1, 0, 5], [6, 2, 6, 1, 0, 3]])


class _Reader:
    """A model that adds up what each place sees: `sees(t, s, T, b)`, apart from s <= t."""

    def __init__(
        self, name: str, sees: Callable[[int, int, int, int], bool], strength: float = 1.0
    ) -> None:
        self.__name__ = name  # what the report calls it
        self.sees, self.strength = sees, strength

    def __call__(self, ids: Tensor) -> Tensor:
        if not ((ids >= 0) & (ids < _VOCAB)).all():
            raise IndexError("index out of range in self")  # as nn.Embedding says it
        return torch.tensor([self._read(b, tokens) for b, tokens in enumerate(ids.tolist())])

    def _read(self, b: int, tokens: list[int]) -> list[list[float]]:
        rows = []
        for t in range(len(tokens)):
            row = [0.0, 0.0, 0.0]
            for s, token in enumerate(tokens):
                if s <= t or self.sees(t, s, len(tokens), b):
                    share = 1 / (1 + t - s) if s <= t else self.strength
                    row = [x + share * y for x, y in zip(row, _TABLE[token], strict=True)]
            rows.append(row)
        return rows


def _looks(one: int, other: int, t: int, s: int, T: int, b: int) -> bool:
    return (t, s) == (one, other)


_honest = _Reader("honest", lambda t, s, T, b: False)


def _leaks(model: _Model, ids: Tensor, vocab_size: int) -> bool:
    return _tester(model, ids, vocab_size)


def _next(tokens: Tensor, vocab_size: int) -> Tensor:
    return (tokens + 1) % vocab_size


def _one_more(tokens: Tensor, vocab_size: int) -> Tensor:
    return tokens + 1


def _beyond(tokens: Tensor, vocab_size: int) -> Tensor:
    return torch.full_like(tokens, vocab_size)


def _tester(
    model: _Model,
    ids: Tensor,
    vocab_size: int,
    *,
    places: Callable[[int], Iterable[int]] = lambda length: range(1, length),
    where: Callable[[int], slice] = lambda place: slice(place, place + 1),
    who: slice = slice(None),
    other: Callable[[Tensor, int], Tensor] = _next,
    looked_at: Callable[[int], slice] = lambda place: slice(0, place),
    read: Callable[[Tensor], Tensor] = lambda outputs: outputs,
    atol: float = 1e-6,
) -> bool:
    """The test in steps, of which a mistake replaces one."""
    before = read(model(ids))
    for place in places(ids.shape[1]):
        changed = ids.clone()
        changed[who, where(place)] = other(ids[who, where(place)], vocab_size)
        part = looked_at(place)
        moved = (read(model(changed)) - before)[who, part].abs()
        if bool((moved > atol).any()):
            return True
    return False


def _one_quiet_place(model: _Model, ids: Tensor, vocab_size: int) -> bool:
    return any(
        not _tester(model, ids, vocab_size, places=lambda length, place=place: [place])
        for place in range(1, ids.shape[1])
    )


def _but(**step: object) -> Callable[[_Model, Tensor, int], bool]:
    def tester(model: _Model, ids: Tensor, vocab_size: int) -> bool:
        return _tester(model, ids, vocab_size, **step)  # type: ignore[arg-type]

    return tester


def _drawn(tokens: Tensor, vocab_size: int) -> Tensor:
    return torch.randint(vocab_size, tokens.shape)


def _drawn_alike(tokens: Tensor, vocab_size: int) -> Tensor:
    return torch.full_like(tokens, int(torch.randint(vocab_size, ())))


def _drawn_by_python(tokens: Tensor, vocab_size: int) -> Tensor:
    return torch.full_like(tokens, random.randrange(vocab_size))


_DRAWN = (_drawn, _drawn_alike, _drawn_by_python)
_PLACES: tuple[Callable[[int], Iterable[int]], ...] = (
    lambda length: range(1, length),
    range,
    lambda length: reversed(range(1, length)),
)


def _two_tokens(
    result: object, expected: object, /, vocab_size: int, **inputs: object
) -> str | None:
    if vocab_size > 2 or result:
        return None
    return (
        "Your result is False for a model that looks ahead and has two tokens: a new token that "
        "is drawn at random is the old one every other time."
    )


LEAKS = Exercise(
    name="leaks",
    reference=_leaks,
    cases=[
        Case("a model that sees the past alone", _honest, _ONE, _VOCAB),
        Case("a model that sees everything", _Reader("open", lambda *_: True), _ONE, _VOCAB),
        Case(
            "a triangle one too wide",
            _Reader("one_too_wide", lambda t, s, T, b: s == t + 1),
            _ONE,
            _VOCAB,
        ),
        Case("a batch of two, honest", _honest, _TWO, _VOCAB),
        Case(
            "a model that sees the last token from everywhere",
            _Reader("sees_the_last", lambda t, s, T, b: s == T - 1),
            _TWO,
            _VOCAB,
        ),
        *(
            Case(
                f"a model in which place {t} alone looks ahead, at place {s}",
                _Reader("sly", partial(_looks, t, s)),
                _TWO,
                _VOCAB,
            )
            for t, s in ((2, 4), (0, 3), (3, 4), (0, 1), (4, 5), (1, 2))
        ),
        Case(
            "a model that looks ahead in the second sequence of a batch",
            _Reader("second", lambda t, s, T, b: b == 1),
            _TWO,
            _VOCAB,
        ),
        Case(
            "a model whose look ahead counts little",
            _Reader("faint", lambda t, s, T, b: True, 1e-3),
            _TWO,
            _VOCAB,
        ),
        *(
            Case(
                f"two tokens only, place {t} looks ahead, at place {s}",
                _Reader("sly", partial(_looks, t, s)),
                _BITS,
                2,
            )
            for t, s in ((0, 1), (1, 2), (2, 3), (3, 4), (4, 5), (0, 5), (1, 3), (2, 4))
        ),
    ],
    mistakes={
        "the verdict is the wrong way round: `leaks` is True where the future is seen": [
            lambda model, ids, vocab_size: not _leaks(model, ids, vocab_size),
            _one_quiet_place,
        ],
        "outputs are compared that may move: the changed token's own, those after it, or, if all "
        "tokens are changed at once, or `ids` itself instead of a clone for each place, those "
        "after another change": [
            _but(looked_at=lambda place: slice(0, place + 1)),
            _but(looked_at=lambda place: slice(None)),
            _but(looked_at=lambda place: slice(place, None)),
            _but(looked_at=lambda place: slice(place + 1, None)),
            _but(where=lambda place: slice(None)),
            _but(where=lambda place: slice(None), looked_at=lambda place: slice(None)),
        ],
        "no output before the changed token is compared: then nothing is ever found": [
            _but(places=lambda length: [0]),
        ],
        "only the last token is changed: who looks at another one goes unseen": [
            _but(places=lambda length: [length - 1]),
        ],
        "only one token, in the middle, is changed: who looks at another one goes unseen": [
            _but(places=lambda length: [length // 2]),
            _but(places=lambda length: [length // 2 - 1]),
        ],
        "only the second token is changed, as when the loop returns in its first round: who looks "
        "at another one goes unseen": [
            _but(places=lambda length: [1]),
        ],
        "the last token is never changed: the range ends one too early": [
            _but(places=lambda length: range(1, length - 1)),
        ],
        "the output right before the changed token is not compared: a look ahead by one place "
        "goes unseen": _but(looked_at=lambda place: slice(0, place - 1)),
        "only the output right before the changed token is compared: a look may reach further": [
            _but(looked_at=lambda place: slice(place - 1, place)),
        ],
        "only the first output is compared: the others may look ahead, too": [
            _but(looked_at=lambda place: slice(0, 1)),
        ],
        "the first output is never compared: it may look ahead, too": [
            _but(looked_at=lambda place: slice(1, place)),
        ],
        "only the first sequence of the batch is changed, or compared": [
            _but(who=slice(0, 1)),
        ],
        "the new token may be the old one: where a fixed token replaces itself, or one that is "
        "drawn at random happens to be the same, nothing changes": [
            *(_but(other=drawn, places=places) for drawn in _DRAWN for places in _PLACES),
            *(
                _but(other=drawn, places=places, where=lambda place: slice(place, None))
                for drawn in _DRAWN
                for places in _PLACES
            ),
            _but(other=lambda tokens, vocab_size: torch.zeros_like(tokens)),
            _but(other=lambda tokens, vocab_size: torch.ones_like(tokens)),
        ],
        "the new token is none: the last of the vocabulary plus 1 has no vector": [
            _but(other=other, places=places)
            for other in (_one_more, _beyond)
            for places in (range, partial(range, 1))
        ],
        "only the largest number of each output is compared, by argmax: others may move": [
            _but(read=lambda outputs: outputs.argmax(-1, keepdim=True)),
        ],
        "the tolerance is too wide: a look that counts little is still a look": [
            _but(atol=1e-2),
        ],
    },
    section="Does it see the future?",
    properties=[_two_tokens],
)
