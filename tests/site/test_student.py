"""The student's edition: every chapter as a notebook without its solutions, whole in all else."""

from __future__ import annotations

import builtins
import dis
import json
import re
import sys
from functools import cache
from pathlib import Path
from types import CodeType
from urllib.parse import urldefrag, urlsplit

import nbformat
import pytest
import yaml
from pages import BOOK, ROOT, parsed
from published import ADDRESS, REPOSITORY, VERSION

sys.path.insert(0, str(ROOT / "_ext"))
import cells

CHAPTERS = sorted((ROOT / "chapters").glob("*.ipynb"))
every_chapter = pytest.mark.parametrize("path", CHAPTERS, ids=lambda path: path.stem)
LINK = re.compile(r"(?<=\])\(([^()\s]+)\)")
IMPORT = re.compile(r"from transformer_lib\.checks\.\w+ import check\n*")


@cache
def read(path: Path) -> dict:
    return json.loads(path.read_text(encoding="utf-8"))


def edition(path: Path) -> dict:
    return read(BOOK / "student" / path.name)


def blocks_of(path: Path, kind: str) -> list[cells.Block]:
    return [b for b in cells.blocks(path.stem, read(path)["cells"]) if b.kind == kind]


def left_in(chapter: list, student: list) -> list[str]:
    """The cells of a chapter that would spoil it and yet are in the student's edition."""
    secret = {"solution", "answer", "fold"}
    allowed = {cells.text(cell).strip() for cell in chapter if not secret & set(cells.tags(cell))}
    shown = {cells.text(cell).strip() for cell in student}
    return [
        cell["id"]
        for cell in chapter
        if secret & set(cells.tags(cell))
        and cells.text(cell).strip() not in allowed
        and any(cells.below_title(cell).strip() in text for text in shown)
    ]


@every_chapter
def test_it_holds_no_solution_and_no_directive(book, path):
    chapter, student = read(path)["cells"], edition(path)["cells"]
    tags = {tag for cell in chapter for tag in cells.tags(cell)}
    assert "solution" in tags or "program" in tags
    assert left_in(chapter, student) == []
    assert [cell["id"] for cell in student if re.search(r"^ *:::", cells.text(cell), re.M)] == []


def test_a_solution_left_in_is_found(book):
    chapter, student = read(CHAPTERS[0])["cells"], edition(CHAPTERS[0])["cells"]
    solution = next(cell for cell in chapter if "solution" in cells.tags(cell))
    assert left_in(chapter, [*student, solution]) == [solution["id"]]


@every_chapter
def test_it_is_a_notebook_with_the_cells_and_outputs_of_the_chapter(book, path):
    student = edition(path)
    nbformat.validate(student)
    ids = [cell["id"] for cell in student["cells"]]
    assert len(ids) == len(set(ids))
    ordinary = [
        (cell["id"], cells.text(cell))
        for cell in read(path)["cells"]
        if cell["cell_type"] == "code"
        and "solution" not in cells.tags(cell)
        and ("remove-cell" not in cells.tags(cell) or "google.colab" in cells.text(cell))
    ]
    code = [cell for cell in student["cells"] if cell["cell_type"] == "code"]
    texts = [(c["id"], IMPORT.sub("", cells.text(c))) for c in code if cells.text(c)]
    assert texts == [(name, IMPORT.sub("", text)) for name, text in ordinary]
    for cell in read(path)["cells"]:
        if {"hide-input", "hide-cell"} & set(cells.tags(cell)):
            (same,) = [other for other in code if other["id"] == cell["id"]] or [None]
            if same is not None:
                assert same["metadata"]["jupyter"]["source_hidden"] is True
                assert same["metadata"]["cellView"] == "form"


@every_chapter
def test_it_has_the_outputs_of_the_chapter_but_none_that_gives_a_prediction_away(book, path):
    """A section's outputs after its question are cleared."""
    stored = {cell["id"]: cell.get("outputs") for cell in edition(path)["cells"]}
    is_asked = False
    for cell in read(path)["cells"]:
        is_asked |= "predict" in cells.tags(cell)
        is_asked &= not cells.text(cell).startswith("## ")
        if stored.get(cell["id"]) is not None and "solution" not in cells.tags(cell):
            hides = is_asked or "remove-output" in cells.tags(cell)
            assert stored[cell["id"]] == ([] if hides else cell["outputs"])


@every_chapter
def test_an_exercise_brings_its_checker_and_mine_says_where_it_goes(book, path):
    student = edition(path)["cells"]
    for cell in student:
        if re.search(r"^# check\(", cells.text(cell), re.M):
            assert IMPORT.match(cells.text(cell))
    for cell in read(path)["cells"]:
        if "mine" in cells.tags(cell):
            (said,) = [cells.text(c) for c in student if c["id"] == f"{cell['id']}-file"]
            assert "`mine.py`, a file beside this notebook" in said


