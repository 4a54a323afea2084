"""The exercise `beam_step`: what it asks for, and how its answers go wrong."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from transformer_lib.checks.old.core import Case, Exercise
from transformer_lib.checks.old.ids import whole_ids
from transformer_lib.checks.old.inputs import in_float64, random_tensor

Step = tuple[Tensor, Tensor, Tensor]


def _sum(totals: Tensor, log_probs: Tensor) -> Tensor:
    return totals[..., None] + log_probs


def _beam_step(totals: Tensor, log_probs: Tensor) -> Step:
    return _step(totals, log_probs)


def _step(
    totals: Tensor,
    log_probs: Tensor,
    *,
    score: Callable[[Tensor, Tensor], Tensor] = _sum,
    largest: bool = True,
    parent: Callable[[Tensor, int, int], Tensor] = lambda place, k, v: place // v,
    token: Callable[[Tensor, int, int], Tensor] = lambda place, k, v: place % v,
    result: Callable[[Tensor, Tensor, Tensor, Tensor], Tensor] | None = None,
) -> Step:
    (b, k), v = totals.shape, log_probs.size(-1)
    best, place = score(totals, log_probs).reshape(b, -1).topk(k, largest=largest)
    parents, tokens = parent(place, k, v), token(place, k, v)
    if result is not None:
        best = result(totals, log_probs, parents, tokens)
    return best, parents, tokens


def _wrong(**part: Any) -> Callable[..., Step]:
    return lambda totals, log_probs: _step(totals, log_probs, **part)


def _each_its_own(totals: Tensor, log_probs: Tensor) -> Step:
    gain, token = log_probs.max(-1)
    return totals + gain, torch.arange(totals.size(1)).expand_as(token), token


def _each_its_own_sorted(totals: Tensor, log_probs: Tensor) -> Step:
    best, _, token = _each_its_own(totals, log_probs)
    order = best.argsort(-1, descending=True)
    return best.gather(-1, order), order, token.gather(-1, order)


def _all_sentences(totals: Tensor, log_probs: Tensor) -> Step:
    """The beams of all sentences compete for all places."""
    (b, k), v = totals.shape, log_probs.size(-1)
    best, place = _sum(totals, log_probs).flatten().topk(b * k)
    return best.view(b, k), (place // v % k).view(b, k), (place % v).view(b, k)


def _of_the_first(totals: Tensor, log_probs: Tensor) -> Step:
    k = totals.size(1)
    best, token = (totals[:, :1] + log_probs[:, 0]).topk(min(k, log_probs.size(-1)))
    return best, torch.zeros_like(token), token


def _k_of_the_first(totals: Tensor, log_probs: Tensor) -> Step:
    best, token = (totals[:, :1] + log_probs[:, 0]).topk(totals.size(1))
    return best, torch.zeros_like(token), token


def _through_the_batch(totals: Tensor, log_probs: Tensor) -> Step:
    best, parents, tokens = _step(totals, log_probs)
    return best, parents + torch.arange(len(totals))[:, None] * totals.size(1), tokens


def _newest(totals: Tensor, log_probs: Tensor, parents: Tensor, tokens: Tensor) -> Tensor:
    rows = torch.arange(len(totals))[:, None]
    return log_probs[rows, parents, tokens]


def _before(totals: Tensor, log_probs: Tensor, parents: Tensor, tokens: Tensor) -> Tensor:
    return totals.gather(-1, parents)


def _in_probabilities(totals: Tensor, log_probs: Tensor, p: Tensor, t: Tensor) -> Tensor:
    return (totals.gather(-1, p) + _newest(totals, log_probs, p, t)).exp()


def _of_other_beginnings(totals: Tensor, log_probs: Tensor, p: Tensor, t: Tensor) -> Tensor:
    return totals + _newest(totals, log_probs, p, t)


def _each_parent_its_best(totals: Tensor, log_probs: Tensor) -> Step:
    """K results for each beginning."""
    k, v = log_probs.shape[1:]
    best, place = _sum(totals, log_probs).flatten(0, 1).topk(k)
    return best, place // v, place % v


def _place_among_the_best(totals: Tensor, log_probs: Tensor) -> Step:
    """The best of each parent first: a place in the flat list leads to them, not to ids."""
    k, v = log_probs.shape[1:]
    n = min(k, v)
    best, place = (totals[..., None] + log_probs.topk(n).values).flatten(1).topk(k)
    return best, place // n, place % n


def _in_the_order_of_parents(totals: Tensor, log_probs: Tensor) -> Step:
    v = log_probs.size(-1)
    best, parents, tokens = _step(totals, log_probs)
    order = (parents * v + tokens).argsort(-1)
    return best.gather(-1, order), parents.gather(-1, order), tokens.gather(-1, order)


def _twice_as_many(totals: Tensor, log_probs: Tensor) -> Step:
    v = log_probs.size(-1)
    candidates = _sum(totals, log_probs).flatten(1)
    best, place = candidates.topk(2 * totals.size(1))
    return best, place // v, place % v


def _best_last(totals: Tensor, log_probs: Tensor) -> Step:
    best, parents, tokens = (x.flip(-1) for x in _step(totals, log_probs))
    return best, parents, tokens


def _swapped(totals: Tensor, log_probs: Tensor) -> Step:
    best, parents, tokens = _step(totals, log_probs)
    return best, tokens, parents


def _best_token_then_beams(totals: Tensor, log_probs: Tensor) -> Step:
    """The same token for all: the one that is best anywhere."""
    k = totals.size(1)
    best, parents = _sum(totals, log_probs).max(-1).values.topk(k)
    token = _sum(totals, log_probs).max(1).values.argmax(-1, keepdim=True).expand_as(parents)
    return best, parents, token


def _read(answer: Callable[..., Any], /, totals: Tensor, log_probs: Tensor) -> Any:
    result = answer(totals, log_probs)
    if isinstance(result, tuple | list) and len(result) == 3:
        whole_ids(result[1], "parents")
        whole_ids(result[2], "newest ids")
    return result


def _inputs(b: int, k: int, v: int, seed: int = 0) -> tuple[Tensor, Tensor]:
    totals = -3 * random_tensor(b, k, seed=seed).abs() - 0.1
    return totals.sort(-1, descending=True).values, random_tensor(
        b, k, v, seed=seed + 1
    ).log_softmax(-1)


def _even() -> tuple[Tensor, Tensor]:
    """A good parent whose children all beat those of the other."""
    totals = torch.tensor([[-0.5, -4.0], [-1.0, -1.1]])
    log_probs = torch.tensor(
        [[[0.4, 0.35, 0.25], [0.6, 0.3, 0.1]], [[0.5, 0.3, 0.2], [0.1, 0.2, 0.7]]]
    ).log()
    return totals, log_probs


BEAM_STEP = Exercise(
    name="beam_step",
    reference=_beam_step,
    cases=[
        Case("one sentence, two beginnings", *_inputs(1, 2, 5, seed=2)),
        Case("one sentence, one beginning", *_inputs(1, 1, 5)),
        Case("both places go to children of one parent", *_even()),
        Case("two sentences of unlike probability", *_inputs(2, 3, 5, seed=4)),
        Case("five sentences, three beginnings, eleven tokens", *_inputs(5, 3, 11, seed=6)),
        Case("more beginnings than tokens", *_inputs(2, 7, 5, seed=8)),
        in_float64(Case("two sentences", *_inputs(2, 3, 5, seed=10))),
    ],
    mistakes={
        "every beginning keeps a place, for its own best token: a poor one then stays, and the "
        "two best children of one parent cannot both": [_each_its_own, _each_its_own_sorted],
        "the newest token is judged alone: `totals`, what came before, is not added": [
            _wrong(score=lambda totals, log_probs: log_probs),
            _wrong(
                score=lambda totals, log_probs: log_probs,
                result=lambda t, lp, p, k: t.gather(-1, p) + _newest(t, lp, p, k),
            ),
        ],
        "log-probabilities are multiplied: the logarithm of a product is a sum": [
            _wrong(score=lambda totals, log_probs: totals[..., None] * log_probs),
        ],
        "probabilities are added to log-probabilities": [
            _wrong(score=lambda totals, log_probs: totals[..., None] + log_probs.exp()),
            _wrong(score=lambda totals, log_probs: totals.exp()[..., None] + log_probs),
        ],
        "totals come out as probabilities: after some hundred tokens nothing is left of them in "
        "float32, which is why we add logarithms": [_wrong(result=_in_probabilities)],
        "parents and tokens are exchanged": [
            _swapped,
            _wrong(parent=lambda place, k, v: place % v, token=lambda place, k, v: place // v),
        ],
        "a place in the flat list is divided by the number of beginnings: each beginning has V "
        "places in it": [
            _wrong(parent=lambda place, k, v: place // k, token=lambda place, k, v: place % k),
            _wrong(parent=lambda place, k, v: place % k, token=lambda place, k, v: place // k),
            _wrong(parent=lambda place, k, v: place // k),
            _wrong(token=lambda place, k, v: place % k),
            _wrong(parent=lambda place, k, v: place % k),
        ],
        "a place is divided by / and becomes a fraction: a parent is an index, by //": [
            _wrong(parent=lambda place, k, v: place / v),
        ],
        "2K results are kept: `beam_by_hand` fetches so many since some of them end, and here "
        "nobody does": [_twice_as_many],
        "`totals` has its new axis in the wrong place: its K belongs to the parents, and the new "
        "axis to the ids": [
            _wrong(score=lambda totals, log_probs: totals[:, None] + log_probs),
        ],
        "the ids come before the parents in the flat list: an axis was exchanged before": [
            _wrong(score=lambda totals, log_probs: _sum(totals, log_probs).transpose(1, 2)),
        ],
        "a token is its place in the flat list: the remainder is still to be taken": [
            _wrong(token=lambda place, k, v: place),
            _wrong(parent=lambda place, k, v: torch.zeros_like(place), token=lambda p, k, v: p),
        ],
        "the worst are kept": [
            _wrong(largest=False),
        ],
        "the sentences of the batch compete with each other: each has a beam of its own": [
            _all_sentences,
        ],
        "only the first beginning is extended": [
            _of_the_first,
            _k_of_the_first,
        ],
        "each beginning gets K results: in each sentence the K * V candidates of all its "
        "beginnings compete for K places": [_each_parent_its_best],
        "the best of each parent are found first, and a token is then its place among them: its id "
        "is what that first `topk` has found": [_place_among_the_best],
        "the choice is right, but the newest log-probabilities are added to `totals` as they "
        "stand, and not each to that of its parent": [_wrong(result=_of_other_beginnings)],
        "parents are counted through the whole batch: within its sentence, a parent is a number "
        "below K": [_through_the_batch],
        "the choice is right, but the totals are those before this step": [_wrong(result=_before)],
        "the choice is right, but the newest log-probability is returned and not the total": [
            _wrong(result=_newest),
        ],
        "the choice is right, but the best stands last": [_best_last],
        "the choice is right, but it stands in the order of the parents, not the best first": [
            _in_the_order_of_parents,
        ],
        "beginnings and tokens are chosen apart: every parent gets the token that is best of all": [
            _best_token_then_beams,
        ],
    },
    use=_read,
    advises=["dtype"],
    section="What does a beam do?",
)
