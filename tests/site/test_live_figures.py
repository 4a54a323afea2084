"""Every live figure of the built site answers to keys, mouse and fingers, to its address and Reset.

Nothing here knows a figure. A figure is a group with a label, a status line (`aria-live`), controls
(inputs, buttons, selects, SVG elements with role=slider that are dragged, and grids to paint, of
which one cell is the stop of Tab) and a picture.

Figures of one kind run one script on different numbers. One of each kind is operated here by keys,
mouse and fingers; test_every_page.py moves all others once.
"""

from types import SimpleNamespace

import pytest
from pages import PHONE, PICTURE, chapters, live_figures, parsed, wake

FIGURES = live_figures() or [("index.html", "")]
# One of each kind, from the gallery if it is there.
KINDS = {
    model.rpartition("-")[0]: (page, model)
    for page, model in sorted(FIGURES, key=lambda figure: "live_figures" in figure[0])
}

CONTROLS = (
    "input:enabled, button:enabled, select:enabled, [role=slider]:not([aria-disabled=true]),"
    " [role=grid] [tabindex='0']"
)
# A label is hit with what it labels. Tab stops once at a group of radio buttons, at the chosen one.
DESCRIBED = """
(all) => all.map((e, number) => {
  const height = (element) => element?.getBoundingClientRect().height ?? 0;
  const group = all.filter((other) => e.name && e.type === "radio" && other.name === e.name);
  const isBox = /radio|checkbox/.test(e.type);
  const isHandle = e.role === "slider" && e.tagName !== "INPUT";
  const tag = e.tagName === "INPUT" ? e.type : e.tagName.toLowerCase();
  e.tabStop = number; // no attribute: that would belong to the picture
  return {
    number,
    name: (e.ariaLabel ?? (e.labels?.[0]?.textContent || e.textContent || e.type)).trim(),
    kind: isHandle ? "handle" : e.role === "gridcell" ? "cell" : tag,
    height: Math.max(height(e), isBox ? height(e.closest("label")) : 0),
    is_stop: e === (group.find((other) => other.checked) ?? group[0] ?? e),
    is_off: e.ariaDisabled === "true", // at the last step there is no next
    is_at_rest: e.type === "radio" ? e.checked : e.ariaPressed === "true",
    is_shown: e.checkVisibility({ visibilityProperty: true })
      && e.getBoundingClientRect().width > 0 && e.textContent.trim() !== "Reset",
  };
})
"""


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

    def controls(self) -> list[SimpleNamespace]:
        found = self.root.locator(CONTROLS)
        described = [SimpleNamespace(**said) for said in found.evaluate_all(DESCRIBED)]
        for control in described:
            control.element = found.nth(control.number)
        return [control for control in described if control.is_shown]

    def reset(self) -> None:
        self.root.get_by_role("button", name="Reset").click()

    def start_again(self) -> None:
        """As `reset`, but without looking whether a mouse can hit the button."""
        self.root.get_by_role("button", name="Reset").dispatch_event("click")

    def changed_since(self, before: tuple[str, str]) -> set[str]:
        """Which of status and picture changed."""
        return set(differences(before, self.shows))

    def missed_by_tab(self) -> list[str]:
        """Controls that the key Tab doesn't stop at."""
        wanted = {c.number: c.name for c in self.controls() if c.is_stop}
        self.root.get_by_role("button", name="Reset").focus()
        for _ in range(len(wanted) + self.root.locator("summary, a").count()):
            self.page.keyboard.press("Tab")
            wanted.pop(self.page.evaluate("document.activeElement.tabStop"), None)
        return list(wanted.values())

    def too_small_for_a_finger(self) -> list[str]:
        return [f"{c.name}: {c.height} pixels" for c in self.controls() if c.height < 31.5]


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


def by_keyboard(figure: Figure, control):
    """Yields after each way of operating the control by keyboard."""
    for key in KEYS[control.kind]:
        control.element.focus()
        figure.page.keyboard.press(key)
        yield


def by_pointer(figure: Figure, control, point, drag):
    """Yields after each way of operating the control, where one can point and drag."""
    if control.kind == "select":  # the browser's own list opens, in which no test can point
        for index in range(control.element.locator("option").count()):
            control.element.select_option(index=index)
            yield
        return
    control.element.evaluate("(e) => e.scrollIntoView({ block: 'center' })")
    box = control.element.bounding_box()
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    if control.kind == "range":
        for share in (0.15, 0.85):
            point(box["x"] + share * box["width"], y)
            yield
    elif control.kind == "handle":
        for dx, dy in ((30, 20), (-30, -20)):
            drag((x, y), (x + dx / 2, y + dy / 2), (x + dx, y + dy))
            yield
    else:
        point(x, y)
        if control.kind == "text":  # pointing gives it the focus, and cannot do more
            figure.page.keyboard.press("x")
        yield


