"""The exercise `my_softmax`: what it asks for, and how its answers go wrong."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from transformer_lib.checks.old.compare import rows_sum_to_one, weights_between_0_and_1
from transformer_lib.checks.old.core import Case, Exercise
from transformer_lib.checks.old.inputs import random_tensor


def _softmax(scores: Tensor) -> Tensor:
    return scores.softmax(dim=-1)


def _shifted(scores: Tensor) -> Tensor:
    return (scores - scores.amax(dim=-1, keepdim=True)).exp()


def normalized(powers: Tensor) -> Tensor:
    return powers / powers.sum(dim=-1, keepdim=True)


_SMALL = (1e-5, 1e-6, 1e-7, 1e-8, 1e-9, 1e-10, 1e-12)


def _cut(powers: Tensor, small: float) -> Tensor:
    return powers / (powers.sum(dim=-1, keepdim=True) + small)


MY_SOFTMAX = Exercise(
    name="my_softmax",
    reference=_softmax,
    cases=[
        Case("two scores, one negative", torch.tensor([2.0, -1.0])),
        Case("apple, banana, chair", torch.tensor([4.2, 3.8, -4.0])),
        Case("two rows of scores", random_tensor(2, 3)),
        Case("as many rows as columns", random_tensor(3, 3)),
        Case("a batch of two", random_tensor(2, 3, 5)),
        Case("scores from 0 to 1000", torch.tensor([1000.0, 999.0, 0.0])),
        Case("one row near 1000, one near -1000", torch.tensor([[1e3, 999.0], [-1e3, -999.0]])),
    ],
    mistakes={
        "the scores are divided by their sum, without exp: a negative score becomes a negative "
        "weight": normalized,
        "negative scores are made positive, or 0, without exp: then the order of the keys is lost, "
        "or it is not the differences that count": [
            lambda s: normalized(s.abs()),
            lambda s: normalized(s.relu()),
            lambda s: normalized(s.square()),
        ],
        "the exponentials are not divided by their sum": [lambda s: s.exp(), _shifted],
        "the largest score is subtracted, and then exp is forgotten: the differences themselves "
        "are divided by their sum": [
            lambda s: normalized(s - s.amax(-1, keepdim=True)),
        ],
        "each score is squeezed between 0 and 1 on its own, by a sigmoid: the weights of a row "
        "must know of each other, and sum to 1": [
            lambda s: s.sigmoid(),
        ],
        "the exponentials are divided by the sum of the scores, and not by their own": [
            lambda s: s.exp() / s.sum(-1, keepdim=True),
            lambda s: _shifted(s) / s.sum(-1, keepdim=True),
        ],
        "the largest score is subtracted above the line but not below it": [
            lambda s: _shifted(s) / s.exp().sum(-1, keepdim=True),
        ],
        "the scores are divided by the largest, instead of the largest being subtracted": [
            lambda s: (s / s.amax(-1, keepdim=True)).softmax(-1),
        ],
        "another number than e is raised to the power of the scores": [
            lambda s: normalized(2**s),
            lambda s: (s * math.log(2)).softmax(-1),
            lambda s: normalized(10**s),
            lambda s: (s * math.log(10)).softmax(-1),
        ],
        "exp overflows: in float32 e^89 is already inf, and inf / inf is not a number": [
            *(lambda s, e=e: _cut(s.exp(), e) for e in _SMALL),
            lambda s: normalized(s.exp()),
        ],
        "what is subtracted is not the largest score: one that lies far above it still overflows": [
            lambda s: normalized((s - s.amin(-1, keepdim=True)).exp()),
            lambda s: normalized((s - s.mean(-1, keepdim=True)).exp()),
            lambda s: normalized((s - s.min()).exp()),
        ],
        "large scores are cut off: the difference between two of them is lost": [
            lambda s: normalized(s.clamp(max=80).exp()),
        ],
        "one number is subtracted from the whole tensor: in a row far below it every exp is 0, "
        "and 0 / 0 is not a number": lambda s: normalized((s - s.max()).exp()),
        "a row of zeros is hidden and not avoided, by something small below the line or by "
        "nan_to_num: subtract the largest score of each row": [
            *(lambda s, e=e: _cut((s - s.max()).exp(), e) for e in _SMALL),
            lambda s: normalized((s - s.max()).exp()).nan_to_num(),
        ],
        "inf and NaN are replaced after they have come up: what the weights were is lost by then": [
            lambda s: normalized(s.exp()).nan_to_num(),
            lambda s: normalized(s.exp().nan_to_num()),
            lambda s: normalized(s.exp()).nan_to_num(1.0),
        ],
        "max(dim=…) returns two things, the largest values and their places: take .values, or "
        "use amax": lambda s: normalized((s - s.max(-1, keepdim=True)).exp()),
        "the maximum has lost its axis: without keepdim=True it is subtracted from the wrong rows, "
        "where the shapes fit at all": [
            lambda s: normalized((s - s.amax(-1)).exp()),
            lambda s: (s - s.amax(-1)).exp() / (s - s.amax(-1)).exp().sum(-1),
        ],
        "the sum is taken over the whole tensor and not over each row": [
            lambda s: s.exp() / s.exp().sum(),
            lambda s: _shifted(s) / _shifted(s).sum(),
            lambda s: s.flatten().softmax(0).reshape(s.shape),
        ],
        "the softmax runs along the wrong axis: here it is the last axis that must sum to 1": [
            lambda s: s.softmax(0),
            lambda s: s.exp() / s.exp().sum(0, keepdim=True),
            lambda s: (s - s.max()).exp() / (s - s.max()).exp().sum(0, keepdim=True),
            lambda s: _shifted(s) / _shifted(s).sum(0, keepdim=True),
        ],
        "the sum has lost its axis: without keepdim=True the wrong rows are divided, where the "
        "shapes fit at all": [
            lambda s: s.exp() / s.exp().sum(-1),
            lambda s: _shifted(s) / _shifted(s).sum(-1),
            lambda s: (s - s.max()).exp() / (s - s.max()).exp().sum(-1),
        ],
        "the sum has a fixed axis: dim=1 is the last axis only of a tensor with two": [
            lambda s: s.softmax(1),
            lambda s: s.exp() / s.exp().sum(1, keepdim=True),
        ],
        "the sign of the scores is turned, so that the worst key gets the most": [
            lambda s: (-s).softmax(-1),
            lambda s: (-s).exp() / (-s).exp().sum(-1, keepdim=True),
        ],
        "you return the logarithm of the weights": lambda s: s.log_softmax(-1),
        "all the weight goes to the largest score": [
            lambda s: torch.nn.functional.one_hot(s.argmax(-1), s.shape[-1]),
        ],
    },
    section="How do scores become proportions?",
    properties=[rows_sum_to_one, weights_between_0_and_1],
)
