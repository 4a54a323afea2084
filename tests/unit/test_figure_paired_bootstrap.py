"""PairedBootstrap: its distribution is that of all draws in chapter 15."""

import numpy as np
import pytest

from transformer_lib.figures.widgets import PairedBootstrap
from transformer_lib.results import load_result

CALL = """const all = m.times(m.stepOf(given.table, given.paired), given.n);
return { ...all, interval: m.interval(all) };"""


@pytest.fixture(scope="module")
def answers():
    rows = load_result("number-words-seeds")["right"]["200"]
    return {name: [int(digit) for digit in row] for name, row in zip("ABC", rows, strict=True)}


def test_its_default_numbers_are_the_record(answers):
    figure, plain = PairedBootstrap.from_answers(answers), PairedBootstrap()
    assert figure.pairs == plain.pairs
    assert figure.counts == plain.counts


@pytest.mark.parametrize("paired", [True, False])
@pytest.mark.parametrize("n", [100, 1000])
def test_the_distribution_is_that_of_a_sum_of_steps(js, n, paired):
    """The shares of a sum are the convolution of the shares of its parts."""
    both, first, second, _ = table = PairedBootstrap().counts[2]
    p, q = first / sum(table), second / sum(table)
    if not paired:
        one, other = (both + first) / sum(table), (both + second) / sum(table)
        p, q = one * (1 - other), other * (1 - one)
    want = np.ones(1)
    for _ in range(n):
        want = np.convolve(want, [q, 1 - p - q, p])
    page = js("paired_bootstrap.js", CALL, table=table, paired=paired, n=n)
    kept = slice(page["low"] + n, page["low"] + n + len(page["shares"]))
    assert page["shares"] == pytest.approx(want[kept].tolist(), abs=1e-10)  # rare sums are cut
    assert want[kept].sum() == pytest.approx(1)
    low, high = np.searchsorted(want.cumsum(), (0.025, 0.975)) - n
    assert page["interval"] == [low, high]


@pytest.mark.parametrize(
    ("answers", "message"),
    [
        ({"A": [1, 0]}, "answers must have 2 to 4 models; got 1"),
        ({"A": [1, 0], "B": [1]}, "answers must all be equally long; got lengths"),
        ({"A": [1, 0], "B": [1, 2]}, r"answers\['B'\] must be 0 or 1; got \[1, 2\]"),
    ],
)
def test_bad_answers_are_refused(answers, message):
    with pytest.raises(ValueError, match=message):
        PairedBootstrap.from_answers(answers)


@pytest.mark.slow
def test_the_drawn_bars_are_the_shares(js, show):
    """The areas of both colors: with the sign of the whole test's difference, and without it."""
    figure = PairedBootstrap()
    page = show(figure)
    areas = page.evaluate(
        """[".pb-kept", ".pb-turned"].map((kind) => [...document.querySelector(kind)
          .getAttribute("d").matchAll(/M([-\\d.]+) (\\d+)V([\\d.]+)H([-\\d.]+)V/g)]
          .reduce((all, [, x, low, high, to]) => all + (low - high) * (to - x), 0))"""
    )
    page = js("paired_bootstrap.js", CALL, table=figure.counts[0], paired=True, n=1000)
    turned = sum(page["shares"][: 1 - page["low"]])  # of differences up to 0
    assert areas[1] / sum(areas) == pytest.approx(turned, abs=0.01)
