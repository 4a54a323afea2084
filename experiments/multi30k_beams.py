"""Beam size and length penalty against BLEU, length and time: the record of chapter 14.

    python experiments/multi30k_beams.py --run runs/multi30k-tiny-s0

Uses one thread of a CPU and its processor time, which other work doesn't change; on a GPU, the
clock's. Everything is measured on the validation split. The search that is best there is scored on
the test split, once, by each metric of the task.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch
from result_file import head, write_result

from transformer_lib.decoding import beam_search, greedy
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
    clock = time.perf_counter if device.type == "cuda" else time.process_time
    split, test = task.splits[:2]
    sources, references = zip(*task.load(split), strict=True)
    expected = sum(len(reference.split()) for reference in references)
    record = head(
        "BLEU, length and time of beams on the validation captions; the best search there is "
        "scored on the test captions once",
        device,
    ) | {
        "run": options.run.name,
        "checkpoint": options.checkpoint,
        "split": split,
        "words": expected,  # of the references
        "searches": [],
    }
    searches = [(0, 0.0)] + [(size, alpha) for size in SIZES for alpha in PENALTIES]
    run.answer(sources[:128])  # the first call of anything is slow
    for size, alpha in searches:  # size 0 stands for greedy
        start = clock()
        texts = run.answer(sources, decode=_search(size, alpha))
        found = {"beam_size": size, "length_penalty": alpha, "seconds": round(clock() - start, 1)}
        found["length"] = round(sum(len(text.split()) for text in texts) / expected, 4)
        found |= task.score(texts, references)._asdict()
        record["searches"].append(found)
        print(size, alpha, f"{found['value']:.2f}", found["length"], found["seconds"], flush=True)
        write_result("multi30k-beams", record)
    best = max(record["searches"], key=lambda found: found["value"])
    how = {name: best[name] for name in ("beam_size", "length_penalty")}
    sources, references = zip(*task.load(test), strict=True)
    texts = run.answer(sources, decode=_search(*how.values()))
    scores = [score(texts, references)._asdict() for score in (task.score, *task.scores_too)]
    record["test"] = how | {"split": test, "scores": scores}
    print(*(f"{score['metric']} {score['value']:.2f}" for score in scores))
    write_result("multi30k-beams", record)


def _search(size: int, alpha: float) -> Callable[..., Any]:
    return partial(beam_search, beam_size=size, length_penalty=alpha) if size else greedy


if __name__ == "__main__":
    main()
