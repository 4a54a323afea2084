"""GPT-2: a decoder without an encoder."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from transformer_lib.config import ModelConfig
from transformer_lib.models import DecoderOnly
from transformer_lib.pretrained.peers import (
    activation,
    check_class,
    filler_id,
    load,
    require,
    token_id,
    unfilled,
)

__all__ = ["from_gpt2"]

NAMES = {
    "transformer.": "",
    "wte.": "embedding.tokens.",
    "wpe.weight": "embedding.positions.table",
    "lm_head.weight": "embedding.output",
    "h.": "decoder.layers.",
    "ln_f.": "decoder.norm.",
    "ln_1.": "self_residual.norm.",
    "ln_2.": "feed_forward_residual.norm.",
    "attn.c_attn.": "self_attention.in_proj.",
    "attn.c_proj.": "self_attention.out_proj.",
    "mlp.c_fc.": "feed_forward.up.",
    "mlp.c_proj.": "feed_forward.down.",
}


def from_gpt2(peer: Any) -> DecoderOnly:
    """Convert a GPT-2 into our decoder, with a copy of its weights.

    GPT-2 stores its matrices transposed. It begins and ends texts with the same token, and has none
    for padding. Ours needs an id to pad with: the peer's, if it has a separate one, else 0 (or 1 if
    0 ends texts). That's still a token like any other, so a loss has to find the padding by the
    lengths of the texts.

    GPT-2 has separate dropout rates for the embeddings and the rest of the residual stream. Ours
    uses the latter for both.

    Args:
        peer: a ``GPT2LMHeadModel``, or a ``GPT2Model``, which has no head: ours then computes its
            logits with the embeddings, as GPT-2 does.

    Returns:
        a :class:`DecoderOnly` with the peer's dtype, device and mode.

    Raises:
        TypeError: a peer of another class.
        ValueError: a GPT-2 that ours can't represent (with cross-attention, another scale of the
            scores, another activation, no token that ends a text).

    Source:
        Radford et al. (2019), *Language Models are Unsupervised Multitask Learners*.

    Example:
        >>> import torch
        >>> from transformers import GPT2Config, GPT2LMHeadModel
        >>> sizes = dict(vocab_size=11, n_embd=12, n_head=3, n_layer=2, n_positions=7)
        >>> peer = GPT2LMHeadModel(GPT2Config(**sizes, bos_token_id=10, eos_token_id=10)).eval()
        >>> ids = torch.randint(11, (2, 5))
        >>> torch.testing.assert_close(from_gpt2(peer)(ids), peer(ids).logits)
    """
    check_class(peer, "GPT2LMHeadModel", "GPT2Model")
    theirs, body = peer.config, getattr(peer, "transformer", peer)
    require(
        theirs,
        add_cross_attention=False,
        scale_attn_weights=True,
        scale_attn_by_inverse_layer_idx=False,
    )
    words, head = body.wte.weight, getattr(peer, "lm_head", body.wte).weight
    ours = unfilled(DecoderOnly, config_of(theirs, tied=head is words), words)
    load(ours, transposed(dict(peer.named_parameters())), NAMES)
    return ours.train(peer.training)


def config_of(theirs: Any, *, tied: bool) -> ModelConfig:
    eos_id = token_id(theirs, "eos_token_id")
    return ModelConfig(
        vocab_size=theirs.vocab_size,
        d_model=theirs.n_embd,
        n_heads=theirs.n_head,
        n_layers=theirs.n_layer,
        d_ff=theirs.n_inner or 4 * theirs.n_embd,
        dropout=theirs.resid_pdrop,
        attention_dropout=theirs.attn_pdrop,
        activation_dropout=0.0,
        max_len=theirs.n_positions,
        positions="learned",
        norm_eps=theirs.layer_norm_epsilon,
        activation=activation(theirs, "activation_function"),
        tie_embeddings=tied,
        scale_embeddings=False,
        pad_id=filler_id(theirs, eos_id),
        bos_id=token_id(theirs, "bos_token_id"),
        eos_id=eos_id,
    )


def transposed(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Transpose the matrices that GPT-2 stores with the inputs in rows."""
    return {
        name: tensor.T if tensor.dim() == 2 and ("attn." in name or "mlp." in name) else tensor
        for name, tensor in tensors.items()
    }
