"""What `torch.compile` gains a whole model on a CPU: the record of chapter 17.

    python experiments/compiled.py

Times training updates of a small translator on one core, eager and compiled, in batches of one
shape and of twelve. Needs a C++ compiler; takes some minutes, most of them compiling.
"""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
import torch._dynamo
from result_file import head, write_result

from transformer_lib import ModelConfig, Transformer
from transformer_lib.training import cross_entropy

CONFIG = ModelConfig(vocab_size=4_000, d_model=128, n_heads=4, n_layers=2, d_ff=512)
PAIRS, LENGTH, SHAPES, ROUNDS = 16, 32, 12, 7


def update(model: Any, adam: torch.optim.Optimizer, ids: torch.Tensor, bf16: bool) -> None:
    source, target, labels = ids
    with torch.autocast("cpu", torch.bfloat16, enabled=bf16):
        logits = model(source, target)
    total, count = cross_entropy(logits.float(), labels, pad_id=CONFIG.pad_id)
    adam.zero_grad()
    (total / count).backward()
    adam.step()


def seconds(run: Callable[[], None], clock: Callable[[], float]) -> float:
    start = clock()
    run()
    return clock() - start


def measure(
    how: str, bf16: bool, lengths: list[int], dropout: float = CONFIG.dropout
) -> dict[str, float]:
    """Wall seconds of the first round; processor milliseconds of an update in the later ones."""
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    torch.manual_seed(0)
    model = Transformer(replace(CONFIG, dropout=dropout))
    adam = torch.optim.Adam(model.parameters(), lr=1e-4, fused=True)
    run = torch.compile(model) if how == "compiled" else model
    batches = [torch.randint(3, CONFIG.vocab_size, (3, PAIRS, n)) for n in lengths]

    def one_round() -> None:
        for ids in batches:
            update(run, adam, ids, bf16)

    first = seconds(one_round, time.perf_counter)
    later = [seconds(one_round, time.process_time) for _ in range(ROUNDS)]
    return {
        "first_round_seconds": round(first, 1),
        "update_ms": round(1e3 * statistics.median(later) / len(batches), 1),
        "graphs": torch._dynamo.utils.counters["stats"]["unique_graphs"],
    }


def main() -> None:
    torch.set_num_threads(1)
    draw = random.Random(0)
    lengths = {"one shape": [LENGTH] * SHAPES, "twelve shapes": draw.sample(range(8, 57), SHAPES)}
    record = head("training updates of a small translator on one core, eager and compiled")
    record["lengths"] = lengths
    for bf16 in (False, True):
        for name, chosen in lengths.items():
            for how in ("eager", "compiled"):
                key = f"{'bf16' if bf16 else 'float32'}, {name}, {how}"
                record[key] = measure(how, bf16, chosen)
                print(key, record[key], flush=True)
    for how in ("eager", "compiled"):
        found = measure(how, False, lengths["one shape"], dropout=0.0)
        record[f"float32, one shape, no dropout, {how}"] = found
    write_result("compiled", record)


if __name__ == "__main__":
    main()
