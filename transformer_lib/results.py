"""What the book's long runs and measurements found: one file each, `results/NAME.json`.

An experiment (`experiments/NAME.py`) writes its numbers with the command, the versions and the
machine they come from; a training run is kept with its settings, its log and its scores. The files
are installed with the library, so a chapter can plot them from any folder.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from transformer_lib.files import replacing
from transformer_lib.training import History
from transformer_lib.validation import as_path, check_text, check_type, plain_number

_APART = {"bleu_lowercased": "lowercased", "chrf": "chrF"}  # additional scores of a task

__all__ = ["RunResult", "circumstances", "load_result", "load_run", "write_score"]


@dataclass(frozen=True)
class RunResult:
    """What is kept of a finished training run.

    Attributes:
        name: of its file in ``results/``.
        settings: the run's ``config.json``: ``task model train sessions …``. A session, from a
            start to a stop, has ``command started commit hardware versions``.
        history: the run's ``log.jsonl``, thinned out to what pages plot.
        scores: the run's ``scores.json``: for each split, and for each metric and way of decoding
            other than the usual, ``metric value signature sentences checkpoint decoding``.
        translations: what the model made of a few sentences.
    """

    name: str
    settings: dict[str, Any]
    history: History
    scores: dict[str, dict[str, Any]]
    translations: dict[str, str]

    def where(self) -> str:
        """Hardware, time and date in one line: what a reader needs next to any curve."""
        first, last = self.settings["sessions"][0], self.history[-1]
        return (
            f"{first['hardware']}; torch {first['versions']['torch']}; "
            f"{last['seconds'] / 60:.0f} minutes; {first['started'][:10]}"
        )


def load_run(name: str) -> RunResult:
    """Read what is kept of a training run.

    Args:
        name: of its file in ``results/``, such as ``"multi30k-tiny-s0"``.

    Raises:
        ValueError: there is no such run; the message lists the existing ones.

    Example:
        >>> load_run("multi30k-tiny-s0").settings["task"]
        'multi30k'
    """
    found = _read(name, runs=True)
    return RunResult(
        name=name,
        settings=found["settings"],
        history=History(found["log"]),
        scores=found["scores"],
        translations=found.get("translations", {}),
    )


def load_result(name: str) -> dict[str, Any]:
    """Read what an experiment found, and the command that repeats it.

    Args:
        name: of its file in ``results/``, such as ``"multi30k-text"``.

    Raises:
        ValueError: there is no such result; the message lists the existing ones.

    Example:
        >>> load_result("multi30k-text")["command"]
        'python experiments/multi30k_text.py'
    """
    return _read(name, runs=False)


def _read(name: str, runs: bool) -> dict[str, Any]:
    path = _folder() / f"{name}.json"
    if isinstance(name, str) and path.parent == _folder() and path.is_file():
        found = json.loads(path.read_text(encoding="utf-8"))
        if ("log" in found) == runs:
            return found
    every = {path.stem: json.loads(path.read_text("utf-8")) for path in _folder().glob("*.json")}
    known = ", ".join(sorted(each for each, found in every.items() if ("log" in found) == runs))
    raise ValueError(f"name must be one of {known}; got {name!r}")


def write_score(folder: str | Path, split: str, score: dict[str, Any]) -> None:
    """Add a score on a split to a run's ``scores.json``; an older score is replaced.

    The score of greedy decoding with the best checkpoint is filed under the name of the split.
    Other scores, and differences to another run, have entries of their own.

    Raises:
        ValueError: ``scores.json`` is damaged.
        TypeError: an argument of the wrong type; a score that JSON can't hold.
    """
    path = as_path("folder", folder) / "scores.json"
    check_text("split", split)
    check_type("score", score, dict)
    try:
        scores = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
        check_type("its content", scores, dict)
    except (ValueError, TypeError) as error:
        raise ValueError(f"{path} is damaged: {error}") from error
    usual = {"checkpoint": "best", "decoding": "greedy"}
    apart = [score[name] for name in usual if score.get(name) not in (None, usual[name])]
    if score.get("metric") in _APART:
        apart.insert(0, _APART[score["metric"]])
    apart += [score["together"]] if "together" in score else []
    apart += [f"against {score['against']}"] if "against" in score else []
    scores[", ".join([split, *apart])] = {k: plain_number(v) for k, v in score.items()}
    try:
        text = json.dumps(scores, indent=2, ensure_ascii=False)
    except TypeError as error:
        raise TypeError(f"score must be serializable as JSON: {error}") from error
    with replacing(path) as file:
        file.write(text.encode() + b"\n")


def circumstances(device: torch.device) -> dict[str, Any]:
    """What a reader needs to compare times and to run the same code."""
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
    root = Path(__file__).parents[1]
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


def _folder() -> Path:
    # A wheel has the results inside the package, a checkout next to it.
    inside = Path(__file__).with_name("published")
    return inside if inside.is_dir() else inside.parents[1] / "results"
