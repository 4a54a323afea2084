"""Beam size and length penalty against BLEU and length: the record of chapter 14.

    python experiments/multi30k_beams.py --run runs/multi30k-tiny-s0

Everything is measured on the validation split. The search that is best there is scored on the test
split, once, by each metric of the task.
"""

from __future__ import annotations

import argparse
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import torch
from result_file import head, write_result

from transformer_lib.decoding import beam_search
from transformer_lib.runs import TASKS, Run

SIZES, PENALTIES = (1, 2, 3, 5, 10, 20), (0.0, 0.6, 1.0)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--run", required=True, type=Path)
    parser.add_argument("--checkpoint", default="best", choices=("best", "last", "average"))
    options = parser.parse_args()
    torch.set_num_threads(1)
    run = Run.load(options.run, options.checkpoint)
    task, device = TASKS[run.task], next(run.model.parameters()).device
    split, test = task.splits[:2]
    sources, references = zip(*task.load(split), strict=True)
    expected = sum(len(reference.split()) for reference in references)
    record = head(
        "BLEU and length of beams on the validation captions; the best search there is "
        "scored on the test captions once",
        device,
    ) | {
        "run": options.run.name,
        "checkpoint": options.checkpoint,
        "split": split,
        "words": expected,  # of the references
        "searches": [],
    }
    for size, alpha in product(SIZES, PENALTIES):
        how: dict[str, Any] = {"beam_size": size, "length_penalty": alpha}
        texts = run.answer(sources, decode=partial(beam_search, **how))
        found = dict(how)
        found["length"] = round(sum(len(text.split()) for text in texts) / expected, 4)
        found |= task.score(texts, references)._asdict()
        record["searches"].append(found)
        print(size, alpha, f"{found['value']:.2f}", found["length"], flush=True)
        write_result("multi30k-beams", record)
    best = max(record["searches"], key=lambda found: found["value"])
    how = {name: best[name] for name in ("beam_size", "length_penalty")}
    sources, references = zip(*task.load(test), strict=True)
    texts = run.answer(sources, decode=partial(beam_search, **how))
    scores = [score(texts, references)._asdict() for score in (task.score, *task.scores_too)]
    record["test"] = how | {"split": test, "scores": scores}
    print(*(f"{score['metric']} {score['value']:.2f}" for score in scores))
    write_result("multi30k-beams", record)


if __name__ == "__main__":
    main()
