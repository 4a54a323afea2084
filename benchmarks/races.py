"""Who is faster: training, greedy decoding, beam search, each beside the same of others.

All take turns within each round and what counts is the median of the ratios *per round*: whatever
else the machine is doing then slows all of them, and cancels.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

import products
from contenders import CONFIG, CONTENDERS, Contender, sentences

BATCH, LENGTH = 32, 32  # training: 32 pairs of 32 + 32 tokens, the longest of them
TEXTS, NEW_TOKENS, BEAMS = 16, 48, 4
PRODUCTS = "products alone"  # of ours, without all else: the limit
GOALS = {  # speed of ours in units of the peer's
    "training": {"nn.Transformer": 1.3, "MarianMTModel": 1.1, PRODUCTS: 0.85},
    "greedy": {"MarianMTModel": 1.5},
    "beam": {"MarianMTModel": 1.5},
}
Row = dict[str, "float | None"]


def contenders() -> dict[str, Contender]:
    return {name: make(CONFIG, "cpu") for name, make in CONTENDERS.items()}


def training(options: Any) -> dict[str, Row]:
    models = contenders()
    source, target = sentences(BATCH, LENGTH), sentences(BATCH, LENGTH + 1)
    target[:, 0] = CONFIG.bos_id
    tasks = {n: lambda c=c: c.train_step(source, target) for n, c in models.items()}
    sizes = {n: sum(p.numel() for p in c.model.parameters()) for n, c in models.items()}
    print("parameters:", ", ".join(f"{name} {size:,}" for name, size in sizes.items()))
    tasks[PRODUCTS] = products.of_training(CONFIG, BATCH, LENGTH, LENGTH)
    return _race("training", tasks, BATCH * 2 * LENGTH, options)


def greedy(options: Any) -> dict[str, Row]:
    """`nn.Transformer` has no cache and decodes its whole prefix again."""
    source = sentences(TEXTS, LENGTH)
    tasks = {n: lambda c=c: c.decode(source, NEW_TOKENS) for n, c in contenders().items()}
    tasks[PRODUCTS] = products.of_decoding(CONFIG, TEXTS, 1, LENGTH, NEW_TOKENS)
    return _race("greedy", tasks, TEXTS * NEW_TOKENS, options)


def beam(options: Any) -> dict[str, Row]:
    """Four beams; no text ends, so all take the same number of steps with the same beams."""
    source, models = sentences(TEXTS, LENGTH), contenders()
    tasks = {
        name: lambda c=models[name]: c.decode(source, NEW_TOKENS, BEAMS)
        for name in ("ours", "MarianMTModel")
    }
    tasks[PRODUCTS] = products.of_decoding(CONFIG, TEXTS, BEAMS, LENGTH, NEW_TOKENS)
    return _race("beam", tasks, TEXTS * NEW_TOKENS, options)


def _race(
    kind: str, tasks: dict[str, Callable[[], None]], tokens: int, options: Any
) -> dict[str, Row]:
    clock = time.perf_counter if options.clock == "wall" else time.thread_time
    seconds = race(tasks, 10 if options.quick else 45, clock)
    rows = summary(seconds, tokens, GOALS[kind])
    show(kind, rows)
    return rows


def race(
    tasks: dict[str, Callable[[], None]], budget: float, clock: Callable[[], float]
) -> dict[str, list[float]]:
    """Seconds of each task in each round; rounds go on until `budget` seconds have passed."""
    deadline = time.perf_counter() + budget
    for task in tasks.values():  # warm-up
        task()
    seconds: dict[str, list[float]] = {name: [] for name in tasks}
    names = list(tasks)
    while time.perf_counter() < deadline or len(seconds[names[0]]) < 3:
        names = names[1:] + names[:1]  # nobody always goes first
        for name in names:
            start = clock()
            tasks[name]()
            seconds[name].append(clock() - start)
    return seconds


def summary(
    seconds: dict[str, list[float]], tokens: int, goals: dict[str, float]
) -> dict[str, Row]:
    rows: dict[str, Row] = {}
    for name, theirs in seconds.items():
        ratios = sorted(t / o for t, o in zip(theirs, seconds["ours"], strict=True))
        quarter = len(ratios) // 4
        rows[name] = {
            "tokens_per_second": tokens / statistics.median(theirs),
            "ours_is_faster": statistics.median(ratios),
            "from": ratios[quarter],
            "to": ratios[-1 - quarter],
            "goal": goals.get(name),
        }
    return rows


def show(kind: str, rows: dict[str, Row]) -> None:
    print(f"\n{kind:16}{'tokens/s':>10}{'ours / theirs':>16}{'half of rounds':>18}{'goal':>7}")
    for name, row in rows.items():
        line = f"  {name:14}{row['tokens_per_second']:10,.0f}"
        if name != "ours":
            line += f"{row['ours_is_faster']:15.2f}×{row['from']:11.2f} to {row['to']:.2f}"
            line += f"{row['goal']:7.2f}" if row["goal"] else "      –"
        print(line)
