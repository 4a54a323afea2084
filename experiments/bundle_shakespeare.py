"""A run of the task `shakespeare` as the model that comes with the library, in GPT-2's files.

    python experiments/bundle_shakespeare.py runs/shakespeare-gpt

The weights of its best checkpoint are rounded to float16. What the rounded model scores goes to
`results/shakespeare-gpt-shipped`.
"""

import argparse
import json
import math
from pathlib import Path

from bundling import write_record
from safetensors.torch import save

from transformer_lib.pretrained import bundled_folder, load_bundled
from transformer_lib.pretrained.gpt2 import NAMES, transposed
from transformer_lib.runs import Run

NAME, RUN = "shakespeare", "shakespeare-gpt"
SPEECHES = 60  # of val: the piece on which a test measures the model again


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("run", type=Path)
    run = Run.load(parser.parse_args().run, device="cpu")
    folder = bundled_folder(NAME)
    folder.mkdir(exist_ok=True)
    write(run, folder)
    model, tokenizer = load_bundled(NAME)
    rounded = Run(NAME, tokenizer, model)
    (whole, _), (some, _) = rounded.score("val"), rounded.score("val", SPEECHES)
    unrounded, _ = run.score("val")
    about = {
        "command": f"python experiments/bundle_shakespeare.py runs/{RUN}",
        "what": f"the model that comes with the library as {NAME!r}: best.pt of {RUN} in float16",
        "split": "val",
        "how": f"in windows of {model.config.max_len}, each foretold from <bos> on",
        "nats_per_character": whole.value,
        "bits_per_character": whole.value / math.log(2),
        "perplexity": math.exp(whole.value),
        "nats_per_character_in_float32": unrounded.value,
        "first_speeches": {"speeches": SPEECHES, "nats_per_character": some.value},
    }
    write_record(RUN, NAME, model, about)


def write(run: Run, folder: Path) -> None:
    """The three files, as Hugging Face's own `save_pretrained` names them and what is in them."""
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
    (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")
    tensors = {gpt2_name(name): tensor for name, tensor in run.model.state_dict().items()}
    tensors = {name: each.half().contiguous() for name, each in transposed(tensors).items()}
    (folder / "model.safetensors").write_bytes(save(tensors, metadata={"format": "pt"}))
    run.tokenizer.save(folder / "tokenizer.json")


def gpt2_name(ours: str) -> str:
    for theirs, mine in NAMES.items():
        ours = ours.replace(mine, theirs) if mine else ours
    return f"transformer.{ours}"


if __name__ == "__main__":
    main()
