"""Print the book with Chromium: `make pdf`.

    python _ext/pdf.py          # the built site -> _build/pdf/attention-built-by-hand.pdf

The pages' texts become one HTML file, and Chromium prints it twice: the first print says on which
page each place lands, the second has these numbers. The site's pages then link the print.
"""

import os
import posixpath
import re
import shutil
import subprocess
import sys
import tempfile
from html import escape
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pikepdf
from bs4 import BeautifulSoup

from repository import facts

ROOT = Path(__file__).resolve().parents[1]
SITE = ROOT / "_build/html"
HTML = ROOT / "_build/pdf/book.html"
PDF = HTML.with_name("attention-built-by-hand.pdf")
TITLE = "Attention, Built by Hand"
SUBTITLE = "The Transformer, from a dictionary lookup to a translator you train yourself"
# To be searched, or to be touched.
ON_SCREEN = re.compile(r"reference/|chapters/(?:live_figures|translator|predictions|teach)")
NOT_FOR_PAPER = """
    .headerlink, button, script, .toctree-wrapper, .start-reading, .tips, .predict-live,
    .katex-mathml, .glossary-letters, .first-linked, details.hide > summary,
    .deeper > summary > span,
    #try-what-you-ll-build, #the-next-five-minutes, #how-to-read-it > p:first-of-type
"""
FONTS = [
    "@fontsource/source-serif-4/400.css",
    "@fontsource/source-serif-4/400-italic.css",
    "@fontsource/source-serif-4/600.css",
    "@fontsource/source-serif-4/600-italic.css",
    "@fontsource/source-code-pro/400.css",
    "@fontsource/source-code-pro/600.css",
    "@fontsource/dejavu-mono/400.css",
    "@fontsource-variable/noto-sans-sc/index.css",
    "katex/dist/katex.min.css",
]
LINES_KEPT_TOGETHER = 16
# Points per pixel: a drawn figure is 144 pixels to the inch, and its labels become a little smaller
# than the text; a live figure's picture stays somewhat larger.
DRAWN, LIVE = 0.4, 0.46
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
HEADING = re.compile("^h[1-6]$")
PAGE_NUMBER = re.compile(r'(<span class="page-number" data-of="([^"]+)">)\d+')


def parse(html):
    return BeautifulSoup(html, "html.parser")


# ---- One page of the site ------------------------------------------------------------------------


def key(docname):
    """What a page's ids begin with: every chapter has a section called `exercises`."""
    return docname.replace("/", "-")


def on_paper(docname, html, docnames, address):
    """A page's text without what paper cannot do.

    Args:
        docnames: the pages in the book; links to others lead to the site, or become text.
        address: where the site is; empty while nobody has said.
    """
    text = parse(html).article
    for element in text.select(NOT_FOR_PAPER):
        element.decompose()
    for summary in text.select("summary"):
        summary.name = "p" if "admonition-title" in summary.get("class", []) else "div"
    for code in text.select("details.hide"):
        code.unwrap()
    for fold in text.select("details"):
        fold.name = "div"
    for host in text.select(".live-host"):
        place = f"{address}{docname}.html"
        note = f"In the site, at <code>{escape(place)}</code>, this figure moves."
        host.append(parse(f'<p class="live-note">{note}</p>'))
    for element in text.select("[id]"):
        element["id"] = f"{key(docname)}--{element['id']}"
    for link in text.select("a[href]"):
        follow(link, docname, docnames, address)
    for image in text.select("img"):
        path = posixpath.normpath(posixpath.join(posixpath.dirname(docname), image["src"]))
        image["src"] = f"../html/{path}"
        if "width" in image.attrs:
            scale = LIVE if "live-still" in image.get("class", []) else DRAWN
            image["style"] = f"width: {scale * int(image['width']):.0f}pt"
    for block in text.select("pre, table, div.cell"):
        lines = block.get_text().splitlines() or [""]
        block["style"] = f"--columns: {max(1, *map(len, lines))}"  # long lines get smaller type
        if len(block.select("tr") or lines) <= LINES_KEPT_TOGETHER:
            block["class"] = [*block.get("class", []), "together"]
    return text


def follow(link, docname, docnames, address):
    """Lead a link to its place in the book; else to the site; else keep its text alone."""
    parts = urlsplit(link["href"])
    if parts.scheme:
        return
    here = posixpath.join(posixpath.dirname(docname), unquote(parts.path))
    target = posixpath.normpath(here) if parts.path else f"{docname}.html"
    page = target.removesuffix(".html")
    # `#SoftLookup=…` is the state of a live figure.
    if page in docnames and "=" not in parts.fragment:
        place = f"--{unquote(parts.fragment)}" if parts.fragment else ""
        link["href"] = f"#{key(page)}{place}"
    elif address:
        link["href"] = f"{address}{target}{'#' * bool(parts.fragment)}{parts.fragment}"
    else:
        link.unwrap()


