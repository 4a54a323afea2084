"""Marian: the paper's Transformer, in thousands of published translation models."""

from typing import Any

import torch
from torch import Tensor, nn

from transformer_lib.config import ModelConfig
from transformer_lib.layers import FeedForward
from transformer_lib.models import Transformer
from transformer_lib.multihead import MultiHeadAttention
from transformer_lib.pretrained.hugging_face import (
    activation,
    check_class,
    load,
    require,
    token_id,
)

__all__ = ["from_marian"]

_NAMES = {
    "model.shared.": "embedding.tokens.",
    "model.encoder.": "encoder.",
    "model.decoder.": "decoder.",
    "encoder_attn_layer_norm.": "cross_residual.norm.",
    "self_attn_layer_norm.": "self_residual.norm.",
    "final_layer_norm.": "feed_forward_residual.norm.",
    "self_attn.": "self_attention.",
    "encoder_attn.": "cross_attention.",
    "q_proj.": "query.",
    "k_proj.": "key.",
    "v_proj.": "value.",
    "fc1.": "feed_forward.up.",
    "fc2.": "feed_forward.down.",
}


def from_marian(peer: Any) -> Transformer:
    r"""Convert a Marian model into our Transformer, with a copy of its weights.

    Both add the same sines and cosines to their embeddings, in a different order: Marian puts all
    sines before all cosines, ours puts each sine next to its cosine. Let a permutation :math:`P`
    reorder the features of the residual stream, from :math:`x` to :math:`P x`. Then a matrix that
    reads the stream becomes :math:`W P^\top`, and one that writes to it becomes :math:`P W`. The
    scale and shift of a norm are reordered; its mean and variance don't depend on the order. Since
    :math:`P^\top P = I`, everything inside the layers, and every logit, stays the same.

    Marian begins a translation with the padding token: ``bos_id == pad_id``. It should never
    generate that token. To ban it, set its bias to minus infinity, under ``torch.no_grad()``:
    ``model.embedding.bias[model.config.pad_id] = -torch.inf``.

    Args:
        peer: a ``MarianMTModel`` whose source and target share a vocabulary and its embeddings.

    Returns:
        a :class:`Transformer` with the peer's dtype, device and mode.

    Raises:
        TypeError: a peer of another class.
        ValueError: a Marian that ours can't represent (embeddings that aren't shared, encoder and
            decoder of different inner width, another activation, whole layers dropped in
            training).

    Source:
        Junczys-Dowmunt et al. (2018), *Marian: Fast Neural Machine Translation in C++*.

    Example:
        >>> from transformers import MarianConfig, MarianMTModel
        >>> sizes = dict(vocab_size=11, d_model=12, encoder_layers=2, decoder_layers=2)
        >>> heads = dict(encoder_attention_heads=3, decoder_attention_heads=3)
        >>> ids = dict(pad_token_id=10, decoder_start_token_id=10, eos_token_id=0)
        >>> peer = MarianMTModel(MarianConfig(**sizes, **heads, **ids)).eval()
        >>> source, target = torch.randint(10, (2, 7)), torch.randint(10, (2, 5))
        >>> expected = peer(source, decoder_input_ids=target).logits
        >>> torch.testing.assert_close(from_marian(peer)(source, target), expected)
    """
    check_class(peer, "MarianMTModel")
    theirs, encoder, decoder = peer.config, peer.model.encoder, peer.model.decoder
    require(
        theirs,
        share_encoder_decoder_embeddings=True,
        decoder_vocab_size=theirs.vocab_size,
        decoder_attention_heads=theirs.encoder_attention_heads,
        decoder_ffn_dim=theirs.encoder_ffn_dim,
        encoder_layerdrop=0.0,
        decoder_layerdrop=0.0,
    )
    words = encoder.embed_tokens.weight
    for name, other in (("decoder.embed_tokens", decoder.embed_tokens), ("lm_head", peer.lm_head)):
        if other.weight is not words:
            raise ValueError(f"peer's {name} must share the encoder's embeddings")
    config = ModelConfig(
        vocab_size=theirs.vocab_size,
        d_model=theirs.d_model,
        n_heads=theirs.encoder_attention_heads,
        n_layers=theirs.encoder_layers,
        n_decoder_layers=theirs.decoder_layers,
        d_ff=theirs.encoder_ffn_dim,
        dropout=theirs.dropout,
        attention_dropout=theirs.attention_dropout,
        activation_dropout=theirs.activation_dropout,
        max_len=theirs.max_position_embeddings,
        pre_norm=False,
        norm_eps=encoder.layers[0].final_layer_norm.eps,
        activation=activation(theirs, "activation_function"),
        scale_embeddings=theirs.scale_embedding,
        output_bias=True,
        pad_id=token_id(theirs, "pad_token_id"),
        bos_id=token_id(theirs, "decoder_start_token_id"),
        eos_id=token_id(theirs, "eos_token_id"),
    )
    ours: Any = Transformer(config).to(words)
    tensors = {"embedding.bias": peer.final_logits_bias[0]}
    for name, tensor in peer.named_parameters():
        if name.startswith("model.encoder."):  # we name its norms differently from a decoder's
            name = name.replace("self_attn_layer_norm.", "attention_residual.norm.")
        if "embed_positions" not in name:
            tensors[name] = tensor
    load(ours, tensors, _NAMES)
    order = torch.arange(config.d_model, device=words.device).view(2, -1).T.flatten()
    _reorder_features(ours, order)
    return ours.train(peer.training)


@torch.no_grad()
def _reorder_features(model: Transformer, order: Tensor) -> None:
    """Make feature ``order[i]`` of the residual stream feature ``i`` everywhere."""
    model.embedding.weight.copy_(model.embedding.weight[:, order])
    for module in model.modules():
        if isinstance(module, nn.LayerNorm):
            module.weight.copy_(module.weight[order])
            module.bias.copy_(module.bias[order])
        elif isinstance(module, MultiHeadAttention | FeedForward):
            attends = isinstance(module, MultiHeadAttention)
            reads: Any = module.in_proj if attends else module.up
            writes: Any = module.out_proj if attends else module.down
            reads.weight.copy_(reads.weight[:, order])
            writes.weight.copy_(writes.weight[order])
            writes.bias.copy_(writes.bias[order])
