"""How fast the library is beside others: training, greedy decoding, beam search.

    python benchmarks/speed.py                       # three minutes; `make bench` runs it
    python benchmarks/speed.py --seconds 10

The peers are `torch.nn.Transformer`, wrapped the plain way, which trains only, since it has no
cache, and Hugging Face's `MarianMTModel`. All have the same sizes, weights drawn alike, dropout,
data, loss, optimizer, and threads. They take turns, and what counts is the median of the ratios
*per round*: other work on the machine slows all of them alike.
"""

import argparse
import statistics
import time
from collections.abc import Callable

import torch
from contenders import CONFIG, Marian, TorchTransformer, sentences, trainer

from transformer_lib import Transformer
from transformer_lib.decoding import beam_search, greedy
from transformer_lib.runs import environment

BATCH, LENGTH = 32, 32  # training: 32 pairs of up to 32 + 32 tokens
TEXTS, NEW_TOKENS, BEAMS = 16, 48, 4  # no text ends, so all take the same steps
Tasks = dict[str, Callable[[], object]]


def training() -> Tasks:
    source, target = sentences(BATCH, LENGTH), sentences(BATCH, LENGTH + 1)
    kinds = {"ours": Transformer, "nn.Transformer": TorchTransformer, "MarianMTModel": Marian}
    updates = {name: trainer(kind(CONFIG)) for name, kind in kinds.items()}
    return {name: lambda u=update: u(source, target) for name, update in updates.items()}


def decoding(beams: int) -> Tasks:
    source, ours, marian = sentences(TEXTS, LENGTH), Transformer(CONFIG), Marian(CONFIG)
    how = {"max_len": NEW_TOKENS, "eos_id": CONFIG.vocab_size}  # no text ends
    if beams > 1:
        how |= {"beam_size": beams, "n_best": 1}
    search = beam_search if beams > 1 else greedy
    ours.eval(), marian.eval()
    return {
        "ours": lambda: search(ours, source, **how),
        "MarianMTModel": torch.no_grad()(lambda: marian.generate(source, NEW_TOKENS, beams)),
    }


def race(tasks: Tasks, budget: float) -> dict[str, list[float]]:
    """Seconds of each task in each round; rounds go on until `budget` seconds have passed."""
    for task in tasks.values():  # warm-up
        task()
    deadline = time.perf_counter() + budget
    seconds: dict[str, list[float]] = {name: [] for name in tasks}
    names = list(tasks)
    while time.perf_counter() < deadline or len(seconds["ours"]) < 3:
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


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=45, help="of each race (default: 45)")
    seconds = parser.parse_args().seconds
    print(environment(torch.device("cpu"))["hardware"], CONFIG, sep="\n")
    show("training", race(training(), seconds), BATCH * 2 * LENGTH)
    for kind, beams in (("greedy", 1), ("beam", BEAMS)):
        show(kind, race(decoding(beams), seconds), TEXTS * NEW_TOKENS)


if __name__ == "__main__":
    main()
