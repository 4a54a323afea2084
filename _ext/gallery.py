"""The gallery: the list of all live figures, and old addresses that lead on to the page of each.

Each part of the book has a page of figures, a notebook `chapters/live_figures_….ipynb`. In the
list, `{gallery} live_figures_….ipynb` stands for the figures of one: the question above each, which
leads to it, and the chapters that the text below the question names. Nothing is listed by hand.

All figures once stood on one page, where the list is now. An address of that time still names a
figure (`#SoftLookup=temperature:0`), a section, a picture or an exercise: the list leads on.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from zlib import crc32

from docutils import nodes
from docutils.statemachine import StringList
from sphinx.util.docutils import SphinxDirective

import cells
from live_figures import STATE, outputs_of

LIST = "chapters/live_figures"
PAGES = "chapters/live_figures_*.ipynb"
HEADING = re.compile(r"## (\S[^\n]*)")
CHAPTER = re.compile(r"\[(?:Chapter )?(\d+)\]\((\d+_\w+\.ipynb)\)")
LEAD_ON = """(() => {
  const places = %s;
  const lead = () => {
    const hash = decodeURIComponent(location.hash.slice(1));
    const names = [hash, ...hash.split("&").map((part) => part.replace(/=.*/, ""))];
    const to = places[names.find((name) => Object.hasOwn(places, name))];
    if (to) location.replace(to.includes("#") ? to : to + location.hash);
  };
  lead();
  addEventListener("hashchange", lead);
})();"""


def read(path: Path) -> dict:
    return json.loads(path.read_text(encoding="utf-8"))


def slug(heading: str) -> str:
    """What a heading is called in a link to it. Its anchor on the page is another matter."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def entries(notebook: dict) -> list[tuple[str, list[tuple[str, str]]]]:
    """For each live figure its question and its chapters, each a number and a file."""
    found, question, chapters = [], "", []
    for cell in notebook["cells"]:
        text = cells.text(cell)
        if cell["cell_type"] == "markdown" and (heading := HEADING.match(text)):
            question, chapters = heading[1], CHAPTER.findall(text)
        elif "live-figure" in cells.tags(cell):
            found.append((question, chapters))
    return found


def addresses(path: Path) -> dict[str, str]:
    """Where what a page of the gallery holds is now, by what the page of all called it."""
    notebook, page = read(path), f"{path.stem}.html"
    found = {nodes.make_id(question): page for question, _ in entries(notebook)}
    models = notebook["metadata"]["widgets"][STATE]["state"]
    found |= {models[shown]["state"]["anchor"]: page for shown, _ in outputs_of(notebook)}
    for block in cells.blocks(path.stem, notebook["cells"]):
        if block.kind == "figure":
            found[block.label] = page
        elif block.kind in {"exercise", "solution"}:
            then = block.label.replace(f"-{cells.place(path.stem)}-", "-figures-", 1)
            found[then] = f"{page}#{block.label}"
    return found


class Gallery(SphinxDirective):
    """The figures of one page, as a list of links."""

    required_arguments = 1

    def run(self):
        name = self.arguments[0]
        path = Path(self.env.srcdir, LIST).with_name(name)
        if not path.is_file():
            raise self.error(f"gallery: there is no {name} beside the list")
        self.env.note_dependency(str(path))
        lines = []
        for question, chapters in entries(read(path)):
            if not question.endswith("?") or not chapters:
                raise self.error(
                    f"gallery: {name}: above a figure stand its question, '## …?', and its chapter"
                )
            where = ", ".join(f"[{number}]({file})" for number, file in chapters)
            kind = "chapter" if len(chapters) == 1 else "chapters"
            lines.append(f"- [{question}]({name}#{slug(question)}) ({kind} {where})")
        holder = nodes.container(classes=["gallery"])
        self.state.nested_parse(StringList(lines, name), self.content_offset, holder)
        return [holder]


def lead_on(app, pagename, templatename, context, doctree):
    if pagename == LIST and app.builder.format == "html":
        places: dict[str, str] = {}
        for path in sorted(Path(app.srcdir).glob(PAGES)):
            places |= addresses(path)
        text = json.dumps(places, ensure_ascii=False).replace("</", "<\\/")
        app.add_js_file(None, body=LEAD_ON % text)


def setup(app):
    app.add_directive("gallery", Gallery)
    app.connect("html-page-context", lead_on)
    # Pages built by an earlier version of this file are built again.
    version = crc32(Path(__file__).read_bytes())
    return {"env_version": version, "parallel_read_safe": True, "parallel_write_safe": True}
