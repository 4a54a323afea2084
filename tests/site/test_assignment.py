"""The assignment of a chapter: its exercises, what they use, a report, and no solution."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient
from pages import BOOK, ROOT
from published import ADDRESS
from test_numbered import shown
from test_student import links_in, missing, read, solutions_in

sys.path.insert(0, str(ROOT / "_ext"))
import cells
from assignment import needs_and_gives

CHAPTERS = sorted((ROOT / "chapters").glob("[0-9]*.ipynb"))
every_chapter = pytest.mark.parametrize("path", CHAPTERS, ids=lambda path: path.stem)
RUN = [path for path in CHAPTERS if path.stem in ("01_soft_lookup", "05_masks")]
CHECKED = re.compile(r"^# check\((\w+)\)", re.M)


def assignment(path: Path, site: Path = BOOK) -> dict:
    return read(site / "assignment" / f"assignment_{path.name}")


def with_solutions(path: Path) -> dict:
    """What nbgrader starts from."""
    return read(BOOK.with_name("nbgrader") / "source" / path.stem / f"assignment_{path.name}")


def grades(cell: dict) -> dict:
    return cell["metadata"].get("nbgrader", {})


def checked(path: Path) -> dict[str, str]:
    """Number of an exercise -> the function that its checker asks for."""
    found, number = {}, ""
    for block in cells.blocks(path.stem, read(path)["cells"]):
        if block.kind == "exercise":
            number = shown(f"chapters/{path.stem}.html", block.label).removeprefix("Exercise ")
        elif name := CHECKED.search(cells.text(block.cells[0])):
            found[number] = name[1]
    return found


@every_chapter
def test_it_asks_each_exercise_with_room_a_check_and_no_solution(book, path):
    chapter, made = read(path)["cells"], assignment(path)["cells"]
    nbformat.validate(nbformat.reads(json.dumps(assignment(path)), as_version=4))
    assert solutions_in([c for c in chapter if "solution" in cells.tags(c)], made) == []
    assert not any(cell.get("outputs") for cell in made)
    texts = [cells.text(cell) for cell in made]
    exercises = [b for b in cells.blocks(path.stem, chapter) if b.kind == "exercise"]
    asked = [text for text in texts if text.startswith("### Exercise")]
    for block, text in zip(exercises, asked, strict=True):
        number = shown(f"chapters/{path.stem}.html", block.label)
        assert text.startswith(f"### {number}. {block.title}\n")
        assert grades(made[texts.index(text) + 1])["solution"] is True
    tests = [cells.text(cell).splitlines()[-1] for cell in made if grades(cell).get("locked")]
    assert tests == [f"check({name}).share" for name in checked(path).values()]
    listed = dict(re.findall(r'^    "([\d.]+)": "(\w+)",$', texts[-1], re.M))
    assert listed == checked(path)


@every_chapter
def test_its_cells_say_what_nbgrader_asks_of_them(book, path):
    """As its manual describes version 3 of the metadata."""
    for notebook, has_solutions in ((assignment(path), False), (with_solutions(path), True)):
        found = [cell for cell in notebook["cells"] if grades(cell)]
        names = {grades(cell)["grade_id"] for cell in found}
        assert len(names) == len(found) and all(re.fullmatch(r"[\w-]+", name) for name in names)
        for cell in found:
            said = grades(cell)
            assert said["schema_version"] == 3 and not said["task"]
            assert said["solution"] != said["locked"] == ("-check" in said["grade_id"])
            assert said["grade"] == ("points" in said)
            regions = cells.text(cell).count("### BEGIN SOLUTION")
            assert regions == (has_solutions and said["solution"])


@every_chapter
def test_its_cells_find_all_that_they_need_and_answer_nothing(book, path):
    """But the reader's own machine may hold an earlier answer of the same name, collapsed."""
    assert missing(assignment(path)["cells"]) == {}
    assert missing(with_solutions(path)["cells"]) == {}
    machine = {cell["id"] for cell in read(path)["cells"] if "mine" in cells.tags(cell)}
    for cell in assignment(path)["cells"]:
        if cell["id"] in machine:
            assert cell["metadata"]["jupyter"]["source_hidden"] is True
        elif cell["cell_type"] == "code" and not grades(cell):
            _, gives = needs_and_gives(cells.text(cell))
            assert not gives & {*checked(path).values()}, cell["id"]


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
def test_its_links_lead_somewhere(book, published):
    """From wherever it was handed out to: there are none to the site before that has an address."""
    for path in CHAPTERS:
        for site in (BOOK, published):
            links = links_in(assignment(path, site)["cells"])
            assert [link for link in links if not link.startswith("https://")] == []
        assert any(link.startswith(ADDRESS) for link in links)


def test_the_folder_holds_an_assignment_of_each_chapter_and_no_more(book):
    names = {path.name for path in (BOOK / "assignment").iterdir()}
    assert names == {f"assignment_{path.name}" for path in CHAPTERS}
