"""A run's folder: its settings, its weights, its words and its scores."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from transformer_lib.config import ModelConfig
from transformer_lib.data import Tokenizer
from transformer_lib.files import replacing
from transformer_lib.training import History, average_checkpoints, load_checkpoint
from transformer_lib.validation import check_choice, check_type, plain_number

__all__: list[str] = []  # for this package alone

CHECKPOINTS = {"best": "best.pt", "last": "checkpoint.pt"}


def weights(folder: Path, checkpoint: str) -> dict[str, Any]:
    check_choice("checkpoint", checkpoint, (*CHECKPOINTS, "average"))
    if checkpoint in CHECKPOINTS:
        path = folder / CHECKPOINTS[checkpoint]
        if checkpoint == "best" and not path.exists():
            raise FileNotFoundError(
                f"{path} doesn't exist: no validation has finished yet. Train longer, or use the "
                f"latest model with --checkpoint last"
            )
        return load_checkpoint(path)["model"]
    kept = sorted(folder.glob("step-*.pt"))
    if not kept:
        raise FileNotFoundError(f"{folder} has no models to average: train with --keep-last")
    return average_checkpoints(kept)


def former_sessions(folder: Path) -> list[dict[str, Any]]:
    """What the run in the folder has recorded of each of its sessions."""
    with _undamaged(folder):
        return list(read_settings(folder)["sessions"])


def config_of(folder: Path, settings: dict[str, Any]) -> ModelConfig:
    with _undamaged(folder):
        return ModelConfig(**settings["model"])


def score_is_due(folder: Path, epoch: int, every: int) -> bool:
    """Whether a multiple of ``every`` epochs has been completed since the last validation."""
    entries = History.read(folder / "log.jsonl")
    before = [entry["epoch"] for entry in entries if "val_loss" in entry]
    return epoch // every > (before[-1] if before else 0) // every


def begin(folder: Path, tokenizer: Tokenizer, words: Iterable[str]) -> None:
    """Write the files of a new run, and delete the scores of an older one."""
    (folder / "scores.json").unlink(missing_ok=True)
    tokenizer.save(folder / "tokenizer.json")
    with replacing(folder / "words.txt") as file:
        file.write("".join(f"{word}\n" for word in sorted(words)).encode())


def read_words(folder: Path) -> frozenset[str]:
    return frozenset((folder / "words.txt").read_text(encoding="utf-8").split("\n"))


def read_settings(folder: Path) -> dict[str, Any]:
    path = folder / "config.json"
    if not path.is_file():
        raise FileNotFoundError(
            f"{folder} holds no run: it has no config.json"
            if folder.is_dir()
            else f"folder {folder} not found"
        )
    with _undamaged(folder):
        settings = json.loads(path.read_text(encoding="utf-8"))
        return {"task": settings["task"], "model": settings["model"]} | settings


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


def write_score(folder: Path, split: str, score: dict[str, Any]) -> None:
    """Add a score on a split to a run's ``scores.json``, in place of an older one.

    The score of greedy decoding with the best checkpoint is filed under the name of the split.
    Other scores, and differences to another run, have entries of their own.
    """
    path = folder / "scores.json"
    try:
        scores = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
        check_type("its content", scores, dict)
    except (ValueError, TypeError) as error:
        raise ValueError(f"{path} is damaged: {error}") from error
    usual = {"checkpoint": "best", "decoding": "greedy"}
    apart = [score[name] for name in usual if score.get(name) not in (None, usual[name])]
    if name := {"bleu_lowercased": "lowercased", "chrf": "chrF"}.get(score["metric"]):
        apart.insert(0, name)
    apart += [score["together"]] if "together" in score else []
    apart += [f"against {score['against']}"] if "against" in score else []
    scores[", ".join([split, *apart])] = {k: plain_number(v) for k, v in score.items()}
    with replacing(path) as file:
        file.write(json.dumps(scores, indent=2, ensure_ascii=False).encode() + b"\n")
