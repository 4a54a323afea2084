"""Lighthouse is content with a chapter and its live figures, on a phone with a slow line.

Its score for performance is mostly made of times, which depend on what else the machine does:
`make bench` prints it. Those of its audits that use no clock are tested here.
"""

from __future__ import annotations

import os

import pytest
from lighthouse import PROGRAM, judge
from pages import serving

from browsers import find_browser

PAGE = "chapters/01_soft_lookup.html"
SCORES = {"accessibility": 100, "best-practices": 95}
WITHOUT_A_CLOCK = ("cumulative-layout-shift", "total-byte-weight", "unsized-images")
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def browser_path() -> str:
    """Lighthouse's browser, when Lighthouse is there as well."""
    browser = find_browser()
    if browser and PROGRAM.is_file():
        return browser
    reason = "no Chromium or Chrome, or no lighthouse in node_modules: run make test, or npm ci"
    if os.environ.get("CI") == "true":
        pytest.fail(f"{reason}; with CI=true both are required")
    pytest.skip(reason)


def test_a_chapter_pleases_lighthouse(book, browser_path):
    with serving(book, {}) as address:
        scores, missed = judge(address + PAGE, browser_path, SCORES, WITHOUT_A_CLOCK)
    assert {name: scores[name] for name in SCORES if scores[name] < SCORES[name]} == {}, missed
    assert missed.keys() & set(WITHOUT_A_CLOCK) == set(), missed
