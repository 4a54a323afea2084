"""Live figures in a real browser: what must hold wherever a figure is shown.

The built site has its own tests, in tests/site. Here a figure stands alone, on a page with a model
that writes down what it is told, as a kernel would.
"""

import re

import pytest
from figure_examples import make, states
from figure_page import (
    PUBLISHED,
    SETTLE,
    choose,
    contrast,
    in_every_font,
    luminance,
    slider,
    status,
    tell,
    told,
)

from transformer_lib.figures import widgets
from transformer_lib.figures.widgets import MixingMatrix, SoftLookup

pytestmark = pytest.mark.slow


# Shows each state: the height of the figure, the width of the page, the height of each part, and
# what leaves its box, or leaves its picture by more than the figure has padding.
MEASURE = """(states) => {
  const figure = document.querySelector("figure");
  const parts = [...figure.querySelectorAll("p, div, label, fieldset, table, caption, ul, svg")];
  const leaves = (e) => {
    if (!e.checkVisibility({ visibilityProperty: true })) return false;
    if (!e.ownerSVGElement)
      return Math.max(e.scrollWidth - e.clientWidth, e.scrollHeight - e.clientHeight) > 4;
    const [text, box] = [e, e.ownerSVGElement].map((each) => each.getBoundingClientRect());
    const beyond = [box.left - text.left, text.right - box.right, box.top - text.top];
    return Math.max(...beyond, text.bottom - box.bottom) > 11;
  };
  return states.map((state) => {
    Object.entries(state).forEach(([name, value]) => models[0].set(name, value));
    return [figure.getBoundingClientRect().height, document.documentElement.scrollWidth,
      parts.map((e) => Math.round(e.getBoundingClientRect().height)),
      [...figure.querySelectorAll("svg text, th, label")].filter(leaves).map((e) => e.textContent)];
  });
}"""
NAMES = """() => [...document.querySelector("figure")
    .querySelectorAll("p, div, label, fieldset, table, caption, ul, svg")]
  .map((e) => `${e.tagName} ${e.getAttribute("class")} ${e.textContent.slice(0, 30)}`)"""


@in_every_font
@pytest.mark.parametrize("name", widgets.__all__)
def test_nothing_jumps_and_nothing_sticks_out(show, name):
    """In no state, at no width, in no font."""
    shown = states(name)
    page = show(make(name))
    for width in (320, 760):
        page.set_viewport_size({"width": width, "height": 800})
        page.evaluate(SETTLE)
        heights, widths, parts, spilled = zip(*page.evaluate(MEASURE, shown), strict=True)
        names = page.evaluate(NAMES)
        moved = {n: sorted(set(p)) for n, *p in zip(names, *parts, strict=True) if len(set(p)) > 1}
        assert max(heights) - min(heights) <= 1, (width, sorted(set(heights)), moved)
        assert max(widths) <= width, shown[widths.index(max(widths))]
        assert not any(spilled), (width, {text for texts in spilled for text in texts})


# Number of elements that take the focus, and the keys that reach the notebook.
REACH_THE_NOTEBOOK = """() => {
  const keys = [["x"], ["b"], ["ArrowDown"], ["Enter"], ["s", "ctrlKey"], ["S", "metaKey"],
    ["Enter", "ctrlKey"], ["z", "ctrlKey"], ["Z", "metaKey"], ["ArrowDown", "ctrlKey"]];
  const found = new Set();
  let name;
  const notebook = ({ target }) => {
    if (!target.hasAttribute("data-lm-suppress-shortcuts")) found.add(name);
  };
  document.addEventListener("keydown", notebook, true);
  const all = [...document.querySelectorAll("figure, figure *")].filter((e) => {
    e.focus?.({ preventScroll: true });
    return document.activeElement === e;
  });
  for (const e of all) for (const [key, command] of keys) {
    name = [command, key].filter(Boolean).join("+");
    const options = { key, bubbles: true, ...(command ? { [command]: true } : {}) };
    e.dispatchEvent(new KeyboardEvent("keydown", options));
  }
  document.removeEventListener("keydown", notebook, true);
  return [all.length, [...found]];
}"""


@pytest.mark.parametrize("name", widgets.__all__)
def test_keys_stay_in_the_figure_and_commands_do_not(show, name):
    """JupyterLab and Notebook only check the focused element itself."""
    page = show(make(name))
    focusable, reach = page.evaluate(REACH_THE_NOTEBOOK)
    assert focusable >= 3
    assert reach == ["ctrlKey+s", "metaKey+S", "ctrlKey+Enter"]


@pytest.mark.parametrize("name", widgets.__all__)
def test_other_figures_on_the_page_change_nothing(show, name):
    """Each brings its own sheet, and the kit's, whose copy must not override a figure's rules."""
    page = show(make(name))
    looks = """() => [...document.querySelectorAll("figure *")].map((e) => {
      const { x, y, width, height } = e.getBoundingClientRect();
      const { color, backgroundColor, fill, stroke, font, borderStyle } = getComputedStyle(e);
      return [e.tagName, e.getAttribute("class"), x, y, width, height, color, backgroundColor,
        fill, stroke, font, borderStyle].join(" ");
    })"""
    before = page.evaluate(looks)
    page.add_style_tag(content="\n".join(make(other)._css for other in widgets.__all__))
    page.evaluate(SETTLE)
    assert page.evaluate(looks) == before


@pytest.mark.parametrize("name", widgets.__all__)
def test_an_address_without_sense_does_no_harm(show, name):
    figure = make(name)
    page = show(figure, attributes=PUBLISHED)
    for value in ("1.5", "1e9", "-7", "x", "<b>,2", "%E0%A4%A", "&=:;"):
        state = ";".join(f"{trait}:{value}" for trait in figure.shown)
        page.evaluate("(hash) => { location.hash = hash; }", f"#{name}={state}")
        page.evaluate(SETTLE)
        assert status(page).endswith(".")


