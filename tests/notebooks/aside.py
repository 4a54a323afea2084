"""Runs in a chapter's kernel, and hides the names of cells that a reader's notebook doesn't have.

A student's notebook has neither the solutions nor the cells that guard the build. Between `begin`
and `end` these see the names that the reader's cells have defined, and those of earlier hidden
cells; the later definition counts, as usual. After `end` the reader's names are as they were.
"""

from typing import Any

MISSING = object()


class Aside:
    def __init__(self, names: dict[str, Any]) -> None:
        self.names = names
        self.kept: dict[str, tuple[Any, Any]] = {}  # name -> its value here, the reader's value
        self.readers: dict[str, Any] = {}

    def begin(self) -> None:
        self.readers = dict(self.names)
        for name, (here, readers) in self.kept.items():
            if self.names.get(name, MISSING) is readers:  # not defined again since
                self.put(name, here)

    def end(self) -> None:
        self.kept = {}
        for name in self.names.keys() | self.readers.keys():
            here, readers = (each.get(name, MISSING) for each in (self.names, self.readers))
            if here is not readers and not name.startswith("_"):  # IPython's own
                self.kept[name] = here, readers
                self.put(name, readers)

    def put(self, name: str, value: Any) -> None:
        if value is MISSING:
            self.names.pop(name, None)
        else:
            self.names[name] = value
