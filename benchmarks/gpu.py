"""Training on a GPU: tokens per second, and the share of the GPU's arithmetic that it is."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any

import torch
from causal import causal
from contenders import CONTENDERS, Contender, sentences

from transformer_lib import ModelConfig

PAIRS, LENGTH = 200, 125  # 25,000 tokens on each side, as the paper's batches
VOCABULARY = 37_000
SIZES = {"base": ModelConfig.base, "big": ModelConfig.big}
UPDATES = {"base": 100_000, "big": 300_000}  # of the paper
PRODUCT = 8192  # rows and columns
WAYS = ("eager", "compiled")


def utilisation(options: Any) -> dict[str, Any] | None:
    if not torch.cuda.is_available():
        print("\ngpu: skipped, there is none")
        return None
    limit = product()
    record: dict[str, Any] = {"gpu": torch.cuda.get_device_name(), "product_tflops": limit}
    record |= {"pairs": PAIRS, "length": LENGTH, "vocab_size": VOCABULARY}
    print(f"\n{record['gpu']}: a product of {PRODUCT} x {PRODUCT} matrices in bfloat16,"
          f" {limit:.0f} TFLOP/s")  # fmt: skip
    print(f"updates in bfloat16, {PAIRS} pairs of {LENGTH} + {LENGTH} tokens, vocabulary"
          f" {VOCABULARY:,}; FLOPs: 6 per weight of a matrix and token it multiplies, and for"
          " attention 12 * d_model per layer, query and key")  # fmt: skip
    print(f"{'':26}{'tokens/s':>12}{'TFLOP/s':>10}{'of product':>12}{'memory':>12}{'paper':>10}")
    for size, preset in SIZES.items():
        config = preset(vocab_size=VOCABULARY)
        record[size] = measure(config, "cuda", 3 if options.quick else 10)
        for who, row in record[size].items():
            row["of_product"] = row["tflops"] / limit
            row["hours_of_the_paper"] = UPDATES[size] * row["seconds"] / 3600
            print(f"{size:5} {who:20}{row['tokens_per_second']:12,.0f}{row['tflops']:10.1f}"
                  f"{100 * row['of_product']:10.1f} %{row['peak_gib']:8.1f} GiB"
                  f"{row['hours_of_the_paper']:8.1f} h", flush=True)  # fmt: skip
    record["causal"] = causal(options, "cuda")
    return record


def product() -> float:
    """TFLOP/s of a large product in bfloat16, the most that a model could reach."""
    one, other = (
        torch.randn(PRODUCT, PRODUCT, device="cuda", dtype=torch.bfloat16) for _ in range(2)
    )
    seconds = statistics.median(_timed(lambda: one @ other, one) for _ in range(20))
    return 2 * PRODUCT**3 / seconds / 1e12


def measure(
    config: ModelConfig, device: str, steps: int, pairs: int = PAIRS, ways: Sequence[str] = WAYS
) -> dict[str, dict[str, float]]:
    """Our model and PyTorch's, each eager and compiled: training steps with Adam."""
    source = sentences(pairs, LENGTH, config.vocab_size).to(device)
    target = sentences(pairs, LENGTH + 1, config.vocab_size).to(device)
    rows: dict[str, dict[str, float]] = {}
    for who in ("ours", "nn.Transformer"):
        for how in ways:
            if device == "cuda":
                torch.cuda.empty_cache()
                torch.cuda.reset_peak_memory_stats()
            contender = CONTENDERS[who](config, device)
            if how == "compiled":
                contender.model.compile()

            def step(contender: Contender = contender) -> None:
                contender.train_step(source, target)

            for _ in range(3):  # warm-up, and compiling
                _timed(step, source)
            seconds = statistics.median(_timed(step, source) for _ in range(steps))
            rows[f"{who}, {how}"] = {
                "seconds": seconds,
                "tokens_per_second": 2 * pairs * LENGTH / seconds,
                "tflops": step_flops(config, pairs, LENGTH, LENGTH) / seconds / 1e12,
                "peak_gib": torch.cuda.max_memory_allocated() / 2**30 if device == "cuda" else 0.0,
            }
            del contender, step
    return rows


def _timed(run: Callable[[], Any], on: torch.Tensor) -> float:
    start = time.perf_counter()
    run()
    if on.is_cuda:
        torch.cuda.synchronize()
    return time.perf_counter() - start


def step_flops(config: ModelConfig, pairs: int, s: int, t: int) -> float:
    """Of forward and backward: what the model needs, padding included, whoever computes it.

    A multiplication by a matrix costs 2 per weight and token forward and 4 backward. Scores and
    mix cost 2 * 2 * d_model per query and key forward, thrice that in all; a causal mask saves
    nothing here.
    """
    d, ff, layers = config.d_model, config.d_ff, config.n_layers
    source = layers * (4 * d * d + 2 * d * ff) + layers * 2 * d * d  # and keys, values of memory
    target = layers * (4 * d * d + 2 * d * d + 2 * d * ff) + config.vocab_size * d
    attention = layers * 12 * d * (s * s + t * t + t * s)
    return pairs * (6 * (source * s + target * t) + attention)
