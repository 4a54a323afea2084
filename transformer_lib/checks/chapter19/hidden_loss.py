"""The exercise `hidden_loss`: what it asks for, and how its answers go wrong."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from transformer_lib.checks.old.core import Case, Exercise
from transformer_lib.checks.old.inputs import in_float64, random_tensor


def _each(logits: Tensor, labels: Tensor) -> Tensor:
    """The loss at each place, asked or not."""
    return -logits.log_softmax(-1).gather(-1, labels[..., None])[..., 0]


def _hidden_loss(logits: Tensor, labels: Tensor) -> Tensor:
    return _each(logits, labels)[labels != 0].mean()


def _per_text(logits: Tensor, labels: Tensor) -> Tensor:
    asked = labels != 0
    return ((_each(logits, labels) * asked).sum(1) / asked.sum(1).clamp(min=1)).mean()


def _wrong_axis(logits: Tensor, labels: Tensor) -> Tensor:
    log_p = logits.log_softmax(1)
    return -log_p.gather(-1, labels[..., None])[..., 0][labels != 0].mean()


def _right(logits: Tensor, labels: Tensor) -> Tensor:
    return (logits.argmax(-1) == labels)[labels != 0].to(logits.dtype).mean()


def _not_asked(logits: Tensor, labels: Tensor) -> Tensor:
    return _each(logits, labels)[labels == 0].mean()


def _raw(logits: Tensor, labels: Tensor) -> Tensor:
    return -logits.gather(-1, labels[..., None])[..., 0][labels != 0].mean()


def _without_mask_labels(logits: Tensor, labels: Tensor) -> Tensor:
    return _each(logits, labels)[labels > 3].mean()


def _shifted(logits: Tensor, labels: Tensor) -> Tensor:
    return _hidden_loss(logits[:, :-1], labels[:, 1:])


def _every_word(logits: Tensor, labels: Tensor) -> Tensor:
    asked = labels != 0
    return -logits[asked].log_softmax(-1)[:, labels[asked]].mean()


def _reshaped(logits: Tensor, labels: Tensor) -> Tensor:
    """Numbers of other places and words, in the shape that `F.cross_entropy` asks for."""
    b, s, v = logits.shape
    return F.cross_entropy(logits.reshape(b, v, s), labels, ignore_index=0)


def _case(label: str, labels: list[list[int]], size: int, seed: int) -> Case:
    ids = torch.tensor(labels)
    return Case(label, 2 * random_tensor(*ids.shape, size, seed=seed), ids)


_THREE = [[0, 4, 0, 0, 6], [0, 0, 0, 5, 0], [7, 0, 4, 0, 9]]

HIDDEN_LOSS = Exercise(
    name="hidden_loss",
    reference=_hidden_loss,
    cases=[
        _case("one text, two of three words asked", [[5, 0, 6]], 7, 1),
        _case("as many asked as not", [[0, 5, 4, 0]], 7, 2),
        _case(
            "three texts, 1, 2 and 3 words asked", [*_THREE[1:2], *_THREE[:1], *_THREE[2:]], 11, 3
        ),
        _case("small numbers are words too", [[0, 1, 5, 2, 0], [0, 4, 0, 6, 3]], 7, 4),
        in_float64(_case("three texts", _THREE, 11, 5)),
    ],
    mistakes={
        "every place counts: only the places that are asked do, where the label is not 0": [
            lambda logits, labels: _each(logits, labels).mean(),
        ],
        "the sum is divided by all places: divide by the number of places that are asked": [
            lambda logits, labels: (_each(logits, labels) * (labels != 0)).mean(),
        ],
        "the logits of the other places are set to 0, and these places count all the same, with "
        "an even guess each: leave them out": [
            lambda logits, labels: _each(logits * (labels != 0)[..., None], labels).mean(),
        ],
        "[MASK] is looked for among the labels: they hold the words that stood there, and 0 where "
        "nothing is asked": [lambda logits, labels: _each(logits, labels)[labels == 3].mean()],
        "the losses are added up: take their mean": [
            lambda logits, labels: _each(logits, labels)[labels != 0].sum(),
        ],
        "each text has its own mean, and these are averaged: a text with one hidden word then "
        "counts as much as one with three": _per_text,
        "the sum is divided by the number of texts: divide by the number of places that are "
        "asked": lambda logits, labels: (_each(logits, labels) * (labels != 0)).sum(1).mean(),
        "the sign is missing: a probability is below 1, so its logarithm is negative": [
            lambda logits, labels: -_hidden_loss(logits, labels),
        ],
        "the logarithm is missing: this is the mean probability": [
            lambda logits, labels: (-_each(logits, labels)).exp()[labels != 0].mean(),
            lambda logits, labels: 1 - (-_each(logits, labels)).exp()[labels != 0].mean(),
            lambda logits, labels: -(-_each(logits, labels)).exp()[labels != 0].mean(),
        ],
        "the mean comes before the logarithm: each place has its own logarithm": [
            lambda logits, labels: -(-_each(logits, labels)).exp()[labels != 0].mean().log(),
        ],
        "`reshape` makes (B, V, S) of the logits, which mixes places and words: exchange the two "
        "axes with `transpose`": _reshaped,
        "the logarithm is not the natural one": [
            lambda logits, labels: _hidden_loss(logits, labels) / math.log(2),
            lambda logits, labels: _hidden_loss(logits, labels) / math.log(10),
        ],
        "the softmax is applied twice: `F.cross_entropy` takes logits": [
            lambda logits, labels: _hidden_loss(logits.softmax(-1), labels),
        ],
        "the logits are used as if they were log-probabilities: there is no softmax": _raw,
        "the softmax goes over the places: it goes over the vocabulary, the last axis": _wrong_axis,
        "the places that are not asked are counted, and the others are not": _not_asked,
        "the best word's probability is taken: the label says whose counts": [
            lambda logits, labels: -logits.log_softmax(-1).amax(-1)[labels != 0].mean(),
        ],
        "every place is asked for the words of all places, as `[:, words]` picks them: each place "
        "has one word, and `gather` picks it": _every_word,
        "this is the share of right guesses: the loss is the mean of -log p": _right,
        "labels of small numbers are left out: only 0 means that nothing is asked": [
            _without_mask_labels,
            lambda logits, labels: _each(logits, labels)[labels > 1].mean(),
            lambda logits, labels: _each(logits, labels)[labels > 2].mean(),
        ],
        "the labels are shifted by one place: the hidden word is guessed at its own place": [
            _shifted,
        ],
        "the losses are squared": lambda logits, labels: (
            _each(logits, labels)[labels != 0].square().mean()
        ),
        "only the first text counts": lambda logits, labels: _hidden_loss(logits[:1], labels[:1]),
        "a loss is returned for each place: the result is one number": [
            lambda logits, labels: _each(logits, labels)[labels != 0],
            lambda logits, labels: F.cross_entropy(
                logits.mT, labels, ignore_index=0, reduction="none"
            ),
        ],
    },
    advises=["gradient"],
    section="What is asked, and what does the loss count?",
)
