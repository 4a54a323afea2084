"""The gallery: the list of all live figures.

`{gallery} live_figures_….ipynb` stands for the figures of one page: each as a small picture, the
question above it, which leads to it, and the chapters that the text below the question names.
"""

import re
from pathlib import Path

from docutils import nodes
from docutils.statemachine import StringList
from mdit_py_plugins.anchors.index import slugify
from sphinx.util.docutils import SphinxDirective

import cells
from live_figures import outputs_of, picture_of

LIST = "chapters/live_figures"
HEADING = re.compile(r"## (\S[^\n]*)")
CHAPTER = re.compile(r"\[(?:Chapter )?(\d+)\]\((\d+_\w+\.ipynb)\)")


def entries(notebook: dict) -> list[tuple[str, list[tuple[str, str]], dict]]:
    """For each live figure its question, its chapters, each a number and a file, and its cell."""
    found, question, chapters = [], "", []
    for cell in notebook["cells"]:
        text = cells.text(cell)
        if cell["cell_type"] == "markdown" and (heading := HEADING.match(text)):
            question, chapters = heading[1], CHAPTER.findall(text)
        elif "live-figure" in cells.tags(cell):
            found.append((question, chapters, cell))
    return found


class Gallery(SphinxDirective):
    """The figures of one page, as a list of links."""

    required_arguments = 1

    def run(self):
        name = self.arguments[0]
        path = Path(self.env.srcdir, LIST).with_name(name)
        self.env.note_dependency(str(path))
        lines, found = [], entries(cells.read(path))
        for question, chapters, _ in found:
            where = ", ".join(f"[{number}]({file})" for number, file in chapters)
            kind = "chapter" if len(chapters) == 1 else "chapters"
            lines.append(f"- [{question}]({name}#{slugify(question)}) ({kind} {where})")
        holder = nodes.container(classes=["gallery"])
        self.state.nested_parse(StringList(lines, name), self.content_offset, holder)
        for item, (*_, cell) in zip(list(holder.findall(nodes.list_item)), found, strict=True):
            ((_, bundle),) = outputs_of({"cells": [cell]})
            alt = cell["metadata"]["mystnb"]["image"]["alt"]
            item.insert(0, picture_of(self.env, bundle, alt))
        return [holder]


def setup(app):
    app.add_directive("gallery", Gallery)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
