"""ScheduleExplorer: a recorded run stays where it is, no matter what the reader changes."""

import pytest
from figure_examples import ARGUMENTS
from figure_page import SETTLE, status

from transformer_lib.figures.widgets import ScheduleExplorer

pytestmark = pytest.mark.slow

RUN = ARGUMENTS["ScheduleExplorer"]["run"]

MARKS = """() => [...document.querySelectorAll(".se-mark")].map(
  (mark) => mark.parentNode.getAttribute("transform"))"""
LINES = """() => [".se-run", ".se-paper"].map(
  (name) => document.querySelector(`polyline${name}`).getAttribute("points"))"""


def test_marks_are_on_the_runs_own_rates(show):
    page = show(ScheduleExplorer(run=RUN))
    page.evaluate(SETTLE)
    marks, (run, paper) = page.evaluate(MARKS), page.evaluate(LINES)
    page.evaluate("models[0].set('d_model', 1024); models[0].set('warmup', 9000)")
    page.evaluate(SETTLE)
    assert page.evaluate(MARKS) == marks
    after = page.evaluate(LINES)
    assert after[0] == run
    assert after[1] != paper
    assert len(set(marks)) > 3
    points = {tuple(float(x) for x in point.split(",")) for point in run.split()}
    for mark in marks:  # each at a point of the run's own line
        x, y = (float(x) for x in mark.removeprefix("translate(").rstrip(")").split())
        assert (x, y) in points
    assert "at a rate of 0.0018" in status(page)  # a quarter of the way from step 900 to 1300


def test_without_rates_the_marks_are_on_the_axis(show):
    page = show(ScheduleExplorer(run=[record[:2] for record in RUN]))
    page.evaluate(SETTLE)
    heights = {mark.split()[1] for mark in page.evaluate(MARKS)}
    axis = page.evaluate("document.querySelector('.se-cursor').getAttribute('y2')")
    assert {float(height.rstrip(")")) for height in heights} == {float(axis)}
    assert page.evaluate("document.querySelector('polyline.se-run').getAttribute('points')") == ""
    assert "rate of" not in status(page)
