"""Beam size and length penalty against BLEU, length and time: the record of chapter 14.

    python tests/bench/beams.py --run runs/multi30k-tiny --output results/multi30k-tiny/beams.json

One thread of a CPU and its own seconds, so that other work beside it does not count; on a GPU
the seconds of the clock. On the validation split: the test split is not for choosing.
"""

from __future__ import annotations

import argparse
import json
import shlex
import sys
import time
from functools import partial
from pathlib import Path

import torch

from transformer_lib.decoding import beam_search, greedy
from transformer_lib.recipes import TASKS
from transformer_lib.results import circumstances
from transformer_lib.runs import Run

SIZES, PENALTIES = (1, 2, 3, 5, 10, 20), (0.0, 0.6, 1.0)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--run", required=True, type=Path)
    parser.add_argument("--checkpoint", default="best", choices=("best", "last", "average"))
    parser.add_argument("--output", required=True, type=Path)
    parser.add_argument("--limit", type=int)
    options = parser.parse_args()
    torch.set_num_threads(1)
    run = Run.load(options.run, options.checkpoint)
    device = next(run.model.parameters()).device
    clock = time.perf_counter if device.type == "cuda" else time.process_time
    split = TASKS[run.task].splits[0]
    words = [len(reference.split()) for _, reference in TASKS[run.task].load(split)]
    expected = sum(words[: options.limit])
    record = {
        "command": shlex.join(["python", "tests/bench/beams.py", *sys.argv[1:]]),
        "run": options.run.name,
        "checkpoint": options.checkpoint,
        "split": split,
        "words": expected,  # of the references
        **circumstances(device),
        "searches": [],
    }
    searches = [(0, 0.0)] + [(size, alpha) for size in SIZES for alpha in PENALTIES]
    for size, alpha in searches:  # size 0 stands for greedy
        search = partial(beam_search, beam_size=size, length_penalty=alpha) if size else greedy
        start = clock()
        score, texts = run.score(split, options.limit, decode=search)
        found = {"beam_size": size, "length_penalty": alpha} | score._asdict()
        found["seconds"] = round(clock() - start, 1)
        found["length"] = round(sum(len(text.split()) for text in texts) / expected, 4)
        record["searches"].append(found)
        print(size, alpha, f"{score.value:.2f}", found["length"], found["seconds"], flush=True)
        options.output.write_text(json.dumps(record, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
