"""A small Transformer in JavaScript, forward and backward, that runs in a reader's page.

One file per idea, no framework. Weights have the names and shapes of the library's ``state_dict``.
Matrix products run in WebAssembly, whose bytes the page makes itself (``assembler.js``,
``product.js``), or in plain JavaScript where there is none.
"""

from __future__ import annotations

import re
from pathlib import Path

__all__ = ["source"]

FOLDER = Path(__file__).parent

_IMPORT = re.compile(r'^import (\{[^}]*\}) from "\./(\w+\.js)";$', re.MULTILINE)
_EXPORT = re.compile(r"^export ((?:function\*?|class|const) (\w+))", re.MULTILINE)


def source(front: str = "index.js") -> str:
    """Return the engine as one script that needs no module: ``const engine = {...}``.

    A Worker that a page makes from text has no folder to import from. Each file becomes a function
    of its own, so that their names do not meet.
    """
    order: list[str] = []

    def visit(name: str) -> None:
        if name not in order:
            for needed in re.findall(r'from "\./(\w+\.js)"', _read(name)):
                visit(needed)
            order.append(name)

    visit(front)
    return "const engine = {};\n" + "".join(map(_scope, order[:-1]))


def _read(name: str) -> str:
    return (FOLDER / name).read_text(encoding="utf-8")


def _scope(name: str) -> str:
    text = _read(name)
    names = ", ".join(found for _, found in _EXPORT.findall(text))
    inner = _EXPORT.sub(r"\1", _IMPORT.sub(r"const \1 = engine;", text))
    if re.search(r"^(import|export)\b", inner, re.MULTILINE):
        raise ValueError(f"{name} has an import or export of another form than the engine's")
    return f"Object.assign(engine, (() => {{\n{inner}\nreturn {{ {names} }};\n}})());\n"
