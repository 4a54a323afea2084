"""BeamGrower: the page and the library search in the same way."""

from functools import cache
from unittest import mock

import pytest
import torch

from transformer_lib import ModelConfig, Transformer, beam_search, greedy
from transformer_lib.data import Tokenizer
from transformer_lib.figures.widgets import BeamGrower
from transformer_lib.figures.widgets.beam_grower import PENALTIES, SIZES

LENGTH = 9
TOKENIZER = Tokenizer.characters(["a bdeilnst"])
SEARCH = """const [tree, maxLen] = [m.plant(given), given.most];
return given.asked.map(([size, exponent]) => m.search(tree, { size, exponent, maxLen }));
"""
GREEDY = """const tree = m.plant(given), end = m.greedyEnd(tree);
return [end, tree.text(end)];"""


@cache
def recorded(seed, scale):
    """A random model, its figure, and the figure's tree for the page."""
    torch.manual_seed(seed)
    config = ModelConfig(
        vocab_size=TOKENIZER.vocab_size, d_model=16, n_heads=2, n_layers=1, d_ff=16, dropout=0.5
    )
    model = Transformer(config)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(scale)  # the larger, the surer it is
    figure = BeamGrower.from_model(model, TOKENIZER, "a tin", max_len=LENGTH)
    assert model.training, "unchanged"
    assert figure.note == ""
    return model.eval(), figure


MODELS = pytest.mark.parametrize(("seed", "scale"), [(0, 1), (2, 1), (5, 1), (2, 2), (0, 4)])
ASKED = [(size, exponent) for size in SIZES for exponent in PENALTIES]


def path(figure, node):
    """The numbers of the nodes, from 0, on the way to a node of the page's tree."""
    return [*path(figure, figure.parents[node - 1]), node - 1] if node else []


def tokens(figure, node):
    return [figure.tokens[i] for i in path(figure, node)]


@MODELS
def test_the_page_searches_like_the_library(js, seed, scale):
    model, figure = recorded(seed, scale)
    pieces = TOKENIZER.tokens(range(TOKENIZER.vocab_size))
    pages = js(figure, SEARCH, asked=ASKED, most=LENGTH)
    source, winners = torch.tensor([TOKENIZER.encode("a tin")]), set()
    for (size, exponent), page in zip(ASKED, pages, strict=True):
        settings = {"beam_size": size, "length_penalty": exponent}
        with torch.no_grad(), mock.patch.object(model, "step", wraps=model.step) as step:
            want = beam_search(model, source, max_len=LENGTH, **settings)
        ends = page[-1]["ends"]
        assert len(ends) == want.scores.isfinite().sum()
        for i, end in enumerate(ends):
            ids = [pieces.index(token) for token in tokens(figure, end["node"])]
            row = want.ids[0, i].tolist()
            assert ids + [0] * (len(row) - len(ids)) == row
            assert end["total"] == pytest.approx(want.scores[0, i].item(), abs=1e-4)
            assert end["rank"] == pytest.approx(want.ranks[0, i].item(), abs=1e-4)
        winners.add(ends[0]["node"])
        assert len(page) == step.call_count
    assert len(winners) > 1 or scale > 1  # so the comparison isn't trivial


@MODELS
def test_greedy_is_greedy(js, seed, scale):
    model, figure = recorded(seed, scale)
    found = greedy(model, torch.tensor([TOKENIZER.encode("a tin")]), max_len=LENGTH)
    node, text = js(figure, GREEDY)
    said = tokens(figure, node)
    assert said == TOKENIZER.tokens(found.ids[0].tolist())
    total = sum(figure.gains[i] for i in path(figure, node))
    assert total == pytest.approx(found.scores.item(), abs=1e-5)
    assert text == "".join(said).replace("<eos>", "").replace("▁", " ").strip()


def test_the_stand_in_shows_the_classic_cases(js):
    figure = BeamGrower()
    asked = [(1, 0.0), (2, 0.0), (2, 0.6)]
    pages = js(figure, SEARCH, asked=asked, most=6)
    assert ["".join(tokens(figure, page[-1]["ends"][0]["node"])) for page in pages] == [
        "▁the▁dog▁is▁loud<eos>",  # greedy
        "▁a▁dog▁barks<eos>",  # better, from a worse first word
        "▁a▁dog▁barks▁loudly<eos>",  # the penalty changes the winner
    ]


def test_what_is_kept_is_always_shown(js):
    fates = ["lost", "kept", "lost", "ended", "lost", "kept", "lost"]
    body = "return given.rooms.map((room) => m.inView(given.all, room).map((c) => c.node));"
    candidates = [{"node": i, "fate": fate} for i, fate in enumerate(fates)]
    rooms = js("beam_grower.js", body, all=candidates, rooms=[9, 5, 3, 2])
    assert rooms == [[0, 1, 2, 3, 4, 5, 6], [0, 1, 2, 3, 5], [1, 3, 5], [1, 3]]
