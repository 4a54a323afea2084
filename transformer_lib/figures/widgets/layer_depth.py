"""LayerDepth: how similar tokens become in a deep stack of untrained layers (chapter 7)."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

import traitlets

from .base import LiveFigure, Number, Numbers, OneOf, compose, dress

if TYPE_CHECKING:
    from torch import Tensor

    from ...layers import EncoderLayer

DEPTH, SEEDS = 24, (0, 1, 2)
NORMS = ("post", "pre", "none")
STACKS = [(residual, norm) for residual in (True, False) for norm in NORMS]


def fresh_layer() -> EncoderLayer:
    """Return an untrained layer of width 64 with 4 heads: Xavier weights, zero biases, float64."""
    from torch import nn

    from ...config import ModelConfig
    from ...layers import EncoderLayer

    layer = EncoderLayer(ModelConfig(vocab_size=8, d_model=64, n_heads=4, d_ff=256, dropout=0.0))
    for name, parameter in layer.named_parameters():
        if parameter.dim() > 1:
            nn.init.xavier_uniform_(parameter)
        elif name.endswith("bias"):
            nn.init.zeros_(parameter)
    return layer.double()


def through(layer: EncoderLayer, x: Tensor, residual: bool, norm: str) -> Tensor:
    """Send ``x``, ``(1, T, 64)``, through both sublayers, with or without residual and norm."""
    for part, around in (
        (layer.self_attention, layer.attention_residual),
        (layer.feed_forward, layer.feed_forward_residual),
    ):
        new = part(around.norm(x) if norm == "pre" else x)
        new = x + new if residual else new
        x = around.norm(new) if norm == "post" else new
    return x


def cosines(x: Tensor) -> Tensor:
    """Return the cosines of all pairs of the ``T`` vectors, ``(T, T)``."""
    unit = x[0] / x[0].norm(dim=-1, keepdim=True)  # no epsilon: exact for tiny vectors too
    return unit @ unit.T


@lru_cache
def measure(count: int) -> tuple[list, list]:
    """Return `cosines` and `means` of LayerDepth for ``count`` tokens."""
    import torch

    first, second = torch.triu_indices(count, count, 1)
    state = torch.get_rng_state()
    pairs: list = [[] for _ in STACKS]
    means: list = [[] for _ in STACKS]
    with torch.no_grad():
        for seed in SEEDS:
            torch.manual_seed(seed)
            words = torch.randn(1, count, 64).double()
            layers = [fresh_layer() for _ in range(DEPTH)]
            for i, (residual, norm) in enumerate(STACKS):
                x, found = words, [cosines(words)[first, second]]
                for layer in layers:
                    x = through(layer, x, residual, norm)
                    found.append(cosines(x)[first, second])
                means[i].append([round(each.mean().item(), 3) for each in found])
                if seed == SEEDS[0]:
                    pairs[i] = [[round(x, 3) for x in each.tolist()] for each in found]
    torch.set_rng_state(state)
    return pairs, means


class LayerDepth(LiveFigure):
    r"""The cosines of tokens after each of 24 untrained layers, with or without residual and norm.

    Tokens start as vectors of 64 random numbers. The layers are `EncoderLayer` with random
    weights. With a residual connection, a sublayer returns :math:`x + F(x)`, without it,
    :math:`F(x)`. The norm comes before the sublayer (pre), after the sum (post), or not at all.

    Args:
        words: 3 to 8 words, labels of the tokens.
        residual: whether to add a sublayer's input to its output.
        norm: ``"post"``, ``"pre"`` or ``"none"``.
        layer: the layer after which to show the cosines, 0 to 24.

    It measures two tables for the six stacks, first those with residual:

    - `cosines`, ``(6, 25, T (T - 1) / 2)``: of each pair of tokens after each layer, with seed 0;
    - `means`, ``(6, 3, 25)``: their mean, with seeds 0, 1 and 2.

    Raises:
        ValueError: too few or too many words, or a layer out of range.

    Source:
        Dong et al. (2021), *Attention is not all you need*.

    >>> figure = LayerDepth()
    >>> figure
    LayerDepth(residual=True, norm='post', layer=12)
    >>> [round(figure.means[i][0][24], 1) for i in range(3)]        # post, pre, none
    [1.0, 0.8, 1.0]
    """

    _esm = compose("layer_depth.js")
    _css = dress("layer_depth.css")
    shown = ("residual", "norm", "layer")

    words = traitlets.List(
        traitlets.Unicode(), ["the", "hungry", "cat", "eats", "fresh", "fish"]
    ).tag(sync=True)
    residual = traitlets.Bool(True).tag(sync=True)
    norm = OneOf(*NORMS)
    layer = Number(12, low=0, high=DEPTH, whole=True)
    cosines = Numbers([], depth=3, low=-1.001, high=1.001)
    means = Numbers([], depth=3, low=-1.001, high=1.001)

    def __init__(self, **numbers: Any) -> None:
        for name in ("cosines", "means"):
            if name in numbers:
                raise TypeError(f"{name} can't be given: the figure measures it")
        super().__init__(**numbers)
        if not 3 <= len(self.words) <= 8:
            raise ValueError(f"words must be 3 to 8 words; got {len(self.words)}")
        self.cosines, self.means = measure(len(self.words))
