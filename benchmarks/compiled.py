"""Training updates, ours and `nn.Transformer`'s, eager and compiled: the records of chapter 17.

    python benchmarks/compiled.py cuda --output results/gpu.json
    python benchmarks/compiled.py cpu --output results/compiled.json

On a GPU, times the paper's base and big models in bfloat16; on one core of a CPU, a small model,
which needs a C++ compiler. Some minutes each, most of them compiling.
"""

import argparse
import json
import shlex
import sys
from pathlib import Path

import torch
from contenders import TorchTransformer, sentences, trainer
from torch.utils.benchmark import Timer

from transformer_lib import ModelConfig, Transformer
from transformer_lib.runs import environment

SMALL = ModelConfig(vocab_size=4_000, d_model=128, n_heads=4, n_layers=2, d_ff=512)
PAPER = {name: getattr(ModelConfig, name)(vocab_size=37_000) for name in ("base", "big")}
# For each device: pairs, tokens per side of each, and the models. 25,000 tokens as in the paper.
SIZES = {"cuda": (200, 125, PAPER), "cpu": (16, 32, {"small": SMALL})}


def seconds(model: torch.nn.Module, pairs: int, length: int, device: str) -> float:
    """The median time of an update, once the model is compiled."""
    vocab_size = model.config.vocab_size
    update = trainer(model.to(device))
    source = sentences(pairs, length, vocab_size).to(device)
    target = sentences(pairs, length + 1, vocab_size).to(device)
    names = {"update": update, "source": source, "target": target}
    timer = Timer("update(source, target)", globals=names, num_threads=torch.get_num_threads())
    timer.timeit(3)  # compiles
    return timer.blocked_autorange(min_run_time=2).median


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("device", choices=SIZES)
    parser.add_argument("--output", type=Path, help="also write the result to this file")
    options = parser.parse_args()
    torch.set_num_threads(1)
    pairs, length, configs = SIZES[options.device]
    models: dict[str, dict[str, float]] = {}
    for name, config in configs.items():
        models[name] = {}
        for who, kind in (("ours", Transformer), ("nn.Transformer", TorchTransformer)):
            for how in ("eager", "compiled"):
                model = kind(config)
                if how == "compiled":
                    model.compile()
                spent = seconds(model, pairs, length, options.device)
                models[name][f"{who}, {how}"] = spent
                speed = 2 * pairs * length / spent
                print(f"{name:6}{who:15}{how:9}{speed:12,.0f} tokens/s", flush=True)
    if options.output:
        record = {
            "command": shlex.join(["python", "benchmarks/compiled.py", *sys.argv[1:]]),
            "what": "seconds of an update, ours and nn.Transformer's, eager and compiled",
            **environment(torch.device(options.device)),
            "pairs": pairs,
            "length": length,
            "models": models,
        }
        options.output.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
