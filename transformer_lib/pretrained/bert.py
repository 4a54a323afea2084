"""BERT: an encoder without a decoder."""

from __future__ import annotations

import logging
from typing import Any

from transformer_lib.config import ModelConfig
from transformer_lib.models import EncoderOnly
from transformer_lib.pretrained.peers import (
    activation,
    check_class,
    copy,
    copy_tensor,
    layers,
    require,
    token_id,
)

__all__ = ["from_bert"]

_log = logging.getLogger(__name__)


def from_bert(peer: Any) -> EncoderOnly:
    """Convert a BERT into our encoder, with a copy of its weights.

    Ours takes no ``attention_mask``: it hides padding by itself. If the peer lacks a part
    (``BertForMaskedLM`` has no pooler, ``BertModel`` no head for masked words), ours gets random
    weights there, and logs a warning. The head for the next sentence isn't copied.

    An encoder doesn't generate text, and BERT's config doesn't name its [CLS] and [SEP]. So
    ``bos_id`` and ``eos_id`` of our config mean nothing.

    Args:
        peer: a ``BertModel``, ``BertForMaskedLM`` or ``BertForPreTraining``.

    Returns:
        an :class:`EncoderOnly` with the peer's dtype, device and mode.

    Raises:
        TypeError: a peer of another class.
        ValueError: a BERT that ours can't represent (a decoder, relative positions, another
            activation, no padding).

    Source:
        Devlin et al. (2019), *BERT*, section 3.

    Example:
        >>> import torch
        >>> from transformers import BertConfig, BertForPreTraining
        >>> sizes = dict(vocab_size=11, hidden_size=12, num_hidden_layers=2, intermediate_size=20)
        >>> peer = BertForPreTraining(BertConfig(**sizes, num_attention_heads=3)).eval()
        >>> ids, types = torch.randint(1, 11, (2, 5)), torch.randint(2, (2, 5))
        >>> expected = peer(ids, token_type_ids=types).prediction_logits
        >>> torch.testing.assert_close(from_bert(peer)(ids, types), expected)
    """
    check_class(peer, "BertModel", "BertForMaskedLM", "BertForPreTraining")
    theirs, body = peer.config, getattr(peer, "bert", peer)
    head = peer.cls.predictions if hasattr(peer, "cls") else None
    require(theirs, is_decoder=False, add_cross_attention=False)
    # transformers 4 implements others; 5 still reads the entry, but ignores it.
    kind = getattr(theirs, "position_embedding_type", "absolute")
    if kind != "absolute":
        raise ValueError(f"peer's position_embedding_type must be 'absolute', got {kind!r}")
    if head is not None:  # the head has the layers' activation; ours always has GELU
        require(theirs, hidden_act="gelu")
    pad_id, words = token_id(theirs, "pad_token_id"), body.embeddings.word_embeddings.weight
    config = ModelConfig(
        vocab_size=theirs.vocab_size,
        d_model=theirs.hidden_size,
        n_heads=theirs.num_attention_heads,
        n_layers=theirs.num_hidden_layers,
        d_ff=theirs.intermediate_size,
        dropout=theirs.hidden_dropout_prob,
        attention_dropout=theirs.attention_probs_dropout_prob,
        activation_dropout=0.0,
        max_len=theirs.max_position_embeddings,
        positions="learned",
        pre_norm=False,
        norm_eps=theirs.layer_norm_eps,
        activation=activation(theirs, "hidden_act"),
        tie_embeddings=head is None or head.decoder.weight is words,
        scale_embeddings=False,
        embedding_norm=True,
        output_bias=True,
        n_token_types=theirs.type_vocab_size,
        pad_id=pad_id,
        bos_id=pad_id,
        eos_id=(pad_id + 1) % theirs.vocab_size,
    )
    with words.device:
        ours: Any = EncoderOnly(config).to(words)
    copy_tensor(ours.embedding.weight, words)
    copy_tensor(ours.embedding.types.weight, body.embeddings.token_type_embeddings.weight)
    copy_tensor(ours.embedding.positions.table, body.embeddings.position_embeddings.weight)
    copy(ours.embedding.norm, body.embeddings.LayerNorm)
    for mine, layer in layers(ours.encoder.layers, body.encoder.layer):
        own = layer.attention.self
        mine.self_attention.load_projections(
            own.query, own.key, own.value, layer.attention.output.dense
        )
        copy(mine.attention_residual.norm, layer.attention.output.LayerNorm)
        copy(mine.feed_forward.up, layer.intermediate.dense)
        copy(mine.feed_forward.down, layer.output.dense)
        copy(mine.feed_forward_residual.norm, layer.output.LayerNorm)
    _heads(ours, body.pooler, head)
    return ours.train(peer.training)


def _heads(ours: Any, pooler: Any, head: Any) -> None:
    if pooler is None:
        _log.warning("peer has no pooler: the new model's is initialized at random")
    else:
        copy(ours.pooler, pooler.dense)
    if head is None:
        _log.warning("peer has no head for masked words: the new model's is initialized at random")
        return
    copy(ours.head_dense, head.transform.dense)
    copy(ours.head_norm, head.transform.LayerNorm)
    copy_tensor(ours.embedding.bias, head.decoder.bias)
    if ours.embedding.output is not None:
        copy_tensor(ours.embedding.output, head.decoder.weight)
