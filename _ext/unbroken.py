"""What a line's end must not part: a number and its %, a part and its number."""

import re

from docutils import nodes

SPACE = re.compile(r"(?<=\d) (?=%)|(?<=\bPart) (?=[IVX]+\b)")
AS_IT_IS = (nodes.literal, nodes.literal_block, nodes.math, nodes.math_block, nodes.raw)


def keep_together(app, doctree, name):
    for text in list(doctree.findall(nodes.Text)):
        kept = SPACE.sub("\N{NO-BREAK SPACE}", text.astext())
        if kept != text.astext() and not isinstance(text.parent, AS_IT_IS):
            text.parent.replace(text, nodes.Text(kept))


def setup(app):
    app.connect("doctree-resolved", keep_together)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
