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


class Gallery(SphinxDirective):
    """The figures of one page, as a list of links."""

    required_arguments = 1

    def run(self):
        name = self.arguments[0]
        path = Path(self.env.srcdir, LIST).with_name(name)
        self.env.note_dependency(str(path))
        lines, notebook = [], cells.read(path)
        for question, chapters in entries(notebook):
            if not question.endswith("?") or not chapters:
                raise self.error(
                    f"gallery: {name}: above a figure stand its question, '## …?', and its chapter"
                )
            where = ", ".join(f"[{number}]({file})" for number, file in chapters)
            kind = "chapter" if len(chapters) == 1 else "chapters"
            lines.append(f"- [{question}]({name}#{slugify(question)}) ({kind} {where})")
        holder = nodes.container(classes=["gallery"])
        self.state.nested_parse(StringList(lines, name), self.content_offset, holder)
        pictures = [
            picture_of(self.env, bundle, cell["metadata"]["mystnb"]["image"]["alt"])
            for cell in notebook["cells"]
            if "live-figure" in cells.tags(cell)
            for _, bundle in outputs_of({"cells": [cell]})
        ]
        for item, picture in zip(holder.findall(nodes.list_item), pictures, strict=True):
            item.insert(0, picture)
        return [holder]


def setup(app):
    app.add_directive("gallery", Gallery)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
