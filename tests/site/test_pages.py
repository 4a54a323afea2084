"""Every page of the built site: it asks nobody else, its links lead somewhere, it fits a phone."""

from __future__ import annotations

from urllib.parse import unquote, urlsplit

import pytest
from pages import BOOK, pages, parsed

PAGES = pages() or ["index.html"]
OUTSIDE = ("http:", "https:", "mailto:", "tel:")
every_page = pytest.mark.parametrize("page", PAGES)


def test_the_book_is_all_there(book):
    """A site that lost its chapters would pass everything else."""
    chapters = {page for page in PAGES if page.startswith("chapters/")}
    assert {"index.html", "search.html"} <= set(PAGES)
    assert chapters
    sources = {
        f"chapters/{path.stem}.html"
        for path in (BOOK / "_sources" / "chapters").glob("*")
        if path.suffix in (".ipynb", ".md")
    }
    assert chapters == sources


@pytest.mark.browser
@pytest.mark.parametrize("scheme", ["http", "file"])
@every_page
def test_a_page_asks_nobody_else(visit, page, scheme):
    _, watch = visit(page, scheme)
    assert watch.complaints == {}


@pytest.mark.browser
@pytest.mark.parametrize(
    "markup, kind",
    [
        ('<img src="https://example.com/pixel.png" alt="">', "foreign"),
        ('<script src="missing.js"></script>', "failed"),
        ("<script>fetch('https://example.com/')</script>", "foreign"),
        ("<script>new WebSocket('wss://example.com/')</script>", "foreign"),
        ("<script>console.error('no')</script>", "errors"),
        ("<script>throw new Error('no')</script>", "errors"),
        ("<script>import('https://example.com/module.js')</script>", "foreign"),
        ("<style>@import url(https://example.com/font.css)</style>", "foreign"),
    ],
)
def test_the_watch_sees(browser, tmp_path, markup, kind):
    from pages import Watch, serving

    (tmp_path / "index.html").write_text(
        f'<!DOCTYPE html><link rel="icon" href="data:,"><p>Hm.</p>{markup}'
    )
    context = browser.new_context()
    try:
        with serving(tmp_path) as base:
            watch = Watch(context, base)
            page = context.new_page()
            page.goto(base + "index.html", wait_until="networkidle")
            assert kind in watch.complaints
    finally:
        context.close()


@every_page
def test_nothing_is_linked_from_elsewhere(book, page):
    """Also what a browser would fetch later, or only on some machines."""
    fetched = [
        (element.name, element.get(attribute))
        for selector, attribute in [
            ("script[src]", "src"),
            ("img[src], source[src], video[src], audio[src], iframe[src], embed[src]", "src"),
            ("[srcset]", "srcset"),
            ("object[data]", "data"),
            ("link[href]:not([rel=canonical], [rel=license], [rel=author])", "href"),
        ]
        for element in parsed(page).select(selector)
    ]
    assert fetched
    elsewhere = [found for found in fetched if found[1].startswith((*OUTSIDE, "//"))]
    assert elsewhere == []


@every_page
def test_links_lead_somewhere(book, page):
    broken = []
    for link in parsed(page).select("a[href]"):
        href = link["href"]
        if href.startswith(OUTSIDE):
            if urlsplit(href).hostname.endswith(".invalid"):
                broken.append(f"{href}: leads nowhere until the address is set")
            continue
        parts = urlsplit(href)
        target = (BOOK / page).parent / unquote(parts.path) if parts.path else BOOK / page
        target = target.resolve()
        if not target.is_file() or BOOK not in target.parents:
            broken.append(f"{href}: no such file")
        elif parts.fragment and target.suffix == ".html" and not in_figure(parts.fragment):
            there = parsed(target.relative_to(BOOK).as_posix())
            fragment = unquote(parts.fragment)
            if not there.find(id=fragment) and not there.find("a", attrs={"name": fragment}):
                broken.append(f"{href}: no such place on the page")
    assert broken == []


def in_figure(fragment: str) -> bool:
    """`#SoftLookup=…` is the state of a live figure."""
    return "=" in fragment


@every_page
def test_images_speak(book, page):
    silent = [
        str(image)[:120] for image in parsed(page).select("img") if not image.get("alt", "").strip()
    ]
    assert silent == []


@every_page
def test_ids_are_unique(book, page):
    ids = [element["id"] for element in parsed(page).select("[id]")]
    assert sorted({name for name in ids if ids.count(name) > 1}) == []


# Text nodes that a reader sees, code apart: TeX there is TeX that nobody set.
RAW_TEX = r"""
() => {
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  const skip = "code, pre, script, style, noscript, template, annotation, textarea, .katex";
  const raw = /\$[^\s$][^$]*\$|\\\(|\\\[|\\begin\{|\\(?:frac|sqrt|mathbf|mathrm|text|sum|top)\b/;
  const found = [];
  while (walker.nextNode()) {
    const node = walker.currentNode;
    if (!node.parentElement.closest(skip) && raw.test(node.data)) found.push(node.data.trim());
  }
  return found;
}
"""


@pytest.mark.browser
@every_page
def test_equations_are_set(visit, page):
    shown, _ = visit(page)
    assert shown.evaluate(RAW_TEX) == []
    assert shown.locator(".math:not(:has(.katex)), .katex-error").count() == 0
    assert shown.locator("mjx-container, .MathJax, script[src*=mathjax i]").count() == 0


@pytest.mark.browser
def test_raw_tex_is_found(browser):
    context = browser.new_context()
    page = context.new_page()
    page.set_content(r"<p>As $x^2$ and \frac{1}{2}.</p><code>$x$</code><p>It costs $5 or 5 $.</p>")
    found = page.evaluate(RAW_TEX)
    context.close()
    assert found == [r"As $x^2$ and \frac{1}{2}."]


@pytest.mark.browser
@pytest.mark.parametrize("width", [390, 320])
@every_page
def test_a_page_fits_a_phone(visit, page, width):
    shown, _ = visit(page, viewport={"width": width, "height": 844})
    shown.evaluate("window.scrollTo(500, 0)")
    too_wide = """
        () => [...document.querySelectorAll("main *")]
            .filter((e) => e.getBoundingClientRect().right > innerWidth + 1)
            .map((e) => e.tagName + "." + e.className).slice(0, 5)
    """
    assert shown.evaluate("window.scrollX") == 0, shown.evaluate(too_wide)
    assert shown.evaluate("document.documentElement.scrollWidth") <= width, shown.evaluate(too_wide)