def test_scrolling_below_a_resting_pointer_changes_nothing(show):
    page = show(MixingMatrix(), height=300)
    rows = page.locator(".lf-heat tbody tr")
    rows.nth(1).scroll_into_view_if_needed()
    rows.nth(1).hover()
    assert told(page, "row") == 1
    page.mouse.wheel(0, 64)
    page.wait_for_timeout(300)
    assert told(page, "row") == 1


def test_a_figure_and_its_kernel_tell_each_other(show):
    page = show(SoftLookup())
    tell(page, query=[-2, 0])
    assert "from chair" in status(page)
    assert page.evaluate("models[0].sent.length") == 0, "what came from the kernel is not sent back"
    slider(page, "query fruit").press("Shift+ArrowLeft")
    slider(page, "key chair").press("ArrowUp")
    choose(page, "distance")
    slider(page, "temperature").press("Home")
    sent = page.evaluate("models[0].sent.at(-1)")
    assert sent["query"] == [-2.5, 0]
    assert sent["key_vectors"] == [[2, 1], [2, -1], [-2, 0.1]]
    assert (sent["likeness"], sent["temperature"]) == ("distance", 0)
    SoftLookup().set_state({name: sent[name] for name in ("query", "key_vectors", "temperature")})
    assert page.evaluate("models[0].listening()") > 0
    page.evaluate("models[0].leave()")
    assert page.evaluate("models[0].listening()") == 0


def drag(page, box, ways):
    """A finger goes from the middle of a box along these ways."""
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    client = page.context.new_cdp_session(page)
    for kind, (dx, dy) in zip(["Start", *["Move"] * (len(ways) - 1)], ways, strict=True):
        point = {"x": x + dx, "y": y + dy}
        client.send("Input.dispatchTouchEvent", {"type": f"touch{kind}", "touchPoints": [point]})
    client.send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})
    page.evaluate(SETTLE)


def test_a_finger_drags_or_scrolls(show):
    """On a handle the page stays where it is; where a finger scrolls it, a slider stays."""
    page = show(SoftLookup(), width=390, height=400, has_touch=True)
    handle = slider(page, "query fruit")
    handle.scroll_into_view_if_needed()
    scroll = page.evaluate("scrollY")
    drag(page, handle.locator(".lf-touch").bounding_box(), [(0, 0), (-20, 10), (-120, 60)])
    query = told(page, "query")
    assert query[0] < 0.5
    assert query[1] < -0.5
    assert page.evaluate("scrollY") == scroll

    line = page.locator("input[type=range]").first
    line.scroll_into_view_if_needed()
    before, scroll = line.input_value(), page.evaluate("scrollY")
    drag(page, line.bounding_box(), [(0, 0), (0, -20), (0, -60), (0, -100)])
    assert page.evaluate("scrollY") > scroll
    assert line.input_value() == before
    line.scroll_into_view_if_needed()
    drag(page, line.bounding_box(), [(0, 0), (20, 0), (60, 0), (100, 0)])
    assert line.input_value() != before


def test_a_notebooks_address_is_left_alone(show):
    page = show(SoftLookup(), fragment="#top")
    slider(page, "query fruit").press("ArrowLeft")
    page.wait_for_timeout(300)
    assert page.evaluate("location.hash") == "#top"


def test_the_theme_is_the_pages_or_else_the_systems(show):
    page = show(SoftLookup())
    for element, attribute, value, system, dark in [
        ("html", "data-theme", "dark", "light", True),
        ("html", "data-theme", "light", "dark", False),
        ("html", "theme", "dark", "light", True),
        ("html", "theme", "light", "dark", False),
        ("body", "data-jp-theme-light", "false", "light", True),
        ("body", "data-jp-theme-light", "true", "dark", False),
        ("html", "data-nothing", "", "dark", True),
        ("html", "data-nothing", "", "light", False),
    ]:
        page.emulate_media(color_scheme=system)
        page.locator(element).evaluate("(e, [k, v]) => e.setAttribute(k, v)", [attribute, value])
        ground = page.locator("figure").evaluate("(e) => getComputedStyle(e).backgroundColor")
        assert (luminance(channels(ground)) < 0.1) is dark, (attribute, value, system)
        page.locator(element).evaluate("(e, k) => e.removeAttribute(k)", attribute)


def channels(color):
    """Red, green and blue of a computed color: `rgb(0, 0, 0)` or `color(srgb 0 0 0)`."""
    size = 1 if color.startswith("color(srgb") else 255
    return [float(x) / size for x in re.findall(r"\d[\d.e-]*", color)[:3]]


def test_the_number_in_a_cell_can_be_read_at_every_weight(show):
    size = 10  # the vectors' table shows -1 to 1 in steps of 0.034
    figure = MixingMatrix(
        words=[f"w{i}" for i in range(size)],
        features=list("abcdef"),
        vectors=[[round(-1 + 0.034 * (6 * i + j), 3) for j in range(6)] for i in range(size)],
        queries=[[0] * 6] * size,
    )
    page = show(figure)
    for theme in ("light", "dark"):
        pairs = page.evaluate(
            """(theme) => {
              document.documentElement.dataset.theme = theme;
              return [...document.querySelectorAll(".lf-heat tbody td, .lf-tokens label")].map(
                (e) => [getComputedStyle(e).color, getComputedStyle(e).backgroundColor]);
            }""",
            theme,
        )
        assert len(pairs) > 200
        for ink, ground in pairs:
            assert contrast(channels(ink), channels(ground)) >= 4.5, (theme, ink, ground)
