"""The site in Firefox: figures, folds, search, themes and equations, served and as files.

Chromium has the whole of the tests; here is what another browser could do otherwise. Debian has
Firefox as firefox-esr; where there is none, nothing of this runs.
"""

from __future__ import annotations

import pytest
from firefox import find_firefox, running
from pages import PICTURE, chapters, gallery, live_figures

FIRST = "chapters/01_soft_lookup.html"
KINDS = [(page, model) for page, model in live_figures() if page in gallery()] or [("", "none")]
PHONE, DESK = (390, 844), (1280, 900)
SCHEMES = ("http", "file")
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def firefox(book):
    executable = find_firefox()
    if executable is None:
        pytest.skip("no Firefox: FIREFOX_PATH, firefox-esr, firefox")
    with running(executable) as browser:
        yield browser


@pytest.fixture
def visit(firefox, bases):
    """visit(page, scheme, size) -> the browser, which has the page open; no page may complain.

    Where a page may be as it was left, and is still there, it is not opened again.
    """

    def open_page(page: str, scheme: str = "http", size: tuple[int, int] = DESK, anew: bool = True):
        firefox.resize(*size)
        if anew or firefox.run("() => location.href.split('#')[0]") != bases[scheme] + page:
            firefox.open(bases[scheme] + page)
        return firefox

    yield open_page
    assert firefox.errors == []


AWAKE = """(model) => {
  const host = document.querySelector(`[data-model="${model}"]`);
  host.scrollIntoView({ block: "center" });
  return host.querySelector("[role=group][aria-label] [aria-live]");
}"""
CONTROLS = """[...figure.querySelectorAll(
    `input:enabled:not([type=text]), button:enabled, select:enabled, [role=slider],
     [role=gridcell][tabindex='0']`
  )].filter((e) => e.getBoundingClientRect().width > 0 && e.textContent.trim() !== "Reset")"""
SHOWN = f"""async (model) => {{
  const figure = document.querySelector(`[data-model="${{model}}"] [role=group]`);
  await new Promise((r) => requestAnimationFrame(() => setTimeout(r, 30)));
  return [figure.querySelector("[aria-live]").innerText, ({PICTURE})(figure)];
}}"""


@pytest.mark.parametrize(("page_of_it", "model"), KINDS)
def test_a_figure_answers_to_keys(visit, page_of_it, model):
    """Each control by the key that moves it; Reset takes back what they did together."""
    page = visit(page_of_it, anew=False)
    page.wait_for(AWAKE, model)
    before, moved = page.run(SHOWN, model), []
    figure = f"""const figure = document.querySelector(`[data-model="{model}"] [role=group]`);
      const controls = {CONTROLS};"""
    count = page.run(f"() => {{ {figure} return controls.length; }}")
    assert count
    for number in range(count):
        kind = page.run(
            f"""(number) => {{
              {figure}
              const control = controls[number];
              if (!control) return null;          // another control has taken it away
              control.scrollIntoView({{ block: "center" }});
              control.focus();
              return control.getAttribute("role") ?? control.type;
            }}""",
            number,
        )
        if kind is not None:
            was = page.run(SHOWN, model)
            keys = {"button": ["Enter"], "checkbox": [" "], "gridcell": [" "]}
            for key in keys.get(kind, ["Right", "Left"]):
                page.keys(key)
                moved.append(page.run(SHOWN, model) != was)
    assert any(moved)
    reset = """(model) => [...document.querySelectorAll(`[data-model="${model}"] button`)]
      .find((button) => button.textContent.trim() === "Reset").click()"""
    page.run(reset, model)
    assert page.run(SHOWN, model) == before


def test_a_handle_is_dragged_with_the_mouse(visit):
    page = visit(FIRST)
    page.wait_for(AWAKE, "SoftLookup-1")
    was = page.run(SHOWN, "SoftLookup-1")
    x, y, right = page.run(
        """() => {
          const figure = document.querySelector('[data-model="SoftLookup-1"]');
          const handle = figure.querySelector("[role=slider]:not(input)");
          const box = handle.getBoundingClientRect();
          const frame = handle.closest("svg").getBoundingClientRect();
          const x = box.x + box.width / 2;
          return [x, box.y + box.height / 2, x < frame.x + frame.width / 2 ? 1 : -1];
        }"""
    )
    page.mouse((x, y), (x + right * 20, y), (x + right * 60, y))
    assert page.run(SHOWN, "SoftLookup-1") != was


