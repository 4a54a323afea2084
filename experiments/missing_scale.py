"""Does attention learn without its scale? The record of chapter 2.

    python experiments/missing_scale.py

Trains the chapter's lookup at two widths and from ten seeds, in three ways, and counts the steps
until 95 % of the answers are right. All three start from the same matrices and see the same
lookups. Three minutes on one thread.
"""

from result_file import chapter, write_result

SEEDS, WIDTHS, STEPS = range(10), (64, 256), 1000
train = chapter(2, "break-model", "break-train")["train"]


def steps_needed(divisor: float, rate: float, seed: int, d_k: int) -> int | None:
    right = train(divisor, rate, steps=STEPS, seed=seed, d_k=d_k)[:, 1]
    enough = right.unfold(0, 20, 1).mean(dim=-1) >= 0.95
    return enough.int().argmax().item() + 20 if enough.any() else None


runs = {}
for d_k in WIDTHS:
    root = d_k**0.5
    ways = {
        "divided, rate 1": (root, 1),
        "not divided, rate 1": (1, 1),
        "not divided, rate 1/√d_k": (1, 1 / root),
    }
    runs[d_k] = {
        name: {"steps": [steps_needed(*way, seed, d_k) for seed in SEEDS]}
        for name, way in ways.items()
    }
write_result(runs=runs)
