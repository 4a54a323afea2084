"""A reader opens the student's edition in JupyterLab and Notebook, and everything works there.

The cells run to the end in a real kernel; each live figure answers the mouse and the keyboard, and
the Python object follows; no key of a figure is a command of the notebook; the screen shows no
solution.
"""

from __future__ import annotations

import json
import re
import shutil
import sys

import pytest
from lab import ASKED_EVERY, running
from pages import BOOK, ROOT

sys.path.insert(0, str(ROOT / "_ext"))
import cells

pytestmark = pytest.mark.slow
CHAPTERS = ["01_soft_lookup", "02_scaled_dot_product", "05_masks"]
TOOLS = {"JupyterLab": "lab/tree", "Notebook": "notebooks"}
# Both tools show a figure with the same code: one chapter tells whether Notebook does.
OPENED = [
    ("JupyterLab", "01_soft_lookup", "light"),
    ("JupyterLab", "02_scaled_dot_product", "dark"),
    ("JupyterLab", "05_masks", "light"),
    ("Notebook", "01_soft_lookup", "dark"),
]
# The traits of the kernel's live figures, as text.
STATES = (
    "repr([{name: value for name, value in widget.get_state().items() if name[0] != '_'}"
    " for widget in __import__('ipywidgets').widgets.widget._instances.values()"
    " if type(widget).__module__.startswith('transformer_lib')])"
)


@pytest.fixture(scope="module")
def server(book, browser, tmp_path_factory):
    home = tmp_path_factory.mktemp("jupyter")
    folder = home / "notebooks"
    folder.mkdir()
    for name in CHAPTERS:
        shutil.copy(BOOK / "student" / f"{name}.ipynb", folder)
    with running(folder, home / "home") as server:
        yield server


@pytest.fixture(scope="module")
def contexts(browser):
    """One for each theme: its cache keeps the tools' scripts, which are large."""
    found = {}
    for theme in ("light", "dark"):
        options = {"viewport": {"width": 1280, "height": 900}, "color_scheme": theme}
        found[theme] = browser.new_context(**options)
    yield found
    for context in found.values():
        context.close()


@pytest.fixture
def visit(server, contexts):
    def visit(tool: str, notebook: str, theme: str):
        server.choose(theme)
        return server.open(contexts[theme], TOOLS[tool], notebook)

    yield visit
    for context in contexts.values():
        for page in context.pages:
            page.close()


def lines(text: str) -> set[str]:
    """What of a text is long enough to be known again, in the letters that a screen shows of it."""
    bare = (re.sub(r"[^\w=]+", "", line) for line in text.splitlines())
    return {line for line in bare if len(line) >= 25}


def spoilers(name: str) -> set[str]:
    """Lines of the chapter that stand in solutions, answers and folds, and nowhere else."""
    chapter = json.loads((ROOT / "chapters" / f"{name}.ipynb").read_text(encoding="utf-8"))["cells"]
    secret = {"solution", "answer", "fold"}
    hidden = [cell for cell in chapter if secret & set(cells.tags(cell))]
    said = "\n".join(cells.text(cell) for cell in chapter if cell not in hidden)
    open_ones = re.sub(r"[^\w=]+", "", said)
    found = {line for cell in hidden for line in lines(cells.below_title(cell))}
    return {line for line in found if line not in open_ones}


def complaints(page, name: str) -> list[str]:
    """What the screen shows and should not."""
    # A cell that is far from the window is drawn when it comes near: so also what cells hold.
    shown = page.evaluate(
        "[...document.querySelectorAll('.jp-Cell')].map((cell) => cell.textContent)"
        ".concat(window.ask.cells().map((cell) => cell.model.sharedModel.getSource())).join('\\n')"
    )
    found = [line.strip() for line in shown.splitlines() if ":::" in re.sub(r"\[[^]]*\]", "", line)]
    letters = re.sub(r"[^\w=]+", "", shown)
    return found + sorted(line for line in spoilers(name) if line in letters)


def run_all(page) -> None:
    page.evaluate("window.jupyterapp.commands.execute('notebook:run-all-cells')")
    waited = {"timeout": 240_000, "polling": ASKED_EVERY}
    page.wait_for_function("window.ask.waiting().length === 0", **waited)
    idle = "window.ask.panel().sessionContext.session.kernel.status === 'idle'"
    page.wait_for_function(idle, **waited)
    assert page.evaluate("window.ask.errors()") == []


