"""BERT: an encoder without a decoder."""

from __future__ import annotations

import logging
from typing import Any

from transformer_lib.config import ModelConfig
from transformer_lib.models import EncoderOnly
from transformer_lib.pretrained.peers import (
    activation,
    check_class,
    load,
    require,
    token_id,
)

__all__ = ["from_bert"]

_log = logging.getLogger(__name__)
_NAMES = {
    "bert.": "",
    "embeddings.word_embeddings.": "embedding.tokens.",
    "embeddings.position_embeddings.weight": "embedding.positions.table",
    "embeddings.token_type_embeddings.": "embedding.types.",
    "embeddings.LayerNorm.": "embedding.norm.",
    "encoder.layer.": "encoder.layers.",
    "attention.self.": "self_attention.",
    "attention.output.dense.": "self_attention.out_proj.",
    "attention.output.LayerNorm.": "attention_residual.norm.",
    "intermediate.dense.": "feed_forward.up.",
    "output.dense.": "feed_forward.down.",
    "output.LayerNorm.": "feed_forward_residual.norm.",
    "pooler.dense.": "pooler.",
    "cls.predictions.transform.dense.": "head_dense.",
    "cls.predictions.transform.LayerNorm.": "head_norm.",
    "cls.predictions.bias": "embedding.bias",
    "cls.predictions.decoder.weight": "embedding.output",
    "cls.predictions.decoder.bias": "embedding.bias",  # unless it's tied to the one above
}


def from_bert(peer: Any) -> EncoderOnly:
    """Convert a BERT into our encoder, with a copy of its weights.

    Ours takes no ``attention_mask``: it hides padding by itself. A ``BertModel`` has no head for
    hidden words, so ours returns vectors, the peer's ``last_hidden_state``. If the peer has no
    pooler, as ``BertForMaskedLM``, ours gets one with random weights, and logs a warning. The head
    for the next sentence isn't copied.

    An encoder doesn't generate text: ``bos_id`` and ``eos_id`` of our config mean nothing.

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
        output_bias=head is not None,
        mlm_head=head is not None,
        n_token_types=theirs.type_vocab_size,
        pad_id=pad_id,
        bos_id=pad_id,
        eos_id=(pad_id + 1) % theirs.vocab_size,
    )
    with words.device:
        ours: Any = EncoderOnly(config).to(words)
    tensors = {n: p for n, p in peer.named_parameters() if not n.startswith("cls.seq_relationship")}
    random = {}
    if body.pooler is None:
        _log.warning("peer has no pooler: the new model's is initialized at random")
        random = {n: t for n, t in ours.state_dict().items() if n.startswith("pooler")}
    load(ours, tensors | random, _NAMES)
    return ours.train(peer.training)
