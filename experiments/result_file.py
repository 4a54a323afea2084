"""What experiments share: they run the cells of a chapter, and write `results/NAME.json`.

A result's name is its script's, and its description is the script's docstring.
"""

import json
import shlex
import sys
from collections.abc import Callable, Collection
from itertools import count
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.optim.optimizer import register_optimizer_step_post_hook

from transformer_lib.runs import environment

ROOT = Path(__file__).resolve().parents[1]
torch.set_num_threads(1)


def chapter(number: int, /, *cells: str, **names: Any) -> dict[str, Any]:
    """What these cells of a chapter define, run one after another, in their order here."""
    (path,) = (ROOT / "chapters").glob(f"{number:02}_*.ipynb")
    book = json.loads(path.read_text(encoding="utf-8"))["cells"]
    sources = {cell["id"]: "".join(cell["source"]) for cell in book}
    names = {"torch": torch, "nn": nn, "F": nn.functional} | names
    for name in cells:
        exec(sources[name], names)
    return names


def after_updates(
    steps: Collection[int], train: Callable[[], Any], look: Callable[[], Any]
) -> list[Any]:
    """What `look` finds after each of these updates, while `train` runs."""
    found, updates = [], count(1)

    def after(*_: Any) -> None:
        if next(updates) in steps:
            found.append(look())

    hook = register_optimizer_step_post_hook(after)
    train()
    hook.remove()
    return found


def write_result(*, name: str = "", **found: Any) -> None:
    """Write what a script found, with its description, how to repeat it, and what it ran on."""
    script, description = Path(sys.argv[0]), (sys.modules["__main__"].__doc__ or "").split("\n\n")
    head = {
        "command": shlex.join(["python", f"experiments/{script.name}", *sys.argv[1:]]),
        "what": " ".join(" ".join(part.split()) for part in description if part[:4] != "    "),
    }
    name = name or script.stem.replace("_", "-")
    write(name, head | environment(torch.device("cpu")) | found)


def write(name: str, found: dict[str, Any]) -> None:
    """Write `results/NAME.json`, numbers to six significant digits."""
    found = json.loads(json.dumps(found), parse_float=lambda digits: float(f"{float(digits):.6g}"))
    rows = [f" {json.dumps(k)}: {json.dumps(v, ensure_ascii=False)}" for k, v in found.items()]
    path = ROOT / "results" / f"{name}.json"
    path.write_text("{\n" + ",\n".join(rows) + "\n}\n", encoding="utf-8")
