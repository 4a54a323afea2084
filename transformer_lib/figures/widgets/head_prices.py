"""HeadPrices: what heads cost alone, together, and after the others (chapter 16)."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, NamedTuple

import traitlets

from ...results import load_result
from .. import style
from .base import LiveFigure, Number, Numbers, compose, dress, same_length
from .heads_explorer import without_head

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from torch import Tensor

    from ...models import Transformer

MOST = 8
NOTE = (
    "The translator of numbers that comes with this book, on 200 numbers kept back from its "
    "training, without each set of the heads that look at the English: the mean loss of a letter, "
    "and how many of 6,520 letters are wrong."
)


class Prices(NamedTuple):
    """What heads cost, by one measure."""

    alone: list[float]  # of each head, removed from the whole model
    last: list[float]  # of each head, removed on top of the others that are gone
    added: float  # the prices alone of those that are gone, added up
    together: float  # what the model loses without all of them
    lasts: float  # their prices as the last, added up


def price_table(
    model: Transformer, source: Tensor, target: Tensor, *, sets: Iterable[int] | None = None
) -> list[list[float]]:
    """Measure a model without sets of its heads of cross-attention.

    Args:
        model: an encoder and a decoder, with 8 heads of cross-attention at most.
        source: token ids ``(B, S)``.
        target: ``(B, T + 1)``, from ``<bos>`` to ``<eos>``.
        sets: which sets of heads; all of them, in the order of their numbers, if None. Bit i of a
            set's number is head i, and the heads of the first layer come first.

    Returns:
        The mean loss of a token without each set, and the number of wrong tokens.

    Raises:
        ValueError: more heads, or a set with a head that there is not.

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
        raise ValueError(f"model must have at most {MOST} such heads; got {len(heads)}")
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
    r"""Remove any heads: their prices alone, together, and each as the last one that goes.

    With :math:`m(G)` for what is measured without a set :math:`G` of heads, head :math:`h` costs
    :math:`m(\{h\}) - m(\emptyset)` alone, and :math:`m(G \cup \{h\}) - m(G \setminus \{h\})` as the
    last one. A set costs :math:`m(G) - m(\emptyset)`. Heads that stand in for each other cost
    little alone and much as the last.

    Without numbers the figure shows the record ``head-prices``: the translator that comes with
    this book.

    Args:
        models: names of one to four models.
        measures: one to three names of what is measured; less is better.
        layers: names of the layers.
        digits: for each measure, how many decimals are shown, 0 to 4.
        table: for each model and measure, 2 to the power of n numbers, one for each set of the n
            heads, n from 2 to 8: bit i of a set's place in the list is head i. The heads of the
            first layer come first, and all layers have equally many. See ``price_table`` beside it.
        model: which model is shown.
        measure: by what it is measured.
        gone: the set of heads that are gone, as such a number.

    Raises:
        ValueError: a table that does not fit the names, or a state that there is not.

    >>> figure = HeadPrices(gone=0b11110000)  # the second layer
    >>> price = figure.prices()
    >>> f"alone {price.added:.2f}, together {price.together:.2f}, as the last {price.lasts:.2f}"
    'alone 0.18, together 0.42, as the last 0.63'
    """

    _esm = compose("head_prices.js")
    _css = dress("head_prices.css")
    shown = ("model", "measure", "gone")

    models = traitlets.List(traitlets.Unicode(), ["the translator"], 1, 4).tag(sync=True)
    measures = traitlets.List(traitlets.Unicode(), ["loss", "wrong letters"], 1, 3).tag(sync=True)
    layers = traitlets.List(traitlets.Unicode(), ["layer 1", "layer 2"], 1, 4).tag(sync=True)
    digits = Numbers([2, 0], low=0, high=4)
    table = Numbers([], depth=3, low=0, high=1e6)
    model = Number(0, low=0, high=3, whole=True)
    measure = Number(0, low=0, high=2, whole=True)
    gone = Number(0b11110000, low=0, high=255, whole=True)

    def __init__(self, **numbers: Any) -> None:
        if "table" not in numbers:
            record = load_result("head-prices")
            numbers = {"note": NOTE, "table": [[record["loss"], record["wrong"]]]} | numbers
        else:
            numbers = {"gone": 0} | numbers
        super().__init__(**numbers)
        same_length(self, ("models", "table"))
        same_length(self, ("measures", "digits"))
        sets = len(self.table[0][0]) if self.table[0] else 0
        n = sets.bit_length() - 1
        if not 2 <= n <= MOST or sets != 2**n or n % len(self.layers):
            raise ValueError(
                f"table[0][0] must have a number for each set of 2 to {MOST} heads, as many in "
                f"each of the {len(self.layers)} layers; got {sets}"
            )
        for i, own in enumerate(self.table):
            if len(own) != len(self.measures) or any(len(each) != sets for each in own):
                raise ValueError(
                    f"table[{i}] must be {len(self.measures)} lists, one for each measure, of "
                    f"{sets} numbers; got {[len(each) for each in own]}"
                )
        sizes = {"model": len(self.models), "measure": len(self.measures), "gone": sets}
        for name, size in sizes.items():
            if getattr(self, name) >= size:
                raise ValueError(f"{name} must be below {size}; got {getattr(self, name)}")

    def prices(self) -> Prices:
        """Return what the heads that are gone cost, and each head, by the chosen measure."""
        table, gone = self.table[self.model][self.measure], self.gone
        n = len(table).bit_length() - 1
        alone = [table[1 << i] - table[0] for i in range(n)]
        last = [table[gone | 1 << i] - table[gone & ~(1 << i)] for i in range(n)]
        here = [i for i in range(n) if gone >> i & 1]
        added, lasts = (sum(each[i] for i in here) for each in (alone, last))
        return Prices(alone, last, added, table[gone] - table[0], lasts)

    def draw(self) -> Figure:
        from matplotlib.figure import Figure

        price, digits = self.prices(), int(self.digits[self.measure])
        heads = len(price.alone) // len(self.layers)
        figure = Figure(figsize=(6.4, 3.4), dpi=110)
        above, below = figure.subplots(2, 1, height_ratios=(1.2, 1))
        places = [i + 0.7 * (i // heads) for i in range(len(price.alone))]
        for shift, values, color in ((-0.2, price.alone, 5), (0.2, price.last, 2)):
            above.bar([x + shift for x in places], values, 0.4, color=style.PALETTE[color])
        named = [f"{layer}\nhead {i + 1}\n" for layer in self.layers for i in range(heads)]
        labels = [f"{name}{'gone' * (self.gone >> i & 1)}" for i, name in enumerate(named)]
        above.set_xticks(places, labels, fontsize=8)
        above.set_title(f"{self.measures[self.measure]}: each alone, each as the last", fontsize=10)
        kinds = ["each alone, added up", "all together", "each as the last, added up"]
        sums = [price.added, price.together, price.lasts]
        below.barh(kinds, sums, color=[style.PALETTE[i] for i in (5, 2, 5)])
        for i, x in enumerate(sums):
            below.text(max(x, 0), i, f" {x:+,.{digits}f}", va="center", fontsize=9)
        below.margins(x=0.15)
        below.invert_yaxis()
        for ax in (above, below):
            ax.grid(False)
            ax.tick_params(length=0)
        return figure
