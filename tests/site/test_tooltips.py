"""A link to a term tells what it means: to the mouse, to the keyboard, to a finger, to ears."""

from __future__ import annotations

import gzip

import pytest
from pages import BOOK, pages, parsed, signs

TIPPED = [page for page in pages() if signs(page, "[role=tooltip]")]
CHAPTERS = [page for page in pages() if page.startswith("chapters/") and page[9].isdigit()]
every_page = pytest.mark.parametrize("page", TIPPED or ["index.html"])

AWAKE = "#none"  # of the live figures, where they do not matter
LINKS = "a[aria-describedby^=tip-]"
TERMS = "a[aria-describedby^=tip-term-]"


def test_chapters_link_their_terms(book):
    for page in CHAPTERS:
        assert len(parsed(page).select("a[aria-describedby^=tip-term]")) >= 8, page


@every_page
def test_a_page_has_the_tips_it_needs_and_no_others(book, page):
    soup = parsed(page)
    wanted = {link["aria-describedby"] for link in soup.select(LINKS)}
    there = [tip["id"] for tip in soup.select("[role=tooltip]")]
    assert sorted(wanted) == sorted(there)
    assert all(tip.get_text(strip=True) for tip in soup.select("[role=tooltip]"))
    assert soup.select("[role=tooltip] :is(a, [id])") == []  # cannot be entered or linked to
    assert all(tip.has_attr("hidden") for tip in soup.select("[role=tooltip]"))


@every_page
def test_a_term_is_linked_where_it_first_appears(book, page):
    """Once: a page that links every mention is all links."""
    if page in CHAPTERS:
        terms = [link["aria-describedby"] for link in parsed(page).select("a[href*='#term-']")]
        assert len(terms) == len(set(terms))


def test_the_glossary_leads_back(book):
    """Its letters to their first terms, each term to the section that links it first."""
    soup = parsed("chapters/glossary.html")
    terms = soup.select("dl.glossary > dt")
    firsts = {dt.get_text()[0].upper(): f"#{dt['id']}" for dt in reversed(terms)}
    letters = soup.select(".glossary-letters a")
    assert {link.get_text(): link["href"] for link in letters} == firsts
    first = {
        link["href"].partition("#")[2]: page
        for page in reversed(CHAPTERS)
        for link in parsed(page).select("a[href*='glossary.html#term-']")
    }
    assert len(first) > 100
    for dt in terms:
        link = dt.find_next("dd").select_one(".first-linked a")
        assert (link is not None) == (dt["id"] in first), dt["id"]
        if link:
            page, anchor = link["href"].split("#")
            assert f"chapters/{page}" == first[dt["id"]]
            assert parsed(f"chapters/{page}").find(id=anchor).select(f"a[href$='#{dt['id']}']")


@every_page
def test_nothing_relies_on_titles(book, page):
    assert [str(a)[:100] for a in parsed(page).select("article a.reference[title]")] == []


def test_the_script_is_small(book):
    assert len(gzip.compress((BOOK / "_static" / "tooltips.js").read_bytes())) < 2_000


# What moves in the text. The page's contents unfold as one goes down the page.
WATCH_SHIFTS = """
() => {
  const text = document.querySelector("article");
  window.shifted = 0;
  new PerformanceObserver((list) => {
    for (const { value, sources } of list.getEntries()) {
      if (sources.some(({ node }) => text.contains(node))) window.shifted += value;
    }
  }).observe({ type: "layout-shift" });
}
"""


class Tip:
    """A page's link to a term, and what it shows."""

    def __init__(self, page, number: int = 1, links: str = TERMS) -> None:
        self.page = page
        self.link = page.locator(links).nth(number)
        self.box = page.locator(f"[id='{self.link.get_attribute('aria-describedby')}']")
        self.link.evaluate("(link) => link.scrollIntoView({ block: 'center' })")

    def is_on_screen(self) -> bool:
        box, screen = self.box.bounding_box(), self.page.viewport_size
        return (
            box["x"] >= 0
            and box["y"] >= 0
            and box["x"] + box["width"] <= screen["width"]
            and box["y"] + box["height"] <= screen["height"]
        )

    def is_near(self) -> bool:
        box, line = self.box.bounding_box(), self.link.bounding_box()
        below = box["y"] - (line["y"] + line["height"])
        above = line["y"] - (box["y"] + box["height"])
        return -line["height"] <= max(below, above) < 10


