"""Which changes since 2017 lower the loss, and with every seed? The record of chapter 21.

    python experiments/since_2017.py

Trains a small decoder-only model on tiny Shakespeare, by character, in four forms. Each has the
changes of the ones before it and those of its own, and equally many parameters. Each trains with a
rate that's better than half and twice of it, chosen with a seed of its own, and then with five
other seeds; `TWICE` again with twice as many updates. The models of `TWICE` also read windows eight
times as long as in training, and with a mask that hides all distances that training didn't have.
About five minutes on one core.
"""

import math
from typing import Any

import torch
import torch.nn.functional as F
from result_file import chapter, write_result
from torch import Tensor

from transformer_lib import DecoderOnly, ModelConfig, local_mask

book = chapter(21, "mine-before", "worth-fit", math=math)
fit, held_out = book["fit"], book["held_out"]
FIRST: dict[str, Any] = {"d_model": 32, "n_heads": 4, "n_layers": 2, "d_ff": 128, "dropout": 0.0,
                         "max_len": 256}  # fmt: skip
ROTARY = FIRST | {"positions": "rotary"}
GATED = ROTARY | {"activation": "swiglu"}
FORMS: dict[str, dict[str, Any]] = {
    "2017": FIRST,
    "rotary": ROTARY,
    "SwiGLU": GATED,
    "all five": GATED | {"norm": "rms", "n_kv_heads": 2, "bias": False},
}
TWICE = ("2017", "rotary")
RATE, TRIAL, SEEDS = 16e-3, 5, (0, 1, 2, 3, 4)
UPDATES, LENGTH = 300, 32
BANDS = (32, 32, 64, 128)  # of positions in a long window


def same_size(settings: dict[str, Any]) -> dict[str, Any]:
    """The settings with the inner width that gives as many parameters as `FIRST` has."""
    wanted = count(FIRST)
    width = min(range(64, 161), key=lambda d: abs(count(settings | {"d_ff": d}) - wanted))
    return settings | {"d_ff": width}


def build(settings: dict[str, Any]) -> DecoderOnly:
    return DecoderOnly(ModelConfig(vocab_size=len(book["letters"]), **settings))


def count(settings: dict[str, Any]) -> int:
    return sum(parameter.numel() for parameter in build(settings).parameters())


def train(settings: dict[str, Any], seed: int, rate: float, updates: int = UPDATES) -> DecoderOnly:
    torch.manual_seed(seed)
    return fit(build(settings), rate, updates)


@torch.no_grad()
def by_band(model: DecoderOnly, mask: Tensor | None = None) -> list[float]:
    """The loss on long windows of the held-out text, for each band of positions."""
    windows = book["val_ids"].unfold(0, sum(BANDS) + 1, sum(BANDS))  # (N, T + 1)
    logits = model(windows[:, :-1], mask=mask)
    loss = F.cross_entropy(logits.mT, windows[:, 1:], reduction="none")  # (N, T)
    return [band.mean().item() for band in loss.split(BANDS, dim=1)]


def best_rate(settings: dict[str, Any]) -> float:
    """A rate that's better than half and twice of it."""
    best, losses = RATE, {}
    while True:
        for rate in (best / 2, best, best * 2):
            if rate not in losses:
                losses[rate] = held_out(train(settings, TRIAL, rate))
        middle, best = best, min(losses, key=lambda rate: losses[rate])
        if best == middle:
            return best


forms = {}
for name, settings in FORMS.items():
    settings = same_size(settings)
    rate = best_rate(settings)
    models = [train(settings, seed, rate) for seed in SEEDS]
    forms[name] = {"settings": settings, "parameters": count(settings), "rate": rate,
                   "loss": [held_out(model) for model in models]}  # fmt: skip
    if name in TWICE:
        near = local_mask(sum(BANDS), window=LENGTH - 1)
        longer = [train(settings, seed, rate, 2 * UPDATES) for seed in SEEDS]
        forms[name] |= {
            "far": [by_band(model) for model in models],
            "far_hidden": [by_band(model, near) for model in models],
            "loss_longer": [held_out(model) for model in longer],
        }
write_result(
    updates=UPDATES,
    seeds=SEEDS,
    forms=forms,
)
