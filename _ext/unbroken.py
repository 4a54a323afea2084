"""What a line's end must not part: a formula and the mark behind it, a number and its %."""

import re

from docutils import nodes

MARK = re.compile(r"[.,;:!?)\]’”]+")
SPACE = re.compile(r"(?<=\d) (?=%)|(?<=\bPart) (?=[IVX]+\b)")
AS_IT_IS = (nodes.literal, nodes.literal_block, nodes.math, nodes.math_block, nodes.raw)


def keep_together(app, doctree, name):
    for text in list(doctree.findall(nodes.Text)):
        if isinstance(text.parent, AS_IT_IS):
            continue
        place = next(i for i, child in enumerate(text.parent) if child is text)
        before = text.parent[place - 1] if place else None
        kept = SPACE.sub("\N{NO-BREAK SPACE}", text.astext())
        if isinstance(before, nodes.math) and (mark := MARK.match(kept)):
            before["mark"], kept = mark[0], kept[mark.end() :]
        if kept != text.astext():
            text.parent[place] = nodes.Text(kept)


def setup(app):
    app.connect("doctree-resolved", keep_together)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
