"""Every page as it is written: its links lead somewhere, its images speak, its equations are set.

What a browser makes of it is seen in test_every_page.py.
"""

import re
from collections import Counter
from functools import cache
from io import BytesIO
from itertools import pairwise
from urllib.parse import unquote, urlsplit

import pytest
from bs4 import BeautifulSoup
from pages import BOOK, OLD_THEME, PHONE, pages, parsed, until
from PIL import Image

PAGES = pages() or ["index.html"]
OUTSIDE = ("http:", "https:", "mailto:", "tel:")


def fetched_elsewhere(soup: BeautifulSoup) -> list[str]:
    """Also what a browser would fetch later, or only on some machines."""
    kinds = "script, img, source, video, audio, iframe, embed, object"
    kinds += ", link:not([rel=canonical], [rel=license], [rel=author])"
    found = [
        value
        for element in soup.select(kinds)
        for name in ("src", "srcset", "data", "href")
        if (value := element.get(name))
    ]
    assert found
    return [value for value in found if value.startswith((*OUTSIDE, "//"))]


@cache
def places(page: str) -> set[str]:
    """Where a link into the page can lead."""
    named = {link["name"] for link in parsed(page).find_all("a", attrs={"name": True})}
    return named | {element["id"] for element in parsed(page).find_all(id=True)}


def broken_links(page: str) -> list[str]:
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
        elif (
            parts.fragment
            and target.suffix == ".html"
            and "=" not in parts.fragment  # `#SoftLookup=…` is the state of a live figure
            and unquote(parts.fragment) not in places(target.relative_to(BOOK).as_posix())
        ):
            broken.append(f"{href}: no such place on the page")
    return broken


# What a reader would see of TeX that isn't set.
RAW_TEX = re.compile(
    r"\$[^\s$](?:[^$]*[^\s$])?\$|\\[(\[]|\\begin\{|\\(?:frac|sqrt|mathbf|mathrm|text|sum|top)\b"
)
NOT_SET = ".math:not(:has(.katex)), .katex-error, mjx-container, .MathJax, script[src*=mathjax i]"
NOT_PROSE = "code, pre, script, style, noscript, template, annotation, .katex"


def raw_tex(soup: BeautifulSoup) -> list[str]:
    skipped = {id(text) for e in soup.select(NOT_PROSE) for text in e.find_all(string=True)}
    texts = (text for text in soup.body.find_all(string=True) if id(text) not in skipped)
    return [text.strip() for text in texts if RAW_TEX.search(text)]


def parted(soup: BeautifulSoup) -> list[str]:
    """Where a line may end between a formula and the mark after it, or a number and its %."""
    article = soup.select_one("article") or soup
    found = []
    for formula in article.select(":not(.unbroken) > span.math"):
        after = formula.next_sibling
        if isinstance(after, str) and after[:1] in tuple(".,;:!?)]’”"):
            found.append(f"{formula.get_text()[:20]}{after[:10]}")
    for text in article.find_all(string=re.compile(r"\d %")):
        if text.find_parent(["code", "pre", "script", "svg", "annotation"]) is None:
            found.append(text[:80])
    return found


def wrong_images(soup: BeautifulSoup) -> list:
    """Outside the text, an image may be a decoration, which has an empty alt."""
    waiting = soup.select('img[src*="_images/"][src$=".png"]')
    return [
        *(image for image in soup.select("img") if image.get("alt") is None),
        *(image for image in soup.select("article img") if not image.get("alt", "").strip()),
        *(image for image in waiting if image.get("loading") != "lazy"),
        *(image for image in waiting if not (image.get("width") and image.get("height"))),
    ]


def wrong_headings(soup: BeautifulSoup) -> list:
    """They begin with the first and go down one at a time."""
    levels = [0] + [int(h.name[1]) for h in soup.select("main :is(h1, h2, h3, h4, h5, h6)")]
    assert len(levels) > 1
    return [pair for pair in pairwise(levels) if pair[1] > pair[0] + 1]


def wrong_titles(soup: BeautifulSoup) -> list:
    """A box opens by all of its title; nothing in there leads elsewhere."""
    return [
        *soup.select("article .dropdown:not(details), .solution:not(details)"),
        *soup.select("article details.admonition > :first-child:not(summary)"),
        *soup.select("article details.admonition > summary :is(a, button, input, [tabindex])"),
    ]


