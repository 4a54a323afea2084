"""The models that come with the library: made from runs, or from Hugging Face's classes.

    python experiments/bundle.py shakespeare runs/shakespeare-gpt
    python experiments/bundle.py number-words runs/number-words-s0
    python experiments/bundle.py tiny-llama
    python experiments/bundle.py answers

The first two round the best checkpoint of a run, `shakespeare` to float16 in GPT-2's files,
`number-words` to 8 bits. The run of the latter:

    python -m transformer_lib train --task number-words --epochs 10 --lr 0.001 --seed 0 \
        --threads 1 --output runs/number-words-s0

`tiny-llama` makes a Llama with random parameters and writes what Hugging Face's own class says with
it. `answers` does the latter for `shakespeare`. Chapter 22 and the project compare with them. Each
model has the sizes that the `config.json` in its folder says.
"""

import sys

import torch
import transformers
from safetensors.torch import save_file

from transformer_lib.data import Tokenizer, shakespeare
from transformer_lib.pretrained import bundled_folder
from transformer_lib.pretrained.bundled import to_int8
from transformer_lib.pretrained.hugging_face import GPT2_NAMES, transposed
from transformer_lib.runs import Run


def save(tensors: dict[str, torch.Tensor], name: str, file: str, **metadata: str) -> None:
    path = bundled_folder(name) / file
    save_file({key: each.contiguous() for key, each in tensors.items()}, path, metadata)
    path.chmod(0o644)


def gpt2_name(ours: str) -> str:
    for theirs, mine in GPT2_NAMES.items():
        ours = ours.replace(mine, theirs) if mine else ours
    return f"transformer.{ours}"


def bundle(name: str, folder: str) -> None:
    run = Run.load(folder, device="cpu")
    run.tokenizer.save(bundled_folder(name) / "tokenizer.json")
    tensors = run.model.state_dict()
    if name == "shakespeare":
        tensors = transposed({gpt2_name(ours): tensor for ours, tensor in tensors.items()})
        tensors = {theirs: tensor.half() for theirs, tensor in tensors.items()}
    else:
        tensors = to_int8(tensors)
    save(tensors, name, "model.safetensors", format="pt")


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
