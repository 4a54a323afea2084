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
it. `answers` does the latter for `shakespeare`. Chapter 22 and the project compare with them. Each
model has the sizes that the `config.json` in its folder says.
"""

import hashlib
import sys
from typing import Any

import torch
import transformers
from result_file import write_result
from safetensors.torch import save_file

from transformer_lib.data import Tokenizer, shakespeare
from transformer_lib.decoding import translate
from transformer_lib.pretrained import bundled_folder, load_bundled
from transformer_lib.pretrained.bundled import to_int8
from transformer_lib.pretrained.hugging_face import GPT2_NAMES, transposed
from transformer_lib.runs import TASKS, Run

SPEECHES = 60  # of val: a test measures the model on them again


def save(tensors: dict[str, torch.Tensor], name: str, file: str, **metadata: str) -> None:
    path = bundled_folder(name) / file
    save_file({key: each.contiguous() for key, each in tensors.items()}, path, metadata)
    path.chmod(0o644)


def bundle_shakespeare(run: Run) -> dict[str, Any]:
    tensors = {gpt2_name(name): tensor for name, tensor in run.model.state_dict().items()}
    tensors = {name: each.half() for name, each in transposed(tensors).items()}
    save(tensors, "shakespeare", "model.safetensors", format="pt")
    model, tokenizer = load_bundled("shakespeare")
    rounded = Run("shakespeare", tokenizer, model)
    (whole, _), (some, _) = rounded.score("val"), rounded.score("val", SPEECHES)
    return {
        "how": f"in windows of {model.config.max_len}, each predicted from <bos> on",
        "nats_per_character": whole.value,
        "nats_per_character_in_float32": run.score("val")[0].value,
        "first_speeches": {"speeches": SPEECHES, "nats_per_character": some.value},
    }


def gpt2_name(ours: str) -> str:
    for theirs, mine in GPT2_NAMES.items():
        ours = ours.replace(mine, theirs) if mine else ours
    return f"transformer.{ours}"


def bundle_number_words(run: Run) -> dict[str, Any]:
    save(to_int8(run.model.state_dict()), "number-words", "model.safetensors", format="pt")
    model, tokenizer = load_bundled("number-words")
    texts, references = zip(*TASKS["number-words"].load("val"), strict=True)
    rounded, unrounded = (translate(each, tokenizer, texts) for each in (model, run.model))
    rows = zip(texts, rounded, references, strict=True)
    return {
        "decoding": "greedy",
        "numbers": len(texts),
        "right": sum(map(str.__eq__, rounded, references)),
        "right_in_float32": sum(map(str.__eq__, unrounded, references)),
        "wrong": [row for row in rows if row[1] != row[2]],
    }


def bundle(name: str, folder: str) -> None:
    run, files = Run.load(folder, device="cpu"), bundled_folder(name)
    run.tokenizer.save(files / "tokenizer.json")
    scores = (bundle_shakespeare if name == "shakespeare" else bundle_number_words)(run)
    content = (files / "model.safetensors").read_bytes()
    write_result(
        name="shakespeare-gpt-shipped" if name == "shakespeare" else "number-words-shipped",
        what=f"the model that comes with the library as {name!r}: best.pt, rounded",
        parameters=sum(p.numel() for p in load_bundled(name)[0].parameters()),
        bytes=len(content),
        sha256=hashlib.sha256(content).hexdigest(),
        split="val",
        **scores,
    )


def write_answers(name: str, answers: dict[str, torch.Tensor], peer: object) -> None:
    made_by = f"{type(peer).__name__} of transformers {transformers.__version__}"
    save(answers, name, "answers.safetensors", made_by=made_by)


@torch.no_grad()
def answer_shakespeare() -> None:
    """The ids of 64 tokens, and their logits in float64."""
    folder = bundled_folder("shakespeare")
    tokenizer = Tokenizer.load(folder / "tokenizer.json")
    ids = torch.tensor([[1, *tokenizer.encode(shakespeare.load("val")[:63])]])  # 1: <bos>
    peer = transformers.GPT2LMHeadModel.from_pretrained(folder).double().eval()
    write_answers("shakespeare", {"ids": ids, "logits": peer(ids).logits}, peer)


@torch.no_grad()
def make_tiny_llama() -> None:
    """Logits for two texts, and a text that is written greedily, with a cache."""
    torch.manual_seed(0)
    config = transformers.LlamaConfig.from_pretrained(bundled_folder("tiny-llama"))
    config.initializer_range = 0.3
    peer = transformers.LlamaForCausalLM(config).eval()
    for name, parameter in peer.named_parameters():
        if "norm" in name:  # gains of 1 would hide a mistake
            parameter.data = 1 + 0.3 * torch.randn_like(parameter)
    ids = torch.randint(3, 31, (2, 12))
    peer.generation_config.eos_token_id = None
    written = peer.generate(ids[:1, :6], max_new_tokens=24, do_sample=False, use_cache=True)
    save(peer.state_dict(), "tiny-llama", "model.safetensors", format="pt")
    write_answers("tiny-llama", {"ids": ids, "logits": peer(ids).logits, "written": written}, peer)


if __name__ == "__main__":
    if sys.argv[1:] == ["tiny-llama"]:
        make_tiny_llama()
    elif sys.argv[1:] == ["answers"]:
        answer_shakespeare()
    else:
        bundle(*sys.argv[1:])
