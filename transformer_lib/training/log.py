"""The log of a run: one entry per line, readable while it runs."""

import json
from pathlib import Path
from typing import Any

from transformer_lib.files import replacing
from transformer_lib.validation import as_path

__all__ = ["History", "RunLog"]

Entry = dict[str, Any]


class History(list[Entry]):
    """The entries of a run, oldest first.

    Training entries hold ``step epoch seconds loss lr tokens tokens_per_second gradient_norm``;
    validation entries hold ``step epoch seconds`` and what was measured, such as ``val_loss``.

    Example:
        >>> history = History([{"step": 1, "loss": 5.0}, {"step": 1, "val_loss": 4.0}])
        >>> history.column("val_loss")
        ([1], [4.0])
    """

    def column(self, name: str) -> tuple[list[int], list[Any]]:
        """Return the steps at which ``name`` was logged, and its values, ready to plot."""
        if not isinstance(name, str):
            raise TypeError(f"name must be a string, got {name!r}")
        rows = [(entry["step"], entry[name]) for entry in self if name in entry]
        return [step for step, _ in rows], [value for _, value in rows]

    @classmethod
    def read(cls, path: str | Path) -> "History":
        """Read a JSON-lines log. A last line cut off by a crash is left out.

        Raises:
            TypeError: ``path`` isn't a path.
            FileNotFoundError: the file doesn't exist.
            ValueError: another line isn't a JSON object.
        """
        as_path("path", path, "file")
        history = cls()
        text = Path(path).read_text(encoding="utf-8", errors="replace")  # cut inside a character
        # Not str.splitlines: it also splits at characters that an entry may contain.
        *whole, rest = text.split("\n")
        for number, line in enumerate([*whole, rest] if rest else whole, start=1):
            try:
                entry = json.loads(line)
                if not isinstance(entry, dict) or "step" not in entry:
                    raise ValueError("not an entry with a step")
                history.append(entry)
            except ValueError as error:
                if number > len(whole):
                    break
                raise ValueError(f"{path}, line {number}: {error}") from error
        return history


class RunLog:
    """A history that is written to a file as it grows.

    Args:
        folder: gets ``log.jsonl``; None keeps the entries in memory only.
        until: keep only the entries up to this step, for a run that is resumed from there; None
            starts a new log.
        writes: False only reads: another process writes.
    """

    def __init__(
        self, folder: Path | None, until: int | None = None, *, writes: bool = True
    ) -> None:
        self.path = None if folder is None else folder / "log.jsonl"
        self.history = History()
        self.writes = writes
        if self.path is not None and until is not None and self.path.exists():
            self.history.extend(e for e in History.read(self.path) if e["step"] <= until)
        if self.path is not None and writes:
            with replacing(self.path) as file:
                file.writelines(map(_line, self.history))

    def add(self, entry: Entry) -> None:
        """Append an entry, to the file first."""
        if self.path is not None and self.writes:
            with open(self.path, "ab") as file:
                file.write(_line(entry))
        self.history.append(entry)


def _line(entry: Entry) -> bytes:
    return json.dumps(entry, ensure_ascii=False).encode() + b"\n"
