"""HeadPrices: what heads cost alone, together, and after the others (chapter 16)."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, NamedTuple

import traitlets

from .. import style
from .base import LiveFigure, Number, Numbers, compose, dress
from .heads_explorer import without_head

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from torch import Tensor

    from ...models import Transformer

MOST = 8
NOTE = (
    "The translator of numbers that comes with this book, on 200 numbers kept back from its "
    "training: the loss of a letter, and the letters that are wrong, each given the right letters "
    "before it."
)


def price_table(model: Transformer, source: Tensor, target: Tensor) -> list[list[float]]:
    """Measure a model without each set of its heads of cross-attention.

    Args:
        model: an encoder and a decoder, with 8 heads of cross-attention at most.
        source: token ids ``(B, S)``.
        target: ``(B, T + 1)``, from ``<bos>`` to ``<eos>``.

    Returns:
        For each set of heads, in the order of its number, the mean loss of a token, and the same
        for the number of wrong tokens. Bit i of the set's number is head i; the heads of the first
        layer come first.

    Raises:
        ValueError: more heads.
    """
    import torch.nn.functional as F

    from ...decoding import evaluating

    layers = [layer.cross_attention for layer in model.decoder.layers]
    heads = [(layer, head) for layer in layers for head in range(layer.n_heads)]
    if len(heads) > MOST:
        raise ValueError(f"model must have at most {MOST} such heads; got {len(heads)}")
    reads, labels = target[:, :-1], target[:, 1:]
    counted = labels != model.config.pad_id
    losses, wrong = [], []
    with evaluating(model):
        for gone in range(2 ** len(heads)):
            with ExitStack() as off:
                for i, (layer, head) in enumerate(heads):
                    if gone >> i & 1:
                        off.enter_context(without_head(layer, head))
                logits = model(source, reads)[counted]  # (N, V)
            losses.append(F.cross_entropy(logits, labels[counted]).item())
            wrong.append((logits.argmax(-1) != labels[counted]).sum().item())
    return [losses, wrong]
