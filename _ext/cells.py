"""What the cells of a chapter are: their tags say it, and their text stays plain Markdown.

A chapter is a list of blocks, of which pages (chapter_page.py) and the student's edition
(student.py) are made. Standard library only: the gate of the notebooks uses it, too.
"""

import dis
import json
import re
from pathlib import Path, PurePath
from types import CodeType
from typing import NamedTuple

import predictions

# The tags that say what a cell is; CONTRIBUTING.md says what each stands for.
OF_TEXT = ["exercise", "predict", "answer", "recall", "fold", "caption"]
KINDS = [*OF_TEXT, "solution", "mine", "mine-before", "program"]
EXERCISE = re.compile(r"### ((?:Predict|Build|Explore)\b[^:\n]*: \S[^\n]*)\n\n+(?=\S)")
TITLE = re.compile(r"#### (\S[^\n]*)\n\n+(?=\S)")


class Block(NamedTuple):
    """One or more cells that belong together.

    Attributes:
        kind: one of `KINDS`, "figure", or empty for a cell that is nothing but itself.
        cells: the cells, as the notebook has them.
        label: the block's anchor on its page; empty where nothing leads to it.
        title: the title that stands in the first line of the first cell; may be empty.
    """

    kind: str
    cells: list
    label: str = ""
    title: str = ""


def read(path: Path) -> dict:
    return json.loads(path.read_text(encoding="utf-8"))


def markdown(cell_id: str, source: str) -> dict:
    return {"cell_type": "markdown", "id": cell_id, "metadata": {}, "source": source}


def code(cell_id: str, source: str = "") -> dict:
    cell = {"cell_type": "code", "id": cell_id, "metadata": {}, "source": source}
    return cell | {"execution_count": None, "outputs": []}


def tags(cell) -> list[str]:
    return cell["metadata"].get("tags", [])


def text(cell) -> str:
    return "".join(cell["source"])


def figure_name(cell) -> str:
    """The anchor of the figure that a cell makes: fig-06-heads."""
    return cell["metadata"].get("mystnb", {}).get("figure", {}).get("name", "")


def place(name: str) -> str:
    """What labels of a notebook begin with: 06 for chapters/06_many_heads, else its last word."""
    stem = PurePath(name).stem
    return found[0] if (found := re.match(r"\d+(?=_)", stem)) else stem.rpartition("_")[2]


def below_title(cell) -> str:
    """The text of an exercise or a fold without its first line."""
    return re.sub(r"\A#{3,4} [^\n]*\n+", "", text(cell))


def question_and_answers(cell) -> tuple[str, str]:
    """The two parts of a cell tagged `recall`."""
    question, _, answers = text(cell).partition("\n\n---\n\n")
    return question, answers.strip()


def prediction(block: Block) -> predictions.Prediction:
    """What a block of the kind `predict` asks.

    Raises:
        ValueError: its answer does not answer the question.
    """
    question, *answers = map(text, block.cells)
    return predictions.parse(question.strip(), "\n\n".join(answers))


def blocks(name: str, cells: list) -> list[Block]:
    """The cells of the notebook `name`, grouped by what they are.

    Raises:
        ValueError: a cell's tag does not fit its text, its type or its place.
    """
    found: list[Block] = []
    exercise = ""

    def wrong(what):
        return ValueError(f"{name}, cell {cell['id']}: {what}")

    for cell in cells:
        kind = "solution" if "solution" in tags(cell) else ""
        kind = kind or next((tag for tag in tags(cell) if tag in KINDS), "")
        last = found[-1] if found else Block("", [])

        if kind in OF_TEXT and cell["cell_type"] != "markdown":
            raise wrong(f"only text is tagged {kind}")
        label = f"{kind}-{place(name)}-{cell['id']}"
        if kind == "exercise":
            title = EXERCISE.match(text(cell))
            if title is None or not cell["id"].startswith("ex-"):
                raise wrong("an exercise begins with '### Predict: title', its id with 'ex-'")
            exercise = f"ex-{place(name)}-{cell['id'].removeprefix('ex-')}"
            found.append(Block(kind, [cell], exercise, title[1]))
        elif kind == "solution" == last.kind:
            last.cells.append(cell)
        elif kind == "solution":
            label = exercise.replace("ex-", "sol-", 1)
            if not exercise or any(block.label == label for block in found):
                raise wrong("a solution without an exercise of its own before it")
            found.append(Block(kind, [cell], label))
        elif kind == "answer":
            if last.kind != "predict":
                raise wrong("an answer must come right after a cell tagged predict")
            last.cells.append(cell)
        elif kind == "caption":
            if last.kind or not figure_name(last.cells[-1]):
                raise wrong("a caption must come right after the cell that makes the figure")
            found[-1] = Block("figure", [*last.cells, cell], figure_name(last.cells[0]))
        elif kind == "fold":
            if title := TITLE.match(text(cell)):
                found.append(Block(kind, [cell], label, title[1]))
            elif last.kind == "fold":
                last.cells.append(cell)
            else:
                raise wrong("a fold begins with '#### Title'")
        elif kind == "recall" and not question_and_answers(cell)[1]:
            raise wrong("the answers stand below a line '---'")
        elif kind in {"predict", "recall"}:
            found.append(Block(kind, [cell], label))
        else:
            found.append(Block(kind, [cell]))
    for block in found:
        cell = block.cells[0]
        if block.kind == "predict":
            try:
                prediction(block)
            except ValueError as error:
                raise wrong(error) from None
    return found


def needs_and_gives(source: str) -> tuple[set[str], set[str]]:
    """The names that a cell takes from cells before it, and those that it defines."""
    without_magics = re.sub(r"^(\s*)[%!].*", r"\1pass", source, flags=re.M)
    return names_of(compile(without_magics, "cell", "exec"))


def names_of(code: CodeType) -> tuple[set[str], set[str]]:
    """The names that are read before they are set, in functions too, and all that are set."""
    needs: set[str] = set()
    gives: set[str] = set()
    for step in dis.get_instructions(code):
        if step.opname in {"STORE_NAME", "STORE_GLOBAL"}:
            gives.add(step.argval)
        elif step.opname in {"LOAD_NAME", "LOAD_GLOBAL"} and step.argval not in gives:
            needs.add(step.argval)
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            needs |= names_of(inner)[0] - gives
    return needs, gives
