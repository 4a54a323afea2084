"""The exercise `masked_attention`: what it asks for, and how its answers go wrong."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor

from transformer_lib.checks.core import Case, Exercise
from transformer_lib.checks.inputs import random_tensor

_INF = float("inf")
_AFTER = ' (see the section "Why not set the weights to zero afterwards?")'
_FILL = ' (see the section "Which number is minus infinity?")'


def _low(scores: Tensor) -> float:
    return torch.finfo(scores.dtype).min


def _emptied(weights: Tensor, mask: Tensor) -> Tensor:
    return weights.masked_fill(~mask, 0.0)


def _filled(fill: float | Callable[[Tensor], float], *, then: bool = False) -> Callable:
    """Weights whose forbidden scores are `fill`; `then`, the forbidden weights are set to 0."""

    def weigh(scores: Tensor, mask: Tensor) -> Tensor:
        number = fill(scores) if callable(fill) else fill
        weights = scores.masked_fill(~mask, number).softmax(-1)
        return _emptied(weights, mask) if then else weights

    return weigh


def _added(number: float) -> Callable[[Tensor, Tensor], Tensor]:
    return lambda scores, mask: (scores + (~mask).to(scores.dtype) * number).softmax(-1)


def _promoted(number: float) -> Callable[[Tensor, Tensor], Tensor]:
    return lambda scores, mask: (scores + ~mask * number).softmax(-1)  # float32, whatever they were


def _renormalized(tiny: float) -> Callable[[Tensor, Tensor], Tensor]:
    def weigh(scores: Tensor, mask: Tensor) -> Tensor:
        weights = scores.softmax(-1) * mask
        return weights / (weights.sum(-1, keepdim=True) + tiny)

    return weigh


_LEAST = (1e-4, 1e-6, 1e-8, 1e-9)


def _clamped(powers: Tensor, least: float) -> Tensor:
    return powers / powers.sum(-1, keepdim=True).clamp(min=least)


def _undivided(scores: Tensor, mask: Tensor) -> Tensor:
    scores = scores.masked_fill(~mask, _low(scores))
    return _emptied((scores - scores.amax(-1, keepdim=True)).exp(), mask)


_SMALL = (1e-8, 1e-9, 1e-10, 1e-12)  # 0 in float16


def _nudged(small: float) -> Callable[[Tensor, Tensor], Tensor]:
    def weigh(scores: Tensor, mask: Tensor) -> Tensor:
        powers = _undivided(scores, mask)
        return powers / (powers.sum(-1, keepdim=True) + small)

    return weigh


def _powers(scores: Tensor, mask: Tensor) -> Tensor:
    """Weights from `exp` of the scores as they are."""
    powers = scores.exp() * mask
    return powers / powers.sum(-1, keepdim=True)


def _powers_of_filled(scores: Tensor, mask: Tensor) -> Tensor:
    powers = scores.masked_fill(~mask, -_INF).exp()
    return powers / powers.sum(-1, keepdim=True)


def _powers_if_any(scores: Tensor, mask: Tensor) -> Tensor:
    total = (powers := scores.exp() * mask).sum(-1, keepdim=True)
    return torch.where(total > 0, powers / total, 0.0)


_right = _filled(_low, then=True)


def _masked_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor,
    *,
    scale: Callable[[Tensor], float] = lambda q: q.shape[-1] ** -0.5,
    weigh: Callable[[Tensor, Tensor], Tensor] = _right,
) -> Tensor:
    """The formula in steps, of which a mistake replaces one."""
    return weigh(query @ key.mT * scale(query), mask) @ value


def _turned(query: Tensor, turned: Tensor, value: Tensor, mask: Tensor) -> Tensor:
    """With keys that somebody has turned already."""
    return _right(query @ turned * query.shape[-1] ** -0.5, mask) @ value


def _reference(query: Tensor, key: Tensor, value: Tensor, mask: Tensor) -> Tensor:
    return _masked_attention(query, key, value, mask)


def _but(**step: Callable) -> Callable[..., Tensor]:
    return partial(_masked_attention, **step)


def _ways(weigh: Callable[[Tensor, Tensor], Tensor]) -> Callable[..., Tensor]:
    return _but(weigh=weigh)


def _mended(weigh: Callable[[Tensor, Tensor], Tensor]) -> list[Callable[..., Tensor]]:
    """`weigh`, as it is and with zeros where a query may see nothing, made in two ways."""
    return [
        _ways(weigh),
        _ways(lambda s, m: weigh(s, m).nan_to_num(0.0)),
        _ways(lambda s, m: weigh(s, m).masked_fill(~m.any(-1, keepdim=True), 0.0)),
    ]


def _both_results(q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
    weights = _right(q @ k.mT * q.shape[-1] ** -0.5, mask)
    return weights @ v, weights


def _qkv(*batch: int, t: int, s: int, d: int, d_v: int) -> list[Tensor]:
    sizes = ((t, d), (s, d), (s, d_v))
    return [random_tensor(*batch, *size, seed=i) for i, size in enumerate(sizes)]


def _line(*scores: float) -> list[Tensor]:
    """A query and keys whose scaled dot products are `scores`, and values to tell them apart."""
    keys = torch.tensor([[score, 0.0, 0, 0] for score in scores])
    return [torch.tensor([[2.0, 0, 0, 0]]), keys, torch.eye(len(scores))]


_PADDING = torch.arange(5) < torch.tensor([5, 2])[:, None, None]  # (2, 1, 5)
_NOTHING = _PADDING.expand(2, 3, 5).clone()
_NOTHING[1, 1] = False
_TRIANGLE = torch.ones(4, 4).tril().bool()
# 200 · -200 in all but the hidden score, and small numbers to choose by: nothing gets lost.
_FAR_DOWN = [
    torch.tensor([[200.0, 2, 0, 0]]),
    torch.tensor([[-200.0, 1, 0, 0], [-200, 2, 0, 0], [0.03, 0, 0, 0]]),
    torch.eye(3),
]
_FIRST_TWO = torch.tensor([[True, True, False]])

MASKED_ATTENTION = Exercise(
    name="masked_attention",
    reference=_reference,
    cases=[
        Case(
            "one query, two keys, one of them hidden", *_line(1, 2), torch.tensor([[True, False]])
        ),
        Case("the last of three keys is hidden", *_line(1, 2, 3), _FIRST_TWO),
        Case("a causal mask, 4 tokens, d_k = 3", *_qkv(t=4, s=4, d=3, d_v=2), _TRIANGLE),
        Case("a batch of 2, the second one padded", *_qkv(2, t=3, s=5, d=7, d_v=11), _PADDING),
        Case(
            "2 by 3 batches, padded",
            *_qkv(2, 3, t=7, s=5, d=4, d_v=6),
            _PADDING[:, None],
        ),
        Case("a query with nothing to attend to", *_qkv(2, t=3, s=5, d=7, d_v=11), _NOTHING),
        Case("scores around 200, none hidden", *_line(199, 200, 201), torch.ones(1, 3).bool()),
        Case("a hidden key that leads by 200", *_line(1, 2, 202), _FIRST_TWO),
        Case("scores around minus 20 000", *_FAR_DOWN, _FIRST_TWO),
        Case(
            "in float16",
            *(x.half() for x in _qkv(t=4, s=4, d=3, d_v=2)),
            _TRIANGLE,
        ),
        Case(
            "in float16, a query with nothing to attend to",
            *(x.half() for x in _qkv(2, t=3, s=5, d=7, d_v=11)),
            _NOTHING,
        ),
    ],
    mistakes={
        "the mask comes after the softmax: the hidden weight is lost instead of shared out"
        + _AFTER: _ways(lambda s, m: _emptied(s.softmax(-1), m)),
        "the hidden scores still count, since the largest of all is subtracted, theirs too: where "
        "a hidden key leads by far, nothing is left to divide, and a row that may see nothing has "
        "nothing in any case, 0/0" + _AFTER: [
            *(way for tiny in (0.0, 1e-9, 1e-8) for way in _mended(_renormalized(tiny))),
            *(_ways(lambda s, m, e=e: _clamped(s.softmax(-1) * m, e)) for e in _LEAST),
        ],
        "the largest score is not subtracted: exp overflows where scores are large, leaves nothing "
        "where they are far below 0, and nothing in a row that may see nothing, 0/0": [
            *_mended(_powers),
            *_mended(_powers_of_filled),
            _ways(_powers_if_any),
            *(_ways(lambda s, m, least=least: _clamped(s.exp() * m, least)) for least in _LEAST),
        ],
        "the fill is a number that float16 does not have, such as -1e9 or float32's smallest, and "
        "a query with nothing to attend to spreads its weight evenly over what is hidden" + _FILL: [
            _ways(_filled(-1e9)),
        ],
        "the fill is a number that float16 does not have, such as -1e9 or float32's smallest: ask "
        "the scores' own type" + _FILL: _ways(_filled(-1e9, then=True)),
        "the fill is a fixed number, and real scores lie below it" + _FILL: [
            _ways(way(fill))
            for fill in (-1e4, -1e3, -100.0)
            for way in (_filled, partial(_filled, then=True), _added, _promoted)
        ],
        "a query with nothing to attend to divides 0 by 0: all its powers are 0, and so is their "
        "sum; times 0 that is still NaN" + _FILL: [
            _ways(_filled(-_INF)),
            _ways(lambda s, m: _filled(-_INF)(s, m) * m),
        ],
        "the fill is the smallest number and nothing else: a query with nothing to attend to "
        "spreads its weight evenly over what is hidden" + _FILL: [
            _ways(_filled(_low)),
            _ways(_added(-1e9)),
        ],
        "the mask is the wrong way round: True means may attend, and the fill goes where it is "
        "False": [
            *(_ways(lambda s, m, fill=fill: _filled(fill)(s, ~m)) for fill in (_low, -_INF, -1e9)),
            _ways(lambda s, m: _right(s, ~m)),
            _ways(lambda s, m: _emptied(_filled(_low)(s, ~m), m)),
        ],
        "a hidden score becomes 0, and e^0 = 1 is a weight like any other": [
            *_mended(lambda s, m: (s * m).softmax(-1)),
            _ways(lambda s, m: _emptied((s * m).softmax(-1), m)),
        ],
        "minus infinity is multiplied by a table of 1 and 0: 0 · ∞ is NaN, so it has to be filled "
        "in": [
            _ways(lambda s, m: (s + (~m) * -_INF).softmax(-1)),
            _ways(lambda s, m: (s + (1 - m.float()) * -_INF).softmax(-1)),
        ],
        "the mask is added to the scores as numbers 1 and 0: that hides nothing": [
            _ways(lambda s, m: (s + m).softmax(-1)),
            _ways(lambda s, m: _emptied((s + m).softmax(-1), m)),
        ],
        "the mask is not used: every query sees every key": _ways(lambda s, m: s.softmax(-1)),
        "the mask is turned on its side: it hides queries from keys instead of keys from queries": [
            _ways(lambda s, m: _right(s, m.mT)),
            _ways(lambda s, m: _filled(_low)(s, m.mT)),
            _ways(lambda s, m: _filled(-_INF)(s, m.mT)),
        ],
        "the scores are not divided by the root of d_k": _but(scale=lambda q: 1.0),
        "the scores are divided by d_k and not by its root": _but(scale=lambda q: 1 / q.shape[-1]),
        "the scores are multiplied by the root of d_k instead of divided": _but(
            scale=lambda q: q.shape[-1] ** 0.5
        ),
        "`** 1/2` is no root: Python takes the power first, and then divides by 2": _but(
            scale=lambda q: 2 / q.shape[-1]
        ),
        "the root is taken of a number of keys, queries or sentences, or of the width of the "
        "values: d_k is the width of queries and keys": [
            lambda q, k, v, m: _masked_attention(q, k, v, m, scale=lambda q: k.shape[-2] ** -0.5),
            _but(scale=lambda q: q.shape[-2] ** -0.5),
            _but(scale=lambda q: len(q) ** -0.5),
            lambda q, k, v, m: _masked_attention(q, k, v, m, scale=lambda q: v.shape[-1] ** -0.5),
        ],
        "the keys are mixed and not the values": [
            lambda q, k, v, mask: _masked_attention(q, k, k, mask),
        ],
        "the transpose takes all axes (.T), or counts them from the front: only the last two may "
        "change places": [
            lambda q, k, v, mask: _turned(q, k.permute(*reversed(range(k.dim()))), v, mask),
            lambda q, k, v, mask: _turned(q, k.transpose(0, 1), v, mask),
            lambda q, k, v, mask: _turned(q, k.transpose(1, 2), v, mask),
        ],
        "the keys are not transposed": lambda q, k, v, mask: _turned(q, k, v, mask),
        "the exponentials are not divided by their sum": [
            _ways(_undivided),
            _ways(lambda s, m: _emptied(s.exp(), m)),
        ],
        "something small is added below the line, and float16 does not have it: 1e-9 is 0 there, "
        "and a row that may see nothing is 0/0": [_ways(_nudged(s)) for s in _SMALL],
        "the softmax runs over the queries and not over the keys": [
            _ways(lambda s, m: _emptied(s.masked_fill(~m, _low(s)).softmax(-2), m)),
            _ways(lambda s, m: s.masked_fill(~m, _low(s)).softmax(-2)),
            _ways(lambda s, m: s.masked_fill(~m, -_INF).softmax(-2)),
        ],
        "the output is right, but the weights are returned with it: the exercise wants the output "
        "alone": _both_results,
        "the weights are returned, and the values never mixed": [
            lambda q, k, v, mask: _both_results(q, k, v, mask)[1],
        ],
    },
    section="Which number is minus infinity?",
    keeps=["dtype"],
    advises=["gradient"],
)
