"""The assignment of a chapter: its exercises, what they use, a report, and no solution."""

from __future__ import annotations

import builtins
import json
import re
import sys
from functools import cache
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient
from pages import BOOK, ROOT, parsed
from published import ADDRESS

sys.path.insert(0, str(ROOT / "_ext"))
import cells

CHAPTERS = sorted((ROOT / "chapters").glob("[0-9]*.ipynb"))
every_chapter = pytest.mark.parametrize("path", CHAPTERS, ids=lambda path: path.stem)
RUN = [path for path in CHAPTERS if path.stem in ("01_soft_lookup", "05_masks")]
LINK = re.compile(r"(?<=\])\(([^()\s]+)\)")


@cache
def read(path: Path) -> dict:
    return json.loads(path.read_text(encoding="utf-8"))


def assignment(path: Path, site: Path = BOOK) -> dict:
    return read(site / "assignment" / f"assignment_{path.name}")


def code_of(notebook: dict) -> list[dict]:
    return [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]


def blocks(path: Path) -> list[cells.Block]:
    return cells.blocks(path.stem, read(path)["cells"])


def checked(path: Path) -> dict[str, str]:
    """Cell with room for an answer -> its name, in a chapter."""
    found = {}
    for cell in code_of(read(path)):
        if name := re.search(r"^# check\((\w+)\)", cells.text(cell), re.M):
            found[cell["id"]] = name[1]
    return found


def left_in(chapter: list, written: list) -> list[str]:
    """The solution cells of a chapter that are in its assignment."""
    shown = {cells.text(cell).strip() for cell in written}
    solutions = [cell for cell in chapter if "solution" in cells.tags(cell)]
    return [cell["id"] for cell in solutions if cells.text(cell).strip() in shown]


@every_chapter
def test_it_has_each_exercise_with_its_number_and_room_and_no_solution(book, path):
    page, made = parsed(f"chapters/{path.stem}.html"), assignment(path)
    nbformat.validate(nbformat.reads(json.dumps(made), as_version=4))
    assert left_in(read(path)["cells"], made["cells"]) == []
    ids = [cell["id"] for cell in made["cells"]]
    exercises = [block for block in blocks(path) if block.kind == "exercise"]
    places = [ids.index(block.cells[0]["id"]) for block in exercises]
    assert places == sorted(places)
    for block, place in zip(exercises, places, strict=True):
        title = page.find(id=block.label).select_one(".admonition-title").get_text()
        number = re.match(r"Exercise [\d.]+", " ".join(title.split()))[0].rstrip(".")
        text = cells.text(made["cells"][place])
        assert text.startswith(f"### {number}. {block.title}\n")
        assert "#sol-" not in text
        room = made["cells"][place + 1]
        assert room["cell_type"] == "code" or cells.text(room) == "*Your answer:*"
    assert not any(cell["outputs"] for cell in code_of(made))


@every_chapter
def test_its_report_asks_for_each_answer_that_has_a_checker(book, path):
    made, asked = code_of(assignment(path)), checked(path)
    numbers = {}
    for block in blocks(path):
        if block.kind == "exercise":
            number = parsed(f"chapters/{path.stem}.html").find(id=block.label)
            title = number.select_one(".admonition-title").get_text()
            numbers[block.cells[0]["id"]] = re.search(r"\d+\.\d+", title)[0]
    listed = dict(re.findall(r'^    "([\d.]+)": "(\w+)",$', cells.text(made[-1]), re.M))
    assert list(listed.values()) == list(asked.values())
    ordered = [cell["id"] for cell in read(path)["cells"]]
    for room, (number, _) in zip(asked, listed.items(), strict=True):
        before = max(
            (i for i in numbers if ordered.index(i) < ordered.index(room)), key=ordered.index
        )
        assert numbers[before] == number
    assert set(asked) <= {cell["id"] for cell in made}


