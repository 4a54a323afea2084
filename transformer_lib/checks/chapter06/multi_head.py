"""The exercise `multi_head`: what it asks for, and how its answers go wrong."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor

from transformer_lib.checks.old.core import Case, Exercise
from transformer_lib.checks.old.inputs import random_tensor

_SPLIT = ' (see the section "Do you need a loop over the heads?")'
_BREAK = ' (see the section "Break it: a reshape without the transpose")'


def _split(x: Tensor, n_heads: int) -> Tensor:
    return x.unflatten(-1, (n_heads, -1)).transpose(-3, -2)


def _merge(x: Tensor) -> Tensor:
    return x.transpose(-3, -2).flatten(-2)


def _multi_head(
    x: Tensor,
    W_q: Tensor,
    W_k: Tensor,
    W_v: Tensor,
    W_o: Tensor,
    n_heads: int,
    *,
    split: Callable[[Tensor, int], Tensor] = _split,
    scale: Callable[[Tensor, int], float] = lambda q, n_heads: q.shape[-1] ** -0.5,
    weigh: Callable[[Tensor], Tensor] = lambda scores: scores.softmax(dim=-1),
    mix: Callable[[Tensor, Tensor], Tensor] = lambda weights, value: weights @ value,
    merge: Callable[[Tensor], Tensor] = _merge,
    out: Callable[[Tensor, Tensor], Tensor] = lambda joined, W_o: joined @ W_o,
) -> Tensor:
    """The layer in steps, of which a mistake replaces one."""
    query, key, value = (split(x @ W, n_heads) for W in (W_q, W_k, W_v))
    scores = query @ key.transpose(-2, -1) * scale(query, n_heads)
    return out(merge(mix(weigh(scores), value)), W_o)


def _reference(
    x: Tensor, W_q: Tensor, W_k: Tensor, W_v: Tensor, W_o: Tensor, n_heads: int
) -> Tensor:
    return _multi_head(x, W_q, W_k, W_v, W_o, n_heads)


def _but(**steps: Callable) -> Callable[..., Tensor]:
    return partial(_multi_head, **steps)


def _split_without_transpose(x: Tensor, n_heads: int) -> Tensor:
    return x.reshape(*x.shape[:-2], n_heads, x.shape[-2], -1)


def _merge_without_transpose(x: Tensor) -> Tensor:
    return x.reshape(*x.shape[:-3], x.shape[-2], -1)


def _split_second(x: Tensor, n_heads: int) -> Tensor:
    return x.unflatten(-1, (n_heads, -1)).transpose(1, 2)


def _merge_second(x: Tensor) -> Tensor:
    return x.transpose(1, 2).flatten(-2)


def _split_into_tokens(x: Tensor, n_heads: int) -> Tensor:
    return x.unflatten(-1, (n_heads, -1))  # (..., T, H, d): the heads of a token meet each other


def _every_nth(x: Tensor, n_heads: int) -> Tensor:
    return x.unflatten(-1, (-1, n_heads)).movedim(-1, -3)


def _averaged(x: Tensor) -> Tensor:
    mean = x.mean(-3)
    return torch.cat([mean] * x.shape[-3], dim=-1)


def _one_for_all(how: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
    return lambda scores: how(scores).softmax(-1).expand_as(scores)


def _one_head(x: Tensor, n_heads: int) -> Tensor:
    return x.unsqueeze(-3)


def _sliced_by_d_model(
    x: Tensor, W_q: Tensor, W_k: Tensor, W_v: Tensor, W_o: Tensor, n_heads: int
) -> Tensor:
    d, heads = x.shape[-1] // n_heads, []
    for i in range(n_heads):
        q, k, v = (x @ W[:, i * d : (i + 1) * d] for W in (W_q, W_k, W_v))
        heads.append((q @ k.mT / q.shape[-1] ** 0.5).softmax(-1) @ v)
    return torch.cat(heads, dim=-1) @ W_o


def _cut_by_d_model(
    x: Tensor, W_q: Tensor, W_k: Tensor, W_v: Tensor, W_o: Tensor, n_heads: int
) -> Tensor:
    lead, d = x.shape[:-1], x.shape[-1] // n_heads
    query, key, value = (
        (x @ W).reshape(*lead, n_heads, d).transpose(-3, -2) for W in (W_q, W_k, W_v)
    )
    return _merge((query @ key.mT / d**0.5).softmax(-1) @ value) @ W_o


_TOKENS_AND_HEADS = (
    "the tokens stand where the heads should: at each token its heads attend to one another, and "
    "no token sees another one. The heads' axis belongs in front of the tokens'" + _SPLIT
)


def _inputs(*batch: int, t: int, d: int, h: int, d_k: int, d_v: int) -> list:
    return [
        random_tensor(*batch, t, d),
        random_tensor(d, h * d_k, seed=1) / d**0.5,
        random_tensor(d, h * d_k, seed=2) / d**0.5,
        random_tensor(d, h * d_v, seed=3) / d**0.5,
        random_tensor(h * d_v, d, seed=4) / (h * d_v) ** 0.5,
        h,
    ]


MULTI_HEAD = Exercise(
    name="multi_head",
    reference=_reference,
    cases=[
        Case("one head, d_k = 2, d_v = 5", *_inputs(t=3, d=7, h=1, d_k=2, d_v=5)),
        Case("2 heads, d_k = 3, d_v = 3, 4 tokens", *_inputs(t=4, d=6, h=2, d_k=3, d_v=3)),
        Case("3 heads, d_k = 2, d_v = 5", *_inputs(t=7, d=11, h=3, d_k=2, d_v=5)),
        Case("as many heads as tokens", *_inputs(t=3, d=6, h=3, d_k=2, d_v=2)),
        Case("a batch of 2", *_inputs(2, t=5, d=6, h=3, d_k=2, d_v=7)),
        Case("2 by 3 batches, 8 heads", *_inputs(2, 3, t=5, d=16, h=8, d_k=2, d_v=2)),
    ],
    mistakes={
        "`n_heads` is not used: this is one head of full width": [
            _but(split=_one_head),
        ],
        "`n_heads` is not used, and the scores are not divided by anything: this is one head of "
        "full width": [
            _but(split=_one_head, scale=lambda q, h: 1.0),
        ],
        "the split into heads and the merge both lack the transpose: a head is then a block of "
        "whole tokens" + _BREAK: [
            _but(split=_split_without_transpose, merge=_merge_without_transpose),
        ],
        "the merge lacks the transpose: the rows of one head are read as if they were the heads of "
        "one token" + _BREAK: [
            _but(merge=_merge_without_transpose),
        ],
        "the split lacks the transpose: a head gets whole tokens instead of a slice of each token"
        + _BREAK: [
            _but(split=_split_without_transpose),
        ],
        _TOKENS_AND_HEADS: [
            _but(split=_split_into_tokens, merge=lambda x: x.flatten(-2)),
        ],
        "a head gets every n-th column, where it should get columns that stand together: `view` to "
        "(heads, width), not to (width, heads)" + _SPLIT: [
            _but(split=_every_nth),
            _but(split=_every_nth, merge=lambda x: x.movedim(-3, -1).flatten(-2)),
        ],
        "the heads' results are joined number by number and not head by head: transpose to "
        "(tokens, heads, width) before you flatten" + _SPLIT: [
            _but(merge=lambda x: x.movedim(-3, -1).flatten(-2)),
        ],
        "the scores are divided by the root of the model's width: d_k is the width of one head": [
            lambda x, W_q, W_k, W_v, W_o, n_heads: _multi_head(
                x, W_q, W_k, W_v, W_o, n_heads, scale=lambda q, h: x.shape[-1] ** -0.5
            ),
        ],
        "the scores are divided by the root of the width of all heads together: d_k is the width "
        "of one head": [
            _but(scale=lambda q, h: (h * q.shape[-1]) ** -0.5),
        ],
        "the scores are divided by the root of d_model / n_heads, which is not d_k here: ask the "
        "queries how wide they are": [
            lambda x, W_q, W_k, W_v, W_o, n_heads: _multi_head(
                x, W_q, W_k, W_v, W_o, n_heads, scale=lambda q, h: (x.shape[-1] / h) ** -0.5
            ),
            lambda x, W_q, W_k, W_v, W_o, n_heads: _multi_head(
                x, W_q, W_k, W_v, W_o, n_heads, scale=lambda q, h: (x.shape[-1] // h) ** -0.5
            ),
        ],
        "the scores are divided by the root of the width of a head's values, d_v, where it should "
        "be that of its queries, d_k": [
            lambda x, W_q, W_k, W_v, W_o, n_heads: _multi_head(
                x, W_q, W_k, W_v, W_o, n_heads, scale=lambda q, h: (W_v.shape[-1] / h) ** -0.5
            ),
        ],
        "`** 1/2` is no root: Python takes the power first, so this divides d_k by 2": [
            _but(scale=lambda q, h: 2 / q.shape[-1]),
        ],
        "the number under the root is fixed: 64 is the paper's d_k, not yours": [
            _but(scale=lambda q, h: 1 / 8),
        ],
        "the scores are divided by d_k and not by its root": [
            _but(scale=lambda q, h: 1 / q.shape[-1]),
        ],
        "the scores are multiplied by the root of d_k instead of divided": [
            _but(scale=lambda q, h: q.shape[-1] ** 0.5),
        ],
        "the root is taken of the number of tokens: the spread grows with d_k alone": [
            _but(scale=lambda q, h: q.shape[-2] ** -0.5),
        ],
        "the heads' axis was counted from the front, as it may be without a batch: with a batch "
        "that is another axis. Take -3 and -2": [
            _but(
                split=lambda x, h: x.unflatten(-1, (h, -1)).transpose(0, 1),
                merge=lambda x: x.transpose(0, 1).flatten(-2),
            ),
            _but(
                split=lambda x, h: x.unflatten(-1, (h, -1)).transpose(0, 1),
                merge=lambda x: x.transpose(0, 1).flatten(1),
            ),
            _but(
                split=lambda x, h: x.unflatten(-1, (h, -1)).transpose(0, 1),
            ),
        ],
        "the heads' axis was counted from the front, as it may be with one axis for the batch: "
        "without a batch, or with two axes, that is another one. Take -3 and -2": [
            _but(split=_split_second),
            _but(split=_split_second, merge=_merge_second),
            _but(merge=_merge_second),
        ],
        "a head is taken to be d_model / n_heads columns wide: W_q and W_k have n_heads * d_k, "
        "W_v has n_heads * d_v": [_sliced_by_d_model],
        "a head is cut d_model / n_heads wide, where `view` could find the width itself, -1: it is "
        "d_k for queries and keys, and d_v for values": [
            _cut_by_d_model,
        ],
        "the scores are not divided by anything": [_but(scale=lambda q, h: 1.0)],
        "the softmax runs over the queries and not over the keys": [
            _but(weigh=lambda scores: scores.softmax(-2)),
        ],
        "the softmax runs over the heads: each head must have weights of its own that sum to 1": [
            _but(weigh=lambda scores: scores.softmax(-3)),
        ],
        "the softmax has a fixed axis, counted from the front: with a batch that is another axis": [
            _but(weigh=lambda scores: scores.softmax(2)),
            _but(weigh=lambda scores: scores.softmax(1)),
            _but(weigh=lambda scores: scores.softmax(0)),
        ],
        "there is no softmax: the scores themselves mix the values": [
            _but(weigh=lambda scores: scores),
        ],
        "the weights are averaged over the heads: then all heads look at the same, and one would "
        "do": [
            _but(weigh=lambda scores: scores.softmax(-1).mean(-3, keepdim=True).expand_as(scores)),
        ],
        "the scores are added up over the heads before the softmax: then all heads look at the "
        "same, and one would do": [
            _but(weigh=_one_for_all(lambda scores: scores.sum(-3, keepdim=True))),
            _but(weigh=_one_for_all(lambda scores: scores.mean(-3, keepdim=True))),
        ],
        "every head gets the weights of the first one": [
            _but(weigh=_one_for_all(lambda scores: scores[..., :1, :, :])),
        ],
        "the heads are averaged or added up instead of put side by side: what each has found can "
        'no longer be told apart (see the section "What if it looks twice?")': [
            _but(merge=_averaged),
            _but(
                merge=lambda x: x.mean(-3), out=lambda joined, W_o: joined @ W_o[: joined.shape[-1]]
            ),
            _but(merge=lambda x: x.mean(-3)),
            _but(
                merge=lambda x: x.sum(-3), out=lambda joined, W_o: joined @ W_o[: joined.shape[-1]]
            ),
        ],
        "`W_o` is missing: the heads stand side by side, and nothing brings them back to the width "
        "of the model": [
            _but(out=lambda joined, W_o: joined),
        ],
        "`W_o` is used turned on its side: x W multiplies from the right, and only `nn.Linear` "
        "keeps its matrix the other way": [
            _but(out=lambda joined, W_o: joined @ W_o.mT),
        ],
        "the heads are returned one by one, and never merged": [
            _but(merge=lambda x: x, out=lambda heads, W_o: heads),
        ],
        "the keys are mixed where the values should be": [
            lambda x, W_q, W_k, W_v, W_o, n_heads: _multi_head(x, W_q, W_k, W_k, W_o, n_heads),
        ],
        "queries and keys have changed places": [
            lambda x, W_q, W_k, W_v, W_o, n_heads: _multi_head(x, W_k, W_q, W_v, W_o, n_heads),
        ],
    },
    section="Do you need a loop over the heads?",
)
