"""Every live figure of the built site answers to keys, mouse and fingers, to its address and Reset.

Nothing here knows a figure. A figure is a group with a label, a status line (`aria-live`), controls
(inputs, buttons, selects, SVG elements with role=slider that are dragged, and grids to paint, of
which one cell is the stop of Tab) and a picture.

Figures of one kind run one script on different numbers. Each is operated by keys, and one of each
kind by mouse and fingers as well.
"""

from __future__ import annotations

import pytest
from pages import PICTURE, each, live_figures, open_page, unfold, wake
from playwright.sync_api import Error, Locator

FIGURES = live_figures() or [("index.html", "")]
PAGES = sorted({page for page, _ in FIGURES})


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
    """One on the landing page, and one at least in each chapter."""
    pages = {page for page, _ in FIGURES}
    chapters = {
        f"chapters/{path.stem}.html"
        for path in (book / "_sources" / "chapters").glob("[0-9]*.ipynb")
    }
    assert chapters
    assert {"index.html"} | chapters <= pages


def ids(figure: tuple[str, str]) -> str:
    return "-".join(figure)


def mount(model: str) -> str:
    return f'[data-model="{model}"]'


@pytest.fixture(scope="module")
def open_once(visit_once):
    """open_once(page, **options) -> (page, watch): one visit to a page for all of its figures."""
    last: dict = {}  # by kind of visit: a figure's tests at a desk and on a phone take turns

    def open_once(page: str, **options):
        kind = tuple(options)
        there, visit = last.get(kind, (None, None))
        if there != page:
            if visit:
                visit[0].context.close()
            visit = visit_once(page, figures="#none", **options)
            last[kind] = page, visit
        return visit

    return open_once


def figure_on(shown, model: str) -> Figure:
    """The figure, awake and in its first state."""
    wake(shown, mount(model))
    figure = Figure(shown, model)
    figure.reset()
    shown.wait_for_url(lambda address: "=" not in address)  # a state that stood there goes soon
    return figure


@pytest.fixture(scope="module", params=each(FIGURES, KINDS.values()), ids=ids)
def place(request) -> tuple[str, str]:
    """The page of a figure, and the widget's id there."""
    return request.param


@pytest.fixture
def at_desk(place, open_once) -> Figure:
    page, model = place
    return figure_on(open_once(page)[0], model)


@pytest.fixture
def in_hand(place, open_once) -> Figure:
    page, model = place
    return figure_on(open_once(page, **PHONE)[0], model)


def test_it_says_what_it_is(at_desk, place, open_once):
    figure, (_, watch) = at_desk, open_once(place[0])
    assert figure.root.get_attribute("aria-label").endswith("?"), "its title is a question"
    assert figure.status.endswith("."), "its status line is a sentence"
    assert len(figure.controls()) >= 2
    assert figure.page.locator("[data-state=failed]").count() == 0
    assert watch.complaints == {}


def test_it_answers_to_keys(at_desk):
    dead, changed = operate(at_desk, by_keyboard)
    assert dead == []
    assert changed == {"status", "picture"}


@pytest.mark.slow
@pytest.mark.parametrize("page, model", KINDS.values(), ids=KINDS)
def test_it_answers_to_the_mouse_in_a_file(open_once, page, model):
    """Without a server, as when the page was saved or mailed."""
    figure = figure_on(open_once(page, scheme="file")[0], model)
    dead, changed = operate(figure, by_mouse)
    assert dead == []
    assert changed == {"status", "picture"}


@pytest.mark.slow
@pytest.mark.parametrize("page, model", KINDS.values(), ids=KINDS)
def test_it_answers_to_a_finger(open_once, page, model):
    figure = figure_on(open_once(page, **PHONE)[0], model)
    dead, changed = operate(figure, by_touch)
    assert dead == []
    assert changed == {"status", "picture"}
    moved = figure.page.evaluate("visualViewport.scale")
    assert moved == 1, "the page zoomed"


# Operates every control; from the event to the finished layout, the best time of each, as a share
# of a loop's best time in the same page. Other programs slow both down, and seldom to the same
# degree: loop and control take turns, until the control has once been quick or 200 turns are over.
QUICKLY = """
(figure) => {
  const took = (act) => {
    const start = performance.now();
    act();
    return performance.now() - start;
  };
  const loop = () => { let x = 0; for (let i = 0; i < 1e6; i++) x += Math.sin(i); return x; };
  let fastest = Math.min(...Array.from({ length: 12 }, () => took(loop)));
  const key = (name) => (e) =>
    e.dispatchEvent(new KeyboardEvent("keydown", { key: name, bubbles: true }));
  const turn = (e) => {
    e.value = Number(e.value) < Number(e.max) ? Number(e.value) + 1 : Number(e.min);
    e.dispatchEvent(new Event("input", { bubbles: true }));
  };
  const ways = [
    ["input[type=range]:enabled", turn],
    ["input:enabled:not([type=range])", (e) => e.click()],
    ["[role=slider]:not(input)", key("ArrowRight")],
    ["[role=gridcell]", key(" ")],
  ];
  const times = {};
  for (const [selector, act] of ways) {
    for (const control of figure.querySelectorAll(selector)) {
      let best = Infinity;
      for (let turn = 0; turn < 200 && (turn < 3 || best > fastest); turn++) {
        fastest = Math.min(fastest, took(loop));
        best = Math.min(best, took(() => { act(control); figure.getBoundingClientRect(); }));
      }
      const name = control.ariaLabel ?? control.labels?.[0]?.textContent ?? selector;
      times[name] = Math.max(times[name] ?? 0, best / fastest);
    }
  }
  return times;
}
"""


