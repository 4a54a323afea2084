"""The library's reference: every public name once, its docstring set, no torch needed."""

from __future__ import annotations

import importlib
import inspect
import os
import re
import shutil
import subprocess
import sys
from collections import defaultdict
from types import ModuleType

import pytest
from pages import BOOK, ROOT, parsed

PACKAGE = ROOT / "transformer_lib"
PAGES = sorted(f"reference/{path.name}" for path in (BOOK / "reference").glob("*.html"))
every_page = pytest.mark.parametrize("page", PAGES or ["reference/index.html"])

# What napoleon makes of the sections of a docstring.
HEADINGS = {
    "Args": "Parameters",
    "Attributes": "Attributes",
    "Example": "Example",
    "Raises": "Raises",
    "Returns": "Returns",
    "Source": "Source",
    "Yields": "Yields",
}


def public_modules() -> list[ModuleType]:
    """The front door and what lies directly behind it; `figures` is but a folder."""
    paths = [*PACKAGE.glob("*.py"), *PACKAGE.glob("*/__init__.py")]
    paths += [*(PACKAGE / "figures").glob("*.py"), *(PACKAGE / "figures").glob("*/__init__.py")]
    names = {
        ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
        for path in paths
        if path.stem != "__main__"
    }
    found = [importlib.import_module(name) for name in sorted(names)]
    whole = [getattr(m, n) for m in found for n in getattr(m, "__all__", ())]
    return found + [module for module in whole if isinstance(module, ModuleType)]


def public_names(module: ModuleType) -> list[str]:
    """Its `__all__`; all functions of one inside a package, which that package lists whole."""
    if not hasattr(module, "__all__"):
        found = inspect.getmembers(module, inspect.isfunction)
        return [n for n, f in found if f.__module__ == module.__name__ and n[0] != "_"]
    return module.__all__


def thing_called(path: str):
    """A function may be called as its module is: the function is meant."""
    parent, _, name = path.rpartition(".")
    try:
        return getattr(importlib.import_module(parent), name)
    except ModuleNotFoundError:
        return getattr(thing_called(parent), name)


def entries(nested: bool) -> dict[str, object]:
    """The entries of all pages by their anchor; methods and properties if nested."""
    found = {}
    for page in PAGES:
        for head in parsed(page).select("dl.py > dt.sig[id], [id^=module-]"):
            if (head.find_parent("dd") is not None) == nested:
                name = head["id"].removeprefix("module-")
                assert name not in found, f"{name} stands twice"
                found[name] = head
    return found


def test_every_public_name_stands_once(book):
    documented = defaultdict(list)
    for path in entries(nested=False):
        documented[path.rpartition(".")[2]].append(path)
    missing, used = [], set()
    for module in public_modules():
        for name in public_names(module):
            thing = getattr(module, name)
            same = [path for path in documented[name] if thing_called(path) is thing]
            used.update(same)
            if len(same) != 1:
                missing.append(f"{module.__name__}.{name}: {same}")
    assert missing == []
    assert {path for paths in documented.values() for path in paths} == used
    assert len(used) > 100


def test_every_section_of_a_docstring_is_set(book):
    """As a heading of its own, and no `Args:` in the text."""
    lost = []
    for path, head in (entries(nested=False) | entries(nested=True)).items():
        body = head.find_next_sibling("dd")
        if body is None:  # a module
            continue
        thing = thing_called(path)
        written = inspect.getdoc(thing) if not isinstance(thing, (int, str, dict, tuple)) else ""
        wanted = [
            HEADINGS[name]
            for name in re.findall(r"^(\w+):$", written or "", re.M)
            if name in HEADINGS
        ]
        members = {id(inner) for dl in body.select("dl.py") for inner in dl.find_all(True)}
        set_ = [
            title.get_text().rstrip(":")
            for title in body.select("dl.field-list > dt, p.rubric")
            if id(title) not in members
        ]
        if sorted(wanted) != sorted(set_):
            lost.append(f"{path}: {wanted} in the docstring, {set_} on the page")
    assert lost == []


RAW = re.compile(
    r"``|:\w+:`|\.\. \w+::|^(?:Args|Returns|Raises|Source|Example|Yields):\s*$|>>>", re.M
)


