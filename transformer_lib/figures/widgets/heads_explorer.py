"""HeadsExplorer: what each head of a trained model attends to, and its worth (chapter 16)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
import traitlets

from .base import LiveFigure, Number, Numbers, OneOf, all_or_none, compose, dress, same_length

if TYPE_CHECKING:
    from ...data import Tokenizer
    from ...models import Transformer
    from ...multihead import MultiHeadAttention

KINDS = ("cross", "encoder", "decoder")
LONGEST = 24
DATA = ("source", "reads", "writes", "kinds", "weights", "probabilities", "without")


@contextmanager
def without_head(layer: MultiHeadAttention, head: int) -> Iterator[None]:
    """Switch off one head of an attention layer: the output projection gets zeros instead.

    Args:
        layer: the attention layer.
        head: the head, from 0.

    Raises:
        ValueError: a head that the layer doesn't have.

    >>> import torch
    >>> from transformer_lib import MultiHeadAttention
    >>> layer, x = MultiHeadAttention(d_model=4, n_heads=1), torch.randn(1, 3, 4)
    >>> with without_head(layer, 0):
    ...     torch.equal(layer(x), layer.out_proj.bias.expand(1, 3, 4))
    True
    """
    if not 0 <= head < layer.n_heads:
        raise ValueError(f"head must be below {layer.n_heads}, the number of heads; got {head}")

    def silence(module: Any, inputs: tuple) -> tuple:
        (joined,) = inputs  # (B, T, d_model), the heads side by side
        parts = joined.unflatten(-1, (layer.n_heads, layer.d_head)).clone()
        parts[..., head, :] = 0
        return (parts.flatten(-2),)

    hook = layer.out_proj.register_forward_pre_hook(silence)
    try:
        yield
    finally:
        hook.remove()


class HeadsExplorer(LiveFigure):
    """What each head attends to, token by token, and what the model loses without it.

    A text's probability is the product of its tokens' probabilities, each given those before it.
    Without arguments it shows the bundled translator; :meth:`from_model` shows another model.

    Args:
        source: the source tokens, S.
        reads: the decoder's input, T: the text shifted right.
        writes: the text it wrote, T.
        kinds: the kinds of attention, out of ``"cross"``, ``"encoder"`` and ``"decoder"``.
        weights: ``(kind, layer, head, query, key)``.
        probabilities: ``(T,)``, of the written tokens, with all heads.
        without: ``(kind, layer, head, T)``, the same with that head switched off.
        attention: the kind to show.
        layer: the layer to show, from 0.
        head: the head to show, from 0.
        token: the query to show, from 0.
        off: whether that head is switched off.
        answer: what to call one of ``writes``, such as ``"tag"``.
        together: what to call all of them together, such as ``"the row of tags"``.

    Raises:
        ValueError: lists that don't fit together.

    >>> HeadsExplorer(attention="decoder", head=2)
    HeadsExplorer(attention='decoder', layer=1, head=2, token=0, off=False)
    """

    _esm = compose("heads_explorer.js")
    _css = dress("heads_explorer.css")
    shown = ("attention", "layer", "head", "token", "off")

    source = traitlets.List(traitlets.Unicode(), maxlen=LONGEST).tag(sync=True)
    reads = traitlets.List(traitlets.Unicode(), maxlen=LONGEST).tag(sync=True)
    writes = traitlets.List(traitlets.Unicode(), minlen=1, maxlen=LONGEST).tag(sync=True)
    kinds = traitlets.List(traitlets.Unicode(), minlen=1).tag(sync=True)
    weights = Numbers([], depth=5, low=0, high=1.001)
    probabilities = Numbers([], low=0, high=1)
    without = Numbers([], depth=4, low=0, high=1)
    attention = OneOf(*KINDS)
    layer = Number(1, low=0, high=99, whole=True)
    head = Number(0, low=0, high=99, whole=True)
    token = Number(0, low=0, high=99, whole=True)
    off = traitlets.Bool(False).tag(sync=True)
    answer = traitlets.Unicode("token written").tag(sync=True)
    together = traitlets.Unicode("the text").tag(sync=True)

    def __init__(self, **numbers: Any) -> None:
        if not all_or_none(numbers, DATA):
            from ...pretrained import load_bundled

            note = "The translator of numbers that comes with this book."
            read = _read(*load_bundled("number-words"), "forty-two", numbers)
            numbers = {"note": note} | read
        super().__init__(**numbers)
        same_length(self, ("writes", "probabilities"))
        same_length(self, ("kinds", "weights", "without"))
        if self.attention not in self.kinds:
            raise ValueError(f"attention must be one of {self.kinds}; got {self.attention!r}")
        layers, heads = len(self.weights[0]), len(self.weights[0][0])
        for i, kind in enumerate(self.kinds):
            queries, keys = self.tokens(kind)
            shape = (layers, heads, len(queries), len(keys))
            _check(f"weights[{i}], for {kind},", self.weights[i], shape)
            _check(f"without[{i}]", self.without[i], (layers, heads, len(self.writes)))
        sizes = {"layer": layers, "head": heads, "token": len(self.tokens(self.attention)[0])}
        for name, size in sizes.items():
            if getattr(self, name) >= size:
                raise ValueError(f"{name} must be below {size}; got {getattr(self, name)}")

    def tokens(self, kind: str) -> tuple[list[str], list[str]]:
        """Return the queries and the keys of a kind of attention."""
        queries = self.source if kind == "encoder" else self.writes
        return queries, self.reads if kind == "decoder" else self.source

    @classmethod
    def from_model(
        cls, model: Transformer, tokenizer: Tokenizer, source: str, **numbers: Any
    ) -> HeadsExplorer:
        """Translate with a trained model, by greedy search, and measure it without each head.

        Without a head, the text is the same (teacher forcing), but its tokens have other
        probabilities. The figure first shows the head that costs most, at the token where it costs
        most.

        Args:
            model: an encoder-decoder, both with equally many layers.
            tokenizer: the tokenizer of source and target.
            source: the text to translate.
            numbers: other arguments of the figure: ``attention``, ``layer``, ``note``, …

        Raises:
            TypeError: another kind of model.
            ValueError: an empty source, or a text of more than 24 tokens.
        """
        return cls(**_read(model, tokenizer, source, numbers))


def _read(model: Any, tokenizer: Tokenizer, source: str, numbers: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments of :meth:`HeadsExplorer.from_model`'s figure."""
    import torch

    from ...decoding import evaluating, greedy
    from ...inspection import record_attention
    from ...models import Transformer

    if not isinstance(model, Transformer):
        raise TypeError(f"model must be a Transformer; got a {type(model).__name__}")
    config = model.config
    ids = tokenizer.encode(source)
    if not 0 < len(ids) <= LONGEST:
        raise ValueError(f"source must be 1 to {LONGEST} tokens; got {len(ids)}")
    read = torch.tensor([ids], device=next(model.parameters()).device)
    text = greedy(model, read, max_len=LONGEST + 1).ids
    if text.size(1) > LONGEST:
        raise ValueError(f"source must have a translation of at most {LONGEST} tokens")
    target = torch.cat([torch.full_like(text[:, :1], config.bos_id), text[:, :-1]], dim=1)

    def likely() -> Any:
        chosen = model(read, target).softmax(-1).gather(-1, text[..., None])
        return chosen[0, :, 0].double().cpu().numpy().round(4)

    layers: dict[str, list[Any]] = {
        "cross": [layer.cross_attention for layer in model.decoder.layers],
        "encoder": [layer.self_attention for layer in model.encoder.layers],
        "decoder": [layer.self_attention for layer in model.decoder.layers],
    }
    without: list = [[[] for _ in each] for each in layers.values()]
    with evaluating(model):
        with record_attention(model) as recorded:
            sure = likely()
        names = {module: name for name, module in model.named_modules()}
        maps = [
            [recorded[names[layer]][0].double().cpu().numpy().round(3).tolist() for layer in each]
            for each in layers.values()
        ]
        for k, each in enumerate(layers.values()):
            for i, layer in enumerate(each):
                for head in range(config.n_heads):
                    with without_head(layer, head):
                        without[k][i].append(likely().tolist())
    if "attention" not in numbers:
        cost = np.array([[np.prod(h, -1) for h in kind] for kind in without])
        k, i, h = (int(x) for x in np.unravel_index(cost.argmin(), cost.shape))
        lost = int(np.argmax(np.subtract(sure.tolist(), without[k][i][h])))
        token = lost if KINDS[k] != "encoder" else 0
        numbers = {"attention": KINDS[k], "layer": i, "head": h, "token": token} | numbers
    return numbers | {
        "source": tokenizer.tokens(ids), "reads": tokenizer.tokens(target[0].tolist()),
        "writes": tokenizer.tokens(text[0].tolist()), "kinds": list(KINDS), "weights": maps,
        "probabilities": sure.tolist(), "without": without,
    }  # fmt: skip


def _check(name: str, value: Any, shape: tuple[int, ...]) -> None:
    """Raise a ValueError unless the nested lists have this shape."""
    found = np.array(value, dtype=object).shape  # of ragged lists, the axes they have in common
    if found != shape:
        raise ValueError(f"{name} must have the shape {shape}; got {found}")
