"""Published numbers of parameters: our models, our formula and the peers have the same."""

from dataclasses import replace
from typing import Any

import pytest
import torch
from transformers import (
    BertConfig,
    BertModel,
    GPT2Config,
    GPT2LMHeadModel,
    LlamaConfig,
    LlamaForCausalLM,
    MistralConfig,
    MistralForCausalLM,
)

from transformer_lib import DecoderOnly, EncoderOnly, ModelConfig, parameter_counts
from transformer_lib.pretrained import from_bert, from_gpt2, from_llama

BERT_LARGE = {
    "hidden_size": 1024, "num_attention_heads": 16, "num_hidden_layers": 24,
    "intermediate_size": 4096,
}  # fmt: skip
LLAMA_2: dict[str, Any] = {"max_position_embeddings": 4096, "rms_norm_eps": 1e-5}
LLAMA_3: dict[str, Any] = {
    "vocab_size": 128_256, "num_key_value_heads": 8, "intermediate_size": 14_336,
    "max_position_embeddings": 8192, "rms_norm_eps": 1e-5, "bos_token_id": 128_000,
    "eos_token_id": 128_001, "rope_parameters": {"rope_type": "default", "rope_theta": 500_000.0},
}  # fmt: skip
MISTRAL: dict[str, Any] = {"max_position_embeddings": 32_768, "rms_norm_eps": 1e-5}
CARDS = {  # the published number of parameters; the peer's class and settings
    "gpt2": (124_439_808, GPT2LMHeadModel, GPT2Config()),
    "bert-base": (109_482_240, BertModel, BertConfig()),
    "bert-large": (335_141_888, BertModel, BertConfig(**BERT_LARGE)),
    "llama-2-7b": (6_738_415_616, LlamaForCausalLM, LlamaConfig(**LLAMA_2)),
    "llama-3-8b": (8_030_261_248, LlamaForCausalLM, LlamaConfig(**LLAMA_3)),
    "mistral-7b": (7_241_732_096, MistralForCausalLM, MistralConfig(**MISTRAL)),
}
HEAD = ("head", "output")  # for masked words; BERT's number leaves it out


@pytest.mark.parametrize("name", CARDS)
def test_the_published_number_of_parameters_is_ours(name: str) -> None:
    published, kind, settings = CARDS[name]
    config, bert = ModelConfig.published(name), kind is BertModel
    with torch.device("meta"):
        peer, ours = kind(settings), (EncoderOnly if bert else DecoderOnly)(config)
    counts = parameter_counts(config, "encoder" if bert else "decoder")
    left_out = sum(counts[part] for part in HEAD) if bert else 0
    assert sum(counts.values()) - left_out == published
    assert sum(p.numel() for p in ours.parameters()) - left_out == published
    assert peer.num_parameters() == published
    assert all(tensor.is_meta for tensor in (*ours.parameters(), *ours.buffers()))


@pytest.mark.parametrize("name", CARDS)
def test_a_published_config_is_what_a_conversion_gives(name: str) -> None:
    """But for BERT's head, and two ids that no model reads: its settings don't name them."""
    _, kind, settings = CARDS[name]
    with torch.device("meta"):
        peer = kind(settings)
    other: dict[str, Any] = {"bos_id": 101, "eos_id": 102, "mlm_head": True, "output_bias": True}
    other = other if kind is BertModel else {}
    convert = {BertModel: from_bert, GPT2LMHeadModel: from_gpt2}.get(kind, from_llama)
    assert replace(convert(peer).config, **other) == ModelConfig.published(name)


def test_changes() -> None:
    small = ModelConfig.published("llama-2-7b", n_layers=2, vocab_size=99)
    assert (small.n_layers, small.vocab_size, small.d_model) == (2, 99, 4096)
