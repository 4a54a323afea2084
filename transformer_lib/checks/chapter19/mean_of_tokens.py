"""The exercise `mean_of_tokens`: what it asks for, and how its answers go wrong."""

from __future__ import annotations

import torch
from torch import Tensor

from transformer_lib.checks.old.core import Case, Exercise
from transformer_lib.checks.old.inputs import in_float64, random_tensor


def _real(ids: Tensor) -> Tensor:
    return (ids != 0)[..., None]  # (B, S, 1)


def _mean_of_tokens(x: Tensor, ids: Tensor) -> Tensor:
    real = _real(ids)
    return (x * real).sum(1) / real.sum(1)


def _last(x: Tensor, ids: Tensor) -> Tensor:
    return x[torch.arange(len(x)), (ids != 0).sum(1) - 1]


def _without(x: Tensor, ids: Tensor, first: int, last: int) -> Tensor:
    """The mean without so many real tokens at the beginning and at the end."""
    at = torch.arange(ids.size(1))
    here = (at >= first) & (at < (ids != 0).sum(1, keepdim=True) - last)
    return (x * here[..., None]).sum(1) / here.sum(1, keepdim=True)


def _case(label: str, rows: list[list[int]], d: int, seed: int) -> Case:
    ids = torch.tensor(rows)
    return Case(label, random_tensor(*ids.shape, d, seed=seed) + 0.5, ids)


_ROWS = [[1, 5, 6, 2, 0, 0, 0], [1, 4, 2, 0, 0, 0, 0], [1, 9, 4, 7, 2, 5, 2]]

MEAN_OF_TOKENS = Exercise(
    name="mean_of_tokens",
    reference=_mean_of_tokens,
    cases=[
        _case("one text without padding", [[1, 5, 2]], 4, 1),
        _case("one text with padding", [[1, 5, 2, 0, 0]], 3, 2),
        _case("three texts of different lengths", _ROWS, 5, 3),
        in_float64(_case("three texts", _ROWS, 2, 4)),
    ],
    mistakes={
        "the padding is counted too: leave out the places where `ids` is 0": [
            lambda x, ids: x.mean(1),
        ],
        "the padding is left out of the sum, but the sum is divided by the full length": [
            lambda x, ids: (x * _real(ids)).mean(1),
        ],
        "all tokens are added up, padding too, and divided by the number of real tokens": [
            lambda x, ids: x.sum(1) / _real(ids).sum(1),
        ],
        "the numbers of tokens, (B,), have no axis for the features: `[:, None]` or `keepdim=True` "
        "makes them (B, 1)": [lambda x, ids: (x * _real(ids)).sum(1) / (ids != 0).sum(1)],
        "the vectors are added up: divide by the number of real tokens of the text": [
            lambda x, ids: (x * _real(ids)).sum(1),
        ],
        "all texts are divided by the same number: each has its own number of real tokens": [
            lambda x, ids: (x * _real(ids)).sum(1) / _real(ids).sum(),
            lambda x, ids: (x * _real(ids)).sum(1) / _real(ids).sum(1).max(),
            lambda x, ids: (x * _real(ids)).sum(1) / (_real(ids).sum() / len(ids)),
        ],
        "this is the first token's vector: take the mean of all real tokens": lambda x, ids: x[
            :, 0
        ],
        "this is the last real token's vector: take the mean of all of them": _last,
        "this is the largest number of each feature, not the mean": [
            lambda x, ids: x.masked_fill(~_real(ids), -torch.inf).amax(1),
            lambda x, ids: x.amax(1),
        ],
        "the special tokens are left out: only padding is, [CLS] and [SEP] are tokens": [
            lambda x, ids: (x * (ids > 2)[..., None]).sum(1) / (ids > 2).sum(1)[:, None],
            lambda x, ids: _without(x, ids, 1, 1),
        ],
        "[CLS] is left out: only padding is": [lambda x, ids: _without(x, ids, 1, 0)],
        "the last token, [SEP], is left out: only padding is": [
            lambda x, ids: _without(x, ids, 0, 1),
            lambda x, ids: _mean_of_tokens(x, ids) - _last(x, ids) / _real(ids).sum(1),
        ],
        "the axis of the tokens stays, with one place: the result is (B, d), without `keepdim`": [
            lambda x, ids: _mean_of_tokens(x, ids)[:, None],
        ],
        "the mask is the wrong way round: the padding is averaged": [
            lambda x, ids: (x * ~_real(ids)).sum(1) / (~_real(ids)).sum(1).clamp(min=1),
            lambda x, ids: (x * ~_real(ids)).sum(1) / (~_real(ids)).sum(1),
        ],
        "the mean goes over the features: it goes over the tokens": [
            lambda x, ids: x.mean(-1),
            lambda x, ids: (x * _real(ids)).mean(-1),
            lambda x, ids: (x * _real(ids)).sum(-1) / _real(ids).sum(-1),
        ],
        "the mean goes over the features as well: each feature has its own": [
            lambda x, ids: _mean_of_tokens(x, ids).mean(-1),
            lambda x, ids: _mean_of_tokens(x, ids).mean(-1, keepdim=True),
        ],
        "the sum goes over the texts, the axis 0: it goes over the tokens, the axis 1": [
            lambda x, ids: (x * _real(ids)).sum(0) / _real(ids).sum(1),
            lambda x, ids: (x * _real(ids)).sum(0) / _real(ids).sum(0),
        ],
        "all texts are cut to the length of the shortest: each keeps all of its own tokens": [
            lambda x, ids: x[:, : _real(ids).sum(1).min()].mean(1),
        ],
        "the mean goes over the texts as well: there is one vector for each text": [
            lambda x, ids: (x * _real(ids)).sum((0, 1)) / _real(ids).sum(),
        ],
        "the vectors are scaled to length 1 at the end: nobody asked for that": [
            lambda x, ids: torch.nn.functional.normalize(_mean_of_tokens(x, ids), dim=-1),
        ],
    },
    keeps=["gradient"],
    section="One vector for a text: the first token or the mean?",
)
