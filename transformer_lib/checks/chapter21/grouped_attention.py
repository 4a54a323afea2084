"""The exercise `grouped_attention`: what it asks for, and how its answers go wrong."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor

from transformer_lib.checks.chapter21.grouping import grouped
from transformer_lib.checks.old.core import Case, Exercise
from transformer_lib.checks.old.inputs import random_tensor


def _reference(query: Tensor, key: Tensor, value: Tensor, mask: Tensor) -> Tensor:
    return grouped(query, key, value, mask)


def _but(**steps: Callable) -> Callable[..., Tensor]:
    return partial(grouped, **steps)


def _attend(query: Tensor, key: Tensor, value: Tensor, mask: Tensor) -> Tensor:
    """The chapter's own, which knows nothing of groups."""
    return _but(keys=lambda heads, _: heads, values=lambda heads, _: heads)(query, key, value, mask)


def _in_turn(heads: Tensor, n_heads: int) -> Tensor:
    return heads.repeat(1, n_heads // heads.size(1), 1, 1)


def _first(heads: Tensor, n_heads: int) -> Tensor:
    return heads[:, :1]


def _mean(heads: Tensor, n_heads: int) -> Tensor:
    return heads.mean(dim=1, keepdim=True)


def _of_groups(query: Tensor, key: Tensor) -> Tensor:
    return query.unflatten(1, (key.size(1), -1))


def _by_head(query: Tensor, group: int) -> Tensor:
    """The queries of a group below each other: all places of its first head, then the next."""
    return query.unflatten(1, (-1, group)).flatten(2, 3)


def _apart_by_head(mixed: Tensor, group: int) -> Tensor:
    return mixed.unflatten(2, (group, -1)).flatten(1, 2)


def _of_heads(query: Tensor, group: int) -> Tensor:
    return query.unflatten(1, (group, -1)).flatten(2, 3)


def _by_place(query: Tensor, group: int) -> Tensor:
    """The same, but all heads of the first place, then of the second."""
    return query.unflatten(1, (-1, group)).transpose(2, 3).flatten(2, 3)


def _apart_by_place(mixed: Tensor, group: int) -> Tensor:
    return mixed.unflatten(2, (-1, group)).transpose(2, 3).flatten(1, 2)


def _whole(mask: Tensor, group: int) -> Tensor:
    return mask.repeat(group, 1)


def _row_by_row(mask: Tensor, group: int) -> Tensor:
    return mask.repeat_interleave(group, dim=0)


def _once(mask: Tensor, group: int) -> Tensor:
    return mask


def _stacked(
    stack: Callable[[Tensor, int], Tensor],
    rows: Callable[[Tensor, int], Tensor],
    apart: Callable[[Tensor, int], Tensor],
) -> Callable[..., Tensor]:
    """As the exercise proposes it, in steps that may not fit each other."""

    def answer(query: Tensor, key: Tensor, value: Tensor, mask: Tensor) -> Tensor:
        group = query.size(1) // key.size(1)
        mixed = _attend(stack(query, group), key, value, rows(mask, group))
        return apart(mixed, group)

    return answer


def _places_before_heads(query: Tensor, key: Tensor, value: Tensor, mask: Tensor) -> Tensor:
    batch, n_heads, length, _ = query.shape
    lying = query.transpose(1, 2).reshape(batch, key.size(1), -1, query.size(-1))
    mixed = _reference(lying, key, value, mask.repeat(n_heads // key.size(1), 1))
    return mixed.reshape(batch, length, n_heads, -1).transpose(1, 2)


def _mean_query(query: Tensor, group: int) -> Tensor:
    return query.unflatten(1, (-1, group)).mean(dim=2)


def _for_all(mixed: Tensor, group: int) -> Tensor:
    return mixed.repeat_interleave(group, dim=1)


def _sizes_swapped(query: Tensor, key: Tensor, value: Tensor, mask: Tensor) -> Tensor:
    """As many groups as there should be heads in each, below each other."""
    groups, group = key.size(1), query.size(1) // key.size(1)
    stacked = query.unflatten(1, (group, groups)).flatten(2, 3)
    scores = stacked @ key.transpose(-2, -1)
    scores = scores.masked_fill(~mask.repeat(groups, 1), torch.finfo(scores.dtype).min)
    mixed = (scores / key.size(-1) ** 0.5).softmax(dim=-1) @ value
    return mixed.reshape(query.shape)


def _by_group(query: Tensor, key: Tensor, value: Tensor, mask: Tensor) -> Tensor:
    """As the exercise proposes it, with as many heads below each other as there are groups."""
    return _stacked(
        lambda query, _: _by_head(query, key.size(1)),
        lambda mask, _: _whole(mask, key.size(1)),
        lambda mixed, _: _apart_by_head(mixed, key.size(1)),
    )(query, key, value, mask)


def _repeated_by_group(heads: Tensor, n_heads: int) -> Tensor:
    return heads.repeat_interleave(heads.size(1), dim=1)


def _looked_up_by_group(heads: Tensor, n_heads: int) -> Tensor:
    return torch.stack([heads[:, h // heads.size(1)] for h in range(n_heads)], dim=1)


def _axis_in_front(query: Tensor, key: Tensor, value: Tensor, mask: Tensor) -> Tensor:
    """`key[:, None]` where `key[:, :, None]` makes an axis for the heads of a group."""
    groups = query.unflatten(1, (key.size(1), -1))
    return _reference(groups, key[:, None], value[:, None], mask).flatten(1, 2)


def _causal(scores: Tensor, mask: Tensor) -> Tensor:
    return scores.masked_fill(~torch.ones_like(mask).tril(), torch.finfo(scores.dtype).min)


def _inputs(batch: int, h: int, g: int, t: int, s: int, d: int, seed: int) -> list[Tensor]:
    return [
        random_tensor(batch, h, t, d, seed=seed),
        random_tensor(batch, g, s, d, seed=seed + 1),
        random_tensor(batch, g, s, d, seed=seed + 2),
        torch.ones(t, s).tril(s - t).bool(),
    ]


GROUPED_ATTENTION = Exercise(
    name="grouped_attention",
    reference=_reference,
    cases=[
        Case("2 heads, one of keys", *_inputs(1, h=2, g=1, t=3, s=3, d=2, seed=0)),
        Case("4 heads, 2 of keys", *_inputs(1, h=4, g=2, t=3, s=3, d=4, seed=3)),
        Case("6 heads, 2 of keys, a batch of 2", *_inputs(2, h=6, g=2, t=5, s=5, d=4, seed=6)),
        Case("6 heads, 3 of keys, older keys", *_inputs(2, h=6, g=3, t=2, s=5, d=4, seed=9)),
        Case("as many heads of keys as of queries", *_inputs(2, h=3, g=3, t=4, s=4, d=6, seed=12)),
    ],
    mistakes={
        "queries 0, 1, 2, 3 look into keys 0, 1, 0, 1: a group stands together, 0, 0, 1, 1": [
            _but(keys=_in_turn, values=_in_turn),
            lambda query, key, value, mask: _but(keys=_in_turn, values=_in_turn)(
                query, key, value, mask
            ),
            _axis_in_front,
        ],
        "the keys are shared by groups that stand together and the values in turn": [
            _but(values=_in_turn),
        ],
        "the values are shared by groups that stand together and the keys in turn": [
            _but(keys=_in_turn),
        ],
        "all queries look into the first head of keys and values": [
            _but(keys=_first, values=_first),
        ],
        "all queries look at the values of the first head": _but(values=_first),
        "all queries look into the keys of the first head": _but(keys=_first),
        "the keys and values are averaged over their heads": _but(keys=_mean, values=_mean),
        "the groups still have an axis of their own: a `flatten(1, 2)` is missing": [
            _but(end=_of_groups),
        ],
        "the heads come back in another order: the axis of the groups stands in front of that of "
        "the heads in a group": [
            _but(end=lambda mixed, key: _of_groups(mixed, key).transpose(1, 2).flatten(1, 2)),
        ],
        "the places are cut into groups: the axis of the heads stands in front when you cut": [
            _places_before_heads,
        ],
        "the rows of the mask have another order than the queries: with the heads below each other "
        "the whole mask comes again for each head": [
            _stacked(_by_head, _row_by_row, _apart_by_head),
            _stacked(_by_place, _whole, _apart_by_place),
        ],
        "the heads of a group are taken apart in another order than they were put together": [
            _stacked(_by_head, _whole, _apart_by_place),
            _stacked(_by_place, _row_by_row, _apart_by_head),
        ],
        "the queries are below each other and the rows of the mask are not: each needs its own": [
            _stacked(_by_head, _once, _apart_by_head),
            _stacked(_by_place, _once, _apart_by_place),
            lambda query, key, value, mask: _stacked(_by_head, _once, lambda mixed, group: mixed)(
                query, key, value, mask
            ).reshape(query.shape),
        ],
        "the queries of a group still stand below each other: their heads have to come apart": [
            _stacked(_by_head, _whole, lambda mixed, group: mixed),
            _stacked(_by_place, _row_by_row, lambda mixed, group: mixed),
        ],
        "one query head of each group is left: all of them look into its keys": [
            _stacked(lambda query, group: query[:, ::group], _once, lambda mixed, group: mixed),
        ],
        "the queries of a group are averaged: each head asks with its own": [
            _stacked(_mean_query, _once, _for_all),
            _stacked(_mean_query, _once, lambda mixed, group: mixed),
        ],
        "the number of groups and the heads in a group have changed places: there are as many "
        "groups as heads of keys": [
            _sizes_swapped,
            _by_group,
            _stacked(_of_heads, _whole, _apart_by_head),
            _but(keys=_repeated_by_group, values=_repeated_by_group),
            _but(keys=_looked_up_by_group, values=_looked_up_by_group),
        ],
        "the mask is not used": _but(hide=lambda scores, mask: scores),
        "`mask` is not used, but a causal one that begins at the first key: with older keys a "
        "query may see more": _but(hide=_causal),
        "the mask is upside down: True = may look": [
            _but(hide=lambda scores, mask, low=low: scores.masked_fill(mask, low))
            for low in (torch.finfo(torch.float32).min, -torch.inf)
        ],
        "the mask comes after the softmax: the removed weight is lost": [
            _but(
                hide=lambda scores, mask: scores,
                weigh=lambda scores: scores.softmax(dim=-1).tril(scores.size(-1) - scores.size(-2)),
            ),
        ],
        "hidden scores are 0: the softmax gives weight to a score of 0": [
            _but(hide=lambda scores, mask: scores.masked_fill(~mask, 0)),
            _but(hide=lambda scores, mask: scores * mask),
        ],
        "the scores are not divided by anything": _but(scale=lambda query: 1.0),
        "the scores are divided by the width and not by its root": [
            _but(scale=lambda query: 1 / query.size(-1)),
        ],
        "the scores are divided by the root of the width of all heads together": [
            _but(scale=lambda query: (query.size(1) * query.size(-1)) ** -0.5),
        ],
        "the scores are divided by the root of the number of keys: it is that of the width": [
            lambda query, key, value, mask: _but(scale=lambda query: key.size(2) ** -0.5)(
                query, key, value, mask
            ),
        ],
        "the softmax runs over the queries": _but(weigh=lambda scores: scores.softmax(dim=-2)),
        "the softmax runs over the heads": _but(weigh=lambda scores: scores.softmax(dim=1)),
        "there is no softmax": [
            _but(
                weigh=lambda scores: scores,
                hide=lambda scores, mask, low=low: scores.masked_fill(~mask, low),
            )
            for low in (torch.finfo(torch.float32).min, -1e9, -torch.inf, 0)
        ],
        "the keys are mixed where the values should be": [
            lambda query, key, value, mask: _reference(query, key, key, mask),
        ],
        "the results of a group are averaged: each query head keeps its own": [
            _but(end=lambda mixed, key: _of_groups(mixed, key).mean(dim=2)),
            _but(
                end=lambda mixed, key: (
                    _of_groups(mixed, key)
                    .mean(dim=2, keepdim=True)
                    .expand_as(_of_groups(mixed, key))
                    .flatten(1, 2)
                )
            ),
        ],
        "the heads are joined to one vector: here they are still apart": [
            _but(end=lambda mixed, key: mixed.transpose(1, 2).flatten(2)),
        ],
    },
    section="Who needs all these keys?",
)
