"""Training on a GPU, ours and `nn.Transformer`, eager and compiled: the record of chapter 17.

    python benchmarks/gpu.py --output results/gpu.json
    python benchmarks/gpu.py --device cpu            # tiny sizes: only shows that it runs

Times updates of the paper's base and big models in bfloat16. On an H200 some minutes, most of them
compiling.
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

# Pairs, tokens per side of each (25,000, as in the paper's batches), vocabulary
FULL, TINY = (200, 125, 37_000), (2, 8, 100)


def seconds(kind: type, config: ModelConfig, compiled: bool, device: str, sizes: tuple) -> float:
    """The median time of an update, once the model is compiled."""
    pairs, length, vocab_size = sizes
    source = sentences(pairs, length, vocab_size).to(device)
    target = sentences(pairs, length + 1, vocab_size).to(device)
    model = kind(config).to(device)
    if compiled:
        model.compile()
    names = {"update": trainer(model), "source": source, "target": target}
    timer = Timer("update(source, target)", globals=names, num_threads=torch.get_num_threads())
    timer.timeit(3)  # compiles
    return timer.blocked_autorange(min_run_time=2).median


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--output", type=Path, help="also write the result to this file")
    options = parser.parse_args()
    device, sizes = options.device, FULL if options.device == "cuda" else TINY
    if device == "cuda":
        configs = {name: getattr(ModelConfig, name)(vocab_size=FULL[2]) for name in ("base", "big")}
    else:
        configs = {"base": ModelConfig(vocab_size=TINY[2], d_model=32, n_heads=2, n_layers=1)}
    where = environment(torch.device(device))
    gpu: dict = {"gpu": where["hardware"], "pairs": sizes[0], "length": sizes[1]}
    for name, config in configs.items():
        gpu[name] = {}
        for who, kind in (("ours", Transformer), ("nn.Transformer", TorchTransformer)):
            for how in ("eager", "compiled"):
                spent = seconds(kind, config, how == "compiled", device, sizes)
                gpu[name][f"{who}, {how}"] = {"seconds": spent}
                speed = 2 * sizes[0] * sizes[1] / spent
                print(f"{name:5} {who:15}{how:9}{speed:12,.0f} tokens/s", flush=True)
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
