"""axe-core finds nothing on any page: light, dark, wide, narrow, figures awake, boxes open."""

from __future__ import annotations

from itertools import pairwise

import pytest
from pages import OLD_THEME, ROOT, each, pages, parsed

AXE = ROOT / "node_modules" / "axe-core" / "axe.min.js"
SOURCES = ["_modules/transformer_lib/attention.html"]  # one of the pages of source stands for all
PAGES = [*(pages() or ["index.html"]), *SOURCES]
WIDTHS = (1280, 390)

RUN = """
async ([context, rules]) => {
  const found = await axe.run(context, { resultTypes: ["violations"], reporter: "v2", ...rules });
  return found.violations.flatMap(({ id, help, nodes }) => nodes.map(
    ({ target, failureSummary }) => `${id} (${help}): ${target.join(" ")} ${failureSummary}`));
}
"""
ALL = {"rules": {"target-size": {"enabled": True}}}
COLORS = {"runOnly": {"type": "rule", "values": ["color-contrast", "link-in-text-block"]}}
OFF = {rule: {"enabled": False} for rule in COLORS["runOnly"]["values"]}
ALL_BUT_COLORS = {"rules": ALL["rules"] | OFF}
NONE = {}
# A reader opens what is folded: solutions, cells, boxes; and has answered what the page asks.
UNFOLD = """
() => {
  for (const details of document.querySelectorAll("article details")) details.open = true;
  for (const question of document.querySelectorAll(".predict-live")) question.dataset.told = "yes";
}
"""
# Of words of code and of formulas that look alike wherever they stand, keeps the first: they are
# most of a page, hold nothing but text, and take most of axe's time.
ONCE = """
() => {
  const places = new Map();
  const place = (element) => {
    if (!element) return "";
    if (!places.has(element)) {
      const looks = ["class", "style"].map((name) => element.getAttribute(name) ?? "");
      looks[1] = looks[1].replace(/--indent: *\\d+;?/, "");  // of a line of code: moves it, no more
      places.set(element, [place(element.parentElement), element.tagName, ...looks].join(" "));
    }
    return places.get(element);
  };
  const again = (all) => {
    const seen = new Set();
    return all.filter((element) => seen.size === seen.add(place(element)).size);
  };
  const plain = ({ attributes }) => [...attributes].every(({ name }) => name === "class");
  const code = ["pre", "code", ".sig"].map((where) => `article ${where} span:not(:has(*))`);
  for (const _ of ["words", "what words stood in"]) {
    const words = again([...document.querySelectorAll(code)]);
    for (const word of words.filter(plain)) word.replaceWith(word.textContent);
  }
  const formulas = again([...document.querySelectorAll("article .katex-html")]);
  for (const formula of formulas) formula.remove();
}
"""
# The theme lets the keyboard into what scrolls, a while after the window's size has changed.
REACHED = """
() => [...document.querySelectorAll("pre, .cell_output > .output, .pst-scrollable-table-container")]
  .every((e) => (e.scrollWidth > e.clientWidth || e.scrollHeight > e.clientHeight) === !e.tabIndex)
"""
# Keeps on each element, under a name, how it looks as far as contrast goes; nothing if hidden. On a
# picture axe gives no verdict: so it is where lines of code are wide, and fade at an edge.
LOOK = """
(name) => {
  for (const element of document.body.querySelectorAll("*")) {
    const style = getComputedStyle(element);
    const size = parseFloat(style.fontSize);
    const large = size >= 24 || (size >= 18.66 && style.fontWeight >= 700);
    const { color, backgroundColor, backgroundImage, opacity, fill } = style;
    (element.looks ??= {})[name] = !element.checkVisibility({ visibilityProperty: true }) ? ""
      : backgroundImage !== "none" ? "a picture"
      : [color, backgroundColor, opacity, fill, large].join("|");
  }
}
"""
# Marks what looks unlike before and is on no picture, or what was hidden; true if there is any.
MARK = """
([now, before, hidden]) => {
  for (const marked of document.querySelectorAll("[data-other]")) delete marked.dataset.other;
  const marked = [...document.body.querySelectorAll("*")].filter(({ looks }) =>
    looks?.[now] && (hidden ? looks[before] === ""
      : looks[before] !== looks[now] && looks[now] !== "a picture"));
  for (const element of marked) {
    if (!element.parentElement.closest("[data-other]")) element.dataset.other = "";
  }
  return marked.length > 0;
}
"""


