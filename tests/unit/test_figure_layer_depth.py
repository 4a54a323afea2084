"""LayerDepth: it shows what the library's layers do with the same seeds."""

import pytest
import torch
from torch import nn

from transformer_lib import ModelConfig
from transformer_lib.figures.widgets import LayerDepth
from transformer_lib.figures.widgets.layer_depth import STACKS, fresh_layer
from transformer_lib.layers import EncoderLayer


class Bare(nn.Module):
    """Norms around a sublayer, without the sum."""

    def __init__(self, pre=None, post=None):
        super().__init__()
        self.pre, self.post = pre or nn.Identity(), post or nn.Identity()

    def forward(self, x, part):
        return self.post(part(self.pre(x)))


def cosine(a, b):
    """Unlike `torch.nn.functional.cosine_similarity`, exact for very short vectors."""
    return (a @ b / (a @ a).sqrt() / (b @ b).sqrt()).item()


def libraries_layer(drawn, residual, norm):
    """A layer of the library with these weights and its own `forward`."""
    sizes = {"vocab_size": 8, "d_model": 64, "n_heads": 4, "d_ff": 256, "dropout": 0.0}
    layer = EncoderLayer(ModelConfig(**sizes, pre_norm=norm != "post")).double()
    layer.load_state_dict(drawn.state_dict())
    for name in ("attention_residual", "feed_forward_residual"):
        around = getattr(layer, name)
        if norm == "none":
            around.norm = nn.Identity()
            around.norm.weight = torch.ones(64).double()  # by which a residual knows its width
        if not residual:
            setattr(layer, name, Bare(**{norm: around.norm} if norm != "none" else {}))
    return layer


@torch.no_grad()
@pytest.mark.parametrize(("residual", "norm"), STACKS)
def test_the_cosines_are_those_of_the_librarys_layers(js, residual, norm):
    figure = LayerDepth(words=list("abcde"), residual=residual, norm=norm)
    body = """const stack = m.stackOf(given.residual, given.norm);
      return [stack, given.cosines[stack].map((pairs) => m.tableOf(pairs, 5))];"""
    stack, tables = js(figure, body)
    for seed in (0, 1, 2):
        torch.manual_seed(seed)
        x = torch.randn(1, 5, 64).double()
        layers = [fresh_layer() for _ in range(24)]
        for depth in range(25):
            if depth:
                x = libraries_layer(layers[depth - 1], residual, norm)(x)
            pairs = [cosine(x[0, i], x[0, j]) for i in range(5) for j in range(i)]
            mean = figure.means[stack][seed][depth]
            assert mean == pytest.approx(sum(pairs) / 10, abs=0.0006)
            if seed == 0:
                table = torch.tensor(tables[depth])
                shown = [table[i, j].item() for i in range(5) for j in range(i)]
                assert shown == pytest.approx(pairs, abs=0.0006)
                assert torch.equal(table, table.T) and (table.diag() == 1).all()


def test_only_pre_norm_with_a_residual_keeps_tokens_apart():
    """As the chapter says of 24 layers, with each of three seeds."""
    means = dict(zip(STACKS, LayerDepth().means, strict=True))
    last = {stack: [line[24] for line in lines] for stack, lines in means.items()}
    assert all(0.7 < mean < 0.9 for mean in last.pop((True, "pre")))
    assert all(mean > 0.995 for lines in last.values() for mean in lines)
    assert all(line[2] > 0.99 for stack, lines in means.items() if not stack[0] for line in lines)


def test_measuring_does_not_change_the_readers_random_numbers():
    torch.manual_seed(5)
    want = torch.rand(3)
    torch.manual_seed(5)
    LayerDepth(words=list("abcdefg"))
    assert torch.equal(torch.rand(3), want)


@pytest.mark.slow
def test_the_point_is_on_the_thick_line(show):
    page = show(LayerDepth(norm="pre", layer=18))
    line = page.locator(".ld-line:not([data-other])").get_attribute("d")
    point = line.removeprefix("M").split("L")[18]
    here = page.locator(".lf-knob")
    found = [float(here.get_attribute(name)) for name in ("cx", "cy")]
    assert found == pytest.approx([float(x) for x in point.split(",")], abs=0.06)
