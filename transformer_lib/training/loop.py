"""The training loop: a run that survives any interruption."""

import hashlib
import json
import math
import random
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, is_dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Literal

import torch
from torch import nn

from transformer_lib.decoding.protocol import modes_kept
from transformer_lib.training.checkpoint import Folder, alone_in
from transformer_lib.training.config import TrainConfig
from transformer_lib.training.distributed import join, parts, whole, whole_model
from transformer_lib.training.evaluation import BatchSource, check_batch, padding_of
from transformer_lib.training.interrupts import Interrupts, stop
from transformer_lib.training.log import History, RunLog
from transformer_lib.training.update import Updater
from transformer_lib.validation import as_path, check_type

__all__ = ["Session", "fit"]

Validate = Callable[[nn.Module, int], dict[str, Any]]


def fit(
    model: nn.Module,
    batches: BatchSource,
    config: TrainConfig,
    *,
    validate: Validate | None = None,
    directory: str | Path | None = None,
    resume: bool | Literal["auto"] = "auto",
    settings: dict[str, Any] | None = None,
    progress: bool = True,
    prepare: Callable[[bool], None] | None = None,
) -> History:
    """Train a model on the device that it is on.

    Each update divides the summed loss by the number of tokens in all its batches. In a
    ``directory``, the run keeps ``log.jsonl``; ``checkpoint.pt``, to resume from; ``best.pt``, the
    model with the lowest validation loss; and, with ``keep_last``, the last models as
    ``step-….pt``. A run that was killed and resumed ends, on the same machine, with the same bits
    as one that wasn't.

    Under ``torchrun``, all processes call it with the same arguments, each with the model on its
    own :func:`~transformer_lib.training.distributed.local_device`. An update takes ``accumulate``
    batches per process; its gradient is what a single process would get from all of them. The first
    process writes the files, which all must be able to read. The number of processes may change
    when the run is resumed if ``accumulate`` times their number doesn't, but then the bits will
    differ. After ``parallel="fsdp"``, the model remains sharded: load a checkpoint into a new one.

    Args:
        model: called with all tensors of a batch but the last; returns logits ``(..., V)``.
        batches: see :class:`~transformer_lib.training.evaluation.BatchSource`.
        config: the settings of the run.
        validate: called with the model, in evaluation mode and without gradients, and the number
            of completed epochs; returns what to log, such as ``{"loss": 1.2}``. The model with the
            lowest ``"loss"`` is the best.
        directory: where the run is kept; None keeps nothing.
        resume: True continues from the checkpoint, which must exist; ``"auto"`` continues if there
            is one; False starts over and replaces the run that was there.
        settings: more that identifies the run, besides the config, the model and the data: numbers
            and strings, by name.
        progress: show a progress bar on standard error.
        prepare: writes the caller's own files into ``directory``. Called once, in the first
            process, before the run's own files change; told whether the run is over already.

    Returns:
        All log entries of the run, including those before it was resumed.

    Raises:
        TypeError: an argument of the wrong type.
        ValueError: a checkpoint of a run with other settings, another model or other data; an epoch
            without batches; batches with other special ids than the model's.
        FileNotFoundError: ``resume=True`` and no checkpoint.
        FileExistsError: the directory holds files that this run would overwrite and that no run
            wrote.
        RuntimeError: another run is writing to the directory.
        FloatingPointError: the loss is no longer a number. The last checkpoint is from before.
        KeyboardInterrupt: Ctrl-C, after the step is finished and a checkpoint saved.
        SystemExit: SIGTERM, from a scheduler or ``torchrun``; handled like Ctrl-C.

    Note:
        Seeds ``torch`` and ``random`` with ``config.seed``. Parts of the model that are in
        evaluation mode stay in it, unless the whole model is. Afterwards, each module is back in
        the mode it was in.

    Example:
        >>> from transformer_lib import ModelConfig, Transformer
        >>> from transformer_lib.data import Batches, copy_pairs
        >>> model = Transformer(ModelConfig.tiny(vocab_size=24, d_model=32, n_layers=1))
        >>> config = TrainConfig(epochs=2, warmup=10, peak_lr=0.003, log_every=3)
        >>> history = fit(model, Batches(copy_pairs(60), batch_size=20), config, progress=False)
        >>> steps, rates = history.column("lr")
        >>> steps, [round(rate, 4) for rate in rates]
        ([3, 6], [0.0009, 0.0018])
    """
    from tqdm import tqdm

    check_type("model", model, nn.Module)
    check_type("config", config, TrainConfig)
    if not callable(getattr(batches, "epoch", None)) or not hasattr(batches, "__len__"):
        raise TypeError(f"batches must have epoch() and a length, got {type(batches).__name__}")
    if directory is not None:
        directory = as_path("directory", directory, "folder")
    if not isinstance(resume, bool) and resume != "auto":
        raise ValueError(f"resume must be True, False or 'auto', got {resume!r}")
    check_type("settings", settings, dict, optional=True)
    check_type("progress", progress, bool)
    for name, function in {"validate": validate, "prepare": prepare}.items():
        if function is not None and not callable(function):
            raise TypeError(f"{name} must be a function, got {type(function).__name__}")
    ranks = join(next((p.device for p in model.parameters()), torch.device("cpu")))
    with alone_in(directory if ranks.first else None), modes_kept(model):
        if not any(module.training for module in model.modules()):
            model.train()
        run = Session(
            model, batches, config, Folder(directory, ranks), resume, settings or {}, prepare
        )
        bar = tqdm(
            total=run.last_step,
            initial=run.progress.step,
            disable=not (progress and ranks.first),
            unit="step",
            desc="training",
        )
        with Interrupts(together=ranks.size > 1) as interrupts, bar:
            _loop(run, validate, interrupts, bar)
    return run.log.history


