"""The assignment of a chapter: a notebook with its exercises, for a teacher to hand out.

It stands in the site's folder `assignment`. It holds the exercises, with room to write in, the
cells of the chapter that answers to them use, and no solution. Its last cell asks the checker once
more about each answer and writes what it says into a file. The student's edition (student.py) has
the rest of the chapter.
"""

from __future__ import annotations

import ast
import dis
import json
import re
from collections.abc import Iterator
from pathlib import Path
from types import CodeType

import cells
from book import chapter_of, write
from mine import parts
from student import INSTALL, Places, empty_code, exercise, is_code, markdown, plain

FOLDER = "assignment"
CHECKED = re.compile(r"^# check\((\w+)\)", re.MULTILINE)
ABOUT = """\
These are the exercises of [the chapter]({page}), and the cells of it that they use. Write your
answers into the empty cells. Remove the `#` in front of `check(…)` when a function or a class is
ready: the checker says what is wrong with it. Ask it as often as you like.

Before you hand in, run the whole notebook from the top. Its last cell writes a report."""
HAND_IN = """\
## Hand in

Run the whole notebook from the top. The next cell asks the checker about each answer and writes
what it says into the file `{report}`, beside this notebook. In Colab you find it in the folder at
the left margin. Hand in both files.

Anybody can change a report. A teacher who wants to be sure runs the notebook again."""
REPORT = """\
from pathlib import Path

report = check.summary({{
{exercises}
}}, globals())
report = "Chapter {chapter}, {title}\\n" + report
_ = Path("{report}").write_text(report + "\\n", encoding="utf-8")
print(report)"""


def name(docname: str) -> str:
    return f"assignment_{Path(docname).stem}.ipynb"


def needs_and_gives(source: str) -> tuple[set[str], set[str]]:
    """The names that a cell takes from cells before it, and those that it defines."""
    cell = compile(source, "cell", "exec")
    needs, gives = names_of(cell)
    for code in inner(cell):
        needs |= names_of(code)[0] - gives
    return needs, gives


def without_magics(source: str) -> str:
    return re.sub(r"^(\s*)[%!].*", r"\1pass", source, flags=re.M)


def inner(code: CodeType) -> Iterator[CodeType]:
    """The functions and classes in a piece of code, at any depth."""
    for const in code.co_consts:
        if isinstance(const, CodeType):
            yield const
            yield from inner(const)


def names_of(code: CodeType) -> tuple[set[str], set[str]]:
    """The names that are read before they are set, and all that are set."""
    needs: set[str] = set()
    gives: set[str] = set()
    for step in dis.get_instructions(code):
        if step.opname in {"STORE_NAME", "STORE_GLOBAL"}:
            gives.add(step.argval)
        elif step.opname in {"LOAD_NAME", "LOAD_GLOBAL"} and step.argval not in gives:
            needs.add(step.argval)
    return needs, gives


def imports(source: str) -> dict[str, str]:
    """Name -> the line that imports it."""
    found = {}
    for line in ast.parse(source).body:
        if isinstance(line, ast.Import):
            for each in line.names:
                known_as = each.asname or each.name.partition(".")[0]
                found[known_as] = ast.unparse(ast.Import([each]))
        elif isinstance(line, ast.ImportFrom):
            for each in line.names:
                known_as = each.asname or each.name
                found[known_as] = ast.unparse(ast.ImportFrom(line.module, [each], line.level))
    return found


def definitions(source: str, needed: set[str]) -> str:
    """The functions, classes and imports of a cell, if nothing else in it is needed; else all."""
    lines = list(zip(ast.parse(source).body, parts(source), strict=True))
    given = [needs_and_gives(part.source)[1] for _, part in lines]
    wanted, chosen, before = set(needed), set(), -1
    while len(chosen) > before:
        before = len(chosen)
        for i, (_, part) in enumerate(lines):
            if given[i] & wanted and i not in chosen:
                chosen.add(i)
                wanted |= needs_and_gives(part.source)[0]
    kinds = (ast.FunctionDef, ast.ClassDef, ast.Import, ast.ImportFrom)
    if not all(isinstance(lines[i][0], kinds) for i in chosen):
        return source
    for i, (line, _) in enumerate(lines):  # a setting that makes what follows faster
        if chosen and ast.unparse(line).startswith("torch.set_num_threads"):
            chosen.add(i)
    found = [lines[i][1].source for i in sorted(chosen)]
    text = "\n\n\n".join(found) if chosen else source
    return re.sub(r"^((?:import|from) .*)\n\n\n(?=import |from )", r"\1\n", text, flags=re.M)


def changed(body: list[ast.stmt], functions: dict[str, set[str]]) -> set[str]:
    """The names whose object is changed: by `losses[0] = …`, `losses.append(…)`, or `note(loss)`
    where `functions` says that `note` changes it; not by `losses = …`."""
    found: set[str] = set()
    waiting: list[ast.AST] = [*body]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.FunctionDef | ast.ClassDef | ast.Lambda):
            continue
        waiting += ast.iter_child_nodes(node)
        stored = isinstance(getattr(node, "ctx", None), ast.Store)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            stored, node = True, node.value.func
            found |= functions.get(getattr(node, "id", ""), set())
        inside = isinstance(node, ast.Attribute | ast.Subscript)
        while isinstance(node, ast.Attribute | ast.Subscript):
            node = node.value
        if stored and inside and isinstance(node, ast.Name):
            found.add(node.id)
    return found


