"""A page with live figures, and models that record what they get, like a kernel."""

import json
import os

import pytest

import fonts
from browsers import need_browser

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


@pytest.fixture(scope="session")
def font(request):
    """The only font that the browser finds, or None for the machine's own fonts."""
    return getattr(request, "param", None)


in_every_font = pytest.mark.parametrize(
    "font", [None, *fonts.FONTS], indirect=True, ids=lambda name: name or "the machine's"
)


@pytest.fixture(scope="session")
def browser(font, tmp_path_factory):
    executable = need_browser()
    if font and font not in fonts.installed():
        pytest.skip(f"no {font} here")
    made = fonts.only(font, tmp_path_factory.mktemp("font")) if font else ""
    environment = {**os.environ, "FONTCONFIG_FILE": str(made)} if font else None
    api = pytest.importorskip("playwright.sync_api")
    arguments = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
    with api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=executable, args=arguments, env=environment
        )
        yield browser
        browser.close()


@pytest.fixture
def show(browser, font, tmp_path):
    """show(figures, html attributes, address's fragment, **context options) -> page."""
    contexts, errors, asked = [], [], []

    def show(*figures, attributes="", fragment="", **options):
        states = [dict(figure.get_state()) for figure in figures]
        apart = f":root {{ letter-spacing: {fonts.FONTS[font][1] if font else 'normal'} }}"
        css = "\n".join([apart, *(state["_css"] for state in states)])
        text = PAGE.replace("CSS", css).replace("ATTRIBUTES", attributes)
        path = tmp_path / "page.html"
        path.write_text(text.replace("STATES", json.dumps(states).replace("</", "<\\/")))
        context = browser.new_context(**options)
        contexts.append(context)
        page = context.new_page()
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.on("console", lambda message: errors.append(message.text))
        page.on("request", lambda request: asked.append(request.url))
        page.goto(path.as_uri() + fragment)
        page.wait_for_selector("body[data-ready]", state="attached")
        return page

    yield show
    for context in contexts:
        context.close()
    assert errors == [], errors
    assert [url for url in asked if not url.startswith(("file:", "blob:"))] == []


PUBLISHED = 'data-content_root="./"'
SETTLE = "new Promise((done) => requestAnimationFrame(() => setTimeout(done, 20)))"


def status(page):
    return page.locator(".lf-status").inner_text()
