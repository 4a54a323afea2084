"""PositionsExplorer: its waves and turns are the library's; pairs move, but distances stay."""

import numpy as np
import pytest
import torch
from figure_page import button, slider, status, told, unfold

from transformer_lib.figures.widgets import PositionsExplorer
from transformer_lib.positions import RotaryPositions, SinusoidalPositions

MODULE = "positions_explorer.js"


@pytest.mark.parametrize("d", [2, 6, 64, 254])
def test_addresses_are_the_librarys(js, d):
    body = "return given.at.map((pos) => m.address(pos, m.turnsOf(given.d)));"
    at = [0, 1, 7, 100, 127]
    table = SinusoidalPositions(d_model=d, max_len=128).table[at]
    np.testing.assert_allclose(js(MODULE, body, at=at, d=d), table, rtol=0, atol=1e-6)


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


def test_a_pair_keeps_its_distance(js):
    body = "return given.cases.map(([a, distance]) => m.apart(a, distance, 9));"
    cases = [[3, 4], [8, 4], [1, -4], [5, 9], [2, -9], [5, 0]]
    want = [[3, 7], [5, 9], [4, 0], [0, 9], [9, 0], [5, 5]]
    assert js(MODULE, body, cases=cases) == want


def pair(page):
    return told(page, "first", "second")


@pytest.mark.slow
def test_both_keep_their_distance_and_their_dot_product(show):
    page = show(PositionsExplorer())
    product = status(page).split("product ")[1].split()[0].rstrip(",")
    slider(page, "move both").press("Shift+ArrowRight")
    assert pair(page) == [26, 33]
    assert f"product {product}" in status(page)
    slider(page, "position b").press("ArrowRight")
    assert pair(page) == [26, 34]
    assert f"product {product}" not in status(page)

    button(page, "Reset").click()
    a = page.get_by_role("slider", name="position a, a row")
    box = a.locator(".lf-touch").bounding_box()
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.move(x + 30, y + 19)  # 8 rows of 150 / 64 pixels; sideways does nothing
    page.mouse.up()
    assert pair(page) == [28, 27]
    a.press("Shift+ArrowDown")
    assert pair(page) == [38, 27]
    for _ in range(5):
        slider(page, "distance from a to b").press("Shift+ArrowLeft")
    assert pair(page) == [61, 0], "a makes room"
    unfold(page)
    slider(page, "length").press("Home")
    assert pair(page) == [7, 0], "a shorter table keeps the pair inside"