def take_solutions(text):
    """Take out solutions and answers to what the text asks: the book gathers them at its end."""
    taken = []
    for solution in text.select("div.solution"):
        exercise = text.find(id=solution["id"].replace("--sol-", "--ex-"))
        solution.p.name = "a"
        solution.a["href"] = f"#{exercise['id']}"
        taken.append(solution.extract())
        exercise.append(see("Solution", solution["id"]))
    for answer in text.select("div.predict .fold"):
        question = answer.find_parent(class_="predict")
        taken.append(answer.extract())
        answer["id"] = f"{question['id']}--answer"
        asked = re.findall(r"[^.?!]+\?", " ".join(question.get_text().split()))
        title = f"Before you read on: {asked[-1].strip()}" if asked else "Before you read on"
        answer.select_one(".admonition-title").string = title
        question.append(see("Answer", answer["id"]))
    return taken


def see(what, target):
    link = f'<a href="#{target}">{what} on page {page_number(target)}</a>'
    return parse(f'<p class="see-solution">{link}</p>')


def page_number(target):
    """An open place, filled by the print: the page on which the target begins."""
    return f'<span class="page-number" data-of="{target}">000</span>'


# ---- The book ------------------------------------------------------------------------------------


def parts():
    """Pairs of a part's caption and its pages, in the order of _toc.yml."""
    found = [("", ["index"])]
    toc = (ROOT / "_toc.yml").read_text(encoding="utf-8")
    for kind, name in re.findall("(caption|file): (.*)", toc):
        if kind == "caption":
            found.append((name, []))
        elif not ON_SCREEN.match(name):
            found[-1][1].append(name)
    return found


def bind():
    """The whole book as HTML: title, contents, parts, chapters, solutions before the appendices."""
    plan = parts()
    pages = {d: (SITE / f"{d}.html").read_text(encoding="utf-8") for _, docs in plan for d in docs}
    canonical = parse(pages["index"]).select_one("link[rel=canonical]")
    address = canonical["href"] if canonical else ""
    texts = {key(d): on_paper(d, html, pages, address) for d, html in pages.items()}
    texts["index"].h1.string = "Preface"

    solutions = "<h1>Solutions to the exercises</h1>"
    for name, text in texts.items():
        if taken := take_solutions(text):
            title = text.h1.decode_contents()
            found = "".join(map(str, taken))
            solutions += f'<section id="solutions--{name}"><h2>{title}</h2>{found}</section>'
    texts["solutions"] = parse(solutions)

    style, contents, body = [], [], []
    for number, (caption, docs) in enumerate(plan):
        names = [key(docname) for docname in docs]
        if caption == plan[-1][0]:
            names.insert(0, "solutions")
        if caption:
            label, _, title = caption.rpartition(" — ")
            if label:
                title = f'<span class="part-label">{label}</span> {title}'
            body.append(f'<section class="part" id="part-{number}"><h1>{title}</h1></section>')
            contents.append(entry("part", f"part-{number}", title))
        for name in names:
            text = texts[name]
            contents.append(entry("chapter", name, text.h1.decode_contents()))
            for heading in text.select("section[id] > h2"):
                target = heading.parent["id"]
                contents.append(entry("section", target, heading.decode_contents()))
            title = text.h1.get_text().strip()
            style.append(f'@page {name}:right {{ @bottom-right {{ content: "{title}" }} }}')
            for heading in text.find_all(HEADING):
                level = int(heading.name[1])
                heading["class"] = f"level-{level}"
                # In the bookmarks, a chapter is one level below its part.
                heading.name = f"h{level + bool(caption)}"
            body.append(
                f'<section class="chapter" id="{name}" style="page: {name}">{text}</section>'
            )
    return document("".join(style), "".join(contents), "".join(body), address)


def entry(kind, target, title):
    """A line of the contents."""
    return (
        f'<p class="contents-{kind}"><a href="#{target}"><span>{title}</span>'
        f"{page_number(target)}</a></p>"
    )


