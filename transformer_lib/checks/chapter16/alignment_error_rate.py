"""The exercise `alignment_error_rate`: what it asks for, and how its answers go wrong."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from transformer_lib.checks.old.core import Case, Exercise
from transformer_lib.checks.old.inputs import random_tensor

Counts = tuple[Tensor, Tensor, Tensor, Tensor]  # |A and S|, |A and P|, |A|, |S|
Rate = Callable[[Tensor, Tensor, Tensor, float], Tensor]


def _letters(possible: Tensor) -> Tensor:
    return possible.any(-1, keepdim=True)


def _count(links: Tensor, sure: Tensor, possible: Tensor) -> Counts:
    return (links & sure).sum(), (links & possible).sum(), links.sum(), sure.sum()


def _rate(counts: Counts) -> Tensor:
    both_sure, both_possible, found, sure = counts
    return 1 - (both_sure + both_possible) / (found + sure)


def _alignment_error_rate(
    weights: Tensor, sure: Tensor, possible: Tensor, threshold: float
) -> Tensor:
    links = (weights >= threshold) & _letters(possible)
    return _rate(_count(links, sure, possible))


def _by(formula: Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]) -> Rate:
    """The right counts, and another formula."""

    def answer(weights: Tensor, sure: Tensor, possible: Tensor, threshold: float) -> Tensor:
        links = (weights >= threshold) & _letters(possible)
        return formula(*_count(links, sure, possible))

    return answer


def _with(links_of: Callable[[Tensor, Tensor, float], Tensor]) -> Rate:
    """Other links, and the right formula."""

    def answer(weights: Tensor, sure: Tensor, possible: Tensor, threshold: float) -> Tensor:
        return _rate(_count(links_of(weights, possible, threshold), sure, possible))

    return answer


def _darkest(weights: Tensor) -> Tensor:
    best = weights.argmax(-1, keepdim=True)
    return torch.zeros_like(weights, dtype=torch.bool).scatter(-1, best, True)


def _rates(weights: Tensor, sure: Tensor, possible: Tensor, threshold: float) -> Tensor:
    """One for each text."""
    rates = [
        _alignment_error_rate(w, s, p, threshold)
        for w, s, p in zip(weights, sure, possible, strict=True)
    ]
    return torch.stack(rates)


def _either(weights: Tensor, sure: Tensor, possible: Tensor, threshold: float) -> Tensor:
    links = (weights >= threshold) & _letters(possible)
    counts = (links | sure).sum(), (links | possible).sum(), links.sum(), sure.sum()
    return _rate(counts)


def _once_below(weights: Tensor, sure: Tensor, possible: Tensor, threshold: float) -> Tensor:
    links = (weights >= threshold) & _letters(possible)
    both_sure, both_possible, _, _ = _count(links, sure, possible)
    return 1 - (both_sure + both_possible) / (links | sure).sum()


def _by_text(weights: Tensor, sure: Tensor, possible: Tensor, threshold: float) -> Tensor:
    return _rates(weights, sure, possible, threshold).mean()


def _first_text(weights: Tensor, sure: Tensor, possible: Tensor, threshold: float) -> Tensor:
    return _alignment_error_rate(weights[0], sure[0], possible[0], threshold)


def _apart(weights: Tensor, sure: Tensor, possible: Tensor, threshold: float) -> Tensor:
    """As if `possible` held only what is not sure."""
    links = (weights >= threshold) & _letters(possible)
    return _rate(_count(links, sure, possible & ~sure))


def _sure_rows(weights: Tensor, sure: Tensor, possible: Tensor, threshold: float) -> Tensor:
    links = (weights >= threshold) & _letters(sure)
    return _rate(_count(links, sure, possible))


def _over_columns(weights: Tensor, sure: Tensor, possible: Tensor, threshold: float) -> Tensor:
    links = (weights >= threshold) & possible.any(-2, keepdim=True)
    return _rate(_count(links, sure, possible))


def _in_columns(weights: Tensor, possible: Tensor, threshold: float) -> Tensor:
    best = weights.argmax(-2, keepdim=True)
    links = torch.zeros_like(weights, dtype=torch.bool).scatter(-2, best, True)
    return links & (weights >= threshold) & _letters(possible)


def _cells(weights: Tensor, sure: Tensor, possible: Tensor, threshold: float) -> Tensor:
    rows = _letters(possible).expand_as(sure)
    links = weights >= threshold
    return (links != sure)[rows].float().mean()


def _soft(weights: Tensor, sure: Tensor, possible: Tensor, threshold: float) -> Tensor:
    w = torch.where(weights >= threshold, weights, 0) * _letters(possible)
    return 1 - ((w * sure).sum() + (w * possible).sum()) / (w.sum() + sure.sum())


def _case(name: str, b: int, t: int, s: int, threshold: float, seed: int, padding: int = 0) -> Case:
    """A map that mostly looks at the diagonal; `padding`: rows of the last text that are none."""
    diagonal = (torch.arange(t) * s // t)[:, None] == torch.arange(s)
    sure = diagonal.expand(b, t, s).clone()
    sure[:, t // 2] = False  # a row with possible links only
    possible = sure.clone()
    possible[:, t // 2] = torch.arange(s) < max(2, s - 1)
    if padding:
        sure[-1, -padding:] = possible[-1, -padding:] = False
    scores = 1.5 * random_tensor(b, t, s, seed=seed) + 1.5 * diagonal
    return Case(name, scores.softmax(-1), sure, possible, threshold)


_HAND = torch.tensor([[[0.5, 0.5, 0.0], [0.25, 0.5, 0.25], [0.0, 0.25, 0.75]]])
_SURE = torch.tensor([[[1, 0, 0], [0, 0, 0], [0, 0, 1]]]).bool()
_POSSIBLE = torch.tensor([[[1, 0, 0], [0, 1, 1], [0, 0, 1]]]).bool()

ALIGNMENT_ERROR_RATE = Exercise(
    name="alignment_error_rate",
    reference=_alignment_error_rate,
    cases=[
        Case("a perfect map", _SURE.float(), _SURE, _POSSIBLE, 0.5),
        Case("three letters, a weight of exactly the threshold", _HAND, _SURE, _POSSIBLE, 0.5),
        Case("three letters, a low threshold", _HAND, _SURE, _POSSIBLE, 0.25),
        _case("two texts", 2, 5, 3, 0.3, seed=1),
        _case("the end and padding, rows without a possible link", 3, 7, 5, 0.2, 2, padding=3),
        _case("seven letters, eleven pieces", 2, 7, 11, 0.12, seed=3, padding=1),
    ],
    mistakes={
        "rows that are no letters are counted: a row without any possible link, padding or the "
        "end, has no links": _with(lambda w, p, threshold: w >= threshold),
        "a weight of exactly the threshold is left out: it is a link as well": [
            _with(lambda w, p, threshold: (w > threshold) & _letters(p)),
        ],
        "the darkest cell of each row is the link: here every cell with enough weight is one, so "
        "that a row may have several or none": [
            _with(lambda w, p, threshold: _darkest(w) & _letters(p)),
        ],
        "only the darkest cell of a row can be a link: here every cell with enough weight is one": [
            _with(lambda w, p, threshold: _darkest(w) & (w >= threshold) & _letters(p)),
        ],
        "links are taken column by column: each row, a letter, has its own": _with(_in_columns),
        "the links are those below the threshold": [
            _with(lambda w, p, threshold: (w < threshold) & _letters(p)),
            _with(lambda w, p, threshold: (w <= threshold) & _letters(p)),
        ],
        "a sure link counts once only: it is possible too, so it is in both counts above the "
        "line": [_apart, _by(lambda a_s, a_p, a, s: 1 - a_p / (a + s))],
        "possible links are not counted: they belong above the line, beside the sure ones": [
            _by(lambda a_s, a_p, a, s: 1 - a_s / (a + s)),
            _by(lambda a_s, a_p, a, s: 1 - 2 * a_s / (a + s)),
        ],
        "1 minus is missing: this is how much is right, and the rate counts what is wrong": [
            _by(lambda a_s, a_p, a, s: (a_s + a_p) / (a + s)),
        ],
        "only the links of the map are looked at: sure links that it misses count as well": [
            _by(lambda a_s, a_p, a, s: 1 - a_p / a),
            _by(lambda a_s, a_p, a, s: 1 - a_s / a),
            _by(lambda a_s, a_p, a, s: 1 - (a_s + a_p) / (2 * a)),
        ],
        "only the sure links are looked at: links of the map that are not possible count as well": [
            _by(lambda a_s, a_p, a, s: 1 - a_s / s),
            _by(lambda a_s, a_p, a, s: 1 - (a_s + a_p) / (2 * s)),
        ],
        "the two shares, of what was found and of what was to be found, are averaged: the four "
        "counts are added before the division": [
            _by(lambda a_s, a_p, a, s: 1 - (a_p / a + a_s / s) / 2),
            _by(lambda a_s, a_p, a, s: 1 - 2 * (a_p / a) * (a_s / s) / (a_p / a + a_s / s)),
        ],
        "the divisor is all cells, letters times pieces": _cells,
        "the divisor holds the possible links, as if sure and possible had changed places: below "
        "the line stand the sure ones": [
            lambda weights, sure, possible, threshold: _rate(
                (
                    *_count((weights >= threshold) & _letters(possible), sure, possible)[:3],
                    possible.sum(),
                )
            ),
        ],
        "each text has its own rate and they are averaged: add the counts of all texts up before "
        "you divide": _by_text,
        "each text gets a rate of its own: there is one for the whole batch, from the counts of "
        "all texts": _rates,
        "brackets are missing: / binds before + and -, so the counts above the line belong in "
        "brackets, and those below it as well": [
            _by(lambda a_s, a_p, a, s: 1 - (a_s + a_p) / a + s),
            _by(lambda a_s, a_p, a, s: 1 - a_s + a_p / (a + s)),
            _by(lambda a_s, a_p, a, s: 1 - a_s + a_p / a + s),
        ],
        "`|` stands where `&` is meant: above the line are links that are in both": _either,
        "a link that is both in the map and sure counts once below the line: the two numbers are "
        "added there": _once_below,
        "the threshold is taken as a share of the row's largest weight: the weight itself is at "
        "least `threshold`": _with(
            lambda w, p, threshold: (w >= threshold * w.amax(-1, keepdim=True)) & _letters(p)
        ),
        "only the first text is marked": _first_text,
        "rows without a sure link are left out: a letter such as those of und, with possible "
        "links only, counts too": _sure_rows,
        "columns without a possible link are left out: it is rows that may be no letters": [
            _over_columns,
        ],
        "the weights themselves are added up: a link counts 1, however heavy": _soft,
        "the rate is in percent: 1 is all wrong": [
            _by(lambda a_s, a_p, a, s: 100 * (1 - (a_s + a_p) / (a + s))),
        ],
    },
    section="How do you mark a map of a sentence?",
)
