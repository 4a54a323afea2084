"""LiveTraining: its sentences, and its runs."""

import pytest
from figure_page import ENGINE, SETTLE, status

from transformer_lib.figures.widgets import LiveTraining, base, live_training

SECONDS = 1000


@pytest.fixture
def module(tmp_path):
    """The module that a browser gets, including the engine."""
    path = tmp_path / "figure.mjs"
    path.write_text(LiveTraining()._esm, encoding="utf-8")
    return str(path)


def state(**changes):
    figure = LiveTraining(**changes)
    own = LiveTraining.class_traits().keys() - base.LiveFigure.class_traits().keys()
    return {name: getattr(figure, name) for name in own - {"question"}}


SAY = "return given.told.map((told) => m.sentence(given.state, told));"


def say(js, module, told, **changes):
    return js(module, SAY, state=state(**changes), told=[told])[0]


def runs(*pairs):
    return [{"loss": loss, "exact": exact} for loss, exact in pairs]


def test_it_says_what_is_true(js, module):
    assert say(js, module, None) == (
        "Nothing is running yet. Start trains two models to reverse words, for 300 steps."
    )
    assert say(js, module, None, guess="none").startswith("Your guess: not at all. Nothing is")
    assert "one model to copy words" in say(js, module, None, causal=True, task="copy")
    told = {"phase": "running", "step": 100, "runs": runs((0.24, 0.92), (0.01, 0))}
    assert say(js, module, told) == (
        "At step 100 the first run gets 92 of 100 right, the second 0."
    )
    assert say(js, module, told | {"phase": "paused"}).startswith("Paused. At step 100")
    assert say(js, module, {"phase": "paused"}).startswith("Paused: two runs with the same initial")
    assert "can’t train anything" in say(js, module, {"phase": "failed"})


def test_the_end_compares_the_guess_with_what_came_out(js, module):
    told = {"phase": "done", "step": 300, "runs": runs((0.02, 0.99), (0.01, 0))}
    end = say(js, module, told, guess="same")
    assert "The answer: “low loss, nothing right”. You guessed “as well”. In training" in end
    assert "You guessed it. In training" in say(js, module, told, guess="blind")
    assert "The answer: “low loss, nothing right”. In" in say(js, module, told)
    told = {"phase": "done", "step": 300, "runs": runs((0.02, 0.99), (1.7, 0))}
    assert "“not at all”. With heads of width 32" in say(js, module, told, question="scale")
    # with two changes there is no single reason
    assert say(js, module, told, question="scale", warmup=False).endswith("“not at all”.")
    told["runs"] = runs((1.9, 0.1), (2, 0))
    assert "The first run hasn’t learned the task yet" in say(js, module, told)
    told["runs"] = runs((0.02, 0.99))
    assert say(js, module, told, causal=True).endswith("99 of 100 right.")


@pytest.mark.parametrize("question", list(live_training.QUESTIONS)[1:])
def test_a_question_changes_one_thing(js, question):
    assert len(js(ENGINE, "return m.changes(given.state);", state=state(question=question))) == 1


def test_only_figures_that_ask_for_the_engine_include_it():
    assert LiveTraining()._esm.count("function engineSource()") == 1
    assert "engineSource" not in base.compose("soft_lookup.js")


# ---- in the page


def button(page, name):
    return page.get_by_role("button", name=name, exact=True)


# Delays each call, since a run of 300 steps would be over before it could be paused.
SLOW_WORKER = """() => {
  const send = Worker.prototype.postMessage;
  Worker.prototype.postMessage = function (call) { setTimeout(() => send.call(this, call), 500); };
}"""


