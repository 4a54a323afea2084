"""MaskPainter: what happens to hidden scores, and to a row without any keys (chapter 5)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple

import traitlets

from .base import LiveFigure, Numbers, OneOf, compose, dress, same_length

if TYPE_CHECKING:
    from torch import Tensor

PAD = "<pad>"
PLACES = ("before", "after", "renormalized")
FILLS = ("-inf", "smallest", "zeros")


class Layer(NamedTuple):
    """What a layer of self-attention computes."""

    scores: Tensor  # (T, T)
    masked: Tensor  # (T, T), the softmax's input
    weights: Tensor  # (T, T)
    output: Tensor  # (T, d)


def layer(x: Tensor, mask: Tensor, *, place: str, fill: str) -> Layer:
    """Compute a layer of self-attention with the mask in one of several places.

    ``place="before", fill="zeros"`` is :func:`transformer_lib.attention`, with ``x`` as queries,
    keys and values.

    Args:
        x: ``(T, d)``.
        mask: bool ``(T, T)``, True = may attend.
        place: ``"before"`` the softmax, ``"after"`` it, or ``"renormalized"``: after it, and then
            each row is divided by its sum.
        fill: what hidden scores become before the softmax: ``"-inf"``, the ``"smallest"`` number,
            or ``"zeros"``: the smallest number, and then zero weights for a row without any keys.
    """
    import torch

    scores = x @ x.T / x.size(-1) ** 0.5
    masked = scores
    if place == "before":
        filler = -torch.inf if fill == "-inf" else torch.finfo(torch.float32).min
        masked = scores.masked_fill(~mask, filler)
    weights = masked.softmax(-1)
    if place != "before" or fill == "zeros":
        weights = weights.masked_fill(~mask, 0.0)
    if place == "renormalized":
        weights = weights / weights.sum(-1, keepdim=True)
    return Layer(scores, masked, weights, weights @ x)


class Mask(traitlets.TraitType):
    """A square mask as text, ``"100-110-111"``: a row per query, 1 = may attend.

    Bool tensors, arrays and nested lists become such text.
    """

    def __init__(self, default: str) -> None:
        super().__init__(default_value=default)
        self.tag(sync=True)

    def validate(self, obj: Any, value: Any) -> str:
        if hasattr(value, "tolist"):
            value = value.tolist()
        if isinstance(value, (list, tuple)):
            rows = [list(row) if isinstance(row, (list, tuple)) else [row] for row in value]
            for i, row in enumerate(rows):
                for j, may in enumerate(row):
                    if not isinstance(may, bool):
                        raise TypeError(f"mask[{i}][{j}] must be True or False; got {may!r}")
            value = "-".join("".join(str(int(may)) for may in row) for row in rows)
        if not isinstance(value, str):
            raise TypeError(f"mask must be rows of True and False, or a string; got {value!r}")
        rows = value.split("-")
        if not all(re.fullmatch("[01]+", row) and len(row) == len(rows) for row in rows):
            raise ValueError(f"mask must be a square of 0 and 1, such as '10-11'; got {value!r}")
        return value


class MaskPainter(LiveFigure):
    """A mask to paint; scores, weights and a second layer show its effect.

    Queries, keys and values are the words' vectors themselves, in both layers. The default is a
    short sequence, padded on the left as for a decoder-only model, with a causal and a padding
    mask: its first positions can't attend to anything.

    Args:
        words: the sentence, 2 to 8 words; ``"<pad>"`` is padding.
        vectors: ``(T, d)``, from -10 to 10, the words' vectors.
        mask: bool ``(T, T)``, True = may attend, or the same as text, ``"100-110-111"``; causal
            and padding mask by default.
        place: where to apply the mask, as in the module's ``layer``.
        fill: what hidden scores become before the softmax, as there; ``"zeros"`` is the library's
            rule.

    Raises:
        TypeError, ValueError: something that isn't a mask, a number out of range, or lists of
            different lengths.

    >>> from transformer_lib import local_mask
    >>> MaskPainter(mask=local_mask(6, window=1), fill="zeros")
    MaskPainter(mask='110000-111000-011100-001110-000111-000011', place='before', fill='zeros')
    """

    _esm = compose("mask_painter.js")
    _css = dress("mask_painter.css")
    shown = ("mask", "place", "fill")

    words = traitlets.List(traitlets.Unicode(), [PAD, PAD, "the", "cat", "eats", "fish"], 2, 8).tag(
        sync=True
    )
    vectors = Numbers(
        [[1, 1], [1, 1], [-0.5, 1.5], [1, -1], [2, 0.5], [0.5, -2]],
        depth=2,
        low=-10,
        high=10,
    )
    mask = Mask("000000-000000-001000-001100-001110-001111")
    place = OneOf(*PLACES)
    fill = OneOf(*FILLS)

    def __init__(self, **numbers: Any) -> None:
        words = numbers.get("words", ())
        causal = [
            [j <= i and word != PAD for j, word in enumerate(words)] for i in range(len(words))
        ]
        super().__init__(**({"mask": causal} if words else {}) | numbers)
        same_length(self, ("words", "vectors"))
        for i, vector in enumerate(self.vectors):
            if not 0 < len(vector) == len(self.vectors[0]):
                raise ValueError(
                    f"vectors[{i}] must have as many numbers as vectors[0], at least 1; "
                    f"got {len(vector)}"
                )
        rows = len(self.mask.split("-"))
        if rows != len(self.words):
            raise ValueError(
                f"mask must have one row for each of {len(self.words)} words; got {rows}"
            )
