"""What Hugging Face's own class says with the GPT that the library ships, for chapter 22.

    python experiments/bundle_answers.py

writes answers.safetensors beside the model: the ids of 64 tokens, and their logits in float64.
"""

import torch
from safetensors.torch import save_file
from transformers import GPT2LMHeadModel
from transformers import __version__ as version

from transformer_lib.data import Tokenizer, shakespeare
from transformer_lib.pretrained import bundled_folder


def main():
    folder = bundled_folder("shakespeare")
    tokenizer = Tokenizer.load(folder / "tokenizer.json")
    ids = torch.tensor([[1, *tokenizer.encode(shakespeare.load("val")[:63])]])  # 1: <bos>
    peer = GPT2LMHeadModel.from_pretrained(folder).double().eval()
    with torch.no_grad():
        logits = peer(ids).logits
    path = folder / "answers.safetensors"
    made_by = f"GPT2LMHeadModel of transformers {version}, float64"
    save_file({"ids": ids, "logits": logits}, path, metadata={"made_by": made_by})
    path.chmod(0o644)


if __name__ == "__main__":
    main()
