"""The printed book (`make pdf`): complete, numbered rightly, nothing lost at an edge."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import sys
from collections import defaultdict
from types import SimpleNamespace

import pypdfium2
import pypdfium2.raw as pdfium
import pytest
from bs4 import BeautifulSoup
from pages import ROOT, parsed
from pypdf import PdfReader
from test_pages import raw_tex

from browsers import find_browser

PDF = ROOT / "_build/pdf/attention-built-by-hand.pdf"
SOURCE = ROOT / "_build/pdf/pages/book.html"
CHAPTERS = sorted(path.stem for path in (ROOT / "chapters").glob("[0-9]*.ipynb"))
MILLIMETRE = 72 / 25.4
MARGIN = 31 * MILLIMETRE
# Whatever else is in the print came from the machine that made it, and would differ elsewhere.
OUR_FONTS = re.compile(r"/([A-Z]+\+)?(SourceSerif4|SourceCodePro|NotoSansSC|DejaVuSansMono|KaTeX_)")

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def pdf():
    if not PDF.is_file():
        if find_browser() is None and os.environ.get("CI") != "true":
            pytest.skip("no browser to print with")
        pytest.fail("the book is not printed; run: make pdf")
    return PdfReader(PDF)


@pytest.fixture(scope="module")
def print_(pdf):
    with pypdfium2.PdfDocument(PDF) as document:
        yield document


@pytest.fixture(scope="module")
def texts(pdf, print_):
    """What each page says, with single spaces."""
    return [plain(page.get_textpage().get_text_bounded()) for page in print_]


@pytest.fixture(scope="module")
def source(pdf):
    return BeautifulSoup(SOURCE.read_text(encoding="utf-8"), "html.parser")


@pytest.fixture(scope="module")
def headings(pdf):
    """(title, page) of all bookmarks, in order; pages count from 1."""

    return [
        (plain(item.title), pdf.get_destination_page_number(item) + 1) for item in flat(pdf.outline)
    ]


def flat(items):
    for item in items:
        if isinstance(item, list):
            yield from flat(item)
        else:
            yield item


def plain(text: str) -> str:
    return " ".join(text.replace("\u00ad", "").replace("\ufffe", "-").split())


def squeezed(text: str) -> str:
    return re.sub(r"\s", "", text)


def links(pdf):
    """(page, its link's place in the book or address) of all links; pages count from 1."""
    for number, page in enumerate(pdf.pages, start=1):
        for annotation in page.get("/Annots", []):
            annotation = annotation.get_object()
            if annotation["/Subtype"] == "/Link":
                action = annotation.get("/A", {})
                yield number, annotation.get("/Dest") or action.get("/URI") or action.get("/D")


def test_it_is_a_book(pdf):
    assert len(pdf.pages) > 60
    boxes = {(round(page.mediabox.width), round(page.mediabox.height)) for page in pdf.pages}
    assert boxes == {(595, 842)}
    assert PDF.stat().st_size < 2_000_000 + 700_000 * len(CHAPTERS)
    assert pdf.metadata.title == "Attention, Built by Hand"
    assert pdf.metadata.author
    assert pdf.metadata.creation_date is None  # the same sources make the same book
    assert pdf.trailer["/Root"]["/MarkInfo"]["/Marked"] == True  # noqa: E712 (pypdf's own type)
    assert pdf.trailer["/Root"]["/Lang"] == "en"


def test_chapters_are_in_the_outline_in_order(headings):
    titles = [title for title, _ in headings]
    chapters = [parsed(f"chapters/{chapter}.html").find("h1") for chapter in CHAPTERS]
    wanted = [plain(title.get_text()).removesuffix("#") for title in chapters]
    # Once more each, over their solutions.
    assert wanted and [title for title in titles if title in wanted] == wanted * 2
    rest = ["Contents", "Preface", "Solutions to the exercises", "Glossary", "Bibliography"]
    assert [title for title in titles if title in rest] == rest
    pages = [page for _, page in headings]
    assert pages == sorted(pages)


def test_headings_are_where_the_outline_says(headings, texts):
    pages = [squeezed(text) for text in texts]
    lost = [(title, page) for title, page in headings if squeezed(title) not in pages[page - 1]]
    assert lost == []


def test_contents_name_the_pages_where_headings_are(pdf, headings, texts, source):
    pages = {title: page for title, page in headings}
    first, last = pages["Contents"], pages["Preface"]
    text = " ".join(texts[first - 1 : last - 1])
    places = {name.removeprefix("/"): place for name, place in pdf.named_destinations.items()}
    entries = source.select(".contents p a")
    assert len(entries) > 40
    for entry in entries:
        page = pdf.get_destination_page_number(places[entry["href"][1:]]) + 1
        title = squeezed(entry.span.get_text())
        assert title in squeezed(texts[page - 1])
        assert f"{title}{page}" in squeezed(text)
    listed = [plain(entry.span.get_text()) for entry in entries]
    assert set(listed) <= {title for title, _ in headings}


def test_numbers_in_the_text_are_pages(pdf, source):
    places = {name.removeprefix("/"): place for name, place in pdf.named_destinations.items()}
    numbers = source.select(".page-number")
    for number in numbers:
        page = pdf.get_destination_page_number(places[number["data-of"]]) + 1
        assert int(number.get_text()) == page
    assert len(source.select(".exercise .page-number")) == len(source.select(".solution")) > 10


def test_links_lead_somewhere(pdf, texts):
    places = {name.removeprefix("/") for name in pdf.named_destinations}
    inside, outside, broken = 0, 0, []
    for page, target in links(pdf):
        if str(target).startswith(("http://", "https://")):
            outside += 1
            if ".invalid" in target:
                broken.append((page, target))
        elif str(target).removeprefix("/") in places:
            inside += 1
        else:
            broken.append((page, target))
    assert broken == []
    assert inside > 150
    assert outside > 20


def test_links_go_through(source):
    """Terms, works, equations, figures and chapters are linked from elsewhere in the book."""
    targets = {link["href"] for link in source.select("main a.internal, .chapter a.internal")}
    for part in ("--term-", "--eq-", "chapters-notation", "--id"):
        assert any(part in target for target in targets), part


def test_nothing_is_left_of_the_site(source, texts):
    assert raw_tex(source) == []
    text = " ".join(texts)
    for gone in ("Open this", "Close this", "works in this page"):
        assert gone not in text
    assert source.select("button, script, noscript, .headerlink, [data-model], .katex-error") == []


def test_nothing_reaches_over_the_margins(print_):
    """Every word lies within the type area (a slanted f may lean out), or above or below it."""
    over = defaultdict(set)
    for number, page in enumerate(print_, start=1):
        text = page.get_textpage()
        for index in range(text.count_rects()):
            left, bottom, right, top = text.get_rect(index)
            if left < MARGIN - 3 or right > page.get_width() - MARGIN + 3:
                over[number].add(text.get_text_bounded(left, bottom, right, top))
            assert bottom > 8 * MILLIMETRE and top < page.get_height() - 8 * MILLIMETRE
    assert dict(over) == {}


def test_nothing_is_wider_than_the_page(pdf):
    """Chromium would shrink the whole book until it fits."""
    margins = re.compile(rb"/Artifact <</Type /Pagination>> BDC.*?\nQ\nEMC\n", re.DOTALL)
    for number, page in enumerate(pdf.pages, start=1):
        body = margins.sub(b"", page["/Contents"].get_data(), count=1)
        assert b"\n3.125 0 0 3.125 " in body, number  # 300 dots for 96 pixels


def test_headings_have_text_below_them(pdf, headings):
    """No heading closes a page."""
    low = [item.title for item in flat(pdf.outline) if float(item["/Top"]) < 125]
    assert low == []


def fonts(pdf):
    found = {}

    def look(resources):
        for font in resources.get("/Font", {}).values():
            found[font.indirect_reference.idnum] = font.get_object()
        for thing in resources.get("/XObject", {}).values():
            if "/Resources" in thing.get_object():
                look(thing.get_object()["/Resources"])

    for page in pdf.pages:
        look(page["/Resources"])
    return list(found.values())


def test_fonts_are_ours_and_inside(pdf):
    strange, missing = [], []
    for font in fonts(pdf):
        if font["/Subtype"] == "/Type3":  # its shapes are in the file
            name = font.get("/FontDescriptor", {}).get("/FontName", "/NotoSansSC")
        else:
            inner = font["/DescendantFonts"][0] if "/DescendantFonts" in font else font
            name = inner["/BaseFont"]
            if not {"/FontFile", "/FontFile2", "/FontFile3"} & inner["/FontDescriptor"].keys():
                missing.append(name)
        if not OUR_FONTS.match(name):
            strange.append(name)
    assert strange == [] and missing == []


def test_chinese_shows(texts):
    text = squeezed("".join(texts))
    for word in ("注意力", "查询", "缩放点积注意力", "自注意力"):
        assert word in text


def test_missing_fonts_are_named(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "_ext")
    spec = importlib.util.spec_from_file_location("pdf", ROOT / "_ext/pdf.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    with pytest.raises(FileNotFoundError, match="noto-sans-sc"):
        module.PdfBuilder.fonts(SimpleNamespace(srcdir=tmp_path))
    sys.modules.pop("pdf_book", None)


def test_every_picture_is_there(print_, source):
    """As many as the notebooks store, and those that other pages show of theirs."""
    stored = 0
    for chapter in [*CHAPTERS, "real_translator", "project"]:
        notebook = json.loads((ROOT / f"chapters/{chapter}.ipynb").read_text(encoding="utf-8"))
        for cell in notebook["cells"]:
            if "remove-cell" not in cell["metadata"].get("tags", []):
                outputs = cell.get("outputs", [])
                stored += sum("image/png" in output.get("data", {}) for output in outputs)
    shown = source.select("img")
    assert len([i for i in shown if not i.find_parent(id="index")]) == stored > 10
    images = [
        thing
        for page in print_
        for thing in page.get_objects(filter=[pdfium.FPDF_PAGEOBJ_IMAGE], max_depth=4)
    ]
    assert len(images) == len(shown)
    assert all(image["alt"].strip() for image in shown)


def test_live_figures_say_where_they_live(source):
    hosts = source.select(".live-picture")
    assert len(hosts) >= 4
    for host in hosts:
        assert host.find("img")
        note = (host.find_parent("figure") or host).select_one(".live-note")
        assert ".html" in note.get_text()


def test_equations_are_set(source, texts):
    text = squeezed("".join(texts))
    assert "Attention(Q,K,V)=softmax(" in text
    assert source.select(".math:not(:has(.katex))") == []
    assert len(source.select("div.math")) >= 10


def test_running_titles_leave_openings_alone(pdf, headings, texts):
    """A chapter's first page has no title above the title; its next right-hand pages have."""
    book = "Attention, Built by Hand"
    pages = {title: page for title, page in reversed(headings)}
    title, opening = next((t, p) for t, p in pages.items() if t.startswith("1. "))
    assert texts[opening - 1].count(title.removeprefix("1. ")) == 1
    following = range(opening + 1, opening + 5)
    for page in following:
        running = book if page % 2 == 0 else title
        assert running in texts[page - 1], page
        assert texts[page - 1].endswith(str(page)) or str(page) in texts[page - 1]
