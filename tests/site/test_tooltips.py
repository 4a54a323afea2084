"""A link to a term tells what it means: to the mouse, to the keyboard, to a finger, to ears."""

import pytest
from pages import chapters, parsed

PAGE = "chapters/05_masks.html"
LINKS = "a[aria-describedby^=tip-]"
TERMS = "a[aria-describedby^=tip-term-]"
SCREEN = {"width": 390, "height": 700}


@pytest.mark.parametrize("page", chapters())
def test_a_chapter_links_each_of_its_terms_once(book, page):
    """A page that links every mention is all links."""
    terms = [link["aria-describedby"] for link in parsed(page).select("a[href*='#term-']")]
    assert len(terms) >= 8
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
        for page in reversed(chapters())
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


class Tip:
    """A page's link to a term, and what it shows."""

    def __init__(self, page, number: int = 1, links: str = TERMS) -> None:
        self.page = page
        self.link = page.locator(links).nth(number)
        self.box = page.locator(f"[id='{self.link.get_attribute('aria-describedby')}']")
        self.link.evaluate("(link) => link.scrollIntoView({ block: 'center' })")

    def is_near(self) -> bool:
        """On the screen, and above or below its link."""
        box, line, screen = self.box.bounding_box(), self.link.bounding_box(), SCREEN
        below = box["y"] - (line["y"] + line["height"])
        above = line["y"] - (box["y"] + box["height"])
        return (
            -line["height"] <= max(below, above) < 10
            and 0 <= box["x"] <= screen["width"] - box["width"]
            and 0 <= box["y"] <= screen["height"] - box["height"]
        )


@pytest.mark.slow
def test_every_tip_opens_near_its_link_and_moves_nothing(visit):
    page = visit(PAGE, viewport=SCREEN)
    height = page.evaluate("document.documentElement.scrollHeight")
    for number in range(page.locator(LINKS).count()):
        tip = Tip(page, number, LINKS)
        tip.link.focus()
        assert tip.box.is_visible() and tip.is_near(), number
    assert page.locator("[role=tooltip]:visible").count() == 1
    assert page.evaluate("document.documentElement.scrollHeight") == height
    page = visit("chapters/03_bottleneck.html")
    for kind, what in {"eq": ".katex", "fig": "img"}.items():  # a link to one shows it
        tip = Tip(page, 0, f"article a[href^='#{kind}-'][aria-describedby]:visible")
        tip.link.focus()
        assert tip.box.locator(what).first.is_visible()


@pytest.mark.parametrize("scheme", ["http", "file"])
def test_mouse_and_keyboard(visit, scheme):
    page = visit(PAGE, scheme)
    tip = Tip(page)
    tip.link.hover()
    tip.box.wait_for(state="visible")
    tip.box.hover()  # the pointer can move onto it
    page.wait_for_timeout(400)
    assert tip.box.is_visible()
    page.mouse.move(5, 5)
    tip.box.wait_for(state="hidden")
    tip.link.focus()
    assert tip.box.is_visible()
    page.keyboard.press("Escape")
    assert tip.box.is_hidden()
    assert tip.link.evaluate("(link) => document.activeElement === link")
    page.keyboard.press("Tab")
    page.keyboard.press("Shift+Tab")
    assert tip.box.is_visible()
    page.keyboard.press("Enter")
    page.wait_for_url("**/glossary.html#term-*")


@pytest.mark.slow
def test_touch(visit):
    page = visit(PAGE, has_touch=True, viewport=SCREEN)
    here = page.url
    tip = Tip(page)
    tip.link.tap()
    assert tip.box.is_visible() and page.url == here
    page.locator("article h1").tap()
    assert tip.box.is_hidden() and page.url == here
    tip.link.tap()
    assert tip.box.is_visible() and page.url == here
    tip.link.tap()
    page.wait_for_url("**/glossary.html#term-*")
