"""A reader opens the student's edition in JupyterLab and Notebook, and everything works there.

A real server and a real kernel: the cells run to the end; each live figure answers the keyboard
and the mouse, and the Python object follows; no key of a figure is a command of the notebook.
"""

import json
import os
import shutil
import socket
import subprocess
import sys

import pytest
from pages import BOOK, ROOT
from playwright.sync_api import Error

pytestmark = pytest.mark.slow
ASKED_EVERY = 250  # milliseconds; asked at every frame, a page would take what cells need
WAIT = {"timeout": 240_000, "polling": ASKED_EVERY}
# Both tools show a figure with the same code: one chapter in each tells whether it does.
OPENED = [("lab/tree", "05_masks"), ("notebooks", "01_soft_lookup")]
# What a test asks of the open notebook.
ASK = """
window.ask = {
  panel: () => window.jupyterapp.shell.currentWidget,
  cells: () => [...window.ask.panel().content.widgets],
  kernel: () => window.ask.panel().sessionContext.session.kernel,
  state: () => ({ active: window.ask.panel().content.activeCellIndex,
    ids: window.ask.cells().map((cell) => cell.model.id) }),
  ran: () => window.ask.kernel().status === "idle"
    && window.ask.cells().every(({ model }) => model.type !== "code"
      || !model.sharedModel.getSource().trim() || model.executionCount !== null),
  errors: () => window.ask.cells().filter(({ model }) => model.type === "code"
    && model.outputs.toJSON().some((output) => output.output_type === "error"))
    .map(({ model }) => model.id),
  async evaluate(expression) {
    const asked = window.ask.kernel().requestExecute({ code: "", silent: false,
      store_history: false, user_expressions: { asked: expression } });
    const { asked: answer } = (await asked.done).content.user_expressions;
    if (answer.status !== "ok") throw new Error(`${answer.ename}: ${answer.evalue}`);
    return answer.data["text/plain"];
  },
};
"""
# The traits of the kernel's live figures, as text.
STATES = (
    "repr([{name: value for name, value in widget.get_state().items() if name[0] != '_'}"
    " for widget in __import__('ipywidgets').widgets.widget._instances.values()"
    " if type(widget).__module__.startswith('transformer_lib')])"
)


@pytest.fixture(scope="module")
def server(book, browser, tmp_path_factory):
    """The address of a server of JupyterLab and Notebook."""
    home = tmp_path_factory.mktemp("jupyter")
    folder = home / "notebooks"
    folder.mkdir()
    for _, name in OPENED:
        shutil.copy(BOOK / "student" / f"{name}.ipynb", folder)
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]
    # All cells of a notebook are on the page at once.
    settings = home / "settings"
    file = settings / "@jupyterlab" / "notebook-extension" / "tracker.jupyterlab-settings"
    file.parent.mkdir(parents=True)
    file.write_text('{"windowingMode": "none"}', encoding="utf-8")
    environment = os.environ | {
        "HOME": str(home),
        "JUPYTERLAB_SETTINGS_DIR": str(settings),
        "PYTHONPATH": str(ROOT),
        "PYDEVD_DISABLE_FILE_VALIDATION": "1",
    }
    command = [sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root"]
    command += [f"--ServerApp.port={port}", "--ServerApp.port_retries=0"]
    command += ["--ServerApp.ip=127.0.0.1", "--IdentityProvider.token="]
    command += [f"--ServerApp.root_dir={folder}", "--LabApp.expose_app_in_browser=True"]
    command += ["--JupyterNotebookApp.expose_app_in_browser=True", "--LabApp.news_url="]
    with (home / "server.log").open("w+") as log:
        server = subprocess.Popen(command, env=environment, stdout=log, stderr=log, cwd=folder)
        yield f"http://127.0.0.1:{port}/"
        server.terminate()
        server.wait(30)


def changes(page, do) -> bool:
    """Whether the figures' traits in Python change after something is done to a figure."""
    before = page.evaluate(f"window.ask.evaluate({json.dumps(STATES)})")
    do()
    for _ in range(600):  # only for what hangs
        if page.evaluate(f"window.ask.evaluate({json.dumps(STATES)})") != before:
            return True
        page.wait_for_timeout(100)
    return False


def operate(page, figure) -> None:
    """Keyboard, then mouse; the object in Python follows, and the notebook stays as it is."""
    control = figure.locator("input[type=range], input[type=radio]:checked").first
    control.scroll_into_view_if_needed()
    control.focus()
    page.wait_for_timeout(100)
    notebook = page.evaluate("window.ask.state()")
    at_end = control.evaluate("(c) => c.type === 'range' && c.valueAsNumber >= Number(c.max)")
    arrow = "ArrowLeft" if at_end else "ArrowRight"
    assert changes(page, lambda: page.keyboard.press(arrow)), "Python doesn't follow an arrow"
    for key in ("x", "b", "a", "ArrowDown", "ArrowUp", "Control+a", "Control+Shift+ArrowDown"):
        page.keyboard.press(key)
    page.wait_for_timeout(200)
    assert page.evaluate("window.ask.state()") == notebook, "a key of the figure is the notebook's"
    page.evaluate("window.ask.panel().context.model.dirty = true")
    page.keyboard.press("Control+s")
    page.wait_for_function("!window.ask.panel().context.model.dirty", polling=ASKED_EVERY)
    reset = figure.locator("button", has_text="Reset")
    assert changes(page, reset.click), "Reset does nothing"
    other = figure.locator("label:has(input[type=radio]:not(:checked))")
    if other.count():
        assert changes(page, other.first.click), "Python doesn't follow the mouse"


@pytest.mark.parametrize("tool, name", OPENED)
def test_a_chapter_runs_and_its_figures_work(browser, server, tool, name):
    page = browser.new_page(viewport={"width": 1280, "height": 900})
    for _ in range(600):  # until the server listens
        try:
            page.goto(f"{server}{tool}/{name}.ipynb?reset", wait_until="domcontentloaded")
            break
        except Error:
            page.wait_for_timeout(200)
    kernel = "window.jupyterapp?.shell.currentWidget?.sessionContext?.session?.kernel"
    page.wait_for_function(f"{kernel}?.status === 'idle'", **WAIT)
    page.evaluate(ASK)
    page.evaluate("window.jupyterapp.commands.execute('notebook:run-all-cells')")
    page.wait_for_function("window.ask.ran()", **WAIT)
    assert page.evaluate("window.ask.errors()") == []
    figures = page.locator("figure.live-figure")
    assert figures.count() >= 1
    for figure in figures.all():
        operate(page, figure)
    page.close()
