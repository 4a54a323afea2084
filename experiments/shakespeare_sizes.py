"""The loss of a small GPT against its size: the record of chapter 18.

    python experiments/shakespeare_sizes.py

Trains the chapter's stack in four widths on tiny Shakespeare, by character, with the same windows
of 32 characters, number of updates, and learning rate, from three seeds. About four minutes on one
core.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from result_file import head, write_result
from torch import Tensor, nn

from transformer_lib import DecoderOnly, ModelConfig
from transformer_lib.data import shakespeare

WIDTHS, SEEDS, UPDATES, PEAK, BATCH, LENGTH = (16, 32, 64, 128), (0, 1, 2), 1_000, 5e-3, 16, 32
ALPHABET = sorted(set(shakespeare.load("train")))


def ids_of(split: str) -> Tensor:
    return torch.tensor([ALPHABET.index(letter) for letter in shakespeare.load(split)])


def build(width: int) -> DecoderOnly:
    return DecoderOnly(ModelConfig(
        vocab_size=len(ALPHABET), d_model=width, n_heads=max(1, width // 16), n_layers=3,
        d_ff=4 * width, dropout=0.0, max_len=LENGTH, positions="learned", scale_embeddings=False,
    ))  # fmt: skip


def trained(width: int, seed: int, text: Tensor) -> DecoderOnly:
    torch.manual_seed(seed)
    model = build(width)
    for parameter in model.parameters():
        if parameter.dim() > 1:
            nn.init.normal_(parameter, std=0.02)
    adam = torch.optim.AdamW(model.parameters(), betas=(0.9, 0.95))
    for step in range(1, UPDATES + 1):
        falling = (1 + math.cos(math.pi * step / UPDATES)) / 2
        adam.param_groups[0]["lr"] = PEAK * min(step / 50, falling)
        start = torch.randint(len(text) - LENGTH, (BATCH, 1))
        rows = text[start + torch.arange(LENGTH + 1)]  # (B, T + 1)
        loss = F.cross_entropy(model(rows[:, :-1]).flatten(0, 1), rows[:, 1:].flatten())
        adam.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        adam.step()
    return model.eval()


@torch.no_grad()
def loss_of(model: DecoderOnly, text: Tensor) -> float:
    rows = text.unfold(0, LENGTH + 1, LENGTH)  # (R, T + 1)
    losses = [
        F.cross_entropy(model(some[:, :-1]).mT, some[:, 1:], reduction="none").flatten()
        for some in rows.split(256)
    ]
    return torch.cat(losses).mean().item()


def main() -> None:
    torch.set_num_threads(1)
    train, val = ids_of("train"), ids_of("val")
    record = head(
        f"decoders of 3 layers after {UPDATES} updates of {BATCH} windows of {LENGTH} "
        f"characters, peak rate {PEAK}, seeds 0 to 2; nats per character of text kept apart"
    ) | {
        "sizes": [],
    }
    for width in WIDTHS:
        found = {
            "d_model": width,
            "parameters": sum(parameter.numel() for parameter in build(width).parameters()),
            "loss": [round(loss_of(trained(width, seed, train), val), 4) for seed in SEEDS],
        }
        record["sizes"].append(found)
        print(found, flush=True)
    write_result("shakespeare-sizes", record)


if __name__ == "__main__":
    main()
