"""Chapters keep to their form: short, plain, complete in `mine.py`.

CONTRIBUTING, *How a chapter is written*, has the form.
"""

import json
import re
from pathlib import Path

import pytest
from execute import ROOT

import reading

NAMES = sorted(path.stem for path in (ROOT / "chapters").glob("[0-9]*.ipynb"))

MOST_MINUTES, MOST_WORDS_DEEPER, MOST_LINES_OF_MINE = 30, 600, 40
MOST_ASSERTS, MOST_REFERENCES, MOST_LONG_SENTENCES, LONG = 4, 5, 3, 34
ASSERT = re.compile(r"^\s*(?:assert |torch\.testing\.assert_close)", re.M)
ODD = re.compile(
    r"\b(mend(s|ed|ing)?|for the while|in company|dear|dearest|the way around|is not lost on|"
    r"simply|obviously|just)\b",
    re.I,
)


def cells_of(path: Path) -> list[dict]:
    return json.loads(path.read_text(encoding="utf-8"))["cells"]


def source(cell) -> str:
    return "".join(cell["source"])


def sentences(cells) -> list[str]:
    """Of running text: no lists, tables or headings."""
    text = "\n\n".join(reading.prose(cell) for cell in cells if cell["cell_type"] == "markdown")
    lines = [line for line in text.splitlines() if not re.match(r"\s*([-*|>#]|\d+\.)", line)]
    return re.split(r"(?<=[.!?])\s+|\n\s*\n", "\n".join(lines))


def complaints(cells) -> list[str]:
    """What in a chapter isn't in the form."""
    found = []
    core, deeper = reading.parts(cells)
    kinds = [kind for cell in cells for kind in reading.tags(cell)]

    minutes = reading.minutes(core)
    if minutes > MOST_MINUTES:
        found.append(f"the first reading takes {minutes} minutes, at most {MOST_MINUTES}")
    for kind in ("recall", "predict", "exercise"):
        if kind not in kinds:
            found.append(f"no cell tagged {kind}")
    if not any(source(cell).startswith("## Break it") for cell in core):
        found.append('no section "Break it"')
    for cell in cells:
        if "mine" in reading.tags(cell):
            lines = [line for line in source(cell).splitlines() if line.strip()]
            if len(lines) > MOST_LINES_OF_MINE:
                found.append(f"mine.py grows by {len(lines)} lines, at most {MOST_LINES_OF_MINE}")
            if "transformer_lib" in source(cell):
                found.append("mine.py imports the library")
    found += [f"mine.py grows under “{heading}”" for heading in headings_of_mine(cells)
              if heading != "The finished code"]  # fmt: skip

    seen = [cell for cell in core if cell["cell_type"] == "code"
            and reading.NO_CODE.isdisjoint(reading.tags(cell))]  # fmt: skip
    asserts = sum(len(ASSERT.findall(source(cell))) for cell in seen)
    if asserts > MOST_ASSERTS:
        found.append(f"{asserts} asserts are seen, at most {MOST_ASSERTS}")
    if any("getsource" in source(cell) for cell in cells):
        found.append("a listing of the library's source")

    text = [cell for cell in core if "**Builds on**" not in source(cell)]
    references = sum(len(re.findall(r"\[[^]]*\]\(\d\d_\w+\.ipynb", source(cell))) for cell in text
                     if cell["cell_type"] == "markdown")  # fmt: skip
    if references > MOST_REFERENCES:
        found.append(f"{references} references to other chapters, at most {MOST_REFERENCES}")
    long = [s for s in sentences(core) if len(s.split()) > LONG]
    if len(long) > MOST_LONG_SENTENCES:
        found.append(
            f"{len(long)} sentences over {LONG} words, at most {MOST_LONG_SENTENCES}: {long}"
        )
    odd = [m[0] for cell in cells if cell["cell_type"] == "markdown"
           for m in ODD.finditer(reading.prose(cell))]  # fmt: skip
    if odd:
        found.append(f"words that the book doesn't use: {', '.join(odd)}")

    for title, section in sections(deeper):
        words = reading.count(section)["words"]
        if words > MOST_WORDS_DEEPER:
            found.append(f"Deeper, {title}: {words} words, at most {MOST_WORDS_DEEPER}")
        if not title.endswith("?"):
            found.append(f"Deeper, {title}: the title isn't a question")
    return found


def headings_of_mine(cells) -> list[str]:
    """The heading above each cell that adds to mine.py."""
    found, heading = [], "no heading"
    for cell in cells:
        if cell["cell_type"] == "markdown" and source(cell).startswith("## "):
            heading = source(cell).splitlines()[0].removeprefix("## ")
        elif "mine" in reading.tags(cell):
            found.append(heading)
    return found


def sections(cells) -> list[tuple[str, list]]:
    """The sections under "Deeper": their titles and cells."""
    found: list[tuple[str, list]] = []
    for cell in cells:
        title = re.match(r"### (.*)", source(cell)) if cell["cell_type"] == "markdown" else None
        if title:
            found.append((title[1], []))
        if found:
            found[-1][1].append(cell)
    return found


@pytest.mark.parametrize("name", NAMES)
def test_a_chapter_keeps_to_the_form(name):
    assert complaints(cells_of(ROOT / "chapters" / f"{name}.ipynb")) == []


MARKDOWN = {"cell_type": "markdown", "metadata": {}}
CODE = {"cell_type": "code", "metadata": {}, "outputs": []}


def test_reading_times_follow_the_rule():
    """The rule in numbers: 400 words and 10 lines take 120 + 70 seconds, so 5 minutes."""
    words = MARKDOWN | {"source": "word " * 400}
    code = CODE | {"source": "a = 1\n" * 10}
    amounts = reading.count([words, code])
    assert amounts["words"] == 400 and amounts["code"] == 10
    assert reading.minutes([words, code]) == 5
    assert reading.minutes([words] * 5 + [code]) == 15  # 670 seconds
    solution = words | {"metadata": {"tags": ["solution"]}}
    assert reading.minutes([solution] * 50) == 0
    folded = code | {"metadata": {"tags": ["hide-input"]}}
    assert reading.count([folded])["code"] == 0
