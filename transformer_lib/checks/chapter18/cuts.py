"""Ways to cut a distribution before a letter is drawn: the right one and wrong ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor


def reference(logits: Tensor, temperature: float, top_k: int | None, top_p: float) -> Tensor:
    return cut(logits, temperature, top_k, top_p)


def first_k(probs: Tensor, top_k: int | None) -> Tensor:
    """Sorted probabilities, those behind the first k gone."""
    return torch.cat([probs[:, :top_k], torch.zeros_like(probs[:, top_k:])], -1) if top_k else probs


def nucleus(probs: Tensor, top_p: float) -> Tensor:
    share = probs / probs.sum(-1, keepdim=True)
    return probs.masked_fill(share.cumsum(-1) - share >= top_p, 0.0)


Past = Callable[[Tensor, float], Tensor]


def just_past(sums: Tensor, top_p: float) -> Tensor:
    return sums > top_p + 1e-6


def without_the_last(past: Past, scaled: bool = True) -> Callable[[Tensor, float], Tensor]:
    def nucleus(probs: Tensor, top_p: float) -> Tensor:
        share = probs / probs.sum(-1, keepdim=True) if scaled else probs
        return probs.masked_fill(past(share.cumsum(-1), top_p), 0.0)

    return nucleus


def but_the_first(past: Past, scaled: bool = True) -> Callable[[Tensor, float], Tensor]:
    def nucleus(probs: Tensor, top_p: float) -> Tensor:
        return torch.cat([probs[:, :1], without_the_last(past, scaled)(probs, top_p)[:, 1:]], -1)

    return nucleus


def one_more(probs: Tensor, top_p: float) -> Tensor:
    """A letter stays if the sum had not reached top_p before the letter in front of it."""
    sums = probs.cumsum(-1) / probs.sum(-1, keepdim=True)
    return probs.masked_fill(F.pad(sums, (2, -2)) >= top_p, 0.0)


def shared_once(probs: Tensor, top_p: float) -> Tensor:
    """Each probability as its share of what top-k has left."""
    return nucleus(probs / probs.sum(-1, keepdim=True), top_p)


def bound_of_all(
    least: Callable[[Tensor], Tensor], softmax_first: bool
) -> Callable[[Tensor, float, int | None, float], Tensor]:
    """Top-k with one bound for all rows, found among the k-th of each."""

    def drawn_from(logits: Tensor, temperature: float, top_k: int | None, top_p: float) -> Tensor:
        scores = (logits / temperature).log_softmax(-1) if softmax_first else logits / temperature
        if top_k:
            scores = scores.masked_fill(
                scores < least(scores.topk(top_k).values[:, -1]), -torch.inf
            )
        return cut(scores, 1.0, None, top_p)

    return drawn_from


def to_place(kept: Tensor, order: Tensor) -> Tensor:
    return torch.zeros_like(kept).scatter(-1, order, kept)


def of_the_whole(probs: Tensor, top_p: float, whole: Tensor) -> Tensor:
    return probs.masked_fill(whole.cumsum(-1) - whole >= top_p, 0.0)


def cut(
    logits: Tensor,
    temperature: float,
    top_k: int | None,
    top_p: float,
    *,
    softmax: Callable[[Tensor, float], Tensor] = lambda logits, t: (logits / t).softmax(-1),
    first_k: Callable[[Tensor, int | None], Tensor] = first_k,
    nucleus: Callable[[Tensor, float], Tensor] = nucleus,
    p_first: bool = False,
    descending: bool = True,
    rescale: Callable[[Tensor], Tensor] = lambda kept: kept / kept.sum(-1, keepdim=True),
    back: Callable[[Tensor, Tensor], Tensor] = to_place,
) -> Tensor:
    probs, order = softmax(logits, temperature).sort(dim=-1, descending=descending)
    if p_first:
        kept = first_k(nucleus(probs, top_p), top_k)
    else:
        kept = nucleus(first_k(probs, top_k), top_p)
    return back(rescale(kept), order)


def wrong(**part: Any) -> Callable[..., Tensor]:
    return lambda logits, temperature, top_k, top_p: cut(logits, temperature, top_k, top_p, **part)


def forms(**part: Any) -> list[Callable[..., Tensor]]:
    """What top-k has left, as it is and as shares of its sum."""

    def shares(probs: Tensor, top_k: int | None) -> Tensor:
        left = first_k(probs, top_k)
        return left / left.sum(-1, keepdim=True)

    return [wrong(**part), wrong(first_k=shares, **part)]


def on_what_is_left(
    fill: float = -torch.inf, **part: Any
) -> Callable[[Tensor, float, int | None, float], Tensor]:
    """Logits that top-k drops become `fill`. A softmax follows, and then top-p alone."""

    def drawn_from(logits: Tensor, temperature: float, top_k: int | None, top_p: float) -> Tensor:
        gone = cut(logits, temperature, top_k, 1.0) == 0
        left = (logits / temperature).masked_fill(gone, fill)
        return cut(left, 1.0, None, top_p, **part)

    return drawn_from


def alone(low: Callable[[Tensor, float], Tensor]) -> list[Callable[..., Tensor]]:
    """Each probability is judged by itself."""
    return forms(nucleus=lambda probs, top_p: probs.masked_fill(low(probs, top_p), 0.0))


def letters(logits: Tensor, temperature: float, top_k: int | None, top_p: float) -> Tensor:
    return torch.multinomial(cut(logits, temperature, top_k, top_p), 1)


def written_in_every_order(kept: Tensor, order: Tensor) -> Tensor:
    out = torch.zeros_like(kept)
    out[:, order] = kept
    return out


def share_of_all(logits: Tensor, temperature: float, top_k: int | None, top_p: float) -> Tensor:
    """Top-p measured before top-k has cut."""
    whole = (logits / temperature).softmax(-1).sort(-1, descending=True).values
    return cut(
        logits, temperature, top_k, top_p, nucleus=lambda probs, p: of_the_whole(probs, p, whole)
    )


def warm_afterwards(logits: Tensor, temperature: float, top_k: int | None, top_p: float) -> Tensor:
    """The cut at temperature 1, the temperature on what is left."""
    kept = cut(logits, 1.0, top_k, top_p) > 0
    return (logits / temperature).masked_fill(~kept, -torch.inf).softmax(-1)


def logits_to_zero(logits: Tensor, temperature: float, top_k: int | None, top_p: float) -> Tensor:
    kept = cut(logits, temperature, top_k, top_p) > 0
    return (logits / temperature).masked_fill(~kept, 0.0).softmax(-1)


def as_many_as_the_first(
    logits: Tensor, temperature: float, top_k: int | None, top_p: float
) -> Tensor:
    n = int((cut(logits[:1], temperature, top_k, top_p) > 0).sum())
    return cut(logits, temperature, n, 1.0)


def unsorted(logits: Tensor, temperature: float, top_k: int | None, top_p: float) -> Tensor:
    kept = nucleus(first_k((logits / temperature).softmax(-1), top_k), top_p)
    return kept / kept.sum(-1, keepdim=True)


def dropped_elsewhere(
    logits: Tensor, temperature: float, top_k: int | None, top_p: float
) -> Tensor:
    """The mask of the sorted letters, on the letters as they stand in the vocabulary."""
    left = cut(logits, temperature, top_k, 1.0)
    share = left.sort(dim=-1, descending=True).values
    kept = left.masked_fill(share.cumsum(-1) - share >= top_p, 0.0)
    return kept / kept.sum(-1, keepdim=True)


def unsorted_top_p(logits: Tensor, temperature: float, top_k: int | None, top_p: float) -> Tensor:
    kept = nucleus(cut(logits, temperature, top_k, 1.0), top_p)
    return kept / kept.sum(-1, keepdim=True)


def dropped_elsewhere_by_logit(
    logits: Tensor, temperature: float, top_k: int | None, top_p: float
) -> Tensor:
    """The same, with a mask that is moved by one place, and logits of minus infinity."""
    gone = cut(logits, temperature, top_k, 1.0) == 0
    left = (logits / temperature).masked_fill(gone, -torch.inf)
    past = left.sort(dim=-1, descending=True).values.softmax(-1).cumsum(-1) > top_p
    return left.masked_fill(F.pad(past, (1, -1)), -torch.inf).softmax(-1)


def narrow(order_too: bool) -> Callable[[Tensor, float, int | None, float], Tensor]:
    """Top-k cuts the columns of the table off."""

    def drawn_from(logits: Tensor, temperature: float, top_k: int | None, top_p: float) -> Tensor:
        probs, order = (logits / temperature).softmax(-1).sort(-1, descending=True)
        probs, order = probs[:, :top_k], order[:, :top_k] if order_too else order
        kept = nucleus(probs, top_p)
        return torch.zeros_like(kept).scatter(-1, order, kept / kept.sum(-1, keepdim=True))

    return drawn_from


def last_k(probs: Tensor, top_k: int | None) -> Tensor:
    return torch.cat([torch.zeros_like(probs[:, :top_k]), probs[:, top_k:]], -1) if top_k else probs


def behind_the_nucleus(probs: Tensor, top_p: float) -> Tensor:
    return probs - nucleus(probs, top_p)


def first_like_the_second(past: Past) -> Callable[[Tensor, float], Tensor]:
    """The mask is moved by one place, and its first place keeps what it had."""

    def nucleus(probs: Tensor, top_p: float) -> Tensor:
        sums = probs.cumsum(-1) / probs.sum(-1, keepdim=True)
        drop = past(sums, top_p)
        return probs.masked_fill(torch.cat([drop[:, :1], drop[:, :-1]], -1), 0.0)

    return nucleus


def behind_the_last(past: Past) -> Callable[[Tensor, float], Tensor]:
    """The sums are moved by one place around, so that the last one stands first."""

    def nucleus(probs: Tensor, top_p: float) -> Tensor:
        share = probs / probs.sum(-1, keepdim=True)
        return probs.masked_fill(past(share.cumsum(-1).roll(1, -1), top_p), 0.0)

    return nucleus
