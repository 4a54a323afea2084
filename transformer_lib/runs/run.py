"""A run in its folder: from the name of a task to a trained model, to text and to scores."""

from __future__ import annotations

import json
import math
import os
import platform
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timezone
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import nn

from transformer_lib.config import ModelConfig
from transformer_lib.data import Tokenizer
from transformer_lib.decoding import Ensemble, greedy
from transformer_lib.decoding.text import Decode, complete, translate
from transformer_lib.files import replacing
from transformer_lib.metrics import Score
from transformer_lib.models import DecoderOnly, Transformer
from transformer_lib.runs.tasks import (
    TASKS,
    Pairs,
    Task,
    make_batches,
    second_translations,
    words_of,
)
from transformer_lib.training import (
    History,
    TrainConfig,
    average_checkpoints,
    evaluate,
    fit,
    load_checkpoint,
    local_device,
)
from transformer_lib.training.checkpoint import check_own
from transformer_lib.training.distributed import Ranks, join
from transformer_lib.training.update import half_is_fast
from transformer_lib.validation import (
    as_path,
    check_choice,
    check_count,
    check_type,
    naming,
    plain_number,
    text_list,
)

__all__ = ["Run", "environment", "train", "write_score"]

CHECKPOINTS = {"best": "best.pt", "last": "checkpoint.pt"}


@dataclass
class Run:
    """A trained or partly trained model, with everything you need to use it."""

    task: str
    tokenizer: Tokenizer
    model: Transformer | DecoderOnly | Ensemble
    words: frozenset[str] | None = None  # that it read in training, if known

    @classmethod
    def load(
        cls,
        folder: str | Path | Sequence[str | Path],
        checkpoint: str = "best",
        device: str = "auto",
    ) -> Run:
        """Load a run from its folder, or several as one.

        Args:
            folder: what :func:`train` wrote; or a list of such folders, whose models become an
                :class:`~transformer_lib.decoding.Ensemble`.
            checkpoint: ``"best"``, ``"last"`` or ``"average"``, the mean of those kept.
            device: where the model goes; ``"auto"`` is the GPU if there is one.

        Raises:
            FileNotFoundError: the folder holds no run, or the run doesn't have this checkpoint yet.
            ValueError: a file is damaged; several runs that differ in their task or vocabulary.
        """
        if isinstance(folder, list | tuple):
            return cls._together([cls.load(each, checkpoint, device) for each in folder])
        folder = as_path("folder", folder)
        task, config, _ = _read_settings(folder)
        model = _model(TASKS[task], config)
        try:
            model.load_state_dict(_weights(folder, checkpoint))
        except RuntimeError as error:  # it lists every missing and unexpected name
            raise ValueError(
                f"the weights in {folder} don't match its config.json, or come from another "
                f"version of this library"
            ) from error
        tokenizer = Tokenizer.load(folder / "tokenizer.json")
        words = (folder / "words.txt").read_text(encoding="utf-8").split("\n")
        return cls(task, tokenizer, model.to(local_device(device)).eval(), frozenset(words))

    @classmethod
    def _together(cls, runs: list[Run]) -> Run:
        if not runs:
            raise ValueError("folder must hold at least one run, got none")
        first, *others = runs
        for number, run in enumerate(others, start=2):
            if (run.task, run.tokenizer) != (first.task, first.tokenizer):
                raise ValueError(
                    f"folder must hold runs of one task and vocabulary; number {number} differs"
                )
        if not others:
            return first
        return cls(first.task, first.tokenizer, Ensemble([run.model for run in runs]), first.words)

    def unseen(self, texts: Sequence[str]) -> list[str]:
        """List the words of these texts that the model never read in training.

        The task decides what counts as a word; upper and lower case differ. Without a list of the
        words that were read, none is unseen.
        """
        found = words_of(TASKS[self.task], text_list("texts", texts))
        return [] if self.words is None else [word for word in found if word not in self.words]

    def answer(self, texts: Sequence[str], **options: Any) -> list[str]:
        """Translate sentences or continue prompts, whichever the model has learned.

        See :func:`~transformer_lib.decoding.translate` and
        :func:`~transformer_lib.decoding.complete`.
        """
        do = translate if TASKS[self.task].translates else complete
        return do(self.model, self.tokenizer, text_list("texts", texts), **options)

    def score(
        self,
        split: str,
        limit: int | None = None,
        *,
        decode: Decode = greedy,
        progress: bool = False,
    ) -> tuple[Score, list[str]]:
        """Answer a split, or its first ``limit`` texts; return the score and the answers.

        If the score is perplexity, there are no answers.

        Raises:
            ValueError: a split that the task doesn't have, or that the model was trained on.
        """
        task = TASKS[self.task]
        check_choice("split", split, task.splits)
        check_count("limit", limit, optional=True)
        pairs = task.load(split)[:limit]
        if task.score is None:
            return self._perplexity(pairs), []
        sources, references = zip(*pairs, strict=True)
        options: dict[str, Any] = {"decode": decode, "progress": progress}
        if not task.translates:  # an answer longer than any reference is wrong
            options["max_tokens"] = 1 + max(len(self.tokenizer.encode(r)) for r in references)
        texts = self.answer(sources, **options)
        return task.score(texts, references), texts

    def _perplexity(self, pairs: Pairs) -> Score:
        """Perplexity per token; for a running text, nats per character."""
        task, longest = TASKS[self.task], self.model.config.max_len
        batches = make_batches(
            task, self.tokenizer, pairs, max_len=longest, batch_size=64, shuffle=False
        )
        found = evaluate(self.model, batches)
        loss, value = found["loss"], found["perplexity"]
        if task.kind != "running text":
            pieces = f"per token, {self.tokenizer.vocab_size:,} pieces"
            return Score("perplexity", value, pieces, len(pairs))
        how = f"{loss / math.log(2):.3f} bits, perplexity {value:.3f}, in windows of {longest}"
        return Score("nats_per_character", loss, how, len(pairs))


