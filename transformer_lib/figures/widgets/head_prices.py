"""HeadPrices: what removing heads costs, alone, together, and after others (chapter 16)."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import traitlets

from ...results import load_result
from .base import LiveFigure, Number, Numbers, compose, dress, same_length
from .heads_explorer import without_head

if TYPE_CHECKING:
    from torch import Tensor

    from ...models import Transformer

MOST = 8
NOTE = (
    "The translator of numbers that comes with this book, on 200 held-out numbers, without each "
    "set of its cross-attention heads: the mean loss per letter, and how many of 6,520 letters are "
    "wrong."
)


def price_table(
    model: Transformer, source: Tensor, target: Tensor, *, sets: Iterable[int] | None = None
) -> list[list[float]]:
    """Measure a model without sets of its cross-attention heads.

    Args:
        model: an encoder-decoder with at most 8 cross-attention heads.
        source: token ids ``(B, S)``.
        target: ``(B, T + 1)``, from ``<bos>`` to ``<eos>``.
        sets: the sets of heads, or None for all, in order. Bit i of a set's number is head i; the
            heads of the first layer come first.

    Returns:
        The mean loss per token without each set, and the number of wrong tokens.

    Raises:
        ValueError: too many heads, or a set with a head that doesn't exist.

    >>> import torch
    >>> from transformer_lib import ModelConfig, Transformer
    >>> model = Transformer(ModelConfig.tiny(vocab_size=7, n_layers=2))
    >>> ids = torch.tensor([[1, 5, 6, 2]])
    >>> loss, wrong = price_table(model, ids, ids)
    >>> len(loss), len(wrong)
    (256, 256)
    """
    import torch.nn.functional as F

    from ...decoding import evaluating

    layers: list[Any] = [layer.cross_attention for layer in model.decoder.layers]
    heads = [(layer, head) for layer in layers for head in range(layer.n_heads)]
    if len(heads) > MOST:
        raise ValueError(f"model must have at most {MOST} cross-attention heads; got {len(heads)}")
    wanted = list(range(2 ** len(heads)) if sets is None else sets)
    if not all(0 <= gone < 2 ** len(heads) for gone in wanted):
        raise ValueError(f"sets must be numbers below {2 ** len(heads)}; got {wanted}")
    reads, labels = target[:, :-1], target[:, 1:]
    counted = labels != model.config.pad_id
    losses, wrong = [], []
    with evaluating(model):
        for gone in wanted:
            with ExitStack() as off:
                for i, (layer, head) in enumerate(heads):
                    if gone >> i & 1:
                        off.enter_context(without_head(layer, head))
                logits = model(source, reads)[counted]  # (N, V)
            losses.append(F.cross_entropy(logits, labels[counted]).item())
            wrong.append((logits.argmax(-1) != labels[counted]).sum().item())
    return [losses, wrong]


class HeadPrices(LiveFigure):
    r"""Remove heads and see their prices: alone, together, and each as the last one removed.

    If :math:`m(G)` is the measure without a set :math:`G` of heads, head :math:`h` costs
    :math:`m(\{h\}) - m(\emptyset)` alone, and :math:`m(G \cup \{h\}) - m(G \setminus \{h\})` as the
    last one. A set costs :math:`m(G) - m(\emptyset)`. Heads that can replace each other cost little
    alone and a lot as the last.

    Without a table the figure shows the record ``head-prices`` of the bundled translator.

    Args:
        measures: names of one to three measures; less is better.
        layers: names of the layers.
        table: for each measure, 2 to the power of n numbers, one per set of the n heads, n from 2
            to 8: bit i of a set's index is head i. The heads of the first layer come first; all
            layers have equally many. See ``price_table``.
        measure: the measure to show.
        gone: the set of removed heads, as an index in the table.

    Raises:
        ValueError: a table that doesn't fit the names, or a measure or set out of range.

    >>> HeadPrices(gone=0b11110000)  # the second layer
    HeadPrices(measure=0, gone=240)
    """

    _esm = compose("head_prices.js")
    _css = dress("head_prices.css")
    shown = ("measure", "gone")

    measures = traitlets.List(traitlets.Unicode(), ["loss", "wrong letters"], 1, 3).tag(sync=True)
    layers = traitlets.List(traitlets.Unicode(), ["layer 1", "layer 2"], 1, 4).tag(sync=True)
    table = Numbers([], depth=2, low=0, high=1e6)
    measure = Number(0, low=0, high=2, whole=True)
    gone = Number(0b11110000, low=0, high=255, whole=True)

    def __init__(self, **numbers: Any) -> None:
        if "table" not in numbers:
            record = load_result("head-prices")
            numbers = {"note": NOTE, "table": [record["loss"], record["wrong"]]} | numbers
        else:
            numbers = {"gone": 0} | numbers
        super().__init__(**numbers)
        same_length(self, ("measures", "table"))
        sets = len(self.table[0])
        n = sets.bit_length() - 1
        fits = all(len(each) == sets for each in self.table)
        if not fits or not 2 <= n <= MOST or sets != 2**n or n % len(self.layers):
            raise ValueError(
                f"table must have one number per set of 2 to {MOST} heads for each measure, with "
                f"equally many heads in each of the {len(self.layers)} layers; "
                f"got {[len(each) for each in self.table]}"
            )
        sizes = {"measure": len(self.measures), "gone": sets}
        for name, size in sizes.items():
            if getattr(self, name) >= size:
                raise ValueError(f"{name} must be below {size}; got {getattr(self, name)}")
