"""LayerDepth: what it shows is what the library's layers do with the same seeds."""

import pytest
import torch
from figure_page import PUBLISHED, SETTLE, status
from torch import nn
from traitlets import TraitError

from transformer_lib import ModelConfig
from transformer_lib.figures.widgets import LayerDepth
from transformer_lib.figures.widgets.layer_depth import STACKS, fresh_layer
from transformer_lib.layers import EncoderLayer


class Bare(nn.Module):
    """What stands around a part, without the sum."""

    def __init__(self, pre=None, post=None):
        super().__init__()
        self.pre, self.post = pre or nn.Identity(), post or nn.Identity()

    def forward(self, x, part):
        return self.post(part(self.pre(x)))


def cosine(a, b):
    """`torch.nn.functional.cosine_similarity` takes very short vectors for longer ones."""
    return (a @ b / (a @ a).sqrt() / (b @ b).sqrt()).item()


def libraries_layer(drawn, residual, norm):
    """A layer of the library with the drawn matrices, whose own `forward` does the rest."""
    sizes = {"vocab_size": 8, "d_model": 64, "n_heads": 4, "d_ff": 256, "dropout": 0.0}
    layer = EncoderLayer(ModelConfig(**sizes, pre_norm=norm != "post")).double()
    layer.load_state_dict(drawn.state_dict())
    for name in ("attention_residual", "feed_forward_residual"):
        around = getattr(layer, name)
        if norm == "none":
            around.norm = nn.Identity()
        if not residual:
            setattr(layer, name, Bare(**{norm: around.norm} if norm != "none" else {}))
    return layer


@torch.no_grad()
@pytest.mark.parametrize(("residual", "norm"), STACKS)
def test_the_cosines_are_those_of_the_librarys_layers(residual, norm):
    figure = LayerDepth(residual=residual, norm=norm, words=list("abcde"))
    for seed in (0, 1, 2):
        torch.manual_seed(seed)
        x = torch.randn(1, 5, 64).double()
        layers = [fresh_layer() for _ in range(24)]
        for depth in range(25):
            if depth:
                x = libraries_layer(layers[depth - 1], residual, norm)(x)
            pairs = [cosine(x[0, i], x[0, j]) for i in range(5) for j in range(i)]
            mean = figure.means[figure.stack][seed][depth]
            assert mean == pytest.approx(sum(pairs) / 10, abs=0.0006)
            if seed == 0:
                figure.layer = depth
                table = figure.table()
                shown = [table[i, j].item() for i in range(5) for j in range(i)]
                assert shown == pytest.approx(pairs, abs=0.0006)
                assert torch.equal(table, table.T)


def test_only_pre_norm_with_a_residual_keeps_tokens_apart():
    """What the chapter says of 24 layers, with each of three draws."""
    means = dict(zip(STACKS, LayerDepth().means, strict=True))
    last = {stack: [line[24] for line in lines] for stack, lines in means.items()}
    assert all(0.7 < mean < 0.9 for mean in last.pop((True, "pre")))
    assert all(mean > 0.995 for lines in last.values() for mean in lines)
    assert all(line[2] > 0.99 for stack, lines in means.items() if not stack[0] for line in lines)


def test_measuring_leaves_the_readers_random_numbers_alone():
    torch.manual_seed(5)
    want = torch.rand(3)
    torch.manual_seed(5)
    LayerDepth(words=list("abcdefg"))
    assert torch.equal(torch.rand(3), want)


def test_the_page_shows_the_same_table_as_python(js):
    figure = LayerDepth(layer=7, norm="pre")
    body = """return { stacks: given.stacks.map(([on, norm]) => m.stackOf(on, norm)),
      table: m.tableOf(given.pairs, 6) };"""
    pairs = figure.cosines[figure.stack][7]
    page = js("layer_depth.js", body, stacks=STACKS, pairs=pairs)
    assert page["stacks"] == [0, 1, 2, 3, 4, 5]
    assert page["table"] == figure.table().tolist()


def test_words_for_a_mean_cosine(js):
    said = js("layer_depth.js", "return [0.9951, 0.9949, 0.7, 0.69].map(m.verdict);")
    assert said[0] != said[1] == said[2] != said[3]


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ({"words": ["a", "b"]}, ValueError, "words must be 3 to 8 words; got 2"),
        ({"words": ["a"] * 9}, ValueError, "words must be 3 to 8 words; got 9"),
        ({"words": [1, 2, 3]}, TraitError, "words"),
        ({"norm": "batch"}, ValueError, "norm must be one of 'post'"),
        ({"layer": 25}, ValueError, "layer must be from 0 to 24"),
        ({"layer": 1.5}, TypeError, "layer must be a whole number"),
        ({"residual": "yes"}, TraitError, "residual"),
        ({"means": [[[0.0]]]}, TypeError, "means is measured"),
    ],
)
def test_what_has_no_layers_is_refused(given, error, message):
    with pytest.raises(error, match=message):
        LayerDepth(**given)


@pytest.mark.slow
def test_layers_are_passed_by_mouse_keys_and_finger(show):
    page = show(LayerDepth(), viewport={"width": 390, "height": 900}, has_touch=True)
    depth = page.get_by_role("slider")
    cell = page.locator(".lf-heat tbody tr").nth(1).locator("td").nth(0)
    assert status(page).startswith("With residual, post-norm, after 12 layers: two tokens have")
    assert status(page).endswith("The tokens are much alike, and can still be told apart.")
    assert cell.inner_text() == "0.98"

    page.locator("label", has_text="pre-norm").click()
    assert page.evaluate("models[0].get('norm')") == "pre"
    assert float(cell.inner_text()) < 0.9
    page.get_by_role("button", name="Next").tap()
    depth.focus()
    page.keyboard.press("Shift+ArrowRight")
    page.evaluate(SETTLE)
    assert page.evaluate("models[0].get('layer')") == 15

    page.get_by_role("checkbox").tap()
    assert page.evaluate("models[0].get('residual')") is False
    assert status(page).startswith("Without residual, pre-norm, after 15 layers")
    assert status(page).endswith(
        "a cosine of 1.00 on average. In two digits, all tokens point the same way."
    )
    depth.press("Home")
    assert status(page).endswith("Each token still points its own way.")
    assert "after 0 layers" in status(page)
    page.get_by_role("button", name="Reset").tap()
    assert status(page).startswith("With residual, post-norm, after 12 layers")


@pytest.mark.slow
def test_the_point_stands_on_the_thick_line(show):
    page = show(LayerDepth(norm="pre", layer=18))
    line = page.locator(".ld-line:not([data-other])").get_attribute("d")
    point = line.removeprefix("M").split("L")[18]
    here = page.locator(".lf-knob")
    found = [float(here.get_attribute(name)) for name in ("cx", "cy")]
    assert found == pytest.approx([float(x) for x in point.split(",")], abs=0.06)


@pytest.mark.slow
def test_an_address_without_sense_does_no_harm(show):
    page = show(LayerDepth(), attributes=PUBLISHED, fragment="#LayerDepth=norm:x;layer:99.5")
    assert status(page).startswith("With residual, post-norm, after 24 layers")
    page = show(LayerDepth(), attributes=PUBLISHED, fragment="#LayerDepth=layer:3.4;residual:no")
    assert status(page).startswith("Without residual, post-norm, after 3 layers")
