"""One book made of pages: title, imprint, contents, parts, chapters, solutions at the end.

Page numbers are left open: only the print knows them (pdf_print.py).
"""

import re
from dataclasses import dataclass
from html import escape
from pathlib import Path

from pdf_page import Chapter, chapter, fragment, link_to, page_number

SOLUTIONS = "Solutions to the exercises"


@dataclass(kw_only=True)
class Book:
    """What stands on the first pages, how it looks, and where its files are."""

    title: str
    subtitle: str
    authors: str
    address: str
    edition: str
    logo: str
    style: str
    sheets: list[str]
    folder: Path

    def bind(self, parts, bodies):
        """The whole book as HTML.

        Args:
            parts: pairs of a part's caption and its documents; the first pair is the preface's.
            bodies: each document's HTML.

        Raises:
            ValueError: a link within the book leads nowhere.
        """
        docnames = {docname for _, docs in parts for docname in docs}
        plan = [
            (caption, [chapter(d, bodies[d], docnames, self.address, self.folder) for d in docs])
            for caption, docs in parts
        ]
        plan[0][1][0].heading.string = "Preface"
        solved = [page for _, pages in plan for page in pages if page.solutions]
        if solved:
            plan[-1][1].insert(0, gather_solutions(solved))

        contents, body, running = [], [], []
        for number, (caption, pages) in enumerate(plan):
            if caption is not None:
                title = part_title(caption)
                body.append(f'<section class="part" id="part-{number}"><h1>{title}</h1></section>')
                contents.append(entry("part", f"part-{number}", title))
            for page in pages:
                contents += entries(page)
                running.append(running_title(page))
                lower_headings(page.soup, by=0 if caption is None else 1)
                opening = f'<section class="chapter" id="{page.key}"'
                body.append(f'{opening} style="page: {page_style(page)}">{page.soup}</section>')
        result = self.document("".join(running), "".join(contents), "".join(body), bool(solved))
        check_links(result)
        return result

    def document(self, running, contents, body, has_solutions):
        at = f", {link_to(self.address)}" if self.address else ""
        page = f'<a class="internal" href="#solutions">page {page_number("solutions")}</a>'
        solutions = f" Solutions, which the site folds away, begin on {page}."
        sheets = "".join(f'<link rel="stylesheet" href="{sheet}">' for sheet in self.sheets)
        return f"""<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>{escape(self.title)}</title>
<meta name="author" content="{escape(self.authors)}">{sheets}
<style>{self.style}{running}</style></head><body>
<section class="title-page">{self.logo}<p class="book-title">{escape(self.title)}</p>
<p class="book-subtitle">{escape(self.subtitle)}</p>
<p class="book-authors">{escape(self.authors)}</p>
<p class="book-edition">{escape(self.edition)}</p></section>
<section class="imprint"><p><strong>{escape(self.title)}</strong><br>{escape(self.edition)}</p>
<p>This book was made from notebooks whose every cell was run. It is the printed form of a
site{at}. There, figures can be moved; here, each shows how it looks at first, with the address of
the one that moves.{solutions if has_solutions else ""}</p>
<p>Text and figures: Creative Commons Attribution 4.0 International
(<a href="https://creativecommons.org/licenses/by/4.0/">CC BY 4.0</a>). Code: Apache License 2.0
(<a href="https://www.apache.org/licenses/LICENSE-2.0">Apache-2.0</a>).</p>
<p>Set in Source Serif, Source Code Pro and Noto Sans SC; equations by KaTeX.</p></section>
<nav class="contents" id="contents"><h1>Contents</h1>{contents}</nav>
{body}</body></html>
"""


def gather_solutions(solved):
    """A chapter of all solutions, in the order of the chapters whose exercises they solve."""
    html = [f"<h1>{SOLUTIONS}</h1>"]
    for page in solved:
        html.append(f'<section id="solutions--{page.key}"><h2>{inner(page.heading)}</h2>')
        html += [*map(str, page.solutions), "</section>"]
    return Chapter("solutions", fragment("".join(html)))


def part_title(caption):
    """Part I — Attention -> the label and the title, told apart for the style sheet."""
    label, _, title = caption.rpartition(" — ")
    return (f'<span class="part-label">{escape(label)}</span> ' if label else "") + escape(title)


def entries(page):
    """What the contents say of a page: its title and its sections'."""
    yield entry("chapter", page.key, inner(page.heading))
    for heading in page.soup.select("section[id] > h2"):
        yield entry("section", heading.parent["id"], inner(heading))


def entry(kind, target, title):
    return (
        f'<p class="contents-{kind}"><a class="internal" href="#{target}"><span>{title}</span>'
        f"{page_number(target)}</a></p>"
    )


def inner(heading):
    """A heading's content without links, which may not stand inside a link."""
    copy = fragment(heading.decode_contents())
    for link in copy.select("a"):
        link.unwrap()
    return str(copy)


def lower_headings(soup, by):
    """A chapter inside a part is one level below it; the looks go by the class."""
    for heading in soup.find_all(re.compile(r"^h[1-6]$")):
        level = int(heading.name[1])
        heading["class"] = [f"level-{level}"]
        heading.name = f"h{min(level + by, 6)}"


def page_style(page):
    return "page-" + re.sub(r"\W", "-", page.key)


def running_title(page):
    """A page style for each chapter, which names it in the margin of its right-hand pages."""
    text = " ".join(page.heading.get_text().split()).replace("\\", "\\\\").replace('"', '\\"')
    return f'@page {page_style(page)}:right {{ @top-right {{ content: "{text}"; }} }}\n'


def check_links(html):
    soup = fragment(html)
    ids = {element["id"] for element in soup.select("[id]")}
    lost = {a["href"] for a in soup.select('a[href^="#"]') if a["href"][1:] not in ids}
    if lost:
        raise ValueError(f"links that lead nowhere: {', '.join(sorted(lost))}")
