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
# A cell to answer in, one that tests the answer, and one to write in that somebody reads.
KINDS = ({"solution"}, {"grade", "locked"}, {"grade", "solution"})


@cache
def read(path: Path) -> dict:
    return json.loads(path.read_text(encoding="utf-8"))


def assignment(path: Path, site: Path = BOOK) -> dict:
    return read(site / "assignment" / f"assignment_{path.name}")


def code_of(notebook: dict) -> list[dict]:
    return [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]


def is_test(cell: dict) -> bool:
    return cell["metadata"].get("nbgrader", {}).get("locked", False)


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
    shown = "\n".join(cells.text(cell) for cell in written)
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
        assert made["cells"][place + 1]["metadata"]["nbgrader"]["solution"] is True
    assert not any(cell["outputs"] for cell in code_of(made))


def with_solutions(path: Path) -> dict:
    """What nbgrader starts from."""
    return read(BOOK.with_name("nbgrader") / "source" / path.stem / f"assignment_{path.name}")


@every_chapter
def test_its_cells_say_what_nbgrader_asks_of_them(book, path):
    """As its manual describes version 3 of the metadata; each function has a cell that tests it."""
    for notebook in (assignment(path), with_solutions(path)):
        found = [
            {**cell["metadata"]["nbgrader"]}
            for cell in notebook["cells"]
            if "nbgrader" in cell["metadata"]
        ]
        names = [cell["grade_id"] for cell in found]
        assert len(set(names)) == len(names)
        for cell in found:
            assert re.fullmatch(r"[\w-]+", cell["grade_id"])
            kinds = {key: cell.pop(key) for key in ("grade", "solution", "locked", "task")}
            assert {key for key, value in kinds.items() if value} in KINDS
            assert cell.pop("points", 0) == kinds["grade"]
            assert cell.keys() == {"schema_version", "grade_id"} and cell["schema_version"] == 3
    asked = [cells.text(c).splitlines()[-1] for c in code_of(assignment(path)) if is_test(c)]
    assert asked == [f"check({name}).share" for name in checked(path).values()]
    regions = [
        cells.text(cell).count("### BEGIN SOLUTION") for cell in with_solutions(path)["cells"]
    ]
    solutions = [cell["metadata"].get("nbgrader", {}).get("solution") for cell in notebook["cells"]]
    assert regions == [int(each or 0) for each in solutions]


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

    asked, answers = set(checked(path).values()), set()
    machine = {cell["id"] for cell in read(path)["cells"] if "mine" in cells.tags(cell)}
    for cell in code_of(assignment(path))[1:-1]:
        needs, gives = needs_and_gives(cells.text(cell))
        if "nbgrader" in cell["metadata"]:
            answers |= gives & asked
        else:
            hidden = cell["metadata"].get("jupyter", {}).get("source_hidden")
            if cell["id"] in machine:
                assert hidden is True
            else:
                assert not gives & asked, cell["id"]
            assert not needs & answers, cell["id"]
            assert not gives & {"your_name", "your_answers"} or cell["id"] == "yours"


def report_of(notebook: dict, folder: Path, **written: str) -> str:
    """What the report says when the notebook has run from the top, as JupyterLab runs it.

    `written` is put in place of the cells whose ids end like its names.
    """
    ready = nbformat.reads(json.dumps(notebook), as_version=4)
    for cell in ready.cells:
        cell.source = written.get(cell.id.rpartition("-")[2], cell.source)
    resources = {"metadata": {"path": str(folder)}}
    NotebookClient(ready, timeout=600, kernel_name="python3", resources=resources).execute()
    (path,) = folder.glob("report_*.txt")
    text = path.read_text(encoding="utf-8")
    path.unlink()
    return text


@pytest.mark.slow
@pytest.mark.parametrize("path", RUN, ids=lambda path: path.stem)
def test_it_runs_to_the_end_without_an_answer_and_with_the_books(book, path, tmp_path):
    names, chapter = list(checked(path).values()), int(path.stem[:2])
    said = report_of(assignment(path), tmp_path)
    assert said.startswith(f"Chapter {chapter}, ") and "\nName: not given\n\n" in said
    assert re.findall(r"^[\d.]+ (\w+): open$", said, re.M) == names
    assert f"\n0 of {len(names)} passed; 0 of {len(names)} points" in said
    assert re.search(rf"^{chapter}\.1 open$", said, re.M)
    said = report_of(with_solutions(path), tmp_path)
    assert re.findall(r"^[\d.]+ (\w+): passed$", said, re.M) == names
    assert not re.search(r"open$", said, re.M)


@pytest.mark.slow
def test_a_cell_with_an_error_does_not_keep_the_report_from_being_written(book, tmp_path):
    yours = 'your_name = "Ada B."\nyour_answers = {}'
    words = 'your_answers["1.1"] = "Half and half."'
    said = report_of(assignment(RUN[0]), tmp_path, yours=yours, words=words, code="1 / 0")
    assert "\nName: Ada B.\n" in said and "\n1.1 Half and half." in said
    assert "my_softmax: open, nothing here is called my_softmax\n" in said


@pytest.mark.slow
@every_chapter
def test_its_links_lead_somewhere(book, published, path):
    """From wherever it was handed out to: there are none to the site before that has an address."""
    for site in (BOOK, published):
        for cell in assignment(path, site)["cells"]:
            if cell["cell_type"] == "markdown":
                for link in LINK.findall(cells.text(cell)):
                    assert link.startswith("https://"), link
    assert any(ADDRESS in cells.text(c) for c in assignment(path, published)["cells"])


def test_the_folder_holds_an_assignment_of_each_chapter_and_no_more(book):
    names = {path.name for path in (BOOK / "assignment").iterdir()}
    assert names == {f"assignment_{path.name}" for path in CHAPTERS}
