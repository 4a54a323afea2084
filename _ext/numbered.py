"""Numbers that the text names: `\\tag{1.2}` in an equation, `[(1.2)](#eq-1-2)` where it is meant.

A tag, which Jupyter shows, becomes a number and an anchor. Every tag and every link that reads as a
number is compared with what Sphinx counts; a wrong one is a warning.
"""

import re

from docutils import nodes
from sphinx.addnodes import pending_xref
from sphinx.transforms import SphinxTransform
from sphinx.transforms.post_transforms import SphinxPostTransform
from sphinx.util import logging

from book import chapter_of

LOGGER = logging.getLogger(__name__)
TAG = re.compile(r"\s*\\tag\{([^{}]*)\}")
NUMBER = re.compile(r"(?:Figure|Table|Exercise) [\d.]+|\([\d.]+\)")
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
            tags = TAG.findall(latex)
            if not tags:
                continue
            count += 1
            if tags != [f"{chapter}.{count}"]:
                message = "an equation is tagged %s where (%s.%d) is due"
                LOGGER.warning(message, tags, chapter, count, location=node, type="numbered")
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


class CheckNumbers(SphinxPostTransform):
    """A link that reads as a number leads to what has that number."""

    default_priority = 5  # while a link still knows page and anchor apart

    def run(self, **kwargs):
        labels = self.env.get_domain("std").anonlabels
        for link in self.document.findall(lambda n: isinstance(n, nodes.reference | pending_xref)):
            text = link.astext()
            if not NUMBER.fullmatch(text):
                continue
            if "refid" in link:
                place = (self.env.docname, link["refid"])
            elif link.get("reftargetid"):
                place = (link["reftarget"], link["reftargetid"])
            else:
                place = labels.get(link.get("reftarget"), ())
            due = numbers(self.env).get(tuple(place), "nothing numbered")
            if text != due:
                message = "a link says %s and leads to %s"
                LOGGER.warning(message, text, due, location=link, type="numbered")


def name_anchors(app, env):
    """Let MyST find `01_soft_lookup.ipynb#eq-1-2`; it knows the anchors of headings only."""
    for (docname, anchor), name in numbers(env).items():
        env.metadata[docname].setdefault("myst_slugs", {})[anchor] = (0, anchor, name)
    return []


def setup(app):
    app.add_transform(TagEquations)
    app.add_post_transform(CheckNumbers)
    # After Sphinx has counted, which it does at the usual priority.
    app.connect("env-get-updated", name_anchors, priority=900)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
