"""A run in progress: what it does between two steps, and how it is put down and taken up."""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from transformer_lib.training.checkpoint import load_checkpoint, save_checkpoint
from transformer_lib.training.config import TrainConfig
from transformer_lib.training.records import RunLog
from transformer_lib.training.state import (
    Batches,
    Progress,
    check_same_run,
    describe,
    random_state,
    set_random_state,
)
from transformer_lib.training.update import Updater

__all__ = ["Session", "Validate"]

Validate = Callable[[nn.Module, int], dict[str, Any]]


class Session:
    """A model, its optimizer and its progress, and what is done with them."""

    def __init__(
        self, model: nn.Module, batches: Batches, config: TrainConfig, directory: Path | None
    ) -> None:
        self.model, self.batches, self.config, self.directory = model, batches, config, directory
        self.updater = Updater(model, config)
        self.progress = Progress()
        self.saved_at = -1

    # Beginning and going on

    def start(self, resume: bool | str) -> None:
        """Seed, or take up the checkpoint."""
        if resume not in (True, False, "auto"):
            raise ValueError(f"resume must be True, False or 'auto', got {resume!r}")
        torch.manual_seed(self.config.seed)
        random.seed(self.config.seed)
        self.settings = self.config.arithmetic() | describe(self.model, self.batches)
        if self.directory is None:
            if resume is True:
                raise ValueError("resume=True needs a directory, got None")
            self.log = RunLog(None)
            return
        for litter in self.directory.glob(".*.pt.*.tmp"):  # of a run killed while it saved
            litter.unlink()
        path = self.directory / "checkpoint.pt"
        resumed = resume is True or (resume == "auto" and path.exists())
        if resumed:
            self.load(path)
        else:
            (self.directory / "best.pt").unlink(missing_ok=True)
        self.log = RunLog(self.directory / "log.jsonl", self.progress.step if resumed else None)

    def load(self, path: Path) -> None:
        state = load_checkpoint(path)
        if "progress" not in state:
            raise ValueError(f"{path} holds a model, not a run to resume")
        check_same_run(path, state["settings"], self.settings)
        self.model.load_state_dict(state["model"])
        self.updater.optimizer.load_state_dict(state["optimizer"])
        set_random_state(state["random"], self.updater.device)
        self.progress = Progress(**state["progress"])
        self.saved_at = self.progress.step

    def save(self) -> None:
        if self.directory is None:
            return
        self.read_loss()
        save_checkpoint(
            self.directory / "checkpoint.pt",
            {
                "model": self.model.state_dict(),
                "optimizer": self.updater.optimizer.state_dict(),
                "progress": asdict(self.progress),
                "random": random_state(self.updater.device),
                "settings": self.settings,
            },
        )
        self.saved_at = self.progress.step

    def groups(self) -> Iterator[tuple[list[Any], bool]]:
        """The batches not used yet, in groups for one update; and: is it its epoch's last?"""
        at, size = self.progress, self.config.accumulate
        while True:
            stream = islice(iter(self.batches.epoch(at.epoch)), at.index, None)
            group = list(islice(stream, size))
            if not group:
                raise ValueError(f"batches.epoch({at.epoch}) must give a batch, gave none")
            while group:
                following = list(islice(stream, size))
                yield group, not following
                group = following

    # Steps, records and validation

    def step(self, group: list[Any], last_of_epoch: bool) -> None:
        began, at = time.perf_counter(), self.progress
        tokens = self.updater.step(at.step + 1, group)
        at.step += 1
        at.index += len(group)
        if last_of_epoch:
            at.epoch, at.index = at.epoch + 1, 0
        at.tokens += tokens
        at.window_tokens += tokens
        if self.updater.device.type == "cpu":
            self.read_loss()
        elapsed = time.perf_counter() - began
        at.seconds += elapsed
        at.window_seconds += elapsed

    def read_loss(self) -> None:
        loss = self.updater.take_loss()
        if not math.isfinite(loss):
            kept = f"; the checkpoint is of step {self.saved_at}" if self.saved_at >= 0 else ""
            raise FloatingPointError(
                f"the loss or its gradient is no longer a number ({loss}) at step "
                f"{self.progress.step}, learning rate {self.updater.lr:.2g}{kept}. "
                f"A lower peak_lr or a longer warmup may help"
            )
        self.progress.window_loss += loss

    def record(self) -> dict[str, str]:
        """Write the record of the steps since the last one; give the gist for the bar."""
        self.read_loss()
        at = self.progress
        loss = at.window_loss / max(at.window_tokens, 1)
        speed = at.window_tokens / at.window_seconds
        record = self.stamp() | {
            "loss": loss,
            "lr": self.updater.lr,
            "tokens": at.tokens,
            "tokens_per_second": round(speed, 1),
        }
        if self.updater.norm is not None:
            record["gradient_norm"] = self.updater.norm.item()
        self.log.add(record)
        at.window_loss, at.window_tokens, at.window_seconds = 0.0, 0, 0.0
        return {"epoch": str(at.epoch), "loss": f"{loss:.3f}", "tokens/s": f"{speed:,.0f}"}

    def measure(self, validate: Validate) -> dict[str, Any]:
        began = time.perf_counter()
        self.model.eval()
        try:
            with torch.no_grad():
                metrics = validate(self.model, self.progress.epoch)
        finally:
            self.model.train()
        self.progress.seconds += time.perf_counter() - began
        return {k: v.item() if isinstance(v, Tensor) else v for k, v in metrics.items()}

    def record_validation(self, metrics: dict[str, Any]) -> None:
        at = self.progress
        at.validated = at.step
        self.log.add(self.stamp() | {f"val_{name}": value for name, value in metrics.items()})
        loss = metrics.get("loss", math.inf)
        if loss < at.best:
            at.best = loss
            if self.directory is not None:
                save_checkpoint(
                    self.directory / "best.pt",
                    {"model": self.model.state_dict(), "step": at.step, "val_loss": loss},
                )

    def stamp(self) -> dict[str, Any]:
        at = self.progress
        return {"step": at.step, "epoch": at.epoch, "seconds": round(at.seconds, 3)}

    def is_over(self) -> bool:
        config, at = self.config, self.progress
        return (config.max_steps is not None and at.step >= config.max_steps) or (
            config.epochs is not None and at.epoch >= config.epochs
        )

    def record_is_due(self) -> bool:
        at = self.progress
        return at.window_tokens > 0 and (at.step % self.config.log_every == 0 or self.is_over())

    def validation_is_due(self) -> bool:
        return self.progress.validated != self.progress.step and self._due(
            self.config.validate_every
        )

    def checkpoint_is_due(self) -> bool:
        # Before the first step as well: a folder that cannot be written is known at once.
        return self.saved_at != self.progress.step and self._due(self.config.checkpoint_every)

    def _due(self, every: int | None) -> bool:
        at = self.progress
        return self.is_over() or (at.step % every == 0 if every else at.index == 0)