@pytest.mark.slow
def test_nothing_runs_until_the_reader_starts_it_and_reset_ends_it(show):
    page = show(LiveTraining())
    page.locator(".lf-more summary").click()
    page.get_by_role("checkbox", name="residual").uncheck()
    assert page.workers == []
    button(page, "Step").click()
    page.locator(".lt-run", has_text="step 1:").nth(1).wait_for()
    assert len(page.workers) == 1
    assert page.locator(".lt-written").first.inner_text().startswith("abcdefgh → ")
    page.locator(".lf-status", has_text="Paused. At step 1 the first run gets").wait_for()
    with page.workers[0].expect_event("close"):
        button(page, "Reset").click()
    page.wait_for_function("!document.querySelector('figure').textContent.includes('step 1:')")
    assert page.workers == []
    assert status(page).startswith("Nothing is running yet")
    button(page, "Step").click()
    page.locator(".lt-run", has_text="step 1:").first.wait_for()
    with page.workers[0].expect_event("close"):
        page.evaluate("models[0].leave()")
    assert page.workers == []


@pytest.mark.slow
def test_it_is_started_paused_and_looked_into(show):
    page = show(LiveTraining(question="mask"), viewport={"width": 760, "height": 900})
    page.evaluate(SLOW_WORKER)
    button(page, "Start").press("Enter")
    assert status(page).startswith("Started: two runs")
    page.wait_for_function("document.querySelector('.lt-line').points.numberOfItems > 0")
    button(page, "Pause").press("Space")
    button(page, "Go on").wait_for()
    page.locator(".lf-more summary").click()
    example = page.get_by_role("textbox", name="your example")
    # What it writes, without "?", comes after the step in progress.
    written = """(text) => {
      const said = document.querySelector(".lt-written").textContent;
      return said.startsWith(text) && !said.endsWith("?");
    }"""
    example.fill("Bad?")
    assert status(page) == "Your example can only be up to 8 letters from a to j."
    page.wait_for_function(written, arg="bad →")
    first = page.locator(".lt-run").first.locator("span").first
    said = first.inner_text()
    example.fill("dab")
    page.wait_for_function(written, arg="dab →")
    assert first.inner_text() == said, "it should stay paused"
    assert status(page).startswith("Paused")
    # the example's letters on one side, the answer's on the other
    shapes = "[...document.querySelectorAll('.lt-map canvas')].map((e) => [e.width, e.height])"
    assert page.evaluate(shapes)[0] == [4, 4]  # decoder: ^dab by dab$
    page.get_by_role("radio", name="decoder to encoder").check()
    page.evaluate(SETTLE)
    assert page.evaluate(shapes)[0] == [3, 4]
    # the sentence and both runs tell of the same step
    step = status(page).split()[3]
    assert [
        text.split("\n")[2].split(":")[0] for text in page.locator(".lt-run").all_inner_texts()
    ] == [f"step {step}"] * 2
    # a switch keeps the runs until the reader starts anew
    switch = page.get_by_role("checkbox", name="causal mask")
    switch.check()
    assert status(page).startswith("These runs keep their own settings.")
    switch.uncheck()
    assert status(page).startswith(f"Paused. At step {step}")
    switch.check()
    assert page.locator(".lt-written").first.inner_text().startswith("dab →")
    button(page, "Start anew").click()
    assert status(page) == "Started: one run."


@pytest.mark.slow
def test_a_whole_run_ends_in_a_verdict(show):
    page = show(LiveTraining(question="mask"), reduced_motion="reduce")
    page.get_by_role("radio", name="less well").check()
    button(page, "Start").click()
    button(page, "Go on").wait_for(timeout=300 * SECONDS)
    said = status(page)
    assert said.startswith("At step 300 the first run gets ")
    assert "The answer: “low loss, nothing right”. You guessed “less well”." in said
    points = page.locator(".lt-line").evaluate_all(
        "(lines) => lines.map((line) => line.points.numberOfItems)"
    )
    assert points == [300, 300, 6, 6]
    assert page.locator(".lt-written").first.inner_text() == "abcdefgh → hgfedcba"
    assert page.locator(".lt-run").nth(0).locator("[data-wrong]").count() == 0


@pytest.mark.slow
def test_a_page_without_workers_says_so(show):
    page = show(LiveTraining())
    page.evaluate("() => { window.Worker = class { constructor() { throw new Error('no'); } }; }")
    button(page, "Start").click()
    page.evaluate(SETTLE)
    assert "can’t train anything" in status(page)
