"""Equations set by KaTeX while the book is built: a page needs a style sheet and fonts, no script.

Sphinx writes their LaTeX into the pages, and slim.py has all of it set at once. An equation that
KaTeX cannot read is a warning, and so fails the build.
"""

import html
import re
from collections.abc import Callable
from pathlib import Path

from docutils import nodes
from sphinx.util import logging
from sphinx.util.math import get_node_equation_number

LOGGER = logging.getLogger(__name__)
# Docstrings align equations without saying so, as Sphinx's own directive allows.
ALIGNED = re.compile(r"\\\\|(?<!\\)&")
NOT_SET = re.compile(r"<tex-(line|display)>(.*?)</tex-\1>", re.DOTALL)
# A formula in a line, and the mark after it: the line must not end between the two.
FORMULA = r'<span class="math"[^>]*><tex-line>[^<]*</tex-line></span>'
BEFORE_MARK = re.compile(rf"({FORMULA})([.,;:!?)\]’”]+)")
WRONG = re.compile(r'class="katex-error" title="([^"]*)"')


def as_tex(latex: str, kind: str) -> str:
    return f"<tex-{kind}>{html.escape(latex)}</tex-{kind}>"


def set_equations(pages: dict[Path, str], ask: Callable) -> dict[Path, str]:
    """The pages with their equations set."""
    unbroken = r'<span class="unbroken">\1\2</span>'
    pages = {page: BEFORE_MARK.sub(unbroken, text) for page, text in pages.items()}
    asked = sorted({each for text in pages.values() for each in NOT_SET.findall(text)})
    answers = ask("equation", [(kind, html.unescape(latex)) for kind, latex in asked])
    known = dict(zip(asked, answers, strict=True))
    found = {
        page: NOT_SET.sub(lambda equation: known[equation.groups()], text)
        for page, text in pages.items()
    }
    for page, text in found.items():
        for error in WRONG.findall(text):
            LOGGER.warning("%s: %s", page.stem, html.unescape(error), type="equations")
    return found


def visit_inline(translator, node):
    tag = translator.starttag(node, "span", "", CLASS="math")
    translator.body.append(tag + as_tex(node.astext(), "line") + "</span>")
    raise nodes.SkipNode


def visit_block(translator, node):
    latex = node.astext()
    if ALIGNED.search(latex) and r"\begin" not in latex:
        latex = rf"\begin{{aligned}}{latex}\end{{aligned}}"
    translator.body.append(translator.starttag(node, "div", CLASS="math"))
    if node["number"]:
        number = get_node_equation_number(translator, node)
        translator.body.append(f'<span class="eqno">({number})')
        translator.add_permalink_ref(node, "Link to this equation")
        translator.body.append("</span>")
    # The second class lets the theme's script bring the keyboard to an equation that scrolls.
    translator.body.append('<div class="equation jp-RenderedHTMLCommon">')
    translator.body.append(as_tex(latex, "display") + "</div></div>\n")
    raise nodes.SkipNode


def setup(app):
    app.add_html_math_renderer("katex", (visit_inline, None), (visit_block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
