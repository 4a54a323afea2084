"""PyTorch's own Transformer: both stacks, on vectors."""

from __future__ import annotations

from typing import Any

from torch import nn

from transformer_lib.config import ModelConfig
from transformer_lib.models import EncoderDecoder
from transformer_lib.multihead import MultiHeadAttention
from transformer_lib.pretrained.peers import copy, copy_tensor

__all__ = ["from_torch"]


def from_torch(peer: nn.Transformer) -> EncoderDecoder:
    """Our two stacks with the weights of a ``torch.nn.Transformer``, copied.

    ``nn.Transformer`` takes vectors, batch first or not; ours is always batch first.
    Its bool masks say True = hidden, ours say True = may attend. Our decoder is
    causal by itself: give ``nn.Transformer`` a causal ``tgt_mask`` to compare.

    Args:
        peer: pre- or post-norm, ReLU or GELU, with biases.

    Returns:
        an :class:`EncoderDecoder` in the peer's dtype, device and mode.

    Raises:
        TypeError: a peer that is not an ``nn.Transformer``.
        ValueError: a peer of a kind ours cannot be: without biases, with another activation, or
            with layers that differ in more than their weights.

    Example:
        >>> import torch
        >>> peer = nn.Transformer(12, 4, 2, 2, 20, batch_first=True).eval()
        >>> source, target = torch.randn(2, 5, 12), torch.randn(2, 3, 12)
        >>> hidden = nn.Transformer.generate_square_subsequent_mask(3)
        >>> ours = from_torch(peer)(source, target)
        >>> torch.testing.assert_close(ours, peer(source, target, tgt_mask=hidden))
    """
    if not isinstance(peer, nn.Transformer):
        raise TypeError(f"peer must be a torch.nn.Transformer, got {type(peer).__name__}")
    for name, kind in (("encoder", nn.TransformerEncoder), ("decoder", nn.TransformerDecoder)):
        if not isinstance(getattr(peer, name), kind):
            raise ValueError(f"peer must have torch's own {name}, got {getattr(peer, name)!r}")
    layers: list[Any] = [*peer.encoder.layers, *peer.decoder.layers]
    if not layers:
        raise ValueError("peer must have layers, got none")
    layer = layers[0]
    if layer.linear1.bias is None:
        raise ValueError("peer must have biases, got an nn.Transformer made with bias=False")
    heads = {each.num_heads for each in _parts(peer, nn.MultiheadAttention)}
    for name, found in {
        "nhead": {peer.nhead, *heads},
        "norm_first": {each.norm_first for each in layers},
        "layer_norm_eps": {each.eps for each in _parts(peer, nn.LayerNorm)},
        # A decoder of torch forgets an activation given as a module, and uses ReLU (2.13).
        "activation": {_activation(each.activation) for each in layers},
    }.items():
        if len(found) > 1:
            raise ValueError(f"peer must have one {name} everywhere, got {sorted(found)}")
    if (peer.encoder.norm is None) != (peer.decoder.norm is None):
        raise ValueError("peer must end both its stacks in a norm or neither, got one of each")
    config = ModelConfig(
        vocab_size=3,  # the stacks have no words; this is the least a config accepts
        d_model=peer.d_model,
        n_heads=peer.nhead,
        n_layers=len(peer.encoder.layers),
        n_decoder_layers=len(peer.decoder.layers),
        d_ff=layer.linear1.out_features,
        dropout=layer.dropout.p,
        pre_norm=layer.norm_first,
        final_norm=peer.encoder.norm is not None,
        norm_eps=layer.norm1.eps,
        activation=_activation(layer.activation),
    )
    ours = EncoderDecoder(config).to(layer.linear1.weight)
    for mine, theirs in zip(ours.encoder.layers, peer.encoder.layers, strict=True):
        _encoder_layer(mine, theirs)
    for mine, theirs in zip(ours.decoder.layers, peer.decoder.layers, strict=True):
        _decoder_layer(mine, theirs)
    if config.final_norm:
        copy(ours.encoder.norm, peer.encoder.norm)
        copy(ours.decoder.norm, peer.decoder.norm)
    return ours.train(peer.training)


def _parts(peer: nn.Transformer, kind: type[nn.Module]) -> list[Any]:
    return [part for part in peer.modules() if isinstance(part, kind)]


def _encoder_layer(mine: Any, theirs: Any) -> None:
    _attention(mine.self_attention, theirs.self_attn)
    copy(mine.attention_residual.norm, theirs.norm1)
    copy(mine.feed_forward_residual.norm, theirs.norm2)
    copy(mine.feed_forward.up, theirs.linear1)
    copy(mine.feed_forward.down, theirs.linear2)


def _decoder_layer(mine: Any, theirs: Any) -> None:
    _attention(mine.self_attention, theirs.self_attn)
    _attention(mine.cross_attention, theirs.multihead_attn)
    copy(mine.self_residual.norm, theirs.norm1)
    copy(mine.cross_residual.norm, theirs.norm2)
    copy(mine.feed_forward_residual.norm, theirs.norm3)
    copy(mine.feed_forward.up, theirs.linear1)
    copy(mine.feed_forward.down, theirs.linear2)


def _attention(mine: MultiHeadAttention, theirs: nn.MultiheadAttention) -> None:
    copy_tensor(mine.in_proj.weight, theirs.in_proj_weight)
    copy_tensor(mine.in_proj.bias, theirs.in_proj_bias)
    copy(mine.out_proj, theirs.out_proj)


def _activation(function: Any) -> str:
    for name, module in (("relu", nn.ReLU), ("gelu", nn.GELU)):
        # torch.relu and F.relu are two objects of one name; a module is a third way.
        same = getattr(function, "__name__", None) == name or isinstance(function, module)
        if same and getattr(function, "approximate", "none") == "none":
            return name
    raise ValueError(f"peer's activation must be ReLU or GELU, got {function!r}")
