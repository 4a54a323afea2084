"""Records of real training runs: small files beside the code, with all it takes to repeat them.

``results/NAME/`` holds three files of a run's folder: ``config.json`` (settings, command, commit,
versions, hardware), ``log.jsonl`` (what was measured while it trained) and ``scores.json`` (what
``evaluate`` found); and, for a translator, ``translations.json``, what ``translate`` made of a few
sentences of our own. A folder with ``measured.json`` alone holds what was counted without training.
An installed library carries them along, so that a chapter can plot them from any folder.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from transformer_lib.arguments import as_path, check_type
from transformer_lib.data.checking import check_text
from transformer_lib.data.files import replacing
from transformer_lib.training import History

_APART = {"bleu_lowercased": "lowercased", "chrf": "chrF"}  # what a task is scored by besides

__all__ = ["Record", "circumstances", "measured", "record_score", "recorded"]


@dataclass(frozen=True)
class Record:
    """What is known of a run that is over.

    Attributes:
        name: its folder in ``results/``.
        settings: as ``config.json``: ``task model train sessions …``; each session, from a start
            to a stop, with ``command started commit hardware versions``.
        history: as ``log.jsonl``.
        translations: as ``translations.json``: what the model wrote for each sentence.
        scores: as ``scores.json``: for each split, and metric and way of decoding it other than
            the usual, ``metric value signature sentences checkpoint decoding``.
        searches: as ``beams.json``, where there is one: beam sizes and length penalties tried.
    """

    name: str
    settings: dict[str, Any]
    history: History
    scores: dict[str, dict[str, Any]]
    translations: dict[str, str]
    searches: dict[str, Any] = field(default_factory=dict)

    def where(self) -> str:
        """Hardware, time and date, in a line: what a reader needs beside any curve."""
        first, last = self.settings["sessions"][0], self.history[-1]
        return (
            f"{first['hardware']}; torch {first['versions']['torch']}; "
            f"{last['seconds'] / 60:.0f} minutes; {first['started'][:10]}"
        )


def recorded(name: str) -> Record:
    """Read the record of a run.

    Args:
        name: its folder in ``results/``, such as ``"multi30k-tiny-s0"``.

    Raises:
        ValueError: there is no such record; the message lists those there are.

    Example:
        >>> recorded("multi30k-tiny-s0").settings["task"]
        'multi30k'
    """
    folder = _folder() / str(name)
    if not isinstance(name, str) or not (folder / "config.json").is_file():
        known = ", ".join(sorted(path.parent.name for path in _folder().glob("*/config.json")))
        raise ValueError(f"name must be one of {known}; got {name!r}")

    def content(part: str) -> dict[str, Any]:
        path = folder / f"{part}.json"
        return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}

    return Record(
        name=name,
        settings=content("config"),
        history=History.read(folder / "log.jsonl"),
        scores=content("scores"),
        translations=content("translations"),
        searches=content("beams"),
    )


def measured(name: str) -> dict[str, Any]:
    """Read numbers that were measured without a training run, and the command that repeats them.

    Args:
        name: its folder in ``results/``, such as ``"multi30k-text"``.

    Raises:
        ValueError: there is no such record; the message lists those there are.

    Example:
        >>> measured("multi30k-text")["command"]
        'python tests/bench/captions.py'
    """
    path = _folder() / str(name) / "measured.json"
    if not isinstance(name, str) or not path.is_file():
        known = ", ".join(sorted(path.parent.name for path in _folder().glob("*/measured.json")))
        raise ValueError(f"name must be one of {known}; got {name!r}")
    return json.loads(path.read_text(encoding="utf-8"))


def record_score(folder: str | Path, split: str, score: dict[str, Any]) -> None:
    """Add what was measured on a split to a run's ``scores.json``; an older score is replaced.

    Greedy decoding with the best checkpoint stands under the name of the split. Others, the
    task's other metrics and differences to another run have a line of their own.

    Raises:
        ValueError: ``scores.json`` is damaged.
        TypeError: an argument of the wrong type; a score that JSON cannot hold.
    """
    path = as_path("folder", folder) / "scores.json"
    check_text("split", split)
    check_type("score", score, dict)
    try:
        scores = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
        check_type("what it holds", scores, dict)
    except (ValueError, TypeError) as error:
        raise ValueError(f"{path} is damaged: {error}") from error
    usual = {"checkpoint": "best", "decoding": "greedy"}
    apart = [score[name] for name in usual if score.get(name) not in (None, usual[name])]
    if score.get("metric") in _APART:
        apart.insert(0, _APART[score["metric"]])
    apart += [score["together"]] if "together" in score else []
    apart += [f"against {score['against']}"] if "against" in score else []
    scores[", ".join([split, *apart])] = score
    try:
        text = json.dumps(scores, indent=2, ensure_ascii=False)
    except TypeError as error:
        raise TypeError(f"score must hold what JSON can: {error}") from error
    with replacing(path) as file:
        file.write(text.encode() + b"\n")


def circumstances(device: torch.device) -> dict[str, Any]:
    """What a reader must know to compare times, and to run the same code."""
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
    if not (root / ".git").exists():  # installed; a repository around it would be another
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
    # In a wheel the records lie inside the package, in a checkout beside it.
    inside = Path(__file__).with_name("recorded")
    return inside if inside.is_dir() else inside.parents[1] / "results"
