"""From the paper's layer to a Llama layer, one change at a time: the record of chapter 21.

    python experiments/since_2017.py

Trains a small decoder-only model on tiny Shakespeare, by character, in eight forms. Each form keeps
the changes of the one before and has equally many parameters: the width of the feed-forward network
makes up for what a change adds or saves. Three seeds, with the same number of updates. The first
and the last form are trained once more in the time that the third one takes for these updates.
About a quarter of an hour on one core.
"""

from __future__ import annotations

import math
import statistics
import time
from concurrent.futures import ProcessPoolExecutor
from typing import Any

import torch
import torch.nn.functional as F
from result_file import head, write_result
from torch import Tensor, nn

from transformer_lib import DecoderOnly, ModelConfig
from transformer_lib.data import shakespeare

PAPER: dict[str, Any] = {"d_model": 64, "n_heads": 4, "n_layers": 3, "d_ff": 256, "dropout": 0.1,
                         "attention_dropout": 0.0, "activation_dropout": 0.0,
                         "max_len": 64, "positions": "sinusoidal", "pre_norm": False,
                         "norm": "layer", "activation": "relu"}  # fmt: skip
CHANGES: list[tuple[str, dict[str, Any]]] = [
    ("the paper's layer", {}),
    ("norm first", {"pre_norm": True}),
    ("no dropout", {"dropout": 0.0}),
    ("RMSNorm", {"norm": "rms"}),
    ("rotary", {"positions": "rotary"}),
    ("SwiGLU", {"activation": "swiglu"}),
    ("grouped heads", {"n_kv_heads": 2}),
    ("no biases", {"bias": False}),
]
CLOCK = "no dropout"  # the form whose time for UPDATES the first and the last form get, too
RATES, UPDATES, WARMUP, BATCH, SEEDS = (2e-3, 4e-3, 8e-3, 16e-3), 400, 40, 16, (0, 1, 2)


def forms() -> dict[str, dict[str, Any]]:
    """Name of the last change -> settings, each with those of the forms before it."""
    found, settings = {}, PAPER
    for name, change in CHANGES:
        settings = settings | change
        found[name] = settings
    wanted = count(build(PAPER))
    for name, settings in found.items():
        widths = {abs(count(build(settings | {"d_ff": d})) - wanted): d for d in range(128, 385, 2)}
        found[name] = settings | {"d_ff": widths[min(widths)]}
    return found


def build(settings: dict[str, Any]) -> DecoderOnly:
    settings = dict(settings)
    bias = settings.pop("bias", True)
    model = DecoderOnly(ModelConfig(vocab_size=len(ALPHABET), **settings))
    for module in model.modules():
        if isinstance(module, nn.Linear) and not bias:
            module.bias = None
    return model


def count(model: nn.Module) -> int:
    return sum(parameter.numel() for parameter in model.parameters())


def ids_of(split: str) -> Tensor:
    return torch.tensor([ALPHABET.index(letter) for letter in shakespeare.load(split)])


def update(model: nn.Module, adam: torch.optim.Optimizer, windows: Tensor) -> None:
    logits = model(windows[:, :-1])
    loss = F.cross_entropy(logits.flatten(0, 1), windows[:, 1:].flatten())
    adam.zero_grad()
    loss.backward()
    adam.step()


def optimizer(model: nn.Module, rate: float) -> torch.optim.Optimizer:
    return torch.optim.AdamW(
        model.parameters(), lr=rate, betas=(0.9, 0.95), weight_decay=0.1, fused=True
    )


def draw(text: Tensor) -> Tensor:
    """A batch of windows: a character more than the model reads."""
    start = torch.randint(len(text) - PAPER["max_len"], (BATCH, 1))
    return text[start + torch.arange(PAPER["max_len"] + 1)]  # (B, T + 1)


def train(settings: dict[str, Any], seed: int, updates: int, rate: float) -> float:
    """Warm-up, then half a cosine to 0; the loss on all of the other text."""
    torch.manual_seed(seed)
    model = build(settings)
    adam = optimizer(model, rate)
    for step in range(updates):
        warm = min(1, (step + 1) / WARMUP)
        adam.param_groups[0]["lr"] = rate * warm * (1 + math.cos(math.pi * step / updates)) / 2
        update(model, adam, draw(TRAIN))
    model.eval()
    length = PAPER["max_len"]
    windows = VAL[: len(VAL) // length * length].view(-1, length)  # (N, T)
    total = 0.0
    with torch.no_grad():
        for rows in windows.split(128):
            logits = model(rows[:, :-1])
            loss = F.cross_entropy(logits.flatten(0, 1), rows[:, 1:].flatten(), reduction="sum")
            total += loss.item()
    return round(total / windows[:, 1:].numel(), 4)


def milliseconds(of: dict[str, dict[str, Any]], rounds: int = 9, each: int = 6) -> dict[str, float]:
    """Processor time of an update, all forms in turn, so that other work slows each alike."""
    torch.manual_seed(0)
    made = {name: build(settings) for name, settings in of.items()}
    adams = {name: optimizer(model, 1e-3) for name, model in made.items()}
    times: dict[str, list[float]] = {name: [] for name in of}
    for _ in range(rounds):
        for name, model in made.items():
            batches = [draw(TRAIN) for _ in range(each)]
            start = time.process_time()
            for windows in batches:
                update(model, adams[name], windows)
            times[name].append(1e3 * (time.process_time() - start) / each)
    return {name: round(statistics.median(found), 1) for name, found in times.items()}


def main() -> None:
    torch.set_num_threads(1)
    of = forms()
    record = head("tiny Shakespeare by character, from the paper's layer to a Llama layer") | {
        "training": {"optimizer": "AdamW, betas 0.9 and 0.95, weight decay 0.1",
                     "rate": f"warm-up over {WARMUP} updates, half a cosine to 0",
                     "updates": UPDATES, "batch": BATCH, "window": PAPER["max_len"],
                     "seeds": SEEDS},
    }  # fmt: skip

    def write() -> None:
        write_result("since-2017", record)

    def trained(runs: list[tuple[Any, ...]]) -> list[float]:
        """The losses of runs, three at a time; each has a seed of its own."""
        return list(pool.map(train, *zip(*runs, strict=True)))

    one = {"initializer": torch.set_num_threads, "initargs": (1,)}
    with ProcessPoolExecutor(max_workers=3, **one) as pool:
        times = milliseconds(of)
        record["forms"] = rows = [
            {"name": name, "settings": settings, "parameters": count(build(settings)),
             "update_ms": times[name]} for name, settings in of.items()
        ]  # fmt: skip
        losses = trained([(PAPER, 0, UPDATES, rate) for rate in RATES])
        record["rates"] = dict(zip(map(str, RATES), losses, strict=True))  # of the paper's layer
        rate = record["training"]["peak"] = RATES[losses.index(min(losses))]
        write()
        for row in rows:
            row["loss"] = trained([(row["settings"], seed, UPDATES, rate) for seed in SEEDS])
            write()
        for row in (rows[0], rows[-1]):
            row["updates_in_the_time"] = updates = round(UPDATES * times[CLOCK] / row["update_ms"])
            runs = [(row["settings"], seed, updates, rate) for seed in SEEDS]
            row["loss_in_the_time"] = trained(runs)
            write()


ALPHABET = sorted(set(shakespeare.load("train")))
TRAIN, VAL = ids_of("train"), ids_of("val")
if __name__ == "__main__":
    main()
