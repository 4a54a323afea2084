"""A chapter reads well where no Sphinx is: in Colab, in Jupyter, on GitHub.

They render CommonMark, tables and `$math$`, and show everything else of MyST as it was typed. So a
chapter is plain Markdown: tags say what a cell is, and terms, papers and figures are links
(CONTRIBUTING.md, *Links*).
"""

import re
from pathlib import Path

import nbformat
import pytest
from execute import notebooks
from markdown_it import MarkdownIt
from mdit_py_plugins.dollarmath import dollarmath_plugin

CHAPTERS = notebooks()
FENCED = re.compile(r"^(`{3,}|~{3,})(?!\{).*?^\1", re.M | re.S)
DIRECTIVE = re.compile(r"^ *(?:[`~]{3,}\{|:{3,}).*", re.M)
TYPED = {
    "a role": re.compile(r"\{[\w:+-]+\}`"),
    "a target": re.compile(r"^\([\w:-]+\)=\s*$", re.M),
    "attributes": re.compile(r"(?<=[\])`*_])\{[.#:\w]"),
    "a footnote": re.compile(r"\[\^\w+\]"),
    "a comment": re.compile(r"^%", re.M),
    "a substitution": re.compile(r"\{\{"),
    "a definition list": re.compile(r"^: ", re.M),
    "a label of an equation": re.compile(r"^\$\$ *\([\w:-]+\)", re.M),
}
plain = MarkdownIt("commonmark").enable("table").use(dollarmath_plugin, double_inline=True)


def prose(text: str) -> str:
    """The text that is neither code nor math."""
    tokens = [child for token in plain.parse(text) for child in (token.children or [])]
    return "\n".join(token.content for token in tokens if token.type == "text")


def without_code(text: str) -> str:
    text = FENCED.sub("", text)
    text = re.sub(r"\$\$.*?\$\$(?! *\()|(?<!\$)\$(?!\$)[^$\n]*\$", "math", text, flags=re.S)
    return re.sub(r"(?<![}`])`[^`\n]*`", "code", text)


def complaints(text: str) -> list[str]:
    """What in a Markdown cell would be shown as it was typed, or not at all."""
    found = [f"a directive: {line}" for line in DIRECTIVE.findall(FENCED.sub("", text))]
    bare = without_code(text)
    found += [f"{kind}: {m[0]}" for kind, rule in TYPED.items() if (m := rule.search(bare))]
    if re.search(r"\\(?:begin|frac|sqrt|sum)\b|(?<!\\)\$", prose(text)):
        found.append("math without its dollars")
    return found


def markdown_cells(path: Path) -> list[tuple[str, str]]:
    cells = nbformat.read(path, as_version=4).cells
    return [(cell.id, cell.source) for cell in cells if cell.cell_type == "markdown"]


@pytest.mark.parametrize("path", CHAPTERS, ids=lambda path: path.stem)
def test_a_chapter_reads_well_without_sphinx(path):
    cells = markdown_cells(path)
    assert [f"{cell}: {what}" for cell, text in cells for what in complaints(text)] == []
