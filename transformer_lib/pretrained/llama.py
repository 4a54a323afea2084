"""Llama, Mistral and Qwen2: decoders that share an architecture."""

from __future__ import annotations

from typing import Any

from transformer_lib.config import ModelConfig
from transformer_lib.models import DecoderOnly
from transformer_lib.pretrained.peers import (
    check_class,
    filler_id,
    load,
    require,
    token_id,
    unfilled,
)

__all__ = ["from_llama"]

_NAMES = {
    "model.embed_tokens.": "embedding.tokens.",
    "lm_head.weight": "embedding.output",
    "model.layers.": "decoder.layers.",
    "model.norm.": "decoder.norm.",
    "input_layernorm.": "self_residual.norm.",
    "post_attention_layernorm.": "feed_forward_residual.norm.",
    "self_attn.q_proj.": "self_attention.query.",
    "self_attn.k_proj.": "self_attention.key.",
    "self_attn.v_proj.": "self_attention.value.",
    "self_attn.o_proj.": "self_attention.out_proj.",
    "mlp.gate_proj.": "feed_forward.gate.",
    "mlp.up_proj.": "feed_forward.up.",
    "mlp.down_proj.": "feed_forward.down.",
}


def from_llama(peer: Any) -> DecoderOnly:
    """Convert a Llama, a Mistral or a Qwen2 into our decoder, with a copy of its weights.

    All three are pre-norm stacks with RMS norm, SwiGLU, rotary positions and grouped heads. The
    only biases are in Qwen2's queries, keys and values. Hugging Face pairs the features of a head
    by halves, as :class:`RotaryPositions` does; Llama's own files pair neighbors.

    If the peer has a sliding window, ours takes texts up to that length, where the window hides
    nothing, and refuses longer ones.

    For padding, see :func:`from_gpt2`. If several tokens can end a text, ours uses the first. If
    none begins a text, ours uses the one that ends it.

    Args:
        peer: a ``LlamaForCausalLM``, ``MistralForCausalLM`` or ``Qwen2ForCausalLM``.

    Returns:
        a :class:`DecoderOnly` with the peer's dtype, device and mode.

    Raises:
        TypeError: a peer of another class.
        ValueError: a peer that ours can't represent (scaled rotary positions, heads of a width
            other than ``hidden_size / num_attention_heads``, biases in some places only, another
            activation, no token that ends a text).

    Source:
        Touvron et al. (2023), *LLaMA*; Jiang et al. (2023), *Mistral 7B*; Yang et al. (2024),
        *Qwen2 Technical Report*.

    Example:
        >>> import torch
        >>> from transformers import LlamaConfig, LlamaForCausalLM
        >>> sizes = dict(vocab_size=11, hidden_size=12, num_hidden_layers=2, intermediate_size=20)
        >>> heads = dict(num_attention_heads=3, num_key_value_heads=1)
        >>> peer = LlamaForCausalLM(LlamaConfig(**sizes, **heads)).eval()
        >>> ids = torch.randint(11, (2, 5))
        >>> torch.testing.assert_close(from_llama(peer)(ids), peer(ids).logits)
    """
    check_class(peer, "LlamaForCausalLM", "MistralForCausalLM", "Qwen2ForCausalLM")
    theirs, body, first = peer.config, peer.model, peer.model.layers[0]
    require(theirs, hidden_act="silu")
    wanted, width = theirs.hidden_size // theirs.num_attention_heads, first.self_attn.head_dim
    if width != wanted:
        raise ValueError(
            f"peer's head_dim must be {wanted}, hidden_size / num_attention_heads; got {width}"
        )
    if (first.self_attn.o_proj.bias is None) != (first.mlp.up_proj.bias is None):
        raise ValueError(
            "peer's attention_bias and mlp_bias must be the same; "
            f"got {theirs.attention_bias} and {theirs.mlp_bias}"
        )
    eos_id, longest = token_id(theirs, "eos_token_id"), theirs.max_position_embeddings
    words = body.embed_tokens.weight
    config = ModelConfig(
        vocab_size=theirs.vocab_size,
        d_model=theirs.hidden_size,
        n_heads=theirs.num_attention_heads,
        n_kv_heads=theirs.num_key_value_heads,
        n_layers=theirs.num_hidden_layers,
        d_ff=theirs.intermediate_size,
        dropout=0.0,
        attention_dropout=theirs.attention_dropout,
        max_len=min(getattr(theirs, "sliding_window", None) or longest, longest),
        positions="rotary",
        rotary_base=_rotary_base(theirs),
        norm="rms",
        norm_eps=theirs.rms_norm_eps,
        activation="swiglu",
        bias=first.mlp.up_proj.bias is not None,
        qkv_bias=first.self_attn.q_proj.bias is not None,
        tie_embeddings=peer.lm_head.weight is words,
        scale_embeddings=False,
        pad_id=filler_id(theirs, eos_id),
        bos_id=eos_id if theirs.bos_token_id is None else token_id(theirs, "bos_token_id"),
        eos_id=eos_id,
    )
    ours = unfilled(DecoderOnly, config, words)
    load(ours, dict(peer.named_parameters()), _NAMES)
    return ours.train(peer.training)


def _rotary_base(theirs: Any) -> float:
    rope = getattr(theirs, "rope_parameters", None)
    if rope is None:  # transformers before version 5
        rope = {"rope_theta": theirs.rope_theta} | (getattr(theirs, "rope_scaling", None) or {})
    kind = rope.get("rope_type", rope.get("type", "default"))
    if kind != "default":
        raise ValueError(
            f"peer's rope_type must be 'default', got {kind!r}: ours can't scale rotary positions"
        )
    return rope["rope_theta"]
