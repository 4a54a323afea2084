"""The reader's own machine, mine.py: one file that grows from chapter to chapter.

What a chapter adds is in its cells tagged `mine`, and the site has the file as each chapter
leaves it. The cells tagged `program` of one_page.ipynb are one file, `mine/transformer.py`.
"""

import ast
from collections.abc import Iterable
from pathlib import Path

import cells
from book import chapter_of, write


def parts(source: str) -> dict[str, str]:
    """Name -> text of the top-level statements, each with the comments right above it.

    An import is its own name.
    """
    lines, found, end = source.splitlines(), {}, 0
    for node in ast.parse(source).body:
        start = min([node.lineno, *(each.lineno for each in getattr(node, "decorator_list", []))])
        while start - 1 > end and lines[start - 2].startswith("#"):
            start -= 1
        end = node.end_lineno or start
        text = "\n".join(lines[start - 1 : end])
        named = node.targets[0] if isinstance(node, ast.Assign) else node
        found[getattr(named, "name", getattr(named, "id", text))] = text
    return found


def grow(file: str, added: str, replaces: Iterable[str] = ()) -> str:
    """mine.py with what a cell adds.

    A name that the cell defines again takes the place of the earlier one, and what it `replaces`
    under another name goes. Imports stand first, each once.
    """
    old = {name: text for name, text in parts(file).items() if name not in replaces}
    sources = (old | parts(added)).values()
    imports = [each for each in sources if each.startswith(("import ", "from "))]
    imports.sort(key=lambda line: ("torch" in line, line.startswith("from")))
    rest = [each for each in sources if each not in imports]
    return "\n\n\n".join(["\n".join(imports)] * bool(imports) + rest) + "\n"


def states(folder: Path) -> dict[int, str]:
    """Chapter -> mine.py as it is at its end, for the chapters in `folder` that add to it."""
    found, file = {}, ""
    for path in sorted(folder.glob("[0-9]*.ipynb")):
        for cell in cells.read(path)["cells"]:
            if "mine" in cells.tags(cell):
                replaces = cell["metadata"].get("mine", {}).get("replaces", [])
                file = grow(file, cells.text(cell), replaces)
                found[chapter_of(f"chapters/{path.stem}")] = file
    return found


def link(file: str, text: str) -> str:
    """What stands below a cell that adds to the file, and below a program."""
    return f'<a class="mine" href="../mine/{file}" download>Download {text}</a>'


def program(folder: Path) -> str:
    """The file that the page one_page.ipynb is."""
    found = cells.read(folder / "one_page.ipynb")["cells"]
    sources = [cells.text(cell).strip() for cell in found if "program" in cells.tags(cell)]
    return "\n\n\n".join(sources) + "\n"


def publish(app, exception):
    if exception is None:
        folder = Path(app.srcdir, "chapters")
        for chapter, source in states(folder).items():
            write(Path(app.outdir, f"mine/{chapter:02}/mine.py"), source.encode())
        write(Path(app.outdir, "mine/transformer.py"), program(folder).encode())
