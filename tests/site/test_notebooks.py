"""Notebooks made of a chapter: the student's edition, the assignment, what nbgrader gets."""

import builtins
import json
import re
from functools import cache
from pathlib import Path
from urllib.parse import urldefrag, urlsplit

import nbformat
import pytest
import yaml
from nbclient import NotebookClient
from pages import BOOK, ROOT, shown
from published import ADDRESS, REPOSITORY, VERSION
from test_pages import places

import cells

ALL = sorted((ROOT / "chapters").glob("*.ipynb"))
CHAPTERS = [path for path in ALL if path.name[0].isdigit()]
RUN = [path for path in CHAPTERS if path.stem in ("01_soft_lookup", "05_masks")]
every_notebook = pytest.mark.parametrize("path", ALL, ids=lambda path: path.stem)
every_chapter = pytest.mark.parametrize("path", CHAPTERS, ids=lambda path: path.stem)
LINK = re.compile(r"(?<=\])\(([^()\s]+)\)")
IMPORT = re.compile(r"from transformer_lib\.checks\.\w+ import check\n*")
CHECKED = re.compile(r"^# check\((\w+)\)", re.M)
# What no cell has to define.
KNOWN = {*dir(builtins), "__name__", "__file__", "__annotations__", "__qualname__", "__module__"}
KNOWN |= {"get_ipython", "display"}


@cache
def read(path: Path) -> list[dict]:
    text = path.read_text(encoding="utf-8")
    nbformat.validate(nbformat.reads(text, as_version=4))
    return json.loads(text)["cells"]


def edition(path: Path, site: Path = BOOK) -> list[dict]:
    return read(site / "student" / path.name)


def assignment(path: Path, site: Path = BOOK) -> list[dict]:
    return read(site / "assignment" / f"assignment_{path.name}")


def with_solutions(path: Path) -> list[dict]:
    """What nbgrader starts from."""
    return read(BOOK.with_name("nbgrader") / "source" / path.stem / f"assignment_{path.name}")


def number_of(path: Path, block: cells.Block) -> str:
    return shown(f"chapters/{path.stem}.html", block.label)


def checked(path: Path) -> dict[str, str]:
    """Number of an exercise -> the function that its checker asks for."""
    found, number = {}, ""
    for block in cells.blocks(path.stem, read(path)):
        if block.kind == "exercise":
            number = number_of(path, block).removeprefix("Exercise ")
        elif name := CHECKED.search(cells.text(block.cells[0])):
            found[number] = name[1]
    return found


def grades(cell: dict) -> dict:
    return cell["metadata"].get("nbgrader", {})


def links_in(made: list[dict]) -> list[str]:
    texts = [cells.text(cell) for cell in made if cell["cell_type"] == "markdown"]
    return [link for text in texts for link in LINK.findall(text)]


def solutions_in(made: list[dict], chapter: list[dict], secret: set[str]) -> list[str]:
    """The cells of a chapter that would spoil it and yet are there."""
    allowed = {cells.text(cell).strip() for cell in chapter if not secret & set(cells.tags(cell))}
    there = "\n".join(cells.text(cell).strip() for cell in made)
    return [
        cell["id"]
        for cell in chapter
        if secret & set(cells.tags(cell))
        and cells.text(cell).strip() not in allowed
        and cells.below_title(cell).strip() in there
    ]


def missing(made: list[dict]) -> dict[str, set[str]]:
    """The names that cells need and no cell gives. A function may name what a later one defines."""
    there, wanting = set(KNOWN), {}
    for cell in made:
        if cell["cell_type"] == "code":
            needs, gives = cells.needs_and_gives(cells.text(cell))
            wanting[cell["id"]] = needs - there
            there |= gives
    return {cell: names - there for cell, names in wanting.items() if names - there}


# --- the student's edition ------------------------------------------------------------------------


