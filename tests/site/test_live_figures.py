"""Every live figure of the built site answers to keys, mouse and fingers, to its address and Reset.

Nothing here knows a figure. A figure is a group with a label, a status line (`aria-live`), controls
(inputs, buttons, selects, SVG elements with role=slider that are dragged, and grids to paint, of
which one cell is the stop of Tab) and a picture.

Figures of one kind run one script on different numbers. One of each kind is operated here by keys,
mouse and fingers; test_every_page.py moves all others once.
"""

from __future__ import annotations

import pytest
from pages import PICTURE, chapters, live_figures, parsed, wake
from playwright.sync_api import Locator

FIGURES = live_figures() or [("index.html", "")]
# One of each kind, from the gallery if it is there.
KINDS = {
    model.rpartition("-")[0]: (page, model)
    for page, model in sorted(FIGURES, key=lambda figure: "live_figures" in figure[0])
}
PHONE = {"viewport": {"width": 390, "height": 844}, "has_touch": True, "is_mobile": True}

CONTROLS = (
    "input:enabled, button:enabled, select:enabled, [role=slider]:not([aria-disabled=true]),"
    " [role=grid] [tabindex='0']"
)


class Figure:
    """A live figure on a page, operated as a reader would."""

    def __init__(self, page, model: str) -> None:
        self.page, self.model = page, model
        self.root = page.locator(f'[data-model="{model}"] [role=group][aria-label]').first
        self.root.wait_for(state="visible", timeout=20_000)
        self.root.evaluate(
            """(figure) => {
              figure.querySelectorAll(".lf-more").forEach((more) => { more.open = true; });
              figure.scrollIntoView({ block: "center" });
            }"""
        )

    @property
    def status(self) -> str:
        return self.root.locator("[aria-live]").inner_text().strip()

    @property
    def shows(self) -> tuple[str, str]:
        """Status and picture, once the page has drawn what it was asked to."""
        return tuple(
            self.root.evaluate(
                f"""async (figure) => {{
                  await new Promise((r) => requestAnimationFrame(() => setTimeout(r, 30)));
                  const status = figure.querySelector("[aria-live]").innerText.trim();
                  return [status, ({PICTURE})(figure)];
                }}"""
            )
        )

    def controls(self) -> list[Locator]:
        found = self.root.locator(CONTROLS)
        wanted = found.evaluate_all(
            """(all) => all.map((e) => e.checkVisibility({ visibilityProperty: true })
                && e.getBoundingClientRect().width > 0 && e.textContent.trim() !== "Reset")"""
        )
        return [found.nth(number) for number, is_wanted in enumerate(wanted) if is_wanted]

    def reset(self) -> None:
        self.root.get_by_role("button", name="Reset").click()

    def start_again(self) -> None:
        """As `reset`, but without looking whether a mouse can hit the button."""
        self.root.get_by_role("button", name="Reset").dispatch_event("click")

    def changed_since(self, before: tuple[str, str]) -> set[str]:
        """Which of status and picture changed."""
        return set(differences(before, self.shows))

    def missed_by_tab(self) -> list[str]:
        """Controls that the key Tab doesn't stop at; a group of radio buttons is one stop."""
        wanted = {}
        for control in self.controls():
            if kind(control) == "radio":
                group = control.get_attribute("name")
                checked = self.root.locator(f'input[name="{group}"]:checked')
                wanted.setdefault(group, checked if checked.count() else control)
            else:
                wanted[len(wanted)] = control
        for number, control in wanted.items():
            control.evaluate("(e, n) => { e.dataset.stop = n; }", str(number))
        self.root.get_by_role("button", name="Reset").focus()
        for _ in range(len(wanted) + self.root.locator("summary, a").count()):
            self.page.keyboard.press("Tab")
            reached = self.page.evaluate("document.activeElement.dataset.stop ?? null")
            wanted = {n: control for n, control in wanted.items() if str(n) != reached}
        return [name(control) for control in wanted.values()]

    def too_small_for_a_finger(self) -> dict[str, float]:
        """Controls less than 32 pixels high; a small box to check has a label that is hit too."""
        heights = {
            name(control): control.evaluate(
                "(e) => Math.max(e.getBoundingClientRect().height, /radio|checkbox/.test(e.type)"
                " ? e.closest('label').getBoundingClientRect().height : 0)"
            )
            for control in self.controls()
        }
        return {name: height for name, height in heights.items() if height < 31.5}

    def looks_of_sentences(self) -> list[str]:
        """The longest sentences lie unseen below the one shown, and keep room for them."""
        return self.root.evaluate(
            """(figure) => [...figure.querySelector("[aria-live]").parentElement.children]
              .map((e) => {
                const { fontFamily, fontSize, lineHeight } = getComputedStyle(e);
                return [fontFamily, fontSize, lineHeight].join(" ");
              })"""
        )


