"""The site in Firefox: a page of each kind, each kind of live figure, and a reader's way through.

Chromium has the whole of the tests; here is what another browser could do otherwise. Puppeteer
drives it, for Playwright knows no Firefox but its own. Debian has Firefox as firefox-esr; where
there is none, nothing of this runs.
"""

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest
from pages import NODE, PICTURE, SAMPLE, gallery

SCRIPT = Path(__file__).with_name("firefox.mjs")
pytestmark = pytest.mark.slow


def wrong(**asked: list[str]) -> dict[str, list[str]]:
    names = [os.environ.get("FIREFOX_PATH"), "firefox-esr", "firefox"]
    firefox = next((path for name in names if name and (path := shutil.which(name))), None)
    if firefox is None:
        pytest.skip("no Firefox: FIREFOX_PATH, firefox-esr, firefox")
    asked |= {"firefox": firefox, "picture": PICTURE}
    run = subprocess.run([NODE, SCRIPT, json.dumps(asked)], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    return {address: found for address, found in json.loads(run.stdout).items() if found}


def test_pages_fit_a_phone_and_their_figures_answer_to_keys(bases):
    assert wrong(pages=[bases["http"] + name for name in sorted({*SAMPLE, *gallery()})]) == {}


def test_a_reader_s_way(bases):
    """Drags a handle, answers a question, opens a box, changes the theme, searches."""
    assert wrong(wayFrom=[f"{base}chapters/01_soft_lookup.html" for base in bases.values()]) == {}
