"""The exercise `joint_loss`: what it asks for, and how its answers go wrong."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from transformer_lib.checks.old.core import Case, Exercise
from transformer_lib.checks.old.inputs import in_float64, random_tensor


def _labels(label_logits: Tensor, labels: Tensor, **how: Any) -> Tensor:
    return F.cross_entropy(label_logits, labels, **how)


def _words(word_logits: Tensor, ids: Tensor, shift: bool = True, **how: Any) -> Tensor:
    """The loss of the next words; without `shift`, of the words themselves."""
    logits, wanted = (word_logits[:, :-1], ids[:, 1:]) if shift else (word_logits, ids)
    how = {"ignore_index": 0} | how
    return F.cross_entropy(logits.flatten(0, 1), wanted.flatten(), **how)


def _joint_loss(
    label_logits: Tensor, labels: Tensor, word_logits: Tensor, ids: Tensor, share: float
) -> Tensor:
    return _labels(label_logits, labels) + share * _words(word_logits, ids)


def _each_word(word_logits: Tensor, ids: Tensor) -> Tensor:
    """The loss of each next word, padding too: (B, T - 1)."""
    return F.cross_entropy(word_logits[:, :-1].mT, ids[:, 1:], reduction="none")


def _reshaped(
    label_logits: Tensor, labels: Tensor, word_logits: Tensor, ids: Tensor, share: float
) -> Tensor:
    """Numbers of other places and words, in the shape that `F.cross_entropy` asks for."""
    b, t, v = word_logits[:, :-1].shape
    logits = word_logits[:, :-1].reshape(b, v, t)
    words = F.cross_entropy(logits, ids[:, 1:], ignore_index=0)
    return _labels(label_logits, labels) + share * words


def _case(label: str, rows: list[list[int]], share: float, seed: int) -> Case:
    ids = torch.tensor(rows)
    return Case(
        label,
        random_tensor(len(ids), 3, seed=seed),
        torch.arange(len(ids)) % 3,
        random_tensor(*ids.shape, 11, seed=seed + 1),
        ids,
        share,
    )


_ROWS = [[1, 5, 6, 2, 3, 0, 0], [1, 4, 2, 3, 0, 0, 0], [1, 9, 4, 7, 5, 2, 3]]

JOINT_LOSS = Exercise(
    name="joint_loss",
    reference=_joint_loss,
    cases=[
        _case("one text", [[1, 5, 2, 3]], 0.5, 1),
        _case("three texts with padding", _ROWS, 0.5, 3),
        _case("a share of 0", _ROWS, 0.0, 5),
        _case("a share of 2", _ROWS[1:], 2.0, 7),
        in_float64(_case("a share of 0.1", _ROWS, 0.1, 9)),
    ],
    mistakes={
        "the logits of the words are compared with the words at their own places: each place "
        "predicts the next word": [
            lambda a, b, w, ids, share, cut=cut: (
                _labels(a, b) + share * _words(w[:, cut], ids[:, cut], shift=False)
            )
            for cut in (slice(None), slice(None, -1), slice(1, None))
        ],
        "the texts are shifted: the words are, on the axis 1, as in `[:, :-1]` and `[:, 1:]`": [
            lambda a, b, w, ids, share: (
                _labels(a, b) + share * _words(w[:-1], ids[1:], shift=False)
            ),
        ],
        "padding is counted as a word to be predicted": lambda a, b, w, ids, share: (
            _labels(a, b) + share * _words(w, ids, ignore_index=-100)
        ),
        "the padding is left out of the sum, but the sum is divided by all places": [
            lambda a, b, w, ids, share: (
                _labels(a, b) + share * (_each_word(w, ids) * (ids[:, 1:] != 0)).mean()
            ),
        ],
        "padding is looked for among the words that are read: look among those that are asked "
        "for": lambda a, b, w, ids, share: (
            _labels(a, b) + share * _each_word(w, ids)[ids[:, :-1] != 0].mean()
        ),
        "the label 0 is left out: 0 is padding among the words, and a label like others": [
            lambda a, b, w, ids, share: _labels(a, b, ignore_index=0) + share * _words(w, ids),
        ],
        "`reshape` makes (B, V, T - 1) of the logits, which mixes places and words: exchange the "
        "two axes with `transpose`": _reshaped,
        "the share is not used: both losses count alike": lambda a, b, w, ids, share: (
            _labels(a, b) + _words(w, ids)
        ),
        "the share is on the loss of the labels: it belongs to the old task": [
            lambda a, b, w, ids, share: share * _labels(a, b) + _words(w, ids),
        ],
        "the labels get 1 - share: they count in full": lambda a, b, w, ids, share: (
            (1 - share) * _labels(a, b) + share * _words(w, ids)
        ),
        "the old task is gone: only the labels count": lambda a, b, w, ids, share: _labels(a, b),
        "the labels are gone: only the old task counts": [
            lambda a, b, w, ids, share: share * _words(w, ids),
            lambda a, b, w, ids, share: _words(w, ids),
        ],
        "the losses of the words are added up: take their mean": lambda a, b, w, ids, share: (
            _labels(a, b) + share * _words(w, ids, reduction="sum")
        ),
        "the losses of a text's words are added up, and only the texts are averaged: the mean "
        "goes over all words": lambda a, b, w, ids, share: (
            _labels(a, b) + share * _words(w, ids, reduction="sum") / len(ids)
        ),
        "the losses of the labels are added up: take their mean": lambda a, b, w, ids, share: (
            _labels(a, b, reduction="sum") + share * _words(w, ids)
        ),
        "the old task is subtracted: it would be unlearned": lambda a, b, w, ids, share: (
            _labels(a, b) - share * _words(w, ids)
        ),
        "the softmax is applied twice to the logits of the labels": lambda a, b, w, ids, share: (
            _labels(a.softmax(-1), b) + share * _words(w, ids)
        ),
        "the softmax is applied twice to the logits of the words": lambda a, b, w, ids, share: (
            _labels(a, b) + share * _words(w.softmax(-1), ids)
        ),
        "the softmax is applied twice to all logits": lambda a, b, w, ids, share: (
            _labels(a.softmax(-1), b) + share * _words(w.softmax(-1), ids)
        ),
        "the words are rolled, so the last place is asked for the first word: nothing comes after "
        "the last word": [
            lambda a, b, w, ids, share: (
                _labels(a, b) + share * _words(w, ids.roll(-1, dims=1), shift=False)
            ),
            lambda a, b, w, ids, share: (
                _labels(a, b)
                + share * _words(w, ids.flatten().roll(-1).view(ids.shape), shift=False)
            ),
        ],
        "each text has its own mean, and these are averaged: all words count alike": [
            lambda a, b, w, ids, share: (
                _labels(a, b)
                + share
                * (
                    (_each_word(w, ids) * (ids[:, 1:] != 0)).sum(1) / (ids[:, 1:] != 0).sum(1)
                ).mean()
            ),
        ],
        "the sum is divided by the number of all words: the first of a text is not asked for": [
            lambda a, b, w, ids, share: (
                _labels(a, b) + share * _words(w, ids, reduction="sum") / (ids != 0).sum()
            ),
        ],
        "the share is on both losses: it belongs to the old task alone": [
            lambda a, b, w, ids, share: share * (_labels(a, b) + _words(w, ids)),
        ],
        "the sum is divided: the two losses are added": [
            lambda a, b, w, ids, share: (_labels(a, b) + share * _words(w, ids)) / (1 + share),
            lambda a, b, w, ids, share: (_labels(a, b) + share * _words(w, ids)) / 2,
        ],
        "the words are shifted by two places": lambda a, b, w, ids, share: (
            _labels(a, b) + share * _words(w[:, :-1], ids[:, 1:])
        ),
        "the words are shifted the wrong way: each place predicts the word before it": [
            lambda a, b, w, ids, share: (
                _labels(a, b)
                + share
                * F.cross_entropy(w[:, 1:].flatten(0, 1), ids[:, :-1].flatten(), ignore_index=0)
            ),
        ],
    },
    advises=["gradient"],
    section="How does GPT say a label?",
)
