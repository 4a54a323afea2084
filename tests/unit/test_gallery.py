"""The gallery: every live figure stands once in it, below its question, in the chapters' order."""

import re
from collections import Counter
from importlib import import_module
from pathlib import Path

import pytest

from transformer_lib.figures import widgets

ROOT = Path(__file__).resolve().parents[2]
TOC = (ROOT / "_toc.yml").read_text(encoding="utf-8")
PAGES = [ROOT / f"{name}.ipynb" for name in re.findall(r"file: (chapters/live_figures_\w+)", TOC)]
PARTS = re.findall(r"caption: Part.*?(?=caption:|\Z)", TOC, re.DOTALL)


@pytest.fixture
def gallery(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "_ext"))
    return import_module("gallery")


def figures(gallery, page):
    """The name of each figure of a page, in order."""
    live_figures = import_module("live_figures")  # beside `gallery`
    notebook = gallery.read(page)
    models = notebook["metadata"]["widgets"][live_figures.STATE]["state"]
    return [models[shown]["state"]["anchor"] for shown, _ in live_figures.outputs_of(notebook)]


def test_every_figure_stands_on_one_page(gallery):
    shown = Counter(name for page in PAGES for name in figures(gallery, page))
    assert shown == dict.fromkeys(widgets.__all__, 1)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_has_the_figures_of_its_part_in_order(gallery, page):
    part = PARTS[PAGES.index(page)]
    chapters = [int(number) for number in re.findall(r"chapters/(\d+)_", part)]
    first = [int(where[0][0]) for _, where in gallery.entries(gallery.read(page))]
    assert set(first) <= set(chapters)
    assert first == sorted(first)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_above_a_figure_stand_its_question_and_its_chapters(gallery, page):
    for question, chapters in gallery.entries(gallery.read(page)):
        assert question.endswith("?")
        assert chapters, question
        for number, file in chapters:
            assert file.startswith(f"{number:>02}_"), question
            assert (ROOT / "chapters" / file).is_file()


def test_the_list_asks_for_each_page_once():
    text = (ROOT / "chapters/live_figures.md").read_text(encoding="utf-8")
    assert re.findall(r"\{gallery\} (\S+)", text) == [page.name for page in PAGES]


def test_a_figure_without_a_question_or_a_chapter_is_seen(gallery):
    def cell(kind, text, *tags):
        return {"cell_type": kind, "source": text, "metadata": {"tags": list(tags)}, "id": "a"}

    notebook = {
        "cells": [
            cell("markdown", "## Why?\n\n[Chapter 8](08_encoder.ipynb), [9](09_decoder.ipynb)."),
            cell("code", "A()", "live-figure"),
            cell("markdown", "## Nobody asks\n\nChapter 3."),
            cell("code", "B()", "live-figure"),
        ]
    }
    both = [("8", "08_encoder.ipynb"), ("9", "09_decoder.ipynb")]
    assert gallery.entries(notebook) == [("Why?", both), ("Nobody asks", [])]
