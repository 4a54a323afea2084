"""PairedBootstrap: its draws are those of chapter 15, all of them."""

from itertools import product

import numpy as np
import pytest
from figure_page import PUBLISHED, SETTLE, status
from traitlets import TraitError

from transformer_lib.figures.widgets import PairedBootstrap
from transformer_lib.results import load_result

CALL = """const all = m.times(m.stepOf(given.table, given.paired), given.n);
return { ...all, interval: m.interval(all) };"""


@pytest.fixture(scope="module")
def answers():
    rows = load_result("number-words-seeds")["right"]["200"]
    return {name: [int(digit) for digit in row] for name, row in zip("ABC", rows, strict=True)}


def test_the_numbers_it_comes_with_are_the_record(answers):
    figure, plain = PairedBootstrap.from_answers(answers), PairedBootstrap()
    assert figure.pairs == plain.pairs
    assert figure.counts == plain.counts


@pytest.mark.parametrize("paired", [True, False])
@pytest.mark.parametrize("n", [100, 1000, 10_000])
@pytest.mark.parametrize("pair", [0, 2])
def test_page_and_library_draw_alike(js, pair, n, paired):
    figure = PairedBootstrap(pair=pair, questions=n, paired=paired)
    page = js("paired_bootstrap.js", CALL, table=figure.counts[pair], paired=paired, n=n)
    differences, shares = figure.draws()
    assert 100 * page["low"] / n == pytest.approx(differences[0])
    assert page["shares"] == pytest.approx(shares.tolist(), abs=1e-12)
    assert [100 * d / n for d in page["interval"]] == pytest.approx(figure.interval())


def test_all_draws_of_six_questions(js):
    """The smallest case of chapter 15: six throws of a die have 46,656 results."""
    ours, theirs = np.array([1, 1, 0, 1, 1, 0]), np.array([1, 0, 0, 1, 0, 1])
    (table,) = PairedBootstrap.from_answers({"ours": ours, "theirs": theirs}).counts
    assert table == [2, 2, 1, 1]
    page = js("paired_bootstrap.js", CALL, table=table, paired=True, n=6)
    sums = (ours - theirs)[np.array(list(product(range(6), repeat=6)))].sum(axis=1)
    for i, share in enumerate(page["shares"]):
        assert share == pytest.approx((sums == page["low"] + i).mean())


@pytest.mark.parametrize("paired", [True, False])
def test_a_thousand_draws_by_chance_come_near(answers, paired):
    random = np.random.default_rng(0)
    ours, theirs = np.array(answers["B"]), np.array(answers["C"])
    n = len(ours)
    drawn = random.integers(n, size=(20_000, n))
    other = drawn if paired else random.integers(n, size=(20_000, n))
    found = 100 * (ours[drawn].mean(axis=1) - theirs[other].mean(axis=1))
    figure = PairedBootstrap.from_answers(answers, pair=2, paired=paired)
    differences, shares = figure.draws()
    assert figure.ahead() == pytest.approx(-1.6)
    assert (differences * shares).sum() == pytest.approx(found.mean(), abs=0.03)
    assert np.sqrt((differences**2 * shares).sum() - 1.6**2) == pytest.approx(found.std(), rel=0.03)
    assert figure.interval() == pytest.approx(np.quantile(found, [0.025, 0.975]), abs=0.15)


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ({"counts": [[1, 2, 3, 4]]}, ValueError, "must have the same length; got pairs: 3"),
        ({"pairs": [["A"]]}, ValueError, r"pairs\[0\] must be two names; got \['A'\]"),
        ({"pairs": []}, ValueError, "pairs must be 1 to 6; got 0"),
        ({"pairs": [["A", 3]]}, ValueError, r"pairs\[0\] must be two names"),
        ({"counts": [[1, 2, 3]]}, ValueError, r"counts\[0\] must be four whole numbers"),
        ({"counts": [[1, 2, 3, 4.5]]}, ValueError, r"counts\[0\] must be four whole numbers"),
        ({"counts": [[0, 0, 0, 0]]}, ValueError, r"counts\[0\] must add up to 1 to 10000; got 0"),
        ({"counts": [[1, 2, -3, 4]]}, ValueError, r"counts\[0\]\[2\] must be from 0 to 10000"),
        ({"pair": 3}, ValueError, "pair must be below 3; got 3"),
        ({"questions": 50}, ValueError, "questions must be from 100 to 10000"),
    ],
)
def test_what_cannot_be_drawn_is_refused(given, error, message):
    with pytest.raises((error, TraitError), match=message):
        PairedBootstrap(**given)


