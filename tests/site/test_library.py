"""The library's reference: every public name once, its docstring set, its code a click away."""

import importlib
import re
from collections import defaultdict
from pkgutil import iter_modules, resolve_name
from types import ModuleType

import pytest
from pages import BOOK, parsed

import transformer_lib
from transformer_lib import figures

PAGES = sorted(f"reference/{path.name}" for path in (BOOK / "reference").glob("*.html"))


def public_modules() -> list[ModuleType]:
    """The package and its modules; `figures` is only a folder, so its modules count, too."""
    found = [*iter_modules(transformer_lib.__path__, "transformer_lib.")]
    found += iter_modules(figures.__path__, "transformer_lib.figures.")
    names = [module.name for module in found if module.name != "transformer_lib.__main__"]
    modules = [transformer_lib, *map(importlib.import_module, names)]
    return [module for module in modules if hasattr(module, "__all__")]


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


def named(path: str) -> object:
    """What an entry is about: `transformer_lib.attention` is the function, not its module."""
    return resolve_name(":".join(path.rsplit(".", 1)))


def test_every_public_name_stands_once(book):
    documented = defaultdict(list)
    for path in entries(nested=False):
        documented[path.rpartition(".")[2]].append(named(path))
    wanted = [(m, name, getattr(m, name)) for m in public_modules() for name in m.__all__]
    assert len(wanted) > 100
    lost = [
        f"{module.__name__}.{name}"
        for module, name, thing in wanted
        if sum(entry is thing for entry in documented[name]) != 1
    ]
    assert lost == []


RAW = re.compile(
    r"``|:\w+:`|\.\. \w+::|^(?:Args|Returns|Raises|Source|Example|Yields):\s*$|>>>", re.M
)


def test_no_markup_is_left(book):
    """What napoleon doesn't know of a docstring's sections stays as it was written."""
    for page in PAGES:
        article = parsed(page).select_one("article")
        code = {id(text) for e in article.select("pre, code") for text in e.find_all(string=True)}
        texts = [text for text in article.find_all(string=True) if id(text) not in code]
        assert [text for text in texts if RAW.search(text)] == [], page
        assert [str(e)[:80] for e in article.select("pre.doctest-block, .problematic")] == []


def test_the_code_is_a_click_away_and_leads_back(book):
    entered = entries(nested=False) | entries(nested=True)
    without = [
        path
        for path, head in entries(nested=False).items()
        if callable(named(path)) and not head.select("a .viewcode-link")
    ]
    assert without == []
    ways = [
        (path, *link["href"].split("#"))
        for path in (BOOK / "_modules").rglob("*.html")
        for link in parsed(path.relative_to(BOOK).as_posix()).select("a.viewcode-back")
    ]
    lost = [way for way in ways if way[2] not in entered or not (way[0].parent / way[1]).is_file()]
    assert lost == [] and len(ways) > 100


@pytest.mark.slow
def test_a_second_build_changes_what_was_changed(book, published):
    """And keeps what all pages load: it's made of files that the first build put away."""
    changed = (published / "reference" / "attention.html").read_text(encoding="utf-8")
    assert "One line more." in changed
    ours, theirs = (site / "_static" / "site.js" for site in (book, published))
    assert ours.read_bytes() == theirs.read_bytes()
