"""The record of a model that comes with the library: what is in its file, and what was measured."""

import hashlib
from typing import Any

import torch
from result_file import write_result

from transformer_lib.pretrained.bundled import bundled_folder
from transformer_lib.runs import environment


def write_record(run: str, name: str, model: torch.nn.Module, about: dict[str, Any]) -> None:
    """Write `results/RUN-shipped.json`; `about` begins with `command` and `what`."""
    content = (bundled_folder(name) / "model.safetensors").read_bytes()
    where = environment(torch.device("cpu"))
    found = {
        "command": about["command"],
        "what": about["what"],
        "hardware": where["hardware"],
        "versions": where["versions"],
        "parameters": sum(p.numel() for p in model.parameters()),
        "bytes": len(content),
        "sha256": hashlib.sha256(content).hexdigest(),
    } | about
    print(write_result(f"{run}-shipped", found))
