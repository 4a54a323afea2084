"""WordSwap: its attention is the library's in every order, and its marks show what changed."""

from itertools import permutations

import pytest
import torch
from figure_page import status, told

from transformer_lib import attention
from transformer_lib.figures.widgets import WordSwap

ORDERS = list(permutations(range(5)))


@pytest.mark.parametrize("positions", [False, True])
def test_every_order_is_the_librarys_attention(js, positions):
    """Without positions, words keep their weights when they move; with positions, they don't."""
    sizes = {"vectors": (5, 3), "places": (5, 3), "query": (3, 2), "key": (3, 2), "value": (3, 4)}
    tables = {name: torch.randn(size, dtype=torch.float64) for name, size in sizes.items()}
    given = {name: table.tolist() for name, table in tables.items()} | {"positions": positions}
    body = """return given.orders.map((order) => {
      const { weights, received, otherWeights, otherReceived } = m.changes(given.numbers, order);
      return [weights, received, otherWeights, otherReceived];
    });"""
    pages = js("word_swap.js", body, numbers=given, orders=ORDERS)
    *numbers, other_weights, other_received = zip(*pages, strict=True)
    weights, received = (torch.tensor(part, dtype=torch.float64) for part in numbers)
    moved = [torch.tensor(part).flatten(1).any(-1) for part in (other_weights, other_received)]

    x = tables["vectors"][torch.tensor(ORDERS)] + positions * tables["places"]
    want = attention(*(x @ tables[name] for name in ("query", "key", "value")))
    torch.testing.assert_close(weights, want.weights)
    torch.testing.assert_close(received, want.output)

    # the original sentence comes first; in any other order, words move
    for mark in moved:
        assert mark.tolist() == [False, *[positions] * (len(ORDERS) - 1)]


def test_an_order_without_some_word_means_the_original_sentence(js):
    body = "return given.orders.map((order) => m.orderOf(order, 3));"
    orders = [[2, 0, 1], [2, 2, 1], [0, 1], [0, 1, 2, 3], [1, 0.5, 2]]
    assert js("word_swap.js", body, orders=orders) == [[2, 0, 1], *[[0, 1, 2]] * 4]


@pytest.mark.slow
def test_clicked_words_trade_places_and_the_marks_say_what_changed(show):
    page = show(WordSwap())
    token = page.locator(".ws-token").nth
    assert status(page).startswith("fish and cat have traded places. Their rows")
    received = page.locator(".ws-tables table").nth(1).locator("tbody tr")
    fish = received.nth(2).inner_text()
    token(2).click()
    assert status(page) == "Now click the word that trades places with fish."
    token(5).press("Enter")
    assert told(page, "order") == [0, 1, 2, 3, 4, 5]
    assert received.nth(5).inner_text() == fish
    assert status(page).startswith("The original sentence.")
    for place in (0, 0, 1, 3):  # the same word twice: none is picked
        token(place).click()
    assert told(page, "order") == [0, 3, 2, 1, 4, 5]
    assert page.locator("[data-other]").count() == 0
    page.get_by_role("checkbox", name="positions").check()
    assert page.locator("[data-other]").count() > 30
    assert "6 of 6 words receive different numbers" in status(page)
