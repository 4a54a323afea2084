"""The answers in the bundled folders are those of Hugging Face's own classes.

Chapter 22 and the project compare a reader's model with them if `transformers` isn't installed.
`experiments/bundle.py` writes them.
"""

import pytest
import torch
from safetensors.torch import load_file
from transformers import GPT2LMHeadModel, LlamaForCausalLM

from transformer_lib.pretrained import bundled_folder, from_llama, load_bundled


@pytest.fixture(scope="module")
def answers():
    return {
        name: load_file(bundled_folder(name) / "answers.safetensors")
        for name in ("shakespeare", "tiny-llama")
    }


def test_gpt2_computes_the_stored_answers(answers):
    stored = answers["shakespeare"]
    peer = GPT2LMHeadModel.from_pretrained(bundled_folder("shakespeare")).double().eval()
    with torch.no_grad():
        torch.testing.assert_close(peer(stored["ids"]).logits, stored["logits"])
        ours = load_bundled("shakespeare")[0].double()(stored["ids"])
    torch.testing.assert_close(ours, stored["logits"], atol=1e-10, rtol=0)
    assert stored["ids"].shape == (1, 64)


def test_a_llama_computes_the_stored_answers(answers):
    stored = answers["tiny-llama"]
    peer = LlamaForCausalLM.from_pretrained(bundled_folder("tiny-llama")).eval()
    with torch.no_grad():
        torch.testing.assert_close(peer(stored["ids"]).logits, stored["logits"], atol=1e-5, rtol=0)
        ours = from_llama(peer)(stored["ids"])
    torch.testing.assert_close(ours, stored["logits"], atol=1e-5, rtol=0)


def test_a_llama_writes_the_stored_text(answers):
    written = answers["tiny-llama"]["written"]
    peer = LlamaForCausalLM.from_pretrained(bundled_folder("tiny-llama")).eval()
    peer.generation_config.eos_token_id = None
    again = peer.generate(written[:, :6], max_new_tokens=24, do_sample=False, use_cache=True)
    assert torch.equal(again, written)
    assert written[0, 6:].unique().numel() > 10, "a text that repeats itself proves little"
