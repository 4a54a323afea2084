"""Does chapter 13's translator spell numbers whose ending it has never seen? The chapter's record.

    python experiments/forty_twos.py

Runs the chapter's own cells: its `mine.py`, its vocabulary, and `translate`. Each of ten seeds
holds out the hundred numbers below 10,000 with another ending (42, 142, ..., 9942 for the first)
and trains for six passes. After each pass it lists how many answers are right to the last letter:
of the hundred held out, of 200 other pairs kept out of training, and of the numbers below 100.

A second part trains for 40 updates without the shift, with the chapter's model and with one that
has a second table for its logits, and with the shift for comparison. Ten minutes on one thread.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import torch
from result_file import head, write_result
from torch import Tensor, nn

from transformer_lib.data import number_word_pairs

CHAPTER = Path(__file__).resolve().parents[1] / "chapters" / "13_training.ipynb"
CELLS = ("mine-before", "the-vocabulary", "translate", "mine")
ENDINGS = (42, 27, 36, 53, 58, 64, 71, 79, 85, 93)  # one for each seed
PASSES = 6
PEAK = 2e-3


@cache
def cells() -> dict[str, str]:
    book = json.loads(CHAPTER.read_text(encoding="utf-8"))["cells"]
    return {cell["id"]: "".join(cell["source"]) for cell in book}


def chapter(ending: int) -> dict[str, Any]:
    """What the chapter's cells define, with the numbers of one ending held out."""
    pairs = number_word_pairs(0, 9_999)
    held_out = pairs[ending::100]
    others = [pair for pair in pairs if pair not in held_out]
    random.seed(7)
    random.shuffle(others)
    found: dict[str, Any] = {"training_pairs": others[200:]}
    for name in CELLS:
        exec(cells()[name], found)
    known = {german for _, german in others[200:]}
    assert not known & {german for _, german in held_out}
    assert not any(pairs[ending][1] in german for german in known)
    found["tests"] = {"held out": held_out, "test": others[:200], "below 100": pairs[:100]}
    return found


def right(book: dict[str, Any], model: nn.Module, pairs: list[tuple[str, str]]) -> int:
    """How many answers are right to the last letter."""
    answers = book["translate"](model, [english for english, _ in pairs])
    return sum(answer == german for answer, (_, german) in zip(answers, pairs, strict=True))


def fresh(book: dict[str, Any], seed: int, kind: str = "Transformer") -> nn.Module:
    torch.manual_seed(seed)
    random.seed(seed)
    sizes = {"d_model": 64, "n_heads": 4, "d_ff": 128, "n_layers": 1}
    return book[kind](len(book["vocabulary"].pieces), **sizes)


def unseen(seed: int, ending: int) -> dict[str, list[int]]:
    """Right answers after each pass, for each of the three tests."""
    book = chapter(ending)
    model = fresh(book, seed)
    counts: dict[str, list[int]] = {name: [] for name in book["tests"]}
    pairs = book["encode"](book["training_pairs"])
    updates = -(-len(pairs) // 64)

    def watch(step: int) -> None:
        if step % updates == 0:
            for name, each in book["tests"].items():
                counts[name].append(right(book, model, each))

    book["train"](model, pairs, epochs=PASSES, peak=PEAK, watch=watch)
    return counts


def two_tables(book: dict[str, Any]) -> type[nn.Module]:
    """The chapter's Transformer with a table of its own for the logits."""

    class TwoTables(book["Transformer"]):
        def __init__(self, vocab_size: int, d_model: int, **sizes: Any) -> None:
            super().__init__(vocab_size, d_model, **sizes)
            self.output = nn.Parameter(torch.randn(vocab_size, d_model) * d_model**-0.5)

        def decode(self, target: Tensor, memory: Tensor, memory_mask: Tensor) -> Tensor:
            mask = book["causal_mask"](target.size(1)).to(target.device)
            return self.decoder(self.embed(target), memory, mask, memory_mask) @ self.output.T

    return TwoTables


def unshifted(loss_of: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """The same loss, but the decoder reads the labels."""

    def loss(model: nn.Module, source: Tensor, target: Tensor, smoothing: float = 0.0) -> Tensor:
        return loss_of(lambda s, _: model(s, target[:, 1:]), source, target, smoothing)

    return loss


def forty_updates(seed: int, kind: str, shifted: bool) -> dict[str, float]:
    """The losses of the first and the last update, and how many test pairs are right then."""
    book = chapter(ENDINGS[0])
    book["TwoTables"] = two_tables(book)
    model = fresh(book, seed, kind)
    if not shifted:
        book["loss_of"] = unshifted(book["loss_of"])
    pairs = book["encode"](book["training_pairs"][: 40 * 64])
    losses = book["train"](model, pairs, epochs=1, peak=PEAK)
    test = right(book, model, book["tests"]["test"])
    return {"first": losses[0], "last": losses[-1], "right of 200": test}


def main() -> None:
    torch.set_num_threads(1)
    record = head(
        "for each seed: after each pass, how many numbers are spelled right to the last letter; "
        "and the losses of 40 updates with the shift and without it, in one table and in two"
    ) | {"endings": list(ENDINGS), "right": [], "forty updates": {}}
    for kind in ("Transformer", "TwoTables"):
        for shifted in (True, False):
            runs = [forty_updates(seed, kind, shifted) for seed in range(5)]
            record["forty updates"][f"{kind}, {'shifted' if shifted else 'unshifted'}"] = runs
            print(kind, shifted, runs, flush=True)
    for seed, ending in enumerate(ENDINGS):
        record["right"].append(unseen(seed, ending))
        print(seed, ending, record["right"][-1], flush=True)
        write_result("forty-twos", record)


if __name__ == "__main__":
    main()
