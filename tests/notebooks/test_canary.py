"""nbval, as `make test` runs it, fails when a stored output is not what the cell gives.

A comparison that cannot fail looks exactly like one that passes. So the first cells of a chapter
are run as they are, and again with one character of one stored output altered.
"""

from __future__ import annotations

import copy
import os
import re
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
import strict
from execute import notebooks

pytestmark = pytest.mark.slow
COMPARED_CELLS = 3  # enough to hold a printed and a shown value, few enough to take seconds


def text_outputs(cell):
    """The (output, key) pairs of a cell that nbval compares as text."""
    if cell.cell_type != "code" or {"nbval-ignore-output", "nbval-skip"} & set(
        cell.metadata.get("tags", [])
    ):
        return
    for output in cell.outputs:
        if output.output_type == "stream":
            yield output, "text"
        elif "text/plain" in output.get("data", {}) and len(output.data) == 1:
            yield output.data, "text/plain"


@pytest.fixture(scope="module")
def chapter():
    """The beginning of the first chapter, to the third cell whose output is compared."""
    nb = nbformat.read(notebooks()[0], as_version=4)
    compared = [i for i, cell in enumerate(nb.cells) if list(text_outputs(cell))]
    nb.cells = nb.cells[: compared[:COMPARED_CELLS][-1] + 1]
    return nb


def run_strict(path: Path) -> subprocess.CompletedProcess:
    # A worker of the test run that we are in must not be taken for one of the inner run.
    env = {key: value for key, value in os.environ.items() if not key.startswith("PYTEST_")}
    command = [sys.executable, strict.__file__, str(path), "-n=0"]
    return subprocess.run(command, capture_output=True, text=True, env=env, cwd=path.parent)


def altered(text: str) -> str:
    """`text` with its last digit, or else its last letter, turned into another."""
    for kind in (r"\d", r"[a-z]"):
        found = list(re.finditer(kind, text))
        if found:
            at = found[-1].start()
            return text[:at] + ("7" if text[at] != "7" else "3") + text[at + 1 :]
    raise AssertionError(f"nothing to alter in {text!r}")


def test_untouched_outputs_pass(chapter, tmp_path):
    path = tmp_path / "chapter.ipynb"
    nbformat.write(chapter, path)
    result = run_strict(path)
    assert result.returncode == 0, result.stdout + result.stderr
    assert re.search(
        rf"\b{sum(c.cell_type == 'code' for c in chapter.cells) - 1} passed", result.stdout
    )


def test_an_altered_output_fails(chapter, tmp_path):
    nb = copy.deepcopy(chapter)
    output, key = list(text_outputs(nb.cells[-1]))[-1]
    output[key] = altered(output[key])
    path = tmp_path / "chapter.ipynb"
    nbformat.write(nb, path)
    result = run_strict(path)
    assert result.returncode == 1, result.stdout + result.stderr
    assert re.search(r"\b1 failed", result.stdout), result.stdout
    assert "Cell outputs differ" in result.stdout or "mismatch" in result.stdout, result.stdout


def test_nbval_is_not_lax():
    assert "--nbval" in strict.OPTIONS
    assert not [option for option in strict.OPTIONS if "lax" in option]


def test_nothing_is_sanitized_away():
    """Whoever adds a section to sanitize.cfg raises this number, and says there why."""
    config = (Path(strict.__file__).with_name("sanitize.cfg")).read_text(encoding="utf-8")
    assert len(re.findall(r"^\[", config, re.M)) == 0
