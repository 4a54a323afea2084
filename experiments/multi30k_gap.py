"""How well translators predict captions from training, and new ones: a record of chapter 15.

    python experiments/multi30k_gap.py multi30k-tiny-uncooled multi30k-residual-uncooled

For each name, reads the last parameters of the runs with seeds 0 to 2, and measures the loss per
piece, without smoothing and dropout, on `val` and on as many captions of `train`.
`multi30k-residual-uncooled-s0` to `-s2` are the recorded runs after 50 epochs, before their
learning rate fell: their command with `--epochs 50` and without the cooldown makes them. About two
minutes on one thread.
"""

import sys

from result_file import write_result

from transformer_lib.runs import TASKS, Run
from transformer_lib.runs.tasks import make_batches
from transformer_lib.training import evaluate

task = TASKS["multi30k"]
new = task.load("val")
captions = {"train": task.load("train")[: len(new)], "val": new}
losses = {}
for name in sys.argv[1:]:
    losses[name] = {split: [] for split in captions}
    for seed in (0, 1, 2):
        run = Run.load(f"runs/{name}-s{seed}", "last", "cpu")
        for split, pairs in captions.items():
            batches = make_batches(task, run.tokenizer, pairs, batch_size=64, shuffle=False)
            losses[name][split].append(evaluate(run.model, batches)["loss"])
write_result(
    captions=len(new),
    losses=losses,
)
