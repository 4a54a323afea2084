"""The exercise `causal`: what it asks for, and how its answers go wrong."""

from __future__ import annotations

import torch
from torch import Tensor

from transformer_lib.checks.core import Case, Exercise

_SEE = ' (see the section "What is the triangle for?")'


def _ones(t: int, s: int) -> Tensor:
    return torch.ones(t, s, dtype=torch.bool)


def _causal(t: int, s: int) -> Tensor:
    return _ones(t, s).tril(s - t)


CAUSAL = Exercise(
    name="causal",
    reference=_causal,
    cases=[
        Case("one query, one key", 1, 1),
        Case("3 queries, 3 keys", 3, 3),
        Case("one new token after 3: 1 query, 4 keys", 1, 4),
        Case("2 new tokens after 3: 2 queries, 5 keys", 2, 5),
        Case("5 queries, 7 keys", 5, 7),
    ],
    mistakes={
        "the triangle starts from the first corner: with more keys than queries, these are the "
        "last positions and not the first": [
            lambda t, s: _ones(t, s).tril(),
            lambda t, s: _ones(s, s).tril()[:t],
        ],
        "the triangle is one too wide: query i sees one token of its future": [
            lambda t, s: _ones(t, s).tril(s - t + 1),
        ],
        "the triangle is one too wide, and starts from the first corner": [
            lambda t, s: _ones(t, s).tril(1),
        ],
        "the triangle is one too narrow: query i may see the key of its own position, too" + _SEE: [
            lambda t, s: _ones(t, s).tril(s - t - 1),
        ],
        "the triangle is one too narrow and starts from the first corner: query i may see the key "
        "of its own position, too": [lambda t, s: _ones(t, s).tril(-1)],
        "the mask is the wrong way round: True stands where looking is forbidden": [
            lambda t, s: ~_causal(t, s),
        ],
        "the mask is the wrong way round and starts from the first corner: True stands where "
        "looking is forbidden, and the queries are taken for the first positions": [
            lambda t, s: _ones(t, s).triu(1),
        ],
        "the triangle is the upper one: query i sees itself and what comes after it" + _SEE: [
            lambda t, s: _ones(t, s).triu(s - t),
            lambda t, s: _ones(t, s).triu(),
        ],
        "the diagonal is moved the wrong way: t - s is negative, the last queries come after "
        "s - t other tokens": lambda t, s: _ones(t, s).tril(t - s),
        "the mask is square: it has as many columns as rows, whatever s is": [
            lambda t, s: _ones(t, t).tril(),
        ],
        "the mask has a row for every position: only the last t of them ask": [
            lambda t, s: _ones(s, s).tril(),
        ],
        "rows and columns have changed places: queries are rows, keys are columns": [
            lambda t, s: _causal(t, s).mT,
            lambda t, s: _ones(s, t).tril(),
            lambda t, s: _ones(s, t).tril(s - t),
            lambda t, s: _ones(s, t).tril(t - s),
        ],
        "the mask is made of numbers: it must be bool, since numbers are added to the scores": [
            lambda t, s: _causal(t, s).float(),
            lambda t, s: _causal(t, s).long(),
            lambda t, s: _ones(t, s).tril().float(),
            lambda t, s: _ones(t, s).tril().long(),
        ],
        "the mask holds 0 and minus infinity, ready to be added to the scores: here it says who "
        "may see whom, True or False": [
            lambda t, s: torch.zeros(t, s).masked_fill(~_causal(t, s), float("-inf")),
            lambda t, s: torch.full((t, s), float("-inf")).triu(1),
        ],
        "nothing is forbidden: every query sees every key": _ones,
    },
    section="Where does a mask change its meaning?",
)
