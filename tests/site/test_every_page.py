"""Every page, opened once in Chromium by a reader with a slow phone, who then goes to a desk.

One visit sees all there is to see: what the page loads, what moves, what sticks out, what axe says,
and what becomes of its questions and its figures when its address is opened again.
"""

import gzip
from collections import Counter
from functools import cache
from itertools import product
from pathlib import PurePosixPath
from urllib.parse import urlsplit

import pytest
from pages import BOOK, OLD_THEME, PHONE, ROOT, Watch, each, open_page, pages, signs, wake
from test_live_figures import Figure, differences, move_something
from test_predictions import ANSWER_ALL, kept

AXE = ROOT / "node_modules" / "axe-core" / "axe.min.js"
SOURCES = ["_modules/transformer_lib/attention.html"]  # one of the pages of source stands for all
PAGES = [*(pages() or ["index.html"]), *SOURCES]
VIEWS = ((1280, "light"), (320, "dark"))

MOST_BYTES = 250_000  # packed with gzip, images apart
IMAGES = {".png", ".jpg", ".svg", ".ico"}
MOST_SHIFT = 0.05
# In the theme for Python 3.10 the logo is in no landmark, and the keyboard can't scroll a table.
OLD_FAULTS = (".title undefined", "scrollable-region-focusable") if OLD_THEME else ()
STOPS = "pre, .cell_output > .output" + (not OLD_THEME) * ", .pst-scrollable-table-container"

# What moved is told by what it moved, for whoever has to fix it.
SHIFTS = """
  window.shift = 0; window.moved = [];
  new PerformanceObserver((list) => {
    for (const entry of list.getEntries()) {
      if (entry.hadRecentInput) continue;
      window.shift += entry.value;
      window.moved.push(...entry.sources.map(({ node }) => `${node?.nodeName}.${node?.className}`));
    }
  }).observe({ type: "layout-shift", buffered: true });
"""
# Menus and figures are set in the reader's own font. This one is wider than any system's.
WIDE_LETTERS = (
    ':root { --book-sans: "DejaVu Sans"; --book-mono: "DejaVu Sans"; letter-spacing: .08em }'
)
# A reader opens what is folded: solutions, cells, boxes; and has answered what the page asks.
UNFOLD = """
() => {
  for (const details of document.querySelectorAll("article details")) details.open = true;
  for (const question of document.querySelectorAll(".predict-live")) question.dataset.told = "yes";
}
"""
# The theme lets the keyboard into what scrolls, a while after the window's size has changed.
REACHED = """
([theme, stops]) => document.documentElement.dataset.theme === theme
  && [...document.querySelectorAll(stops)]
  .every((e) => (e.scrollWidth > e.clientWidth || e.scrollHeight > e.clientHeight) === !e.tabIndex)
"""
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
# Numbered equations of which, however far they are scrolled, a part or the number cannot be seen.
HIDDEN_EQUATIONS = """
() => [...document.querySelectorAll("div.math:has(> .eqno)")].filter((block) => {
  const box = (element) => element.getBoundingClientRect();
  const sight = block.querySelector(".equation");
  const parts = [...block.querySelectorAll(".katex-base")];
  const start = box(parts[0]).left - box(sight).left;
  const gap = box(block.querySelector(".eqno")).left - box(sight).right;
  sight.scrollLeft = sight.scrollWidth;
  const end = box(sight).right - Math.max(...parts.map((part) => box(part).right));
  sight.scrollLeft = 0;
  return start < -1 || end < -1 || gap < -1 || block.scrollWidth > block.clientWidth
    || getComputedStyle(sight).overflowX !== "auto";
}).map((block) => block.textContent.trim().slice(-60))
"""
# Words of code and formulas that look alike are most of a page, and take most of axe's time.
ONCE = """
() => {
  const seen = new Set();
  for (const word of document.querySelectorAll("article :is(pre, code, .sig) span:not(:has(*))")) {
    const looks = [word.closest("div, dt, p")?.className, word.parentElement.className,
      word.className, word.getAttribute("style")?.replace(/--indent: *\\d+;?/, "")].join(" ");
    if (seen.has(looks)) word.replaceWith(word.textContent);
    seen.add(looks);
  }
  [...document.querySelectorAll("article .katex-html")].slice(1).forEach((e) => e.remove());
}
"""
RUN_AXE = """
async () => {
  const rules = { "target-size": { enabled: true } };
  const { violations } = await axe.run(document, { resultTypes: ["violations"], rules });
  return violations.flatMap(({ id, help, nodes }) => nodes.map(
    ({ target, failureSummary }) => `${id} (${help}): ${target.join(" ")} ${failureSummary}`));
}
"""


