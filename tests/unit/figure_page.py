"""Live figures alone in a browser; see tests/alone.py."""

import os

import pytest

import fonts
from alone import ARGUMENTS, READY, write_page
from browsers import need_browser


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
    with api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=executable, args=ARGUMENTS, env=environment
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
        path = tmp_path / "page.html"
        write_page(path, states, apart, attributes)
        context = browser.new_context(**options)
        contexts.append(context)
        page = context.new_page()
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.on("console", lambda message: errors.append(message.text))
        page.on("request", lambda request: asked.append(request.url))
        page.goto(path.as_uri() + fragment)
        page.wait_for_selector(READY, state="attached")
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
