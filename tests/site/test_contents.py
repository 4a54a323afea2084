"""The mark in a page's contents: where the reader is, however they came there."""

import pytest
from pages import PHONE, until

pytestmark = pytest.mark.slow
PAGE = "chapters/symptoms.html"
LINKS = "nav.page-toc a"
MARKED = f"""async () => {{
  for (let frame = 0; frame < 4; frame += 1) await new Promise(requestAnimationFrame);
  return [...document.querySelectorAll('{LINKS}')]
    .filter((link) => link.matches('.active[aria-current=true]')).map((link) => link.hash);
}}"""
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
GROW = """(hash) => {
  const box = document.createElement("p");
  box.style.height = "30000px";
  document.querySelector(hash).before(box);
}"""


def test_the_mark_is_where_the_reader_is(visit):
    """It follows links and leaps; it goes at the top, and when something opens above the text."""
    page = visit(PAGE)
    hashes = page.locator(LINKS).evaluate_all("(links) => links.map((link) => link.hash)")
    leaps = hashes[::3] + hashes[1::3]  # up and down
    assert len(leaps) > 8
    for hash in leaps:
        page.locator(f'{LINKS}[href="{hash}"]').click()
        assert page.evaluate(MARKED) == [hash]
    for hash in leaps[:-2]:
        if page.evaluate(READ, hash):  # the last sections may be too short to come up there
            assert page.evaluate(MARKED) == [hash]
    page.evaluate("scrollTo({ top: 0, behavior: 'instant' })")
    assert page.evaluate(MARKED) == []
    assert page.evaluate(READ, hashes[2])
    assert page.evaluate(MARKED) == [hashes[2]]
    page.add_style_tag(content="* { overflow-anchor: none !important }")
    page.evaluate(GROW, hashes[0])
    assert page.evaluate(MARKED) == []


def test_a_link_in_a_drawer_closes_it(visit):
    """On a phone. The focus is in the section then, where a screen reader goes on."""
    page = visit("chapters/13_training.html", viewport=PHONE)
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