def read_through(page, address: str, watch: Watch) -> None:
    """Open the page, with a processor four times slower, and go down a screen at a time."""
    client = page.context.new_cdp_session(page)
    client.send("Emulation.setCPUThrottlingRate", {"rate": 4})
    page.add_init_script(SHIFTS)
    page.goto(address, wait_until="load")
    watch.until_quiet(page)
    page.evaluate("document.fonts.ready.then(() => true)")
    page.wait_for_timeout(300)
    client.send("Emulation.setCPUThrottlingRate", {"rate": 1})
    page.evaluate("window.before = [window.shift, window.moved.slice()]")
    wake(page)
    page.evaluate(
        """async () => {
          for (let y = 0; y < document.body.scrollHeight; y += innerHeight) {
            window.scrollTo(0, y);
            await new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
          }
          window.scrollTo(0, 0);
        }"""
    )
    watch.until_quiet(page)


@cache
def packed(path: str) -> int:
    """How many bytes a server sends for it that packs texts, as those of published pages do."""
    content = (BOOK / path).read_bytes()
    return len(content if path.endswith(".woff2") else gzip.compress(content))


def what_is_heavy(base: str, watch: Watch) -> list:
    sent = {urlsplit(url.removeprefix(base)).path for url in watch.asked if url.startswith(base)}
    kinds = Counter()
    for path in sent:
        if (BOOK / path).is_file():
            kinds[PurePosixPath(path).suffix] += packed(path)
    assert kinds.keys() >= {".html", ".css", ".js"}
    light = {kind: size for kind, size in kinds.items() if kind not in IMAGES}
    # Faces of equations inside a line come with fonts.js: late, they would move what follows.
    late = [path for path in sent if "Main-Regular" in path or "Math-Italic" in path]
    return late + [light] * (sum(light.values()) > MOST_BYTES)


def what_is_lost(page, name: str) -> list:
    """What an address of answered questions and moved figures doesn't show, or Reset doesn't undo.

    Whoever opens the address sees the same figures; a reader's own answers are there as well.
    """
    lost = []
    questions = len(signs(name, ".predict"))
    page.evaluate(ANSWER_ALL)
    figures = [Figure(page, model) for model in signs(name, "[data-model]")]
    first = [figure.shows for figure in figures]
    now = [move_something(figure) for figure in figures]
    # Figures write their states there 200 ms later; the page's own clock keeps this order.
    page.evaluate("new Promise((done) => setTimeout(done, 400))")
    if page.url.count("=") != len(figures):
        lost.append(page.url)
    other = open_page(page.context, page.url)
    lost += [
        differences(n, Figure(other, f.model).shows) for f, n in zip(figures, now, strict=True)
    ]
    answered = len(kept(other)), other.locator(".predict-live:not([data-told=not])").count()
    if answered != (questions, questions):
        lost.append(f"{answered} of {questions} answers")
    other.close()
    for figure in figures:
        figure.reset()
    lost += map(differences, first, [figure.shows for figure in figures])
    page.wait_for_url(lambda url: "=" not in url)
    return [what for what in lost if what]


def look(page, view: tuple[int, str]) -> None:
    width, theme = view
    page.set_viewport_size({"width": width, "height": 844})
    page.emulate_media(color_scheme=theme)
    page.wait_for_function(REACHED, arg=[theme, STOPS])


def what_sticks_out(page) -> list:
    too_wide = page.evaluate(TOO_WIDE)
    page.evaluate("window.scrollTo(500, 0)")
    scrolled = page.evaluate("[document.documentElement.scrollWidth - innerWidth, window.scrollX]")
    page.evaluate("window.scrollTo(0, 0)")
    return [(scrolled, too_wide)] if max(scrolled) > 0 else []


