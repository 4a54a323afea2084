"""One vector for a whole line, or a choice among all states? The record of chapter 3.

    python experiments/bottleneck.py

Trains the chapter's networks from five seeds, and one whose context is the mean of the states. A
run lists, for each length and seed, the share of letters right on 300 new lines: once where the
network reads its own letters, once where it reads the right ones. With attention it also says, for
lines of 10 letters, how often the largest weight is on the letter to be written and how often on
the one after it. Six minutes on one thread.
"""

from typing import Any

import torch
from result_file import chapter, write_result
from torch import Tensor, nn

SEEDS, LENGTHS = range(5), (2, 4, 6, 8, 10, 12)
CELLS = ("encode", "lesson", "one-vector", "train", "write", "measure", "attend", "attends")
book = chapter(3, *CELLS, "alignment")
lesson, OneVector = book["lesson"], book["OneVector"]


class Mean(OneVector):
    def context(self, hidden: Tensor, states: Tensor) -> Tensor:
        return states.mean(dim=1, keepdim=True).expand_as(hidden)


KINDS = {"last": OneVector, "mean": Mean, "attention": book["Attends"]}
RUNS = [  # kind, updates, learning rate
    *((kind, updates, 0.01) for updates in (1200, 6000) for kind in KINDS),
    ("last", 1200, 0.005),
    ("last", 1200, 0.02),
    ("last", 12000, 0.01),
]


def share(right: Tensor) -> float:
    return right.float().mean().item()


@torch.no_grad()
def right_letters(model: nn.Module, length: int) -> float:
    source = book["new_lines"](length)
    best = model(source, lesson(source)[0])[:, :-1].argmax(dim=-1)
    return share(best == source.flip(1))


def largest_weight(model: nn.Module) -> dict[str, float]:
    off = book["alignment"](model, book["new_lines"](10)).argmax(dim=-1) - torch.arange(9, -1, -1)
    return {"on the letter": share(off == 0), "on the next": share(off == 1)}


def run(kind: str, updates: int, rate: float) -> dict[str, Any]:
    models = [book["train"](KINDS[kind], seed, updates, rate) for seed in SEEDS]
    found: dict[str, Any] = {"kind": kind, "updates": updates, "rate": rate}
    for name, measure in (("own letters", book["share_right"]), ("right letters", right_letters)):
        found[name] = {str(n): [measure(model, n) for model in models] for n in LENGTHS}
    if kind == "attention":
        each = [largest_weight(model) for model in models]
        found["largest weight"] = {where: [one[where] for one in each] for where in each[0]}
    return found


write_result(runs=[run(*settings) for settings in RUNS])
