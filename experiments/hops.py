"""Which encoders follow the notes for more than one hop? The record of chapter 8.

    python experiments/hops.py

Trains the chapter's model from ten seeds with each of five encoders, for twice as many steps as the
chapter, and looks at the share of right answers 0, 1, 2, and 3 hops away. Eight minutes on one
thread.
"""

import torch
from result_file import after_updates, chapter, write_result
from torch import nn

SEEDS, STEPS = range(10), (350, 700, 1050, 1400)
book = chapter(8, "mine-before", "mine", "finder", "finder-fit")
Finder = book["Finder"]


class Wide(Finder):
    """Everything is twice as wide."""

    def __init__(self, n_layers: int, n_heads: int, d_ff: int) -> None:
        nn.Module.__init__(self)
        self.note, self.position = nn.Embedding(11, 64), nn.Embedding(10, 64)
        self.encoder = book["Encoder"](64, n_heads, 2 * d_ff, n_layers, dropout=0.0)
        self.read = nn.Linear(64, 40)


class Twice(Finder):
    """The same layer runs two times."""

    def __init__(self, *sizes: int) -> None:
        super().__init__(*sizes)
        self.encoder.layers[1] = self.encoder.layers[0]


class Itself(Finder):
    """In layer 2, each box attends to itself only."""

    def __init__(self, *sizes: int) -> None:
        super().__init__(*sizes)
        self.encoder.layers[1].register_forward_pre_hook(
            lambda layer, given: (given[0], torch.eye(10, dtype=torch.bool))
        )


def run(kind: type[nn.Module], sizes: tuple[int, ...], seed: int) -> dict[str, list]:
    torch.manual_seed(seed)
    model = kind(*sizes)
    right = after_updates(
        STEPS,
        lambda: book["train_finder"](model, STEPS[-1]),
        lambda: book["share_right"](model),
    )
    return {"right": right}


one, two = (1, 4, 192), (2, 2, 64)  # layers, heads, d_ff
kinds = {
    "one layer": (Finder, one),
    "one wide layer": (Wide, one),
    "two layers": (Finder, two),
    "one layer twice": (Twice, two),
    "layer 2 sees itself": (Itself, two),
}
write_result(
    steps=STEPS,
    runs={name: [run(*kind, seed) for seed in SEEDS] for name, kind in kinds.items()},
)
