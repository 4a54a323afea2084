"""How fast the library is beside others: training, greedy decoding, beam search.

    python benchmarks/speed.py                       # three minutes; `make bench` runs it
    python benchmarks/speed.py --only beam --seconds 10

The peers are `torch.nn.Transformer`, wrapped the plain way, and Hugging Face's `MarianMTModel`. All
have the same sizes, weights drawn alike, dropout, data, loss, optimizer, and threads. They take
turns, and what counts is the median of the ratios *per round*: other work on the machine slows all
of them alike.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable

import torch
import transformers
from contenders import CONFIG, CONTENDERS, sentences

from transformer_lib.runs import environment

BATCH, LENGTH = 32, 32  # training: 32 pairs of up to 32 + 32 tokens
TEXTS, NEW_TOKENS, BEAMS = 16, 48, 4  # no text ends, so all take the same steps
Tasks = dict[str, Callable[[], None]]


def training() -> tuple[Tasks, int]:
    source, target = sentences(BATCH, LENGTH), sentences(BATCH, LENGTH + 1)
    target[:, 0] = CONFIG.bos_id
    models = {name: make(CONFIG, "cpu") for name, make in CONTENDERS.items()}
    tasks = {name: lambda m=model: m.train_step(source, target) for name, model in models.items()}
    return tasks, BATCH * 2 * LENGTH


def greedy() -> tuple[Tasks, int]:
    """`nn.Transformer` has no cache and decodes its whole prefix again."""
    return _decoding(list(CONTENDERS), beams=1)


def beam() -> tuple[Tasks, int]:
    return _decoding(["ours", "MarianMTModel"], BEAMS)


def _decoding(names: list[str], beams: int) -> tuple[Tasks, int]:
    source = sentences(TEXTS, LENGTH)
    models = {name: CONTENDERS[name](CONFIG, "cpu") for name in names}
    tasks = {
        name: lambda m=model: m.decode(source, NEW_TOKENS, beams) for name, model in models.items()
    }
    return tasks, TEXTS * NEW_TOKENS


def race(tasks: Tasks, budget: float) -> dict[str, list[float]]:
    """Seconds of each task in each round; rounds go on until `budget` seconds have passed."""
    for task in tasks.values():  # warm-up
        task()
    deadline = time.perf_counter() + budget
    seconds: dict[str, list[float]] = {name: [] for name in tasks}
    names = list(tasks)
    while time.perf_counter() < deadline or len(seconds[names[0]]) < 3:
        names = names[1:] + names[:1]  # each goes first in turn
        for name in names:
            start = time.perf_counter()
            tasks[name]()
            seconds[name].append(time.perf_counter() - start)
    return seconds


def show(kind: str, seconds: dict[str, list[float]], tokens: int) -> None:
    print(f"\n{kind:16}{'tokens/s':>10}{'ours / theirs':>16}{'half of rounds':>18}")
    for name, theirs in seconds.items():
        line = f"  {name:14}{tokens / statistics.median(theirs):10,.0f}"
        if name != "ours":
            ratios = [t / o for t, o in zip(theirs, seconds["ours"], strict=True)]
            low, middle, high = statistics.quantiles(ratios, method="inclusive")
            line += f"{middle:15.2f}×{low:11.2f} to {high:.2f}"
        print(line)


RACES = {"training": training, "greedy": greedy, "beam": beam}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--only", choices=RACES, action="append", help="may be given again")
    parser.add_argument("--seconds", type=float, default=45, help="of each race (default: 45)")
    options = parser.parse_args()
    where = environment(torch.device("cpu"))
    versions = where["versions"] | {"transformers": transformers.__version__}
    print(", ".join(f"{name} {version}" for name, version in versions.items()))
    print(
        f"{where['hardware']}; {CONFIG.n_layers}+{CONFIG.n_layers} layers, d_model "
        f"{CONFIG.d_model}, d_ff {CONFIG.d_ff}, {CONFIG.n_heads} heads, vocabulary "
        f"{CONFIG.vocab_size} tied; float32, fused Adam; medians over rounds"
    )
    for name in options.only or RACES:
        torch.manual_seed(0)
        tasks, tokens = RACES[name]()
        show(name, race(tasks, options.seconds), tokens)


if __name__ == "__main__":
    main()
