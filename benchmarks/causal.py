"""What causality and shared heads cost: said to the kernel, or made into a mask and copied keys."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from transformer_lib import MultiHeadAttention, causal_mask

D_MODEL, HEADS, KV_HEADS = 512, 8, 2
LENGTHS = (1024, 4096)


def causal(options: Any, device: str = "cpu") -> dict[str, Any]:
    """One text through one attention layer, both ways in turns; medians of the ratios."""
    dtype = torch.bfloat16 if device == "cuda" else torch.float32
    wall = options.clock == "wall" or device == "cuda"
    clock = time.perf_counter if wall else time.thread_time
    layer = MultiHeadAttention(d_model=D_MODEL, n_heads=HEADS, n_kv_heads=KV_HEADS)
    layer = layer.to(device, dtype)
    print(f"\ncausal attention, 1 text, d_model {D_MODEL}, {HEADS} heads, {KV_HEADS} of keys,"
          f" {str(dtype).removeprefix('torch.')}, {device}")  # fmt: skip
    print(f"  {'':26}{'with a mask':>12}{'without':>10}{'faster':>9}")
    record: dict[str, Any] = {"d_model": D_MODEL, "n_heads": HEADS, "n_kv_heads": KV_HEADS}
    for length in LENGTHS:
        x = torch.randn(1, length, D_MODEL, device=device, dtype=dtype)
        for backward in (False, True):
            ways = {
                "mask": lambda x=x: _with_mask(layer, x),
                "no mask": lambda x=x: layer(x, causal=True),
            }
            seconds = _in_turns(ways, backward, device, clock, 5 if options.quick else 15)
            pairs = zip(seconds["mask"], seconds["no mask"], strict=True)
            ratio = statistics.median(one / other for one, other in pairs)
            before, after = (1e3 * statistics.median(each) for each in seconds.values())
            what = f"{length:,} tokens, {'both ways' if backward else 'forward'}"
            record[what] = {"mask_ms": before, "no_mask_ms": after, "faster": ratio}
            print(f"  {what:26}{before:9.1f} ms{after:7.1f} ms{ratio:8.2f}×")
    return record


def _with_mask(layer: MultiHeadAttention, x: Tensor) -> Tensor:
    """The same with a causal mask, and a copy of keys and values for each head of queries."""
    t, d = x.size(1), layer.d_head
    parts = layer.in_proj(x).unflatten(-1, (-1, d)).transpose(1, 2)  # (1, H + 2 H_kv, T, d_head)
    query, key, value = parts.split((HEADS, KV_HEADS, KV_HEADS), dim=1)
    key, value = (part.repeat_interleave(HEADS // KV_HEADS, dim=1) for part in (key, value))
    mask = causal_mask(t, device=x.device)
    mixed = torch.nn.functional.scaled_dot_product_attention(query, key, value, attn_mask=mask)
    return layer.out_proj(mixed.transpose(1, 2).flatten(2))


def _in_turns(
    ways: dict[str, Callable[[], Tensor]],
    backward: bool,
    device: str,
    clock: Callable[[], float],
    rounds: int,
) -> dict[str, list[float]]:
    def timed(way: Callable[[], Tensor]) -> float:
        start = clock()
        with torch.set_grad_enabled(backward):
            output = way()
            if backward:
                output.sum().backward()
        if device == "cuda":
            torch.cuda.synchronize()
        return clock() - start

    for way in ways.values():  # warm-up
        timed(way)
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(rounds):
        for name, way in ways.items():
            seconds[name].append(timed(way))
    return seconds
