"""What a link means, beside the link: a glossary term's definition, a work's entry.

Each page gets the definitions of the terms it links to, hidden below the text; a link names its own
by `aria-describedby`, and tooltips.js shows it on hover, on focus and on a first touch. Without the
script the link leads to the glossary, as it did.

In a notebook a term is linked as `[queries](glossary.md#term-query)`: plain Markdown, which also
reads well where no Sphinx is (numbered.py tells MyST of the terms).

The glossary leads back: letters at its top, and below each term the section that links it first.
"""

import posixpath
import re
from functools import cache

from docutils import nodes
from pybtex_docutils import Backend
from sphinx.addnodes import glossary, pending_xref
from sphinx.util.nodes import make_refnode

from book import chapter_of

SCRIPT = "tooltips.js"
GLOSSARY, APPENDIX = "chapters/glossary", "chapters/bibliography"
LINK = re.compile(r'<a class="reference internal[^"]*" href="([^"#]*)#([^"]+)"')


def note_terms(app, doctree):
    """Which section of a chapter links each term first. When the glossary changes, so may pages
    that show a definition."""
    env = app.env
    if not hasattr(env, "attention_sections"):
        env.attention_sections = {}
    sections = env.attention_sections[env.docname] = {}
    for section in doctree.findall(nodes.section):
        for link in section.findall(pending_xref) if isinstance(section[0], nodes.title) else ():
            if link.get("reftarget") == GLOSSARY:
                sections[link.get("reftargetid")] = section["ids"][0]
    if sections:
        env.note_dependency(env.doc2path(GLOSSARY))


def rewrite(app, env):
    """What says which chapters name a term or a work."""
    return [GLOSSARY, APPENDIX]


def lead_on(app, doctree, docname):
    """The letters, and each term's chapter."""
    if docname != GLOSSARY:
        return
    letters, sections = nodes.paragraph(classes=["glossary-letters"]), app.env.attention_sections
    chapters = sorted(doc for doc in sections if chapter_of(doc))
    for item in doctree.findall(nodes.definition_list_item):
        (anchor,), letter = item[0]["ids"], item[0].astext()[0].upper()
        if letter not in letters.astext():
            letters += [nodes.reference("", letter, refid=anchor, internal=True), nodes.Text(" ")]
        for doc in [doc for doc in chapters if anchor in sections[doc]][:1]:
            name = nodes.Text(f"Chapter {chapter_of(doc)}")
            link = make_refnode(app.builder, docname, doc, sections[doc][anchor], name)
            item[-1] += nodes.container("", nodes.inline("", "", link), classes=["first-linked"])
    next(doctree.findall(glossary)).insert(0, letters)


@cache
def definitions(app) -> dict[tuple[str, str], str]:
    """(page, anchor) of each term and each work -> what it means, as HTML without links and ids.

    A chapter has its works under anchors of their own, the same in each: their page is empty.
    """
    known = {}
    terms = app.env.get_and_resolve_doctree(GLOSSARY, app.builder)
    for item in terms.findall(nodes.definition_list_item):
        (anchor,), term = item[0]["ids"], item[0].astext()
        known[GLOSSARY, anchor] = meaning(app, term, item[-1])
    for work in app.env.get_domain("cite").citations:
        entry = as_text(app, Backend().paragraph(work.formatted_entry))
        known[APPENDIX, work.citation_id] = known["", f"ref-{work.key}"] = entry
    return known


def meaning(app, term: str, definition: nodes.definition) -> str:
    paragraphs = [paragraph.deepcopy() for paragraph in definition.findall(nodes.paragraph)]
    paragraphs[0].insert(0, [nodes.strong("", term), nodes.Text(" ")])
    return "".join(as_text(app, paragraph) for paragraph in paragraphs)


def as_text(app, paragraph: nodes.paragraph) -> str:
    """HTML that can stand on any page: a tip cannot be entered, so its links are text."""
    for node in list(paragraph.findall(nodes.Element)):
        node["ids"] = []
    for link in list(paragraph.findall(nodes.reference)):
        link.replace_self(link.children)
    return app.builder.render_partial(paragraph)["fragment"].strip()


def describe_links(app, pagename, templatename, context, doctree):
    """Give each link with a meaning the id of its tip, and the page the tips."""
    if doctree is None or "body" not in context:
        return
    known, tips = definitions(app), {}

    def describe(match):
        page, anchor = match.groups()
        target = posixpath.normpath(posixpath.join(posixpath.dirname(pagename), page))
        place = (target.removesuffix(".html") if page else "", anchor)
        if place not in known:
            return match[0]
        tips[f"tip-{anchor}"] = known[place]
        return f'{match[0]} aria-describedby="tip-{anchor}"'

    body = LINK.sub(describe, context["body"])
    if tips:
        shown = [f'<div role="tooltip" id="{i}" hidden>{tip}</div>' for i, tip in tips.items()]
        context["body"] = f'{body}\n<div class="tips">{"".join(shown)}</div>\n'
        app.add_js_file(SCRIPT, loading_method="defer")


def setup(app):
    app.connect("doctree-read", note_terms)
    app.connect("doctree-resolved", lead_on)
    app.connect("env-updated", rewrite)
    app.connect("html-page-context", describe_links)
    return {"parallel_read_safe": False, "parallel_write_safe": False}
