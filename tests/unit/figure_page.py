"""Live figures alone in a browser; see tests/alone.py."""

import pytest

from alone import READY, write_page
from browsers import browsing, need_browser
from transformer_lib.figures.engine import FOLDER

ENGINE = str(FOLDER / "index.js")

# A figure is set in the reader's own font. This one spaces letters wider than any system does.
WIDE = '* { font-family: "DejaVu Sans" !important; letter-spacing: 0.08em }'


@pytest.fixture
def font(request):
    """A style sheet that sets figures in another font than the machine's own."""
    return getattr(request, "param", "")


in_every_font = pytest.mark.parametrize("font", ["", WIDE], indirect=True, ids=["own", "wide"])


@pytest.fixture(scope="session")
def browser():
    with browsing(need_browser()) as browser:
        yield browser


@pytest.fixture
def show(browser, font, tmp_path):
    """show(figures, html attributes, address's fragment, size, **context options) -> page."""
    contexts, errors, asked = [], [], []

    def show(*figures, attributes="", fragment="", width=760, height=900, **options):
        states = [dict(figure.get_state()) for figure in figures]
        path = tmp_path / "page.html"
        write_page(path, states, font, attributes)
        size = {"width": width, "height": height}
        context = browser.new_context(viewport=size, **options)
        contexts.append(context)
        page = context.new_page()
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.on("console", lambda message: errors.append(message.text))
        page.on("request", lambda request: asked.append(request.url))
        page.goto(path.as_uri() + fragment)
        page.wait_for_selector(READY, state="attached")
        page.evaluate(SETTLE)
        return page

    yield show
    for context in contexts:
        context.close()
    assert errors == [], errors
    assert [url for url in asked if not url.startswith(("file:", "blob:"))] == []


PUBLISHED = 'data-content_root="./"'
SETTLE = "new Promise((done) => requestAnimationFrame(() => setTimeout(done, 20)))"


def status(page):
    return page.locator(".lf-status").inner_text().replace("\u00a0", " ")


def told(page, *names):
    """What the kernel knows of these traits once the page has drawn: a value, or a list."""
    page.evaluate(SETTLE)
    values = page.evaluate("(names) => names.map((name) => models[0].get(name))", names)
    return values if len(names) > 1 else values[0]


def tell(page, **state):
    """Set traits, as a kernel or an address does."""
    page.evaluate("(s) => Object.entries(s).forEach((pair) => models[0].set(...pair))", state)
    page.evaluate(SETTLE)


def button(page, name):
    return page.get_by_role("button", name=name, exact=True)


def slider(page, name):
    return page.get_by_role("slider", name=name, exact=True)


def choose(page, name):
    page.get_by_role("radio", name=name, exact=True).check()


def luminance(channels):
    """Relative luminance, as WCAG defines it, of red, green and blue from 0 to 1."""
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one, other):
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def unfold(page):
    page.get_by_text("More", exact=True).click()
