"""The machine and the versions that something ran on: what it takes to compare times."""

from __future__ import annotations

import os
import platform
import subprocess
from pathlib import Path
from typing import Any

import torch

from transformer_lib.validation import check_type

__all__ = ["environment"]


def environment(device: torch.device) -> dict[str, Any]:
    """Describe the hardware, the versions of Python and PyTorch, and the commit of this library.

    Raises:
        TypeError: ``device`` isn't a ``torch.device``.

    Example:
        >>> list(environment(torch.device("cpu")))
        ['hardware', 'versions', 'commit']
    """
    check_type("device", device, torch.device)
    if device.type == "cuda":
        hardware = torch.cuda.get_device_name(device)
    else:
        threads = torch.get_num_threads()
        hardware = f"{_processor()}, {threads} thread{'s' * (threads > 1)} of {os.cpu_count()}"
    return {
        "hardware": hardware,
        "versions": {"python": platform.python_version(), "torch": str(torch.__version__)},
        "commit": _commit(),
    }


def _commit() -> str | None:
    root = Path(__file__).parents[2]
    if not (root / ".git").exists():  # installed; a repository around it is a different one
        return None
    git = ["git", "--no-optional-locks", "describe", "--always", "--dirty", "--exclude=*"]
    try:
        return subprocess.check_output([*git, "--abbrev=40"], cwd=root, text=True).strip()
    except (OSError, subprocess.CalledProcessError):
        return None


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()
