"""What are position vectors worth where a model was never trained? The record of chapter 10.

    python experiments/new_positions.py

Trains the chapter's model from ten seeds, on sequences of 8 letters: without positions, with waves,
and with a learned table, each at positions 0 to 7; and with both tables again, where each sequence
begins at a position from 0 to 8, drawn at random. Lists the shares of right answers after each
number of steps. Three minutes on one thread.
"""

import torch
from result_file import after_updates, chapter, write_result
from torch import Tensor, nn

SEEDS, STEPS = range(10), (500, 1000, 2000)
book = chapter(10, "mine-before", "mine", "left-model", "left-train")
Left, table_of, share_right = (book[name] for name in ("Left", "table_of", "share_right"))


class Shifted(Left):
    """Each sequence begins at a position of its own, drawn in training."""

    def embed(self, letters: Tensor, first: int | None = None) -> Tensor:
        start = torch.randint(9, (len(letters), 1)) if first is None else first
        return self.letter(letters) + self.table[start + torch.arange(letters.size(1))]

    def forward(self, letters: Tensor, first: int | None = None) -> Tensor:
        return super().forward(letters, first)


@torch.no_grad()
def shares(model: nn.Module) -> dict[str, float]:
    new = book["new_letters"]
    right = (model(new, 0)[:, 1:].argmax(dim=-1) == new[:, :-1]).float().mean(dim=0)
    return {
        "8 at 0-7": share_right(model, new[:, :8], 0),
        "8 at 8-15": share_right(model, new[:, :8], 8),
        "16, at 1-7": right[:7].mean().item(),
        "16, at 8-15": right[7:].mean().item(),
    }


def run(kind: type[nn.Module], table: str, seed: int) -> dict[str, list[float]]:
    torch.manual_seed(seed)
    model = kind(torch.zeros(16, 32) if table == "none" else table_of(table))
    found = after_updates(STEPS, lambda: book["fit_left"](model, STEPS[-1]), lambda: shares(model))
    return {name: [each[name] for each in found] for name in found[0]}


ways = {name: (Left, name) for name in ("none", "waves", "learned")}
ways |= {f"{name}, shifted": (Shifted, name) for name in ("waves", "learned")}
write_result(
    steps=STEPS,
    runs={name: [run(*way, seed) for seed in SEEDS] for name, way in ways.items()},
)
