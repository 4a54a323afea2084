"""Can one head tell both neighbors of a letter, and can two? The record of chapter 6.

    python experiments/one_or_two_heads.py

Trains the chapter's model with one head and with two, from 16 seeds; and two models with one head
whose queries and keys, or also values, are made from letter plus position. `both` is the share of
positions where both answers are right, after each number of steps. Ten minutes on one thread.
"""

import torch
from result_file import after_updates, chapter, write_result
from torch import Tensor

SEEDS, STEPS = range(16), (300, 1000, 2000, 3000)
book = chapter(6, "mine-before", "mine", "letters-model", "letters-fit")
Neighbors = book["Neighbors"]


class WeightsFromLetters(Neighbors):
    def forward(self, letters: Tensor) -> Tensor:
        letter, layer = self.letter(letters), self.attention
        x = letter + self.position
        mixed = book["attend"](layer.query(x), layer.key(x), layer.value(letter))
        return self.read(layer.output(mixed)).view(-1, 8, 2, 26)


class LetterPlusPosition(Neighbors):
    def forward(self, letters: Tensor) -> Tensor:
        x = self.letter(letters) + self.position
        return self.read(self.attention(x, x)).view(-1, 8, 2, 26)


def run(kind: type[torch.nn.Module], n_heads: int, seed: int) -> dict[str, list[float]]:
    torch.manual_seed(seed)
    model = kind(n_heads)
    both = after_updates(
        STEPS,
        lambda: book["fit_neighbors"](model, STEPS[-1]),
        lambda: book["share_right"](model)[2],
    )
    return {"both": both}


runs = {}
for name, kind, heads in (
    ("fixed weights", Neighbors, (1, 2)),
    ("weights from letters", WeightsFromLetters, (1,)),
    ("letter plus position", LetterPlusPosition, (1,)),
):
    runs[name] = {n: [run(kind, n, seed) for seed in SEEDS] for n in heads}
write_result(
    steps=STEPS,
    runs=runs,
)
