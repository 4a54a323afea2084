"""The exercise `drawn_from`: what it asks for, and how its answers go wrong."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from transformer_lib.checks.compare import rows_sum_to_one
from transformer_lib.checks.core import Case, Exercise
from transformer_lib.checks.inputs import in_float64, random_tensor


def _drawn_from(logits: Tensor, temperature: float, top_k: int | None, top_p: float) -> Tensor:
    return _cut(logits, temperature, top_k, top_p)


def _first_k(probs: Tensor, top_k: int | None) -> Tensor:
    """Sorted probabilities, those behind the first k gone."""
    return torch.cat([probs[:, :top_k], torch.zeros_like(probs[:, top_k:])], -1) if top_k else probs


def _nucleus(probs: Tensor, top_p: float) -> Tensor:
    share = probs / probs.sum(-1, keepdim=True)
    return probs.masked_fill(share.cumsum(-1) - share >= top_p, 0.0)


Past = Callable[[Tensor, float], Tensor]


def _just_past(sums: Tensor, top_p: float) -> Tensor:
    return sums > top_p + 1e-6


def _without_the_last(past: Past, scaled: bool = True) -> Callable[[Tensor, float], Tensor]:
    def nucleus(probs: Tensor, top_p: float) -> Tensor:
        share = probs / probs.sum(-1, keepdim=True) if scaled else probs
        return probs.masked_fill(past(share.cumsum(-1), top_p), 0.0)

    return nucleus


def _but_the_first(past: Past, scaled: bool = True) -> Callable[[Tensor, float], Tensor]:
    def nucleus(probs: Tensor, top_p: float) -> Tensor:
        return torch.cat([probs[:, :1], _without_the_last(past, scaled)(probs, top_p)[:, 1:]], -1)

    return nucleus


def _shared_once(probs: Tensor, top_p: float) -> Tensor:
    """Each probability as its share of what top-k has left."""
    return _nucleus(probs / probs.sum(-1, keepdim=True), top_p)


def _to_place(kept: Tensor, order: Tensor) -> Tensor:
    return torch.zeros_like(kept).scatter(-1, order, kept)


def _of_the_whole(probs: Tensor, top_p: float, whole: Tensor) -> Tensor:
    return probs.masked_fill(whole.cumsum(-1) - whole >= top_p, 0.0)


def _cut(
    logits: Tensor,
    temperature: float,
    top_k: int | None,
    top_p: float,
    *,
    softmax: Callable[[Tensor, float], Tensor] = lambda logits, t: (logits / t).softmax(-1),
    first_k: Callable[[Tensor, int | None], Tensor] = _first_k,
    nucleus: Callable[[Tensor, float], Tensor] = _nucleus,
    p_first: bool = False,
    descending: bool = True,
    rescale: Callable[[Tensor], Tensor] = lambda kept: kept / kept.sum(-1, keepdim=True),
    back: Callable[[Tensor, Tensor], Tensor] = _to_place,
) -> Tensor:
    probs, order = softmax(logits, temperature).sort(dim=-1, descending=descending)
    if p_first:
        kept = first_k(nucleus(probs, top_p), top_k)
    else:
        kept = nucleus(first_k(probs, top_k), top_p)
    return back(rescale(kept), order)


def _wrong(**part: Any) -> Callable[..., Tensor]:
    return lambda logits, temperature, top_k, top_p: _cut(logits, temperature, top_k, top_p, **part)


def _forms(**part: Any) -> list[Callable[..., Tensor]]:
    """What top-k has left, as it is and as shares of its sum."""

    def shares(probs: Tensor, top_k: int | None) -> Tensor:
        left = _first_k(probs, top_k)
        return left / left.sum(-1, keepdim=True)

    return [_wrong(**part), _wrong(first_k=shares, **part)]


def _on_what_is_left(
    fill: float = -torch.inf, **part: Any
) -> Callable[[Tensor, float, int | None, float], Tensor]:
    """Logits that top-k drops become `fill`. A softmax follows, and then top-p alone."""

    def drawn_from(logits: Tensor, temperature: float, top_k: int | None, top_p: float) -> Tensor:
        gone = _cut(logits, temperature, top_k, 1.0) == 0
        left = (logits / temperature).masked_fill(gone, fill)
        return _cut(left, 1.0, None, top_p, **part)

    return drawn_from


def _alone(low: Callable[[Tensor, float], Tensor]) -> list[Callable[..., Tensor]]:
    """Each probability is judged by itself."""
    return _forms(nucleus=lambda probs, top_p: probs.masked_fill(low(probs, top_p), 0.0))


def _letters(logits: Tensor, temperature: float, top_k: int | None, top_p: float) -> Tensor:
    return torch.multinomial(_cut(logits, temperature, top_k, top_p), 1)


def _written_in_every_order(kept: Tensor, order: Tensor) -> Tensor:
    out = torch.zeros_like(kept)
    out[:, order] = kept
    return out


def _share_of_all(logits: Tensor, temperature: float, top_k: int | None, top_p: float) -> Tensor:
    """Top-p measured before top-k has cut."""
    whole = (logits / temperature).softmax(-1).sort(-1, descending=True).values
    return _cut(
        logits, temperature, top_k, top_p, nucleus=lambda probs, p: _of_the_whole(probs, p, whole)
    )


def _warm_afterwards(logits: Tensor, temperature: float, top_k: int | None, top_p: float) -> Tensor:
    """The cut at temperature 1, the temperature on what is left."""
    kept = _cut(logits, 1.0, top_k, top_p) > 0
    return (logits / temperature).masked_fill(~kept, -torch.inf).softmax(-1)


def _logits_to_zero(logits: Tensor, temperature: float, top_k: int | None, top_p: float) -> Tensor:
    kept = _cut(logits, temperature, top_k, top_p) > 0
    return (logits / temperature).masked_fill(~kept, 0.0).softmax(-1)


def _as_many_as_the_first(
    logits: Tensor, temperature: float, top_k: int | None, top_p: float
) -> Tensor:
    n = int((_cut(logits[:1], temperature, top_k, top_p) > 0).sum())
    return _cut(logits, temperature, n, 1.0)


def _unsorted(logits: Tensor, temperature: float, top_k: int | None, top_p: float) -> Tensor:
    kept = _nucleus(_first_k((logits / temperature).softmax(-1), top_k), top_p)
    return kept / kept.sum(-1, keepdim=True)


def _unsorted_top_p(logits: Tensor, temperature: float, top_k: int | None, top_p: float) -> Tensor:
    kept = _nucleus(_cut(logits, temperature, top_k, 1.0), top_p)
    return kept / kept.sum(-1, keepdim=True)


DRAWN_FROM = Exercise(
    name="drawn_from",
    reference=_drawn_from,
    cases=[
        Case("nothing is cut", random_tensor(2, 7), 1.0, None, 1.0),
        Case("a low temperature", random_tensor(2, 7, seed=1), 0.5, None, 1.0),
        Case("top-k alone", torch.tensor([[0.1, 0.2, 0.05, 0.4, 0.25]]).log(), 1.0, 3, 1.0),
        Case("top-p alone", torch.tensor([[0.15, 0.5, 0.05, 0.3]]).log(), 1.0, None, 0.7),
        Case("top-p below the best one", torch.tensor([[0.1, 0.6, 0.3]]).log(), 1.0, None, 0.2),
        Case(
            "top-p of what top-k has left",
            torch.tensor([[0.12, 0.28, 0.22, 0.18, 0.2]]).log(),
            1.0,
            3,
            0.65,
        ),
        Case(
            "two rows, one sure and one not",
            torch.tensor([[4.0, 0, 1, 0.5], [1, 0.8, 0.9, 1.1]]),
            1.0,
            None,
            0.8,
        ),
        Case("all three at once", 2 * random_tensor(5, 11, seed=2), 1.5, 6, 0.7),
        in_float64(Case("a high temperature", random_tensor(3, 7, seed=3), 3.0, 5, 0.9)),
    ],
    mistakes={
        "the temperature multiplies the logits: it divides them": [
            _wrong(softmax=lambda logits, t: (logits * t).softmax(-1)),
        ],
        "the temperature divides the probabilities and a second softmax follows: they have gone "
        "through one already": [
            _wrong(softmax=lambda logits, t: (logits.softmax(-1) / t).softmax(-1)),
        ],
        "the temperature changes nothing: it divides the logits, before the softmax, and not the "
        "probabilities, whose sum takes it out again": [
            _wrong(softmax=lambda logits, t: logits.softmax(-1)),
            _wrong(softmax=lambda logits, t: logits.softmax(-1) / t),
        ],
        "the temperature comes after the cuts: top-p then counts other probabilities": [
            _warm_afterwards,
        ],
        "what is kept is not made to sum to 1 again": [_wrong(rescale=lambda kept: kept)],
        "what top-p keeps is not made to sum to 1 again: the sum is as it was after top-k": [
            _wrong(nucleus=_shared_once, rescale=lambda kept: kept),
        ],
        "a softmax follows the cuts: e to the 0 is 1, so the dropped letters get a share again": [
            *_forms(rescale=lambda kept: kept.softmax(-1)),
        ],
        "the softmax goes over the rows: it goes over the vocabulary, the last axis": [
            _wrong(softmax=lambda logits, t: (logits / t).softmax(0)),
        ],
        "what the cuts have left goes through a softmax: a division by its sum makes it sum to 1 "
        "and keeps the proportions": [
            *_forms(rescale=lambda kept: kept.masked_fill(kept == 0, -torch.inf).softmax(-1)),
        ],
        "everything is dropped where `top_k` is None: `[:, None:]` means all": [
            _wrong(
                first_k=lambda probs, k: torch.cat([probs[:, : k or 0], 0 * probs[:, k or 0 :]], -1)
            ),
        ],
        "top-k is not used": [_wrong(first_k=lambda probs, k: probs)],
        "top-k keeps one too many": [
            _wrong(first_k=lambda probs, k: _first_k(probs, k + 1 if k else None)),
        ],
        "top-k keeps one too few": [
            _wrong(first_k=lambda probs, k: _first_k(probs, max(k - 1, 1) if k else None)),
        ],
        "top-p is not used": [_wrong(nucleus=lambda probs, p: probs)],
        "the letter that carries the sum past top_p is left out: the kept ones then have less": [
            # At top_p = 1 the last sum is 1 but for rounding, which these see in different ways.
            cut(nucleus=form(past, cut is _wrong))
            for cut in (_wrong, _on_what_is_left)
            for form in (_without_the_last, _but_the_first)
            for past in (_just_past, torch.gt, torch.ge)
        ],
        "top-p is measured on all letters: top-k comes first, and top-p is a share of what it "
        "left": [
            _share_of_all,
            _wrong(p_first=True),
        ],
        "the least probable letters are kept": [
            _wrong(descending=False),
            _on_what_is_left(descending=False),
        ],
        "each probability is compared with top_p by itself: it is their sum, from the most "
        "probable on, that has to reach top_p": [
            *_alone(lambda probs, p: probs < p),
            *_alone(lambda probs, p: probs < 1 - p),
            *_alone(lambda probs, p: probs < p * probs[:, :1]),
        ],
        "a letter is drawn: the probabilities are asked for, one for each letter": [
            _letters,
            lambda *given: _letters(*given)[:, 0],
        ],
        "the probabilities are returned in sorted order: each belongs back at its letter's place": [
            _wrong(back=lambda kept, order: kept),
        ],
        "the way back goes in the wrong direction: `gather` fetches from the places that `order` "
        "names, `scatter` writes to them": [
            _wrong(back=lambda kept, order: kept.gather(-1, order)),
        ],
        "`order` of all rows is used for each row: `[:, order]` does not take row by row": [
            _wrong(back=lambda kept, order: kept[:, order]),
            _wrong(back=lambda kept, order: kept[:, order.argsort(-1)]),
            _wrong(back=_written_in_every_order),
        ],
        "only the most probable letter is kept: all that the cuts leave may be drawn": [
            lambda logits, temperature, top_k, top_p: _cut(logits, temperature, 1, 1.0),
        ],
        "the sum goes over all rows: each row has the sum 1": [
            *_forms(rescale=lambda kept: kept / kept.sum()),
            *_forms(rescale=lambda kept: kept / kept.sum(0)),
        ],
        "nothing is sorted: the letters stand in the order of the vocabulary": [
            _unsorted,
            _unsorted_top_p,
        ],
        "all rows keep as many letters as the first one": [_as_many_as_the_first],
        "a dropped letter's logit is set to 0, which is no small logit: e to the 0 is 1": [
            _logits_to_zero,
            _on_what_is_left(fill=0.0),
        ],
        "logits are returned, and not probabilities": [
            lambda logits, temperature, top_k, top_p: logits / temperature,
        ],
    },
    properties=[rows_sum_to_one],
    keeps=["dtype"],
    section="How do you let it write?",
)
