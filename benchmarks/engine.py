"""What the live figures' Transformer in JavaScript costs, beside PyTorch on one thread.

    python benchmarks/engine.py

Times products of matrices, updates of a model (forward, backward, Adam), and greedy decoding of
one sentence: in PyTorch, in Node with WebAssembly, and in plain JavaScript. They take turns; each
figure is the best of two. Prints what it found as JSON. Some minutes on one thread.
"""

from __future__ import annotations

import json
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from transformer_lib import ModelConfig, Transformer
from transformer_lib.data import PAD, Batch, Tokenizer, collate, number_word_pairs
from transformer_lib.decoding import greedy
from transformer_lib.figures.engine import FOLDER
from transformer_lib.runs import environment
from transformer_lib.training import cross_entropy

ROUNDS, TURNS = 3, 2
NODE = shutil.which("node") or str(Path(sys.executable).with_name("node"))
MODES = {"webassembly": True, "plain": False}
# m, n, k, and whether B is the transpose of what lies in memory
PRODUCTS = [(2560, 128, 128, False), (320, 32, 32, False), (320, 32, 32, True), (10, 10, 8, True)]
SIZES: dict[str, dict[str, Any]] = {
    "number-words": {"d_model": 128, "n_heads": 4, "n_layers": 2, "d_ff": 256},
    "reverse": {"d_model": 32, "n_heads": 4, "n_layers": 1, "d_ff": 64},
}


def pairs(name: str, draw: torch.Generator) -> tuple[list[tuple[list[int], list[int]]], int]:
    """Id lists of one batch, and the size of the vocabulary."""
    if name == "reverse":
        letters = torch.randint(4, 14, (32, 8), generator=draw).tolist()
        return [(word, word[::-1]) for word in letters], 14
    texts = number_word_pairs(0, 9_999)
    words = {word for english, _ in texts for word in english.replace("-", " ").split()}
    tokenizer = Tokenizer.characters([text for pair in texts for text in pair], words=words)
    chosen = torch.randperm(len(texts), generator=draw)[:64].tolist()
    encoded = [tuple(tokenizer.encode(text) for text in texts[i]) for i in chosen]
    return encoded, tokenizer.vocab_size


def tokens_of(batch: Batch) -> int:
    return int((batch.labels != PAD).sum())