def train(
    folder: str | Path,
    *,
    task: str,
    preset: str = "tiny",
    model: dict[str, Any] | None = None,
    training: dict[str, Any] | None = None,
    vocab_size: int | None = None,
    max_tokens: int | None = None,
    bpe_dropout: float | None = None,
    distilled: str | Path | None = None,
    device: str = "auto",
    score_every: int | None = None,
    restart: bool = False,
    command: str | None = None,
    progress: bool = True,
    say: Callable[[str], None] = lambda line: None,
) -> History:
    """Train on a task, or resume a run with the same settings.

    Args:
        folder: the run's folder; created if it doesn't exist.
        task: a name in :data:`~transformer_lib.runs.tasks.TASKS`.
        preset: ``"tiny"``, ``"base"`` or ``"big"``, see :class:`ModelConfig`.
        model, training: settings of :class:`ModelConfig` and :class:`TrainConfig`, in place of the
            preset's and the task's.
        vocab_size, max_tokens: size of the vocabulary, and tokens per batch on each side, in place
            of the task's.
        bpe_dropout: see :class:`~transformer_lib.data.BpeDropout`.
        distilled: a file with a second translation of each training text, one per line.
        device: ``"auto"`` is the GPU if there is one.
        score_every: epochs between two scores of the validation split.
        restart: start over, replacing the run in the folder.
        command: the command line, to be recorded in ``config.json``.
        progress: show a progress bar.
        say: called with lines about the setup.

    Returns:
        The run's log entries.

    Raises:
        ValueError: an invalid setting, or a folder that holds a run with other settings.
        FileExistsError: the folder holds files that no run wrote and that this one would overwrite.
        RuntimeError: another run is writing to the folder.

    Source:
        Kim and Rush (2016), *Sequence-Level Knowledge Distillation*, on ``distilled``.
    """
    folder = as_path("folder", folder, "folder")
    check_choice("task", task, TASKS)
    recipe = TASKS[task]
    check_choice("preset", preset, ("tiny", "base", "big"))
    max_tokens = check_count("max_tokens", max_tokens, optional=True)
    vocab_size, bpe_dropout = plain_number(vocab_size), plain_number(bpe_dropout)
    check_count("score_every", score_every, optional=True)
    if score_every and recipe.score is None:
        raise ValueError("score_every must be left out: this task is scored by its loss alone")
    check_type("model", model, dict, optional=True)
    check_type("training", training, dict, optional=True)
    check_type("command", command, str, optional=True)
    check_type("restart", restart, bool)
    check_type("progress", progress, bool)
    if not callable(say):
        raise TypeError(f"say must be a function, got {type(say).__name__}")
    check_own(folder, "config.json", "tokenizer.json", "words.txt", "scores.json")
    place = local_device(device)
    ranks = join(place)
    resume = not restart and (folder / "checkpoint.pt").exists()
    config = _train_config(recipe, training or {})
    train_pairs, val_pairs, tokenizer = _load(
        recipe, vocab_size, folder / "tokenizer.json" if resume else None, ranks
    )
    with naming("model"):
        model_config = getattr(ModelConfig, preset)(
            vocab_size=tokenizer.vocab_size, **recipe.model | (model or {})
        )
    sizes: dict[str, Any] = {
        "max_tokens": max_tokens or recipe.max_tokens,
        "batch_size": None if max_tokens else recipe.batch_size,
    }
    distilled_hash = None
    if distilled is not None:
        added, distilled_hash = second_translations(recipe, distilled, train_pairs)
        train_pairs = train_pairs + added
    identity = {
        "task": task,
        "preset": preset,
        "vocab_size": vocab_size,
        **sizes,
        "bpe_dropout": bpe_dropout,
        "distilled": distilled_hash,
    }
    settings = identity | {"model": asdict(model_config), "train": asdict(config)}
    sessions = _read_settings(folder)[2] if resume else []
    batches = partial(make_batches, recipe, tokenizer, max_len=model_config.max_len, **sizes)
    train_batches = batches(train_pairs, bpe_dropout, seed=config.seed)
    val_batches = batches(val_pairs, shuffle=False)
    torch.manual_seed(config.seed)
    net = _model(recipe, model_config).to(place)

    def prepare(over: bool) -> None:
        now = datetime.now(timezone.utc).isoformat(timespec="seconds")
        session = {"command": command, "started": now, "processes": ranks.size}
        session |= environment(place)
        say(
            f"{task}, {preset}: {sum(p.numel() for p in net.parameters()):,} parameters, "
            f"{tokenizer.vocab_size:,} pieces, {len(train_pairs):,} texts in "
            f"{len(train_batches):,} batches, on {session['hardware']}."
        )
        if config.amp is True and not half_is_fast(place):
            say("This processor has no bfloat16 arithmetic: amp=True slows training down.")
        if over:
            say(f"Nothing left to train: the run in {folder} has had all its epochs or steps.")
            return
        # First, since it is what makes this a run's folder.
        _write_json(folder / "config.json", settings | {"sessions": [*sessions, session]})
        if resume:
            say(f"Resuming the run in {folder}.")
            return
        (folder / "scores.json").unlink(missing_ok=True)  # of an older run
        tokenizer.save(folder / "tokenizer.json")
        read = (a if recipe.translates else a + b for a, b in train_pairs)
        with replacing(folder / "words.txt") as file:
            file.write("".join(f"{word}\n" for word in sorted(words_of(recipe, read))).encode())

    def validate(model: nn.Module, epoch: int) -> dict[str, Any]:
        metrics: dict[str, Any] = evaluate(model, val_batches)
        if score_every and epoch // score_every > _scored(folder) // score_every:
            score, _ = Run(task, tokenizer, net).score(recipe.splits[0])
            metrics[score.metric] = score.value
        return metrics

    return fit(
        net,
        train_batches,
        config,
        validate=validate,
        directory=folder,
        resume=resume,
        settings=identity,
        progress=progress,
        prepare=prepare,
    )


