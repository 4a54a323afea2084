"""The record of a model that comes with the library: what is in its file, and what was measured."""

import hashlib
import json
from pathlib import Path
from typing import Any

import torch

from transformer_lib.pretrained.shipped import shipped
from transformer_lib.results import circumstances

RESULTS = Path(__file__).parents[2] / "results"


def write_record(run: str, name: str, model: torch.nn.Module, about: dict[str, Any]) -> None:
    """Write `results/RUN-shipped/measured.json`; `about` begins with `command` and `what`."""
    content = (shipped(name) / "model.safetensors").read_bytes()
    where = circumstances(torch.device("cpu"))
    found = {
        "command": about["command"],
        "what": about["what"],
        "hardware": where["hardware"],
        "versions": where["versions"],
        "parameters": sum(p.numel() for p in model.parameters()),
        "bytes": len(content),
        "sha256": hashlib.sha256(content).hexdigest(),
    } | about
    folder = RESULTS / f"{run}-shipped"
    folder.mkdir(parents=True, exist_ok=True)
    text = json.dumps(found, indent=1, ensure_ascii=False)
    (folder / "measured.json").write_text(text + "\n", encoding="utf-8")
    print(text)
