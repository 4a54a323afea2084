"""LiveTraining: its sentences, and its runs."""

import pytest
from figure_page import ENGINE, SETTLE, button, choose, status, unfold

from transformer_lib.figures.widgets import LiveTraining, live_training

SECONDS = 1000


def runs(*pairs):
    return [{"loss": loss, "exact": exact} for loss, exact in pairs]


RUNNING = {"phase": "running", "step": 100, "runs": runs((0.24, 0.92), (0.01, 0))}
BLIND = {"phase": "done", "step": 300, "runs": runs((0.02, 0.99), (0.01, 0))}
LOST = {"phase": "done", "step": 300, "runs": runs((0.02, 0.99), (1.7, 0))}
SAME = {"phase": "done", "step": 300, "runs": runs((0.02, 0.98), (0.03, 0.9))}
WORSE = {"phase": "done", "step": 300, "runs": runs((0.02, 0.98), (0.3, 0.7))}
NEITHER = {"phase": "done", "step": 300, "runs": runs((1.9, 0.1), (2, 0))}
ALONE = {"phase": "done", "step": 300, "runs": runs((0.02, 0.99))}
SAID = [
    ({}, None, "Nothing is running yet. Start trains two models to reverse words, for 300 steps."),
    ({"guess": "none"}, None, "Your guess: not at all. Nothing is"),
    ({"causal": True, "task": "copy"}, None, "one model to copy words"),
    ({}, RUNNING, "At step 100 the first run gets 92 of 100 right, the second 0."),
    ({}, RUNNING | {"phase": "paused"}, "Paused. At step 100"),
    ({}, {"phase": "paused"}, "Paused: two runs with the same initial"),
    ({}, {"phase": "failed"}, "can’t train anything"),
    ({"guess": "same"}, BLIND, "“low loss, nothing right”. You guessed “as well”. In training"),
    ({"guess": "blind"}, BLIND, "You guessed it. In training"),
    ({}, BLIND, "The answer: “low loss, nothing right”. In"),
    ({}, SAME, "“as well”"),
    ({}, WORSE, "“less well”"),
    ({"question": "scale"}, LOST, "“not at all”. With heads of width 32"),
    # with two changes there is no single reason
    ({"question": "scale", "warmup": False}, LOST, "“not at all”.$"),
    ({}, NEITHER, "The first run hasn’t learned the task yet"),
    ({"causal": True}, ALONE, "99 of 100 right.$"),
]


def test_it_says_what_is_true(js):
    for changes, news, said in SAID:
        page = js(LiveTraining(**changes), "return m.sentence(given, given.news);", news=news)
        assert said in f"{page}$", (changes, news)


@pytest.mark.parametrize("question", list(live_training.QUESTIONS)[1:])
def test_a_question_changes_one_thing(js, question):
    figure = LiveTraining(question=question)
    assert len(js(ENGINE, "return m.changes(given);", **figure.get_state())) == 1


# ---- in the page


# Delays each call, since a run of 300 steps would be over before it could be paused.
SLOW_WORKER = """() => {
  const send = Worker.prototype.postMessage;
  Worker.prototype.postMessage = function (call) { setTimeout(() => send.call(this, call), 500); };
}"""


@pytest.mark.slow
def test_nothing_runs_until_the_reader_starts_it_and_reset_ends_it(show):
    page = show(LiveTraining())
    unfold(page)
    assert page.workers == []
    for end in (lambda: button(page, "Reset").click(), lambda: page.evaluate("models[0].leave()")):
        button(page, "Step").click()
        page.locator(".lf-status", has_text="Paused. At step 1 the first run gets").wait_for()
        assert len(page.workers) == 1
        assert page.locator(".lt-written").first.inner_text().startswith("abcdefgh → ")
        with page.workers[0].expect_event("close"):
            end()
        assert page.workers == []


@pytest.mark.slow
def test_it_is_started_paused_and_looked_into(show):
    page = show(LiveTraining(question="mask"))
    page.evaluate(SLOW_WORKER)
    button(page, "Start").press("Enter")
    assert status(page).startswith("Started: two runs")
    page.wait_for_function("document.querySelector('.lt-line').points.numberOfItems > 0")
    button(page, "Pause").press("Space")
    button(page, "Go on").wait_for()
    unfold(page)
    page.get_by_role("textbox", name="your example").fill("Bad?")
    assert status(page) == "Your example can only be up to 8 letters from a to j."
    # What it writes, without "?", comes after the step in progress.
    page.wait_for_function("""() => {
      const said = document.querySelector(".lt-written").textContent;
      return said.startsWith("bad →") && !said.endsWith("?");
    }""")
    # the example's letters on one side, the answer's on the other
    shapes = "[...document.querySelectorAll('.lt-map canvas')].map((e) => [e.width, e.height])"
    assert page.evaluate(shapes)[0] == [4, 4]  # decoder: ^dab by dab$
    choose(page, "decoder to encoder")
    page.evaluate(SETTLE)
    assert page.evaluate(shapes)[0] == [3, 4]
    # the sentence and both runs tell of the same step
    page.locator(".lf-status", has_text="Paused. At step").wait_for()
    step = status(page).split()[3]
    assert page.locator(".lt-run", has_text=f"step {step}:").count() == 2
    # a switch keeps the runs until the reader starts anew
    page.get_by_role("checkbox", name="causal mask").check()
    assert status(page).startswith("These runs keep their own settings.")
    assert page.locator(".lt-run", has_text=f"step {step}:").count() == 2
    button(page, "Start anew").click()
    assert status(page) == "Started: one run."


@pytest.mark.slow
def test_a_whole_run_ends_in_a_verdict(show):
    page = show(LiveTraining(question="mask"), reduced_motion="reduce")
    choose(page, "less well")
    button(page, "Start").click()
    button(page, "Go on").wait_for(timeout=300 * SECONDS)
    said = status(page)
    assert said.startswith("At step 300 the first run gets ")
    assert "The answer: “low loss, nothing right”. You guessed “less well”." in said
    points = "[...document.querySelectorAll('.lt-line')].map((line) => line.points.numberOfItems)"
    assert page.evaluate(points) == [300, 300, 6, 6]
    assert page.locator(".lt-written").first.inner_text() == "abcdefgh → hgfedcba"
    assert page.locator(".lt-run").nth(0).locator("[data-wrong]").count() == 0


@pytest.mark.slow
def test_a_page_without_workers_says_so(show):
    page = show(LiveTraining())
    page.evaluate("() => { window.Worker = class { constructor() { throw new Error('no'); } }; }")
    button(page, "Start").click()
    page.locator(".lf-status", has_text="can’t train anything").wait_for()
