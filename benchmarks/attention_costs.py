"""What attention costs as texts get longer: time and memory, explicit and fused."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.profiler import ProfilerActivity, profile

from transformer_lib.attention import attention, fused_attention

HEADS, WIDTH = 4, 64
LENGTHS = (128, 256, 512, 1024, 2048, 4096)


def attention_costs(options: Any) -> dict[str, Any]:
    """One sequence without a mask: every query sees every key."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    clock = time.perf_counter if options.clock == "wall" or device == "cuda" else time.thread_time
    lengths = LENGTHS[:-1] if options.quick else LENGTHS
    paths = {
        "explicit": lambda q, k, v: attention(q, k, v).output,
        "fused": fused_attention,
    }
    print(f"\nattention, 1 sequence, {HEADS} heads of {WIDTH}, float32, {device}: ms and MiB")
    print(f"  {'':26}" + "".join(f"{n:>10,}" for n in lengths) + f"{'exponent':>11}")
    record: dict[str, Any] = {"heads": HEADS, "d_head": WIDTH, "device": device, "lengths": lengths}
    for name, path in paths.items():
        for backward in (False, True):
            costs = [_cost(path, n, backward, device, clock) for n in lengths]
            what = f"{name}, {'both ways' if backward else 'forward'}"
            record[what] = {}
            for i, (unit, scale) in enumerate((("ms", 1e3), ("MiB", 2**-20))):
                values = [scale * cost[i] for cost in costs]
                # Short texts pay for calls, not for attention: the slope is that of the longest.
                slope = exponent(lengths[-3:], values[-3:])
                record[what][unit], record[what][f"{unit}_exponent"] = values, slope
                cells = "".join(f"{value:10,.2f}" for value in values)
                print(f"  {what:20}{unit:>6}{cells}{slope:11.2f}")
    return record


def _cost(
    path: Callable[[Tensor, Tensor, Tensor], Tensor],
    length: int,
    backward: bool,
    device: str,
    clock: Callable[[], float],
) -> tuple[float, float]:
    """Seconds, the median of some; bytes at the peak, beyond those of the inputs."""
    torch.manual_seed(0)
    inputs = [
        torch.randn(1, HEADS, length, WIDTH, device=device, requires_grad=backward)
        for _ in range(3)
    ]
    gradient = torch.ones_like(inputs[0])

    def run() -> None:
        output = path(*inputs)
        if backward:
            torch.autograd.grad(output, inputs, gradient)

    def timed() -> float:
        start = clock()
        run()
        if device == "cuda":
            torch.cuda.synchronize()
        return clock() - start

    timed()  # warm-up
    first = timed()
    seconds = [first, *(timed() for _ in range(max(2, min(50, int(0.3 / first)))))]
    return statistics.median(seconds), _peak(run, device)


def _peak(run: Callable[[], None], device: str) -> float:
    if device == "cuda":
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        run()
        return torch.cuda.max_memory_allocated() - before
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
        run()
    events = [e for e in profiler.profiler.kineto_results.events() if e.name() == "[memory]"]
    now = peak = 0
    for event in sorted(events, key=lambda e: e.start_ns()):
        now += event.nbytes()
        peak = max(peak, now)
    return peak


def exponent(lengths: tuple[int, ...], values: list[float]) -> float:
    """The slope of the line through the logarithms: 1 is linear, 2 quadratic."""
    x, y = [math.log(n) for n in lengths], [math.log(max(v, 1e-9)) for v in values]
    return statistics.linear_regression(x, y).slope
