"""Fixtures for tests that look at the built site; see pages.py."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))
import pages
import published as publication

from browsers import need_browser


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
def bases(book) -> dict[str, str]:
    """Where the site is, by scheme."""
    with pages.serving(book) as address:
        yield {"http": address, "file": book.as_uri() + "/"}


@pytest.fixture(scope="session")
def browser(book):
    with pages.browsing(need_browser()) as browser:
        yield browser


def visiting(browser, bases):
    contexts = []

    def visit(page: str, scheme: str = "http", figures: str = "[data-model]", **options):
        options = {"viewport": {"width": 1280, "height": 900}, "reduced_motion": "reduce"} | options
        context = browser.new_context(**options)
        contexts.append(context)
        watch = pages.Watch(context, bases[scheme])
        return pages.open_page(context, bases[scheme] + page, figures), watch

    yield visit
    for context in contexts:
        context.close()


@pytest.fixture
def visit(browser, bases):
    """visit(page, scheme, figures, **context options) -> (page, watch), for one test."""
    yield from visiting(browser, bases)


@pytest.fixture(scope="module")
def visit_once(browser, bases):
    """The same, for pages that several tests use."""
    yield from visiting(browser, bases)
