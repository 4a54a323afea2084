"""A run and its folder: from the name of a task to a trained model, and back to text.

The one place where data, model, training and decoding meet. A folder holds ``config.json`` (what
was run, where and with what), ``tokenizer.json``, ``log.jsonl``, ``checkpoint.pt`` (the latest
step, to go on from) and ``best.pt`` (the model of the lowest validation loss).
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import torch
from torch import nn

from transformer_lib.config import ModelConfig
from transformer_lib.data import Batches, Tokenizer, copy_pairs, multi30k, number_word_pairs
from transformer_lib.data.files import replacing
from transformer_lib.data.tasks import split_pairs
from transformer_lib.decoding import greedy
from transformer_lib.models import Transformer
from transformer_lib.training import History, TrainConfig, evaluate, fit, load_checkpoint

__all__ = ["TASKS", "Run", "Task", "train", "translate"]

Pairs = list[tuple[str, str]]


@dataclass(frozen=True)
class Task:
    """What there is to learn, how its text is cut, and what counts as good.

    Attributes:
        load: gives the (source, target) texts of a split.
        splits: what can be measured besides ``"train"``; the first is for validation.
        tokenizer: makes one from training text and a vocabulary size.
        score: compares translations with references; gives its name, value and signature.
        model, train: settings that suit the task, over those of preset and ``TrainConfig``.
        vocab_size, max_tokens: size of the vocabulary, and of a batch per side.
    """

    load: Callable[[str], Pairs]
    splits: tuple[str, ...]
    tokenizer: Callable[[Iterable[str], int], Tokenizer]
    score: Callable[[Sequence[str], Sequence[str]], tuple[str, float, str]]
    model: dict[str, Any] = field(default_factory=dict)
    train: dict[str, Any] = field(default_factory=dict)
    vocab_size: int | None = None
    max_tokens: int = 4096


def bleu(translations: Sequence[str], references: Sequence[str]) -> tuple[str, float, str]:
    """Cased, detokenized BLEU, with sacreBLEU's signature: the numbers that compare.

    Source:
        Post (2018), *A Call for Clarity in Reporting BLEU Scores*.
    """
    from sacrebleu.metrics.bleu import BLEU

    metric = BLEU()
    score = metric.corpus_score(list(translations), [list(references)]).score
    return "bleu", score, str(metric.get_signature())


def exact_match(translations: Sequence[str], references: Sequence[str]) -> tuple[str, float, str]:
    """The share of translations, in percent, that are right to the last character."""
    right = sum(a == b for a, b in zip(translations, references, strict=True))
    return "exact_match", 100 * right / len(references), "percent"


def _held_out(pairs: Callable[[], Pairs], held_out: int) -> Callable[[str], Pairs]:
    def load(split: str) -> Pairs:
        train, val = split_pairs(pairs(), held_out=held_out)
        return train if split == "train" else val

    return load


def _copy_texts() -> Pairs:
    # Ids 4 to 23 as the letters a to t.
    texts = ["".join(chr(ord("a") + i - 4) for i in ids) for ids, _ in copy_pairs(5_000)]
    return [(text, text) for text in texts]


def _characters(texts: Iterable[str], vocab_size: int | None) -> Tokenizer:
    if vocab_size is not None:
        raise ValueError("vocab_size must be left out: this task is spelled in characters")
    return Tokenizer.characters(texts)


def _joint_bpe(texts: Iterable[str], vocab_size: int | None) -> Tokenizer:
    return Tokenizer.train_bpe(texts, vocab_size=vocab_size or 8_000)


_SMALL = {"n_layers": 2, "dropout": 0.1}
TASKS = {
    "multi30k": Task(
        load=multi30k.load,
        splits=("val", "test_2016_flickr"),
        tokenizer=_joint_bpe,
        score=bleu,
        train={"epochs": 30, "warmup": 2000, "peak_lr": 0.005},
    ),
    "number-words": Task(
        load=_held_out(number_word_pairs, 500),
        splits=("val",),
        tokenizer=_characters,
        score=exact_match,
        model=_SMALL,
        train={"epochs": 12, "warmup": 300, "peak_lr": 0.003},
    ),
    "copy": Task(
        load=_held_out(_copy_texts, 500),
        splits=("val",),
        tokenizer=_characters,
        score=exact_match,
        model=_SMALL,
        train={"epochs": 30, "warmup": 200, "peak_lr": 0.003},
        max_tokens=1024,
    ),
}


@dataclass
class Run:
    """A trained, or half trained, model with all it takes to use it."""

    task: str
    tokenizer: Tokenizer
    model: Transformer
    settings: dict[str, Any]

    @classmethod
    def load(cls, folder: str | Path, checkpoint: str = "best", device: str = "auto") -> Run:
        """Read a run's folder.

        Args:
            folder: as ``train`` left it.
            checkpoint: ``"best"``, or ``"last"``.
            device: where the model goes.

        Raises:
            FileNotFoundError: there is no run, or it has no such checkpoint yet.
            ValueError: a file is damaged.
        """
        folder = Path(folder)
        settings = _read_settings(folder)
        model = Transformer(ModelConfig(**settings["model"]))
        name = {"best": "best.pt", "last": "checkpoint.pt"}[checkpoint]
        model.load_state_dict(load_checkpoint(folder / name)["model"])
        tokenizer = Tokenizer.load(folder / "tokenizer.json")
        return cls(settings["task"], tokenizer, model.to(pick_device(device)).eval(), settings)

    def score(self, split: str, limit: int | None = None) -> tuple[str, float, str, Pairs]:
        """Translate a split (its first ``limit`` sentences) and compare with the references.

        Returns:
            name, value and signature of the score, and the (translation, reference) texts.
        """
        task = TASKS[self.task]
        if split not in task.splits:
            raise ValueError(f"split must be one of {', '.join(task.splits)}; got {split!r}")
        pairs = task.load(split)[:limit]
        texts = translate(self.model, self.tokenizer, [source for source, _ in pairs])
        references = [target for _, target in pairs]
        return *task.score(texts, references), list(zip(texts, references, strict=True))


def pick_device(name: str) -> torch.device:
    """``"auto"`` is the GPU where there is one."""
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    return torch.device(name)


def translate(
    model: Transformer, tokenizer: Tokenizer, sentences: Sequence[str], *, batch_size: int = 64
) -> list[str]:
    """Translate sentences greedily, those of like length together. A blank one stays blank."""
    from transformer_lib.data import pad

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
    model_changes: dict[str, Any] | None = None,
    train_changes: dict[str, Any] | None = None,
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
        task: a name in :data:`TASKS`.
        preset: ``"tiny"``, ``"base"`` or ``"big"``, see :class:`ModelConfig`.
        model_changes, train_changes: over the settings of task and preset.
        vocab_size, max_tokens: over the task's.
        device: ``"auto"``, ``"cpu"``, ``"cuda"``, …
        score_every: epochs between two scores of the validation split, which take longer than
            its loss; None never scores.
        restart: begin anew over what is in the folder.
        command: how the run was asked for, to be recorded.
        progress: show a progress bar.
        say: is told, in a line each, what is going on.

    Returns:
        The run's records.

    Raises:
        ValueError: an unfit setting, or a folder that holds a run of other settings.
    """
    folder, chosen = Path(folder), TASKS[task]
    going_on = not restart and (folder / "checkpoint.pt").exists()
    train_pairs, val_pairs = chosen.load("train"), chosen.load(chosen.splits[0])
    if going_on:
        tokenizer = Tokenizer.load(folder / "tokenizer.json")
    else:
        say("Making the vocabulary, from the training text alone …")
        tokenizer = chosen.tokenizer((text for pair in train_pairs for text in pair), vocab_size)
    changes = chosen.train | {k: v for k, v in (train_changes or {}).items() if v is not None}
    if (train_changes or {}).get("max_steps") and not (train_changes or {}).get("epochs"):
        changes.pop("epochs", None)  # asked for steps: the task's epochs are not meant
    config = TrainConfig(**changes)
    model_config = getattr(ModelConfig, preset)(
        vocab_size=tokenizer.vocab_size,
        **chosen.model | {k: v for k, v in (model_changes or {}).items() if v is not None},
    )
    settings = {
        "task": task,
        "preset": preset,
        "model": asdict(model_config),
        "vocab_size": vocab_size,
        "max_tokens": max_tokens or chosen.max_tokens,
    }
    former = _read_settings(folder) if going_on else {}
    for name, value in settings.items():
        if going_on and former.get(name) != value:
            raise ValueError(
                f"{folder} holds a run with {name} {former.get(name)!r}, now it is {value!r}. "
                f"Use that value, another folder, or restart"
            )
    batches, val_batches = (
        Batches(
            [(tokenizer.encode(a), tokenizer.encode(b)) for a, b in pairs],
            max_tokens=settings["max_tokens"],
            seed=config.seed,
            shuffle=shuffle,
        )
        for pairs, shuffle in ((train_pairs, True), (val_pairs, False))
    )
    torch.manual_seed(config.seed)
    model = Transformer(model_config).to(pick_device(device))
    folder.mkdir(parents=True, exist_ok=True)
    if not going_on:
        tokenizer.save(folder / "tokenizer.json")
    here = {"command": command, "started": _now()} | _machine(model)
    sessions = [*former.get("sessions", []), here]
    _write_json(folder / "config.json", settings | {"train": asdict(config), "sessions": sessions})

    size = sum(p.numel() for p in model.parameters())
    say(
        f"{task}, {preset}: {size:,} parameters, {tokenizer.vocab_size:,} pieces, "
        f"{len(train_pairs):,} pairs in {len(batches):,} batches, on {here['hardware']}."
    )
    if going_on:
        say(f"Going on with the run in {folder}.")

    def validate(model: nn.Module, epoch: int) -> dict[str, Any]:
        metrics: dict[str, Any] = evaluate(model, val_batches)
        if score_every and epoch % score_every == 0:
            texts = translate(model, tokenizer, [source for source, _ in val_pairs])
            name, value, _ = chosen.score(texts, [target for _, target in val_pairs])
            metrics[name] = value
        return metrics

    return fit(
        model,
        batches,
        config,
        validate=validate,
        directory=folder,
        resume=going_on,
        progress=progress,
    )


