"""CacheSize: how much memory generating a text takes besides the model (chapter 21)."""

from typing import Any

import traitlets

from ...config import ModelConfig
from ...models import parameter_counts
from .architecture_explorer import MODELS
from .base import LiveFigure, Number, OneOf, compose, dress

DECODERS = ("llama-3-8b", "llama-2-7b", "mistral-7b", "gpt2")
SIZES = ("n_layers", "n_heads", "n_kv_heads", "d_head")
NOTE = (
    "The parameters and the cache have the same precision. Only memory is counted: a text may be "
    "longer than the model can read. Your own model has Llama’s layer, an inner width of "
    "3.5 d_model, and a vocabulary of 32,000 tokens."
)


def card(name: str) -> dict[str, Any]:
    """Return a published model's name, the sizes its cache depends on, and its parameters.

    >>> card("llama-3-8b")["sizes"]
    {'n_layers': 32, 'n_heads': 32, 'n_kv_heads': 8, 'd_head': 128}
    """
    config = ModelConfig.published(name)
    sizes = {size: getattr(config, size) for size in SIZES}
    sizes["n_kv_heads"] = config.n_kv_heads or config.n_heads
    parameters = sum(parameter_counts(config, "decoder").values())
    return {"name": MODELS[name], "sizes": sizes, "parameters": parameters}


class CacheSize(LiveFigure):
    r"""The bytes of the key-value cache, next to the bytes of the parameters.

    In each layer, each token has a key and a value for each key-value head:

    .. math::  2 \cdot \text{layers} \cdot G \cdot d_{head} \cdot T \cdot \text{texts}
               \cdot \text{bytes per number}

    for :math:`G` key-value heads. :math:`T` is the length of a text, or the window if that's
    shorter.

    Args:
        model: ``"llama-3-8b"``, ``"llama-2-7b"``, ``"mistral-7b"`` or ``"gpt2"``, or ``"own"`` for
            the four sizes below.
        n_layers: 1 to 128.
        n_heads: 1 to 128.
        n_kv_heads: key-value heads, a divisor of ``n_heads``.
        d_head: width of a head; even, 2 to 256.
        length: tokens per text, 1 to 131,072.
        texts: texts written at the same time, 1 to 256.
        precision: ``"float16"``, ``"float32"`` or ``"int8"``, for all numbers.
        window: how many tokens a layer attends to, including the current one; 0 for all.

    Raises:
        ValueError: a number out of range, an odd ``d_head``, or ``n_kv_heads`` that don't divide
            ``n_heads``.

    Source:
        Ainslie et al. (2023), section 2; Jiang et al. (2023), section 2.

    >>> CacheSize(length=8192, texts=1)
    CacheSize(model='llama-3-8b', length=8192, texts=1, precision='float16', window=0)
    """

    _esm = compose("cache_size.js")
    _css = dress("cache_size.css")
    shown = ("model", "length", "texts", "precision", "window")

    model = OneOf(*DECODERS, "own")
    n_layers = Number(32, low=1, high=128, whole=True)
    n_heads = Number(32, low=1, high=128, whole=True)
    n_kv_heads = Number(8, low=1, high=128, whole=True)
    d_head = Number(128, low=2, high=256, whole=True)
    length = Number(8192, low=1, high=131_072, whole=True)
    texts = Number(16, low=1, high=256, whole=True)
    precision = OneOf("float16", "float32", "int8")
    window = Number(0, low=0, high=131_072, whole=True)
    cards = traitlets.Dict({name: card(name) for name in DECODERS}, read_only=True).tag(sync=True)

    def __init__(self, **numbers: Any) -> None:
        super().__init__(**{"note": NOTE} | numbers)
        if self.n_heads % self.n_kv_heads:
            raise ValueError(
                f"n_heads ({self.n_heads}) must be divisible by n_kv_heads ({self.n_kv_heads})"
            )

    @traitlets.validate("d_head")
    def _even(self, proposal: Any) -> int:
        if proposal["value"] % 2:
            raise ValueError(f"d_head must be even; got {proposal['value']}")
        return proposal["value"]
