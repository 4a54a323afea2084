"""Does the Transformer of chapter 11 reverse words, from every seed? The chapter's record.

    python experiments/reversal.py

Trains from five seeds, as the chapter does and for twice as many steps. Lists the share of a
thousand new words that are reversed without a mistake, and how many of these words were met in
training. Three minutes on one thread.
"""

import torch
from result_file import chapter, write_result
from torch import Tensor

SEEDS, STEPS = range(5), (800, 1600)


def run(seed: int, steps: int) -> tuple[float, int]:
    """The share of new words that are right, and how many of them weren't new."""
    book = chapter(11, "mine-before", "mine", "backwards-data", "own-say")
    backwards, met = book["backwards"], set()

    def noted(*sizes: int) -> tuple[Tensor, ...]:
        drawn = backwards(*sizes)
        met.update(map(tuple, drawn[0].tolist()))
        return drawn

    book["backwards"] = noted
    torch.manual_seed(seed)
    model = book["Transformer"](29, d_model=64, n_heads=4, d_ff=128, n_layers=1)
    book["learn"](model, steps)
    torch.manual_seed(1000)
    new = backwards(1000, 6)
    right = book["whole_words"](model, *new).float().mean().item()
    return right, sum(tuple(word) in met for word in new[0].tolist())


found: dict[str, dict] = {"right": {}, "met": {}}
for steps in STEPS:
    runs = [run(seed, steps) for seed in SEEDS]
    found["right"][steps], found["met"][steps] = zip(*runs, strict=True)
write_result(**found)
