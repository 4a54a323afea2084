"""Every page is light and quick: bytes sent, when it is painted, what moves after that."""

from __future__ import annotations

from collections import Counter
from pathlib import PurePosixPath

import pytest
from pages import pages, parsed, serving

PAGES = pages() or ["index.html"]
pytestmark = pytest.mark.browser
every_page = pytest.mark.parametrize("page", PAGES)

MOST_BYTES = 250_000  # packed with gzip, images apart
MOST_PAINT = 1500  # milliseconds
MOST_SHIFT = 0.05
IMAGES = {".png", ".jpg", ".svg", ".ico"}
PHONE = {"viewport": {"width": 390, "height": 844}}
DESK = {"viewport": {"width": 1280, "height": 900}}


@pytest.fixture(scope="module")
def packed(book):
    """The site from a server that packs what it sends: its address, and path -> bytes sent."""
    sent: dict[str, int] = {}
    with serving(book, sent) as address:
        yield address, sent


def scroll_through(page) -> None:
    """Down the page a screen at a time, so that whatever waits to be seen is loaded."""
    page.evaluate(
        """async () => {
          for (let y = 0; y < document.body.scrollHeight; y += innerHeight) {
            window.scrollTo(0, y);
            await new Promise((done) => setTimeout(done, 40));
          }
        }"""
    )
    page.wait_for_load_state("networkidle")


@every_page
def test_a_page_is_light(browser, packed, page):
    address, sent = packed
    context = browser.new_context(**DESK)
    try:
        sent.clear()
        shown = context.new_page()
        shown.goto(address + page, wait_until="networkidle")
        scroll_through(shown)
        kinds = Counter()
        for path, size in sent.items():
            kinds[PurePosixPath(path).suffix] += size
    finally:
        context.close()
    light = {kind: size for kind, size in kinds.items() if kind not in IMAGES}
    assert light.keys() >= {".html", ".css", ".js"}
    assert sum(light.values()) <= MOST_BYTES, dict(light)
    # Faces of equations inside a line come with fonts.js: late, they would move what follows.
    assert not [path for path in sent if "Main-Regular" in path or "Math-Italic" in path]


@every_page
def test_images_wait_in_places_of_their_size(page):
    for image in parsed(page).select('img[src*="_images/"][src$=".png"]'):
        assert image["loading"] == "lazy"
        assert int(image["width"]) > 0 < int(image["height"])


def test_text_is_set_in_the_book_s_own_face(browser, bases):
    """Over http and in a file: no rule, script or font on the way to it was taken for unused."""
    for base in bases.values():
        context = browser.new_context()
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


# What moved is told by what it moved, for whoever has to mend it.
WATCH = """
  window.paint = 0; window.shift = 0; window.moved = [];
  new PerformanceObserver((list) => {
    for (const entry of list.getEntries()) window.paint = entry.startTime;
  }).observe({ type: "largest-contentful-paint", buffered: true });
  new PerformanceObserver((list) => {
    for (const entry of list.getEntries()) {
      if (entry.hadRecentInput) continue;
      window.shift += entry.value;
      window.moved.push(...entry.sources.map(({ node }) => `${node?.nodeName}.${node?.className}`));
    }
  }).observe({ type: "layout-shift", buffered: true });
"""


def first_seconds(browser, url: str, **options) -> tuple[float, float, list[str]]:
    """Largest contentful paint in ms, layout shift and what moved, with a CPU four times slower."""
    context = browser.new_context(**options)
    try:
        page = context.new_page()
        context.new_cdp_session(page).send("Emulation.setCPUThrottlingRate", {"rate": 4})
        page.add_init_script(WATCH)
        page.goto(url, wait_until="networkidle")
        page.evaluate("document.fonts.ready.then(() => true)")
        page.wait_for_timeout(300)
        return tuple(page.evaluate("[window.paint, window.shift, window.moved]"))
    finally:
        context.close()


@pytest.mark.parametrize("size", [PHONE, DESK], ids=["phone", "desk"])
@every_page
def test_a_page_is_quick_and_stands_still(browser, packed, page, size):
    address, _ = packed
    for _ in range(5):  # another process may have had the machine
        paint, shift, moved = first_seconds(browser, address + page, **size)
        assert shift <= MOST_SHIFT, moved
        if 0 < paint < MOST_PAINT:
            break
    assert 0 < paint < MOST_PAINT


def test_a_slow_page_that_moves_is_found(browser, tmp_path):
    (tmp_path / "index.html").write_text(
        "<!DOCTYPE html><body><p>Still</p><script>setTimeout(() => { const box ="
        " document.createElement('div'); box.style.height = '400px'; document.body.prepend(box);"
        " box.after('A longer text, painted late. '.repeat(20)); }, 1700)</script>"
        "<script>const until = performance.now() + 1600;"
        " setTimeout(() => { while (performance.now() < until + 300); }, 100)</script>"
    )
    with serving(tmp_path) as address:
        paint, shift, _ = first_seconds(browser, address, **PHONE)
    assert shift > MOST_SHIFT
    assert paint > MOST_PAINT


def test_what_scripts_add_keeps_its_style(book):
    """No page holds a live figure's own classes before a script has run."""
    sheet = (book / "_static" / "site.css").read_text(encoding="utf-8")
    for selector in ("figure.live-figure", ".live-host[data-state]", ".live-host-message"):
        assert selector in sheet, selector