def _read_settings(folder: Path) -> dict[str, Any]:
    path = folder / "config.json"
    if not path.exists():
        raise FileNotFoundError(f"{folder} holds no run: there is no {path.name} in it")
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{path} is damaged: {error}") from error


def _write_json(path: Path, content: dict[str, Any]) -> None:
    with replacing(path) as file:
        file.write(json.dumps(content, indent=2, ensure_ascii=False).encode() + b"\n")


def _now() -> str:
    return datetime.now(timezone.utc).isoformat(timespec="seconds")


def _machine(model: nn.Module) -> dict[str, Any]:
    """What a reader must know to compare times, and to run the same code."""
    device = next(model.parameters()).device
    if device.type == "cuda":
        hardware = torch.cuda.get_device_name(device)
    else:
        hardware = f"{_processor()}, {torch.get_num_threads()} of {os.cpu_count()} threads"
    commit = subprocess.run(
        ["git", "describe", "--always", "--dirty", "--exclude=*", "--abbrev=40"],
        cwd=Path(__file__).parent,
        capture_output=True,
        text=True,
    )
    return {
        "hardware": hardware,
        "versions": {"python": platform.python_version(), "torch": str(torch.__version__)},
        "commit": commit.stdout.strip() or None,
    }


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    names = [
        line.partition(":")[2].strip()
        for line in (info.read_text().splitlines() if info.exists() else [])
        if line.startswith("model name")
    ]
    return names[0] if names else platform.processor() or platform.machine()
