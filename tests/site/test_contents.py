"""The mark in a page's contents: where the reader is, however they came there."""

from __future__ import annotations

import pytest
from pages import pages, parsed, until

pytestmark = pytest.mark.slow
LINKS = "nav.page-toc a"
SETTLED = """async () => {
  for (let frame = 0; frame < 4; frame += 1) await new Promise(requestAnimationFrame);
}"""
MARKED = f"""() => [...document.querySelectorAll('{LINKS}')]
  .filter((link) => link.matches('.active[aria-current=true]')).map((link) => link.hash)"""
# The middle of a section's own text comes to the line on which one reads.
READ = """(hash) => {
  const heading = document.querySelector(hash).querySelector("h2, h3");
  const all = [...document.querySelectorAll("nav.page-toc a")].map((link) =>
    document.getElementById(link.hash.slice(1)).querySelector("h2, h3"));
  const after = all[all.indexOf(heading) + 1] ?? document.querySelector("footer");
  const [from, to] = [heading, after].map((e) => e.getBoundingClientRect().top + scrollY);
  scrollTo({ top: (from + to) / 2 - 0.3 * innerHeight, behavior: "instant" });
  return scrollY + innerHeight < document.documentElement.scrollHeight - 10;
}"""


@pytest.fixture(scope="module")
def shown(visit_once):
    """Of the pages whose sections have no parts, which the contents show folded, the longest."""
    plain = [page for page in pages() if not parsed(page).select("nav.page-toc .toc-h3")]
    return visit_once(max(plain, key=lambda page: len(parsed(page).select(LINKS))))[0]


@pytest.fixture(scope="module")
def hashes(shown) -> list[str]:
    found = shown.locator(LINKS).evaluate_all("(links) => links.map((link) => link.hash)")
    assert len(found) > 5
    return found


def shuffled(items: list) -> list:
    """First and last, then towards the middle: as far apart as can be."""
    half = len(items) // 2
    pairs = zip(items[:half], reversed(items[half:]), strict=False)
    return [item for pair in pairs for item in pair] + items[half : len(items) - half]


def test_it_follows_links(shown, hashes):
    for hash in [*shuffled(hashes), *hashes]:
        shown.locator(f'{LINKS}[href="{hash}"]').click()
        shown.evaluate(SETTLED)
        assert shown.evaluate(MARKED) == [hash]


def test_it_follows_leaps_of_the_page(shown, hashes):
    seen = 0
    for hash in shuffled(hashes):
        if shown.evaluate(READ, hash):  # the last sections may be too short to come up there
            shown.evaluate(SETTLED)
            assert shown.evaluate(MARKED) == [hash]
            seen += 1
    assert seen >= len(hashes) - 2


def test_it_goes_at_the_top_of_the_page(shown, hashes):
    shown.evaluate("scrollTo({ top: 0, behavior: 'instant' })")
    shown.evaluate(SETTLED)
    assert shown.evaluate(MARKED) == []


def test_it_goes_on_when_the_page_grows(shown, hashes):
    """What opens above moves the text, and no scrolling says so."""
    assert shown.evaluate(READ, hashes[2])
    shown.evaluate(SETTLED)
    shown.add_style_tag(content="* { overflow-anchor: none !important }")
    shown.evaluate(
        """(hash) => { const box = document.createElement("p"); box.id = "grown";
          box.style.height = "30000px"; document.querySelector(hash).before(box); }""",
        hashes[0],
    )
    shown.evaluate(SETTLED)
    marked = shown.evaluate(MARKED)
    shown.evaluate("document.querySelector('#grown').remove()")
    assert marked == []


def test_a_link_in_a_drawer_closes_it(visit):
    """On a phone. The focus is in the section then, where a screen reader goes on."""
    phone = {"width": 390, "height": 844}
    page, watch = visit("chapters/13_training.html", figures=".nothing", viewport=phone)
    page.locator("button.secondary-toggle").click()
    drawer = page.locator("#pst-secondary-sidebar-modal")
    link = drawer.locator(LINKS).nth(3)
    section = page.locator(link.get_attribute("href"))
    link.click()
    drawer.wait_for(state="hidden")
    until(page, lambda: section.evaluate("(e) => e.contains(document.activeElement)"))
    until(page, lambda: section.evaluate("(e) => Math.abs(e.getBoundingClientRect().top) < 120"))

    page.locator("button.primary-toggle").click()
    drawer = page.locator("#pst-primary-sidebar-modal")
    drawer.locator("nav.bd-links .current > a").click()  # this page
    drawer.wait_for(state="hidden")
    assert watch.errors == []
