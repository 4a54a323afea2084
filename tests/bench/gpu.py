"""Training on a GPU: tokens per second, and the share of the GPU's arithmetic that it is."""

from __future__ import annotations

import statistics
import time
from typing import Any

import torch
from causal import causal
from contenders import CONTENDERS, Contender, sentences

from transformer_lib import ModelConfig

PEAKS = {  # dense bfloat16 TFLOP/s, from NVIDIA's data sheets (float16 where there is no bfloat16)
    "H200": 989, "H100 PCIe": 756, "H100": 989, "A100": 312, "L40S": 362, "L4": 121, "A10": 125,
    "V100": 125, "T4": 65,
}  # fmt: skip
PAIRS, LENGTH, VOCABULARY = 64, 128, 37_000
SIZES = {"base": ModelConfig.base, "big": ModelConfig.big}


def utilisation(options: Any) -> dict[str, Any] | None:
    if not torch.cuda.is_available():
        print("\ngpu: skipped, there is none")
        return None
    name = torch.cuda.get_device_name()
    peak = options.peak or next((p for part, p in PEAKS.items() if part in name), None)
    print(f"\n{name}, peak {f'{peak} TFLOP/s' if peak else 'unknown: give --peak'}; bfloat16,"
          f" {PAIRS} pairs of {LENGTH} + {LENGTH} tokens, vocabulary {VOCABULARY:,}")  # fmt: skip
    print("FLOPs of a step: 6 per weight of a matrix and token it multiplies, and for attention"
          " 12 * d_model per layer, query and key")  # fmt: skip
    record: dict[str, Any] = {"gpu": name, "peak_tflops": peak}
    for size, preset in SIZES.items():
        config = preset(vocab_size=VOCABULARY)
        record[size] = measure(config, "cuda", peak, 3 if options.quick else 10)
        print(f"{size:16}{'':>10}{'tokens/s':>12}{'TFLOP/s':>10}{'of peak':>10}{'memory':>12}")
        for who, row in record[size].items():
            share = f"{100 * row['mfu']:8.1f} %" if row["mfu"] else f"{'–':>10}"
            print(f"  {who:24}{row['tokens_per_second']:12,.0f}{row['tflops']:10.1f}{share}"
                  f"{row['peak_gib']:8.1f} GiB")  # fmt: skip
    record["causal"] = causal(options, "cuda")
    return record


def measure(
    config: ModelConfig, device: str, peak: float | None, steps: int, pairs: int = PAIRS
) -> dict[str, dict[str, float | None]]:
    """Each model, eager and compiled, one after the other: training steps with Adam."""
    source = sentences(pairs, LENGTH, config.vocab_size).to(device)
    target = sentences(pairs, LENGTH + 1, config.vocab_size).to(device)
    rows: dict[str, dict[str, float | None]] = {}
    for who, make in CONTENDERS.items():
        for how in ("eager", "compiled"):
            if device == "cuda":
                torch.cuda.empty_cache()
                torch.cuda.reset_peak_memory_stats()
            contender = make(config, device)
            if how == "compiled":
                contender.model.compile()
            seconds = _step(contender, source, target, steps)
            flops = step_flops(config, pairs, LENGTH, LENGTH) / seconds
            rows[f"{who}, {how}"] = {
                "tokens_per_second": 2 * pairs * LENGTH / seconds,
                "tflops": flops / 1e12,
                "mfu": flops / 1e12 / peak if peak else None,
                "peak_gib": torch.cuda.max_memory_allocated() / 2**30 if device == "cuda" else 0.0,
            }
            del contender
    return rows


def _step(contender: Contender, source: torch.Tensor, target: torch.Tensor, steps: int) -> float:
    def timed() -> float:
        start = time.perf_counter()
        contender.train_step(source, target)
        if source.is_cuda:
            torch.cuda.synchronize()
        return time.perf_counter() - start

    for _ in range(3):  # warm-up, and compiling
        timed()
    return statistics.median(timed() for _ in range(steps))


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