def seconds(run: Callable[[], Any], times: int) -> float:
    """Processor seconds of one run: the median of some rounds, after two to warm up."""
    run(), run()
    found = []
    for _ in range(ROUNDS):
        start = time.process_time()
        for _ in range(times):
            run()
        found.append((time.process_time() - start) / times)
    return sorted(found)[ROUNDS // 2]


def pytorch(tasks: dict[str, Any]) -> dict[str, Any]:
    products = []
    for m, n, k, transposed in PRODUCTS:
        a, b, c = torch.rand(m, k), torch.rand(k, n), torch.rand(m, n)
        b = torch.rand(n, k).T if transposed else b
        work = 2 * m * n * k
        each = seconds(lambda a=a, b=b, c=c: c.addmm_(a, b), int(2e8 / work) + 1)
        products.append(work / each / 1e9)
    models = {}
    for name, task in tasks.items():
        model, batch = task["model"], task["batch"]
        adam = torch.optim.Adam(model.parameters(), lr=1e-4, betas=(0.9, 0.98), fused=True)

        def step(model=model, batch=batch, adam=adam) -> None:
            logits = model(batch.source, batch.target_input)
            loss = cross_entropy(logits, batch.labels, pad_id=PAD, label_smoothing=0.1)
            adam.zero_grad()
            loss.mean.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            adam.step()

        def write(model=model, task=task) -> None:
            source = torch.tensor([task["sentence"]])
            never = model.config.vocab_size  # as the id that ends a text
            with torch.inference_mode():
                ids = greedy(model, source, eos_id=never, max_len=task["most"]).ids
            assert ids.shape == (1, task["most"])

        train = tokens_of(batch) / seconds(step, task["times"])
        models[name] = {"train": train, "greedy": task["most"] / seconds(write, 2)}
    return {"products": products, "models": models}


def node(mode: str, tasks: dict[str, Any]) -> dict[str, Any]:
    wasm = MODES[mode]
    models = {}
    for name, task in tasks.items():
        model, batch = task["model"], task["batch"]
        models[name] = {
            "config": {**asdict(model.config), "eos_id": -1},
            "weights": [
                {"name": weight, "shape": list(values.shape), "data": values.flatten().tolist()}
                for weight, values in model.state_dict().items()
            ],
            "batch": {
                "source": batch.source.tolist(),
                "target": batch.target_input.tolist(),
                "labels": batch.labels.tolist(),
            },
            **{key: task[key] for key in ("sentence", "most")},
            "tokens": tokens_of(batch),
            "times": task["times"] if wasm else 1,
        }
    given = {"engine": (FOLDER / "index.js").as_uri(), "wasm": wasm, "rounds": ROUNDS,
             "products": PRODUCTS, "models": models}  # fmt: skip
    command = [NODE, "--no-warnings", "--single-threaded",
               str(Path(__file__).with_suffix(".mjs"))]  # fmt: skip
    answer = subprocess.run(
        command, input=json.dumps(given), capture_output=True, text=True, check=True
    )
    found = json.loads(answer.stdout)
    assert found["wasm"] is wasm
    return found


def main() -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    draw = torch.Generator().manual_seed(0)
    tasks = {}
    for name, sizes in SIZES.items():
        encoded, vocab_size = pairs(name, draw)
        config = ModelConfig(vocab_size=vocab_size, max_len=512, dropout=0.0, **sizes)
        tasks[name] = {
            "model": Transformer(config), "batch": collate(encoded), "sentence": encoded[0][0],
            "most": 9 if name == "reverse" else 32, "times": 10 if name == "reverse" else 1,
        }  # fmt: skip
    best: dict[str, dict[str, Any]] = {}
    for turn in range(TURNS):
        for mode in ("pytorch", *MODES):
            found = pytorch(tasks) if mode == "pytorch" else node(mode, tasks)
            keep = best.setdefault(mode, found)
            keep["products"] = list(map(max, keep["products"], found["products"]))
            for name, speeds in found["models"].items():
                mine = keep["models"][name]
                keep["models"][name] = {what: max(mine[what], v) for what, v in speeds.items()}
            print(turn, mode, json.dumps(best[mode]), flush=True)
    version = subprocess.run([NODE, "--version"], capture_output=True, text=True, check=True)
    where = environment(torch.device("cpu"))
    where["versions"]["node"] = version.stdout.strip().removeprefix("v")
    record = {
        "command": shlex.join(["python", "benchmarks/engine.py", *sys.argv[1:]]),
        "what": "GFLOP/s of products, and tokens per second of training and greedy decoding",
        **where,
        "clock": "processor time of one thread, beside other work",
        "models": {
            name: {
                **SIZES[name],
                "parameters": sum(p.numel() for p in task["model"].parameters()),
                "rows": len(task["batch"].source), "tokens": tokens_of(task["batch"]),
            }
            for name, task in tasks.items()
        },
        "products": {
            f"{m}x{k} by {k}x{n}{', transposed' if transposed else ''}": {
                mode: round(found["products"][i], 2) for mode, found in best.items()
            }
            for i, (m, n, k, transposed) in enumerate(PRODUCTS)
        },
        **{
            what: {
                name: {mode: round(found["models"][name][key]) for mode, found in best.items()}
                for name in SIZES
            }
            for what, key in (("training", "train"), ("greedy", "greedy"))
        },
    }  # fmt: skip
    print(json.dumps(record, indent=1))


if __name__ == "__main__":
    main()
