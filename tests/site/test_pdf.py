"""The printed book (`make pdf`): complete, numbered rightly, nothing lost at an edge."""

import json
import os
import re

import pikepdf
import pypdfium2
import pypdfium2.raw as pdfium
import pytest
from bs4 import BeautifulSoup
from pages import ROOT, parsed
from test_pages import raw_tex

from browsers import find_browser

PDF = ROOT / "_build/pdf/attention-built-by-hand.pdf"
CHAPTERS = sorted(path.stem for path in (ROOT / "chapters").glob("[0-9]*.ipynb"))
MILLIMETRE = 72 / 25.4
MARGIN = 31 * MILLIMETRE
# Whatever else is in the print came from the machine that made it, and would differ elsewhere.
OUR_FONTS = re.compile(r"([A-Z]+\+)?(SourceSerif4|SourceCodePro|NotoSansSC|DejaVuSansMono|KaTeX_)")

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def pdf():
    if not PDF.is_file():
        if find_browser() is None and os.environ.get("CI") != "true":
            pytest.skip("no browser to print with")
        pytest.fail("the book is not printed; run: make pdf")
    with pikepdf.open(PDF) as pdf:
        yield pdf


@pytest.fixture(scope="module")
def places(pdf):
    """{id: page} of all places that the print links; pages count from 0."""
    found = pdf.Root.Dests.items()
    return {str(name)[1:]: pikepdf.Page(place[0]).index for name, place in found}


@pytest.fixture(scope="module")
def print_(pdf):
    with pypdfium2.PdfDocument(PDF) as document:
        yield document


@pytest.fixture(scope="module")
def texts(print_):
    """What each page says, without spaces."""
    return [squeezed(page.get_textpage().get_text_bounded()) for page in print_]


@pytest.fixture(scope="module")
def source(pdf):
    return BeautifulSoup(PDF.with_name("book.html").read_text(encoding="utf-8"), "html.parser")


def squeezed(text: str) -> str:
    return re.sub(r"\s", "", text.replace("\u00ad", "").replace("\ufffe", "-"))


def test_it_is_a_book(pdf):
    boxes = {tuple(round(float(side)) for side in page.mediabox) for page in pdf.pages}
    assert boxes == {(0, 0, 595, 842)}
    assert PDF.stat().st_size < 700_000 * len(CHAPTERS)
    assert pdf.docinfo.keys() == {"/Title", "/Author"}  # no date: the same sources, the same file
    assert pdf.Root.MarkInfo.Marked and pdf.Root.Lang == "en"


def test_bookmarks_lead_to_all_headings(print_, texts):
    found = [(item.get_title(), item.get_dest()) for item in print_.get_toc()]
    titles = [title for title, _ in found]
    chapters = [parsed(f"chapters/{chapter}.html").find("h1") for chapter in CHAPTERS]
    wanted = [" ".join(title.get_text().removesuffix("#").split()) for title in chapters]
    # Once more each, over their solutions.
    assert wanted and [title for title in titles if title in wanted] == wanted * 2
    rest = ["Contents", "Preface", "Solutions to the exercises", "Glossary", "Bibliography"]
    assert [title for title in titles if title in rest] == rest
    assert [t for t, d in found if squeezed(t) not in texts[d.get_index()]] == []
    # No heading closes a page.
    assert [title for title, place in found if place.get_view()[1][1] < 125] == []


def test_page_numbers_are_right(places, texts, source):
    numbers = source.select(".page-number")
    assert [n for n in numbers if int(n.get_text()) != places[n["data-of"]] + 1] == []
    for entry in source.select(".contents p a"):
        assert squeezed(entry.span.get_text()) in texts[places[entry["href"][1:]]]
    assert len(source.select(".exercise .see-solution")) == len(source.select(".solution")) > 10
    asked = source.select(".predict .see-solution")
    assert len(asked) == len(source.select("#solutions .fold")) > 10


def test_links_lead_somewhere(pdf, places, source):
    inside, outside = 0, 0
    for page in pdf.pages:
        for annotation in page.get("/Annots", []):
            target = str(annotation.get("/Dest") or annotation.A.get("/URI"))
            outside += target.startswith("http")
            inside += target.removeprefix("/") in places
            assert target.startswith("http") or target.removeprefix("/") in places, target
            assert ".invalid" not in target
    assert inside > 1000 and outside > 20
    # Chromium makes no link of one that leads nowhere.
    ids = {element["id"] for element in source.select("[id]")}
    lost = [link["href"] for link in source.select("a[href^='#']") if link["href"][1:] not in ids]
    assert lost == []


def test_nothing_is_left_of_the_site(source, texts):
    assert raw_tex(source) == []
    assert source.select(".math:not(:has(.katex))") == []
    assert source.select("button, form, script, summary, .headerlink, .katex-error") == []
    assert "Attention(Q,K,V)=softmax(" in "".join(texts)


def test_nothing_reaches_over_the_margins(print_, pdf):
    """Every word lies within the type area; a slanted f may lean out."""
    for number, page in enumerate(print_, start=1):
        text = page.get_textpage()
        for index in range(text.count_rects()):
            left, bottom, right, top = text.get_rect(index)
            inside = left > MARGIN - 3 and right < page.get_width() - MARGIN + 3
            assert inside, (number, text.get_text_bounded(left, bottom, right, top))
    # Where something is wider than the page, Chromium shrinks the whole book: 300 dots, 96 pixels.
    for page in pdf.pages:
        assert b"\n3.125 0 0 3.125 " in page.Contents.read_bytes().partition(b"\nW")[2]


def test_fonts_are_ours_and_inside(pdf, texts):
    fonts = [o for o in pdf.objects if isinstance(o, pikepdf.Dictionary) and "/FontName" in o]
    assert [f.FontName for f in fonts if not OUR_FONTS.match(str(f.FontName)[1:])] == []
    assert "缩放点积注意力" in "".join(texts)


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
    kind = [pdfium.FPDF_PAGEOBJ_IMAGE]
    images = [i for page in print_ for i in page.get_objects(filter=kind, max_depth=4)]
    assert len(images) == len(shown)
    for host in source.select(".live-host"):
        assert ".html" in host.select_one(".live-note").get_text()
