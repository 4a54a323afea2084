"""A small Transformer in JavaScript, forward and backward, that runs in a reader's page.

Weights have the names and shapes of the library's ``state_dict``. Matrix products run in
WebAssembly, which the page assembles itself (``assembler.js``, ``product.js``), or else in plain
JavaScript.
"""

import re
from pathlib import Path

__all__ = ["source"]

FOLDER = Path(__file__).parent

_IMPORT = re.compile(r'^import (\{[^}]*\}) from "\./(\w+\.js)";$', re.MULTILINE)
_EXPORT = re.compile(r"^export ((?:function\*?|class|const) (\w+))", re.MULTILINE)


def source(front: str = "index.js") -> str:
    """Return the engine as one script without imports: ``const engine = {...}``.

    A Worker made from text has no folder to import from. Each file becomes its own function, so
    that names don't clash.
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
        raise ValueError(f"{name} has an import or export of an unexpected form")
    return f"Object.assign(engine, (() => {{\n{inner}\nreturn {{ {names} }};\n}})());\n"
