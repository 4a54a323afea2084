"""NextLetter: its probabilities are those of counts and of the library's model."""

import math
from collections import Counter

import pytest
import torch
from figure_page import told

from transformer_lib import DecoderOnly, ModelConfig
from transformer_lib.data import Tokenizer, shakespeare
from transformer_lib.figures.widgets import NextLetter
from transformer_lib.figures.widgets.next_letter import followers, measured

MODULE = "next_letter.js"
COUNTED = "the cat 1 and the cap 2 and a hat 11\n" * 3 + "a tap 121"
TEXT = "and the hat and a cap 1\n11 a mat"


@pytest.fixture(scope="module")
def small():
    """A figure of a small random model, the model, and its tokenizer."""
    torch.manual_seed(0)
    tokenizer = Tokenizer.characters([COUNTED + TEXT])
    config = ModelConfig(
        vocab_size=tokenizer.vocab_size, d_model=24, n_heads=2, n_layers=2, d_ff=40, max_len=9
    )
    model = DecoderOnly(config).eval()
    numbers = measured(model, tokenizer, COUNTED, TEXT, 11, reads=(0, 1, 2, 5, 8))
    return NextLetter(**numbers), model, tokenizer


def foretold(model, tokenizer, past):
    """The model's probabilities after a text."""
    ids = torch.tensor([[1, *tokenizer.encode(past)]])
    with torch.no_grad():
        return model(ids)[0, -1].softmax(-1)


def past(figure, read, place):
    """The last letters before a place of the line."""
    end = figure.start + place
    return figure.text[end - read : end]


def counted(figure, read, place):
    """The probability of each letter by counting what followed its past."""
    row = figure.rows.get(past(figure, read, place), {})
    total = sum(row.values()) + 0.1 * len(figure.pieces)
    return {piece: (row.get(piece, 0) + 0.1) / total for piece in figure.pieces}


def test_the_numbers_are_the_models(small):
    figure, model, tokenizer = small
    for i, read in enumerate((0, 1, 2, 5, 8)):
        for place, letter in enumerate(TEXT[11:]):
            probs = foretold(model, tokenizer, past(figure, read, place))
            cost = -math.log(probs[tokenizer.encode(letter)[0]])
            assert figure.costs[i][place] == pytest.approx(cost, abs=6e-4)
            shares = figure.shares[i][place]
            assert shares
            for piece in figure.pieces:
                p = probs[tokenizer.encode(piece)[0]].item()
                if p > 0.0101 or piece in shares:
                    assert shares[piece] == pytest.approx(1000 * p, abs=0.6)


def test_the_counts_are_those_of_the_text(small):
    """Where a past overlaps itself, too."""
    assert followers("aaab", "aa") == {"a": 1, "b": 1}
    figure, *_ = small
    for read in (0, 1, 2, 5, 8):
        seen = Counter(COUNTED[i : i + read + 1] for i in range(len(COUNTED) - read))
        for place in range(len(TEXT) - 11):
            so_far = past(figure, read, place)
            after = {piece: seen[so_far + piece] for piece in figure.pieces if seen[so_far + piece]}
            assert figure.rows.get(so_far, {}) == after
    assert any(past(figure, 5, k) not in figure.rows for k in range(len(TEXT) - 11))


def test_the_stored_line_is_held_out():
    figure = NextLetter()
    assert figure.text[figure.start :] == "They call me Katharina that do talk of me.\n"
    assert figure.text in shakespeare.load("val")
    assert figure.text not in shakespeare.load("train")
    assert len(figure.pieces) == 65


def test_the_page_has_these_probabilities_and_costs(js, small):
    for figure in (small[0], NextLetter()):
        line, letters = figure.text[figure.start :], figure.pieces
        even = [dict.fromkeys(letters, 1 / len(letters)) for _ in line]
        body = "return given.places.map((place) => m.rungs(given, place, given.i));"
        for i, read in enumerate(figure.reads):
            counts = [[counted(figure, n, k) for k in range(len(line))] for n in (0, 1, int(read))]
            costs = [
                [-math.log(each[letter]) for each, letter in zip(row, line, strict=True)]
                for row in (even, *counts)
            ] + [figure.costs[i]]
            page = js(figure, body, i=i, places=list(range(len(line))))
            for place, letter in enumerate(line):
                said = {piece: p / 1000 for piece, p in figure.shares[i][place].items()}
                said[letter] = math.exp(-figure.costs[i][place])
                each = [row[place] for row in (even, *counts)] + [said]
                for found, want, cost in zip(page[place], each, costs, strict=True):
                    assert found["costs"] == pytest.approx(cost)
                    kept = {piece: p for piece, p in want.items() if p >= 0.01 or piece == letter}
                    assert dict(found["each"]) == pytest.approx(kept)
                    shares = [p for _, p in found["each"]]
                    assert shares == sorted(shares, reverse=True)


def test_between_two_numbers_the_lower_one_is_read(js):
    body = "return given.reads.map((n) => m.placeOf([0, 1, 2, 5, 8], n));"
    assert js(MODULE, body, reads=[0, 1, 2, 3, 4, 5, 7, 8, 9999]) == [0, 1, 2, 2, 2, 3, 3, 4, 4]


def test_a_past_can_be_the_name_of_an_objects_property(js):
    body = "return m.counting({ rows: {}, pieces: ['a', 'b'] }, 'constructor').chance('a');"
    assert js(MODULE, body) == 0.5


BARS = """[...document.querySelectorAll(".nl-bar")].map((bar) =>
  [...bar.querySelectorAll("span:not([hidden])")].map((part) =>
    [part.getBoundingClientRect().width / bar.getBoundingClientRect().width,
     "comes" in part.dataset]))"""


@pytest.mark.slow
def test_a_bar_is_as_long_as_its_probability(js, show):
    figure = NextLetter(place=20, read=6)
    page = show(figure)
    found = js(figure, "return m.rungs(given, 20, given.reads.indexOf(6));")
    for parts, predictor in zip(page.evaluate(BARS), found, strict=True):
        comes = [width for width, own in parts if own]
        assert comes == [pytest.approx(math.exp(-predictor["costs"][20]), abs=0.004)]
    rows = page.locator(".nl-ladder tbody tr:nth-child(odd)").all_inner_texts()
    for said, each in zip(rows, found, strict=True):
        costs = each["costs"]
        assert said.split("\t")[2:] == [f"{costs[20]:.2f}", f"{sum(costs) / len(costs):.2f}"]
    page.locator(".nl-letter").nth(42).click()
    assert told(page, "place") == 42
