"""Firefox, driven through WebDriver BiDi, which it answers by itself: no driver, no other build.

Only what test_firefox.py needs of the protocol is here.
"""

from __future__ import annotations

import itertools
import json
import os
import re
import shutil
import subprocess
import time
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import websocket

# It starts with an empty page, talks to nobody of its own accord, and moves nothing by itself.
PREFERENCES = {
    "app.update.enabled": False,
    "browser.shell.checkDefaultBrowser": False,
    "browser.startup.page": 0,
    "datareporting.policy.dataSubmissionEnabled": False,
    "network.captive-portal-service.enabled": False,
    "network.connectivity-service.enabled": False,
    "remote.active-protocols": 1,
    "toolkit.telemetry.reportingpolicy.firstRun": False,
    "ui.prefersReducedMotion": 1,
}
KEYS = {"Enter": "\ue007", "Control": "\ue009", "Left": "\ue012", "Right": "\ue014"}
LISTENING = re.compile(r"WebDriver BiDi listening on (ws://\S+)\s")
UNFINISHED = "Invalid markup:"  # is said of an equation of which only the beginning has come
SECONDS = 60  # only for what hangs: a machine may be busy


def find_firefox() -> str | None:
    """The path of a Firefox, or None."""
    names = [os.environ.get("FIREFOX_PATH"), "firefox-esr", "firefox"]
    return next((path for name in names if name and (path := shutil.which(name))), None)


class Firefox:
    """One tab. What its pages complain of is in `errors`."""

    def __init__(self, address: str) -> None:
        self.socket = websocket.create_connection(
            f"{address}/session", timeout=SECONDS, suppress_origin=True
        )
        self.numbers = itertools.count(1)
        self.errors: list[str] = []
        self.send("session.new", capabilities={})
        self.send("session.subscribe", events=["log.entryAdded"])
        # Not the tab that is there: without a screen that one never has the focus, and then Enter
        # presses no button.
        self.tab = self.send("browsingContext.create", type="tab")["context"]

    def send(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Send a command; returns its result."""
        number = next(self.numbers)
        self.socket.send(json.dumps({"id": number, "method": method, "params": parameters}))
        while (answer := json.loads(self.socket.recv())).get("id") != number:
            if answer.get("method") == "log.entryAdded" and answer["params"]["level"] == "error":
                self._note(answer["params"]["text"])
        if answer["type"] == "error":
            raise RuntimeError(f"{method}: {answer['error']}: {answer['message']}")
        return answer["result"]

    def _note(self, error: str) -> None:
        if not error.startswith(UNFINISHED):
            self.errors.append(error)

    def resize(self, width: int, height: int) -> None:
        viewport = {"width": width, "height": height}
        self.send("browsingContext.setViewport", context=self.tab, viewport=viewport)

    def open(self, url: str) -> None:
        """Open a page; nothing of the one before, which may be the same, is taken for it."""
        loaded = """(url) => location.href.split("#")[0] === url.split("#")[0]
          && document.readyState === "complete" """
        for address in ("about:blank", url):
            self.errors.clear()  # of a page that was left while it still fetched something
            # Asked for, not waited for: the answer to wait="complete" may never come.
            self.send("browsingContext.navigate", context=self.tab, url=address, wait="none")
            self.wait_for(loaded, address)

    def run(self, body: str, *arguments: Any) -> Any:
        """The value of `(…arguments) => body` in the page; a promise is waited for."""
        # Values go in and come out as JSON: the protocol's own form of them is not needed here.
        given = ", ".join(map(json.dumps, arguments))
        call = f"async () => JSON.stringify((await ({body})({given})) ?? null)"
        answer = self.send(
            "script.callFunction",
            functionDeclaration=call,
            awaitPromise=True,
            target={"context": self.tab},
        )
        if answer["type"] == "exception":
            raise RuntimeError(f"{answer['exceptionDetails']['text']} in {body}")
        return json.loads(answer["result"]["value"])

    def wait_for(self, condition: str, *arguments: Any) -> None:
        """Until `(…arguments) => condition` is true in the page, or in one that it leads to."""
        whether = f"async (...given) => Boolean(await ({condition})(...given))"
        end = time.monotonic() + SECONDS
        while time.monotonic() < end:
            try:
                if self.run(whether, *arguments):
                    return
            except RuntimeError as error:  # one page is gone, and the next is not there yet
                last = error
            else:
                last = None
            time.sleep(0.05)
        raise TimeoutError(f"it never came true: {condition}") from last

    def keys(self, *names: str) -> None:
        """Press keys, all at once: `keys("Control", "k")`."""
        values = [KEYS.get(name, name) for name in names]
        actions = [{"type": "keyDown", "value": value} for value in values]
        actions += [{"type": "keyUp", "value": value} for value in reversed(values)]
        self._perform({"type": "key", "id": "keys", "actions": actions})

    def mouse(self, *path: tuple[float, float]) -> None:
        """Press the button at the first place of the viewport, release it at the last."""
        moves = [{"type": "pointerMove", "x": round(x), "y": round(y)} for x, y in path]
        down, up = ({"type": kind, "button": 0} for kind in ("pointerDown", "pointerUp"))
        actions = [moves[0], down, *moves[1:], up]
        self._perform({"type": "pointer", "id": "mouse", "actions": actions})

    def _perform(self, source: dict[str, Any]) -> None:
        self.send("input.performActions", context=self.tab, actions=[source])


@contextmanager
def running(executable: str):
    """A headless Firefox with a new profile."""
    with TemporaryDirectory() as folder:
        lines = [f"user_pref({json.dumps(k)}, {json.dumps(v)});" for k, v in PREFERENCES.items()]
        Path(folder, "user.js").write_text("\n".join(lines), encoding="utf-8")
        command = [executable, "--headless", "--no-remote", "--profile", folder]
        command += ["--remote-debugging-port", "0", "about:blank"]
        # Into a file: a pipe that nobody reads is full one day, and stops what writes into it.
        log = Path(folder, "log")
        with log.open("w", encoding="utf-8") as file:
            process = subprocess.Popen(command, stderr=file)
        try:
            while not (
                found := LISTENING.search(log.read_text(encoding="utf-8", errors="replace"))
            ):
                if process.poll() is not None:
                    raise RuntimeError(f"{executable} ended before it listened")
                time.sleep(0.1)
            yield Firefox(found[1])
        finally:
            process.terminate()
            process.wait()
