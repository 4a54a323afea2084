"""The student's edition: every chapter as a notebook without its solutions, whole in all else."""

from __future__ import annotations

import builtins
import json
import re
import sys
from functools import cache
from pathlib import Path
from urllib.parse import urldefrag, urlsplit

import nbformat
import pytest
import yaml
from pages import BOOK, ROOT, parsed
from published import ADDRESS, REPOSITORY, VERSION
from test_numbered import shown

sys.path.insert(0, str(ROOT / "_ext"))
import cells
from assignment import needs_and_gives

CHAPTERS = sorted((ROOT / "chapters").glob("*.ipynb"))
every_chapter = pytest.mark.parametrize("path", CHAPTERS, ids=lambda path: path.stem)
LINK = re.compile(r"(?<=\])\(([^()\s]+)\)")
IMPORT = re.compile(r"from transformer_lib\.checks\.\w+ import check\n*")
# What no cell has to define.
KNOWN = {*dir(builtins), "__name__", "__file__", "__annotations__", "__qualname__", "__module__"}
KNOWN |= {"get_ipython", "display"}


@cache
def read(path: Path) -> dict:
    return json.loads(path.read_text(encoding="utf-8"))


def edition(path: Path, site: Path = BOOK) -> list[dict]:
    return read(site / "student" / path.name)["cells"]


def links_in(written: list[dict]) -> list[str]:
    texts = [cells.text(cell) for cell in written if cell["cell_type"] == "markdown"]
    return [link for text in texts for link in LINK.findall(text)]


def solutions_in(chapter: list, written: list) -> list[str]:
    """The cells of a chapter that would spoil it and yet are there."""
    secret = {"solution", "answer", "fold"}
    allowed = {cells.text(cell).strip() for cell in chapter if not secret & set(cells.tags(cell))}
    there = "\n".join(cells.text(cell).strip() for cell in written)
    return [
        cell["id"]
        for cell in chapter
        if secret & set(cells.tags(cell))
        and cells.text(cell).strip() not in allowed
        and cells.below_title(cell).strip() in there
    ]


@every_chapter
def test_its_cells_are_the_chapter_s_without_what_would_spoil_it(book, path):
    """A section's outputs after its question are cleared: they would give the answer away."""
    nbformat.validate(read(BOOK / "student" / path.name))
    chapter, student = read(path)["cells"], edition(path)
    assert solutions_in(chapter, student) == []
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
        if re.search(r"^# check\(", cells.text(cell), re.M):  # it brings its checker
            assert IMPORT.match(cells.text(made))
        hides = is_asked or "remove-output" in tags
        assert made["outputs"] == ([] if hides else cell["outputs"])
        if {"hide-input", "hide-cell"} & tags:
            assert made["metadata"]["jupyter"]["source_hidden"] is True
            assert made["metadata"]["cellView"] == "form"
    assert [name for name, cell in found.items() if cells.text(cell)] == wanted


@every_chapter
def test_exercises_and_figures_have_their_numbers_and_mine_says_where_it_goes(book, path):
    page, student = f"chapters/{path.stem}.html", edition(path)
    places = {cell["id"]: i for i, cell in enumerate(student)}
    assert [cell["id"] for cell in student if ":::" in cells.text(cell)] == []
    for block in cells.blocks(path.stem, read(path)["cells"]):
        if block.kind == "exercise":
            at = places[block.cells[0]["id"]]
            text, room = cells.text(student[at]), student[at + 1]
            assert text.startswith(f"### {shown(page, block.label)}. {block.title}\n")
            assert f"#{block.label.replace('ex-', 'sol-')})" in text
            assert room["cell_type"] == "code" or cells.text(room) == "*Your answer:*"
        elif block.kind == "figure":
            caption = student[places[block.cells[1]["id"]]]
            assert cells.text(caption).startswith(f"**{shown(page, block.label)}.** ")
        elif block.kind == "mine":
            said = cells.text(student[places[f"{block.cells[0]['id']}-file"]])
            assert "`mine.py`, a file beside this notebook" in said


@cache
def anchors(page: str) -> set[str]:
    return {element["id"] for element in parsed(page).select("[id]")}


@every_chapter
def test_its_links_lead_somewhere(book, path):
    links = [link for link in links_in(edition(path)) if not link.startswith("https://")]
    assert len(links) > 3
    for link in links:
        name, anchor = urldefrag(link)
        target = (BOOK / "student" / name).resolve()
        assert target.is_file(), link
        assert not anchor or anchor in anchors(target.relative_to(BOOK).as_posix()), link


def missing(notebook: list[dict]) -> dict[str, set[str]]:
    """The names that cells need and no cell gives. A function may name what a later one defines."""
    there, wanting = set(KNOWN), {}
    for cell in notebook:
        if cell["cell_type"] == "code":
            needs, gives = needs_and_gives(cells.text(cell))
            wanting[cell["id"]] = needs - there
            there |= gives
    return {cell: names - there for cell, names in wanting.items() if names - there}


@every_chapter
def test_no_cell_needs_what_only_a_solution_defines(book, path):
    assert missing(edition(path)) == {}


@pytest.mark.slow
def test_once_published_it_leads_to_the_site_and_installs_the_library(published):
    library = f'"attention-built-by-hand @ git+{REPOSITORY}@v{VERSION}"'
    for path in CHAPTERS:
        student = edition(path, published)
        links = links_in(student)
        assert [link for link in links if not link.startswith("https://")] == []
        assert any(link.startswith(f"{ADDRESS}chapters/{path.stem}.html") for link in links)
        first = next(cells.text(cell) for cell in student if cell["cell_type"] == "code")
        assert "google.colab" in first and library in first
        assert f"`pip install {library}`" in cells.text(student[1])


@pytest.mark.slow
def test_the_folder_holds_what_the_branch_will(book, published):
    names = {path.name for path in CHAPTERS} | {"README.md"}
    assert {path.name for path in (BOOK / "student").iterdir()} == names
    folder = published / "student"
    assert {path.name for path in folder.iterdir()} == names | {"environment.yml"}
    binder = yaml.safe_load((folder / "environment.yml").read_text(encoding="utf-8"))
    assert "pytorch-cpu" in binder["dependencies"]  # else pip would fetch CUDA
    pip = [f"attention-built-by-hand @ git+{REPOSITORY}@v{VERSION}"]
    assert binder["dependencies"][-1] == {"pip": pip}
    readme = (folder / "README.md").read_text(encoding="utf-8")
    assert f"(https://mybinder.org/v2/gh{urlsplit(REPOSITORY).path}/student)" in readme
    kaggle = f"?src={REPOSITORY}/blob/student/01_soft_lookup.ipynb"
    for site in (BOOK, published):  # the teachers' page links to it once there is an address
        page = (site / "chapters" / "teach.html").read_text(encoding="utf-8")
        assert (kaggle in page) == (site is published)