def wrong_tips(soup: BeautifulSoup) -> list:
    """A page has the tips that its links need and no others, and none can be entered."""
    tips = soup.select("[role=tooltip]")
    wanted = {link["aria-describedby"] for link in soup.select("a[aria-describedby^=tip-]")}
    return [
        *(wanted ^ {tip["id"] for tip in tips}),
        *(tip for tip in tips if not tip.get_text(strip=True) or not tip.has_attr("hidden")),
        *soup.select("[role=tooltip] :is(a, [id]), article a.reference[title]"),
    ]


@pytest.mark.parametrize("page", PAGES)
def test_a_page_as_it_is_written(book, page):
    soup = parsed(page)
    times = Counter(element["id"] for element in soup.select("[id]"))
    twice = {name for name, count in times.items() if count > 1}
    found = {
        "fetched from elsewhere": fetched_elsewhere(soup),
        "links": broken_links(page),
        "ids": sorted(twice - ({"search-input"} if OLD_THEME else set())),
        "equations": raw_tex(soup) + soup.select(NOT_SET),
        "a line may end before": parted(soup),
        "images": wrong_images(soup),
        "headings": wrong_headings(soup),
        "titles of boxes": wrong_titles(soup),
        "tips": wrong_tips(soup),
    }
    assert {kind: [str(e)[:120] for e in wrong] for kind, wrong in found.items() if wrong} == {}


def test_what_scripts_add_keeps_its_style(book):
    """No page holds a live figure's own classes before a script has run."""
    sheet = (book / "_static" / "site.css").read_text(encoding="utf-8")
    for selector in ("figure.live-figure", ".live-host[data-state]", ".live-host-message"):
        assert selector in sheet, selector


@pytest.mark.slow
@pytest.mark.skipif(OLD_THEME, reason="the keyboard doesn't reach them there")
def test_panels_beside_each_other_scroll_on_a_phone(visit):
    """They keep a legible size, and whoever has only a keyboard can scroll them."""
    unfolded = ".wide-figure:not(details *)"
    name = next(page for page in PAGES if parsed(page).select(unfolded))
    page = visit(name, viewport=PHONE)
    panels = page.locator(unfolded).first
    panels.scroll_into_view_if_needed()
    assert panels.evaluate("box => box.scrollWidth > box.clientWidth + 100")
    # The theme looks at sizes when they have settled.
    until(page, lambda: panels.get_attribute("tabindex") == "0")
    panels.focus()
    page.keyboard.press("End")
    page.keyboard.press("ArrowRight")
    until(page, lambda: panels.evaluate("box => box.scrollLeft") > 0)


# Of lines of code: whether their block scrolls, how many rows they take, how wide their room is.
LINES = """() => [...document.querySelectorAll("article .highlight:not(.cell_output *) pre .line")]
  .filter((line) => line.checkVisibility())
  .map((line) => {
    const block = line.closest("pre"), text = document.createRange();
    text.selectNodeContents(line);
    const rows = [...text.getClientRects()].filter((row) => row.width > 1);
    const lower = rows.filter((row) => row.top > rows[0].bottom - 2).map((row) => row.left);
    const room = line.clientWidth - parseFloat(getComputedStyle(line).paddingLeft);
    return [block.scrollWidth > block.clientWidth, lower.length,
      Math.min(...lower) - rows[0]?.left, room];
  })"""


@pytest.mark.slow
def test_long_lines_of_code_go_on_below_on_a_phone(visit):
    """Further to the right, but with room for words however far a line is indented."""
    page = visit("chapters/14_decoding.html", viewport=PHONE)
    lines = page.evaluate(LINES)
    assert not any(scrolls for scrolls, *_ in lines)
    assert min(room for *_, room in lines) > 140
    hangs = [hang for _, rows, hang, _ in lines if rows]
    assert hangs and min(hangs) > 20


@pytest.mark.slow
def test_a_picture_s_paper_is_the_page_s(visit):
    """On a dark page, a figure drawn on light paper isn't a bright box."""
    page = visit("chapters/03_bottleneck.html", color_scheme="dark")
    picture = page.locator(".cell_output img").first
    picture.scroll_into_view_if_needed()
    page.wait_for_function("(image) => image.complete", arg=picture.element_handle())
    paper = page.evaluate(
        "getComputedStyle(document.body).backgroundColor.match(/\\d+/g).map(Number)"
    )
    shown = Image.open(BytesIO(picture.screenshot())).convert("RGB")
    assert max(abs(a - b) for a, b in zip(shown.getpixel((1, 1)), paper, strict=True)) <= 6
    darkest, brightest = shown.convert("L").getextrema()
    assert darkest < 60 and brightest > 190  # it is to be seen
