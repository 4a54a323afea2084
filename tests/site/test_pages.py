"""Every page as it is written: its links lead somewhere, its images speak, its equations are set.

What a browser makes of it is seen in test_weight.py (over http) and test_accessibility.py (a file).
"""

from __future__ import annotations

import re
from collections import Counter
from functools import cache
from importlib.util import find_spec
from io import BytesIO
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from bs4 import BeautifulSoup
from pages import BOOK, OLD_THEME, ROOT, SIGNS, pages, parsed, signs, until
from PIL import Image

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


@every_page
def test_what_is_read_off_the_text_is_on_the_page(book, page):
    for selector in SIGNS:
        assert len(signs(page, selector)) == len(parsed(page).select(selector)), selector
    models = [host["data-model"] for host in parsed(page).select("[data-model]")]
    assert signs(page, "[data-model]") == models


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


@cache
def places(page: str) -> set[str]:
    """Where a link into the page can lead."""
    named = {link["name"] for link in parsed(page).find_all("a", attrs={"name": True})}
    return named | {element["id"] for element in parsed(page).find_all(id=True)}


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
        elif (
            parts.fragment
            and target.suffix == ".html"
            and not in_figure(parts.fragment)
            and unquote(parts.fragment) not in places(target.relative_to(BOOK).as_posix())
        ):
            broken.append(f"{href}: no such place on the page")
    assert broken == []


def in_figure(fragment: str) -> bool:
    """`#SoftLookup=…` is the state of a live figure."""
    return "=" in fragment


@every_page
def test_images_speak(book, page):
    """Outside the text an image may be mere decoration, and says so with an empty alt."""
    soup = parsed(page)
    silent = [image for image in soup.select("img") if image.get("alt") is None]
    silent += [image for image in soup.select("article img") if not image.get("alt", "").strip()]
    assert [str(image)[:120] for image in silent] == []


@every_page
def test_ids_are_unique(book, page):
    times = Counter(element["id"] for element in parsed(page).select("[id]"))
    twice = {name for name, count in times.items() if count > 1}
    assert twice - ({"search-input"} if OLD_THEME else set()) == set()


# TeX that nobody set, as a reader would see it.
RAW_TEX = re.compile(
    r"\$[^\s$](?:[^$]*[^\s$])?\$|\\[(\[]|\\begin\{|\\(?:frac|sqrt|mathbf|mathrm|text|sum|top)\b"
)
NOT_PROSE = "code, pre, script, style, noscript, template, annotation, .katex"


def raw_tex(soup: BeautifulSoup) -> list[str]:
    skipped = {id(text) for e in soup.select(NOT_PROSE) for text in e.find_all(string=True)}
    texts = (text for text in soup.body.find_all(string=True) if id(text) not in skipped)
    return [text.strip() for text in texts if RAW_TEX.search(text)]


@every_page
def test_equations_are_set(book, page):
    soup = parsed(page)
    assert raw_tex(soup) == []
    assert [str(e)[:120] for e in soup.select(".math:not(:has(.katex)), .katex-error")] == []
    assert soup.select("mjx-container, .MathJax, script[src*=mathjax i]") == []


@pytest.mark.slow
def test_panels_beside_each_other_scroll_on_a_phone(visit):
    """They keep a legible size, and whoever has only a keyboard can scroll them."""
    unfolded = ".wide-figure:not(details *)"
    name = next(page for page in PAGES if parsed(page).select(unfolded))
    page, _ = visit(name, figures=".nothing", viewport={"width": 390, "height": 844})
    panels = page.locator(unfolded).first
    panels.scroll_into_view_if_needed()
    assert panels.evaluate("box => box.scrollWidth > box.clientWidth + 100")
    # The theme looks at sizes when they have settled.
    until(page, lambda: panels.get_attribute("tabindex") == "0")
    panels.focus()
    page.keyboard.press("End")
    page.keyboard.press("ArrowRight")
    until(page, lambda: panels.evaluate("box => box.scrollLeft") > 0)


MARKS = ".,;:!?)]’”"


def parted(page: str) -> list[str]:
    """Where a line may end between a formula and the mark behind it, or a number and its %."""
    article = parsed(page).select_one("article") or parsed(page)
    found = []
    for formula in article.select(":not(.unbroken) > span.math"):
        behind = formula.next_sibling
        if isinstance(behind, str) and behind[:1] in tuple(MARKS):
            found.append(f"{formula.get_text()[:20]}{behind[:10]}")
    for text in article.find_all(string=re.compile(r"\d %")):
        if text.find_parent(["code", "pre", "script", "svg", "annotation"]) is None:
            found.append(text[:80])
    return found


@every_page
def test_a_line_ends_neither_before_a_comma_nor_before_a_percent_sign(book, page):
    assert parted(page) == []


# How many blocks of code scroll; and for each row that a line of code goes on in, how many letters
# to the right of the line's begin it stands.
ROWS = """() => {
    const code = [...document.querySelectorAll("article div.highlight:not(.cell_output *) pre")];
    const seen = code.filter((block) => block.checkVisibility());
    const hangs = (line) => {
        const text = document.createRange();
        text.selectNodeContents(line);
        const [first, ...rows] = [...text.getClientRects()].filter((row) => row.width > 1);
        const letter = parseFloat(getComputedStyle(line).fontSize) * 0.6;
        const cut = line.querySelector(".deep-indent")?.textContent.length ?? 0;
        const indent = (line.textContent.search(/\\S/) - cut) * letter;
        const begin = line.getBoundingClientRect().left + indent;
        return rows.filter((row) => row.top > first.bottom - 2)
            .map((row) => Math.round((row.left - begin) / letter));
    };
    return {
        scrolling: seen.filter((block) => block.scrollWidth > block.clientWidth).length,
        hangs: seen.flatMap((block) => [...block.querySelectorAll(".line")].flatMap(hangs)),
    };
}"""


