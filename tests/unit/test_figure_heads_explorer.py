"""HeadsExplorer: its maps and results are the model's, with one head off at a time."""

import math
from itertools import pairwise

import pytest
import torch
from figure_page import in_every_font, status, told

from transformer_lib import (
    ModelConfig,
    MultiHeadAttention,
    Transformer,
    greedy,
    record_attention,
)
from transformer_lib.data import Tokenizer
from transformer_lib.figures.widgets import HeadsExplorer
from transformer_lib.figures.widgets.heads_explorer import DATA, LONGEST, without_head


def test_a_head_is_off_when_its_columns_of_the_output_matrix_are_zero():
    layer, x = MultiHeadAttention(d_model=15, n_heads=3), torch.randn(2, 7, 15)
    with_all = layer(x)
    with pytest.raises(ZeroDivisionError), without_head(layer, 1):
        got = layer(x)
        1 / 0  # noqa: B018
    torch.testing.assert_close(layer(x), with_all)  # it's back even after an error
    with torch.no_grad():
        layer.out_proj.weight[:, 5:10] = 0
    torch.testing.assert_close(got, layer(x))
    with pytest.raises(ValueError, match="head must be below 3"), without_head(layer, 3):
        pass


# ---- a model's figure

TOKENIZER = Tokenizer.characters(["abcdefg"])
CONFIG = ModelConfig(
    vocab_size=TOKENIZER.vocab_size, d_model=12, n_heads=3, n_layers=2, d_ff=20, max_len=40
)


def untrained(seed):
    torch.manual_seed(seed)
    return Transformer(CONFIG).eval()


NAMES = {
    "cross": "decoder.layers.{}.cross_attention",
    "encoder": "encoder.layers.{}.self_attention",
    "decoder": "decoder.layers.{}.self_attention",
}


def test_numbers_are_the_models():
    model = untrained(22)
    shown = HeadsExplorer.from_model(model, TOKENIZER, "abca")
    assert (shown.source, shown.note) == (["a", "b", "c", "a"], "")
    source = torch.tensor([TOKENIZER.encode("abca")])
    text = greedy(model, source, max_len=LONGEST).ids
    assert text.size(1) > 2
    target = torch.cat([torch.tensor([[CONFIG.bos_id]]), text[:, :-1]], dim=1)
    assert shown.writes == TOKENIZER.tokens(text[0].tolist())
    assert shown.reads == TOKENIZER.tokens(target[0].tolist())

    def likely():
        return model(source, target).softmax(-1).gather(-1, text[..., None])[0, :, 0]

    with record_attention(model) as maps:
        torch.testing.assert_close(torch.tensor(shown.probabilities), likely(), atol=6e-5, rtol=0)
    assert shown.kinds == list(NAMES)
    for k, name in enumerate(NAMES.values()):
        for i in range(2):
            want = maps[name.format(i)][0]
            torch.testing.assert_close(torch.tensor(shown.weights[k][i]), want, atol=6e-4, rtol=0)
            for head in range(3):
                with without_head(model.get_submodule(name.format(i)), head):
                    want = likely()
                got = torch.tensor(shown.without[k][i][head])
                torch.testing.assert_close(got, want, atol=6e-5, rtol=0)
    # the first head shown costs most
    off = [math.prod(head) for kind in shown.without for layer in kind for head in layer]
    k = shown.kinds.index(shown.attention)
    assert math.prod(shown.without[k][shown.layer][shown.head]) == min(off)
    other = HeadsExplorer.from_model(model, TOKENIZER, "abca", attention="decoder", layer=0)
    assert (other.attention, other.layer, other.head) == ("decoder", 0, 0)


def test_what_it_cannot_show_is_refused():
    model = untrained(4)  # it writes without end
    with pytest.raises(TypeError, match="model must be a Transformer; got a Linear"):
        HeadsExplorer.from_model(torch.nn.Linear(2, 2), TOKENIZER, "ab")
    for source in ("", "a" * (LONGEST + 1)):
        with pytest.raises(ValueError, match=f"1 to {LONGEST} tokens; got {len(source)}"):
            HeadsExplorer.from_model(model, TOKENIZER, source)
    with pytest.raises(ValueError, match=f"translation of at most {LONGEST} tokens"):
        HeadsExplorer.from_model(model, TOKENIZER, "ab")


# ---- the page


def translator():
    figure = HeadsExplorer()
    return {name: getattr(figure, name) for name in DATA}


@pytest.mark.slow
def test_a_head_switched_off_shows_what_is_lost(show):
    figure = HeadsExplorer(attention="cross", layer=0, head=0)
    page = show(figure)
    page.get_by_role("checkbox", name="switch it off").check()
    without = figure.without[0][0][0]
    assert f"probability {math.prod(without):.2f} instead" in status(page)
    assert page.locator(".he-fill[data-fallen=true]").count() > 0
    page.get_by_role("group", name="head", exact=True).get_by_role("radio", name="2").check()
    without = figure.without[0][0][1]
    assert f"probability {math.prod(without):.2f} instead" in status(page), "one at a time"
    unlikely = [0.1] * len(figure.writes)
    page = show(HeadsExplorer(**translator() | {"probabilities": unlikely}))
    assert status(page).endswith(f"probability {math.prod(unlikely):.0e}.".replace("e-0", "e-"))


@pytest.mark.slow
def test_pointing_at_a_row_selects_it(show):
    page = show(HeadsExplorer(attention="cross"))
    for band in (7, 3):
        page.locator(".he-svg [visibility=visible] .he-band").nth(band).hover()
        assert told(page, "token") == band
    assert "“i”" in status(page)


@pytest.mark.slow
@in_every_font
def test_long_words_below_the_bars_do_not_overlap(show):
    data = translator()
    page = show(HeadsExplorer(**data | {"writes": ["hundert"] * len(data["writes"])}))
    boxes = page.locator(".he-bars text").evaluate_all(
        "all => all.map((each) => each.getBoundingClientRect()).map((b) => [b.left, b.right, b.y])"
    )
    for row in {top for *_, top in boxes}:
        ends = sorted((left, right) for left, right, top in boxes if top == row)
        assert all(a[1] < b[0] for a, b in pairwise(ends))
