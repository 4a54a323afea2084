"""The models that come with the library: made from runs, or from Hugging Face's classes.

    python experiments/bundle.py shakespeare runs/shakespeare-gpt
    python experiments/bundle.py number-words runs/number-words-s0
    python experiments/bundle.py tiny-llama
    python experiments/bundle.py answers

The first two round the best checkpoint of a run, `shakespeare` to float16 in GPT-2's files,
`number-words` to 8 bits, and write what the rounded model scores to `results/RUN-shipped.json`. The
run of the latter:

    python -m transformer_lib train --task number-words --epochs 10 --lr 0.001 --seed 0 \
        --threads 1 --output runs/number-words-s0

`tiny-llama` makes a Llama with random parameters and writes what Hugging Face's own class says with
it. `answers` does the latter for `shakespeare`. Chapter 22 and the project compare with them.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
import transformers
from result_file import head, write_result
from safetensors.torch import save, save_file

from transformer_lib.data import Tokenizer, shakespeare
from transformer_lib.decoding import translate
from transformer_lib.pretrained import bundled_folder, load_bundled
from transformer_lib.pretrained.gpt2 import NAMES, transposed
from transformer_lib.pretrained.rounding import to_int8
from transformer_lib.runs import TASKS, Run

SPEECHES = 60  # of val: a test measures the model on them again
LLAMA = {
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


def bundle_shakespeare(folder: Path, run: Run) -> tuple[str, dict[str, Any]]:
    ours = run.model.config
    config = {
        "architectures": ["GPT2LMHeadModel"],
        "model_type": "gpt2",
        "vocab_size": ours.vocab_size,
        "n_positions": ours.max_len,
        "n_embd": ours.d_model,
        "n_layer": ours.decoder_layers,
        "n_head": ours.n_heads,
        "n_inner": ours.d_ff,
        "activation_function": "gelu_new",
        "layer_norm_epsilon": ours.norm_eps,
        "resid_pdrop": 0.0,
        "embd_pdrop": 0.0,
        "attn_pdrop": 0.0,
        "bos_token_id": ours.bos_id,
        "eos_token_id": ours.eos_id,
        "pad_token_id": ours.pad_id,
        "tie_word_embeddings": True,
        "torch_dtype": "float16",
    }
    tensors = {gpt2_name(name): tensor for name, tensor in run.model.state_dict().items()}
    tensors = {name: each.half().contiguous() for name, each in transposed(tensors).items()}
    write_model(folder, config, tensors, run.tokenizer)
    model, tokenizer = load_bundled("shakespeare")
    rounded = Run("shakespeare", tokenizer, model)
    (whole, _), (some, _) = rounded.score("val"), rounded.score("val", SPEECHES)
    return "best.pt in float16", {
        "how": f"in windows of {ours.max_len}, each predicted from <bos> on",
        "nats_per_character": whole.value,
        "bits_per_character": whole.value / math.log(2),
        "perplexity": math.exp(whole.value),
        "nats_per_character_in_float32": run.score("val")[0].value,
        "first_speeches": {"speeches": SPEECHES, "nats_per_character": some.value},
    }


def gpt2_name(ours: str) -> str:
    for theirs, mine in NAMES.items():
        ours = ours.replace(mine, theirs) if mine else ours
    return f"transformer.{ours}"


def bundle_number_words(folder: Path, run: Run) -> tuple[str, dict[str, Any]]:
    config = {"class": "Transformer", "config": asdict(run.model.config)}
    write_model(folder, config, to_int8(run.model.state_dict()), run.tokenizer)
    model, tokenizer = load_bundled("number-words")
    texts, references = zip(*TASKS["number-words"].load("val"), strict=True)
    rounded, unrounded = (translate(each, tokenizer, texts) for each in (model, run.model))
    rows = list(zip(texts, rounded, references, strict=True))
    return "best.pt in 8 bits", {
        "decoding": "greedy",
        "numbers": len(texts),
        "right": sum(map(str.__eq__, rounded, references)),
        "right_in_float32": sum(map(str.__eq__, unrounded, references)),
        "translated_otherwise": sum(map(str.__ne__, rounded, unrounded)),
        "wrong": [row for row in rows if row[1] != row[2]],
    }


def write_model(
    folder: Path, config: dict[str, Any], tensors: dict[str, torch.Tensor], tokenizer: Tokenizer
) -> None:
    folder.mkdir(exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")
    (folder / "model.safetensors").write_bytes(save(tensors, metadata={"format": "pt"}))
    tokenizer.save(folder / "tokenizer.json")


def record(name: str, folder: Path) -> None:
    """Write the result of a run that was bundled."""
    bundle = bundle_shakespeare if name == "shakespeare" else bundle_number_words
    files = bundled_folder(name)
    how, scores = bundle(files, Run.load(folder, device="cpu"))
    content = (files / "model.safetensors").read_bytes()
    model, _ = load_bundled(name)
    found = head(f"the model that comes with the library as {name!r}: {how}") | {
        "parameters": sum(p.numel() for p in model.parameters()),
        "bytes": len(content),
        "sha256": hashlib.sha256(content).hexdigest(),
        "split": "val",
        **scores,
    }
    run = "shakespeare-gpt" if name == "shakespeare" else name
    print(write_result(f"{run}-shipped", found))


def write_answers(folder: Path, answers: dict[str, torch.Tensor], peer: object) -> None:
    path = folder / "answers.safetensors"
    made_by = f"{type(peer).__name__} of transformers {transformers.__version__}"
    save_file(answers, path, metadata={"made_by": made_by})
    path.chmod(0o644)


@torch.no_grad()
def answer_shakespeare() -> None:
    """The ids of 64 tokens, and their logits in float64."""
    folder = bundled_folder("shakespeare")
    tokenizer = Tokenizer.load(folder / "tokenizer.json")
    ids = torch.tensor([[1, *tokenizer.encode(shakespeare.load("val")[:63])]])  # 1: <bos>
    peer = transformers.GPT2LMHeadModel.from_pretrained(folder).double().eval()
    write_answers(folder, {"ids": ids, "logits": peer(ids).logits}, peer)


@torch.no_grad()
def make_tiny_llama() -> None:
    """Logits for two texts, and a text that is written greedily, with a cache."""
    torch.manual_seed(0)
    config = transformers.LlamaConfig(**LLAMA, initializer_range=0.3)
    peer = transformers.LlamaForCausalLM(config).eval()
    for name, parameter in peer.named_parameters():
        if "norm" in name:  # gains of 1 would hide a mistake
            parameter.data = 1 + 0.3 * torch.randn_like(parameter)
    ids = torch.randint(3, 31, (2, 12))
    peer.generation_config.eos_token_id = None
    written = peer.generate(ids[:1, :6], max_new_tokens=24, do_sample=False, use_cache=True)
    folder = bundled_folder("tiny-llama")
    folder.mkdir(exist_ok=True)
    kind = {"architectures": ["LlamaForCausalLM"], "model_type": "llama"}
    (folder / "config.json").write_text(json.dumps(kind | LLAMA, indent=2) + "\n")
    tensors = {name: tensor.contiguous() for name, tensor in peer.state_dict().items()}
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    (folder / "model.safetensors").chmod(0o644)
    write_answers(folder, {"ids": ids, "logits": peer(ids).logits, "written": written}, peer)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("what", choices=("shakespeare", "number-words", "tiny-llama", "answers"))
    parser.add_argument("run", type=Path, nargs="?", help="the run's folder, for the first two")
    options = parser.parse_args()
    if options.what == "tiny-llama":
        make_tiny_llama()
    elif options.what == "answers":
        answer_shakespeare()
    elif options.run is None:
        parser.error(f"{options.what} is made from a run: name its folder")
    else:
        record(options.what, options.run)


if __name__ == "__main__":
    main()
