"""Which learning rate does each order of norm and sum survive? The record of chapter 7.

    python experiments/norm_order.py

Trains the chapter's model from ten seeds. A run lists the mean loss of the last 20 steps and the
own share of the last block's tokens, (7.1), after each of `STEPS`. Six minutes on one thread.
"""

from itertools import count

from result_file import chapter, write_result
from torch.optim.optimizer import register_optimizer_step_pre_hook

SEEDS, STEPS = range(1, 11), (100, 200, 300, 400)
SETTINGS = {  # kind of block: (peak rate, steps of warm-up)
    "post-norm": [(0.001, 1), (0.003, 1), (0.01, 1), (0.03, 1), (0.01, 100)],
    "pre-norm": [(0.001, 1), (0.003, 1), (0.01, 1), (0.03, 1)],
    "pre-norm, no feed-forward": [(0.01, 1)],
}
KINDS = {
    "post-norm": "PostNorm",
    "pre-norm": "Block",
    "pre-norm, no feed-forward": "NoFeedForward",
}
CELLS = ("mine-before", "own-share", "collapse", "mine", "block", "variants")
book = chapter(7, *CELLS, "train-model", "train-fit")


def run(kind: type, seed: int, peak: float, warmup: int) -> dict[str, list[float]]:
    steps = count(1)

    def warm_up(adam, *_) -> None:
        adam.param_groups[0]["lr"] = peak * min(1, next(steps) / warmup)

    hook = register_optimizer_step_pre_hook(warm_up)
    losses, shares = book["train"](kind, seed, peak, STEPS[-1])
    hook.remove()
    return {
        "loss": [losses[step - 20 : step].mean().item() for step in STEPS],
        "own share": [shares[step - 1].item() for step in STEPS],
    }


runs = {
    name: [
        {"rate": rate, "warmup": warmup,
         "seeds": [run(book[KINDS[name]], seed, rate, warmup) for seed in SEEDS]}
        for rate, warmup in settings
    ]
    for name, settings in SETTINGS.items()
}  # fmt: skip
write_result(
    steps=STEPS,
    runs=runs,
)
