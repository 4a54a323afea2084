"""A page that holds live figures and nothing else, and pictures of them."""

import io
import json
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from PIL import Image

from browsers import browsing, find_browser

# Each model records what it gets, like a kernel.
PAGE = """<!doctype html><html lang="en" ATTRIBUTES><meta charset="utf-8"><title>Figures</title>
<meta name="viewport" content="width=device-width"><style>CSS</style><body><h1 id="top">Top</h1>
<main></main><script type="module">
window.models = [];
for (const state of STATES) {
  const listeners = {};
  const model = { state, sent: [], get: (name) => state[name],
    set(name, value) { state[name] = value; listeners["change:" + name]?.forEach((f) => f()); },
    on(event, f) { (listeners[event] ??= new Set()).add(f); },
    off(event, f) { listeners[event].delete(f); },
    send(content) { model.asked = content; },
    tell(content) { listeners["msg:custom"]?.forEach((f) => f(content)); }, // as a kernel does
    listening: () => Object.values(listeners).reduce((n, set) => n + set.size, 0),
    save_changes() { model.sent.push(structuredClone({ ...state, _esm: 0, _css: 0 })); } };
  const el = document.body.querySelector("main").appendChild(document.createElement("div"));
  const source = new Blob([state._esm], { type: "text/javascript" });
  const module = await import(URL.createObjectURL(source));
  model.leave = module.default.render({ model, el });
  window.models.push(model);
}
document.body.dataset.ready = "";
</script></html>"""
READY = "body[data-ready]"


def write_page(
    path: Path, states: list[dict[str, Any]], css: str = "", attributes: str = ""
) -> None:
    """Write the page of figures in these states."""
    sheet = "\n".join([css, *(state["_css"] for state in states)])
    text = PAGE.replace("CSS", sheet).replace("ATTRIBUTES", attributes)
    text = text.replace("STATES", json.dumps(states).replace("</", "<\\/"))
    path.write_text(text, encoding="utf-8")


def pictures(states: list[dict[str, Any]]) -> Iterator[bytes]:
    """What each figure looks like at first, as wide as the book's text, as a PNG of 256 colors.

    A figure that trains models, with a button *Start*, is shown when it has.

    Raises:
        RuntimeError: no browser.
    """
    if not states:
        return
    if (executable := find_browser()) is None:
        raise RuntimeError("pictures of live figures need Chromium or Chrome: set CHROME_PATH")
    css = "body { margin: 0; font-family: sans-serif } h1 { display: none }"
    with TemporaryDirectory() as folder, browsing(executable) as browser:
        page = browser.new_page(viewport={"width": 672, "height": 900}, device_scale_factor=1)
        for state in states:
            write_page(path := Path(folder, "page.html"), [state], css)
            page.goto(path.as_uri())
            page.wait_for_selector(READY, state="attached")
            if (start := page.get_by_role("button", name="Start", exact=True)).count():
                start.click()
                page.get_by_role("button", name="Go on", exact=True).wait_for()
            page.wait_for_timeout(300)  # pictures that follow their column's width
            yield _small(page.locator("figure").first.screenshot())


def _small(png: bytes) -> bytes:
    # Unlike the default, MAXCOVERAGE keeps the color of a small dot.
    pixels = Image.open(io.BytesIO(png)).convert("RGB")
    small = io.BytesIO()
    pixels.quantize(256, method=Image.Quantize.MAXCOVERAGE).save(small, "PNG", optimize=True)
    return small.getvalue()
