"""Can one head tell both neighbors of a letter, and can two? The record of chapter 6.

    python experiments/one_or_two_heads.py

Trains the model `Neighbors` of chapter 6 with one head and with two, from 16 seeds. In the first of
three kinds, queries and keys are made from positions, so that every sequence gets the same weights,
and values from letters. In the second, queries and keys are made from letter plus position. In the
third, so are values. Models with one head and with two have equally many parameters. Each run lists
the shares of positions with the right answer to "left?", to "right?", and to both, and the mean
loss, at each of `STEPS` and on sequences that it wasn't trained on. Fifteen minutes on one thread.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from result_file import head, write_result
from torch import Tensor, nn

from transformer_lib import attention

SEEDS = range(16)
STEPS = (300, 1000, 2000, 3000)
NEW = torch.randint(26, (1000, 8), generator=torch.Generator().manual_seed(1))
KINDS = {  # whether letters are in queries and keys, and whether positions are in values
    "fixed weights": (False, False),
    "weights from letters": (True, False),
    "letter plus position": (True, True),
}


class Neighbors(nn.Module):
    """Names the letter on the left and the letter on the right of each position."""

    def __init__(self, n_heads: int, letters_in_keys: bool, positions_in_values: bool) -> None:
        super().__init__()
        self.n_heads = n_heads
        self.letters_in_keys, self.positions_in_values = letters_in_keys, positions_in_values
        self.letter = nn.Embedding(26, 32)
        self.position = nn.Parameter(torch.randn(8, 32))
        self.query, self.key, self.value = nn.Linear(32, 32), nn.Linear(32, 32), nn.Linear(32, 32)
        self.output = nn.Linear(32, 32)
        self.read = nn.Linear(32, 52)

    def split(self, x: Tensor) -> Tensor:
        return x.unflatten(-1, (self.n_heads, -1)).transpose(-3, -2)

    def forward(self, letters: Tensor) -> Tensor:
        letter, position = self.letter(letters), self.position[None]
        asking = letter + position if self.letters_in_keys else position
        handed = letter + position if self.positions_in_values else letter
        query, key = self.split(self.query(asking)), self.split(self.key(asking))
        mixed = attention(query, key, self.split(self.value(handed))).output
        joined = self.output(mixed.transpose(-3, -2).flatten(-2))
        return self.read(joined).unflatten(-1, (2, 26))[:, 1:-1]  # the ends have one neighbor


def neighbors_of(letters: Tensor) -> Tensor:
    return torch.stack([letters[:, :-2], letters[:, 2:]], dim=-1)


def loss_of(logits: Tensor, letters: Tensor) -> Tensor:
    return F.cross_entropy(logits.flatten(0, 2), neighbors_of(letters).flatten())


@torch.no_grad()
def found_by(model: Neighbors) -> dict[str, float]:
    logits = model(NEW)
    right = (logits.argmax(dim=-1) == neighbors_of(NEW)).float()
    return {
        "left": right[..., 0].mean().item(),
        "right": right[..., 1].mean().item(),
        "both": right.prod(dim=-1).mean().item(),
        "loss": loss_of(logits, NEW).item(),
    }


def train(n_heads: int, seed: int, *kind: bool) -> dict[str, list[float]]:
    torch.manual_seed(seed)
    model = Neighbors(n_heads, *kind)
    adam = torch.optim.Adam(model.parameters(), lr=0.01)
    found = []
    for step in range(1, STEPS[-1] + 1):
        letters = torch.randint(26, (32, 8))
        loss = loss_of(model(letters), letters)
        adam.zero_grad()
        loss.backward()
        adam.step()
        if step in STEPS:
            found.append(found_by(model))
    return {name: [each[name] for each in found] for name in found[0]}


def main() -> None:
    torch.set_num_threads(1)
    record = head(
        "for each kind of model, number of heads, and seed: shares of right answers and "
        "the loss, after each number of steps"
    ) | {
        "seeds": list(SEEDS),
        "steps": STEPS,
        "runs": {name: {} for name in KINDS},
    }
    for name, kind in KINDS.items():
        for n_heads in (1, 2):
            runs = [train(n_heads, seed, *kind) for seed in SEEDS]
            record["runs"][name][str(n_heads)] = runs
            print(f"{name}, {n_heads} head(s):", *(f"{run['both'][-1]:4.0%}" for run in runs))
    write_result("one-or-two-heads", record)


if __name__ == "__main__":
    main()