def changes(page, do) -> tuple[str, str]:
    """The figures' traits in Python before and after something is done to a figure."""
    before = page.evaluate(f"window.ask.evaluate({json.dumps(STATES)})")
    do()
    after = before
    for _ in range(600):  # only for what hangs
        after = page.evaluate(f"window.ask.evaluate({json.dumps(STATES)})")
        if after != before:
            break
        page.wait_for_timeout(100)
    return before, after


def operate(page, figure) -> None:
    """Keyboard, then mouse; the object in Python follows, and the notebook stays as it is."""
    control = figure.locator("input[type=range], input[type=radio]:checked").first
    control.scroll_into_view_if_needed()
    control.focus()
    page.wait_for_timeout(100)
    notebook = page.evaluate("window.ask.state()")
    kind = control.get_attribute("type")
    at_end = kind == "range" and control.evaluate("(c) => c.valueAsNumber >= Number(c.max)")
    arrow = "ArrowLeft" if at_end else "ArrowRight"
    before, after = changes(page, lambda: page.keyboard.press(arrow))
    assert after != before, "an arrow moves the control, and Python does not know"
    for key in ("x", "b", "a", "ArrowDown", "ArrowUp", "Control+a", "Control+Shift+ArrowDown"):
        page.keyboard.press(key)
    page.wait_for_timeout(200)
    assert page.evaluate("window.ask.state()") == notebook, "a key of the figure is the notebook's"
    page.evaluate("window.ask.panel().context.model.dirty = true")
    page.keyboard.press("Control+s")
    page.wait_for_function("!window.ask.panel().context.model.dirty", polling=ASKED_EVERY)
    assert figure.is_visible()

    reset = figure.locator("button", has_text="Reset")
    changes(page, reset.click)
    if figure.locator("input[type=range]").count():
        figure.evaluate("(e) => e.querySelectorAll('.lf-more').forEach((m) => { m.open = true; })")
        slider = figure.locator("input[type=range]").first
        box = slider.bounding_box()
        share = 0.8 if slider.evaluate("(c) => c.valueAsNumber < Number(c.max) / 2") else 0.2
        place = {"x": share * box["width"], "y": box["height"] / 2}
        before, after = changes(page, lambda: slider.click(position=place))
    else:
        other = figure.locator("label:has(input[type=radio]:not(:checked))").first
        before, after = changes(page, other.click)
    assert after != before, "the mouse moves the control, and Python does not know"
    before, after = changes(page, reset.click)
    assert after != before, "Reset does nothing"


@pytest.mark.parametrize("tool, name, theme", OPENED)
def test_a_chapter_runs_and_its_figures_work(visit, tool, name, theme):
    page = visit(tool, f"{name}.ipynb", theme)
    assert complaints(page, name) == []
    run_all(page)
    assert complaints(page, name) == []
    assert (page.evaluate("document.body.dataset.jpThemeLight") == "true") == (theme == "light")
    figures = page.locator("figure.live-figure")
    assert figures.count() >= 1
    for figure in figures.all():
        operate(page, figure)
        brightness = figure.evaluate(
            "(f) => getComputedStyle(f).backgroundColor.match(/[\\d.]+/g).slice(0, 3)"
            ".reduce((sum, part) => sum + Number(part), 0) / 3"
        )
        assert (brightness > 128) == (theme == "light")


def answer(page, cell_id: str, source: str) -> str:
    """Write an answer into a cell, run it; returns what it prints."""
    page.evaluate(
        """async ([id, source]) => {
            const notebook = window.ask.panel().content;
            notebook.activeCellIndex = window.ask.named(id);
            notebook.activeCell.model.sharedModel.setSource(source);
            await window.jupyterapp.commands.execute("notebook:run-cell");
        }""",
        [cell_id, source],
    )
    index = page.evaluate(f"window.ask.named({json.dumps(cell_id)})")
    outputs = page.evaluate(f"window.ask.cells()[{index}].model.outputs.toJSON()")
    return "".join("".join(output["text"]) for output in outputs)


def test_a_checker_answers_a_wrong_and_a_right_answer(visit):
    page = visit("JupyterLab", "01_soft_lookup.ipynb", "light")
    run_all(page)
    function = "def my_softmax(scores):\n    return {}\n\ncheck(my_softmax)"
    wrong = function.format("scores.exp() / scores.exp().sum()")
    assert answer(page, "stub-softmax", wrong).startswith("✗ my_softmax: ")
    right = function.format("scores.softmax(dim=-1)")
    assert answer(page, "stub-softmax", right) == "✓ my_softmax: all cases pass.\n"