def differences(before: tuple[str, str], after: tuple[str, str]) -> dict[str, tuple[str, str]]:
    """Which of status and picture differ, with both texts around the first difference."""
    found = {}
    for what, a, b in zip(("status", "picture"), before, after, strict=True):
        if a != b:
            pairs = enumerate(zip(a, b, strict=False))
            first = next((i for i, (x, y) in pairs if x != y), min(len(a), len(b)))
            at = max(0, first - 60)
            found[what] = (a[at : at + 120], b[at : at + 120])
    return found


def name(control: Locator) -> str:
    return control.evaluate(
        "(e) => e.ariaLabel ?? (e.labels?.[0]?.textContent || e.textContent || e.type)"
    ).strip()


def kind(control: Locator) -> str:
    return control.evaluate(
        "(e) => e.role === 'slider' && e.tagName !== 'INPUT' ? 'handle'"
        " : e.role === 'gridcell' ? 'cell'"
        " : e.tagName === 'INPUT' ? e.type : e.tagName.toLowerCase()"
    )


def at_rest(control: Locator) -> bool:
    """A pressed button or chosen option has nothing left to do."""
    return control.evaluate(
        "(e) => e.type === 'radio' ? e.checked : e.getAttribute('aria-pressed') === 'true'"
    )


# The first of each is tried first; a control at its end answers to the next.
KEYS = {
    "range": ["ArrowRight", "ArrowLeft", "PageUp", "Home", "End"],
    "number": ["ArrowUp", "ArrowDown"],
    "text": ["Backspace", "x"],
    "handle": ["ArrowRight", "ArrowLeft", "ArrowUp", "ArrowDown"],
    "select": ["ArrowDown", "ArrowUp"],
    "radio": ["ArrowRight", "ArrowLeft"],
    "checkbox": ["Space"],
    "button": ["Enter", "Space"],
    "cell": ["Space", "Enter"],
}


def by_keyboard(figure: Figure, control: Locator):
    """Yields after each way of operating the control by keyboard."""
    for key in KEYS[kind(control)]:
        control.focus()
        figure.page.keyboard.press(key)
        yield


def by_mouse(figure: Figure, control: Locator):
    """Yields after each way of operating the control by mouse."""
    mouse = figure.page.mouse
    what = kind(control)
    if what == "select":
        for index in range(control.locator("option").count()):
            control.select_option(index=index)
            yield
        return
    if what not in ("range", "handle"):
        control.click()
        if what == "text":  # a mouse gives it the focus, and cannot do more
            figure.page.keyboard.press("x")
        yield
        return
    control.scroll_into_view_if_needed()
    box = control.bounding_box()
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    if what == "range":
        for share in (0.15, 0.85):
            mouse.click(box["x"] + share * box["width"], y)
            yield
        return
    for dx, dy in ((30, 20), (-30, -20)):
        mouse.move(x, y)
        mouse.down()
        mouse.move(x + dx / 2, y + dy / 2)
        mouse.move(x + dx, y + dy)
        mouse.up()
        yield


def by_touch(figure: Figure, control: Locator):
    """Yields after each way of operating the control with a finger."""
    what = kind(control)
    if what == "select":  # the browser's own list opens, in which no test can tap
        yield from by_mouse(figure, control)
        return
    control.evaluate("(e) => e.scrollIntoView({ block: 'center' })")
    box = control.bounding_box()
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    if what == "range":
        for share in (0.15, 0.85):
            figure.page.touchscreen.tap(box["x"] + share * box["width"], y)
            yield
    elif what == "handle":
        for dx, dy in ((30, 20), (-30, -20)):
            drag_with_finger(figure.page, (x, y), (x + dx, y + dy))
            yield
    else:
        control.tap()
        if what == "text":
            figure.page.keyboard.press("x")
        yield


