"""Build the book for paper and print it: `make pdf`.

    python _ext/pdf_print.py          # -> _build/pdf/attention-built-by-hand.pdf

Sphinx makes one HTML file (pdf.py), Chromium prints it, twice: the first print says on which page
each heading lands, the second has these numbers in its contents. No TeX. What Chromium cannot do is
done to its print: no running title above a chapter's first lines, margins marked as no part of the
text, dates that depend on the sources alone.
"""

import io
import logging
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pikepdf
from bs4 import BeautifulSoup
from pypdf import PdfReader, PdfWriter
from pypdf.generic import NameObject, TextStringObject

logging.getLogger("pypdf").setLevel(logging.ERROR)  # Chromium counts its objects its own way
ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "_build/pdf"
PDF = FOLDER / "attention-built-by-hand.pdf"  # also in pdf.py, which links it
ARGUMENTS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--no-pdf-header-footer",
    "--generate-pdf-document-outline",
    "--virtual-time-budget=60000",  # until all fonts are there
]
OPEN_NUMBER = re.compile(r'(<span class="page-number" data-of="([^"]+)">)\d+(</span>)')
# A page's content may begin with a block that paints its margins, one text object for each box;
# nothing in it belongs to the tagged text.
MARGINS = re.compile(rb"\bq\n.*?\nQ\n", re.DOTALL)
TEXT = re.compile(rb"BT\n.*?\bET\n", re.DOTALL)


def find_browser():
    names = [os.environ.get("CHROME_PATH"), "chromium", "chromium-browser", "google-chrome"]
    names.append("chromium-headless-shell")
    found = next((path for name in names if name and (path := shutil.which(name))), None)
    if found is None:
        sys.exit(
            f"make pdf needs Chromium or Chrome: {', '.join(filter(None, names))}: none is here"
        )
    return found


def build():
    """Everything Sphinx does; its caches are not those of the site's build."""
    from jupyter_book.sphinx import build_sphinx

    result = build_sphinx(
        str(ROOT),
        str(FOLDER / "pages"),
        noconfig=True,
        path_config=str(ROOT / "_config.yml"),
        confoverrides={
            "external_toc_path": (ROOT / "_toc.yml").as_posix(),
            "latex_individualpages": False,
            "nitpicky": True,
        },
        doctreedir=str(FOLDER / "doctrees"),
        builder="pdf",
        warningiserror=True,
        keep_going=True,
        quiet=True,
    )
    if result:
        if isinstance(result, Exception):
            raise result
        sys.exit(result)
    return FOLDER / "pages/book.html"


def print_page(browser, html, pdf):
    with tempfile.TemporaryDirectory() as profile:
        command = [browser, *ARGUMENTS, f"--user-data-dir={profile}", f"--print-to-pdf={pdf}"]
        done = subprocess.run([*command, html.as_uri()], capture_output=True, text=True)
    if done.returncode or not pdf.is_file():
        sys.exit(f"{browser} could not print {html}:\n{done.stderr}")


def pages_of(pdf):
    """{id: page number, counted from 1} of all places that a link in the book leads to."""
    reader = PdfReader(pdf)
    return {
        name.removeprefix("/"): reader.get_destination_page_number(place) + 1
        for name, place in reader.named_destinations.items()
    }


def fill(text, pages):
    return OPEN_NUMBER.sub(lambda found: f"{found[1]}{pages[found[2]]}{found[3]}", text)


def print_with_numbers(browser, html, pdf):
    """Print until the numbers in the text are the numbers of the pages; twice is the rule."""
    text = html.read_text(encoding="utf-8")
    for _ in range(4):
        print_page(browser, html, pdf)
        pages = pages_of(pdf)
        filled = fill(text, pages)
        if filled == text:
            return
        text = filled
        html.write_text(text, encoding="utf-8")
    sys.exit("the page numbers do not come to rest")


def finish(source, html, target):
    """What Chromium cannot do: bookmarks' names, opening pages, margins, who wrote it."""
    writer = PdfWriter(clone_from=source)
    openings = {
        writer.get_destination_page_number(place)
        for name, place in writer.named_destinations.items()
        if "--" not in name
    }
    for number, page in enumerate(writer.pages):
        content = page["/Contents"].get_object()
        content.set_data(tidy_margins(content.get_data(), number in openings))
    book = BeautifulSoup(html.read_text(encoding="utf-8"), "html.parser")
    titles = [" ".join(h.get_text().split()) for h in book.find_all(re.compile("^h[1-6]$"))]
    # Chromium leaves out the space at which a heading's line breaks.
    for item, title in zip(bookmarks(writer.root_object["/Outlines"]), titles, strict=True):
        item[NameObject("/Title")] = TextStringObject(title)
    # No dates: the same sources make the same file.
    writer.metadata = None
    author = book.find("meta", attrs={"name": "author"})["content"]
    writer.add_metadata({"/Title": book.title.get_text(), "/Author": author})
    writer.root_object[NameObject("/PageMode")] = NameObject("/UseOutlines")
    loose = io.BytesIO()
    writer.write(loose)
    # What screen readers follow are a hundred thousand small objects: packed, a third of the bytes.
    with pikepdf.open(loose) as pdf:
        packed = pikepdf.ObjectStreamMode.generate
        pdf.save(target, object_stream_mode=packed, deterministic_id=True)


def tidy_margins(content, opening):
    def tidy(block):
        if b"BDC" in block[0]:
            return block[0]
        boxes = TEXT.findall(block[0])
        kept = TEXT.sub(
            lambda box: b"" if opening and box[0] is not boxes[-1] else box[0], block[0]
        )
        return b"/Artifact <</Type /Pagination>> BDC\n" + kept + b"EMC\n"

    return MARGINS.sub(tidy, content, count=1)


def bookmarks(parent):
    """All items of an outline, in the order of reading."""
    item = parent.get("/First")
    while item is not None:
        item = item.get_object()
        yield item
        yield from bookmarks(item)
        item = item.get("/Next")


def main():
    PDF.unlink(missing_ok=True)  # a print of other sources is worse than none
    browser = find_browser()
    html = build()
    draft = FOLDER / "pages/draft.pdf"
    print_with_numbers(browser, html, draft)
    finish(draft, html, PDF)
    print(f"The book on paper: {PDF} ({len(PdfReader(PDF).pages)} pages)")


if __name__ == "__main__":
    main()
