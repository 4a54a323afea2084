"""WhoKnows: its products of masks are the library's, and match gradients."""

from itertools import product

import pytest
import torch
from figure_page import status, told

from transformer_lib import ModelConfig, causal_mask, local_mask, padding_mask
from transformer_lib.figures.widgets import WhoKnows
from transformer_lib.layers import DecoderLayer, EncoderLayer

MASKS = ("everyone", "past", "window", "past-window")
STATES = list(product(MASKS, (0, 1, 2), (False, True)))
WORDS, SOURCE = ["a", "b", "c", "d", "e"], ["x", "<pad>", "y", "<pad>"]
LAYERS = 3
EVERYONE = torch.ones(5, 5, dtype=torch.bool)


def library_mask(mask, window):
    """The mask of this name, from the library's masks."""
    near = local_mask(5, window=window)
    return {
        "everyone": EVERYONE,
        "past": causal_mask(5),
        "window": near,
        "past-window": near & causal_mask(5),
    }[mask]


def figure(mask, window, across):
    own = {"words": WORDS, "source": SOURCE, "layers": LAYERS}
    return WhoKnows(**own, mask=mask, window=window, across=across)


def test_the_page_multiplies_the_librarys_masks(js):
    body = "return [m.mayLook(given.mask, given.window, given.words.length), m.reach(given)];"
    for state in STATES:
        look, tables = js(figure(*state), body)
        assert torch.tensor(look).equal(library_mask(*state[:2])), state
        assert torch.tensor(tables).equal(figure(*state).reach()), state


def test_gradients_come_from_exactly_what_a_word_can_know():
    """With random layers, every known input has a gradient and no other input does."""
    config = ModelConfig(vocab_size=9, d_model=8, n_heads=2, d_ff=12, n_layers=1, dropout=0.0)
    encoder = EncoderLayer(config).double()
    with_source = [DecoderLayer(config).double() for _ in range(LAYERS)]
    alone = [EncoderLayer(config).double() for _ in range(LAYERS)]
    real = padding_mask(torch.tensor([[3, 0, 4, 0]]), 0)
    inputs = torch.randn(1, 9, 8, dtype=torch.float64, requires_grad=True)
    probe = torch.randn(8, dtype=torch.float64)
    for state in STATES:
        if state[1] != 1:  # other windows use the same product
            continue
        look, across = library_mask(*state[:2]), state[2]
        x, read = inputs.split([5, 4], dim=1)
        memory = encoder(read, mask=real)
        for number in range(LAYERS):
            if across:
                x = with_source[number](x, memory, mask=look, memory_mask=real)
            else:
                x = alone[number](x, mask=look)
            (gradients,) = torch.autograd.grad(
                x[0] @ probe,
                inputs,
                torch.eye(5).double(),
                retain_graph=True,
                is_grads_batched=True,
            )
            known = (gradients[:, 0] != 0).any(-1)
            assert known.equal(figure(*state).reach()[number + 1]), (state, number + 1)


def test_the_number_of_layers_that_add_anything(js):
    body = """const one = { words: Array(given.n).fill("a"), source: [], layers: 9, across: false };
    return given.states.map(([mask, window]) => {
      const tables = m.reach({ ...one, mask, window }).map(String);
      return [m.needed(mask, window, given.n), tables.findIndex((table) => table === tables[9])];
    });"""
    states = list(product(MASKS, (0, 1, 2, 3)))
    for n in (2, 7, 8):
        for needed, found in js("who_knows.js", body, states=states, n=n):
            assert needed == found


@pytest.mark.slow
def test_a_selected_word_shows_what_it_knows(show):
    source = ["two", "seven", "nine", "<pad>", "<pad>"]
    page = show(WhoKnows(source=source), width=390)
    known = page.locator("[data-known]").all_inner_texts
    assert known() == ["hungry", "cat", "eats", "fresh", "fish"]
    page.get_by_role("radio", name="layer 1, the: 2").click()
    assert known() == ["the", "hungry"]
    for key, at in (("ArrowUp", [2, 0]), ("ArrowRight", [2, 1]), ("ArrowDown", [1, 1])):
        page.keyboard.press(key)
        assert told(page, "layer", "token") == at
    page.keyboard.press("ArrowDown")  # nothing below
    assert told(page, "layer") == 1
    page.locator(".wk-cells input").nth(0).click()  # the first word of the top layer
    assert known() == ["the", "hungry", "cat", "eats", "fresh"]
    assert page.locator(".wk-cells label[data-used]").count() == 4 + 3 + 2
    page.get_by_role("checkbox", name="across").check()
    assert known()[-3:] == ["two", "seven", "nine"]
    assert "can know 8 of 11 words" in status(page)
