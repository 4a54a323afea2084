"""What the book's long runs and measurements found: one file each, `results/NAME.json`.

The files are installed with the library, so a chapter can plot them from any folder.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from transformer_lib.training import History

__all__ = ["RunResult", "load_result", "load_run"]


@dataclass(frozen=True)
class RunResult:
    """What is kept of a finished training run.

    Attributes:
        name: of its file in ``results/``.
        settings: its ``config.json``: ``task model train sessions …``. A session, from a start to a
            stop, has ``command started commit hardware versions``.
        history: its ``log.jsonl``, thinned out to what pages plot.
        scores: its ``scores.json``: for each split, and for each unusual metric or way of decoding,
            ``metric value signature sentences checkpoint decoding``.
        translations: what the model made of a few sentences.
    """

    name: str
    settings: dict[str, Any]
    history: History
    scores: dict[str, dict[str, Any]]
    translations: dict[str, str]

    def where(self) -> str:
        """Describe the hardware, time and date of the run in one line."""
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
        ValueError: the run doesn't exist; the message lists those that do.

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
        ValueError: the result doesn't exist; the message lists those that do.

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


def _folder() -> Path:
    # A wheel has the results inside the package, a checkout next to it.
    inside = Path(__file__).with_name("published")
    return inside if inside.is_dir() else inside.parents[1] / "results"
