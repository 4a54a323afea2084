"""Training on a GPU, ours and `nn.Transformer`, eager and compiled: the record of chapter 17.

    python benchmarks/gpu.py --output results/gpu.json
    python benchmarks/gpu.py --device cpu            # tiny sizes: only shows that it runs

Times updates of the paper's base and big models in bfloat16. Prints tokens per second, the share of
a large product's FLOP/s that an update reaches, and how long the paper's run would take. On an H200
some minutes, most of them compiling.
"""

from __future__ import annotations

import argparse
import json
import shlex
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from contenders import CONTENDERS, sentences

from transformer_lib import ModelConfig
from transformer_lib.runs import environment

# Pairs, tokens per side of each (25,000, as in the paper's batches), vocabulary, size of a product
FULL, TINY = (200, 125, 37_000, 8192), (2, 8, 100, 256)
UPDATES = {"base": 100_000, "big": 300_000}  # of the paper


def configs(device: str, vocab_size: int) -> dict[str, ModelConfig]:
    if device == "cuda":
        return {name: getattr(ModelConfig, name)(vocab_size=vocab_size) for name in UPDATES}
    return {"base": ModelConfig.base(vocab_size=vocab_size, d_model=32, n_layers=1, d_ff=64)}


def seconds(run: Callable[[], Any], device: str, times: int, warm_up: int = 3) -> float:
    """The median of some runs, after a few that warm up and compile."""
    found = []
    for _ in range(warm_up + times):
        start = time.perf_counter()
        run()
        if device == "cuda":
            torch.cuda.synchronize()
        found.append(time.perf_counter() - start)
    return statistics.median(found[warm_up:])


def product_tflops(device: str, size: int) -> float:
    """Of a large product in bfloat16, the most that a model could reach."""
    one, other = (torch.randn(size, size, device=device, dtype=torch.bfloat16) for _ in range(2))
    return 2 * size**3 / seconds(lambda: one @ other, device, 20) / 1e12


def update_flops(config: ModelConfig, pairs: int, length: int) -> float:
    """Of forward and backward: what the model needs, padding included.

    A multiplication by a matrix costs 2 per weight and token forward and 4 backward. Scores and
    mix cost 2 * 2 * d_model per query and key forward, thrice that in all; a causal mask saves
    nothing here.
    """
    d, ff, layers = config.d_model, config.d_ff, config.n_layers
    encoder = 4 * d * d + 2 * d * ff
    weights = layers * (encoder + encoder + 4 * d * d) + config.vocab_size * d  # 4: to the memory
    return pairs * length * (6 * weights + layers * 12 * d * 3 * length)


def measure(
    config: ModelConfig, device: str, pairs: int, length: int, times: int
) -> dict[str, Any]:
    source = sentences(pairs, length, config.vocab_size).to(device)
    target = sentences(pairs, length + 1, config.vocab_size).to(device)
    found: dict[str, Any] = {}
    for who in ("ours", "nn.Transformer"):
        for how in ("eager", "compiled"):
            if device == "cuda":
                torch.cuda.empty_cache()
                torch.cuda.reset_peak_memory_stats()
            contender = CONTENDERS[who](config, device)
            if how == "compiled":
                contender.model.compile()
            spent = seconds(lambda c=contender: c.train_step(source, target), device, times)
            peak = torch.cuda.max_memory_allocated() / 2**30 if device == "cuda" else 0.0
            found[f"{who}, {how}"] = {
                "seconds": spent,
                "tokens_per_second": 2 * pairs * length / spent,
                "tflops": update_flops(config, pairs, length) / spent / 1e12,
                "peak_gib": peak,
            }
            del contender
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--output", type=Path, help="also write the result to this file")
    options = parser.parse_args()
    device = options.device
    if device == "cuda" and not torch.cuda.is_available():
        parser.error("PyTorch finds no GPU here; --device cpu tries the script at tiny sizes")
    pairs, length, vocab_size, size = FULL if device == "cuda" else TINY
    torch.manual_seed(0)
    where = environment(torch.device(device))
    limit = product_tflops(device, size)
    gpu: dict[str, Any] = {"gpu": where["hardware"], "product_tflops": limit}
    gpu |= {"pairs": pairs, "length": length, "vocab_size": vocab_size}
    print(f"{where['hardware']}: a product of {size} x {size}, {limit:.3g} TFLOP/s")
    print(f"{pairs} pairs of {length} + {length} tokens, vocabulary {vocab_size:,}")
    print(f"{'':26}{'tokens/s':>12}{'TFLOP/s':>10}{'of product':>12}{'memory':>12}{'paper':>10}")
    for name, config in configs(device, vocab_size).items():
        gpu[name] = measure(config, device, pairs, length, 10)
        for who, row in gpu[name].items():
            row["of_product"] = row["tflops"] / limit
            row["hours_of_the_paper"] = UPDATES[name] * row["seconds"] / 3600
            print(f"{name:5} {who:20}{row['tokens_per_second']:12,.0f}{row['tflops']:10.3g}"
                  f"{100 * row['of_product']:10.1f} %{row['peak_gib']:8.1f} GiB"
                  f"{row['hours_of_the_paper']:8.1f} h", flush=True)  # fmt: skip
    if options.output:
        record = {
            "command": shlex.join(["python", "benchmarks/gpu.py", *sys.argv[1:]]),
            "what": "training updates of the paper's base and big models on one GPU, ours and "
            "PyTorch's, eager and compiled",
            **where,
            "gpu": gpu,
        }
        options.output.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