@pytest.fixture(scope="module")
def visit_to(browser, bases):
    """visit_to(page, script to spoil it with, site) -> what is wrong with the page, by kind."""

    def visit_to(name: str, spoil: str = "", base: str = bases["http"]) -> dict[str, list]:
        context = browser.new_context(viewport=PHONE, reduced_motion="reduce")
        context.add_init_script(spoil)
        try:
            watch, found = Watch(context, base), {}
            page = context.new_page()
            read_through(page, base + name, watch)
            shift, moved = page.evaluate("window.before")
            found["moves"] = moved if shift > MOST_SHIFT else []
            found["heavy"] = what_is_heavy(base, watch)
            found["lost"] = what_is_lost(page, name)
            page.evaluate(UNFOLD)
            page.add_style_tag(content=WIDE_LETTERS)
            for view in VIEWS:
                look(page, view)
                found[f"sticks out at {view[0]}"] = what_sticks_out(page)
                found[f"equations at {view[0]}"] = page.evaluate(HIDDEN_EQUATIONS)
            page.evaluate(ONCE)
            page.evaluate(AXE.read_text(encoding="utf-8"))
            for view in VIEWS:
                look(page, view)
                said = page.evaluate(RUN_AXE)
                found[f"axe, {view}"] = [
                    line for line in said if not any(fault in line for fault in OLD_FAULTS)
                ]
            found |= watch.complaints
        finally:
            context.close()
        return {kind: lines for kind, lines in found.items() if lines}

    return visit_to


@pytest.mark.parametrize("name", each(PAGES))
def test_a_page(visit_to, name):
    assert visit_to(name) == {}


@pytest.mark.slow
def test_a_page_of_a_site_with_an_address(visit_to, published_address):
    """Its head has three buttons more, and so less room."""
    assert visit_to("chapters/01_soft_lookup.html", base=published_address) == {}


SPOIL = """
addEventListener("DOMContentLoaded", () => {
  console.error("no");
  fetch("https://example.com/").catch(() => {});
  fetch("missing.txt");
  const main = document.querySelector("main");
  main.insertAdjacentHTML("beforeend",
    "<img src='data:,'><p style='width: 2000px; color: #999; background: #fff'>Wide, faint.</p>");
  const box = document.createElement("p");
  box.style.height = "400px";
  setTimeout(() => main.prepend(box), 200);
});
"""


@pytest.mark.slow
def test_what_is_wrong_with_a_page_is_found(visit_to):
    found = visit_to("search.html", SPOIL)
    rules = {line.split()[0] for kind, lines in found.items() if "axe" in kind for line in lines}
    assert {"image-alt", "color-contrast"} <= rules
    assert {"moves", "sticks out at 320", "errors", "failed", "foreign"} <= found.keys()


# Of a paragraph: the first family that it asks for, and whether that is there.
FACE = """(paragraph) => document.fonts.ready.then((fonts) => {
  const [asked] = getComputedStyle(paragraph).fontFamily.split(",");
  return [asked, [...fonts].some(({ family, style, weight, status }) => status === "loaded"
    && asked.includes(family) && style === "normal" && weight === "400")];
})"""


def test_text_is_set_in_the_book_s_own_face(visit):
    """Over http and in a file, with scripts and without: nothing on the way to it was left out."""
    for where, scripts in product(("http", "file"), (True, False)):
        page = visit("index.html", where, java_script_enabled=scripts)
        face = page.locator(".bd-article section p").first.evaluate(FACE)
        assert face == ['"Source Serif 4"', True], (where, scripts)


@pytest.mark.parametrize("name", ["index.html", "chapters/01_soft_lookup.html"])
def test_the_keyboard_reaches_the_text_first(visit, name):
    """The first Tab offers to skip what is around the text, and Enter does."""
    page = visit(name)
    page.keyboard.press("Tab")
    first = page.evaluate_handle("document.activeElement")
    assert first.evaluate("(link) => link.getAttribute('href')") == "#main-content"
    assert first.as_element().is_visible()
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    inside = "document.querySelector('#main-content').contains(document.activeElement)"
    assert page.evaluate(inside)
