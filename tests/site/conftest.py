"""Fixtures for tests that look at the built site; see pages.py."""

import os
from pathlib import Path

import pages
import published as publication
import pytest

from browsers import browsing, need_browser


@pytest.fixture(scope="session")
def book() -> Path:
    """The folder of the built site."""
    if not (pages.BOOK / "index.html").is_file():
        pytest.fail(f"the site is not built: no index.html in {pages.BOOK}; run: make book")
    return pages.BOOK


@pytest.fixture(scope="session")
def published(book, tmp_path_factory) -> Path:
    """The folder of another build: the same book with the repository's address set."""
    folder = tmp_path_factory.getbasetemp()
    return publication.build(folder.parent if "PYTEST_XDIST_WORKER" in os.environ else folder)


@pytest.fixture(scope="session")
def published_address(published):
    """Where that is on this machine, while a server like GitHub's serves it."""
    with pages.serving(published, kind=publication.PagesHandler) as address:
        yield address.removesuffix("/") + publication.PREFIX


@pytest.fixture(scope="session")
def bases(book) -> dict[str, str]:
    """Where the site is, by scheme."""
    with pages.serving(book) as address:
        yield {"http": address, "file": book.as_uri() + "/"}


@pytest.fixture(scope="session")
def browser(book):
    with browsing(need_browser()) as browser:
        yield browser


@pytest.fixture
def visit(browser, bases):
    """visit(page, where, figures, **context options) -> page, for one test.

    Where is http, file or another address. What a page complains of fails the test in the end.
    """
    watches = []

    def visit(page: str, where: str = "http", figures: str = "#none", **options):
        base = bases.get(where, where)
        options = {"viewport": {"width": 1280, "height": 900}, "reduced_motion": "reduce"} | options
        watches.append(pages.Watch(browser.new_context(**options), base))
        return pages.open_page(watches[-1].context, base + page, figures)

    yield visit
    complaints = [watch.complaints for watch in watches if watch.complaints]
    for watch in watches:
        watch.context.close()
    assert complaints == []
