"""A run's folder: its settings, its weights, and whether another run may continue it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from hashlib import sha256
from pathlib import Path
from typing import Any

import torch

from transformer_lib.config import ModelConfig
from transformer_lib.data import Tokenizer
from transformer_lib.files import replacing
from transformer_lib.runs.tasks import TASKS, Task
from transformer_lib.training import History, TrainConfig, average_checkpoints, load_checkpoint
from transformer_lib.training.state import check_same_run
from transformer_lib.validation import as_path

__all__: list[str] = []  # for runs.py alone

CHECKPOINTS = {"best": "best.pt", "last": "checkpoint.pt"}


def one_of(name: str, value: Any, known: Iterable[str]) -> None:
    if not isinstance(value, str) or value not in known:
        raise ValueError(f"{name} must be one of {', '.join(known)}; got {value!r}")


def task_named(name: str) -> Task:
    one_of("task", name, TASKS)
    return TASKS[name]


def weights(folder: Path, checkpoint: str) -> dict[str, Any]:
    one_of("checkpoint", checkpoint, (*CHECKPOINTS, "average"))
    if checkpoint in CHECKPOINTS:
        path = folder / CHECKPOINTS[checkpoint]
        if checkpoint == "best" and not path.exists():
            raise FileNotFoundError(
                f"there is no {path}: no validation has finished yet. Train longer, or use the "
                f"latest model with --checkpoint last"
            )
        return load_checkpoint(path)["model"]
    kept = sorted(folder.glob("step-*.pt"))
    if not kept:
        raise FileNotFoundError(f"{folder} has no models to average: train with --keep-last")
    return average_checkpoints(kept)


def identity(settings: dict[str, Any], processes: int) -> dict[str, Any]:
    """What one run must share with another to continue it: all but lengths and intervals."""
    names = ("task", "preset", "vocab_size", "max_tokens", "batch_size", "bpe_dropout", "distilled")
    flat: dict[str, Any] = {name: settings.get(name) for name in names}
    # The classes know the defaults of settings that an older run did not record.
    model = asdict(ModelConfig(**settings["model"]))
    flat |= {f"model.{name}": value for name, value in model.items()}
    train = {name: value for name, value in settings["train"].items() if name != "pad_id"}
    flat |= TrainConfig(**train).arithmetic()  # older runs kept a pad_id there
    flat["accumulate"] = processes * flat["accumulate"]  # batches per update
    return json.loads(json.dumps(flat))  # from a file or not: no tuples


def former_settings(folder: Path, settings: dict[str, Any], processes: int) -> dict[str, Any]:
    """The settings of the run in the folder, if a run with these settings may continue it."""
    former = read_settings(folder)
    with _undamaged(folder):
        there = identity(former, former["sessions"][-1].get("processes", 1))
    way_out = "Choose another --output, or --restart"
    check_same_run(folder, there, identity(settings, processes), way_out)
    return former


def config_of(folder: Path, settings: dict[str, Any]) -> ModelConfig:
    with _undamaged(folder):
        return ModelConfig(**settings["model"])


def slow_amp(config: TrainConfig, device: torch.device) -> bool:
    """Was bfloat16 asked for on a processor that has no instructions for it?"""
    without = torch.backends.cpu.get_cpu_capability() in ("DEFAULT", "AVX2")
    return config.amp is True and device.type == "cpu" and without


def score_is_due(folder: Path, epoch: int, every: int) -> bool:
    """Has a multiple of ``every`` epochs been completed since the last validation?"""
    entries = History.read(folder / "log.jsonl")
    before = [entry["epoch"] for entry in entries if "val_loss" in entry]
    return epoch // every > (before[-1] if before else 0) // every


def distilled_pairs(
    task: Task, path: Any, pairs: list[tuple[str, str]]
) -> tuple[list[tuple[str, str]], str]:
    """Each source with its line of a file, a second translation; and the hash of the file."""
    content = as_path("distilled", path).read_bytes()
    if task.language_model:
        raise ValueError("distilled must be left out: this task doesn't translate")
    try:
        text = content.decode("utf-8-sig")  # a byte order mark is not part of it
    except UnicodeDecodeError as error:
        raise ValueError(f"distilled must be text in UTF-8; {path} is not: {error}") from error
    lines = [line.strip() for line in text.removesuffix("\n").split("\n")]
    if len(lines) != len(pairs):
        raise ValueError(
            f"distilled must have a line for each of the {len(pairs):,} training texts; "
            f"{path} has {len(lines):,}"
        )
    if not any(lines):
        raise ValueError(f"distilled must hold translations; all lines of {path} are empty")
    both = [(source, line) for (source, _), line in zip(pairs, lines, strict=True)]
    return both, sha256(content).hexdigest()


def words_of(texts: Iterable[str], pattern: str) -> dict[str, None]:
    """The distinct words of texts that a pattern finds, in their order."""
    return {word: None for text in texts for word in re.findall(pattern, text)}


def begin(folder: Path, tokenizer: Tokenizer, texts: Iterable[str], pattern: str) -> None:
    """Write the files of a new run, and delete the scores of an older one."""
    (folder / "scores.json").unlink(missing_ok=True)
    tokenizer.save(folder / "tokenizer.json")
    write_words(folder, texts, pattern)


def write_words(folder: Path, texts: Iterable[str], pattern: str) -> None:
    with replacing(folder / "words.txt") as file:
        file.write("".join(f"{word}\n" for word in sorted(words_of(texts, pattern))).encode())


def read_words(folder: Path) -> frozenset[str] | None:
    """What :func:`write_words` wrote; None in the folder of an older run."""
    path = folder / "words.txt"
    return frozenset(path.read_text(encoding="utf-8").split("\n")) if path.exists() else None


def check_own(folder: Path) -> None:
    """Raise unless a run may write its files here, without replacing another program's.

    :meth:`~transformer_lib.training.folder.Folder.begin` checks the weights and the log.

    Raises:
        FileExistsError: files with these names are there, but not the settings of a run.
    """
    names = ("config.json", "tokenizer.json", "words.txt", "scores.json")
    found = [name for name in names if (folder / name).exists()]
    try:
        settings = json.loads((folder / "config.json").read_bytes())
        own = "task" in settings and "vocab_size" in settings["model"]
    except (FileNotFoundError, ValueError, LookupError, TypeError):
        own = False
    if found and not own:
        raise FileExistsError(
            f"{folder} is not the folder of a run, but holds {' and '.join(found)}, which a run "
            f"would overwrite: choose another folder"
        )


def read_settings(folder: Path) -> dict[str, Any]:
    path = folder / "config.json"
    if not path.is_file():
        raise FileNotFoundError(_no_run(folder))
    with _undamaged(folder):
        settings = json.loads(path.read_text(encoding="utf-8"))
        return {"task": settings["task"], "model": settings["model"]} | settings


def _no_run(folder: Path) -> str:
    """What is wrong with a folder without a run, and which runs there are nearby."""
    if folder.is_dir():
        problem = f"{folder} holds no run: it has no config.json"
    elif folder.exists():
        problem = f"{folder} is a file, not the folder of a run"
    else:
        problem = f"there is no folder {folder}"
    for place in (folder, folder.parent, Path("runs")):
        inside = sorted(place.iterdir()) if place.is_dir() else []
        if runs := [str(each) for each in inside if (each / "config.json").is_file()]:
            more = f" and {len(runs) - 10} more" if len(runs) > 10 else ""
            return f"{problem}. These are runs: {', '.join(runs[:10])}{more}"
    return problem


def write_settings(folder: Path, settings: dict[str, Any]) -> None:
    with replacing(folder / "config.json") as file:
        file.write(json.dumps(settings, indent=2, ensure_ascii=False).encode() + b"\n")


@contextmanager
def _undamaged(folder: Path) -> Iterator[None]:
    """Say that an error in the block comes from the contents of ``config.json``."""
    try:
        yield
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        reason = f"it has no {error}" if isinstance(error, KeyError) else error
        raise ValueError(
            f"{folder / 'config.json'} is damaged, or another version of this library wrote it: "
            f"{reason}"
        ) from error
