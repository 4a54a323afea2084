"""Numbers that the text names: `\\tag{1.2}` in an equation, `[(1.2)](#eq-1-2)` where it is meant.

A tag, which Jupyter shows, becomes a number and an anchor. Whether tags and links say what Sphinx
counts is a question for the tests of the site (tests/site/test_references.py).
"""

import re

from docutils import nodes
from sphinx.transforms import SphinxTransform

from book import chapter_of

TAG = re.compile(r"\s*\\tag\{([^{}]*)\}")
NAMES = {
    "figure": "Figure {}",
    "table": "Table {}",
    "exercise": "Exercise {}",
    "displaymath": "({})",
}


class TagEquations(SphinxTransform):
    """Take the tag out of an equation, and let Sphinx number it."""

    default_priority = 400  # before targets are collected

    def apply(self, **kwargs):
        chapter, count = chapter_of(self.env.docname), 0
        for node in self.document.findall(nodes.math_block):
            latex = node.astext()
            if not TAG.search(latex):
                continue
            count += 1
            node.children = []
            node += nodes.Text(TAG.sub("", latex))
            node["number"] = count
            node["names"].append(f"eq-{chapter}-{count}")
            self.document.note_explicit_target(node, node)


def numbers(env) -> dict[tuple[str, str], str]:
    """(page, anchor) -> what a reader calls it: Figure 1.2, Exercise 1.2, (1.2)."""
    return {
        (docname, anchor): NAMES[kind].format(".".join(map(str, number)))
        for docname, kinds in env.toc_fignumbers.items()
        for kind, anchors in kinds.items()
        if kind in NAMES
        for anchor, number in anchors.items()
    }


def name_anchors(app, env):
    """Let MyST find `01_soft_lookup.ipynb#eq-1-2`, a prediction, `glossary.md#term-query`; it knows
    the anchors of headings only."""
    std = env.get_domain("std")
    terms = [place for (kind, _), place in std.objects.items() if kind == "term"]
    for docname, anchor in {*std.anonlabels.values(), *terms}:
        slugs = env.metadata[docname].setdefault("myst_slugs", {})
        slugs.setdefault(anchor, (0, anchor, anchor))
    return []


def setup(app):
    app.add_transform(TagEquations)
    # After Sphinx has counted, which it does at the usual priority.
    app.connect("env-get-updated", name_anchors, priority=900)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
