"""What the library costs, beside others: `make bench`, or one part with `--only NAME`.

The peers are `torch.nn.Transformer`, wrapped the plain way, and Hugging Face's `MarianMTModel`.
All have the same sizes, weights drawn alike, dropout, data, loss, optimiser and threads.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import warnings
from pathlib import Path

os.environ.setdefault("KINETO_LOG_LEVEL", "99")  # the profiler that counts memory need not talk
if "cpu" in sys.argv:  # threads that wait for work must sleep, or their waiting is counted
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

import attention_costs
import causal
import gpu
import padding
import races
import torch
import transformers
from contenders import CONFIG

import transformer_lib

SECTIONS = {
    "training": races.training,
    "greedy": races.greedy,
    "beam": races.beam,
    "padding": padding.padding,
    "attention": attention_costs.attention_costs,
    "causal": causal.causal,
    "gpu": gpu.utilisation,
}


def processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next(line.split(":")[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", choices=SECTIONS, action="append", help="may be given again")
    parser.add_argument("--quick", action="store_true", help="one minute, not three")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument(
        "--clock", choices=("wall", "cpu"), default="wall",
        help="cpu: the main thread's processor time, for a machine that is busy with other work",
    )  # fmt: skip
    parser.add_argument("--json", type=Path, help="also write the results to this file")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    warnings.filterwarnings("ignore", message="enable_nested_tensor is True")
    transformers.logging.set_verbosity_error()

    record = {
        "hardware": f"{processor()}, {os.cpu_count()} cores",
        "threads": options.threads,
        "clock": options.clock,
        "versions": {
            "python": platform.python_version(),
            "torch": torch.__version__,
            "transformers": transformers.__version__,
            "transformer_lib": transformer_lib.__version__,
        },
    }
    print(", ".join(f"{name} {version}" for name, version in record["versions"].items()))
    print(f"{record['hardware']}; {options.threads} threads; {options.clock} clock")
    if hasattr(os, "getloadavg") and os.getloadavg()[0] > 1 and options.clock == "wall":
        print(f"The machine is busy (load {os.getloadavg()[0]:.1f}): better take --clock cpu.")
    print(
        f"{CONFIG.n_layers}+{CONFIG.n_layers} layers, d_model {CONFIG.d_model}, d_ff {CONFIG.d_ff},"
        f" {CONFIG.n_heads} heads, vocabulary {CONFIG.vocab_size} tied, dropout {CONFIG.dropout};"
        " float32; fused Adam, label smoothing 0.1; medians over rounds"
    )
    for name in options.only or SECTIONS:
        torch.manual_seed(0)
        record[name] = SECTIONS[name](options)
    if options.json:
        options.json.write_text(json.dumps(record, indent=2) + "\n")


if __name__ == "__main__":
    main()
