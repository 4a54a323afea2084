"""ScheduleExplorer: its schedules are the trainer's, and a recorded run stays where it is."""

import pytest
from figure_examples import ARGUMENTS
from figure_page import status, tell

from transformer_lib.figures.widgets import ScheduleExplorer
from transformer_lib.training.schedules import inverse_sqrt_schedule

MODULE = "schedule_explorer.js"
RUN = ARGUMENTS["ScheduleExplorer"]["run"]


@pytest.mark.parametrize("given", [{"d_model": 512}, {"peak": 0.005}])
def test_the_schedule_is_the_trainers(js, given):
    body = """const height = given.peak ? "peak" : "d_model";
    const top = m.peakOf({ height, warmup: 4000, ...given });
    return given.steps.map((step) => m.inverseSqrt(step, { warmup: 4000, top }));"""
    steps = [1, 2, 999, 3999, 4000, 4001, 16_000, 100_000]
    want = [inverse_sqrt_schedule(step, warmup=4000, **given) for step in steps]
    assert js(MODULE, body, steps=steps, **given) == pytest.approx(want, rel=1e-12)


def test_the_cosine_rises_and_falls_to_0(js):
    body = """const rise = { warmup: 1000, top: 3, last: 6000 };
    return [1, 500, 1000, 3500, 6000].map((step) => m.cosine(step, rise));"""
    assert js(MODULE, body) == pytest.approx([0.003, 1.5, 3, 1.5, 0], abs=1e-15)


def test_marks_of_a_recorded_run(js):
    """At most six round losses, each where it was first reached; the lowest first."""
    body = "return given.runs.map((run) => m.milestones(run));"
    short, long = [[1, 0.93], [2, 0.61], [3, 0.58]], [[0, 3.2], [10, 2.4], [20, 1.4]]
    nothing, marks, others = js(MODULE, body, runs=[[], long, short])
    assert nothing == []
    assert marks == [[20, 1.5], [20, 2], [10, 2.5], [10, 3]]
    assert dict(others[:2]) == pytest.approx({3: 0.6, 2: 0.7})


def test_loss_and_rate_of_a_recorded_run_at_a_step(js):
    run = [[10, 4.0, 0.1], [20, 2.0, 0.3], [40, 1.0, 0.2]]
    body = "return [5, 10, 15, 20, 30, 40, 41].map((s) => m.runAt(given.run, s, given.what));"
    assert js(MODULE, body, run=run, what="loss") == [None, 4, 3, 2, 1.5, 1, None]
    rates = js(MODULE, body, run=run, what="rate")
    assert rates[1:-1] == pytest.approx([0.1, 0.2, 0.3, 0.25, 0.2])
    assert rates[0] is rates[-1] is None


def test_axes_end_on_round_numbers(js):
    body = "return [0.00073, 0.001, 0.0011, 0.002, 0.0049, 3, 1000].map((x) => m.roundUp(x));"
    ends, parts = zip(*js(MODULE, body), strict=True)
    assert ends == pytest.approx((0.0008, 0.001, 0.0015, 0.002, 0.005, 3, 1000))
    assert parts == (4, 5, 3, 4, 5, 3, 5)


MARKS = """() => [...document.querySelectorAll(".se-mark")].map(
  (mark) => mark.parentNode.getAttribute("transform"))"""
LINES = """() => [".se-run", ".se-paper"].map(
  (name) => document.querySelector(`polyline${name}`).getAttribute("points"))"""


@pytest.mark.slow
def test_marks_are_on_the_runs_own_rates(show):
    page = show(ScheduleExplorer(run=RUN))
    marks, (run, paper) = page.evaluate(MARKS), page.evaluate(LINES)
    assert "at a rate of 0.0018" in status(page)  # a quarter of the way from step 900 to 1300
    tell(page, d_model=1024, warmup=9000)
    assert page.evaluate(MARKS) == marks
    after = page.evaluate(LINES)
    assert after[0] == run
    assert after[1] != paper
    assert len(set(marks)) > 3
    points = {f"translate({point.replace(',', ' ')})" for point in run.split()}
    assert set(marks) <= points  # each at a point of the run's own line
