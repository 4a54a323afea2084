"""How an experiment writes what it found: `results/NAME.json`, which `load_result` reads."""

import json
import math
import shlex
import sys
from pathlib import Path
from typing import Any

import torch

from transformer_lib.runs import environment

RESULTS = Path(__file__).resolve().parents[1] / "results"


def head(what: str, device: str | torch.device = "cpu") -> dict[str, Any]:
    """How a result begins: how to repeat it, what it is, and what it ran on."""
    command = ["python", f"experiments/{Path(sys.argv[0]).name}", *sys.argv[1:]]
    return {"command": shlex.join(command), "what": what, **environment(torch.device(device))}


def write_result(name: str, found: dict[str, Any]) -> Path:
    """Write `results/NAME.json`, numbers to six significant digits."""
    path = RESULTS / f"{name}.json"
    path.write_text(as_text(rounded(found)) + "\n", encoding="utf-8")
    return path


def rounded(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: rounded(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [rounded(each) for each in value]
    if isinstance(value, float) and math.isfinite(value):
        return float(f"{value:.6g}")
    return value


def as_text(value: Any, indent: int = 0) -> str:
    """JSON in which everything that fits is on one line, and so are lists of plain values."""
    flat = json.dumps(value, ensure_ascii=False)
    parts = isinstance(value, dict | list) and any(
        isinstance(each, dict | list)
        for each in (value.values() if isinstance(value, dict) else value)
    )
    fits = len(flat) + indent <= 100
    if fits or not (parts or isinstance(value, dict)):
        return flat
    inner = "\n" + " " * (indent + 1)
    if isinstance(value, dict):
        rows = [
            f"{json.dumps(name, ensure_ascii=False)}: {as_text(each, indent + 1)}"
            for name, each in value.items()
        ]
        return "{" + inner + f",{inner}".join(rows) + "\n" + " " * indent + "}"
    rows = [as_text(each, indent + 1) for each in value]
    return "[" + inner + f",{inner}".join(rows) + "\n" + " " * indent + "]"
