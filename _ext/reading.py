"""How long a chapter takes to read, counted from what its page shows.

The sum is rounded up to 5 minutes. Exercises, their solutions and all that the page folds are not
counted.

A chapter has two times: the first reading, up to its exercises, and the one with all sections
under *Deeper*. The page says both under the title. {reading}`1-6, 10` says how long the first
reading of these chapters takes, and {reading}`all` how long that of the book takes.
"""

import math
import re
from collections import Counter
from pathlib import Path

from docutils import nodes

from book import chapter_of
from cells import question_and_answers, read, tags, text

# For each word, line of code, line of output, and so on.
SECONDS = {"words": 0.3, "code": 7, "output": 2, "figures": 20, "live": 90, "predictions": 20,
           "equations": 15}  # fmt: skip
# Cells that the page leaves out or folds.
UNSEEN = {"remove-cell", "solution", "answer", "fold"}
NO_CODE = UNSEEN | {"remove-input", "hide-input"}


def parts(cells) -> tuple[list, list]:
    """The cells of the first reading, and those of what is deeper."""
    core, deeper = [], []
    part = core
    for cell in cells:
        if cell["cell_type"] == "markdown" and text(cell).startswith("## "):
            name = text(cell).removeprefix("## ").lower()
            if name.startswith(("exercises", "what you have", "further reading")):
                part = []
            elif name.startswith("deeper"):
                part = deeper
        if not {"exercise", "solution"} & {*tags(cell)}:
            part.append(cell)
    return core, deeper


def prose(cell) -> str:
    """The text of a Markdown cell as it is seen, with its equations taken out."""
    source = text(cell)
    if "recall" in tags(cell):
        source, _ = question_and_answers(cell)  # the answers are folded
    return re.sub(r"\]\([^)]*\)", "]", re.sub(r"\$\$.*?\$\$", " ", source, flags=re.S))


def lines(printed: str) -> int:
    return sum(bool(line.strip()) for line in printed.split("\n"))


def count(cells) -> Counter:
    """How much of each kind the cells show."""
    found: Counter = Counter()
    for cell in cells:
        kinds = {*tags(cell)}
        if cell["cell_type"] == "markdown":
            if not kinds & UNSEEN:
                found["words"] += len(re.findall(r"\w[\w'’-]*", prose(cell)))
                found["equations"] += text(cell).count("$$") // 2
                found["predictions"] += "predict" in kinds
            continue
        if cell["cell_type"] == "code" and not kinds & NO_CODE:
            found["code"] += lines(text(cell))
        for output in cell.get("outputs", ()) if not kinds & UNSEEN else ():
            data = output.get("data", {})
            if "live-figure" in kinds:
                found["live"] += any("widget-view" in kind for kind in data)
            elif any(kind.startswith("image/") or kind == "text/html" for kind in data):
                found["figures"] += 1
            else:
                found["output"] += lines("".join(output.get("text", data.get("text/plain", ""))))
    return found


def seconds(cells) -> float:
    return sum(SECONDS[kind] * amount for kind, amount in count(cells).items())


def minutes(cells) -> int:
    return 5 * math.ceil(seconds(cells) / 300)


def times(path: Path) -> tuple[int, int]:
    """Minutes of a chapter: its first reading, and with everything deeper."""
    core, deeper = parts(read(path)["cells"])
    return minutes(core), minutes(core + deeper)


def deeper(path: Path) -> list[int]:
    """Minutes of each section under *Deeper*, rounded up."""
    sections: list = []
    for cell in parts(read(path)["cells"])[1]:
        if cell["cell_type"] == "markdown" and re.search("^### ", text(cell), re.M):
            sections.append([])
        if sections:
            sections[-1].append(cell)
    return [math.ceil(seconds(section) / 60) for section in sections]


def say(path: Path) -> str:
    """The line under a chapter's title."""
    core, whole = times(path)
    more = f". With everything under *Deeper*: {whole} minutes" if whole > core else ""
    return f"First reading: {core} minutes{more}, not counting the exercises."


def chapters(folder: Path) -> dict[int, Path]:
    return {number: path for path in sorted(folder.glob("chapters/*.ipynb"))
            if (number := chapter_of(path.stem)) is not None}  # fmt: skip


def total(folder: Path, wanted: str) -> str:
    """How long the first reading of some chapters takes, `1-6, 10` or `all`, in words."""
    there = chapters(folder)
    numbers = set(there)
    if wanted != "all":
        spans = [span.split("-") for span in wanted.split(",")]
        numbers = {n for span in spans for n in range(int(span[0]), int(span[-1]) + 1)}
    hours, rest = divmod(sum(times(there[number])[0] for number in numbers), 60)
    said = [f"{hours} hour{'s' * (hours != 1)}"] if hours else []
    return " ".join([*said, f"{rest} minutes"] if rest or not hours else said)


def reading_role(name, rawtext, text, lineno, inliner, options=None, content=None):
    env = inliner.document.settings.env
    for path in chapters(Path(env.srcdir)).values():
        env.note_dependency(str(path))
    return [nodes.Text(total(Path(env.srcdir), text))], []


def add_time(app, doctree):
    """Say in the paragraph that begins with "Builds on", or in the first one, how long it takes."""
    if chapter_of(app.env.docname) is None:
        return
    path = Path(app.env.doc2path(app.env.docname))
    paragraphs = list(doctree.findall(nodes.paragraph))
    there = next((p for p in paragraphs if p.astext().startswith("Builds on")), paragraphs[0])
    line = nodes.paragraph("", "", classes=["reading-time"])
    for number, piece in enumerate(say(path).split("*")):
        line += nodes.emphasis("", piece) if number % 2 else nodes.Text(piece)
    there.parent.insert(there.parent.index(there) + 1, line)


def setup(app):
    app.add_role("reading", reading_role)
    app.connect("doctree-read", add_time)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
