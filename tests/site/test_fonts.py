"""Every page in the reader's font, at three widths: nothing sticks out, overlaps or moves.

One visit to a page serves all the tests, and several fonts.
"""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from pages import each, in_every_font, pages, scroll_through, signs, unfold, wake
from test_predictions import ANSWER_ALL, kept

PAGES = pages() or ["index.html"]
NUMBERED = [page for page in PAGES if signs(page, ".eqno")]
ASKING = [page for page in PAGES if signs(page, ".predict")]
WIDTHS = (1280, 390, 320)

# What reaches beyond the right edge, where nothing around it scrolls by itself.
TOO_WIDE = """
() => [...document.querySelectorAll("main *")]
    .filter((element) => {
      if (element.getBoundingClientRect().right <= innerWidth) return false;
      for (let around = element.parentElement; around; around = around.parentElement) {
        if (around !== document.body && around !== document.documentElement
            && getComputedStyle(around).overflowX !== "visible") return false;
      }
      return true;
    })
    .map((element) => `${element.tagName}.${element.getAttribute("class") ?? ""}`)
"""
# Of each numbered equation: pixels from the edge of what is seen to its beginning, from its end,
# when it is scrolled there, to the other edge; from there to its number; and what is cut off.
EQUATIONS = """
() => [...document.querySelectorAll("div.math:has(> .eqno)")].map((block) => {
  const box = (element) => element.getBoundingClientRect();
  const sight = block.querySelector(".equation");
  const number = block.querySelector(".eqno");
  const parts = [...block.querySelectorAll(".katex-base")];
  const start = box(parts[0]).left - box(sight).left;
  const gap = box(number).left - box(sight).right; // what scrolls, is seen in here
  sight.scrollLeft = sight.scrollWidth;
  const end = box(sight).right - Math.max(...parts.map((part) => box(part).right));
  sight.scrollLeft = 0;
  const clipped = getComputedStyle(sight).overflowX === "auto";
  return [start, end, gap, clipped, block.scrollWidth - block.clientWidth];
})
"""


def width_of(page) -> tuple[int, int, list[str]]:
    """How wide the page is, how far it scrolls to the side, and what is too wide."""
    too_wide = page.evaluate(TOO_WIDE)
    page.evaluate("window.scrollTo(500, 0)")
    width, scrolled = page.evaluate("[document.documentElement.scrollWidth, window.scrollX]")
    page.evaluate("window.scrollTo(0, 0)")
    return width, scrolled, too_wide


def at_every_width(page, look) -> dict:
    """What `look(page)` returns, by width."""
    found = {}
    for width in WIDTHS:
        page.set_viewport_size({"width": width, "height": 844})
        found[width] = look(page)
    return found


def in_fonts(page) -> dict:
    """What sticks out and where equations are, by font."""
    return {font: (width_of(page), page.evaluate(EQUATIONS)) for font in in_every_font(page)}


@pytest.fixture(scope="module", params=each(PAGES))
def seen(request, visit_once):
    """What there is to see of a page, by width; with its figures awake, in every font."""
    name = request.param
    page, watch = visit_once(name, figures=".nothing")
    found = SimpleNamespace(expected=(len(signs(name, ".eqno")), len(signs(name, ".predict"))))
    if found.expected[1]:
        page.evaluate(ANSWER_ALL)
        found.kept = kept(page)
        page.reload()
        unfold(page)
        page.evaluate("document.fonts.ready.then(() => true)")
        found.forgotten = page.locator(".predict-live[data-told=not]").count()
    page.set_viewport_size({"width": WIDTHS[0], "height": 844})
    wake(page)
    scroll_through(page, watch)
    found.fonts = at_every_width(page, in_fonts)
    page.context.close()
    return found


def test_a_page_fits_its_window(seen):
    for width, found in seen.fonts.items():
        for font, ((needed, scrolled, too_wide), _) in found.items():
            assert needed <= width, (font, too_wide)
            assert scrolled == 0, (font, too_wide)


@pytest.mark.parametrize("seen", each(NUMBERED), indirect=True)
def test_the_number_stands_beside_the_equation(seen):
    """However far an equation that is too wide is scrolled, no part of it lies under its number."""
    for _, equations in (font for found in seen.fonts.values() for font in found.values()):
        assert len(equations) == seen.expected[0]
        for start, end, gap, clipped, out in equations:
            assert start >= -1, "the beginning of the equation cannot be seen"
            assert end >= -1, "the end of the equation cannot be seen"
            assert clipped and gap >= -1, "the equation lies under its number"
            assert out <= 0, "the number is out of sight"


@pytest.mark.parametrize("seen", each(ASKING), indirect=True)
def test_a_page_opens_with_its_questions_as_they_were_answered(seen):
    assert len(seen.kept) == seen.expected[1]
    assert seen.forgotten == 0