def by_mouse(figure: Figure, control):
    mouse = figure.page.mouse

    def drag(start: tuple, *path: tuple) -> None:
        mouse.move(*start)
        mouse.down()
        for place in path:
            mouse.move(*place)
        mouse.up()

    return by_pointer(figure, control, mouse.click, drag)


def by_touch(figure: Figure, control):
    def drag(*path: tuple) -> None:
        client = figure.page.context.new_cdp_session(figure.page)
        for kind, (x, y) in zip(("Start", "Move", "Move"), path, strict=True):
            touch = {"type": f"touch{kind}", "touchPoints": [{"x": x, "y": y}]}
            client.send("Input.dispatchTouchEvent", touch)
        client.send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})
        client.detach()

    return by_pointer(figure, control, figure.page.touchscreen.tap, drag)


def operate(figure: Figure, way) -> tuple[list[str], set[str]]:
    """Operate each control; returns those that changed nothing, and all that changed."""
    dead, changed = [], set()
    for control in figure.controls():
        # What is pressed or chosen has nothing left to do. But within a group of radio buttons keys
        # start from the chosen one, and the mouse goes to others.
        starts_at_rest = way is by_keyboard and control.kind == "radio"
        if control.is_off or control.is_at_rest != starts_at_rest:
            continue
        before = figure.shows
        for _ in way(figure, control):
            if change := figure.changed_since(before):
                changed |= change
                break
        else:
            dead.append(control.name)
        figure.start_again()
    return dead, changed


def test_there_are_live_figures(book):
    """One on the landing page, and one at least in each chapter; without scripts a picture."""
    assert {"index.html", *chapters()} <= {page for page, _ in FIGURES}
    for page, model in FIGURES:
        picture = parsed(page).select_one(f'[data-model="{model}"] img')
        assert len(picture["alt"]) > 20, model


def test_without_scripts_a_picture_stands_in(visit):
    page = visit("index.html", java_script_enabled=False)
    assert page.locator("[data-model] img").first.is_visible()


WAYS = {
    "keys": (by_keyboard, {}),
    # Without a server, as when the page was saved or mailed.
    "mouse": (by_mouse, {"where": "file"}),
    "finger": (by_touch, {"viewport": PHONE, "has_touch": True, "is_mobile": True}),
}


def what_is_wrong(page, model: str, way: str) -> list:
    wake(page, f'[data-model="{model}"]')
    figure = Figure(page, model)
    wrong: list = figure.missed_by_tab() if way == "keys" else []
    dead, changed = operate(figure, WAYS[way][0])
    wrong += dead + [{"status", "picture"} - changed] * (changed != {"status", "picture"})
    if not figure.root.get_attribute("aria-label").endswith("?"):
        wrong.append("its title is no question")
    if not figure.status.endswith("."):
        wrong.append(f"its status line is no sentence: {figure.status}")
    if way == "finger" and (small := figure.too_small_for_a_finger()):
        wrong.append(small)
    return wrong


@pytest.mark.parametrize("page", sorted({page for page, _ in KINDS.values()}))
@pytest.mark.parametrize(
    "way", [way if way == "keys" else pytest.param(way, marks=pytest.mark.slow) for way in WAYS]
)
def test_each_kind_answers(visit, way, page):
    shown = visit(page, **WAYS[way][1])
    models = [model for there, model in KINDS.values() if there == page]
    found = {model: what_is_wrong(shown, model, way) for model in models}
    assert {model: wrong for model, wrong in found.items() if wrong} == {}
    assert shown.evaluate("visualViewport.scale") == 1, "the page zoomed"


def move_something(figure: Figure) -> tuple[str, str]:
    """Operate controls until the sentence is another one; returns what the figure shows then."""
    first = figure.shows
    # A choice comes last: where a published model is chosen, nothing else can be moved.
    for control in sorted(figure.controls(), key=lambda control: control.kind == "radio"):
        if control.kind in ("range", "handle", "cell", "checkbox", "radio"):
            for _ in by_keyboard(figure, control):
                if figure.changed_since(first) == {"status", "picture"}:
                    break
            if figure.status != first[0]:
                break
    now = figure.shows
    assert now[0] != first[0]
    return now
