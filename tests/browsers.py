"""Which browser the tests use, and how they start it.

Chromium's headless shell comes first: it draws the same pages without a window around them, in a
third of the processor's time.
"""

import os
import shutil
from contextlib import contextmanager

import pytest

NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")


def find_browser() -> str | None:
    """The path of a Chromium or Chrome, or None."""
    names = [os.environ.get("CHROME_PATH"), *NAMES]
    return next((path for name in names if name and (path := shutil.which(name))), None)


def need_browser() -> str:
    """The same; without one, tests are skipped, and fail where CI=true."""
    if found := find_browser():
        return found
    reason = f"no browser: CHROME_PATH, {', '.join(NAMES)}"
    if os.environ.get("CI") == "true":
        pytest.fail(f"{reason}; with CI=true one is required")
    pytest.skip(reason)


@contextmanager
def browsing(executable: str):
    """A headless browser. Playwright sees to it that it asks nobody for updates."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        arguments = ["--disable-gpu", "--disable-quic"]
        browser = playwright.chromium.launch(executable_path=executable, args=arguments)
        try:
            yield browser
        finally:
            browser.close()
