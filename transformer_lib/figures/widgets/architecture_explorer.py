"""ArchitectureExplorer: where a Transformer's parameters are (chapters 11 and 21)."""

from typing import Any

import traitlets

from ...config import ModelConfig
from ...models import parameter_counts
from .base import LiveFigure, Number, OneOf, compose, dress

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
NOTE = (
    "No single vocabulary gives both of the paper’s numbers: base needs 40,700 tokens, big 35,800. "
    "And both need a single matrix for both embeddings and the output."
)
CARDS_NOTE = (
    "As published, to the last parameter. Llama and Mistral rotate queries and keys by their "
    "positions, which takes no parameters, gate the feed-forward network with a third matrix, and "
    "have no biases."
)
MODELS = {
    "gpt2": "GPT-2",
    "bert-base": "BERT base",
    "llama-2-7b": "Llama 2 7B",
    "llama-3-8b": "Llama 3 8B",
    "mistral-7b": "Mistral 7B",
}


def card(name: str) -> dict[str, Any]:
    """Return a published model's sizes and boxes, counted by the library.

    ``boxes`` has the kinds of boxes that differ from the paper's: formula, number of parameters
    and, for some, a description; or None if the model doesn't have that box.

    >>> card("llama-3-8b")["boxes"]["attention"]
    ['2 d_model² + 2 d_model · 8 · 128', 41943040, '32 heads, 8 of keys and values']
    """
    config = ModelConfig.published(name)
    kind = "encoder" if name.startswith("bert") else "decoder"
    names = ("d_model", "n_heads", "d_ff", "n_layers", "vocab_size", "pre_norm")
    sizes = {"kind": kind} | {name: getattr(config, name) for name in names}
    counts = parameter_counts(config, kind)
    n, words = config.n_layers, config.vocab_size * config.d_model
    boxes: dict[str, Any] = {}
    if config.positions == "rotary":
        kv, width = config.n_kv_heads, f"{config.d_model}→{config.d_ff}→{config.d_model}"
        attention = ["4 d_model²", counts["decoder.self_attention"] // n]
        if kv != config.n_heads:
            attention[0] = f"2 d_model² + 2 d_model · {kv} · {config.d_head}"
            attention.append(f"{config.n_heads} heads, {kv} of keys and values")
        boxes = {
            "positions": None,  # rotations inside the attention, without parameters
            "attention": attention,
            "forward": ["3 d_model · d_ff", counts["decoder.feed_forward"] // n, f"gated {width}"],
            "norm": ["d_model: a scale, no shift", config.d_model],
            "shared": ["vocabulary · d_model", counts["output"]],
        }
    elif kind == "encoder":
        learned = "(512 positions + 2 segments + 2 in a norm) · d_model"
        boxes["positions"] = [learned, counts["embeddings"] - words]
        boxes["head"] = ["d_model² + d_model, a pooler", counts["pooler"]]
    else:
        boxes["positions"] = ["1024 positions · d_model", counts["embeddings"] - words]
    total = sum(counts.values())
    says = "as published"
    if kind == "encoder":
        total -= counts["head"] + counts["output"]
        says += " without the head for masked words"
    return {
        "name": MODELS[name],
        "says": f"{MODELS[name]}: {total:,} parameters, {says}.",
        "sizes": sizes,
        "boxes": boxes,
    }


class ArchitectureExplorer(LiveFigure):
    r"""The Transformer with the shape of every arrow and the number of parameters of every box.

    Attention has :math:`4 d^2 + 4 d` parameters, a feed-forward network
    :math:`2 d\,d_{ff} + d_{ff} + d`, a norm :math:`2 d`, the embeddings :math:`V d` once, as in
    :class:`~transformer_lib.models.Transformer`, ``EncoderOnly`` with its head, or
    ``DecoderOnly``. A published model has its own sizes and its own layer.

    Args:
        model: ``"own"`` for the sizes below, or a published model: ``"gpt2"``, ``"bert-base"``,
            ``"llama-2-7b"``, ``"llama-3-8b"`` or ``"mistral-7b"``.
        kind: ``"both"``, ``"encoder"`` or ``"decoder"``.
        d_model: width of the vectors; even, 64 to 2048.
        n_heads: 1 to 32, a divisor of ``d_model``.
        d_ff: inner width of the feed-forward networks, 128 to 8192.
        n_layers: layers of each stack, 1 to 24.
        vocab_size: 1000 to 100,000 tokens.
        pre_norm: norms before the sublayers, or after them as in the paper.
        part: the selected box, such as ``"encoder-attention"`` or ``"decoder-layer"``.

    Raises:
        ValueError: a number out of range, heads that don't divide ``d_model``, or an unknown part.

    Source:
        Vaswani et al. (2017), section 3 and Table 3; Devlin et al. (2019), section 3; Radford et
        al. (2018).

    >>> ArchitectureExplorer(model="gpt2").cards["gpt2"]["says"]
    'GPT-2: 124,439,808 parameters, as published.'
    """

    _esm = compose("architecture_explorer.js")
    _css = dress("architecture_explorer.css")
    shown = ("model", "kind", "d_model", "n_heads", "d_ff", "n_layers", "vocab_size", "pre_norm")

    model = OneOf("own", *MODELS)
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
    cards = traitlets.Dict({name: card(name) for name in MODELS}, read_only=True).tag(sync=True)

    def __init__(self, **numbers: Any) -> None:
        note = NOTE if numbers.get("model", "own") == "own" else CARDS_NOTE
        super().__init__(**{"note": note} | numbers)
        if self.d_model % self.n_heads:
            raise ValueError(
                f"d_model ({self.d_model}) must be divisible by n_heads ({self.n_heads})"
            )

    @traitlets.validate("d_model")
    def _even(self, proposal: Any) -> int:
        if proposal["value"] % 2:
            raise ValueError(f"d_model must be even; got {proposal['value']}")
        return proposal["value"]
