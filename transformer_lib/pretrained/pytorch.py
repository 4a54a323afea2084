"""PyTorch's own Transformer, encoder and attention."""

from typing import Any

from torch import nn

from transformer_lib.config import ModelConfig
from transformer_lib.models import Encoder, EncoderDecoder
from transformer_lib.multihead import MultiHeadAttention
from transformer_lib.pretrained.hugging_face import load

__all__ = ["from_torch"]

_LAYER = {
    "in_proj_": "in_proj.",
    "self_attn.": "self_attention.",
    "multihead_attn.": "cross_attention.",
    "linear1.": "feed_forward.up.",
    "linear2.": "feed_forward.down.",
}
_ENCODER = _LAYER | {
    "norm1.": "attention_residual.norm.",
    "norm2.": "feed_forward_residual.norm.",
}
_DECODER = _LAYER | {
    "norm1.": "self_residual.norm.",
    "norm2.": "cross_residual.norm.",
    "norm3.": "feed_forward_residual.norm.",
}


def from_torch(peer: Any) -> Any:
    """Convert a module of PyTorch's into ours, with a copy of its weights.

    Ours are always batch first. In PyTorch's bool masks, True means hidden; in ours, it means may
    attend. Our decoder is always causal: to compare, give ``nn.Transformer`` a causal ``tgt_mask``.

    Args:
        peer: an ``nn.Transformer`` or ``nn.TransformerEncoder``, pre- or post-norm, with ReLU or
            GELU and biases; or an ``nn.MultiheadAttention``, with or without biases.

    Returns:
        an :class:`EncoderDecoder`, an :class:`Encoder` or a :class:`MultiHeadAttention`, with the
        peer's dtype, device and mode.

    Raises:
        TypeError: a peer of another class.
        ValueError: a peer that ours can't represent: a Transformer without biases, with another
            activation, or with layers that differ in more than their weights; attention with
            ``add_bias_kv``, ``add_zero_attn``, or keys or values of another width.

    Example:
        >>> import torch
        >>> peer = nn.Transformer(12, 4, 2, 2, 20, batch_first=True).eval()
        >>> source, target = torch.randn(2, 5, 12), torch.randn(2, 3, 12)
        >>> hidden = nn.Transformer.generate_square_subsequent_mask(3)
        >>> ours = from_torch(peer)(source, target)
        >>> torch.testing.assert_close(ours, peer(source, target, tgt_mask=hidden))
    """
    if isinstance(peer, nn.Transformer):
        return _transformer(peer)
    if isinstance(peer, nn.TransformerEncoder):
        ours = Encoder(_config(peer)).to(next(peer.parameters()))
        load(ours, dict(peer.named_parameters()), _ENCODER)
        return ours.train(peer.training)
    if isinstance(peer, nn.MultiheadAttention):
        return _multihead(peer)
    raise TypeError(
        "peer must be a torch.nn.Transformer, TransformerEncoder or MultiheadAttention; got "
        f"{type(peer).__name__}"
    )


def _transformer(peer: nn.Transformer) -> EncoderDecoder:
    for name, kind in (("encoder", nn.TransformerEncoder), ("decoder", nn.TransformerDecoder)):
        if not isinstance(getattr(peer, name), kind):
            raise ValueError(f"peer must have PyTorch's own {name}, got {getattr(peer, name)!r}")
    encoder: Any = peer.encoder
    decoder: Any = peer.decoder
    ours = EncoderDecoder(_config(encoder, decoder)).to(next(peer.parameters()))
    load(ours.encoder, dict(encoder.named_parameters()), _ENCODER)
    load(ours.decoder, dict(decoder.named_parameters()), _DECODER)
    return ours.train(peer.training)


def _config(*stacks: Any) -> ModelConfig:
    layers = [layer for stack in stacks for layer in stack.layers]
    parts = [part for stack in stacks for part in stack.modules()]
    if not layers:
        raise ValueError("peer must have layers, got none")
    layer = layers[0]
    if layer.linear1.bias is None:
        raise ValueError("peer must have biases, got one made with bias=False")
    attentions = [part for part in parts if isinstance(part, nn.MultiheadAttention)]
    for name, found in {
        "nhead": {each.num_heads for each in attentions},
        "norm_first": {each.norm_first for each in layers},
        "layer_norm_eps": {part.eps for part in parts if isinstance(part, nn.LayerNorm)},
        # PyTorch's decoder ignores an activation given as a module, and uses ReLU (2.13).
        "activation": {_activation(each.activation) for each in layers},
    }.items():
        if len(found) > 1:
            raise ValueError(f"peer must have one {name} everywhere, got {sorted(found)}")
    if len({stack.norm is None for stack in stacks}) > 1:
        raise ValueError("peer must have a final norm in both its stacks or neither, got one")
    return ModelConfig(
        vocab_size=3,  # not used by the stacks; the smallest that a config accepts
        d_model=attentions[0].embed_dim,
        n_heads=attentions[0].num_heads,
        n_layers=len(stacks[0].layers),
        n_decoder_layers=len(stacks[-1].layers),
        d_ff=layer.linear1.out_features,
        dropout=layer.dropout.p,
        pre_norm=layer.norm_first,
        final_norm=stacks[0].norm is not None,
        norm_eps=layer.norm1.eps,
        activation=_activation(layer.activation),
    )


def _multihead(peer: nn.MultiheadAttention) -> MultiHeadAttention:
    if peer.in_proj_weight is None:
        raise ValueError(
            f"peer's keys and values must be as wide as its queries, {peer.embed_dim}; got kdim "
            f"{peer.kdim} and vdim {peer.vdim}"
        )
    if peer.bias_k is not None or peer.add_zero_attn:
        raise ValueError("peer must be made without add_bias_kv and add_zero_attn")
    ours = MultiHeadAttention(
        d_model=peer.embed_dim,
        n_heads=peer.num_heads,
        dropout=peer.dropout,
        bias=peer.in_proj_bias is not None,
    ).to(peer.in_proj_weight)
    load(ours, dict(peer.named_parameters()), _LAYER)
    return ours.train(peer.training)


def _activation(function: Any) -> str:
    for name, module in (("relu", nn.ReLU), ("gelu", nn.GELU)):
        # torch.relu and F.relu are different functions with the same name.
        same = getattr(function, "__name__", None) == name or isinstance(function, module)
        if same and getattr(function, "approximate", "none") == "none":
            return name
    raise ValueError(f"peer's activation must be ReLU or GELU, got {function!r}")
