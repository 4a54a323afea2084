"""The reader's mine.py: each state runs by itself, and what a chapter repeats of it is true."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from pathlib import Path

import pytest
from execute import CHAPTERS, ROOT

sys.path.insert(0, str(ROOT / "_ext"))
import cells
import mine

STATES = mine.states(CHAPTERS)
ALLOWED = {"__future__", "json", "math", "random", "torch"}


def notebook(*sources: tuple[str, str]) -> str:
    """A notebook of code cells: pairs of a tag and a source."""
    found = [
        {"cell_type": "code", "id": str(i), "metadata": {"tags": [tag]}, "source": [source]}
        for i, (tag, source) in enumerate(sources)
    ]
    return json.dumps({"cells": found})


def repeats(text: str, before: str, adds: bool) -> bool:
    """Whether a text is the file that there was; part of it is enough where nothing is added."""
    if adds:
        return text.strip() == before.strip()
    there = {part.source for part in mine.parts(before)}
    return all(part.source in there for part in mine.parts(text))


def wrong_befores(folder: Path) -> list[str]:
    """The chapters whose cells tagged mine-before are not what the chapters before them made."""
    wrong, before = [], ""
    states = mine.states(folder)
    for path in sorted(folder.glob("[0-9]*.ipynb")):
        found = json.loads(path.read_text(encoding="utf-8"))["cells"]
        adds = any("mine" in cells.tags(cell) for cell in found)
        wrong += [
            path.stem
            for cell in found
            if "mine-before" in cells.tags(cell) and not repeats(cells.text(cell), before, adds)
        ]
        before = states.get(int(cells.place(path.stem)), before)
    return wrong


def foreign(source: str) -> set[str]:
    """The modules that a state imports and may not: it is plain PyTorch."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found.add((node.module or "").partition(".")[0])
    return found - ALLOWED


# Runs each file in a process of its own, which has torch at hand, and no name of it.
RUN = """
import os, runpy, sys, traceback
import torch
for path in sys.argv[1:]:
    if not os.fork():
        try:
            runpy.run_path(path, run_name="__main__")
        except BaseException:
            with open(path + ".wrong", "w") as file:
                traceback.print_exc(file=file)
        os._exit(0)
    os.wait()
    open(path + ".ran", "w").close()
"""


def wrong(states: dict[int, str], folder: Path) -> dict[int, str]:
    """What goes wrong when a state runs alone, by chapter; nothing where all is well."""
    files = {chapter: folder / f"{chapter}.py" for chapter in states}
    for chapter, file in files.items():
        file.write_text(states[chapter], encoding="utf-8")
    command = [sys.executable, "-I", "-W", "error", "-c", RUN, *files.values()]
    done = subprocess.run(command, capture_output=True, text=True, cwd=folder)
    assert done.returncode == 0, done.stderr
    said = {}
    for chapter, file in files.items():
        assert file.with_suffix(".py.ran").exists(), f"{file} did not run"
        error = file.with_suffix(".py.wrong")
        said[chapter] = error.read_text(encoding="utf-8") if error.exists() else ""
    return said


@pytest.fixture(scope="module")
def found_wrong(tmp_path_factory) -> dict[int, str]:
    return wrong(STATES, tmp_path_factory.mktemp("states"))


@pytest.mark.parametrize("chapter", STATES)
def test_a_state_runs_by_itself(found_wrong, chapter):
    assert found_wrong[chapter] == ""
    assert foreign(STATES[chapter]) == set()


def test_a_state_that_does_not_is_found(tmp_path):
    states = {
        1: "import torch\nx = torch.ones(2)",
        2: "x = torch.ones(2)",
        3: "import math\nassert math.pi < 3",
        4: "import warnings\nwarnings.warn('old')",
        5: "print(x)",  # of the first
    }
    said = {chapter: text.splitlines()[-1:] for chapter, text in wrong(states, tmp_path).items()}
    assert said.pop(1) == []
    assert [line.partition(":")[0] for (line,) in said.values()] == [
        "NameError", "AssertionError", "UserWarning", "NameError"
    ]  # fmt: skip


def test_what_a_chapter_repeats_is_what_there_was():
    assert wrong_befores(CHAPTERS) == []


def test_a_state_is_all_that_was_added(tmp_path):
    (tmp_path / "02_two.ipynb").write_text(notebook(("mine", "a = 1"), ("", "print(a)")))
    (tmp_path / "04_four.ipynb").write_text(
        notebook(("mine-before", "a = 1"), ("mine", "b = a"), ("mine", "c = b"))
    )
    assert mine.states(tmp_path) == {2: "a = 1\n", 4: "a = 1\n\n\nb = a\n\n\nc = b\n"}
    assert wrong_befores(tmp_path) == []
    (tmp_path / "02_two.ipynb").write_text(notebook(("mine", "a = 2")))
    assert wrong_befores(tmp_path) == ["04_four"]
    assert foreign("import numpy\nfrom torch import nn") == {"numpy"}


def test_a_chapter_that_adds_nothing_may_repeat_a_part(tmp_path):
    (tmp_path / "02_two.ipynb").write_text(notebook(("mine", "a = 1\n\n\nb = 2")))
    (tmp_path / "03_three.ipynb").write_text(notebook(("mine-before", "b = 2")))
    (tmp_path / "04_four.ipynb").write_text(notebook(("mine-before", "b = 3")))
    (tmp_path / "05_five.ipynb").write_text(notebook(("mine-before", "b = 2"), ("mine", "c = 3")))
    assert wrong_befores(tmp_path) == ["04_four", "05_five"]


def test_what_is_defined_again_takes_the_earlier_place():
    first = "import torch\n\n\n# Looks.\ndef attend(q): return q\n\n\nclass SingleHead: pass"
    second = "from torch import nn\nimport math\nimport torch\n\n\ndef attend(q): return -q"
    file = mine.grow(mine.grow("", first), second)
    assert file == (
        "import math\nimport torch\nfrom torch import nn\n\n\n"
        "def attend(q): return -q\n\n\nclass SingleHead: pass\n"
    )
    assert mine.grow("", file) == file
    replaced = mine.grow(file, "@cut\nclass MultiHead: pass", replaces=["SingleHead"])
    assert replaced.endswith("def attend(q): return -q\n\n\n@cut\nclass MultiHead: pass\n")
    assert "# Looks." in mine.grow("", first)


def test_a_cell_says_what_it_replaces(tmp_path):
    (tmp_path / "02_two.ipynb").write_text(notebook(("mine", "a = 1")))
    later = json.loads(notebook(("mine", "b = 2")))
    later["cells"][0]["metadata"]["mine"] = {"replaces": ["a"]}
    (tmp_path / "03_three.ipynb").write_text(json.dumps(later))
    assert mine.states(tmp_path)[3] == "b = 2\n"


def test_the_transformer_on_one_page_is_the_state_behind_chapter_14():
    page = {part.source for part in mine.parts(mine.program(CHAPTERS))}
    last = mine.parts(STATES[14])  # what Part IV adds is no Transformer of 2017
    assert [part.source for part in last if part.source not in page] == []
    assert len([line for part in last for line in part.source.splitlines() if line.strip()]) <= 200
    assert foreign(mine.program(CHAPTERS)) == set()