@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_click_on_a_title_opens_its_own_box(visit, scheme):
    page = visit("chapters/02_scaled_dot_product.html", scheme, PHONE)
    boxes = "[...document.querySelectorAll('article details.admonition')]"
    page.run("() => document.querySelectorAll('.deeper').forEach((e) => { e.open = true; })")
    count = page.run(f"() => {boxes}.length")
    assert count > 3
    for number in (0, count - 1):
        for share in (0.05, 0.5, 0.95):
            place = page.run(
                f"""(number, share) => {{
                  const title = {boxes}[number].querySelector("summary");
                  title.scrollIntoView({{ block: "center" }});
                  const box = title.getBoundingClientRect();
                  return [box.x + share * box.width, box.y + box.height / 2];
                }}""",
                number,
                share,
            )
            page.mouse(place)
            assert page.run(f"() => {boxes}.map((box) => box.open).indexOf(true)") == number
            page.mouse(place)
            assert not page.run(f"() => {boxes}.some((box) => box.open)")


@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_question_tells_after_the_answer_and_keeps_it(visit, scheme):
    page = visit(FIRST, scheme)
    form = "document.querySelector('#predict-01-break-it-predict form')"
    place = f"""(of) => {{
      const part = {form}.querySelector(of);
      part.scrollIntoView({{ block: "center" }});
      const box = part.getBoundingClientRect();
      return [box.x + box.width / 2, box.y + box.height / 2];
    }}"""
    told = f"""() => [...{form}.querySelectorAll(".predict-reason, .predict-told, [type=submit]")]
      .map((part) => part.checkVisibility({{ visibilityProperty: true }}))"""
    assert page.run(told) == [False] * 3 + [True, False]
    page.mouse(page.run(place, ".predict-right"))
    page.mouse(page.run(place, "button"))
    page.wait_for(f"() => {form}.dataset.told === 'yes'")
    assert page.run(told) == [True] * 3 + [False, True]
    visit(FIRST, scheme)
    assert page.run(told) == [True] * 3 + [False, True]
    visit("chapters/predictions.html", scheme)
    assert page.run("() => document.querySelectorAll('.predict-kept').length") == 1
    page.run("() => document.querySelector('.your-predictions button:last-child').click()")
    assert page.run("() => document.querySelectorAll('.predict-kept').length") == 0


@pytest.mark.parametrize("scheme", SCHEMES)
def test_search_finds_a_term(visit, scheme):
    page = visit(FIRST, scheme)
    page.wait_for("() => document.documentElement.dataset.theme")
    page.keys("Control", "k")
    page.wait_for("() => document.activeElement.name === 'q'")
    for letter in "softmax":
        page.keys(letter)
    page.keys("Enter")
    page.wait_for("() => /search.html\\?q=softmax/.test(location) && document.body")
    page.wait_for("() => document.querySelector('#search-results a[href*=\"#term-softmax\"]')")


@pytest.mark.parametrize("scheme", SCHEMES)
def test_the_theme_changes_all_of_the_page(visit, scheme):
    page = visit(FIRST, scheme)
    page.wait_for(AWAKE, "SoftLookup-1")
    seen = {}
    for _ in range(3):
        theme, paper, figure = page.run(
            """() => {
              const color = (e) => getComputedStyle(e).getPropertyValue("color");
              const figure = document.querySelector("[data-model] [role=group]");
              return [document.documentElement.dataset.theme,
                      getComputedStyle(document.body).backgroundColor, color(figure)];
            }"""
        )
        seen[theme] = (paper, figure)
        page.run("() => document.querySelector('.theme-switch-button').click()")
    assert set(seen) == {"light", "dark"}
    assert all(light != dark for light, dark in zip(*seen.values(), strict=True))


@pytest.mark.parametrize("chapter", chapters())
def test_a_phone_shows_the_whole_width(visit, chapter):
    page = visit(chapter, size=PHONE)
    assert page.run("() => document.documentElement.scrollWidth") <= PHONE[0]
    sizes = """() => [...document.querySelectorAll("article .katex")]
      .filter((e) => e.checkVisibility() && !e.getBoundingClientRect().width).length"""
    assert page.run(sizes) == 0


@pytest.mark.parametrize("scheme", SCHEMES)
def test_the_translator_is_loaded_and_translates(visit, scheme):
    page = visit("chapters/translator.html", scheme, PHONE)
    page.wait_for(AWAKE, "LiveTranslator-1")
    button = "[...document.querySelectorAll('figure button')].find((e) => e.innerText === "
    page.run("""() => {
      const field = document.querySelector("figure .tr-text");
      field.value = "four";
      field.dispatchEvent(new Event("input", { bubbles: true }));
    }""")
    page.run(f"() => {button}'Load the translator (0.96 MB)').click()")
    says = "(text) => document.querySelector('figure [aria-live]').innerText.includes(text)"
    page.wait_for(says, "It writes “vierzig”.")
    radios = "[...document.querySelectorAll('figure label')]"
    page.run(f"() => {radios}.find((e) => e.textContent === 'beam of 4').click()")
    page.wait_for(says, "It writes “vier”. That’s right.")