@pytest.mark.slow
@pytest.mark.parametrize("stem", ["06_many_heads", "13_training", "14_decoding", "one_page"])
def test_long_lines_of_code_go_on_below_on_a_phone(visit, stem):
    phone = {"width": 390, "height": 844}
    page, _ = visit(f"chapters/{stem}.html", figures=".nothing", viewport=phone)
    found = page.evaluate(ROWS)
    assert found["scrolling"] == 0
    assert found["hangs"] and min(found["hangs"]) >= 3  # four letters, as wide as the font has them
    # However far a line is indented, there is room for its words.
    widths = page.evaluate("""() => [...document.querySelectorAll("article .deep-indent")]
        .map((indent) => indent.closest(".line"))
        .filter((line) => !line.closest(".cell_output"))
        .filter((line) => line.checkVisibility())
        .map((line) => line.clientWidth - parseFloat(getComputedStyle(line).paddingLeft))""")
    assert all(width > 140 for width in widths)
    assert widths or stem != "14_decoding"


# Where our own code gives an element its class, in Python, JavaScript, templates and Markdown.
CLASS = re.compile(
    r"""(?:class(?:Name)?["']?\s*[=:]|classes=\[|\["classes?"\](?:\.append\(|\s*=\s*\[)"""
    r"""|classList\.\w+\()\s*(["'`])(.*?)\1"""
)
IN_MARKDOWN = re.compile(r"^(?::class:|[`:]{3,}\{container\}) (.+)", re.MULTILINE)
# Classes of the theme and of Sphinx on elements that should look as theirs do.
THEIRS_ON_PURPOSE = {
    "active", "admonition", "admonition-title", "article-header-buttons", "btn", "eqno",
    "jp-RenderedHTMLCommon", "prev-next-area", "prev-next-info", "prev-next-subtitle",
    "prev-next-title", "pst-scrollable-table-container", "reference", "search-button-field",
    "simple", "theme-switch", "viewcode-back",
}  # fmt: skip


def own_classes() -> set[str]:
    found = []
    for folder, kinds in (("_ext", {".py", ".js", ".html"}), ("transformer_lib/figures", {".js"})):
        for path in (ROOT / folder).rglob("*.*"):
            if path.suffix in kinds and not path.stem.startswith("pdf"):  # paper has no theme
                found += [text for _, text in CLASS.findall(path.read_text(encoding="utf-8"))]
    for path in [ROOT / "index.md", *(ROOT / "chapters").glob("*.md")]:
        found += IN_MARKDOWN.findall(path.read_text(encoding="utf-8"))
    return {name for text in found for name in re.findall(r"(?<![\w{-])[a-zA-Z][\w-]*", text)}


def their_classes() -> set[str]:
    """All that style sheets of packages have rules for; the theme's sheet holds the icons', too."""
    found = set()
    for package in ("sphinx_book_theme", "pydata_sphinx_theme", "sphinx", "sphinx_design",
                    "sphinx_copybutton", "sphinx_togglebutton", "myst_nb"):  # fmt: skip
        for path in Path(find_spec(package).origin).parent.rglob("*.css*"):
            if path.suffix == ".map":
                continue
            sheet = re.sub(r"/\*.*?\*/|url\([^)]*\)", "", path.read_text("utf-8"), flags=re.DOTALL)
            for selector in re.findall(r"([^{};]+)\{", sheet):
                found |= set(re.findall(r"\.([a-zA-Z_][\w-]*)", selector))
    return found


def test_no_class_of_ours_is_one_of_the_theme_s():
    """`far` for an indent was also the icon font's, which drew it in a proportional font."""
    ours, theirs = own_classes(), their_classes()
    assert {"line", "live-host", "lf-title", "predict-kept", "your-predictions"} <= ours
    assert {"far", "lead", "fa-solid", "btn"} <= theirs
    assert ours & theirs == THEIRS_ON_PURPOSE


@pytest.mark.slow
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_a_picture_s_paper_is_the_page_s(visit, theme):
    """A figure drawn on light paper is no bright box in a dark page."""
    page, _ = visit("chapters/03_bottleneck.html", color_scheme=theme)
    picture = page.locator(".cell_output img").first
    picture.scroll_into_view_if_needed()
    page.wait_for_function("(image) => image.complete", arg=picture.element_handle())
    box = picture.bounding_box()
    clip = {"x": box["x"], "y": box["y"], "width": 3, "height": 3}
    corner = Image.open(BytesIO(page.screenshot(clip=clip))).convert("RGB").getpixel((1, 1))
    paper = page.evaluate(
        "getComputedStyle(document.body).backgroundColor.match(/\\d+/g).map(Number)"
    )
    assert max(abs(a - b) for a, b in zip(corner, paper, strict=True)) <= 6
    colors = Image.open(BytesIO(picture.screenshot())).convert("L").getextrema()
    assert colors[0] < 60 and colors[1] > 190  # it is to be seen
