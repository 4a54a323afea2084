"""axe-core finds nothing on any page: light, dark, wide, narrow, figures awake, boxes open."""

from __future__ import annotations

from itertools import pairwise

import pytest
from pages import ROOT, pages, parsed

AXE = ROOT / "node_modules" / "axe-core" / "axe.min.js"
SOURCES = ["_modules/transformer_lib/attention.html"]  # one of the pages of source stands for all
PAGES = [*(pages() or ["index.html"]), *SOURCES]
WIDTHS = (1280, 390)

RUN = """
async () => {
  const found = await axe.run(document, {
    resultTypes: ["violations"],
    reporter: "v2",
    rules: { "target-size": { enabled: true } },
  });
  return found.violations.flatMap(({ id, help, nodes }) => nodes.map(
    ({ target, failureSummary }) => `${id} (${help}): ${target.join(" ")} ${failureSummary}`));
}
"""
# A reader opens what is folded: solutions, cells, boxes.
UNFOLD = """
() => {
  for (const details of document.querySelectorAll("article details")) details.open = true;
  for (const box of document.querySelectorAll("article button.toggle-button-hidden")) box.click();
}
"""


@pytest.fixture(scope="session")
def axe(book) -> str:
    if not AXE.is_file():
        pytest.fail("node_modules has no axe-core; run: make test, or npm ci")
    return AXE.read_text(encoding="utf-8")


def violations(page, axe: str) -> list[str]:
    page.evaluate(axe)
    return page.evaluate(RUN)


@pytest.mark.browser
@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("name", PAGES)
def test_axe_finds_nothing(visit, axe, name, theme):
    page, _ = visit(name, color_scheme=theme)
    assert page.evaluate("document.documentElement.dataset.theme") == theme
    page.evaluate(UNFOLD)
    found = {}
    for width in WIDTHS:
        page.set_viewport_size({"width": width, "height": 900})
        page.wait_for_timeout(600)  # the theme lets the keyboard into what now scrolls
        found |= {line: width for line in violations(page, axe)}
    assert [f"{width}: {line}" for line, width in found.items()] == []


@pytest.mark.browser
@pytest.mark.parametrize(
    "markup, rule",
    [
        ("<img src='data:,'>", "image-alt"),
        ("<p style='color: #999; background: #fff'>Faint.</p>", "color-contrast"),
        ("<button></button>", "button-name"),
        ("<h2>Then</h2><h4>deeper</h4>", "heading-order"),
        ("<input type='range'>", "label"),
    ],
)
def test_axe_would_find_it(visit, axe, markup, rule):
    page, _ = visit("chapters/notation.html")
    page.evaluate("(markup) => document.querySelector('article').innerHTML += markup", markup)
    assert any(line.startswith(f"{rule} ") for line in violations(page, axe))


@pytest.mark.parametrize("name", PAGES)
def test_headings_go_down_one_at_a_time(book, name):
    levels = [int(h.name[1]) for h in parsed(name).select("main :is(h1, h2, h3, h4, h5, h6)")]
    assert levels and levels[0] == 1
    assert [pair for pair in pairwise(levels) if pair[1] > pair[0] + 1] == []


@pytest.mark.browser
@pytest.mark.parametrize("name", ["index.html", "chapters/01_soft_lookup.html"])
def test_the_keyboard_reaches_the_text_first(visit, name):
    """The first Tab offers to skip what is around the text, and Enter does."""
    page, _ = visit(name)
    page.keyboard.press("Tab")
    first = page.evaluate_handle("document.activeElement")
    assert first.evaluate("(link) => link.getAttribute('href')") == "#main-content"
    assert first.as_element().is_visible()
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    inside = "document.querySelector('#main-content').contains(document.activeElement)"
    assert page.evaluate(inside)
