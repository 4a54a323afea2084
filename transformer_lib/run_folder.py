"""A run's folder: its settings, its weights, and whether another run may go on in it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import asdict
from hashlib import sha256
from pathlib import Path
from typing import Any

from transformer_lib.arguments import as_path
from transformer_lib.config import ModelConfig
from transformer_lib.data.files import replacing
from transformer_lib.recipes import Task
from transformer_lib.training import TrainConfig, average_checkpoints, load_checkpoint

__all__: list[str] = []  # for runs.py alone

CHECKPOINTS = {"best": "best.pt", "last": "checkpoint.pt"}


def one_of(name: str, value: Any, known: Iterable[str]) -> None:
    if not isinstance(value, str) or value not in known:
        raise ValueError(f"{name} must be one of {', '.join(known)}; got {value!r}")


def weights(folder: Path, checkpoint: str) -> dict[str, Any]:
    one_of("checkpoint", checkpoint, (*CHECKPOINTS, "average"))
    if checkpoint in CHECKPOINTS:
        return load_checkpoint(folder / CHECKPOINTS[checkpoint])["model"]
    kept = sorted(folder.glob("step-*.pt"))
    if not kept:
        raise FileNotFoundError(f"{folder} kept no models to average: train with --keep-last")
    return average_checkpoints(kept)


def identity(settings: dict[str, Any], processes: int) -> dict[str, Any]:
    """What must be equal for two runs to be one: all, but how long and how often to report."""
    names = ("task", "preset", "vocab_size", "max_tokens", "batch_size", "bpe_dropout", "distilled")
    flat: dict[str, Any] = {name: settings.get(name) for name in names}
    # Through the classes, which know the defaults of what an older run has not recorded.
    model = asdict(ModelConfig(**settings["model"]))
    flat |= {f"model.{name}": value for name, value in model.items()}
    flat |= TrainConfig(**settings["train"]).arithmetic()
    flat["accumulate"] = processes * flat["accumulate"]  # batches per update
    return json.loads(json.dumps(flat))  # from a file or not: no tuples


def distilled_pairs(
    task: Task, path: Any, pairs: list[tuple[str, str]]
) -> tuple[list[tuple[str, str]], str]:
    """Each source with the translation that a file has for it, one on a line; the file's hash."""
    content = as_path("distilled", path).read_bytes()
    if task.language_model:
        raise ValueError("distilled must be left out: this task translates nothing")
    lines = content.decode("utf-8").removesuffix("\n").split("\n")
    if len(lines) != len(pairs):
        raise ValueError(
            f"distilled must have a line for each of the {len(pairs):,} training texts; "
            f"{path} has {len(lines):,}"
        )
    both = [(source, line) for (source, _), line in zip(pairs, lines, strict=True)]
    return both, sha256(content).hexdigest()


def words_of(texts: Iterable[str], pattern: str) -> dict[str, None]:
    """The different words of texts, as a pattern finds them, in their order."""
    return {word: None for text in texts for word in re.findall(pattern, text)}


def write_words(folder: Path, texts: Iterable[str], pattern: str) -> None:
    with replacing(folder / "words.txt") as file:
        file.write("".join(f"{word}\n" for word in sorted(words_of(texts, pattern))).encode())


def read_words(folder: Path) -> frozenset[str] | None:
    """What :func:`write_words` has written; None in the folder of an older run."""
    path = folder / "words.txt"
    return frozenset(path.read_text(encoding="utf-8").split("\n")) if path.exists() else None


def read_settings(folder: Path) -> dict[str, Any]:
    path = folder / "config.json"
    if not path.exists():
        raise FileNotFoundError(f"{folder} holds no run: there is no {path.name} in it")
    try:
        settings = json.loads(path.read_text(encoding="utf-8"))
        return {"task": settings["task"], "model": settings["model"]} | settings
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{path} is damaged: {error}") from error


def write_settings(folder: Path, settings: dict[str, Any]) -> None:
    with replacing(folder / "config.json") as file:
        file.write(json.dumps(settings, indent=2, ensure_ascii=False).encode() + b"\n")
