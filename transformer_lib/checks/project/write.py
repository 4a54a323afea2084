"""The exercise `write`: greedy, with the caches of what has been read."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from transformer_lib.checks.old.core import Case, Exercise
from transformer_lib.checks.old.modules import Flaw
from transformer_lib.checks.old.seeding import seeded
from transformer_lib.checks.project.decoder import Llama
from transformer_lib.checks.project.writing import (
    all_places,
    drawn,
    first_lost,
    guessed_text,
    in_front,
    last_but_one,
    last_tokens,
    last_without_caches,
    late,
    no_caches,
    one_row,
    read_twice,
    reference,
    stops_after_one,
    text_without_caches,
    until,
    whole_text,
    written,
    wrong,
)

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


def _case(label: str, ids: list[list[int]], length: int, seed: int = 0) -> Case:
    return Case(label, torch.tensor(ids), length, seed)


WRITE = Exercise(
    name="write",
    reference=reference,
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
            wrong(keep=lambda old, new: None),
        ],
        "the caches of the first step are kept: they have to grow": [
            wrong(keep=lambda old, new: old if old is not None else new),
        ],
        "more than the new token is read, on top of the caches: what was read before is in them "
        "twice": [
            whole_text,
        ],
        "the caches are not used: the whole text is read at each step": no_caches,
        "the least probable token is chosen": [
            wrong(choose=lambda logits: logits[:, -1:].argmin(dim=-1)),
        ],
        "the token is chosen at the first place: the last one says what comes next": [
            wrong(choose=lambda logits: logits[:, :1].argmax(dim=-1)),
        ],
        "the token is chosen at the last place but one: the last one says what comes next": [
            wrong(choose=last_but_one),
            wrong(choose=lambda logits: logits[:, -2, None].argmax(dim=-1)),
            wrong(choose=lambda logits: logits[:, -2:-1].argmax(dim=-1)),
        ],
        "the token is drawn: here it is the most probable one": wrong(choose=drawn),
        "`argmax` goes over the texts or the places: the vocabulary is the last axis": [
            wrong(choose=lambda logits: logits[:, -1].argmax(dim=0)[: len(logits), None]),
            wrong(choose=lambda logits: logits.argmax(dim=1)[:, -1:]),
            wrong(choose=lambda logits: logits[:, -1:].argmax(dim=1)),
        ],
        "`argmax` has no `dim`: it then counts through the logits of all texts": [
            wrong(choose=lambda logits: logits[:, -1].argmax().expand(len(logits), 1)),
        ],
        "one token is chosen for all texts: each has its own, as `argmax(dim=-1)` gives": [
            wrong(choose=lambda logits: logits[:1, -1:].argmax(dim=-1)),
        ],
        "the token before the new one is read: the new one is what the caches lack": late,
        "the first new token is read and not written: it stands behind the text like the others": [
            first_lost,
        ],
        "the last token of the text is read alone, or all of them one by one without handing their "
        "caches on: the tokens before are then forgotten": [
            text_without_caches,
            last_without_caches,
        ],
        "the text is replaced by guesses: it stays, and new tokens come behind it": [
            guessed_text,
            lambda model, ids, length: guessed_text(model, ids, length) if length else ids,
        ],
        "the new tokens are put in front of the text: they belong behind it": in_front,
        "`length` is taken as the length of the whole text: it counts the new tokens": [
            lambda model, ids, length: written(model, ids, max(length - ids.shape[1], 0)),
        ],
        "only the new tokens are returned: it is asked for the text with them behind it": [
            wrong(result=lambda ids, first: ids[:, first:]),
            last_tokens,
        ],
        "the last token of the text is read twice: it is in the caches when it is read again": [
            read_twice,
        ],
        "the guesses at all places are written: the last one alone says what comes next": [
            all_places,
        ],
        "one token too many is written": wrong(steps=1),
        "writing stops at one token: here no token is an end, and `length` of them are asked for": [
            until(0),
            until(1),
            until(2),
        ],
        "the new token is joined below the texts: `dim=1` puts it behind them": wrong(dim=0),
        "writing ends at the first token: the `return` stands in the loop": stops_after_one,
        "one token too few is written": [
            lambda model, ids, length: written(model, ids, max(length - 1, 0)),
        ],
        "all texts are continued like the first": [
            one_row,
            wrong(choose=lambda logits: logits[:1, -1:].argmax(dim=-1).expand(len(logits), 1)),
        ],
    },
    section="Stage 6: writing",
)
