"""The assignment of a chapter: a notebook with its exercises, for a teacher to hand out.

It's in the site's folder `assignment`. With the book's solutions, the same notebook is what
nbgrader starts from: a course folder beside the site has one for each chapter.
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import cells
from book import chapter_of, write
from student import (
    CHECKED,
    FOLDED,
    INSTALL,
    Places,
    asked,
    import_of_check,
    is_code,
    needed,
    plain,
    without_outputs,
)

FOLDER, FOR_NBGRADER = "assignment", "nbgrader"
ABOUT = """\
# Chapter {chapter}: {title}. Exercises

These are the exercises of {page}, and the cells of it that they use. {library}

Write your name into the next cell, and each answer into the cell below its exercise. A cell with
`check(…)` says what is wrong with your function or class. Run it as often as you like."""
YOURS = """\
your_name = ""
your_answers = {}"""
WORDS = """\
# Write between the quotes.
your_answers["{number}"] = r\"\"\"
{solution}
\"\"\""""
HAND_IN = """\
## Hand in

Run the whole notebook from the top. The next cell writes a report beside this notebook: your
answers, and what the checker says about each function and class. Hand in both files.

If a cell stops with an error, fix it if you can. If not, run the next cell by itself: it also
writes the report then."""
REPORT = """\
import re
from pathlib import Path

{check}

name = globals().get("your_name", "").strip()
answers = globals().get("your_answers", {{}})
report = f"Chapter {chapter}, {title}\\nName: {{name or 'not given'}}\\n\\n"
report += check.summary({{
{exercises}
}}, globals())
for number in {numbers}:
    report += f"\\n\\n{{number}} {{answers.get(number, '').strip() or 'open'}}"
file = re.sub(r"\\W+", "_", f"report {place} {{name}}").strip("_")
_ = Path(f"{{file}}.txt").write_text(report + "\\n", encoding="utf-8")
print(report)"""
SOLUTION = "### BEGIN SOLUTION\n{}\n### END SOLUTION"
CONFIG = """\
c = get_config()
c.ClearSolutions.code_stub = {"python": ""}  # the cells have stubs of their own
c.Execute.timeout = 600  # seconds for a cell: some train a model
c.CourseDirectory.ignore.append("report_*.txt")  # validating the source writes one, with solutions
"""


def name(docname: str) -> str:
    return f"assignment_{Path(docname).stem}.ipynb"


def used(blocks: list[cells.Block], figures: set[str]) -> set[str]:
    """The cells of a chapter that answers to its exercises use, and those that draw `figures`.

    Read from the end: what a cell needs, the last cell before it that defines it must give. A
    prediction needs no code.
    """
    kept, names = set(), set()
    titles = {block.label.replace("ex-", "sol-", 1): block.title for block in blocks}
    for block, cell in reversed([(each, cell) for each in blocks for cell in each.cells]):
        if cell["cell_type"] != "code" or "remove-cell" in cells.tags(cell):
            continue
        needs, gives = cells.needs_and_gives(cells.text(cell))
        if block.kind == "solution":
            if not titles[block.label].startswith("Predict:"):
                names = ((names - gives) | needs) - {"check"}
        elif CHECKED.search(cells.text(cell)):  # room for an answer
            names -= gives
        elif names & gives or block.label in figures:
            kept.add(cell["id"])
            names = (names - gives) | needs
    return kept


def graded(cell: dict, **kinds: bool) -> dict:
    """The cell with what nbgrader reads: `grade`, `solution` and `locked`, as its manual says."""
    known = {"grade": False, "solution": False, "locked": False, "task": False, **kinds}
    known |= {"schema_version": 3, "grade_id": cell["id"]}
    if known["grade"]:
        known["points"] = 1
    return {**cell, "metadata": {"nbgrader": known}}


def room(
    block: cells.Block, follows: cells.Block | None, solution: list[dict], places: Places
) -> Iterator[dict]:
    """The cells to answer an exercise in, with the book's solution."""
    name = block.cells[0]["id"]
    text, source = (
        "\n\n\n".join(cells.text(cell) for cell in solution if cell["cell_type"] == kind)
        for kind in ("markdown", "code")
    )
    source = re.sub(r"^assert check\(.*\)\n*", "", source, flags=re.M).strip()
    stub = cells.text(follows.cells[0]) if follows and is_code(follows) else ""
    checked = CHECKED.search(stub)
    if not checked or block.title.startswith("Predict"):
        number = places.number(block.label).rpartition(" ")[2]
        words = WORDS.format(number=number, solution=SOLUTION.format(text))
        yield graded(cells.code(f"{name}-words", words), grade=True, solution=True)
    if checked:
        stub = stub[: checked.start()].rstrip()
        answer = cells.code(f"{name}-code", f"{stub}\n\n\n{SOLUTION.format(source)}")
        yield graded(answer, solution=True)
        asks = f"{import_of_check(places.docname)}\n\ncheck({checked[1]}).share"
        yield graded(cells.code(f"{name}-check", asks), grade=True, locked=True)
    elif not block.title.startswith("Predict:"):
        answer = f"{stub}\n{SOLUTION.format(source)}".strip()
        yield graded(cells.code(f"{name}-code", answer), solution=True)


