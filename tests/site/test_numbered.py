"""Numbers that the text names are those that the page shows."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest
from pages import ROOT, pages, parsed

CHAPTERS = [page for page in pages() if re.match(r"chapters/\d", page)]
every_chapter = pytest.mark.parametrize("page", CHAPTERS or ["index.html"])
NAMED = re.compile(r"(?:Figure|Exercise) [\d.]*\d|\(\d+\.\d+\)")


def shown(page: str, anchor: str) -> str:
    """What the page calls the thing at an anchor."""
    thing = parsed(page).find(id=anchor)
    label = thing.select_one(".eqno, .caption-number, .admonition-title")
    return NAMED.search(label.get_text())[0]


@every_chapter
def test_a_link_that_is_a_number_leads_there(book, page):
    links = [
        link
        for link in parsed(page).select("article a.reference.internal")
        if NAMED.fullmatch(link.get_text())
    ]
    assert links
    for link in links:
        target, _, anchor = link["href"].partition("#")
        there = f"chapters/{target}" if target else page
        assert shown(there, anchor) == link.get_text(), link
    assert parsed(page).select("article .katex .tag") == []  # not KaTeX's, which nothing leads to


def test_a_page_without_a_number_counts_from_one(book):
    for page in {*pages()} - {*CHAPTERS}:
        numbers = [number.get_text() for number in parsed(page).select("figure .caption-number")]
        assert numbers == [f"Figure {i} " for i in range(1, len(numbers) + 1)]


GOOD = r"""# One

$$
a \tag{1.1}
$$

$$
unnumbered
$$

$$
b \tag{1.2}
$$

See [(1.2)](#eq-1-2) and [(1.1)](01_one.md#eq-1-1).
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    "right, wrong, warning",
    [
        ("", "", ""),
        ("[(1.2)]", "[(1.1)]", "a link says (1.1) and leads to (1.2)"),
        ("[(1.1)]", "[Figure 1.1]", "a link says Figure 1.1 and leads to (1.1)"),
        (r"\tag{1.2}", r"\tag{1.3}", "tagged ['1.3'] where (1.2) is due"),
    ],
)
def test_a_wrong_number_is_a_warning(tmp_path, right, wrong, warning):
    (tmp_path / "01_one.md").write_text(GOOD.replace(right, wrong), encoding="utf-8")
    (tmp_path / "index.md").write_text("# Book\n\n```{toctree}\n01_one\n```\n", encoding="utf-8")
    (tmp_path / "conf.py").write_text(
        "extensions = ['myst_parser', 'book', 'numbered']\n"
        "myst_enable_extensions = ['dollarmath']\n"
        "numfig = math_numfig = True\n"
        "exclude_patterns = ['_ext', 'node_modules']\n",
        encoding="utf-8",
    )
    for folder in ("_ext", "node_modules"):  # scripts and fonts that every build copies
        (tmp_path / folder).symlink_to(ROOT / folder)
    build = [sys.executable, "-m", "sphinx", "-q", "-b", "dummy", tmp_path, tmp_path / "_build"]
    environment = os.environ | {"PYTHONPATH": str(ROOT / "_ext"), "NO_COLOR": "1"}
    result = subprocess.run(build, env=environment, capture_output=True, text=True, check=True)
    assert warning in result.stderr
    assert bool(result.stderr) == bool(warning), result.stderr