def _loop(run: "Session", validate: Validate | None, interrupts: Interrupts, bar: Any) -> None:
    groups = run.groups()
    while True:
        if run.log_is_due():
            bar.set_postfix(run.log_training(), refresh=False)
        if signum := max(run.ranks.gather(interrupts.pending)):
            run.save()
            stop(signum)
        if validate and run.validation_is_due():
            try:
                with interrupts.let_through():
                    metrics = run.measure(validate)
            except BaseException:
                if run.ranks.size == 1:  # the others may be fine, and wouldn't save
                    run.save()  # resumes with this validation
                raise
            run.record_validation(metrics)
        if run.checkpoint_is_due():
            run.save(keep=True)
        if run.is_over():
            return
        run.step(*next(groups))
        bar.update()


@dataclass
class Progress:
    """What it takes to resume a run, besides its tensors and random state."""

    step: int = 0
    epoch: int = 0  # epochs completed
    index: int = 0  # batches of this epoch already used
    tokens: int = 0
    seconds: float = 0.0
    validated: int = 0  # step of the last validation
    best: float = math.inf  # lowest validation loss
    window_loss: float = 0.0  # since the last log entry
    window_tokens: int = 0
    window_seconds: float = 0.0


class Session:
    """A model, its optimizer and its progress. All ranks call every method.

    Args:
        model, batches, config, resume, settings, prepare: as for
            :func:`~transformer_lib.training.loop.fit`.
        folder: of the run. No other run writes there.
    """

    def __init__(
        self,
        model: nn.Module,
        batches: BatchSource,
        config: TrainConfig,
        folder: Folder,
        resume: bool | str,
        settings: dict[str, Any],
        prepare: Callable[[bool], None] | None = None,
    ) -> None:
        self.model, self.batches, self.config = model, batches, config
        self.folder, self.ranks = folder, folder.ranks
        self.updater = Updater(model, config, self.ranks, pad_id=padding_of(model, batches))
        self.progress = Progress()
        self.group_size = config.accumulate * self.ranks.size
        self.saved_at = -1  # step of the checkpoint
        seed = config.seed + 1_000_003 * self.ranks.rank  # or all would have the same dropout
        torch.manual_seed(seed)
        random.seed(seed)
        self.settings = settings | config.arithmetic() | _describe(model, batches)
        self.settings["accumulate"] = self.group_size  # no matter how many processes
        if any(settings != self.settings for settings in self.ranks.gather(self.settings)):
            raise ValueError(
                "config, model and batches must be the same on every rank: fit itself divides the "
                "batches among them"
            )
        state = folder.begin(resume)
        if state is not None:
            self._restore(state)
        until = None if state is None else self.progress.step
        self.log = RunLog(folder.path, until, writes=self.ranks.first)
        if prepare and self.ranks.first:
            prepare(self.is_over())
        folder.clear(until)
        self.ranks.gather(None)  # no rank writes before all have read

    def _restore(self, state: dict[str, Any]) -> None:
        saved = state["settings"]
        for name in [*self.settings, *(saved.keys() - self.settings.keys())]:
            if saved.get(name) != self.settings.get(name):
                raise ValueError(
                    f"{self.folder.path} holds a run with other settings: "
                    f"{name.removeprefix('model.')} is {saved.get(name)!r} there, "
                    f"{self.settings.get(name)!r} here. Choose another folder, or start over with "
                    f"resume=False (--restart)"
                )
        present = self.model.state_dict()
        self.model.load_state_dict(parts(state["model"], present))
        for optimizer, saved in zip(self.updater.optimizers, state["optimizers"], strict=True):
            parameters = [p for group in optimizer.param_groups for p in group["params"]]
            for number, moments in saved["state"].items():
                saved["state"][number] = parts(moments, dict.fromkeys(moments, parameters[number]))
            optimizer.load_state_dict(saved)
        # Only the same number of processes can draw the same random numbers as before.
        if len(state["random"]) == self.ranks.size:
            _set_random_state(state["random"][self.ranks.rank], self.updater.device)
        self.progress = Progress(**state["progress"])
        self.saved_at = self.progress.step
        self.updater.lr = self.updater.optimizers[0].param_groups[0]["lr"]
        self.updater.scaler.load_state_dict(state["scaler"])

    def save(self, keep: bool = False) -> None:
        """Save a checkpoint; with ``keep``, because one is due, also keep its model."""
        if self.folder.path is None:
            return
        self.read_loss()
        state = {
            "model": whole(self.model.state_dict()),
            "optimizers": [whole(each.state_dict()) for each in self.updater.optimizers],
            "progress": asdict(self.progress),
            "scaler": self.updater.scaler.state_dict(),
            "random": self.ranks.gather(_random_state(self.updater.device)),
            "settings": self.settings,
        }
        self.folder.save(state, self.config.keep_last if keep else None)
        self.saved_at = self.progress.step

    def groups(self) -> Iterator[tuple[list[Any], bool]]:
        """Yield the batches of each update, with whether they are the last of their epoch."""
        epoch, used, size = self.progress.epoch, self.progress.index, self.group_size
        while True:
            stream = islice(iter(self.batches.epoch(epoch)), used, None)
            group = list(islice(stream, size))
            if not group:
                raise ValueError(f"batches.epoch({epoch}) must give at least one batch, gave none")
            while group:
                following = list(islice(stream, size))
                yield group, not following
                group = following
            epoch, used = epoch + 1, 0

    @property
    def last_step(self) -> int:
        """The number of the last update."""
        epochs, steps = self.config.epochs, self.config.max_steps or sys.maxsize
        if epochs is None:
            return steps
        return min(steps, epochs * math.ceil(len(self.batches) / self.group_size))

    # Steps, entries and validation

    def step(self, group: list[Any], last_of_epoch: bool) -> None:
        began, now = time.perf_counter(), self.progress
        # An epoch may have more batches than its length says: at least one step is always left.
        tokens = self.updater.step(now.step + 1, group, max(self.last_step - now.step, 1))
        now.step += 1
        now.index += len(group)
        if last_of_epoch:
            now.epoch, now.index = now.epoch + 1, 0
        now.tokens += tokens
        now.window_tokens += tokens
        if self.updater.device.type == "cpu":
            self.read_loss()
        elapsed = time.perf_counter() - began
        now.seconds += elapsed
        now.window_seconds += elapsed

    def read_loss(self) -> None:
        loss = self.updater.take_loss()
        if not math.isfinite(loss):
            kept = f"; the checkpoint is from step {self.saved_at}" if self.saved_at >= 0 else ""
            raise FloatingPointError(
                f"the loss or its gradient is no longer a number ({loss}) at step "
                f"{self.progress.step}, learning rate {self.updater.lr:.2g}{kept}. "
                f"A lower peak_lr or a longer warmup may help"
            )
        self.progress.window_loss += loss

    def log_training(self) -> dict[str, str]:
        """Log the steps since the last entry; return the gist for the progress bar."""
        self.read_loss()
        now = self.progress
        loss = now.window_loss / max(now.window_tokens, 1)
        speed = now.window_tokens / now.window_seconds
        entry = self.stamp() | {
            "loss": loss,
            "lr": self.updater.lr,
            "tokens": now.tokens,
            "tokens_per_second": round(speed, 1),
        }
        if self.updater.norm is not None:
            entry["gradient_norm"] = self.updater.norm.item()
        self.log.add(entry)
        now.window_loss, now.window_tokens, now.window_seconds = 0.0, 0, 0.0
        return {"epoch": str(now.epoch), "loss": f"{loss:.3f}", "tokens/s": f"{speed:,.0f}"}

    def measure(self, validate: Validate) -> dict[str, Any]:
        began = time.perf_counter()
        with modes_kept(self.model), torch.no_grad(), whole_model(self.model):
            self.model.eval()
            metrics = validate(self.model, self.progress.epoch)
        self.progress.seconds += time.perf_counter() - began
        if not isinstance(metrics, dict):
            raise TypeError(f"validate must return a dict, got {type(metrics).__name__}")
        metrics = json.loads(json.dumps(metrics, default=_number))
        if not isinstance(loss := metrics.get("loss", math.inf), int | float):
            raise TypeError(f"validate must return a number as 'loss', got {loss!r}")
        return self.ranks.gather(metrics)[0]  # ranks may differ by a bit, but must act alike

    def record_validation(self, metrics: dict[str, Any]) -> None:
        now = self.progress
        now.validated = now.step
        loss = metrics.get("loss", math.inf)
        self.log.add(self.stamp() | {f"val_{name}": value for name, value in metrics.items()})
        if loss < now.best:
            now.best = loss
            self.folder.save_best(
                {"model": whole(self.model.state_dict()), "step": now.step, "val_loss": loss}
            )

    def stamp(self) -> dict[str, Any]:
        now = self.progress
        return {"step": now.step, "epoch": now.epoch, "seconds": round(now.seconds, 3)}

    def is_over(self) -> bool:
        config, now = self.config, self.progress
        steps_done = config.max_steps is not None and now.step >= config.max_steps
        return steps_done or (config.epochs is not None and now.epoch >= config.epochs)

    def log_is_due(self) -> bool:
        now = self.progress
        return now.window_tokens > 0 and (now.step % self.config.log_every == 0 or self.is_over())

    def validation_is_due(self) -> bool:
        return self.progress.validated != self.progress.step and self._due(
            self.config.validate_every
        )

    def checkpoint_is_due(self) -> bool:
        # Also before the first step, to fail at once if the folder can't be written. And when a run
        # is resumed: Ctrl-C may have saved before the validation, and without keeping the model.
        return self._due(self.config.checkpoint_every)

    def _due(self, every: int | None) -> bool:
        now = self.progress
        return self.is_over() or (now.step % every == 0 if every else now.index == 0)