def assignment(app, docname: str, notebook: dict) -> dict:
    """The assignment of a chapter, with the book's solutions."""
    places, chapter = Places(app, docname), chapter_of(docname)
    blocks = cells.blocks(docname, notebook["cells"])
    title = cells.text(notebook["cells"][0]).splitlines()[0].removeprefix("# ")
    texts = [cells.text(block.cells[0]) for block in blocks if block.kind == "exercise"]
    figures = {b.label for b in blocks if b.kind == "figure" and any(b.label in t for t in texts)}
    solutions = {block.label: block.cells for block in blocks if block.kind == "solution"}
    kept, checked = used(blocks, figures), {}
    install = next(cell for cell in notebook["cells"] if INSTALL in cells.text(cell))
    page = f"[the chapter]({places.page(docname)})"
    about = ABOUT.format(chapter=chapter, title=title, page=page, library=needed(app))
    written = [cells.markdown("title", about), plain(install, places), cells.code("yours", YOURS)]
    numbers = []
    for block, follows in zip(blocks, [*blocks[1:], None], strict=True):
        if block.kind == "exercise":
            written.append(asked(block, places))
            solution = solutions.get(block.label.replace("ex-", "sol-", 1), [])
            number = places.number(block.label).rpartition(" ")[2]
            for cell in room(block, follows, solution, places):
                written.append(cell)
                if cell["id"].endswith("-check"):
                    checked[number] = re.findall(r"check\((\w+)\)", cell["source"])[0]
                if cell["id"].endswith("-words"):
                    numbers.append(number)
        else:
            shown = [cell for cell in block.cells if cell["id"] in kept]
            folded = FOLDED | {"mine"}  # the reader's own mine.py is known
            written += [without_outputs(plain(cell, places, folded)) for cell in shown]
            if block.label in figures:
                caption = places.links_in(cells.text(block.cells[1]))
                caption = f"**{places.number(block.label)}.** {caption}"
                written.append(cells.markdown(block.cells[1]["id"], caption))
    last = REPORT.format(
        check=import_of_check(docname),
        exercises="\n".join(f'    "{number}": "{name}",' for number, name in checked.items()),
        numbers=json.dumps(numbers),
        chapter=chapter,
        title=title.replace("*", ""),
        place=cells.place(docname),
    )
    written += [cells.markdown("hand-in", HAND_IN), cells.code("report", last)]
    for cell in written:
        if cell["cell_type"] == "code":  # whatever fails, JupyterLab goes on to the report
            cell["metadata"]["tags"] = ["raises-exception"]
        elif not app.config.html_baseurl:  # a page that lies elsewhere
            cell["source"] = re.sub(r"\[([^][]*)\]\((?!https?:)[^()\s]+\)", r"\1", cells.text(cell))
    metadata = {key: value for key, value in notebook["metadata"].items() if key != "widgets"}
    return {**notebook, "cells": written, "metadata": metadata}


def handed_out(notebook: dict) -> dict:
    """The assignment without the solutions."""
    region = re.compile(SOLUTION.format(".*?"), re.S)
    shown = (region.sub("", cells.text(cell)).rstrip() for cell in notebook["cells"])
    without = [{**c, "source": text} for c, text in zip(notebook["cells"], shown, strict=True)]
    return {**notebook, "cells": without}


def publish(app, exception):
    if exception is not None:
        return
    folder = Path(app.outdir, FOLDER)
    course = Path(app.outdir).with_name(FOR_NBGRADER)
    wanted = {course / "nbgrader_config.py": CONFIG}
    for docname in sorted(app.env.found_docs):
        path = Path(app.env.doc2path(docname))
        if path.suffix == ".ipynb" and chapter_of(docname) is not None:
            made = assignment(app, docname, cells.read(path))
            source = course / "source" / path.stem / name(docname)
            for file, notebook in ((source, made), (folder / name(docname), handed_out(made))):
                wanted[file] = json.dumps(notebook, indent=1, ensure_ascii=False) + "\n"
    for path, text in wanted.items():
        write(path, text.encode())
    for path in {*folder.glob("*"), *course.glob(f"source/*/{name('*')}")} - wanted.keys():
        path.unlink()


def setup(app):
    app.connect("build-finished", publish)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
