"""How well translators predict captions from training, and new ones: a record of chapter 15.

    python experiments/multi30k_gap.py multi30k-tiny-uncooled multi30k-residual-uncooled

For each name, reads the last parameters of the runs with seeds 0 to 2, and measures the loss per
piece, without smoothing and dropout, on `val` and on as many captions of `train`.
`multi30k-residual-uncooled-s0` to `-s2` are the recorded runs after 50 epochs, before their
learning rate fell: their command with `--epochs 50` and without the cooldown makes them. About two
minutes on one thread.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import torch
from result_file import head, write_result

from transformer_lib.runs import TASKS, Run
from transformer_lib.runs.batches import make_batches
from transformer_lib.training import evaluate


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("names", nargs="+", metavar="NAME")
    parser.add_argument("--runs", type=Path, default=Path("runs"), help="the folder they are in")
    options = parser.parse_args()
    torch.set_num_threads(1)
    task = TASKS["multi30k"]
    new = task.load("val")
    captions = {"train": task.load("train")[: len(new)], "val": new}
    record = head("loss per piece in evaluation, of captions learned and of as many new ones") | {
        "captions": len(new),
        "losses": {name: {} for name in options.names},
    }
    for name, found in record["losses"].items():
        runs = [Run.load(options.runs / f"{name}-s{seed}", "last", "cpu") for seed in (0, 1, 2)]
        for split, pairs in captions.items():
            found[split] = []
            for run in runs:
                batches = make_batches(task, run.tokenizer, pairs, batch_size=64, shuffle=False)
                found[split].append(evaluate(run.model, batches)["loss"])
            print(name, split, *[f"{loss:.3f}" for loss in found[split]], flush=True)
    write_result("multi30k-gap", record)


if __name__ == "__main__":
    main()
