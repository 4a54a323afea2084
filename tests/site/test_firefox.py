"""The site in Firefox: a page of each kind, each kind of live figure, and a reader's way through.

Chromium has the whole of the tests; here is what another browser could do otherwise. Debian has
Firefox as firefox-esr; where there is none, nothing of this runs.
"""

from __future__ import annotations

import pytest
from firefox import find_firefox, running
from pages import PICTURE, SAMPLE, gallery

FIRST = "chapters/01_soft_lookup.html"
PHONE, DESK = (390, 844), (1280, 900)
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def firefox(book):
    executable = find_firefox()
    if executable is None:
        pytest.skip("no Firefox: FIREFOX_PATH, firefox-esr, firefox")
    with running(executable) as browser:
        yield browser


AWAKE = """(model) => {
  const host = document.querySelector(`[data-model="${model}"]`);
  host.scrollIntoView({ block: "center" });
  return host.querySelector("[role=group][aria-label] [aria-live]");
}"""
SHOWN = f"""async (model) => {{
  const figure = document.querySelector(`[data-model="${{model}}"] [role=group]`);
  await new Promise((r) => requestAnimationFrame(() => setTimeout(r, 30)));
  return [figure.querySelector("[aria-live]").innerText, ({PICTURE})(figure)];
}}"""
# Focuses a control, and returns its kind; null where there is none of that number left.
FOCUS = """(model, number) => {
  const controls = document.querySelectorAll(`[data-model="${model}"] [role=group] :is(
    input:enabled:not([type=text]), select:enabled, [role=slider], [role=gridcell][tabindex='0'])`);
  const control = [...controls].filter((e) => e.checkVisibility())[number];
  control?.scrollIntoView({ block: "center" });
  control?.focus();
  return control ? control.getAttribute("role") ?? control.type : null;
}"""
RESET = """(model) => [...document.querySelectorAll(`[data-model="${model}"] button`)]
  .find((button) => button.textContent.trim() === "Reset").click()"""
PLACE = """(selector) => {
  const part = document.querySelector(selector);
  part.scrollIntoView({ block: "center" });
  const box = part.getBoundingClientRect();
  return [box.x + box.width / 2, box.y + box.height / 2];
}"""


@pytest.mark.parametrize("name", sorted({*SAMPLE, *gallery()}))
def test_a_page_fits_a_phone_and_its_figures_answer_to_keys(firefox, bases, name):
    firefox.resize(*PHONE)
    firefox.open(bases["http"] + name)
    firefox.run("() => document.querySelectorAll('.deeper').forEach((e) => { e.open = true; })")
    assert firefox.run("() => document.documentElement.scrollWidth") <= PHONE[0]
    lost = """() => [...document.querySelectorAll("article .katex")]
      .filter((e) => e.checkVisibility() && !e.getBoundingClientRect().width).length"""
    assert firefox.run(lost) == 0
    models = "() => [...document.querySelectorAll('[data-model]')].map((e) => e.dataset.model)"
    for model in firefox.run(models):
        firefox.wait_for(AWAKE, model)
        before, moved, number = firefox.run(SHOWN, model), False, 0
        while not moved and (kind := firefox.run(FOCUS, model, number)):
            for key in {"checkbox": [" "], "gridcell": [" "]}.get(kind, ["Right", "Left"]):
                firefox.keys(key)
                moved = moved or firefox.run(SHOWN, model) != before
            number += 1
        assert moved, model
        firefox.run(RESET, model)
        assert firefox.run(SHOWN, model) == before, model
    assert firefox.errors == []


@pytest.mark.parametrize("scheme", ["http", "file"])
def test_a_reader_s_way(firefox, bases, scheme):
    """Drags a handle, answers a question, opens a box, changes the theme, searches."""
    firefox.resize(*DESK)
    firefox.open(bases[scheme] + FIRST)
    firefox.wait_for(AWAKE, "SoftLookup-1")
    was = firefox.run(SHOWN, "SoftLookup-1")
    x, y = firefox.run(PLACE, '[data-model="SoftLookup-1"] [role=slider]:not(input)')
    firefox.mouse((x, y), (x - 20, y + 10), (x - 60, y + 30))
    assert firefox.run(SHOWN, "SoftLookup-1") != was

    form = "#predict-01-break-it-predict form"
    told = f"""() => document.querySelector("{form} .predict-told")
      .checkVisibility({{ visibilityProperty: true }})"""
    assert not firefox.run(told)
    firefox.mouse(firefox.run(PLACE, f"{form} .predict-right"))
    firefox.mouse(firefox.run(PLACE, f"{form} button"))
    firefox.wait_for(told)
    firefox.open(bases[scheme] + FIRST)
    assert firefox.run(told)
    firefox.run("() => localStorage.clear()")

    box = "() => document.querySelector('article details.admonition').open"
    firefox.mouse(firefox.run(PLACE, "article details.admonition > summary"))
    assert firefox.run(box)

    firefox.wait_for("() => document.documentElement.dataset.theme")
    paper = "() => getComputedStyle(document.body).backgroundColor"
    switch = "() => document.querySelector('.theme-switch-button').click()"
    seen = set()
    for _ in range(3):
        seen.add(firefox.run(paper))
        firefox.run(switch)
    assert len(seen) == 2

    firefox.keys("Control", "k")
    firefox.wait_for("() => document.activeElement.name === 'q'")
    for letter in "softmax":
        firefox.keys(letter)
    firefox.keys("Enter")
    firefox.wait_for("() => /search.html\\?q=softmax/.test(location) && document.body")
    firefox.wait_for("() => document.querySelector('#search-results a[href*=\"#term-softmax\"]')")
    assert firefox.errors == []