@pytest.fixture(params=["http", "file"])
def scheme(request):
    return request.param


PAGE = max(TIPPED, key=lambda page: len(signs(page, TERMS)), default="index.html")


@pytest.mark.slow
@pytest.mark.parametrize("width", [1280, 390, 320])
def test_every_tip_opens_near_its_link_and_moves_nothing(visit, width):
    page, watch = visit(PAGE, viewport={"width": width, "height": 700})
    page.evaluate(WATCH_SHIFTS)
    height = page.evaluate("document.documentElement.scrollHeight")
    for number in range(page.locator(LINKS).count()):
        tip = Tip(page, number, LINKS)
        tip.link.focus()
        assert tip.box.is_visible() and tip.is_on_screen() and tip.is_near(), number
    assert page.locator("[role=tooltip]:visible").count() == 1
    assert page.evaluate("document.documentElement.scrollHeight") == height
    assert page.evaluate("window.shifted") == 0
    assert watch.complaints == {}


@pytest.mark.slow
def test_mouse(visit, scheme):
    page, _ = visit(PAGE, scheme, AWAKE)
    tip = Tip(page)
    tip.link.hover()
    tip.box.wait_for(state="visible")
    tip.box.hover()  # the pointer can move onto it
    page.wait_for_timeout(400)
    assert tip.box.is_visible()
    page.mouse.move(5, 5)
    tip.box.wait_for(state="hidden")


def test_keyboard(visit, scheme):
    page, _ = visit(PAGE, scheme, AWAKE)
    tip = Tip(page)
    tip.link.focus()
    assert tip.box.is_visible()
    page.keyboard.press("Escape")
    assert tip.box.is_hidden()
    assert tip.link.evaluate("(link) => document.activeElement === link")
    page.keyboard.press("Tab")
    page.keyboard.press("Shift+Tab")
    assert tip.box.is_visible()
    page.keyboard.press("Tab")
    assert tip.box.is_hidden()
    tip.link.focus()
    page.keyboard.press("Enter")
    page.wait_for_url("**/glossary.html#term-*")


@pytest.mark.parametrize("page, kind", [("03_bottleneck", "eq"), ("03_bottleneck", "fig")])
def test_a_link_to_an_equation_or_a_figure_shows_it(visit, page, kind):
    page, _ = visit(f"chapters/{page}.html", figures=AWAKE)
    tip = Tip(page, 0, f"article a[href^='#{kind}-'][aria-describedby]:visible")
    tip.link.focus()
    assert tip.box.is_visible() and tip.is_on_screen()
    assert tip.box.locator({"eq": ".katex", "fig": "img"}[kind]).first.is_visible()


@pytest.mark.slow
def test_touch(visit, scheme):
    page, _ = visit(PAGE, scheme, AWAKE, has_touch=True, viewport={"width": 390, "height": 800})
    here = page.url
    tip = Tip(page)
    tip.link.tap()
    assert tip.box.is_visible() and page.url == here
    page.locator("article h1").tap()
    assert tip.box.is_hidden() and page.url == here
    tip.link.evaluate("(link) => link.scrollIntoView({ block: 'center' })")
    tip.link.tap()
    assert tip.box.is_visible() and page.url == here
    tip.link.tap()
    page.wait_for_url("**/glossary.html#term-*")


@pytest.mark.slow
def test_a_screen_reader_hears_it(visit):
    page, _ = visit(PAGE, figures=AWAKE)
    tip = Tip(page)
    session = page.context.new_cdp_session(page)
    found = session.send(
        "Runtime.evaluate", {"expression": f"document.querySelectorAll('{TERMS}')[1]"}
    )
    tree = session.send(
        "Accessibility.getPartialAXTree",
        {"objectId": found["result"]["objectId"], "fetchRelatives": False},
    )
    said = "".join(tree["nodes"][0]["description"]["value"].split())
    assert said and said == "".join(tip.box.evaluate("(tip) => tip.textContent").split())
