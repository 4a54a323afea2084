"""Hugging Face's BERT, GPT-2 and Llama, and what all conversions share.

Its models are recognized by the names of their classes: ``transformers`` is never imported here.
"""

import logging
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from transformer_lib.config import ModelConfig
from transformer_lib.models import DecoderOnly, EncoderOnly
from transformer_lib.validation import FLOATS

__all__ = ["from_bert", "from_gpt2", "from_llama"]

_log = logging.getLogger(__name__)

# Parts of the peers' names, and what we call them.
_BERT = {
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
GPT2_NAMES = {
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
_LLAMA = {
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
_ACTIVATIONS = {
    "relu": "relu",
    "gelu": "gelu",
    "gelu_new": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
    "silu": "silu",
    "swish": "silu",
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
    load(ours, tensors | random, _BERT)
    return ours.train(peer.training)


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
    ours = unfilled(DecoderOnly, gpt2_config(theirs, tied=head is words), words)
    load(ours, transposed(dict(peer.named_parameters())), GPT2_NAMES)
    return ours.train(peer.training)


def gpt2_config(theirs: Any, *, tied: bool) -> ModelConfig:
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
    load(ours, dict(peer.named_parameters()), _LLAMA)
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


# What conversions share


def check_class(peer: Any, *names: str) -> None:
    """Raise unless ``peer`` is an unquantized model of ``transformers`` of one of these classes."""
    for base in type(peer).__mro__:
        if base.__name__ in names and base.__module__.startswith("transformers."):
            break
    else:
        wanted = " or ".join(names)
        raise TypeError(f"peer must be a {wanted} of transformers, got {type(peer).__name__}")
    for name, parameter in peer.named_parameters():
        if parameter.dtype not in FLOATS:
            raise ValueError(f"peer must not be quantized: its {name} is {parameter.dtype}")


def require(config: Any, **wanted: Any) -> None:
    """Raise a ValueError unless the peer's config has these values."""
    for name, value in wanted.items():
        if getattr(config, name) != value:
            raise ValueError(f"peer's {name} must be {value!r}, got {getattr(config, name)!r}")


def activation(config: Any, name: str) -> str:
    """Return our name for the peer's activation function, ``name`` in its config."""
    theirs = getattr(config, name)
    if theirs not in _ACTIVATIONS:
        wanted = ", ".join(map(repr, _ACTIVATIONS))
        raise ValueError(f"peer's {name} must be one of {wanted}; got {theirs!r}")
    return _ACTIVATIONS[theirs]


def token_id(config: Any, name: str) -> int:
    """Return the id called ``name`` in the peer's config, or the first of several."""
    value = getattr(config, name)
    if isinstance(value, list) and value:
        value = value[0]
    if not isinstance(value, int) or not 0 <= value < config.vocab_size:
        raise ValueError(f"peer's {name} must be in [0, {config.vocab_size}), got {value!r}")
    return value


def filler_id(config: Any, eos_id: int) -> int:
    """Choose an id to pad with: the peer's, if it's a separate one, else 0 (1 if 0 ends texts)."""
    pad_id = config.pad_token_id
    if pad_id is None or pad_id == eos_id or not 0 <= pad_id < config.vocab_size:
        return 1 if eos_id == 0 else 0
    return pad_id


def unfilled(kind: Any, config: Any, like: Tensor) -> Any:
    """Make a model with uninitialized weights, with the dtype and device of ``like``.

    Initializing billions of weights, only to overwrite them, would take minutes.
    """
    with torch.device("meta"):
        model = kind(config)
    return model.to(like.dtype).to_empty(device=like.device)


@torch.no_grad()
def load(ours: nn.Module, theirs: Mapping[str, Tensor], names: Mapping[str, str]) -> None:
    """Copy a peer's tensors into our model, and join the projections of attention.

    Args:
        ours: the model.
        theirs: the peer's tensors, by name.
        names: parts of the peer's names and what we call them, replaced in this order.

    Raises:
        ValueError: a tensor is missing, unexpected or of another shape.
    """
    found = {}
    for name, tensor in theirs.items():
        for part, our_part in names.items():
            name = name.replace(part, our_part)
        found[name] = tensor
    for name in list(found):
        three = [name.replace(".query.", f".{part}.") for part in ("query", "key", "value")]
        if ".query." in name and all(part in found for part in three):
            joined = torch.cat([found.pop(part) for part in three])
            found[name.replace(".query.", ".in_proj.")] = joined
    try:
        ours.load_state_dict(found)
    except RuntimeError as error:
        raise ValueError(
            "peer's weights must be those that its config says, and an adapter such as LoRA must "
            f"be merged into them first: {error}"
        ) from error
