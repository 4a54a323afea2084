"""What the search knows: each section of the book with its title and its prose, in one script.

search.js reads it once a reader searches, and finds words as they are typed. A script can be read
from a file, too. Code, outputs, and equations of their own are left out.
"""

import json
from pathlib import Path

from docutils import nodes
from sphinx import addnodes

from book import write

# What would only repeat other pages, or is of no use to a reader.
LEFT_OUT = {"chapters/predictions", "reference/figures"}
ENDS = {"further-reading"}

NO_PROSE = (nodes.section, nodes.literal_block, nodes.math_block, nodes.raw, addnodes.glossary,
            addnodes.desc)  # fmt: skip


def said(node) -> str:
    """A node's text, without HTML and the keys of the works it cites."""
    if isinstance(node, nodes.Text):
        return node.astext()
    if isinstance(node, nodes.raw) or node.get("refdomain") == "cite":
        return ""
    return "".join(map(said, node.children))


def prose(node) -> str:
    """The paragraphs of a section or a definition, without the sections inside it."""
    found = []
    for child in node.children:
        if isinstance(child, (nodes.paragraph, nodes.caption)):
            found.append(said(child))
        elif isinstance(child, nodes.Element) and not isinstance(child, NO_PROSE):
            found.append(prose(child))
    return " ".join(" ".join(found).split())


def entries(doctree) -> list[tuple[str, str, str]]:
    """(anchor, title, prose) of each section, each term of a glossary, each class and function."""
    found = []
    for section in doctree.findall(nodes.section):
        if isinstance(section[0], nodes.title) and section["ids"][0] not in ENDS:
            found.append((section["ids"][0], section[0].astext(), prose(section)))
    for item in doctree.findall(nodes.definition_list_item):
        term, *_, definition = item.children
        if term["ids"]:
            found.append((term["ids"][0], term.astext(), prose(definition)))
    for name in doctree.findall(addnodes.desc_signature):
        if name["ids"]:
            found.append((name["ids"][0], name["ids"][0], prose(name.parent[-1])))
    return found


def search_page(app):
    return [("search", {}, "search.html")]


def start(app):
    """Sphinx's own search stays off."""
    app.builder.search = False


def publish(app, exception):
    if exception is not None:
        return
    pages = [
        [
            app.builder.get_target_uri(docname),
            app.env.titles[docname].astext(),
            entries(app.env.get_doctree(docname)),
        ]
        for docname in sorted(app.env.found_docs - LEFT_OUT)
    ]
    text = json.dumps(pages, ensure_ascii=False, separators=(",", ":"))
    for own in ("searchtools.js", "language_data.js"):  # Sphinx's, which copies them all the same
        Path(app.outdir, "_static", own).unlink(missing_ok=True)
    write(Path(app.outdir, "search-index.js"), f"bookSearch={text}".encode())


def setup(app):
    app.connect("builder-inited", start)
    app.connect("html-collect-pages", search_page)
    app.connect("build-finished", publish)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
