"""Works by chapter: a link to a paper is a citation, and each chapter ends with what it cites.

If references.bib has the address of a link, the link leads to the work's line under *Further
reading*, which leads to the work. The appendix has all works and says which chapters cite each.
"""

from functools import cache
from pathlib import Path

from docutils import nodes
from pybtex.database import parse_file
from pybtex.plugin import register_plugin
from pybtex.richtext import HRef, Tag, Text
from pybtex.style import FormattedEntry
from pybtex.style.formatting import BaseStyle
from sphinx.util.nodes import make_refnode

from book import chapter_of
from tooltips import APPENDIX

MOST_AUTHORS = 6
FURTHER = "Further reading"


class BookStyle(BaseStyle):
    """Ashish Vaswani, Noam Shazeer, … and 3 others (2017). *Attention Is All You Need*. NIPS 30."""

    default_sorting_style = "author_year_title"

    def format_entry(self, label, entry, bib_data=None):
        return FormattedEntry(entry.key, self.told(entry), label)

    def told(self, entry) -> Text:
        names = [
            " ".join(str(part) for part in (*person.rich_first_names, *person.rich_middle_names,
                                            *person.rich_prelast_names, *person.rich_last_names))
            for person in entry.persons["author"]
        ]  # fmt: skip
        if len(names) > MOST_AUTHORS:
            names[MOST_AUTHORS - 1 :] = [f"{len(names) - MOST_AUTHORS + 1} others"]
        authors = ", ".join(names[:-1]) + " and " * (len(names) > 1) + names[-1]
        field = entry.fields
        title = HRef(field["url"], Tag("em", Text.from_latex(field["title"])))
        place = Text.from_latex(field.get("booktitle") or field["journal"])
        volume = f" {field['volume']}" if "volume" in field else ""
        stop = "" if str(title).endswith(("?", "!")) else "."
        return Text(authors, f" ({field['year']}). ", title, f"{stop} ", place, f"{volume}.")


@cache
def works():
    """Address of each work in references.bib -> its entry."""
    entries = parse_file(str(Path(__file__).parents[1] / "references.bib")).entries.values()
    return {entry.fields["url"]: entry for entry in entries}


def note_citations(app, doctree):
    """Which works a chapter cites, in the order of the text."""
    known = works()
    links = [link.get("refuri") for link in doctree.findall(nodes.reference)]
    cited = list(dict.fromkeys(known[link].key for link in links if link in known))
    if not hasattr(app.env, "attention_cited"):
        app.env.attention_cited = {}
    app.env.attention_cited[app.env.docname] = cited


def lead_to_works(app, doctree, docname):
    if docname == APPENDIX:
        name_chapters(app, doctree)
    if chapter_of(docname) is None:
        return
    known, listed = works(), set()
    sections = [part for part in doctree.findall(nodes.section) if part[0].astext() == FURTHER]
    further = [link for part in sections for link in part.findall(nodes.reference)]
    for link in doctree.findall(nodes.reference):
        if (entry := known.get(link.get("refuri"))) is None:
            continue
        name = f"ref-{entry.key}"
        if not any(link is each for each in further):
            link["refuri"], link["internal"] = f"#{name}", True
        elif name not in listed:
            listed.add(name)
            link["ids"].append(name)


def name_chapters(app, doctree):
    """Say of each work in the appendix which chapters cite it."""
    citing = {doc: keys for doc, keys in app.env.attention_cited.items() if chapter_of(doc)}
    for citation in app.env.get_domain("cite").citations:
        every = doctree.findall(nodes.Element)
        item = next(node for node in every if citation.citation_id in node["ids"])
        chapters = sorted((chapter_of(doc), doc) for doc in citing if citation.key in citing[doc])
        paragraph = item.next_node(nodes.paragraph)
        for position, (number, doc) in enumerate(chapters):
            lead = ", " if position else " Chapter " if len(chapters) == 1 else " Chapters "
            name = nodes.Text(str(number))
            link = make_refnode(app.builder, APPENDIX, doc, "further-reading", name)
            paragraph += [nodes.Text(lead), link]
        paragraph += nodes.Text("." if chapters else "")


def setup(app):
    register_plugin("pybtex.style.formatting", "book", BookStyle)
    app.connect("doctree-read", note_citations)
    app.connect("doctree-resolved", lead_to_works)
    return {"parallel_read_safe": False, "parallel_write_safe": False}
