"""How many parameters a model has, part by part."""

import torch

from transformer_lib.config import ModelConfig
from transformer_lib.models.decoder_only import DecoderOnly
from transformer_lib.models.encoder_only import EncoderOnly
from transformer_lib.models.transformer import Transformer
from transformer_lib.validation import check_choice, check_type


def parameter_counts(config: ModelConfig, kind: str = "both") -> dict[str, int]:
    r"""Count the parameters of each part of a model.

    An attention has :math:`4 d^2 + 4 d` (four matrices with biases), a feed-forward network
    :math:`2 d\, d_{ff} + d_{ff} + d`, a layer norm :math:`2 d`. An encoder layer has one attention,
    one network and two norms; a decoder layer with cross-attention has one more attention and norm.
    The embeddings have :math:`V d`, once, however often they're used.

    Grouped heads shrink two of an attention's matrices to :math:`d \cdot n_{kv} d_{head}`. SwiGLU
    adds a third matrix to the network. An RMS norm has :math:`d`. Without biases, :math:`4 d` and
    :math:`d_{ff} + d` are left out. A separate output matrix adds :math:`V d`.

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
    kinds = {"both": Transformer, "encoder": EncoderOnly, "decoder": DecoderOnly}
    check_choice("kind", kind, kinds)
    with torch.device("meta"):  # sizes without memory
        model = kinds[kind](config)
    counts = {"embeddings": 0}
    for name, parameter in model.named_parameters():
        top, *inner = name.split(".")
        if top == "embedding":
            part = "output" if inner[0] in ("output", "bias") else "embeddings"
        elif top in ("encoder", "decoder"):
            sublayer = inner[2] if inner[0] == "layers" else "norm"
            part = f"{top}.{'norms' if 'norm' in name else sublayer}"
        else:
            part = top.split("_")[0]  # pooler, or head_dense and head_norm
        counts[part] = counts.get(part, 0) + parameter.numel()
    return counts
