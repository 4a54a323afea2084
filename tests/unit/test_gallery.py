"""The gallery: every live figure stands once in it, below its question, in the chapters' order."""

import re
from collections import Counter
from pathlib import Path

import pytest

import cells
import gallery
import live_figures
from transformer_lib.figures import widgets

ROOT = Path(__file__).resolve().parents[2]
TOC = (ROOT / "_toc.yml").read_text(encoding="utf-8")
PAGES = [ROOT / f"{name}.ipynb" for name in re.findall(r"file: (chapters/live_figures_\w+)", TOC)]
PARTS = re.findall(r"caption: Part.*?(?=caption:|\Z)", TOC, re.DOTALL)


def figures(page):
    """The name of each figure of a page, in order."""
    notebook = cells.read(page)
    models = notebook["metadata"]["widgets"][live_figures.STATE]["state"]
    return [models[shown]["state"]["anchor"] for shown, _ in live_figures.outputs_of(notebook)]


def test_every_figure_stands_on_one_page():
    shown = Counter(name for page in PAGES for name in figures(page))
    assert shown == dict.fromkeys(widgets.__all__, 1)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_has_the_figures_of_its_part_in_order(page):
    part = PARTS[PAGES.index(page)]
    chapters = [int(number) for number in re.findall(r"chapters/(\d+)_", part)]
    found = gallery.entries(cells.read(page))
    assert [question for question, *_ in found if not question.endswith("?")] == []
    first = [int(where[0][0]) for _, where, _ in found]
    assert set(first) <= set(chapters)
    assert first == sorted(first)


def test_the_list_asks_for_each_page_once():
    text = (ROOT / "chapters/live_figures.md").read_text(encoding="utf-8")
    assert re.findall(r"\{gallery\} (\S+)", text) == [page.name for page in PAGES]
