"""HeadsExplorer: its maps and results are the model's, with one head off at a time."""

import math
from itertools import pairwise

import pytest
import torch
from figure_page import SETTLE, in_every_font, status

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
    with without_head(layer, 1):
        got = layer(x)
    twin = MultiHeadAttention(d_model=15, n_heads=3)
    twin.load_state_dict(layer.state_dict())
    with torch.no_grad():
        twin.out_proj.weight[:, 5:10] = 0
    torch.testing.assert_close(got, twin(x))
    assert not torch.allclose(got, with_all)
    torch.testing.assert_close(layer(x), with_all)


def test_the_head_comes_back_after_an_error():
    layer, x = MultiHeadAttention(d_model=4, n_heads=2), torch.randn(1, 3, 4)
    before = layer(x)
    with pytest.raises(ZeroDivisionError), without_head(layer, 0):
        1 / 0  # noqa: B018
    torch.testing.assert_close(layer(x), before)
    with pytest.raises(ValueError, match="head must be below 2"), without_head(layer, 2):
        pass


# ---- a model's figure

TOKENIZER = Tokenizer.characters(["abcdefg"])
CONFIG = ModelConfig(
    vocab_size=TOKENIZER.vocab_size, d_model=12, n_heads=3, n_layers=2, d_ff=20, max_len=40
)


@pytest.fixture(scope="module")
def model():
    torch.manual_seed(4)
    return Transformer(CONFIG)


def ended_model(model, monkeypatch, length):
    """Make the untrained model write a text of this many tokens."""
    from transformer_lib import decoding

    text = torch.tensor([[*([5] * (length - 1)), CONFIG.eos_id]])
    monkeypatch.setattr(decoding, "greedy", lambda *_, **__: decoding.Generation(text, None))
    return text


def test_numbers_are_the_models(model, monkeypatch):
    text = ended_model(model, monkeypatch, 6)
    shown = HeadsExplorer.from_model(model, TOKENIZER, "abca")
    assert (shown.source, shown.note) == (["a", "b", "c", "a"], "")
    assert shown.writes == [*TOKENIZER.tokens([5]) * 5, "<eos>"]
    assert shown.reads == ["<bos>", *shown.writes[:-1]]
    source, target = torch.tensor([TOKENIZER.encode("abca")]), torch.tensor([[1, 5, 5, 5, 5, 5]])
    model.eval()

    def likely():
        return model(source, target).softmax(-1).gather(-1, text[..., None])[0, :, 0]

    with record_attention(model) as maps:
        torch.testing.assert_close(torch.tensor(shown.probabilities), likely(), atol=6e-5, rtol=0)
    kinds = ("cross", "encoder", "decoder")
    assert shown.kinds == list(kinds)
    names = {
        "cross": "decoder.layers.{}.cross",
        "encoder": "encoder.layers.{}.self",
        "decoder": "decoder.layers.{}.self",
    }
    for k, kind in enumerate(kinds):
        for i in range(2):
            name = names[kind].format(i) + "_attention"
            want = maps[name][0]
            torch.testing.assert_close(torch.tensor(shown.weights[k][i]), want, atol=6e-4, rtol=0)
            for head in range(3):
                with without_head(model.get_submodule(name), head):
                    want = likely()
                got = torch.tensor(shown.without[k][i][head])
                torch.testing.assert_close(got, want, atol=6e-5, rtol=0)


def test_the_first_head_shown_costs_most(model, monkeypatch):
    ended_model(model, monkeypatch, 6)
    shown = HeadsExplorer.from_model(model, TOKENIZER, "abca")
    off = [math.prod(head) for kind in shown.without for layer in kind for head in layer]
    k = shown.kinds.index(shown.attention)
    assert math.prod(shown.without[k][shown.layer][shown.head]) == min(off)
    other = HeadsExplorer.from_model(model, TOKENIZER, "abca", attention="decoder", layer=0)
    assert (other.attention, other.layer, other.head) == ("decoder", 0, 0)


def test_the_text_is_the_models_own(model):
    with torch.no_grad():
        model.embedding.weight[CONFIG.eos_id] *= 40  # so that it ends
    shown = HeadsExplorer.from_model(model, TOKENIZER, "ab")
    text = greedy(model, torch.tensor([TOKENIZER.encode("ab")]), max_len=LONGEST).ids[0].tolist()
    assert shown.writes == TOKENIZER.tokens(text)


def test_what_it_cannot_show_is_refused(model, monkeypatch):
    with pytest.raises(TypeError, match="model must be a Transformer; got a Linear"):
        HeadsExplorer.from_model(torch.nn.Linear(2, 2), TOKENIZER, "ab")
    for source in ("", "a" * (LONGEST + 1)):
        with pytest.raises(ValueError, match=f"1 to {LONGEST} tokens; got {len(source)}"):
            HeadsExplorer.from_model(model, TOKENIZER, source)
    ended_model(model, monkeypatch, LONGEST + 1)
    with pytest.raises(ValueError, match=f"translation of at most {LONGEST} tokens"):
        HeadsExplorer.from_model(model, TOKENIZER, "ab")


# ---- the page


def translator():
    figure = HeadsExplorer()
    return {name: getattr(figure, name) for name in DATA}


def test_arithmetic_of_the_page(js):
    before, after = [0.9, 0.8, 0.97], [0.9, 0.2, 0.5]
    body = "return [m.together(given.before), m.strongest(given.after)];"
    want = [torch.tensor(before).prod().item(), 0]
    assert js("heads_explorer.js", body, before=before, after=after) == pytest.approx(want)


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
        page.evaluate(SETTLE)
        assert page.evaluate("models[0].get('token')") == band
    assert "“i”" in status(page)


@pytest.mark.slow
def test_an_encoder_alone_has_no_probabilities(show):
    data = translator()
    shown = HeadsExplorer(
        source=data["source"], kinds=["encoder"], weights=data["weights"][1:2], reads=[],
        writes=[], probabilities=[], without=[], attention="encoder",
    )  # fmt: skip
    page = show(shown)
    assert page.locator(".he-bars").count() == 0
    assert page.get_by_role("checkbox").count() == 0
    assert status(page).endswith("%.")


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
