"""The exercise `nucleus`: what it asks for, and how its answers go wrong."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from transformer_lib.checks.old.compare import rows_sum_to_one
from transformer_lib.checks.old.core import Case, Exercise
from transformer_lib.checks.old.inputs import in_float64, random_tensor


def _within(probs: Tensor, p: float) -> Tensor:
    return probs.cumsum(-1) - probs < p


def _nucleus(logits: Tensor, p: float) -> Tensor:
    return _cut(logits, p)


def _cut(
    logits: Tensor,
    p: float,
    *,
    softmax: Callable[[Tensor], Tensor] = lambda logits: logits.softmax(-1),
    within: Callable[[Tensor, float], Tensor] = _within,
    descending: bool = True,
    normalize: Callable[[Tensor], Tensor] = lambda kept: kept / kept.sum(-1, keepdim=True),
    back: Callable[[Tensor, Tensor], Tensor] | None = None,
) -> Tensor:
    probs, order = softmax(logits).sort(dim=-1, descending=descending)
    kept = normalize(probs.masked_fill(~within(probs, p), 0.0))
    if back is not None:
        return back(kept, order)
    return torch.zeros_like(kept).scatter(-1, order, kept)


def _wrong(**part: Any) -> Callable[[Tensor, float], Tensor]:
    return lambda logits, p: _cut(logits, p, **part)


def _alone(keep: Callable[[Tensor, float], Tensor]) -> Callable[[Tensor, float], Tensor]:
    """Tokens that are kept or not by their own probability."""

    def nucleus(logits: Tensor, p: float) -> Tensor:
        probs = logits.softmax(-1)
        kept = probs * keep(probs, p)
        return kept / kept.sum(-1, keepdim=True)

    return nucleus


def _unsorted(logits: Tensor, p: float) -> Tensor:
    probs = logits.softmax(-1)
    kept = probs * _within(probs, p)
    return kept / kept.sum(-1, keepdim=True)


def _mask_of_the_sorted(logits: Tensor, p: float) -> Tensor:
    probs = logits.softmax(-1)
    kept = probs * _within(probs.sort(-1, descending=True).values, p)
    return kept / kept.sum(-1, keepdim=True)


def _as_many_as(count: Callable[[Tensor], int]) -> Callable[[Tensor, float], Tensor]:
    """One number of tokens for all rows."""

    def nucleus(logits: Tensor, p: float) -> Tensor:
        values, order = logits.softmax(-1).sort(-1, descending=True)
        n = count(_within(values, p).sum(-1))
        kept = values[..., :n] / values[..., :n].sum(-1, keepdim=True)
        return torch.zeros_like(values).scatter(-1, order[..., :n], kept)

    return nucleus


def _logits_to_zero(logits: Tensor, p: float) -> Tensor:
    kept = _cut(logits, p) > 0
    return logits.masked_fill(~kept, 0.0).softmax(-1)


def _probabilities_again(logits: Tensor, p: float) -> Tensor:
    """Softmax of probabilities, the dropped ones at minus infinity."""
    kept = _cut(logits, p) > 0
    return logits.softmax(-1).masked_fill(~kept, -torch.inf).softmax(-1)


def _probabilities_with_zeros(logits: Tensor, p: float) -> Tensor:
    kept = _cut(logits, p) > 0
    return (logits.softmax(-1) * kept).softmax(-1)


def _sum_of_logits(logits: Tensor, p: float) -> Tensor:
    """Chosen by logits, shared out by softmax."""
    values, order = logits.sort(dim=-1, descending=True)
    dropped = values.cumsum(-1) - values >= p
    return logits.masked_fill(dropped.gather(-1, order.argsort(-1)), -torch.inf).softmax(-1)


def _mask_gathered(logits: Tensor, p: float) -> Tensor:
    probs, order = logits.softmax(-1).sort(dim=-1, descending=True)
    dropped = ~_within(probs, p)
    return logits.masked_fill(dropped.gather(-1, order), -torch.inf).softmax(-1)


def _best_alone(logits: Tensor) -> Tensor:
    return torch.zeros_like(logits).scatter(-1, logits.argmax(-1, keepdim=True), 1.0)


def _goes_on(later: Callable[[Tensor], Tensor]) -> Callable[[Tensor, float], Tensor]:
    """The sum is at p already when the second row begins."""
    return lambda logits, p: torch.cat([_cut(logits[:1], p), later(logits[1:])])


def _one_more(probs: Tensor, p: float) -> Tensor:
    inside = _within(probs, p)
    return torch.cat([torch.ones_like(inside[..., :1]), inside[..., :-1]], -1) | inside


def _by_probability(answer: Callable[..., Any], /, logits: Tensor, p: float) -> Any:
    """The result; of ids that are equally probable, whichever are kept count as the first ones."""
    result = answer(logits, p)
    if not isinstance(result, Tensor) or result.shape != logits.shape:
        return result
    by_result = result.argsort(dim=-1, descending=True)
    order = logits.gather(-1, by_result).argsort(dim=-1, descending=True, stable=True)
    sorted_results = result.gather(-1, by_result).gather(-1, order)
    places = logits.argsort(dim=-1, descending=True, stable=True)
    return torch.empty_like(result).scatter(-1, places, sorted_results)


def _at_least_the_last(logits: Tensor, p: float) -> Tensor:
    """All that are as probable as the last one kept."""
    probs = logits.softmax(-1)
    values = probs.sort(-1, descending=True).values
    least = values.masked_fill(~_within(values, p), torch.inf).amin(-1, keepdim=True)
    kept = probs.masked_fill(probs < least, 0.0)
    return kept / kept.sum(-1, keepdim=True)


def _and_the_first(inside: Tensor) -> Tensor:
    return torch.cat([torch.ones_like(inside[..., :1]), inside[..., 1:]], -1)


NUCLEUS = Exercise(
    name="nucleus",
    reference=_nucleus,
    cases=[
        Case("four tokens, the best first", torch.tensor([[0.5, 0.3, 0.15, 0.05]]).log(), 0.7),
        Case("four tokens in another order", torch.tensor([[0.15, 0.5, 0.05, 0.3]]).log(), 0.7),
        Case("p below the best token's share", torch.tensor([[0.1, 0.6, 0.3]]).log(), 0.2),
        Case(
            "two rows, one sure and one not",
            torch.tensor([[4.0, 0, 1, 0.5], [1, 0.8, 0.9, 1.1]]),
            0.8,
        ),
        Case("five rows, eleven tokens", 2 * random_tensor(5, 11), 0.9),
        Case(
            # The second row's best two have exactly p together, and are enough.
            "ids that are equally probable",
            torch.tensor([[1.0, 1.5, 1, 0], [3, 3, 3, 3]]),
            0.5,
        ),
        Case("p = 1 keeps all", random_tensor(3, 7, seed=1), 1.0),
        in_float64(Case("three rows", random_tensor(3, 7, seed=2), 0.6)),
    ],
    mistakes={
        "what is kept is not made to sum to 1 again": [
            _wrong(normalize=lambda kept: kept),
        ],
        "the sum runs over the whole batch, and not over each row": [
            _wrong(normalize=lambda kept: kept / kept.sum()),
            _wrong(normalize=lambda kept: kept / kept.sum(0)),
        ],
        "the token that carries the sum over p is left out: the kept ones then have less than p": [
            _wrong(within=lambda probs, p: probs.cumsum(-1) <= p),
            _wrong(within=lambda probs, p: probs.cumsum(-1) < p),
            _wrong(
                within=lambda probs, p: (probs.cumsum(-1) <= p) | (probs == probs[..., :1]),
            ),
            _wrong(within=lambda probs, p: _and_the_first(probs.cumsum(-1) <= p)),
            _wrong(within=lambda probs, p: _and_the_first(probs.cumsum(-1) < p)),
        ],
        "the probabilities are returned in sorted order: each belongs back at its token's place": [
            _wrong(back=lambda kept, order: kept),
        ],
        "the way back is taken in the wrong direction: `order` says where each came from, so it "
        "scatters; to gather takes its inverse": [
            _wrong(back=lambda kept, order: kept.gather(-1, order)),
            _mask_gathered,
        ],
        "the mask of the sorted probabilities is laid on the unsorted ones": [_mask_of_the_sorted],
        "the probabilities are added up in the order of the vocabulary: sort them first": [
            _unsorted,
        ],
        "the least probable tokens come first": [
            _wrong(descending=False),
        ],
        "each token is compared with p by itself: p is for all that are kept together": [
            _alone(lambda probs, p: probs >= p),
            _alone(lambda probs, p: probs >= 1 - p),
            _alone(lambda probs, p: probs <= p),
        ],
        "each token is compared with p times the best one's probability: that is another method, "
        "min-p": [
            _alone(lambda probs, p: probs >= p * probs.amax(-1, keepdim=True)),
            _alone(lambda probs, p: probs >= (1 - p) * probs.amax(-1, keepdim=True)),
        ],
        "all rows keep as many tokens as one of them: how many it takes differs from row to row": [
            _as_many_as(lambda counts: int(counts[0])),
            _as_many_as(lambda counts: int(counts.max())),
            _as_many_as(lambda counts: int(counts.min())),
            _as_many_as(lambda counts: int(counts[-1])),
        ],
        "all ids as probable as the last one needed are kept: the fewest are asked for": [
            _at_least_the_last,
        ],
        "one id too many is kept where the sum is exactly p: `p` or more is reached there": [
            _wrong(within=lambda probs, p: probs.cumsum(-1) - probs <= p),
        ],
        "what should be kept is dropped, and the rest is kept": [
            _wrong(within=lambda probs, p: ~_within(probs, p)),
        ],
        "the probabilities are added up along the batch: the sum belongs to one row": [
            _wrong(within=lambda probs, p: probs.cumsum(0) - probs < p),
            _wrong(within=lambda probs, p: probs.cumsum(0) < p),
            _wrong(within=lambda probs, p: probs.cumsum(0) <= p),
        ],
        "the sum goes on from one row to the next: each row begins at 0": [
            _goes_on(_best_alone),
            _goes_on(lambda logits: logits * torch.nan),
        ],
        "one token too many is kept": [
            _wrong(within=_one_more),
        ],
        "a dropped token's logit is set to 0, which is no small logit: e to the 0 is 1": [
            _logits_to_zero,
        ],
        "the softmax is taken of probabilities: they have gone through one already": [
            _probabilities_again,
            _probabilities_with_zeros,
            _wrong(softmax=lambda logits: logits.softmax(-1).softmax(-1)),
        ],
        "the logits themselves are added up: only after a softmax are they probabilities": [
            _wrong(softmax=lambda logits: logits),
            _sum_of_logits,
        ],
        "the softmax runs over the rows of the batch and not over the tokens": [
            _wrong(softmax=lambda logits: logits.softmax(0)),
        ],
        "nothing is left out": [
            lambda logits, p: logits.softmax(-1),
        ],
        "p divides the logits: that is a temperature": [
            lambda logits, p: (logits / p).softmax(-1),
        ],
        "only the most probable token is kept": [
            lambda logits, p: _best_alone(logits),
        ],
    },
    use=_by_probability,
    properties=[rows_sum_to_one],
    advises=["dtype"],
    section="When is the likeliest text not what you want?",
)
