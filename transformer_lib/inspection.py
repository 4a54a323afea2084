"""Look inside a model: record its attention weights, count its parameters."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from torch import Tensor, nn

from transformer_lib.config import ModelConfig
from transformer_lib.validation import check_choice, check_type

__all__ = ["parameter_counts", "record_attention"]


@contextmanager
def record_attention(model: nn.Module) -> Iterator[dict[str, Tensor]]:
    """Collect the attention weights of every attention layer in ``model``.

    Within the block the model takes the explicit path. Each key is a layer's name in the model,
    each value the weights of its latest call.

    Args:
        model: any module that contains attention layers, which have a ``recorder``, such as
            :class:`~transformer_lib.MultiHeadAttention`.

    Yields:
        dict of name to weights ``(B, H, T, S)``, filled while the model runs.

    Raises:
        TypeError: ``model`` isn't a module.
        ValueError: ``model`` has no attention layer.

    Example:
        >>> from transformer_lib import MultiHeadAttention
        >>> import torch
        >>> model = nn.Sequential(MultiHeadAttention(d_model=12, n_heads=3))
        >>> with record_attention(model) as maps:
        ...     _ = model(torch.randn(2, 5, 12))
        >>> {name: tuple(weights.shape) for name, weights in maps.items()}
        {'0': (2, 3, 5, 5)}
    """
    check_type("model", model, nn.Module)
    layers: dict[str, Any] = {
        name: module for name, module in model.named_modules() if hasattr(module, "recorder")
    }
    if not layers:
        raise ValueError(f"model ({type(model).__name__}) contains no attention layer")
    maps: dict[str, Tensor] = {}
    before = {name: layer.recorder for name, layer in layers.items()}
    for name, layer in layers.items():

        def keep(weights: Tensor, name: str = name) -> None:
            maps[name] = weights

        layer.recorder = keep
    try:
        yield maps
    finally:
        for name, layer in layers.items():
            layer.recorder = before[name]


def parameter_counts(config: ModelConfig, kind: str = "both") -> dict[str, int]:
    r"""Count the parameters of each part of a model.

    An attention has :math:`4 d^2 + 4 d` (four matrices with biases), a feed-forward network
    :math:`2 d\, d_{ff} + d_{ff} + d`, a layer norm :math:`2 d`. An encoder layer has one attention,
    one network and two norms; a decoder layer with cross-attention has one more attention and norm.
    The embeddings have :math:`V d`, once, however often they're used.

    Grouped heads shrink two of an attention's matrices to :math:`d \cdot n_{kv} d_{head}`. SwiGLU
    adds a third matrix to the network. An RMS norm has :math:`d`. Without biases, :math:`4 d` and
    :math:`d_{ff} + d` are left out. A separate output matrix adds :math:`V d`.

    The paper gives 65 million parameters for ``base``, 213 million for ``big``, and about 37,000
    tokens, for which ours have 63.1 and 214.2 million. No single vocabulary gives both of the
    paper's numbers: without embeddings ``base`` has 44.1 million, so 65 million needs 40,700 tokens
    with :math:`d = 512`; ``big`` has 176.4 million, so 213 million needs 35,800 with
    :math:`d = 1024`. Either needs shared embeddings.

    Args:
        config: sizes and choices.
        kind: ``"both"`` stacks, a :class:`Transformer`; the ``"encoder"`` alone, an
            :class:`EncoderOnly`; or the ``"decoder"``, a :class:`DecoderOnly`.

    Returns:
        dict of part to count, such as ``"encoder.self_attention"`` of all layers together. An
        encoder alone has a ``"pooler"`` and a ``"head"`` for masked tokens. ``"output"`` is there
        if it has parameters of its own.

    Raises:
        ValueError: an unknown kind.

    Source:
        Vaswani et al. (2017), Table 3 and section 5.1.

    Example:
        >>> for part, count in parameter_counts(ModelConfig.base(vocab_size=37_000)).items():
        ...     print(f"{part:24}{count:12,}")
        embeddings                18,944,000
        encoder.self_attention     6,303,744
        encoder.feed_forward      12,598,272
        encoder.norms                 13,312
        decoder.self_attention     6,303,744
        decoder.cross_attention    6,303,744
        decoder.feed_forward      12,598,272
        decoder.norms                 19,456
        >>> sum(parameter_counts(ModelConfig.published("llama-2-7b"), "decoder").values())
        6738415616
    """
    check_type("config", config, ModelConfig)
    check_choice("kind", kind, ("both", "encoder", "decoder"))
    d, d_ff, heads = config.d_model, config.d_ff, config.n_heads
    d_kv, bias = (config.n_kv_heads or heads) * config.d_head, int(config.bias)
    qkv_bias = bias if config.qkv_bias is None else int(config.qkv_bias)
    attention = 2 * d * d + 2 * d * d_kv + qkv_bias * (d + 2 * d_kv) + bias * d
    inner = 2 if config.activation == "swiglu" else 1
    feed_forward = inner * (d * d_ff + bias * d_ff) + d_ff * d + bias * d
    norm = d if config.norm == "rms" else 2 * d
    final = config.pre_norm if config.final_norm is None else config.final_norm
    # Two vectors for each distance from -16 to 16 in every layer; a number per head and
    # bucket of distances in every stack.
    by_layer = 2 * 33 * config.d_head if config.positions == "relative" else 0
    by_stack = 32 * heads if config.positions == "t5" else 0

    vectors = config.vocab_size + config.n_token_types
    vectors += config.max_len if config.positions == "learned" else 0
    counts = {"embeddings": vectors * d + (norm if config.embedding_norm else 0)}
    for stack, n, attentions in (
        ("encoder", config.n_layers, ("self",)),
        ("decoder", config.decoder_layers, ("self", "cross") if kind == "both" else ("self",)),
    ):
        if kind not in ("both", stack):
            continue
        for name in attentions:
            counts[f"{stack}.{name}_attention"] = n * attention
        counts[f"{stack}.self_attention"] += n * by_layer + by_stack
        counts[f"{stack}.feed_forward"] = n * feed_forward
        counts[f"{stack}.norms"] = (n * (len(attentions) + 1) + final) * norm
    if kind == "encoder":
        counts |= {"pooler": d * d + d}
        counts |= {"head": d * d + d + norm} if config.mlm_head else {}
    output = 0 if config.tie_embeddings else config.vocab_size * d
    output += config.vocab_size if config.output_bias else 0
    return counts | ({"output": output} if output else {})
