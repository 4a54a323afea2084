"""What are position vectors worth where a model was never trained? The record of chapter 10.

    python experiments/new_positions.py

Trains the model `Left` of chapter 10, which names the letter on the left of each letter, from ten
seeds and in five ways: without positions, with waves, and with a learned table, each trained on
positions 0 to 7; and with waves and a learned table again, where each sequence of the training
begins at a position from 0 to 8, drawn at random. All train on sequences of 8 letters. Each run
lists its shares of right answers after each of `STEPS`: on sequences of 8 at positions 0 to 7 and
at positions 8 to 15, and on sequences of 16 at positions 0 to 15, for positions 1 to 7 and 8 to 15.
Three minutes on one thread.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from result_file import head, write_result
from torch import Tensor, nn

from transformer_lib import SinusoidalPositions, attention

SEEDS = range(10)
STEPS = (500, 1000, 2000)
NEW = torch.randint(26, (1000, 16), generator=torch.Generator().manual_seed(1))
WAYS = {  # the table, and how many positions a sequence of the training may begin at
    "none": ("none", 1),
    "waves": ("waves", 1),
    "learned": ("learned", 1),
    "waves, shifted": ("waves", 9),
    "learned, shifted": ("learned", 9),
}


def table_of(kind: str) -> Tensor:
    if kind == "waves":
        return SinusoidalPositions(d_model=32, max_len=16).table
    if kind == "learned":
        return nn.Parameter(torch.randn(16, 32))
    return torch.zeros(16, 32)


class Left(nn.Module):
    """Names the letter on the left of each letter but the first."""

    def __init__(self, table: Tensor) -> None:
        super().__init__()
        self.letter = nn.Embedding(26, 32)
        self.table = table
        self.query, self.key, self.value = nn.Linear(32, 32), nn.Linear(32, 32), nn.Linear(32, 32)
        self.output = nn.Linear(32, 32)
        self.read = nn.Linear(32, 26)

    def forward(self, letters: Tensor, first: Tensor | int = 0) -> Tensor:
        position = first + torch.arange(letters.size(1))
        x = self.letter(letters) + self.table[position]
        mixed = attention(self.query(x), self.key(x), self.value(x)).output
        return self.read(self.output(mixed))[:, 1:]


@torch.no_grad()
def found_by(model: Left) -> dict[str, float]:
    def right(letters: Tensor, first: int) -> Tensor:
        return (model(letters, first).argmax(dim=-1) == letters[:, :-1]).float().mean(dim=0)

    longer = right(NEW, 0)
    return {
        "8 at 0-7": right(NEW[:, :8], 0).mean().item(),
        "8 at 8-15": right(NEW[:, :8], 8).mean().item(),
        "16, at 1-7": longer[:7].mean().item(),
        "16, at 8-15": longer[7:].mean().item(),
    }


def train(kind: str, starts: int, seed: int) -> dict[str, list[float]]:
    torch.manual_seed(seed)
    model = Left(table_of(kind))
    adam = torch.optim.Adam(model.parameters(), lr=0.01)
    found = []
    for step in range(1, STEPS[-1] + 1):
        letters = torch.randint(26, (32, 8))
        first = torch.randint(starts, (32, 1)) if starts > 1 else 0
        logits = model(letters, first)
        loss = F.cross_entropy(logits.flatten(0, 1), letters[:, :-1].flatten())
        adam.zero_grad()
        loss.backward()
        adam.step()
        if step in STEPS:
            found.append(found_by(model))
    return {name: [each[name] for each in found] for name in found[0]}


def main() -> None:
    torch.set_num_threads(1)
    record = head(
        "for each way to train and each seed: shares of right answers, after each number of steps"
    ) | {"seeds": list(SEEDS), "steps": STEPS, "runs": {}}
    for name, way in WAYS.items():
        record["runs"][name] = []
        for seed in SEEDS:
            run = train(*way, seed)
            record["runs"][name].append(run)
            print(
                name, seed, {test: f"{shares[-1]:.0%}" for test, shares in run.items()}, flush=True
            )
    write_result("new-positions", record)


if __name__ == "__main__":
    main()
