"""What a run remembers of itself: one record per line, readable while it runs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from transformer_lib.data.files import replacing

__all__ = ["History", "RunLog"]

Record = dict[str, Any]


class History(list[Record]):
    """The records of a run, oldest first.

    Training records hold ``step epoch loss lr tokens tokens_per_second seconds``, validation
    records ``step epoch seconds`` and what was measured, as ``val_loss``.

    Example:
        >>> history = History([{"step": 1, "loss": 5.0}, {"step": 1, "val_loss": 4.0}])
        >>> history.column("val_loss")
        ([1], [4.0])
    """

    def column(self, name: str) -> tuple[list[int], list[Any]]:
        """The steps at which ``name`` was recorded, and its values: ready to plot."""
        rows = [(record["step"], record[name]) for record in self if name in record]
        return [step for step, _ in rows], [value for _, value in rows]

    @classmethod
    def read(cls, path: str | Path) -> History:
        """Read a JSON-lines log. A last line cut off by a crash is left out.

        Raises:
            ValueError: another line is no JSON object.
        """
        history = cls()
        lines = Path(path).read_text(encoding="utf-8").splitlines(keepends=True)
        for number, line in enumerate(lines, start=1):
            try:
                record = json.loads(line)
                if not isinstance(record, dict) or "step" not in record:
                    raise ValueError("not a record with a step")
                history.append(record)
            except ValueError as error:
                if number == len(lines) and not line.endswith("\n"):
                    break
                raise ValueError(f"{path}, line {number}: {error}") from error
        return history


class RunLog:
    """A history that is written to a file as it grows, if there is a file.

    Args:
        path: the log; None keeps the records in memory only.
        until: go on from the records up to this step and drop later ones, which the resumed run
            will write again; None starts afresh.
    """

    def __init__(self, path: Path | None, until: int | None = None) -> None:
        self.path = path
        self.history = History()
        if path is None:
            return
        if until is not None and path.exists():
            self.history.extend(r for r in History.read(path) if r["step"] <= until)
        with replacing(path) as file:
            file.writelines(map(_line, self.history))

    def add(self, record: Record) -> None:
        """Append a record, to the file first."""
        if self.path is not None:
            with open(self.path, "ab") as file:
                file.write(_line(record))
        self.history.append(record)


def _line(record: Record) -> bytes:
    return json.dumps(record, ensure_ascii=False).encode() + b"\n"