@pytest.mark.slow
@pytest.mark.parametrize("page, model", KINDS.values(), ids=KINDS)
def test_it_answers_in_the_time_of_a_loop(visit, page, model):
    """A million sines take about 11 ms on a laptop, 45 on a phone four times as slow.

    A figure that answers within one such loop answers within 50 ms there: the slowest takes 0.9.
    The limit leaves room for what other programs do to one of the two. What the browser then
    paints is not counted.
    """
    figure = Figure(visit(page, figures=mount(model))[0], model)
    shares = figure.root.evaluate(QUICKLY)
    print(model, {name: round(share, 2) for name, share in shares.items()})
    assert shares
    assert {name: share for name, share in shares.items() if share > 1.5} == {}


def test_tab_reaches_every_control(at_desk):
    figure = at_desk
    groups, wanted = set(), []
    for control in figure.controls():
        if kind(control) == "radio":  # a group is one stop
            group = control.get_attribute("name")
            if group in groups:
                continue
            groups.add(group)
            checked = figure.root.locator(f'input[name="{group}"]:checked')
            control = checked if checked.count() else control
        wanted.append(control)
    for number, control in enumerate(wanted):
        control.evaluate("(e, n) => { e.dataset.stop = n; }", str(number))
    figure.root.get_by_role("button", name="Reset").focus()
    reached = set()
    others = figure.root.locator("summary, a").count()  # stops as well
    for _ in range(len(wanted) + others):
        figure.page.keyboard.press("Tab")
        reached.add(figure.page.evaluate("document.activeElement.dataset.stop ?? null"))
    for control in wanted:  # the page is used again
        control.evaluate("(e) => { delete e.dataset.stop; }")
    missed = [name(c) for n, c in enumerate(wanted) if str(n) not in reached]
    assert missed == []


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


@pytest.mark.parametrize("page", each(PAGES))
def test_the_address_holds_all_states_and_reset_the_first(visit, page):
    """Whoever opens an address sees the same figures; Reset brings back what there was."""
    shown, _ = visit(page)
    figures = [Figure(shown, model) for there, model in FIGURES if there == page]
    first = {figure.model: figure.shows for figure in figures}
    now = {figure.model: move_something(figure) for figure in figures}
    # Figures write their states there 200 ms later; the page's own clock keeps this order.
    shown.evaluate("new Promise((done) => setTimeout(done, 400))")
    assert shown.url.count("=") == len(figures)
    other = open_page(shown.context, shown.url)
    for figure in figures:
        there = Figure(other, figure.model)
        assert differences(now[figure.model], there.shows) == {}, figure.model
    other.close()

    for figure in figures:
        figure.reset()
        assert differences(first[figure.model], figure.shows) == {}, figure.model
    shown.wait_for_url(lambda address: "=" not in address)


@pytest.mark.slow
def test_a_finger_can_hit_it(in_hand):
    """Controls are at least 32 pixels high on a phone, and can be tapped there."""
    figure = in_hand
    small = {}
    for control in figure.controls():
        # A small box to check has a label that is hit as well; a slider's label does not slide.
        height = control.evaluate(
            "(e) => Math.max(e.getBoundingClientRect().height, /radio|checkbox/.test(e.type)"
            " ? e.closest('label').getBoundingClientRect().height : 0)"
        )
        if height < 31.5:
            small[name(control)] = height
    assert small == {}


@pytest.mark.slow
def test_the_room_kept_for_its_sentence_is_set_as_the_sentence(in_hand):
    """The longest sentences lie unseen below the one shown, in the same lines, or it jumps."""
    looks = in_hand.root.evaluate(
        """(figure) => [...figure.querySelector("[aria-live]").parentElement.children].map((e) => {
          const { fontFamily, fontSize, lineHeight } = getComputedStyle(e);
          return [fontFamily, fontSize, lineHeight].join(" ");
        })"""
    )
    assert len(looks) > 1
    assert len(set(looks)) == 1, looks


@pytest.mark.parametrize("page", each(PAGES))
def test_without_scripts_pictures_stand_in(browser, bases, page):
    context = browser.new_context(java_script_enabled=False)
    try:
        shown = context.new_page()
        shown.goto(bases["http"] + page)
        unfold(shown)
        for model in [model for there, model in FIGURES if there == page]:
            picture = shown.locator(f"{mount(model)} img")
            assert picture.is_visible()
            assert len(picture.get_attribute("alt")) > 20
    except Error as error:
        pytest.fail(str(error))
    finally:
        context.close()