@pytest.mark.parametrize(
    ("answers", "message"),
    [
        ({"A": [1, 0]}, "answers must be of 2 to 4 models; got 1"),
        ({"A": [1, 0], "B": [1]}, "answers must be to the same questions; got lengths"),
        ({"A": [1, 0], "B": [1, 2]}, r"answers\['B'\] must be 0 or 1; got \[1, 2\]"),
    ],
)
def test_answers_that_fit_no_test_are_refused(answers, message):
    with pytest.raises(ValueError, match=message):
        PairedBootstrap.from_answers(answers)


@pytest.mark.slow
def test_it_answers_to_mouse_keys_and_finger(show):
    page = show(PairedBootstrap(), viewport={"width": 390, "height": 900}, has_touch=True)
    assert status(page) == (
        "A is ahead by 1.0 points. Of all draws of 1,000 questions, the same for both, "
        "95\u00a0% lie from −0.3 to +2.3, and 8\u00a0% do not have it ahead. "
        "Zero lies inside: other questions may say otherwise."
    )
    page.locator("label", has_text="B and C").click()
    assert status(page).startswith("C is ahead by 1.6 points.")
    assert status(page).endswith("Zero lies outside.")

    page.locator("label", has_text="both models get the same draw").tap()
    assert "one for each" in status(page)
    assert page.evaluate("models[0].get('paired')") is False

    questions = page.get_by_role("slider")
    questions.focus()
    page.keyboard.press("ArrowLeft")
    page.evaluate(SETTLE)
    assert page.evaluate("models[0].get('questions')") == 890
    for _ in range(30):
        questions.press("ArrowLeft")
    assert questions.get_attribute("aria-valuetext") == "100"
    assert status(page).endswith("Zero lies inside: other questions may say otherwise.")

    page.get_by_role("button", name="Reset").tap()
    assert status(page).startswith("A is ahead by 1.0 points. Of all draws of 1,000")


@pytest.mark.slow
def test_the_drawn_bars_are_the_shares(show):
    """The areas of both colours: what has the sign of the whole test, and what has not."""
    figure = PairedBootstrap()
    page = show(figure)
    areas = page.evaluate(
        """[".pb-kept", ".pb-turned"].map((kind) => [...document.querySelector(kind)
          .getAttribute("d").matchAll(/M([-\\d.]+) (\\d+)V([\\d.]+)H([-\\d.]+)V/g)]
          .reduce((all, [, x, low, high, to]) => all + (low - high) * (to - x), 0))"""
    )
    differences, shares = figure.draws()
    assert areas[1] / sum(areas) == pytest.approx(shares[differences <= 0].sum(), abs=0.01)


@pytest.mark.slow
def test_an_address_without_sense_does_no_harm(show):
    address = "#PairedBootstrap=pair:1;questions:333.3;paired:false"
    page = show(PairedBootstrap(), attributes=PUBLISHED, fragment=address)
    assert status(page).startswith("C is ahead by 0.6 points. Of all draws of 333 questions")
    address = "#PairedBootstrap=pair:5;questions:x"
    page = show(PairedBootstrap(), attributes=PUBLISHED, fragment=address)
    assert status(page).startswith("C is ahead by 1.6 points. Of all draws of 1,000 questions")
