"""A page shows what its notebook's tags say: numbered boxes, folds that open by their titles."""

from __future__ import annotations

import json
import re
import sys

import pytest
from pages import ROOT, chapters, gallery, parsed

sys.path.insert(0, str(ROOT / "_ext"))
import cells

NOTEBOOKS = [*chapters(), *gallery()]
every_notebook = pytest.mark.parametrize("page", NOTEBOOKS)
FOLDED = "article details.admonition"


def blocks_of(page: str) -> list[cells.Block]:
    source = (ROOT / page.replace(".html", ".ipynb")).read_text(encoding="utf-8")
    return cells.blocks(page.removesuffix(".html"), json.loads(source)["cells"])


def words(text: str) -> list[str]:
    """The plain words of a Markdown text or of an element, markup and formulas left out."""
    text = re.sub(r"\$\$.*?\$\$|\$[^$]*\$|`[^`]*`|\]\([^)]*\)", " ", text, flags=re.S)
    return re.findall(r"[a-z]{4,}", text.lower())


@every_notebook
def test_every_block_is_on_the_page_in_its_box(book, page):
    soup, number = parsed(page), 0
    for block in blocks_of(page):
        if not block.label:
            continue
        found = soup.find(id=block.label)
        assert found is not None, block.label
        text = found.get_text()
        if block.kind == "exercise":
            number += 1
        if block.kind in {"exercise", "solution"}:
            place = cells.place(page)
            count = f"{int(place)}.{number}" if place.isdigit() else str(number)
            title = found.select_one(".admonition-title").get_text()
            assert f"Exercise {count} (" in " ".join(title.split())
        if block.kind in {"solution", "fold"}:
            assert found.name == "details" and not found.has_attr("open")
            assert found.find("summary").find("a") is None
        said = " ".join(cells.text(c) for c in block.cells if c["cell_type"] == "markdown")
        missing = [word for word in words(said) if word not in text.lower()]
        assert missing == [], block.label
    text = soup.select_one("article").get_text()
    assert ":::" not in re.sub(r"\[[^\]]*\]", "", text)
    assert "####" not in text


@pytest.mark.slow
def test_a_link_to_a_solution_opens_it(visit):
    page, _ = visit("chapters/06_many_heads.html#sol-06-flops", figures="none")
    page.locator("#sol-06-flops[open]").wait_for(timeout=20_000)
    assert page.locator(f"{FOLDED}[open]").count() == 1
    page.evaluate("location.hash = '#sol-06-reshape'")
    page.locator("#sol-06-reshape[open]").wait_for(timeout=20_000)