def document(style, contents, body, address):
    about = facts(ROOT)
    sheets = [Path(ROOT, "node_modules", font).as_uri() for font in FONTS]
    links = "".join(f'<link rel="stylesheet" href="{sheet}">' for sheet in sheets)
    sheet = Path(__file__).with_suffix(".css").read_text(encoding="utf-8")
    logo = Path(ROOT, "_static/logo.svg").read_text(encoding="utf-8")
    authors = escape(", ".join(about.authors))
    at = f', <a href="{address}">{address}</a>' if address else ""
    return f"""<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>{TITLE}</title>{links}
<style>{sheet}{style}</style></head><body>
<section class="title-page">{logo}<p class="book-title">{TITLE}</p>
<p class="book-subtitle">{SUBTITLE}</p>
<p class="book-authors">{authors}</p>
<p class="book-edition">{about.edition}</p></section>
<section class="imprint"><p><strong>{TITLE}</strong><br>{about.edition}</p>
<p>This book was made from notebooks whose every cell was run. It is the printed form of a
site{at}. There, figures can be moved; here, each shows how it looks at first, with the address of
the one that moves. Solutions, which the site folds away, begin on
<a href="#solutions">page {page_number("solutions")}</a>.</p>
<p>Text and figures: Creative Commons Attribution 4.0 International
(<a href="https://creativecommons.org/licenses/by/4.0/">CC BY 4.0</a>). Code: Apache License 2.0
(<a href="https://www.apache.org/licenses/LICENSE-2.0">Apache-2.0</a>).</p>
<p>Set in Source Serif, Source Code Pro and Noto Sans SC; equations by KaTeX.</p></section>
<nav class="contents" id="contents"><h1>Contents</h1>{contents}</nav>
{body}</body></html>
"""


# ---- The print -----------------------------------------------------------------------------------


def print_book(html):
    """Chromium's print of the book, which is kept beside it."""
    names = [os.environ.get("CHROME_PATH"), "chromium", "chromium-browser", "google-chrome"]
    names.append("chromium-headless-shell")
    browser = next((path for name in names if name and (path := shutil.which(name))), None)
    if browser is None:
        sys.exit("make pdf needs Chromium or Chrome, on the path or in CHROME_PATH")
    HTML.parent.mkdir(parents=True, exist_ok=True)
    HTML.write_text(html, encoding="utf-8")
    with tempfile.TemporaryDirectory() as profile:
        where = [f"--user-data-dir={profile}", f"--print-to-pdf={PDF}", HTML.as_uri()]
        subprocess.run([browser, *ARGUMENTS, *where], capture_output=True, check=True)
    return pikepdf.open(PDF, allow_overwriting_input=True)


def finish(pdf, html):
    """Name the bookmarks, since Chromium puts together what is on two lines or pages, and the
    authors. Without dates, the same sources make the same file."""
    titles = [" ".join(h.get_text().split()) for h in parse(html).find_all(HEADING)]
    with pdf.open_outline() as outline:
        name_bookmarks(outline.root, iter(titles))
    del pdf.docinfo
    pdf.docinfo["/Title"] = TITLE
    pdf.docinfo["/Author"] = ", ".join(facts(ROOT).authors)
    pdf.Root.PageMode = pikepdf.Name.UseOutlines
    # What screen readers follow are a hundred thousand small objects: packed, a third of the bytes.
    packed = pikepdf.ObjectStreamMode.generate
    pdf.save(PDF, object_stream_mode=packed, deterministic_id=True)


def name_bookmarks(items, titles):
    for item in items:
        item.title = next(titles)
        name_bookmarks(item.children, titles)


def link_print():
    """Link the print at the foot of the site's pages."""
    shutil.copyfile(PDF, SITE / PDF.name)
    for page in SITE.rglob("*.html"):
        html = page.read_text(encoding="utf-8")
        if PDF.name not in html and (root := re.search('data-content_root="([^"]*)"', html)):
            link = f'<a href="{root[1]}{PDF.name}">The book as a PDF</a>, to print or to keep.'
            footer = r'(<div class="extra_footer">.*?)(?=</div>)'
            html = re.sub(footer, rf"\1<p>{link}</p>", html, flags=re.DOTALL)
            page.write_text(html, encoding="utf-8")


def main():
    html = bind()
    with print_book(html) as draft:
        places = draft.Root.Dests.items()
        pages = {str(name)[1:]: pikepdf.Page(place[0]).index + 1 for name, place in places}
    html = PAGE_NUMBER.sub(lambda found: f"{found[1]}{pages[found[2]]}", html)
    with print_book(html) as pdf:
        finish(pdf, html)
        print(f"The book on paper: {PDF} ({len(pdf.pages)} pages)")
    link_print()


if __name__ == "__main__":
    main()