@pytest.fixture(scope="session")
def axe(book) -> str:
    if not AXE.is_file():
        pytest.fail("node_modules has no axe-core; run: make test, or npm ci")
    return AXE.read_text(encoding="utf-8")


def violations(page, rules: dict, context: dict | None = None) -> list[str]:
    return page.evaluate(RUN, [context or {"include": [["html"]]}, rules]) if rules else []


def in_every_view(page) -> list[str]:
    """What axe finds light and dark, wide and narrow.

    All rules see the page light and wide. A width changes no color, and a theme nothing else: so
    narrow, colors are left out, and dark, all but colors. But what is shown in one view only, or
    has other colors at another width, is seen there by itself.
    """
    found = []

    def look(theme: str, width: int, rules: dict) -> None:
        page.set_viewport_size({"width": width, "height": 900})
        page.emulate_media(color_scheme=theme)
        page.wait_for_function(
            "(theme) => document.documentElement.dataset.theme === theme", arg=theme
        )
        page.wait_for_function(REACHED)
        page.evaluate(LOOK, f"{theme} {width}")
        found.extend(f"{theme} {width}: {line}" for line in violations(page, rules))

    def look_at_others(now: str, before: str, hidden: bool, rules: dict) -> None:
        if page.evaluate(MARK, [now, before, hidden]):
            others = violations(page, rules, {"include": [["[data-other]"]]})
            found.extend(f"{now}: {line}" for line in others)

    wide, narrow = WIDTHS
    look("light", wide, ALL)
    look("light", narrow, ALL_BUT_COLORS)
    look_at_others(f"light {narrow}", f"light {wide}", False, COLORS)
    look("dark", wide, COLORS)
    look_at_others(f"dark {wide}", f"light {wide}", True, ALL)
    look("dark", narrow, NONE)
    look_at_others(f"dark {narrow}", f"dark {wide}", False, COLORS)
    look_at_others(f"dark {narrow}", f"light {narrow}", True, ALL)
    return found


@pytest.fixture(scope="module", params=each(PAGES))
def in_a_file(request, visit_once):
    """A page opened without a server, with what there is to see in it unfolded: (page, watch)."""
    page, watch = visit_once(request.param, "file")
    watch.until_quiet(page)
    complaints = watch.complaints
    page.evaluate(UNFOLD)
    yield page, complaints
    page.context.close()


def test_a_page_in_a_file_asks_nobody_else(in_a_file):
    _, complaints = in_a_file
    assert complaints == {}


def test_axe_finds_nothing(in_a_file, axe):
    page, _ = in_a_file
    page.evaluate(ONCE)
    page.evaluate(axe)
    logo = "region (All page content should be contained by landmarks): .title undefined"
    found = in_every_view(page)
    assert [line for line in found if not (OLD_THEME and line.endswith(logo))] == []


@pytest.mark.parametrize("name", PAGES)
def test_headings_go_down_one_at_a_time(book, name):
    levels = [int(h.name[1]) for h in parsed(name).select("main :is(h1, h2, h3, h4, h5, h6)")]
    assert levels and levels[0] == 1
    assert [pair for pair in pairwise(levels) if pair[1] > pair[0] + 1] == []


@pytest.mark.skipif(OLD_THEME, reason="this theme looks for code that scrolls only once")
def test_the_keyboard_reaches_code_in_an_opened_solution(visit):
    page, _ = visit("chapters/01_soft_lookup.html", figures="#none")
    page.add_style_tag(content=":root { font-size: 250% }")  # code scrolls, whatever the font
    page.evaluate(UNFOLD)
    page.wait_for_function(REACHED)
    scrolling = page.evaluate(
        """[...document.querySelectorAll("article pre")]
            .filter((code) => code.checkVisibility() && code.scrollWidth > code.clientWidth)
            .map((code) => [code.closest(".solution") !== null, code.tabIndex])"""
    )
    assert any(inside for inside, _ in scrolling)
    assert {stop for _, stop in scrolling} == {0}


@pytest.mark.parametrize("name", ["index.html", "chapters/01_soft_lookup.html"])
def test_the_keyboard_reaches_the_text_first(visit, name):
    """The first Tab offers to skip what is around the text, and Enter does."""
    page, _ = visit(name)
    page.keyboard.press("Tab")
    first = page.evaluate_handle("document.activeElement")
    assert first.evaluate("(link) => link.getAttribute('href')") == "#main-content"
    assert first.as_element().is_visible()
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    inside = "document.querySelector('#main-content').contains(document.activeElement)"
    assert page.evaluate(inside)
