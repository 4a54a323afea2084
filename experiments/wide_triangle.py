"""What does a causal mask with one diagonal too many do? The record of chapter 5.

    python experiments/wide_triangle.py

Trains the model `Writer` of chapter 5 to write the numbers from 0 to 999 in words, letter by
letter, with the mask `tril(0)` and with `tril(1)`, from ten seeds. Nothing but the mask differs: a
seed draws the same parameters and the same batches for both. Each run lists, after each number of
steps, the mean loss over all letters of all texts, that loss with the future hidden, and how
many of 1,000 texts that it writes are numbers. No model that can't see the future gets below
`least`. Four minutes on one thread.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from result_file import head, write_result
from torch import Tensor, nn

from transformer_lib import attention
from transformer_lib.data import number_words

SEEDS = range(10)
STEPS = (400, 1000)
TEXTS = [number_words(number) for number in range(1000)]
LETTERS = ["<pad>", "<bos>", "<eos>", *sorted(set("".join(TEXTS)))]
ROWS = [torch.tensor([1, *map(LETTERS.index, text), 2]) for text in TEXTS]
DATA = nn.utils.rnn.pad_sequence(ROWS, batch_first=True)
LENGTH = DATA.size(1) - 1
MASKS = {f"tril({k})": torch.ones(LENGTH, LENGTH).tril(k).bool() for k in (0, 1)}


class Writer(nn.Module):
    """Predicts the next letter from what one attention layer brings, as in chapter 5."""

    def __init__(self) -> None:
        super().__init__()
        self.letter = nn.Embedding(len(LETTERS), 64)
        self.position = nn.Parameter(torch.randn(50, 64))
        self.query, self.key, self.value = nn.Linear(64, 64), nn.Linear(64, 64), nn.Linear(64, 64)
        self.predict = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, len(LETTERS)))

    def forward(self, ids: Tensor, mask: Tensor) -> Tensor:
        x = self.letter(ids) + self.position[: ids.size(1)]
        mixed = attention(self.query(x), self.key(x), self.value(x), mask=mask).output
        return self.predict(x + mixed)


def loss_of(writer: Writer, mask: Tensor, ids: Tensor) -> Tensor:
    logits = writer(ids[:, :-1], mask)
    return F.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten(), ignore_index=0)


@torch.no_grad()
def numbers_written(writer: Writer, mask: Tensor) -> int:
    """How many of 1,000 texts are numbers, each letter drawn as likely as the model says."""
    generator = torch.Generator().manual_seed(1)
    ids = torch.ones(1000, 1, dtype=torch.long)
    for t in range(1, LENGTH + 1):
        probabilities = writer(ids, mask[:t, :t])[:, -1].softmax(dim=-1)
        ids = torch.cat([ids, torch.multinomial(probabilities, 1, generator=generator)], dim=1)
    written = ["".join(LETTERS[i] for i in row[1:]).split("<eos>")[0] for row in ids.tolist()]
    return sum(text in TEXTS for text in written)


def train(mask: Tensor, seed: int) -> dict[str, list[float]]:
    torch.manual_seed(seed)
    writer = Writer()
    adam = torch.optim.Adam(writer.parameters(), lr=3e-3)
    found: dict[str, list[float]] = {"loss": [], "hidden": [], "numbers": []}
    for step in range(1, STEPS[-1] + 1):
        loss = loss_of(writer, mask, DATA[torch.randint(1000, (32,))])
        adam.zero_grad()
        loss.backward()
        adam.step()
        if step in STEPS:
            with torch.no_grad():
                found["loss"].append(loss_of(writer, mask, DATA).item())
                found["hidden"].append(loss_of(writer, MASKS["tril(0)"], DATA).item())
            found["numbers"].append(numbers_written(writer, mask))
    return found


def main() -> None:
    torch.set_num_threads(1)
    record = head(
        "for each mask and seed: the mean loss over all letters of all texts, that loss with the "
        "future hidden, and how many of 1,000 written texts are numbers, after each number of steps"
    ) | {
        "seeds": list(SEEDS),
        "steps": STEPS,
        "least": math.log(1000) / (sum(len(row) - 1 for row in ROWS) / 1000),
        "runs": {name: [] for name in MASKS},
    }
    for seed in SEEDS:
        for name, mask in MASKS.items():
            run = train(mask, seed)
            record["runs"][name].append(run)
            print(f"{name}, seed {seed}:", *(f"{loss:.3f}" for loss in run["loss"]), run["numbers"])
    write_result("wide-triangle", record)


if __name__ == "__main__":
    main()
