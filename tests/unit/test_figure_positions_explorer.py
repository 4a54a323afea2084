"""PositionsExplorer: its waves and turns are the library's; pairs move, but distances stay."""

from itertools import pairwise

import numpy as np
import pytest
import torch
from figure_page import status

from transformer_lib.figures.widgets import PositionsExplorer
from transformer_lib.positions import RotaryPositions, SinusoidalPositions

MODULE = "positions_explorer.js"

# ---- arithmetic


@pytest.mark.parametrize("d", [2, 6, 64, 254])
def test_addresses_are_the_librarys(js, d):
    body = "return given.at.map((pos) => m.address(pos, m.turnsOf(given.d)));"
    at = [0, 1, 7, 100, 127]
    table = SinusoidalPositions(d_model=d, max_len=128).table[at]
    np.testing.assert_allclose(js(MODULE, body, at=at, d=d), table, rtol=0, atol=1e-6)


def test_the_papers_first_rows(js):
    # by hand, with base 10000; base 100 would give 0.0998 and 0.9950 in the second pair
    rows = js(MODULE, "return [1, 3].map((pos) => m.address(pos, m.turnsOf(4)));")
    want = [[0.8415, 0.5403, 0.0100, 0.99995], [0.1411, -0.9900, 0.0300, 0.99955]]
    np.testing.assert_allclose(rows, want, atol=5e-5)


@pytest.mark.parametrize("d", [2, 6, 64])
def test_turns_are_the_librarys(js, d):
    vector = torch.linspace(-1, 2, d)
    rotary = RotaryPositions(d_head=d, max_len=128)
    at = [0, 1, 7, 100, 127]
    body = "return given.at.map((pos) => m.rotate(given.vector, pos, m.turnsOf(given.d)));"
    page = js(MODULE, body, at=at, d=d, vector=vector.tolist())
    want = rotary(vector.expand(1, 1, 128, d))[0, 0, at]
    torch.testing.assert_close(torch.tensor(page), want, rtol=0, atol=2e-6)


@pytest.mark.parametrize("view", ["waves", "rotary"])
@pytest.mark.parametrize(("d", "length"), [(2, 11), (64, 64), (256, 128)])
def test_dot_products_depend_only_on_the_distance(js, view, d, length):
    """In rotary's view, of a query and a key with an arrow of length 1 in each pair."""
    body = "return [m.content(given.d), m.dots(given.view, given.d, given.n)];"
    vectors, page = js(MODULE, body, view=view, d=d, n=length)
    vectors = torch.tensor(vectors, dtype=torch.float32)
    np.testing.assert_allclose(vectors.unflatten(1, (2, -1)).square().sum(1), 1, atol=1e-6)
    if view == "rotary":
        rotary = RotaryPositions(d_head=d, max_len=length)
        first, second = rotary(vectors[None, :, None].expand(1, 2, length, -1))[0]
    else:
        first = second = SinusoidalPositions(d_model=d, max_len=length).table
    every = (first @ second.T).numpy()  # (a, b)
    for distance in (1 - length, -3, 0, 1, length - 1):
        want = page[length - 1 + distance]
        np.testing.assert_allclose(np.diagonal(every, distance), want, rtol=0, atol=2e-4)


def test_dot_products_of_waves_fall_and_oscillate_but_stay_positive(js):
    ahead = js(MODULE, "return m.dots('waves', 64, 128);")[127:]
    assert ahead[0] == pytest.approx(32)
    assert all(now > after for now, after in pairwise(ahead[:6]))
    rises = sum(now < after for now, after in pairwise(ahead))
    assert rises > 30
    assert min(ahead) > 5
    before = js(MODULE, "return m.dots('waves', 64, 128);")[127::-1]
    assert before == pytest.approx(ahead)  # symmetric


def test_a_pair_keeps_its_distance(js):
    body = "return given.cases.map(([a, distance]) => m.apart(a, distance, 9));"
    cases = [[3, 4], [8, 4], [1, -4], [5, 9], [2, -9], [5, 0]]
    want = [[3, 7], [5, 9], [4, 0], [0, 9], [9, 0], [5, 5]]
    assert js(MODULE, body, cases=cases) == want


# ---- errors


# ---- in a browser


def told(page, name):
    return page.evaluate("(name) => models[0].get(name)", name)


@pytest.mark.slow
@pytest.mark.parametrize("view", ["waves", "rotary"])
def test_moving_both_leaves_the_dot_product_and_moving_one_does_not(show, view):
    page = show(PositionsExplorer(view=view))
    product = page.evaluate("document.querySelector('.lf-status').textContent").split("product ")[1]
    value = product.split()[0].rstrip(",")
    page.get_by_role("slider", name="move both").press("Shift+ArrowRight")
    assert (told(page, "first"), told(page, "second")) == (26, 33)
    assert f"product {value}" in status(page)
    page.get_by_role("slider", name="position b", exact=True).press("ArrowRight")
    assert (told(page, "first"), told(page, "second")) == (26, 34)
    assert f"product {value}" not in status(page)


@pytest.mark.slow
def test_rows_and_the_distance_can_be_dragged(show):
    page = show(PositionsExplorer(), viewport={"width": 760, "height": 800})
    a = page.get_by_role("slider", name="position a, a row")
    box = a.locator(".lf-touch").bounding_box()
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.move(x + 30, y + 19)  # 8 rows of 150 / 64 pixels; sideways does nothing
    page.mouse.up()
    assert (told(page, "first"), told(page, "second")) == (28, 27)
    a.press("ArrowUp")
    a.press("Shift+ArrowDown")
    assert told(page, "first") == 37
    distance = page.get_by_role("slider", name="distance from a to b")
    assert distance.get_attribute("aria-valuenow") == "-10"
    distance.press("Shift+ArrowLeft")
    assert (told(page, "first"), told(page, "second")) == (37, 17)
    for _ in range(4):
        distance.press("Shift+ArrowLeft")
    assert (told(page, "first"), told(page, "second")) == (60, 0), "a makes room"


@pytest.mark.slow
def test_a_shorter_table_keeps_the_pair_inside(show):
    page = show(PositionsExplorer(first=40, second=60))
    page.get_by_text("More", exact=True).click()
    page.get_by_role("slider", name="length").press("Home")
    assert (told(page, "first"), told(page, "second")) == (0, 7)
    assert "any two rows 7 apart" in status(page)
