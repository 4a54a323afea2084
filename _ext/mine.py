"""The reader's own machine, mine.py: one file that grows from chapter to chapter.

What a chapter adds stands in its cells tagged `mine`. For each such chapter the site has the file
as it is by then, `mine/06/mine.py`: these cells of all chapters so far, one after the other. What a
later chapter defines again takes the place of the earlier version.

One page, one_page.ipynb, has all of its last state, and what it takes to train it. Its cells tagged
`program` are one file, `mine/transformer.py`.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import cells
from book import chapter_of, write


class Part(NamedTuple):
    """A top-level statement of mine.py: the names it defines or assigns, and its text."""

    names: frozenset[str]
    source: str


def parts(source: str) -> list[Part]:
    """The top-level statements of `source`, each with the comments right above it."""
    lines, found, end = source.splitlines(), [], 0
    for node in ast.parse(source).body:
        start = min([node.lineno, *(each.lineno for each in getattr(node, "decorator_list", []))])
        while start - 1 > end and lines[start - 2].startswith("#"):
            start -= 1
        end = node.end_lineno or start
        targets = node.targets if isinstance(node, ast.Assign) else [node]
        names = (getattr(each, "name", getattr(each, "id", "")) for each in targets)
        found.append(Part(frozenset(filter(None, names)), "\n".join(lines[start - 1 : end])))
    return found


def grow(file: str, added: str, replaces: Iterable[str] = ()) -> str:
    """mine.py with what a cell adds.

    A name that the cell defines again takes the place of the earlier one, and what it `replaces`
    under another name goes. Imports stand first, each once.
    """
    old, new = parts(file), parts(added)
    names = {name: part.source for part in new for name in part.names}
    sources = []
    for part in old:
        again = [names[name] for name in sorted(part.names) if name in names]
        sources += again or ([] if part.names & set(replaces) else [part.source])
    sources = list(dict.fromkeys([*sources, *(part.source for part in new)]))
    imports = [each for each in sources if each.startswith(("import ", "from "))]
    imports.sort(key=lambda line: ("torch" in line, line.startswith("from")))
    rest = [each for each in sources if each not in imports]
    return "\n\n\n".join(["\n".join(imports)] * bool(imports) + rest) + "\n"


def states(folder: Path) -> dict[int, str]:
    """Chapter -> mine.py as it is at its end, for the chapters in `folder` that add to it."""
    found, file = {}, ""
    for path in sorted(folder.glob("[0-9]*.ipynb")):
        notebook = json.loads(path.read_text(encoding="utf-8"))
        for cell in notebook["cells"]:
            if "mine" in cells.tags(cell):
                replaces = cell["metadata"].get("mine", {}).get("replaces", [])
                file = grow(file, cells.text(cell), replaces)
                found[chapter_of(f"chapters/{path.stem}")] = file
    return found


def link(docname: str) -> str:
    """What stands below a cell that adds to mine.py."""
    file = f"../mine/{cells.place(docname)}/mine.py"
    return f'<a class="mine" href="{file}" download>Download `mine.py` as it is now</a>'


def program(folder: Path) -> str:
    """The file that the page one_page.ipynb is; empty where there is no such page."""
    page = folder / "one_page.ipynb"
    if not page.exists():
        return ""
    found = json.loads(page.read_text(encoding="utf-8"))["cells"]
    sources = [cells.text(cell).strip() for cell in found if "program" in cells.tags(cell)]
    return "\n\n\n".join(sources) + "\n"


PROGRAM = "../mine/transformer.py"
PROGRAM_LINK = f'<a class="mine" href="{PROGRAM}" download>Download `transformer.py`</a>'


def publish(app, exception):
    if app.builder.name == "html" and exception is None:
        folder = Path(app.srcdir, "chapters")
        for chapter, source in states(folder).items():
            write(Path(app.outdir, f"mine/{chapter:02}/mine.py"), source.encode())
        if source := program(folder):
            write(Path(app.outdir, "mine/transformer.py"), source.encode())
