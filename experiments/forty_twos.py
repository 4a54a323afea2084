"""Does chapter 13's translator spell numbers whose ending it has never seen? The chapter's record.

    python experiments/forty_twos.py

Each of ten seeds holds out the hundred numbers below 10,000 with another ending (42, 142, ..., 9942
for the first) and trains for six passes; `right` is how many numbers it then spells right to the
last letter, after each pass. A second part trains for 40 updates with a second table for the
logits, with the shift and without. Ten minutes on one thread.
"""

import random
from typing import Any

import torch
from result_file import chapter, write_result
from torch import Tensor, nn

from transformer_lib.data import number_word_pairs

ENDINGS = (42, 27, 36, 53, 58, 64, 71, 79, 85, 93)  # one for each seed
PASSES = 6


def book_without(ending: int) -> dict[str, Any]:
    """What the chapter's cells define, with the numbers of one ending held out."""
    pairs = number_word_pairs(0, 9_999)
    held_out = pairs[ending::100]
    others = [pair for pair in pairs if pair not in held_out]
    random.seed(7)
    random.shuffle(others)
    assert not any(pairs[ending][1] in german for _, german in others[200:])
    cells = ("mine-before", "the-vocabulary", "translate", "mine")
    book = chapter(13, *cells, training_pairs=others[200:])
    book["tests"] = {"held out": held_out, "below 100": pairs[:100]}
    return book


def fresh(book: dict[str, Any], seed: int, kind: type[nn.Module]) -> nn.Module:
    torch.manual_seed(seed)
    random.seed(seed)
    return kind(len(book["vocabulary"].pieces), d_model=64, n_heads=4, d_ff=128, n_layers=1)


def unseen(seed: int, ending: int) -> dict[str, list[int]]:
    """Right answers after each pass, for each of the tests."""
    book = book_without(ending)
    model = fresh(book, seed, book["Transformer"])
    counts: dict[str, list[int]] = {name: [] for name in book["tests"]}
    pairs = book["encode"](book["training_pairs"])
    updates = -(-len(pairs) // 64)

    def watch(step: int) -> None:
        if step % updates == 0:
            for name, tests in book["tests"].items():
                english, german = zip(*tests, strict=True)
                answers = book["translate"](model, english)
                counts[name].append(sum(map(str.__eq__, answers, german)))

    book["train"](model, pairs, epochs=PASSES, peak=2e-3, watch=watch)
    return counts


def forty_updates(seed: int, shifted: bool) -> dict[str, float]:
    """The losses of the first and the last update, with a table of its own for the logits."""
    book = book_without(ENDINGS[0])

    class TwoTables(book["Transformer"]):
        def __init__(self, vocab_size: int, d_model: int, **sizes: Any) -> None:
            super().__init__(vocab_size, d_model, **sizes)
            self.output = nn.Parameter(torch.randn(vocab_size, d_model) * d_model**-0.5)

        def decode(self, target: Tensor, memory: Tensor, memory_mask: Tensor) -> Tensor:
            mask = book["causal_mask"](target.size(1))
            return self.decoder(self.embed(target), memory, mask, memory_mask) @ self.output.T

    model = fresh(book, seed, TwoTables)
    if not shifted:
        shifted_loss = book["loss_of"]
        book["loss_of"] = lambda model, source, target, smoothing: shifted_loss(
            lambda source, _: model(source, target[:, 1:]), source, target, smoothing
        )
    pairs = book["encode"](book["training_pairs"][: 40 * 64])
    losses = book["train"](model, pairs, epochs=1, peak=2e-3)
    return {"first": losses[0], "last": losses[-1]}


forty = {
    f"TwoTables, {name}": [forty_updates(seed, name == "shifted") for seed in range(5)]
    for name in ("shifted", "unshifted")
}
write_result(
    **{"endings": ENDINGS, "right": list(map(unseen, range(10), ENDINGS))},
    **{"forty updates": forty},
)
