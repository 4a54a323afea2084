"""Makes the tiny random Llama of the project, and what Hugging Face's own class says with it.

    python experiments/bundle_tiny_llama.py

writes transformer_lib/pretrained/tiny-llama/: config.json, model.safetensors, and in
answers.safetensors logits for two texts and a text written with a cache, greedily.
"""

import json
from pathlib import Path

import torch
from safetensors.torch import save_file
from transformers import LlamaConfig, LlamaForCausalLM
from transformers import __version__ as version

FOLDER = Path(__file__).resolve().parents[1] / "transformer_lib/pretrained/tiny-llama"
SIZES = {
    "vocab_size": 31,
    "hidden_size": 32,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "num_hidden_layers": 2,
    "intermediate_size": 56,
    "max_position_embeddings": 64,
    "rms_norm_eps": 1e-5,
    "rope_theta": 10_000.0,
    "hidden_act": "silu",
    "tie_word_embeddings": False,
    "bos_token_id": 1,
    "eos_token_id": 2,
}


def main():
    torch.manual_seed(0)
    peer = LlamaForCausalLM(LlamaConfig(**SIZES, initializer_range=0.3)).eval()
    for name, parameter in peer.named_parameters():
        if "norm" in name:  # gains of 1 would hide a mistake
            parameter.data = 1 + 0.3 * torch.randn_like(parameter)
    ids = torch.randint(3, 31, (2, 12))
    peer.generation_config.eos_token_id = None
    with torch.no_grad():
        logits = peer(ids).logits
        written = peer.generate(ids[:1, :6], max_new_tokens=24, do_sample=False, use_cache=True)
    FOLDER.mkdir(exist_ok=True)
    (FOLDER / "config.json").write_text(
        json.dumps(
            {"architectures": ["LlamaForCausalLM"], "model_type": "llama", **SIZES}, indent=2
        )
        + "\n"
    )
    tensors = {name: tensor.contiguous() for name, tensor in peer.state_dict().items()}
    save_file(tensors, FOLDER / "model.safetensors", metadata={"format": "pt"})
    save_file(
        {"ids": ids, "logits": logits, "written": written},
        FOLDER / "answers.safetensors",
        metadata={"made_by": f"LlamaForCausalLM of transformers {version}"},
    )
    for path in FOLDER.glob("*.safetensors"):
        path.chmod(0o644)


if __name__ == "__main__":
    main()