@every_notebook
def test_the_edition_is_the_chapter_without_what_would_spoil_it(book, path):
    """A section's outputs after its question are cleared: they would give the answer away."""
    chapter, student = read(path), edition(path)
    assert solutions_in(student, chapter, {"solution", "answer", "fold"}) == []
    assert missing(student) == {}
    found = {cell["id"]: cell for cell in student if cell["cell_type"] == "code"}
    wanted, is_asked = [], False
    for cell in chapter:
        tags = set(cells.tags(cell))
        is_asked |= "predict" in tags
        is_asked &= not cells.text(cell).startswith("## ")
        if cell["cell_type"] != "code" or "solution" in tags:
            continue
        if "remove-cell" in tags and "google.colab" not in cells.text(cell):
            continue
        wanted.append(cell["id"])
        made = found[cell["id"]]
        assert IMPORT.sub("", cells.text(made)) == IMPORT.sub("", cells.text(cell))
        if CHECKED.search(cells.text(cell)):  # it brings its checker
            assert IMPORT.match(cells.text(made))
        assert made["outputs"] == ([] if is_asked else cell["outputs"])
        if "hide-input" in tags:
            assert made["metadata"]["jupyter"]["source_hidden"] is True
            assert made["metadata"]["cellView"] == "form"
    assert [name for name, cell in found.items() if cells.text(cell)] == wanted


@every_notebook
def test_exercises_and_figures_have_their_numbers_and_mine_says_where_it_goes(book, path):
    student = edition(path)
    at = {cell["id"]: i for i, cell in enumerate(student)}
    texts = [cells.text(cell) for cell in student]
    assert [text for text in texts if ":::" in text] == []
    for block in cells.blocks(path.stem, read(path)):
        first = block.cells[0]["id"]
        if block.kind == "exercise":
            assert texts[at[first]].startswith(f"### {number_of(path, block)}. {block.title}\n")
            assert f"#{block.label.replace('ex-', 'sol-')})" in texts[at[first]]
            room = student[at[first] + 1]
            assert room["cell_type"] == "code" or cells.text(room) == "*Your answer:*"
        elif block.kind == "figure":
            caption = texts[at[block.cells[1]["id"]]]
            assert caption.startswith(f"**{number_of(path, block)}.** ")
        elif block.kind == "mine":
            assert "`mine.py`, a file beside this notebook" in texts[at[f"{first}-file"]]


@every_notebook
def test_its_links_lead_somewhere(book, path):
    links = [link for link in links_in(edition(path)) if not link.startswith("https://")]
    assert len(links) > 3
    for link in links:
        name, anchor = urldefrag(link)
        target = (BOOK / "student" / name).resolve()
        assert target.is_file(), link
        assert not anchor or anchor in places(target.relative_to(BOOK).as_posix()), link


# --- the assignment -------------------------------------------------------------------------------


@every_chapter
def test_the_assignment_asks_each_exercise_and_leaves_room(book, path):
    made, names = assignment(path), [*checked(path).values()]
    assert solutions_in(made, read(path), {"solution"}) == []
    assert not any(cell.get("outputs") for cell in made)
    texts = [cells.text(cell) for cell in made]
    asked = [text for text in texts if text.startswith("### Exercise")]
    blocks = cells.blocks(path.stem, read(path))
    exercises = [block for block in blocks if block.kind == "exercise"]
    for block, text in zip(exercises, asked, strict=True):
        assert text.startswith(f"### {number_of(path, block)}. {block.title}\n")
        assert grades(made[texts.index(text) + 1])["solution"] is True
    tests = [cells.text(cell).splitlines()[-1] for cell in made if grades(cell).get("locked")]
    assert tests == [f"check({name}).share" for name in names]
    assert dict(re.findall(r'^    "([\d.]+)": "(\w+)",$', texts[-1], re.M)) == checked(path)
    # No cell gives an answer, but the reader's own machine may hold an earlier one, collapsed.
    machine = {cell["id"] for cell in read(path) if "mine" in cells.tags(cell)}
    for cell in made:
        if cell["id"] in machine:
            assert cell["metadata"]["jupyter"]["source_hidden"] is True
        elif cell["cell_type"] == "code" and not grades(cell):
            assert not cells.needs_and_gives(cells.text(cell))[1] & {*names}, cell["id"]


