"""FillIn: the page shows the guesses of the hidden words, and clicks hide words."""

import pytest
from figure_page import button, status

from transformer_lib.figures.widgets import FillIn

STATES = [(hidden, place) for hidden in range(8) for place in range(3)]


def test_the_page_shows_the_guesses_of_the_word_asked_for(js):
    """Of the chosen word if it is hidden, or else of the first that is."""
    body = """return given.states.map(([hidden, place]) => {
      const at = m.lookedAt({ hidden, place }, 3);
      return [at, at === null ? [] : m.guessesAt(given.choices, hidden, at, 3)];
    });"""
    choices = FillIn().guesses[0]
    pages = js("fill_in.js", body, states=STATES, choices=choices)
    for (hidden, place), (at, found) in zip(STATES, pages, strict=True):
        words = [i for i in range(3) if hidden >> i & 1]
        assert at == (place if place in words else next(iter(words), None))
        assert found == ([] if at is None else choices[hidden][words.index(at)])


def test_clicks_hide_a_word_show_its_guesses_and_bring_it_back(js):
    body = """let state = { hidden: 0, place: 0 };
    return given.clicks.map((at) => ({ ...(state = m.click(state, at, 3)) }));"""
    states = js("fill_in.js", body, clicks=[1, 2, 1, 1, 2])
    assert [state["hidden"] for state in states] == [2, 6, 6, 4, 0]
    assert [state["place"] for state in states][:4] == [1, 2, 1, 2]


@pytest.mark.slow
def test_words_are_hidden_by_mouse_and_by_key(show):
    page = show(FillIn())
    assert page.locator(".fi-best .fi-word").first.inner_text() == "goat"
    button(page, "eats").press("Enter")
    assert status(page) == ("The five best guesses for word 3 add up to 98 %; “eats” has 60 %.")
    word = page.locator(".fi-row button").nth
    assert word(1).get_attribute("aria-description") == "cat is hidden"
    for place in (1, 1, 2):
        word(place).click()
    assert status(page).startswith("Nothing is hidden")
