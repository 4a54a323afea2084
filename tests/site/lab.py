"""JupyterLab and Notebook as a reader has them: a real server, a real kernel, a page to operate."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

from pages import ROOT

THEMES = {"light": "JupyterLab Light", "dark": "JupyterLab Dark"}
ASKED_EVERY = 250  # milliseconds; asked at every frame, a page would take what cells need
# What a test asks of the open notebook.
ASK = """
window.ask = {
  panel: () => window.jupyterapp.shell.currentWidget,
  cells: () => [...window.ask.panel().content.widgets],
  named: (id) => window.ask.cells().findIndex((cell) => cell.model.id === id),
  state: () => ({ active: window.ask.panel().content.activeCellIndex,
    ids: window.ask.cells().map((cell) => cell.model.id) }),
  waiting: () => window.ask.cells().filter(({ model }) => model.type === "code"
    && model.sharedModel.getSource().trim() && model.executionCount === null)
    .map(({ model }) => model.id),
  errors: () => window.ask.cells().filter(({ model }) => model.type === "code"
    && !(model.getMetadata("tags") ?? []).includes("raises-exception")
    && model.outputs.toJSON().some((output) => output.output_type === "error"))
    .map(({ model }) => model.id),
  async evaluate(expression) {
    const kernel = window.ask.panel().sessionContext.session.kernel;
    const asked = kernel.requestExecute({ code: "", silent: false, store_history: false,
      user_expressions: { asked: expression } });
    const { asked: answer } = (await asked.done).content.user_expressions;
    if (answer.status !== "ok") throw new Error(`${answer.ename}: ${answer.evalue}`);
    return answer.data["text/plain"];
  },
};
"""


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


class Lab:
    """A running server, and what it serves."""

    def __init__(self, folder: Path, address: str, settings: Path) -> None:
        self.folder, self.address, self.settings = folder, address, settings

    def choose(self, theme: str) -> None:
        """What a reader chooses in the menu Settings; and all cells are on the page at once."""
        for plugin, chosen in (
            ("apputils-extension/themes", {"theme": THEMES[theme]}),
            ("apputils-extension/notification", {"fetchNews": "false", "checkForUpdates": False}),
            ("notebook-extension/tracker", {"windowingMode": "none"}),
        ):
            file = self.settings / "@jupyterlab" / f"{plugin}.jupyterlab-settings"
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(json.dumps(chosen), encoding="utf-8")

    def open(self, context, tool: str, notebook: str):
        """The notebook's page, when its kernel is there."""
        page = context.new_page()
        page.goto(f"{self.address}{tool}/{notebook}?reset", wait_until="domcontentloaded")
        shown = "window.jupyterapp?.shell.currentWidget"
        ready = f"{shown}?.sessionContext?.session?.kernel?.status === 'idle'"
        here = f"{shown}?.context?.path === '{notebook}'"
        page.wait_for_function(f"{here} && {ready}", timeout=90_000, polling=ASKED_EVERY)
        page.evaluate(ASK)
        return page


@contextmanager
def running(folder: Path, home: Path):
    """A server of JupyterLab and Notebook for the notebooks in `folder`."""
    port = free_port()
    settings = home / "settings"
    environment = os.environ | {
        "HOME": str(home),
        "JUPYTER_CONFIG_DIR": str(home / "config"),
        "JUPYTER_DATA_DIR": str(home / "data"),
        "JUPYTER_RUNTIME_DIR": str(home / "runtime"),
        "JUPYTERLAB_SETTINGS_DIR": str(settings),
        "JUPYTERLAB_WORKSPACES_DIR": str(home / "workspaces"),
        "IPYTHONDIR": str(home / "ipython"),
        "MPLCONFIGDIR": str(home / "matplotlib"),
        "PYTHONPATH": str(ROOT),
        "PYDEVD_DISABLE_FILE_VALIDATION": "1",
    }
    command = [sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root"]
    command += [f"--ServerApp.port={port}", "--ServerApp.port_retries=0"]
    command += ["--ServerApp.ip=127.0.0.1", "--IdentityProvider.token="]
    command += [f"--ServerApp.root_dir={folder}", "--LabApp.expose_app_in_browser=True"]
    command += ["--JupyterNotebookApp.expose_app_in_browser=True", "--LabApp.news_url="]
    home.mkdir(parents=True, exist_ok=True)
    with (home / "server.log").open("w") as log:
        server = subprocess.Popen(command, env=environment, stdout=log, stderr=log, cwd=folder)
    try:
        address = f"http://127.0.0.1:{port}/"
        end = time.monotonic() + 120
        while True:
            try:
                urlopen(f"{address}api/status", timeout=5).close()
                break
            except (URLError, OSError):
                told = (home / "server.log").read_text(encoding="utf-8")
                assert server.poll() is None and time.monotonic() < end, told
                time.sleep(0.2)
        yield Lab(folder, address, settings)
    finally:
        server.terminate()
        server.wait(30)
