"""PairedBootstrap: its distribution is that of all draws in chapter 15."""

from itertools import product

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


def in_points(page, n):
    """The differences in points, the share of each, and the interval."""
    differences = 100 * (page["low"] + np.arange(len(page["shares"]))) / n
    return differences, np.array(page["shares"]), [100 * d / n for d in page["interval"]]


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


def test_all_draws_of_six_questions(js):
    """The smallest case of chapter 15: six draws of six questions have 46,656 results."""
    ours, theirs = np.array([1, 1, 0, 1, 1, 0]), np.array([1, 0, 0, 1, 0, 1])
    (table,) = PairedBootstrap.from_answers({"ours": ours, "theirs": theirs}).counts
    assert table == [2, 2, 1, 1]
    page = js("paired_bootstrap.js", CALL, table=table, paired=True, n=6)
    sums = (ours - theirs)[np.array(list(product(range(6), repeat=6)))].sum(axis=1)
    for i, share in enumerate(page["shares"]):
        assert share == pytest.approx((sums == page["low"] + i).mean())


@pytest.mark.parametrize("paired", [True, False])
def test_many_random_draws_have_about_this_distribution(js, answers, paired):
    random = np.random.default_rng(0)
    ours, theirs = np.array(answers["B"]), np.array(answers["C"])
    n = len(ours)
    drawn = random.integers(n, size=(20_000, n))
    other = drawn if paired else random.integers(n, size=(20_000, n))
    found = 100 * (ours[drawn].mean(axis=1) - theirs[other].mean(axis=1))
    table = PairedBootstrap.from_answers(answers).counts[2]
    page = js("paired_bootstrap.js", CALL, table=table, paired=paired, n=n)
    differences, shares, interval = in_points(page, n)
    assert (differences * shares).sum() == pytest.approx(found.mean(), abs=0.03)
    assert np.sqrt((differences**2 * shares).sum() - 1.6**2) == pytest.approx(found.std(), rel=0.03)
    assert interval == pytest.approx(np.quantile(found, [0.025, 0.975]), abs=0.15)


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
    all_draws = js("paired_bootstrap.js", CALL, table=figure.counts[0], paired=True, n=1000)
    differences, shares, _ = in_points(all_draws, 1000)
    assert areas[1] / sum(areas) == pytest.approx(shares[differences <= 0].sum(), abs=0.01)