@every_page
def test_no_markup_is_left(book, page):
    article = parsed(page).select_one("article")
    code = {id(text) for e in article.select("pre, code") for text in e.find_all(string=True)}
    texts = [text for text in article.find_all(string=True) if id(text) not in code]
    assert [text for text in texts if RAW.search(text)] == []
    assert [str(e)[:80] for e in article.select("pre.doctest-block, .problematic")] == []


def test_the_code_itself_is_a_click_away(book):
    without = [
        path
        for path, head in entries(nested=False).items()
        if callable(thing_called(path)) and not head.select("a .viewcode-link")
    ]
    assert without == []


def test_and_the_code_leads_back_to_its_entry(book):
    entered = entries(nested=False) | entries(nested=True)
    ways, lost = 0, []
    for path in (BOOK / "_modules").rglob("*.html"):
        for link in parsed(path.relative_to(BOOK).as_posix()).select("a.viewcode-back"):
            page, _, anchor = link["href"].partition("#")
            ways += 1
            if anchor not in entered or not (path.parent / page).is_file():
                lost.append(f"{path.stem}: {link['href']}")
    assert lost == []
    assert ways > 100


def part_of_the_book(folder, root: str):
    """A function that builds a book of one page there, without torch and the library."""
    for name in ("_ext", "_static", "reference", "transformer_lib"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("_config.yml", "references.bib", "pyproject.toml", "CHANGELOG.md"):
        shutil.copyfile(ROOT / name, folder / name)
    (folder / "node_modules").symlink_to(ROOT / "node_modules")
    (folder / "_toc.yml").write_text(f"format: jb-book\nroot: {root}\n")
    for name in ("torch", "transformer_lib"):
        poison = folder / "poison" / name / "__init__.py"
        poison.parent.mkdir(parents=True)
        poison.write_text(f"raise SystemError('{name} was imported')")
    build = "from jupyter_book.cli.main import main; main()"
    command = [sys.executable, "-c", build, "build", str(folder), "--quiet"]
    paths = os.pathsep.join([str(folder / "poison"), str(folder)])

    def made():
        result = subprocess.run(
            command, env=os.environ | {"PYTHONPATH": paths}, capture_output=True, text=True
        )
        said = result.stdout + result.stderr
        assert "was imported" not in said
        assert result.returncode == 0, said
        return folder / "_build" / "html"

    return made


@pytest.mark.slow
def test_no_module_is_imported_to_write_it(tmp_path):
    """Neither torch nor the library itself: both fail loudly here when somebody does."""
    html = part_of_the_book(tmp_path, "reference/attention")()
    page = html / "reference" / "attention.html"
    assert "transformer_lib.causal_mask" in page.read_text(encoding="utf-8")
    assert list((html / "_modules").rglob("masks.html"))


@pytest.mark.slow
def test_a_second_build_keeps_what_pages_load(tmp_path):
    """Also beside a page of the first build that only leads on, and loads nothing.

    With `slim: false`, pages load the theme's files and the book's, which are there again.
    """
    build = part_of_the_book(tmp_path, "reference/attention")
    html = build()
    script = (html / "_static" / "site.js").read_bytes()
    assert b"theme-switch" in script
    (html / "moved.html").write_text("<!DOCTYPE html><title>It has moved</title>")
    source = tmp_path / "reference" / "attention.rst"
    source.write_text(source.read_text(encoding="utf-8") + "\nOne line more.\n", encoding="utf-8")
    assert "One line more." in (build() / "reference" / "attention.html").read_text(
        encoding="utf-8"
    )
    assert (html / "_static" / "site.js").read_bytes() == script
    config = tmp_path / "_config.yml"
    config.write_text(config.read_text("utf-8").replace("slim: true", "slim: false"), "utf-8")
    page = (build() / "reference" / "attention.html").read_text(encoding="utf-8")
    loaded = set(re.findall(r'(?:href|src)="\.\./(_static/[\w./-]+)', page))
    assert {"_static/book.css", "_static/scripts/bootstrap.js"} <= loaded
    assert [name for name in loaded if not (html / name).is_file()] == []
