"""Is the model or the search to blame for a wrong number? The record of chapter 14.

    python experiments/search_errors.py

Trains the chapter's translator for 200 updates with ten seeds, and with each of them once more
without label smoothing: the same parameters to begin with, and the same batches. Both search for
the chapter's 500 numbers, greedily and with a beam of 4 and no length penalty. It counts which
answers are right, which wrong ones are less probable than the right text (search errors), which
are more probable (model errors), and where the empty text is more probable than the right one, and
where it's at least as probable as the one that the beam found. Runs the chapter's own cells. Six
minutes on one thread.
"""

from __future__ import annotations

import json
import random
from functools import cache
from pathlib import Path
from typing import Any

import torch
from result_file import head, write_result
from torch import Tensor

from transformer_lib import beam_search

CHAPTER = Path(__file__).resolve().parents[1] / "chapters" / "14_decoding.ipynb"
CELLS = ("mine-before", "mine", "the-pairs", "score-a-text", "copy-code")
SEEDS = range(10)


@cache
def chapter() -> dict[str, Any]:
    """What the chapter's cells define."""
    book = json.loads(CHAPTER.read_text(encoding="utf-8"))["cells"]
    cells = {cell["id"]: "".join(cell["source"]) for cell in book}
    found: dict[str, Any] = {}
    for name in CELLS:
        exec(cells[name], found)
    return found


def trained(seed: int, smoothing: float, pairs: int = 6400) -> Any:
    """The chapter's model after two passes through 6,400 pairs, 200 updates."""
    book = chapter()
    random.seed(seed)
    torch.manual_seed(seed)
    sizes = {"d_model": 64, "n_heads": 4, "d_ff": 128, "n_layers": 2}
    model = book["Transformer"](len(book["vocabulary"].pieces), **sizes)
    some = random.sample(book["pairs"], pairs)
    book["train"](model, some, epochs=2, peak=3e-3, smoothing=smoothing)
    return model.eval()


def judged(model: Any) -> dict[str, dict[str, float]]:
    """What the two searches find, and what silence is worth."""
    book = chapter()
    words, encode = book["words"], book["vocabulary"].encode
    german = book["german"]
    source = book["pad"]([encode(words(text)) for text in book["english"]])
    truth = book["pad"]([[*encode(list(text)), book["EOS"]] for text in german])

    def log_prob(ids: Tensor) -> Tensor:
        return book["log_prob"](model, source, ids)

    def texts(ids: Tensor) -> list[str]:
        return ["".join(book["vocabulary"].decode(row)) for row in ids.tolist()]

    library = book["to_library"](model)
    ids = {
        "greedy": book["greedy"](model, source),
        "beam": beam_search(
            library, source, max_len=64, beam_size=4, length_penalty=0.0, n_best=1
        ).best.ids,
    }
    right_text = log_prob(truth)
    found: dict[str, dict[str, float]] = {}
    value = {}
    for name, each in ids.items():
        right = torch.tensor([a == b for a, b in zip(texts(each), german, strict=True)])
        value[name] = log_prob(each)
        wrong = ~right
        found[name] = {
            "right": right.sum().item(),
            "search errors": (wrong & (right_text > value[name])).sum().item(),
            "model errors": (wrong & (right_text < value[name])).sum().item(),
        }
    found["beam"] |= {
        "more probable": (value["beam"] > value["greedy"] + 0.01).sum().item(),
        "less probable": (value["beam"] < value["greedy"] - 0.01).sum().item(),
    }
    silence = log_prob(torch.full_like(source[:, :1], book["EOS"]))
    found["silence"] = {
        "above the right text": (silence > right_text).sum().item(),
        "not below the beam": (silence > value["beam"] - 0.01).sum().item(),
        "median": silence.median().item(),
    }
    return found


def main() -> None:
    torch.set_num_threads(1)
    record = head(
        "for each seed, with label smoothing and without: right answers of 500, search errors and "
        "model errors, by greedy search and by a beam of 4, and where silence is more probable"
    )
    for smoothing in (0.1, 0.0):
        record[f"smoothing {smoothing}"] = runs = []
        for seed in SEEDS:
            runs.append(judged(trained(seed, smoothing)))
            print(smoothing, seed, runs[-1], flush=True)
            write_result("search-errors", record)


if __name__ == "__main__":
    main()