@every_chapter
@pytest.mark.parametrize("of", [assignment, with_solutions])
def test_its_cells_have_what_they_need_and_say_what_nbgrader_asks(book, path, of):
    """As its manual describes version 3 of the metadata."""
    assert missing(of(path)) == {}
    found = [cell for cell in of(path) if grades(cell)]
    names = {grades(cell)["grade_id"] for cell in found}
    assert len(names) == len(found) and all(re.fullmatch(r"[\w-]+", name) for name in names)
    for cell in found:
        said = grades(cell)
        assert said["schema_version"] == 3 and not said["task"]
        assert said["solution"] != said["locked"] == ("-check" in said["grade_id"])
        assert said["grade"] == ("points" in said)
        regions = cells.text(cell).count("### BEGIN SOLUTION")
        assert regions == (of is with_solutions and said["solution"])


def report_of(made: list[dict], folder: Path, **written: str) -> str:
    """What the report says when the notebook has run from the top, as JupyterLab runs it.

    `written` is put in place of the cells whose ids end like its names.
    """
    notebook = nbformat.from_dict(
        {"cells": made, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
    )
    for cell in notebook.cells:
        cell.source = written.get(cell.id.rpartition("-")[2], cells.text(cell))
    resources = {"metadata": {"path": str(folder)}}
    NotebookClient(notebook, timeout=600, kernel_name="python3", resources=resources).execute()
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


# --- the folders, and what changes once there is an address ---------------------------------------


def test_the_folders_hold_a_notebook_of_each_chapter_and_no_more(book):
    names = {path.name for path in (book / "student").iterdir()}
    assert names == {path.name for path in ALL} | {"README.md"}
    names = {path.name for path in (book / "assignment").iterdir()}
    assert names == {f"assignment_{path.name}" for path in CHAPTERS}
    for path in CHAPTERS:  # it's handed out, and may lie anywhere
        assert all(link.startswith("https://") for link in links_in(assignment(path)))


@pytest.mark.slow
def test_once_published_notebooks_lead_to_the_site_and_install_the_library(published):
    library = f"attention-built-by-hand @ git+{REPOSITORY}@v{VERSION}"
    for path in ALL:
        kinds = (edition, assignment) if path in CHAPTERS else (edition,)
        for made in (kind(path, published) for kind in kinds):
            links = links_in(made)
            assert [link for link in links if not link.startswith("https://")] == []
            assert any(link.startswith(f"{ADDRESS}chapters/{path.stem}.html") for link in links)
            first = next(cells.text(cell) for cell in made if cell["cell_type"] == "code")
            assert "google.colab" in first and f'"{library}"' in first
        assert f'`pip install "{library}"`' in cells.text(edition(path, published)[1])


@pytest.mark.slow
def test_once_published_classes_can_open_them(book, published):
    folder = published / "student"
    binder = yaml.safe_load((folder / "environment.yml").read_text(encoding="utf-8"))
    assert "pytorch-cpu" in binder["dependencies"]  # else pip would fetch CUDA
    pip = [f"attention-built-by-hand @ git+{REPOSITORY}@v{VERSION}"]
    assert binder["dependencies"][-1] == {"pip": pip}
    readme = (folder / "README.md").read_text(encoding="utf-8")
    assert f"(https://mybinder.org/v2/gh{urlsplit(REPOSITORY).path}/student)" in readme
    kaggle = f"?src={REPOSITORY}/blob/student/01_soft_lookup.ipynb"
    for site in (book, published):  # the teachers' page links to it once there is an address
        page = (site / "chapters" / "teach.html").read_text(encoding="utf-8")
        assert (kaggle in page) == (site is published)
