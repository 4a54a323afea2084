"""Which browser the tests use.

Chromium's headless shell comes first: it draws the same pages without a window around them, in a
third of the processor's time.
"""

import os
import shutil

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
