"""A run and its folder: from the name of a task to a trained model, and back to text.

The one place where data, model, training and decoding meet. A folder holds ``config.json`` (what
was run, where and with what), ``tokenizer.json``, ``log.jsonl``, ``checkpoint.pt`` (the latest
state, to go on from) and ``best.pt`` (the model of the lowest validation loss).
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import torch
from torch import nn

from transformer_lib.config import ModelConfig
from transformer_lib.data import Batches, Tokenizer, pad
from transformer_lib.data.files import replacing
from transformer_lib.decoding import greedy
from transformer_lib.models import Transformer
from transformer_lib.recipes import TASKS, Pairs, Score
from transformer_lib.training import History, TrainConfig, evaluate, fit, load_checkpoint
from transformer_lib.training.state import check_same_run

__all__ = ["Run", "train", "translate"]

CHECKPOINTS = {"best": "best.pt", "last": "checkpoint.pt"}


@dataclass
class Run:
    """A trained, or half trained, model with all it takes to use it."""

    task: str
    tokenizer: Tokenizer
    model: Transformer

    @classmethod
    def load(cls, folder: str | Path, checkpoint: str = "best", device: str = "auto") -> Run:
        """Read a run's folder.

        Args:
            folder: as :func:`train` left it.
            checkpoint: ``"best"`` or ``"last"``.
            device: where the model goes; ``"auto"`` is the GPU if there is one.

        Raises:
            FileNotFoundError: there is no run, or it has no such checkpoint yet.
            ValueError: a file is damaged.
        """
        folder = Path(folder)
        settings = _read_settings(folder)
        model = Transformer(ModelConfig(**settings["model"]))
        model.load_state_dict(load_checkpoint(folder / CHECKPOINTS[checkpoint])["model"])
        tokenizer = Tokenizer.load(folder / "tokenizer.json")
        return cls(settings["task"], tokenizer, model.to(_device(device)).eval())

    def translate(self, sentences: Sequence[str]) -> list[str]:
        """See :func:`translate`."""
        return translate(self.model, self.tokenizer, sentences)

    def score(self, split: str, limit: int | None = None) -> tuple[Score, list[str]]:
        """Translate a split, or its first ``limit`` sentences: the score, and the translations.

        Raises:
            ValueError: a split that the task does not have, or that was trained on.
        """
        task = TASKS[self.task]
        if split not in task.splits:
            raise ValueError(f"split must be one of {', '.join(task.splits)}; got {split!r}")
        sources, references = zip(*task.load(split)[:limit], strict=True)
        texts = self.translate(sources)
        return task.score(texts, references), texts


def translate(
    model: Transformer, tokenizer: Tokenizer, sentences: Sequence[str], *, batch_size: int = 64
) -> list[str]:
    """Translate sentences greedily, those of like length together. A blank one stays blank."""
    device = next(model.parameters()).device
    ids = [tokenizer.encode(sentence.strip()) for sentence in sentences]
    order = sorted((i for i in range(len(ids)) if ids[i]), key=lambda i: len(ids[i]))
    texts = [""] * len(sentences)
    for start in range(0, len(order), batch_size):
        chosen = order[start : start + batch_size]
        source = pad([ids[i] for i in chosen]).to(device)
        # Longer than any honest translation, so that one that never ends does end.
        max_len = min(2 * source.size(1) + 20, model.config.max_len)
        for i, row in zip(chosen, greedy(model, source, max_len=max_len).ids.tolist(), strict=True):
            texts[i] = tokenizer.decode(row)
    return texts


def train(
    folder: str | Path,
    *,
    task: str,
    preset: str = "tiny",
    model: dict[str, Any] | None = None,
    training: dict[str, Any] | None = None,
    vocab_size: int | None = None,
    max_tokens: int | None = None,
    device: str = "auto",
    score_every: int | None = None,
    restart: bool = False,
    command: str | None = None,
    progress: bool = True,
    say: Callable[[str], None] = lambda text: None,
) -> History:
    """Train on a task, or go on where a run of the same settings was stopped.

    Args:
        folder: the run's folder; made if there is none.
        task: a name in :data:`~transformer_lib.recipes.TASKS`.
        preset: ``"tiny"``, ``"base"`` or ``"big"``, see :class:`ModelConfig`.
        model, training: settings of :class:`ModelConfig` and :class:`TrainConfig`, over those of
            preset and task. None stands for theirs.
        vocab_size, max_tokens: size of the vocabulary, and of a batch per side, over the task's.
        device: ``"auto"`` is the GPU if there is one.
        score_every: epochs between two scores of the validation split, which take longer than
            its loss; None never scores.
        restart: begin anew, over what is in the folder.
        command: how the run was asked for, to be recorded.
        progress: show a progress bar.
        say: is told, in a line each, what is going on.

    Returns:
        The run's records.

    Raises:
        ValueError: an unfit setting, or a folder that holds a run of other settings.
    """
    folder, recipe = Path(folder), TASKS[task]
    going_on = not restart and (folder / "checkpoint.pt").exists()
    training = _given(training)
    if "max_steps" in training:
        training.setdefault("epochs", None)  # steps were asked for, and the task's are epochs
    config = TrainConfig(**recipe.train | training)
    train_pairs, val_pairs = recipe.load("train"), recipe.load(recipe.splits[0])
    if going_on:
        tokenizer = Tokenizer.load(folder / "tokenizer.json")
    else:
        tokenizer = recipe.tokenizer(train_pairs, vocab_size)
    model_config = getattr(ModelConfig, preset)(
        vocab_size=tokenizer.vocab_size, **recipe.model | _given(model)
    )
    settings = {
        "task": task,
        "preset": preset,
        "vocab_size": vocab_size,
        "max_tokens": max_tokens or recipe.max_tokens,
        "batch_size": None if max_tokens else recipe.batch_size,
        "model": asdict(model_config),
        "train": asdict(config),
    }
    former = _read_settings(folder) if going_on else {}
    if going_on:
        check_same_run(folder, _identity(former), _identity(settings))

    def batches(pairs: Pairs, shuffle: bool) -> Batches:
        ids = [(tokenizer.encode(source), tokenizer.encode(target)) for source, target in pairs]
        sizes = {name: settings[name] for name in ("max_tokens", "batch_size")}
        return Batches(ids, **sizes, seed=config.seed, shuffle=shuffle)

    train_batches, val_batches = batches(train_pairs, True), batches(val_pairs, False)
    torch.manual_seed(config.seed)
    transformer = Transformer(model_config).to(_device(device))
    session = {"command": command, "started": _now()} | _circumstances(transformer)
    folder.mkdir(parents=True, exist_ok=True)
    if not going_on:
        tokenizer.save(folder / "tokenizer.json")
    _write_settings(folder, settings | {"sessions": [*former.get("sessions", []), session]})

    say(
        f"{task}, {preset}: {sum(p.numel() for p in transformer.parameters()):,} parameters, "
        f"{tokenizer.vocab_size:,} pieces, {len(train_pairs):,} pairs in {len(train_batches):,} "
        f"batches, on {session['hardware']}."
    )
    if going_on:
        say(f"Going on with the run in {folder}.")

    def validate(model: nn.Module, epoch: int) -> dict[str, Any]:
        metrics: dict[str, Any] = evaluate(model, val_batches)
        if score_every and epoch % score_every == 0:
            sources, references = zip(*val_pairs, strict=True)
            score = recipe.score(translate(transformer, tokenizer, sources), references)
            metrics[score.name] = score.value
        return metrics

    return fit(
        transformer,
        train_batches,
        config,
        validate=validate,
        directory=folder,
        resume=going_on,
        progress=progress,
    )


def _given(settings: dict[str, Any] | None) -> dict[str, Any]:
    return {name: value for name, value in (settings or {}).items() if value is not None}


def _identity(settings: dict[str, Any]) -> dict[str, Any]:
    """What must be equal for two runs to be one: all, but how long and how often to report."""
    names = ("task", "preset", "vocab_size", "max_tokens", "batch_size")
    flat = {name: settings.get(name) for name in names}
    flat |= {f"model.{name}": value for name, value in settings["model"].items()}
    flat |= TrainConfig(**settings["train"]).arithmetic()
    return json.loads(json.dumps(flat))  # from a file or not: no tuples


def _device(name: str) -> torch.device:
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    return torch.device(name)


def _read_settings(folder: Path) -> dict[str, Any]:
    path = folder / "config.json"
    if not path.exists():
        raise FileNotFoundError(f"{folder} holds no run: there is no {path.name} in it")
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{path} is damaged: {error}") from error


def _write_settings(folder: Path, settings: dict[str, Any]) -> None:
    with replacing(folder / "config.json") as file:
        file.write(json.dumps(settings, indent=2, ensure_ascii=False).encode() + b"\n")


def _now() -> str:
    return datetime.now(timezone.utc).isoformat(timespec="seconds")


def _circumstances(model: nn.Module) -> dict[str, Any]:
    """What a reader must know to compare times, and to run the same code."""
    device = next(model.parameters()).device
    if device.type == "cuda":
        hardware = torch.cuda.get_device_name(device)
    else:
        hardware = f"{_processor()}, {torch.get_num_threads()} threads of {os.cpu_count()}"
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
