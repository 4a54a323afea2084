"""One page of the site, made fit for paper.

What paper cannot do goes: buttons, folds, live figures. Ids get their page's name before them,
since every chapter has a section called `exercises`, and links follow. Solutions, and answers to
what the text asks, come out, to be gathered at the end of the book.
"""

import posixpath
import re
from dataclasses import dataclass, field
from html import escape
from urllib.parse import unquote, urlsplit

from bs4 import BeautifulSoup

# Buttons, scripts, marks beside headings; KaTeX's MathML, which would be printed over its HTML.
NOT_FOR_PAPER = [
    ".headerlink, button, script, style, .toctree-wrapper, .start-reading",
    ".katex-mathml, a.back",
    "details.hide > summary",
]
LINES_KEPT_TOGETHER = 16
# Points per pixel: a drawn figure, 144 pixels to the inch, at 80 %, so that its labels are a little
# smaller than the text; a live figure's picture somewhat larger.
DRAWN, LIVE = 0.4, 0.46


@dataclass
class Chapter:
    """A page of the book: what its ids begin with, its content, the solutions taken out of it."""

    key: str
    soup: BeautifulSoup
    solutions: list = field(default_factory=list)

    @property
    def heading(self):
        return self.soup.find("h1")


def chapter(docname, html, docnames, address, folder):
    """A page fit for paper.

    Args:
        docnames: the pages in the book; links to others lead to the site, or become text.
        address: where the site is; empty while nobody has said.
        folder: where the pictures are.
    """
    soup = BeautifulSoup(html, "html.parser")
    for element in soup.select(", ".join(NOT_FOR_PAPER)):
        element.decompose()
    for host in soup.select(".live-host"):
        show_picture(host, docname, address)
    for element in soup.select("details, noscript"):
        element.unwrap()
    name_ids(soup, key(docname))
    for link in soup.select("a[href]"):
        follow(link, docname, docnames, address)
    for image in soup.select("img[src]"):
        path = posixpath.join(posixpath.dirname(docname), image["src"])
        image["src"] = posixpath.normpath(path)
        size(image, folder, LIVE if image.find_parent(class_="live-picture") else DRAWN)
    keep_together(soup)
    result = Chapter(key(docname), soup)
    part_from_answers(result)
    part_from_solutions(result)
    return result


def key(docname):
    return docname.replace("/", "-")


def show_picture(host, docname, address):
    """A live figure shows how it looks at first, and says where it lives."""
    figure = host.find_parent("figure")
    place = f"{docname}.html" + (f"#{figure['id']}" if figure and figure.get("id") else "")
    note = f"In the site, at {link_to(address, place)}, this figure moves."
    (figure or host).append(fragment(f'<p class="live-note">{note}</p>'))
    host["class"] = ["live-picture"]
    del host["data-model"]


def name_ids(soup, prefix):
    """Put the page's name before every id; of ids that a page repeats, the first stays."""
    seen = set()
    for element in soup.select("[id]"):
        if element["id"] in seen:
            del element["id"]
        else:
            seen.add(element["id"])
            element["id"] = f"{prefix}--{element['id']}"


def follow(link, docname, docnames, address):
    """Lead a link to its place in the book; else to the site; else keep its text alone."""
    parts = urlsplit(link["href"])
    if parts.scheme or parts.netloc:
        return
    here = posixpath.join(posixpath.dirname(docname), unquote(parts.path))
    target = posixpath.normpath(here) if parts.path else f"{docname}.html"
    page = target.removesuffix(".html")
    # `#SoftLookup=…` is the state of a live figure.
    if page in docnames and "=" not in parts.fragment:
        place = f"--{unquote(parts.fragment)}" if parts.fragment else ""
        link["href"] = f"#{key(page)}{place}"
        link["class"] = [*link.get("class", []), "internal"]
    elif address:
        place = f"#{parts.fragment}" if parts.fragment else ""
        link["href"] = f"{address.rstrip('/')}/{target}{place}"
    else:
        link.unwrap()


def size(image, folder, scale):
    """The width at which to print a PNG; other pictures bring their own."""
    start = (folder / unquote(image["src"])).read_bytes()[:24]
    if start.startswith(b"\x89PNG"):
        image["style"] = f"width: {scale * int.from_bytes(start[16:20], 'big'):.0f}pt"


def keep_together(soup):
    """Say what the style sheet cannot see: how long code and tables are, what leads on to what."""
    for code in soup.select("pre"):
        lines = code.get_text().split("\n")
        code["style"] = f"--columns: {max(1, *map(len, lines))}"  # long lines get smaller type
        if len(lines) <= LINES_KEPT_TOGETHER:
            code["class"] = "together"
    for cell in soup.select("div.cell:not(:has(img))"):
        lines = sum(code.get_text().count("\n") for code in cell.select("pre"))
        if lines <= LINES_KEPT_TOGETHER:
            cell["class"].append("together")
    for table in soup.select("table"):
        if len(table.select("tr")) <= LINES_KEPT_TOGETHER:
            table["class"] = [*table.get("class", []), "together"]
    for paragraph in soup.select("p"):
        if paragraph.get_text().rstrip().endswith(":"):
            paragraph["class"] = [*paragraph.get("class", []), "leads-on"]


def part_from_solutions(chapter):
    """Take the solutions out, and tell each exercise on which page its solution is."""
    for solution in chapter.soup.select("div.solution"):
        exercise = solution.select_one(".admonition-title a[href]")["href"][1:]
        chapter.solutions.append(solution.extract())
        chapter.soup.find(id=exercise).append(see("Solution", solution["id"]))


def part_from_answers(chapter):
    """Take out what a question to the reader tells: it would be read together with the question."""
    for answer in chapter.soup.select("div.predict > div.fold"):
        question = answer.parent
        chapter.solutions.append(answer.extract())
        answer["id"] = f"{question['id']}--answer"
        asked = re.findall(r"[^.?!]+\?", " ".join(question.get_text().split()))
        title = f"Before you read on: {asked[-1].strip()}" if asked else "Before you read on"
        answer.select_one(".admonition-title").string = title
        question.append(see("Answer", answer["id"]))


def see(what, target):
    page = page_number(target)
    link = f'<a class="internal" href="#{target}">{what} on page {page}</a>'
    return fragment(f'<p class="see-solution">{link}</p>')


def page_number(target):
    """An open place, filled by the print: the page on which the target begins."""
    return f'<span class="page-number" data-of="{target}">000</span>'


def link_to(address, place=""):
    """A page of the site: its address in full where it is known, else its name below the root."""
    if not address:
        return f"<code>{escape(place)}</code>"
    whole = escape(f"{address.rstrip('/')}/{place}")
    return f'<a href="{whole}"><code>{whole}</code></a>'


def fragment(html):
    return BeautifulSoup(html, "html.parser")