@every_chapter
def test_an_exercise_has_its_number_a_link_and_room(book, path):
    page = parsed(f"chapters/{path.stem}.html")
    student = edition(path)["cells"]
    for block in blocks_of(path, "exercise"):
        (at,) = [i for i, cell in enumerate(student) if cell["id"] == block.cells[0]["id"]]
        title = page.find(id=block.label).select_one(".admonition-title").get_text()
        number = re.match(r"Exercise [\d.]+", " ".join(title.split()))[0].rstrip(".")
        heading = cells.text(student[at]).splitlines()[0]
        assert heading == f"### {number}. {block.title}"
        assert block.label.replace("ex-", "sol-") in cells.text(student[at])
        room = student[at + 1]
        assert room["cell_type"] == "code" or cells.text(room) == "*Your answer:*"


@every_chapter
def test_a_figure_keeps_its_number_and_its_caption(book, path):
    page = parsed(f"chapters/{path.stem}.html")
    student = {cell["id"]: cells.text(cell) for cell in edition(path)["cells"]}
    for block in blocks_of(path, "figure"):
        shown = page.find(id=block.label).select_one(".caption-number").get_text().strip()
        assert student[block.cells[1]["id"]].startswith(f"**{shown}.** ")


def anchors(page: Path) -> set[str]:
    soup = parsed(page.resolve().relative_to(BOOK).as_posix())
    return {element["id"] for element in soup.select("[id]")}


@every_chapter
def test_its_links_lead_somewhere(book, path):
    found = [
        link
        for cell in edition(path)["cells"]
        if cell["cell_type"] == "markdown"
        for link in LINK.findall(cells.text(cell))
        if not link.startswith("https://")
    ]
    assert len(found) > (10 if path.stem[0].isdigit() else 3)  # a page of one figure links less
    for link in found:
        name, anchor = urldefrag(link)
        target = BOOK / "student" / name
        assert target.is_file(), link
        if anchor:
            assert anchor in anchors(target), link


def loaded_and_stored(source: str) -> tuple[set[str], set[str]]:
    """The names that a cell needs from elsewhere, and those that it defines, in functions too."""
    source = re.sub(r"^(\s*)[%!].*", r"\1pass", source, flags=re.M)
    loaded, stored = set(), set()
    waiting: list[CodeType] = [compile(source, "cell", "exec")]
    while waiting:
        code = waiting.pop()
        waiting += [const for const in code.co_consts if isinstance(const, CodeType)]
        for step in dis.get_instructions(code):
            if step.opname in {"STORE_NAME", "STORE_GLOBAL"}:
                stored.add(step.argval)
            elif step.opname in {"LOAD_NAME", "LOAD_GLOBAL"}:
                loaded.add(step.argval)
    return loaded, stored


@every_chapter
def test_no_cell_needs_what_only_a_solution_defines(book, path):
    known = set(dir(builtins)) | {"__name__", "__file__", "__annotations__", "display"}
    known |= {"get_ipython", "__qualname__", "__module__"}
    missing, later = {}, set()
    for cell in edition(path)["cells"]:
        if cell["cell_type"] == "code":
            loaded, stored = loaded_and_stored(cells.text(cell))
            known |= stored
            missing[cell["id"]] = loaded - known
            later |= stored
    # A function may name what a later cell defines.
    assert {cell: names - later for cell, names in missing.items() if names - later} == {}


@pytest.mark.slow
@every_chapter
def test_once_published_its_links_are_whole_addresses(published, path):
    student = json.loads((published / "student" / path.name).read_text(encoding="utf-8"))
    links = [
        link
        for cell in student["cells"]
        if cell["cell_type"] == "markdown"
        for link in LINK.findall(cells.text(cell))
    ]
    assert [link for link in links if not link.startswith("https://")] == []
    exercises = any("exercise" in cells.tags(cell) for cell in read(path)["cells"])
    page = f"{ADDRESS}chapters/{path.stem}.html"
    assert any(link.startswith(f"{page}#sol-") for link in links) == exercises
    codes = [cell for cell in student["cells"] if cell["cell_type"] == "code"]
    (install,) = [cell for cell in codes if "google.colab" in cells.text(cell)]
    library = f'"attention-built-by-hand @ git+{REPOSITORY}@v{VERSION}"'
    assert library in cells.text(install)
    assert f"`pip install {library}`" in cells.text(student["cells"][1])


@pytest.mark.slow
def test_the_folder_holds_what_the_branch_will(book, published):
    names = {path.name for path in CHAPTERS} | {"README.md"}
    assert {path.name for path in (BOOK / "student").iterdir()} == names
    folder = published / "student"
    assert {path.name for path in folder.iterdir()} == names | {"environment.yml"}
    binder = yaml.safe_load((folder / "environment.yml").read_text(encoding="utf-8"))
    assert "pytorch-cpu" in binder["dependencies"]  # else pip would fetch CUDA
    assert binder["dependencies"][-1] == {
        "pip": [f"attention-built-by-hand @ git+{REPOSITORY}@v{VERSION}"]
    }
    place = urlsplit(REPOSITORY).path
    readme = (folder / "README.md").read_text(encoding="utf-8")
    assert f"(https://mybinder.org/v2/gh{place}/student)" in readme
    kaggle = f"?src={REPOSITORY}/blob/student/01_soft_lookup.ipynb"
    for site in (BOOK, published):  # the teachers' page links to it once there is an address
        page = (site / "chapters" / "teach.html").read_text(encoding="utf-8")
        assert (kaggle in page) == (site is published)