def drag_with_finger(page, start: tuple[float, float], end: tuple[float, float]) -> None:
    client = page.context.new_cdp_session(page)
    steps = [tuple(a + (b - a) * share for a, b in zip(start, end, strict=True))
             for share in (0, 0.5, 1)]  # fmt: skip
    for event, (x, y) in zip(("touchStart", "touchMove", "touchMove"), steps, strict=True):
        client.send("Input.dispatchTouchEvent", {"type": event, "touchPoints": [{"x": x, "y": y}]})
    client.send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})
    client.detach()


def operate(figure: Figure, way) -> tuple[list[str], set[str]]:
    """Operate each control; returns those that changed nothing, and all that changed."""
    dead, changed = [], set()
    for control in figure.controls():
        if control.get_attribute("aria-disabled") == "true":  # at the last step there is no next
            continue
        by_keys = way is by_keyboard
        # Within a group of radio buttons, keys start from the chosen one; the mouse goes to others.
        if at_rest(control) != (by_keys and kind(control) == "radio"):
            continue
        before = figure.shows
        for _ in way(figure, control):
            if change := figure.changed_since(before):
                changed |= change
                break
        else:
            dead.append(name(control))
        figure.start_again()
    return dead, changed


def test_there_are_live_figures(book):
    """One on the landing page, and one at least in each chapter; without scripts a picture."""
    assert {"index.html", *chapters()} <= {page for page, _ in FIGURES}
    for page, model in FIGURES:
        picture = parsed(page).select_one(f"{mount(model)} img")
        assert len(picture["alt"]) > 20, model


def test_without_scripts_a_picture_stands_in(browser, bases):
    page = browser.new_page(java_script_enabled=False)
    page.goto(bases["http"] + "index.html")
    assert page.locator("[data-model] img").first.is_visible()
    page.close()


def mount(model: str) -> str:
    return f'[data-model="{model}"]'


WAYS = {
    "keys": (by_keyboard, {}),
    # Without a server, as when the page was saved or mailed.
    "mouse": (by_mouse, {"scheme": "file"}),
    "finger": (by_touch, PHONE),
}


@pytest.fixture(scope="module")
def open_once(visit_once):
    """open_once(page, way) -> (page, watch): one visit to a page for all of its figures."""
    last: dict = {}

    def open_once(page: str, way: str):
        if (page, way) not in last:
            for visit in last.values():
                visit[0].context.close()
            last.clear()
            last[page, way] = visit_once(page, figures="#none", **WAYS[way][1])
        return last[page, way]

    return open_once


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "way", [way if way == "keys" else pytest.param(way, marks=pytest.mark.slow) for way in WAYS]
)
def test_it_answers(open_once, way, kind):
    page, model = KINDS[kind]
    shown, watch = open_once(page, way)
    wake(shown, mount(model))
    figure = Figure(shown, model)
    if way == "keys":
        assert figure.missed_by_tab() == []
    dead, changed = operate(figure, WAYS[way][0])
    assert dead == []
    assert changed == {"status", "picture"}
    assert figure.root.get_attribute("aria-label").endswith("?"), "its title is a question"
    assert figure.status.endswith("."), "its status line is a sentence"
    assert watch.complaints == {}
    if way == "finger":
        assert figure.too_small_for_a_finger() == {}
        assert len(set(figure.looks_of_sentences())) == 1
        assert shown.evaluate("visualViewport.scale") == 1, "the page zoomed"


def move_something(figure: Figure) -> tuple[str, str]:
    """Operate controls until the sentence is another one; returns what the figure shows then."""
    first = figure.shows
    # A choice comes last: where a published model is chosen, nothing else can be moved.
    for control in sorted(figure.controls(), key=lambda control: kind(control) == "radio"):
        if kind(control) in ("range", "handle", "cell", "checkbox", "radio"):
            for _ in by_keyboard(figure, control):
                if figure.changed_since(first) == {"status", "picture"}:
                    break
            if figure.status != first[0]:
                break
    now = figure.shows
    assert now[0] != first[0]
    return now