def _model(task: Task, config: ModelConfig) -> Transformer | DecoderOnly:
    return Transformer(config) if task.translates else DecoderOnly(config)


def _train_config(task: Task, changes: dict[str, Any]) -> TrainConfig:
    if changes.get("max_steps") is not None:  # replaces the task's epochs
        changes = {"epochs": None} | changes
    with naming("training"):
        return TrainConfig(**task.train | changes)


def _load(
    task: Task, vocab_size: int | None, kept: Path | None, ranks: Ranks
) -> tuple[Pairs, Pairs, Tokenizer]:
    """Load the training pairs, the validation pairs and the tokenizer; make one if none is kept."""
    # The others wait until the first process has downloaded the data.
    made = [] if ranks.first else ranks.gather(None)
    train_pairs, val_pairs = task.load("train"), task.load(task.splits[0])
    if ranks.first:
        made = ranks.gather(
            Tokenizer.load(kept) if kept else task.tokenizer(train_pairs, vocab_size)
        )
    return train_pairs, val_pairs, made[0]


def _weights(folder: Path, checkpoint: str) -> dict[str, Any]:
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


def _read_settings(folder: Path) -> tuple[str, ModelConfig, list[dict[str, Any]]]:
    """A run's task, its model's config, and what it has recorded of its sessions."""
    path = folder / "config.json"
    if not path.is_file():
        raise FileNotFoundError(
            f"{folder} holds no run: it has no config.json"
            if folder.is_dir()
            else f"folder {folder} not found"
        )
    try:
        settings = json.loads(path.read_text(encoding="utf-8"))
        check_choice("task", settings["task"], TASKS)
        return settings["task"], ModelConfig(**settings["model"]), settings["sessions"]
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        reason = f"it has no {error}" if isinstance(error, KeyError) else error
        raise ValueError(
            f"{path} is damaged, or another version of this library wrote it: {reason}"
        ) from error


def _write_json(path: Path, content: dict[str, Any]) -> None:
    with replacing(path) as file:
        file.write(json.dumps(content, indent=2, ensure_ascii=False).encode() + b"\n")


def _scored(folder: Path) -> int:
    """How many epochs were complete at the last validation."""
    epochs = [entry["epoch"] for entry in History.read(folder / "log.jsonl") if "val_loss" in entry]
    return epochs[-1] if epochs else 0


def write_score(folder: Path, split: str, score: dict[str, Any]) -> None:
    """Add a score on a split to a run's ``scores.json``, in place of an older one.

    The score of greedy decoding with the best checkpoint is filed under the name of the split.
    Other scores have entries of their own.
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
    scores[", ".join([split, *apart])] = {k: plain_number(v) for k, v in score.items()}
    _write_json(path, scores)


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