def used(
    blocks: list[cells.Block], forced: frozenset[str] = frozenset()
) -> tuple[dict[str, str], set[str]]:
    """What of a chapter the answers to its exercises use: cells, id -> text, and import lines.

    Read from the end: what a cell needs, the last cell before it that defines it must give, and
    those between that change it. What is still missing then is named in a function and defined
    behind it: that cell is `forced`. A prediction needs no code.
    """
    kept, lines, given = {}, set(), {}
    titles = {block.label.replace("ex-", "sol-", 1): block.title for block in blocks}
    modules, functions, needed = set(), {}, {"check"}
    for cell in (cell for block in blocks for cell in block.cells):
        if cell["cell_type"] == "code":
            source = without_magics(cells.text(cell))
            modules |= imports(source).keys()
            for line in ast.parse(source).body:
                if isinstance(line, ast.FunctionDef):
                    functions[line.name] = changed(line.body, {})
    for block, cell in reversed([(each, cell) for each in blocks for cell in each.cells]):
        if cell["cell_type"] != "code" or {"remove-cell", "fold"} & set(cells.tags(cell)):
            continue
        source = without_magics(cells.text(cell))
        needs, gives = needs_and_gives(source)
        if block.kind == "solution":
            if not titles[block.label].startswith("Predict:"):
                needed = (needed - gives) | needs
        elif CHECKED.search(source):  # room for an answer
            needed = (needed - gives) | {"check"}
        else:
            given |= dict.fromkeys(gives, cell["id"])
            imported = imports(source)
            lines |= {imported[each] for each in needed & imported.keys()}
            needed -= imported.keys()
            touched = changed(ast.parse(source).body, functions) - modules
            if needed & (gives | touched) or cell["id"] in forced:
                kept[cell["id"]] = cells.text(cell)
                if source == cells.text(cell) and not needed & touched and cell["id"] not in forced:
                    kept[cell["id"]] = definitions(source, needed & gives)
                    needs, gives = needs_and_gives(kept[cell["id"]])
                needed = (needed - gives) | needs
    missing = {given[each] for each in needed & given.keys()} - forced
    return used(blocks, forced | missing) if missing else (kept, lines)


def assignment(app, docname: str, notebook: dict) -> dict:
    """The assignment of a chapter."""
    places, chapter = Places(app, docname), chapter_of(docname)
    blocks = cells.blocks(docname, notebook["cells"])
    title = cells.text(notebook["cells"][0]).splitlines()[0].removeprefix("# ")
    kept, lines = used(blocks)
    install = next(cell for cell in notebook["cells"] if INSTALL in cells.text(cell))
    first = f"# Chapter {chapter}: {title}. Exercises\n\n{ABOUT}"
    needed = code("imports", "\n".join(sorted(lines, key=lambda line: (line[0] == "f", line))))
    written = [markdown("title", first.format(page=places.page(docname)))]
    written += [plain(install, places), needed]
    checked = {}
    for block, follows in zip(blocks, [*blocks[1:], None], strict=True):
        if block.kind == "exercise":
            written += exercise(block, follows, places)
            if is_code(follows):
                room = follows.cells[0]
                written.append(without_outputs(room, places))
                number = places.number(block.label).rpartition(" ")[2]
                checked[number] = "".join(CHECKED.findall(cells.text(room)))
        else:
            for cell in block.cells:
                if cell["id"] in kept:
                    cell = {**collapsed(cell), "source": kept[cell["id"]]}
                    written.append(without_outputs(cell, places))
    report = f"report_{cells.place(docname)}.txt"
    exercises = "\n".join(f'    "{key}": "{value}",' for key, value in checked.items() if value)
    said = title.replace("*", "")
    last = REPORT.format(exercises=exercises, chapter=chapter, title=said, report=report)
    written += [markdown("hand-in", HAND_IN.format(report=report)), code("report", last)]
    metadata = {key: value for key, value in notebook["metadata"].items() if key != "widgets"}
    return {**notebook, "cells": written, "metadata": metadata}


def collapsed(cell: dict) -> dict:
    """The cell with its code collapsed if that is the reader's own mine.py: it is known."""
    tags = cells.tags(cell)
    if "mine" not in tags:
        return cell
    return {**cell, "metadata": {**cell["metadata"], "tags": [*tags, "hide-input"]}}


def without_outputs(cell: dict, places: Places) -> dict:
    return {**plain(cell, places), "outputs": [], "execution_count": None}


def code(cell_id: str, source: str) -> dict:
    return {**empty_code(cell_id), "source": source}


def publish(app, exception):
    if app.builder.name != "html" or exception is not None:
        return
    folder, wanted = Path(app.outdir, FOLDER), {}
    for docname in sorted(app.env.found_docs):
        path = Path(app.env.doc2path(docname))
        if path.suffix == ".ipynb" and chapter_of(docname) is not None:
            made = assignment(app, docname, json.loads(path.read_text(encoding="utf-8")))
            wanted[folder / name(docname)] = json.dumps(made, indent=1, ensure_ascii=False) + "\n"
    for path, text in wanted.items():
        write(path, text.encode())
    for path in set(folder.glob("*")) - wanted.keys():
        path.unlink()


def setup(app):
    app.connect("build-finished", publish)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