def _number(value: Any) -> Any:
    """The Python number in a scalar of torch or NumPy, for JSON."""
    try:
        return value.item()
    except (AttributeError, ValueError, RuntimeError) as error:
        raise TypeError(
            f"validate must return what JSON can hold, such as numbers; got a "
            f"{type(value).__name__}"
        ) from error


def _describe(model: nn.Module, batches: BatchSource) -> dict[str, Any]:
    """What identifies a run besides its training settings: its model and its data."""
    config = getattr(model, "config", None)
    sizes = (
        {f"model.{name}": value for name, value in asdict(config).items()}
        if is_dataclass(config) and not isinstance(config, type)
        else {"model": str(model)}
    )
    # The first batch depends on the text, the vocabulary, the seed and the batch size.
    digest = hashlib.sha256(str(len(batches)).encode())
    for batch in islice(batches.epoch(0), 1):
        check_batch(model, batch)
        for tensor in batch:
            digest.update(repr(tensor.tolist()).encode())
    return sizes | {"data": digest.hexdigest()[:16]}


def _random_state(device: torch.device) -> dict[str, Any]:
    """The state of every generator that training draws from."""
    state: dict[str, Any] = {"python": random.getstate(), "torch": torch.get_rng_state()}
    if device.type == "cuda":
        state["cuda"] = torch.cuda.get_rng_state(device)
    return state


def _set_random_state(state: dict[str, Any], device: torch.device) -> None:
    """Restore what :func:`_random_state` returned."""
    random.setstate(state["python"])
    torch.set_rng_state(state["torch"])
    if device.type == "cuda" and "cuda" in state:
        torch.cuda.set_rng_state(state["cuda"], device)
