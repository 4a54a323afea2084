"""ArchitectureExplorer: where a Transformer's numbers live (chapter 11)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import traitlets

from .. import style
from .architecture_still import COLOURS, draw_boxes, layout
from .base import LiveFigure, Number, OneOf, compose, dress

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BASE = "The paper’s base"
PUBLISHED = [  # stacks, name, d_model, d_ff, layers, millions of parameters
    ["both", BASE, 512, 2048, 6, 65],
    ["both", "The paper’s big", 1024, 4096, 6, 213],
    ["both", f"{BASE} with 2 layers", 512, 2048, 2, 36],
    ["both", f"{BASE} with 4 layers", 512, 2048, 4, 50],
    ["both", f"{BASE} with 8 layers", 512, 2048, 8, 80],
    ["both", f"{BASE} with d_model 256", 256, 2048, 6, 28],
    ["both", f"{BASE} with d_model 1024", 1024, 2048, 6, 168],
    ["both", f"{BASE} with d_ff 1024", 512, 1024, 6, 53],
    ["both", f"{BASE} with d_ff 4096", 512, 4096, 6, 90],
    ["encoder", "BERT base", 768, 3072, 12, 110],
    ["encoder", "BERT large", 1024, 4096, 24, 340],
    ["decoder", "GPT", 768, 3072, 12, 117],
]
PARTS = [
    "embedding",
    "positions",
    "norm-attention",
    "attention",
    "norm-cross",
    "cross",
    "norm-forward",
    "forward",
    "layer",
    "final",
    "head",
    "output",
]
GROUPS = ("embeddings", "attention", "feed-forward", "norms", "head")
NOTE = (
    "No single vocabulary gives both of the paper’s numbers: base asks for 40,700 tokens, big for "
    "35,800. Either needs one matrix for both embeddings and the output."
)


def parts(
    kind: str, d_model: int, d_ff: int, n_layers: int, vocab_size: int, pre_norm: bool
) -> dict[str, tuple[int, int, int]]:
    """Return the boxes of a model: ``{part: (group, numbers in one, how often)}``.

    A layer's box only adds up the others, and has group 5.

    >>> parts("both", 512, 2048, 6, 37_000, True)["encoder-attention"]
    (1, 1050624, 6)
    """
    d, each = d_model, {}
    attention = 4 * d * d + 4 * d
    kinds = {
        "attention": (1, attention),
        "cross": (1, attention),
        "forward": (2, 2 * d * d_ff + d_ff + d),
    }
    for stack in ("encoder", "decoder") if kind == "both" else (kind,):
        first = not each
        each[f"{stack}-embedding"] = (0, vocab_size * d if first else 0, 1)
        each[f"{stack}-positions"] = (0, 0, 1)
        total = 0
        for name, (group, count) in kinds.items():
            if name != "cross" or not first:
                each[f"{stack}-norm-{name}"] = (3, 2 * d, n_layers)
                each[f"{stack}-{name}"] = (group, count, n_layers)
                total += 2 * d + count
        each[f"{stack}-layer"] = (5, total, n_layers)
        if pre_norm:
            each[f"{stack}-final"] = (3, 2 * d, 1)
        if kind == "encoder":
            each[f"{stack}-head"] = (4, 2 * d * d + 4 * d, 1)
        if kind == "encoder" or stack == "decoder":
            each[f"{stack}-output"] = (0, 0, 1)
    return each


class ArchitectureExplorer(LiveFigure):
    r"""The Transformer with the shape of every arrow and the number of parameters of every box.

    An attention has :math:`4 d^2 + 4 d` of them, a feed-forward network
    :math:`2 d\,d_{ff} + d_{ff} + d`, a norm :math:`2 d`, the embeddings :math:`V d` once. They are
    those of :class:`~transformer_lib.models.Transformer`, of ``EncoderOnly`` with its head, or of
    ``DecoderOnly``.

    Args:
        kind: ``"both"``, ``"encoder"`` or ``"decoder"``.
        d_model: 64 to 2048, even; width of the vectors.
        n_heads: 1 to 32, a divisor of ``d_model``.
        d_ff: 128 to 8192; inner width of the feed-forward networks.
        n_layers: 1 to 24, of each stack.
        vocab_size: 1000 to 100,000 tokens.
        pre_norm: norms before the sublayers, or after them as in the paper.
        part: the box that is looked at, such as ``"encoder-attention"`` or ``"decoder-layer"``.

    Raises:
        ValueError: a number outside its limits, heads that do not divide ``d_model``, a part that
            there is not.

    Source:
        Vaswani et al. (2017), section 3 and Table 3; Devlin et al. (2019), section 3; Radford et
        al. (2018).

    >>> ArchitectureExplorer(n_layers=2).groups()
    {'embeddings': 18944000, 'attention': 6303744, 'feed-forward': 8398848, 'norms': 12288}
    """

    _esm = compose("architecture_explorer.js")
    _css = dress("architecture_explorer.css")
    shown = ("kind", "d_model", "n_heads", "d_ff", "n_layers", "vocab_size", "pre_norm")

    kind = OneOf("both", "encoder", "decoder")
    d_model = Number(512, low=64, high=2048, whole=True)
    n_heads = Number(8, low=1, high=32, whole=True)
    d_ff = Number(2048, low=128, high=8192, whole=True)
    n_layers = Number(6, low=1, high=24, whole=True)
    vocab_size = Number(37_000, low=1000, high=100_000, whole=True)
    pre_norm = traitlets.Bool(True).tag(sync=True)
    part = OneOf(
        "encoder-attention",
        *(
            f"{s}-{p}"
            for s in ("encoder", "decoder")
            for p in PARTS
            if (s, p) != ("encoder", "attention")
        ),
    )
    published = traitlets.List(PUBLISHED, read_only=True).tag(sync=True)

    def __init__(self, **numbers: Any) -> None:
        super().__init__(**{"note": NOTE} | numbers)
        if self.d_model % self.n_heads:
            raise ValueError(
                f"d_model ({self.d_model}) must be divisible by n_heads ({self.n_heads})"
            )

    @traitlets.validate("d_model")
    def _even(self, proposal: Any) -> int:
        if proposal["value"] % 2:
            raise ValueError(f"d_model must be even for its waves; got {proposal['value']}")
        return proposal["value"]

    def groups(self) -> dict[str, int]:
        """Return how many numbers each kind of box has in all, where there are any."""
        boxes = self._parts().values()
        return {
            name: count
            for i, name in enumerate(GROUPS)
            if (count := sum(each * times for group, each, times in boxes if group == i))
        }

    def _parts(self) -> dict[str, tuple[int, int, int]]:
        names = ("kind", "d_model", "d_ff", "n_layers", "vocab_size", "pre_norm")
        return parts(**{name: getattr(self, name) for name in names})

    def draw(self) -> Figure:
        from matplotlib.figure import Figure

        figure = Figure(figsize=(6.4, 6.6), dpi=110)
        top, ax = figure.subplots(2, 1, height_ratios=(1, 12))
        groups, left = self.groups(), 0.0
        total = sum(groups.values())
        for name, count in groups.items():
            share = count / total
            colour = COLOURS[GROUPS.index(name)]
            top.barh(0, share, left=left, color=colour, ec=style.CARD)
            if share > 0.1:
                top.text(left, -0.5, f" {name} {share:.0%}", va="top", fontsize=9)
            left += share
        top.set_title(f"{total / 1e6:,.1f} million numbers")
        top.set(xlim=(0, 1), ylim=(-0.9, 0.4))
        top.axis("off")
        place = layout(self.kind, self.d_model, self.vocab_size, self.pre_norm)
        draw_boxes(ax, place, self._words())
        return figure

    def _words(self) -> dict[str, tuple[int, str, str, str]]:
        """Of every box its group, its name, what goes on in it, and its number."""
        heads = f"{self.n_heads} head{'s' * (self.n_heads > 1)} of {self.d_model // self.n_heads}"
        widths = f"{self.d_model}→{self.d_ff}→{self.d_model}"
        inside = {"attention": heads, "cross": heads, "forward": widths}
        names = {
            "positions": "+ positions",
            "cross": "cross-attention",
            "forward": "feed-forward",
            "final": "last norm",
            "layer": f"× {self.n_layers} layer{'s' * (self.n_layers > 1)}",
        }
        words = {}
        for part, (group, each, times) in self._parts().items():
            stack, name, *_ = part.split("-")
            names["attention"] = f"{'masked ' * (stack == 'decoder')}self-attention"
            shared = not each and name != "positions"
            count = "shared" if shared else f"{each * (times if group == 5 else 1):,}"
            words[part] = (group, names.get(name, name), inside.get(name, ""), count)
        return words
