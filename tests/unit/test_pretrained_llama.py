"""Parity with Hugging Face's Llama, Mistral and Qwen2: same weights, same numbers, same text."""

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from test_pretrained_peers import V, llama, randomised, writer
from transformers import (
    LlamaConfig,
    MistralConfig,
    MistralForCausalLM,
    Qwen2Config,
    Qwen2ForCausalLM,
)

from transformer_lib.decoding import greedy
from transformer_lib.pretrained import from_llama


def rope(base: float, **scaling: Any) -> dict[str, Any]:
    """Settings for the config of the installed version of transformers."""
    if hasattr(LlamaConfig(), "rope_parameters"):
        return {"rope_parameters": {"rope_type": "default", "rope_theta": base} | scaling}
    return {"rope_theta": base, "rope_scaling": scaling or None}


def mistral(**options: Any) -> Any:
    return llama(MistralForCausalLM, MistralConfig, **options)


def qwen2(**options: Any) -> Any:
    return llama(Qwen2ForCausalLM, Qwen2Config, **options)


HALVED = rope(10_000.0, rope_type="linear", factor=2.0)


@pytest.mark.parametrize(
    "make, options",
    [
        (llama, {}),
        (llama, {"num_key_value_heads": 5}),
        (llama, {"heads": 10, "num_key_value_heads": 2, "tie_word_embeddings": True}),
        (llama, rope(500.0)),
        (llama, {"rms_norm_eps": 0.1, "attention_bias": True, "mlp_bias": True}),
        (mistral, {"sliding_window": None}),
        (mistral, {"sliding_window": 11}),
        (qwen2, {}),
        (qwen2, {"use_sliding_window": True, "sliding_window": 11, "max_window_layers": 1}),
    ],
)
def test_it_predicts_the_same(make: Any, options: dict) -> None:
    peer = randomised(make(**options), torch.float32)
    ids = torch.randint(V, (3, 11))
    ids[0] = torch.arange(11)  # the padding is a token like any other
    ours = from_llama(peer)
    torch.testing.assert_close(ours(ids), peer(ids).logits, rtol=3e-6, atol=3e-6)
    assert sum(p.numel() for p in ours.parameters()) == peer.num_parameters()


@pytest.mark.parametrize("make", [llama, mistral, qwen2])
def test_it_writes_the_same_text(make: Any) -> None:
    """Token by token, both with their caches."""
    peer = writer(make())
    ours, prompt = from_llama(peer), torch.randint(V, (9, 3))
    expected = peer.generate(
        prompt, attention_mask=torch.ones_like(prompt), do_sample=False, max_new_tokens=19,
        pad_token_id=0,
    )[:, 3:]  # fmt: skip
    found = greedy(ours, prompt[:, :-1], bos_id=prompt[:, -1], max_len=19, eos_id=7, pad_id=0)
    assert found.ids.equal(expected)
    ended = (expected == 7).any(1)  # some rows end, and there are many words
    assert ended.any() and not ended.all() and len(expected.unique()) > 7


@pytest.mark.parametrize("make", [mistral, qwen2])
def test_a_sliding_window_limits_the_length(make: Any) -> None:
    """Up to its length the window hides nothing; with one more token it does."""
    window = {"use_sliding_window": True, "max_window_layers": 0} if make is qwen2 else {}
    peer = randomised(make(sliding_window=7, **window))
    ours, ids = from_llama(peer), torch.randint(V, (3, 8))
    assert ours.config.max_len == 7
    torch.testing.assert_close(ours(ids[:, :7]), peer(ids[:, :7]).logits, rtol=1e-5, atol=1e-5)
    with pytest.raises(ValueError, match=r"ids of length 8 is longer than max_len \(7\)"):
        ours(ids)
    wide = from_llama(randomised(make()))
    assert not torch.allclose(wide(ids)[:, -1], peer(ids).logits[:, -1], atol=1e-2)


def test_its_ids() -> None:
    config = from_llama(llama(bos_token_id=None, eos_token_id=[8, 7])).config
    assert (config.pad_id, config.bos_id, config.eos_id) == (0, 8, 8)


@pytest.mark.parametrize(
    "make, complaint",
    [
        (lambda: llama(**HALVED), "rope_type must be 'default', got 'linear'"),
        (lambda: llama(head_dim=6), "head_dim must be 4, hidden_size / num_att.*; got 6"),
        (lambda: llama(attention_bias=True), "mlp_bias must be the same; got True and False"),
        (lambda: llama(hidden_act="gelu"), "hidden_act must be 'silu', got 'gelu'"),
        (lambda: qwen2(eos_token_id=None), r"eos_token_id must be in \[0, 37\), got None"),
    ],
)
def test_what_ours_cannot_represent_is_refused(make: Any, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        from_llama(make())


@pytest.mark.parametrize("make", [llama, mistral, qwen2])
def test_rotary_settings_of_transformers_4(make: Any) -> None:
    peer = make(**rope(500.0))
    settings = peer.config.to_dict() | {"rope_parameters": None, "rope_theta": 500.0}
    peer.config = SimpleNamespace(**settings | {"rope_scaling": None})
    assert from_llama(peer).config.rotary_base == 500.0
    for name in ("type", "rope_type"):
        peer.config = SimpleNamespace(**settings | {"rope_scaling": {name: "linear"}})
        with pytest.raises(ValueError, match="rope_type must be 'default', got 'linear'"):
            from_llama(peer)