def with_solutions(path: Path) -> dict:
    """The assignment with the book's own solutions written into its empty cells."""
    solutions, exercise = {}, ""
    for block in blocks(path):
        if block.kind == "exercise":
            exercise = block.title.startswith("Predict:") or block.cells[0]["id"]
        if block.kind == "solution":
            found = [cell for cell in block.cells if cell["cell_type"] == "code"]
            solutions[exercise] = [{**cell, "metadata": {}, "outputs": []} for cell in found]
    made = assignment(path)
    written, waiting = [], []
    for cell in made["cells"]:
        written.append(cell)
        waiting = solutions.get(cell["id"], waiting)
        if waiting and cell["cell_type"] == "code":
            written += waiting
            waiting = []
    assert not waiting
    return {**made, "cells": written}


@every_chapter
def test_the_books_solutions_find_all_that_they_need(book, path):
    from assignment import needs_and_gives, without_magics

    known = set(dir(builtins)) | {"__name__", "__file__", "get_ipython", "display"}
    known |= {"__annotations__", "__qualname__", "__module__"}
    for notebook in (assignment(path), with_solutions(path)):
        there, missing = set(known), {}
        for cell in code_of(notebook):
            needs, gives = needs_and_gives(without_magics(cells.text(cell)))
            if needs - there:
                missing[cell["id"]] = needs - there
            there |= gives
        # A function may name what a later cell defines.
        assert {cell: names - there for cell, names in missing.items() if names - there} == {}


@every_chapter
def test_no_cell_that_it_keeps_answers_an_exercise_or_waits_for_an_answer(book, path):
    """But the reader's own machine may hold an earlier answer of the same name, collapsed."""
    from assignment import needs_and_gives

    asked, answers = checked(path), set()
    machine = {cell["id"] for cell in read(path)["cells"] if "mine" in cells.tags(cell)}
    for cell in code_of(assignment(path))[1:-1]:
        needs, gives = needs_and_gives(cells.text(cell))
        if cell["id"] in asked:
            answers.add(asked[cell["id"]])
        elif cell["id"] != "imports":
            hidden = cell["metadata"].get("jupyter", {}).get("source_hidden")
            if cell["id"] in machine:
                assert hidden is True
            else:
                assert not gives & set(asked.values()), cell["id"]
            assert not needs & answers, cell["id"]


def report_of(notebook: dict, folder: Path) -> str:
    """What the report says when the notebook has run from the top, as JupyterLab runs it."""
    ready = nbformat.reads(json.dumps(notebook), as_version=4)
    resources = {"metadata": {"path": str(folder)}}
    NotebookClient(ready, timeout=600, kernel_name="python3", resources=resources).execute()
    (path,) = folder.glob("report_*.txt")
    return path.read_text(encoding="utf-8")


@pytest.mark.slow
@pytest.mark.parametrize("path", RUN, ids=lambda path: path.stem)
def test_it_runs_to_the_end_without_an_answer_and_with_the_books(book, path, tmp_path):
    names = list(checked(path).values())
    said = report_of(assignment(path), tmp_path).splitlines()
    assert said[0].startswith(f"Chapter {int(path.stem[:2])}, ")
    assert [line.split(" ", 1)[1] for line in said[1:-1]] == [f"{name}: open" for name in names]
    assert said[-1] == f"0 of {len(names)} passed"
    said = report_of(with_solutions(path), tmp_path).splitlines()
    assert [line.split(" ", 1)[1] for line in said[1:-1]] == [f"{name}: passed" for name in names]


@pytest.mark.slow
@every_chapter
def test_its_links_lead_somewhere(book, published, path):
    for site in (BOOK, published):
        for cell in assignment(path, site)["cells"]:
            if cell["cell_type"] == "markdown":
                for link in LINK.findall(cells.text(cell)):
                    if site == published:
                        assert link.startswith("https://"), link
                    elif not link.startswith("https://"):
                        target = BOOK / "assignment" / link.partition("#")[0]
                        assert target.is_file(), link
    assert any(ADDRESS in cells.text(c) for c in assignment(path, published)["cells"])


def test_the_folder_holds_an_assignment_of_each_chapter_and_no_more(book):
    names = {path.name for path in (BOOK / "assignment").iterdir()}
    assert names == {f"assignment_{path.name}" for path in CHAPTERS}
