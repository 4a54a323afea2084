"""Every page, opened for the first time with a phone: light, still, and asking nobody else."""

from __future__ import annotations

from collections import Counter
from itertools import product
from pathlib import PurePosixPath
from types import SimpleNamespace

import pytest
from pages import Watch, each, pages, parsed, scroll_through, serving, wake

PAGES = pages() or ["index.html"]
every_page = pytest.mark.parametrize("page", PAGES)

MOST_BYTES = 250_000  # packed with gzip, images apart
MOST_SHIFT = 0.05
IMAGES = {".png", ".jpg", ".svg", ".ico"}


@pytest.fixture(scope="module")
def packed(book):
    """The site from a server that packs what it sends: its address, and path -> bytes sent."""
    sent: dict[str, int] = {}
    with serving(book, sent) as address:
        yield address, sent


# What moved is told by what it moved, for whoever has to fix it.
WATCH = """
  window.shift = 0; window.moved = [];
  new PerformanceObserver((list) => {
    for (const entry of list.getEntries()) {
      if (entry.hadRecentInput) continue;
      window.shift += entry.value;
      window.moved.push(...entry.sources.map(({ node }) => `${node?.nodeName}.${node?.className}`));
    }
  }).observe({ type: "layout-shift", buffered: true });
"""


def first_seconds(page, url: str) -> tuple[float, list[str]]:
    """Layout shift and what moved, with a CPU four times slower."""
    client = page.context.new_cdp_session(page)
    client.send("Emulation.setCPUThrottlingRate", {"rate": 4})
    page.add_init_script(WATCH)
    page.goto(url, wait_until="networkidle")
    page.evaluate("document.fonts.ready.then(() => true)")
    page.wait_for_timeout(300)
    client.send("Emulation.setCPUThrottlingRate", {"rate": 1})
    return tuple(page.evaluate("[window.shift, window.moved]"))


@pytest.fixture(scope="module", params=each(PAGES))
def visit_to(request, browser, packed):
    """What there is to know of a first visit, with a phone."""
    name, (address, sent) = request.param, packed
    context = browser.new_context(viewport={"width": 390, "height": 844})
    try:
        watch = Watch(context, address)
        sent.clear()
        page = context.new_page()
        shift, moved = first_seconds(page, address + name)
        found = SimpleNamespace(shift=shift, moved=moved)
        wake(page)
        scroll_through(page, watch)
        found.sent = dict(sent)
        found.complaints = watch.complaints
    finally:
        context.close()
    return found


def test_a_page_asks_nobody_else(visit_to):
    assert visit_to.complaints == {}


def test_a_page_is_light(visit_to):
    kinds = Counter()
    for path, size in visit_to.sent.items():
        kinds[PurePosixPath(path).suffix] += size
    light = {kind: size for kind, size in kinds.items() if kind not in IMAGES}
    assert light.keys() >= {".html", ".css", ".js"}
    assert sum(light.values()) <= MOST_BYTES, dict(light)
    # Faces of equations inside a line come with fonts.js: late, they would move what follows.
    assert not [path for path in visit_to.sent if "Main-Regular" in path or "Math-Italic" in path]


def test_a_page_stands_still(visit_to):
    assert visit_to.shift <= MOST_SHIFT, visit_to.moved


@every_page
def test_images_wait_in_places_of_their_size(page):
    for image in parsed(page).select('img[src*="_images/"][src$=".png"]'):
        assert image["loading"] == "lazy"
        assert int(image["width"]) > 0 < int(image["height"])


def test_text_is_set_in_the_book_s_own_face(browser, bases):
    """Over http and in a file, with scripts and without: nothing on the way to it was left out."""
    for base, scripts in product(bases.values(), (True, False)):
        context = browser.new_context(java_script_enabled=scripts)
        try:
            page = context.new_page()
            page.goto(base + "index.html")
            devtools = context.new_cdp_session(page)
            for domain in ("DOM", "CSS"):
                devtools.send(f"{domain}.enable")
            root = devtools.send("DOM.getDocument")["root"]["nodeId"]
            query = {"nodeId": root, "selector": ".bd-article section p"}
            text = devtools.send("DOM.querySelector", query)
            used = devtools.send("CSS.getPlatformFontsForNode", {"nodeId": text["nodeId"]})
        finally:
            context.close()
        assert {font["familyName"] for font in used["fonts"]} == {"Source Serif 4"}


def test_what_scripts_add_keeps_its_style(book):
    """No page holds a live figure's own classes before a script has run."""
    sheet = (book / "_static" / "site.css").read_text(encoding="utf-8")
    for selector in ("figure.live-figure", ".live-host[data-state]", ".live-host-message"):
        assert selector in sheet, selector
