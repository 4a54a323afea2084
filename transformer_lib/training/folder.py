"""The checkpoints in a run's folder: in which order they are written and removed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from transformer_lib.training.checkpoint import is_checkpoint, load_checkpoint, save_checkpoint
from transformer_lib.training.distributed import Ranks

__all__ = ["Folder", "alone_in", "check_own"]


def check_own(folder: Path, *names: str) -> None:
    """Raise a FileExistsError if a new run would overwrite files that no run wrote.

    A run saves its first checkpoint before its first step, so its other files have one beside them.
    """
    found = [path.name for name in names for path in folder.glob(name)]
    checkpoint = folder / "checkpoint.pt"
    if found and not (checkpoint.is_file() and is_checkpoint(checkpoint)):
        raise FileExistsError(
            f"{folder} is not the folder of a run, but holds {' and '.join(found)}, which a run "
            f"would overwrite: choose another folder"
        )


@contextmanager
def alone_in(directory: Path | None) -> Iterator[None]:
    """Create the directory, and keep other runs out of it as long as the block lasts.

    The lock is the operating system's, so it ends with the process. There is none on Windows.

    Raises:
        RuntimeError: another run is writing there.
    """
    if directory is None:
        yield
        return
    directory.mkdir(parents=True, exist_ok=True)
    try:
        import fcntl
    except ImportError:
        yield
        return
    with open(directory / "lock", "a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise RuntimeError(f"another run is writing to {directory}") from error
        yield


class Folder:
    """``checkpoint.pt``, ``best.pt`` and the last models, written by the first rank alone.

    Args:
        path: None keeps nothing.
        ranks: all call every method, and see the same files.
    """

    def __init__(self, path: Path | None, ranks: Ranks) -> None:
        self.path, self.ranks = path, ranks

    def begin(self, resume: bool | str) -> dict[str, Any] | None:
        """Return the state to resume from, or None for a new run."""
        if self.path is None:
            if resume is True:
                raise ValueError("resume=True needs a directory, got None")
            return None
        # The first rank decides: others may see what it has just written.
        there = self.ranks.gather(self.checkpoint.exists())[0]
        if resume is False or (resume == "auto" and not there):
            if self.ranks.first:
                check_own(self.path, "checkpoint.pt", "best.pt", "log.jsonl", "step-*.pt")
            return None
        state = load_checkpoint(self.checkpoint)
        if "progress" not in state:
            raise ValueError(f"{self.checkpoint} holds a model, not a run to resume")
        return state

    def clear(self, step: int | None) -> None:
        """Remove what a run resumed from ``step`` will write again; everything for a new run."""
        if self.path is None or not self.ranks.first:
            return
        for litter in self.path.glob(".*.pt.*.tmp"):  # from a run that was killed while saving
            litter.unlink()
        for path in self._kept():
            if step is None or path.name > self._name(step):
                path.unlink()
        if step is None:
            (self.path / "best.pt").unlink(missing_ok=True)

    def save(self, state: dict[str, Any], keep: int | None = None) -> None:
        """Replace the checkpoint, and add its model to the last ``keep`` ones."""
        if self.path is not None and self.ranks.first:
            step = state["progress"]["step"]
            if keep is not None and step > 0:
                save_checkpoint(
                    self.path / self._name(step), {"model": state["model"], "step": step}
                )
            save_checkpoint(self.checkpoint, state)
            if keep is not None:
                for path in self._kept()[:-keep]:
                    path.unlink()
        self.ranks.gather(None)

    def save_best(self, state: dict[str, Any]) -> None:
        if self.path is not None and self.ranks.first:
            save_checkpoint(self.path / "best.pt", state)

    @property
    def checkpoint(self) -> Path:
        assert self.path is not None
        return self.path / "checkpoint.pt"

    def _kept(self) -> list[Path]:
        return sorted(self.path.glob("step-*.pt")) if self.path is not None else []

    def _name(self, step: int) -> str:
        return f"step-{step:08d}.pt"
