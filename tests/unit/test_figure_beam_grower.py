"""BeamGrower: the page and the library search in the same way."""

from functools import cache

import pytest
import torch

from transformer_lib import ModelConfig, RNNSeq2Seq, Transformer, beam_search, greedy
from transformer_lib.config import SpecialIds
from transformer_lib.data import Tokenizer
from transformer_lib.figures.widgets import BeamGrower
from transformer_lib.figures.widgets.beam_tree import (
    END,
    PENALTIES,
    SIZES,
    Tree,
    search,
    stand_in,
)

LENGTH = 9
TOKENIZER = Tokenizer.characters(["a bdeilnst"])
SEARCH = """const [tree, maxLen] = [m.plant(given.tree), given.most];
return given.asked.map(([size, exponent]) => m.search(tree, { size, exponent, maxLen }));
"""


class State:
    def __init__(self, rows):
        self.rows = rows

    def reorder(self, index):
        self.rows = [self.rows[i] for i in index.tolist()]


class Dice:
    """A model with random logits, the same ones for the same prefix."""

    config = SpecialIds()

    def __init__(self, seed, sharpness=1.5):
        self.seed, self.sharpness, self.training = seed, sharpness, True

    def start(self, source):
        return State([()] * len(source))

    def step(self, tokens, state):
        asked = zip(state.rows, tokens.tolist(), strict=True)
        state.rows = [(*row, token) for row, token in asked]
        return torch.stack([self.logits(row) for row in state.rows]), state

    @cache  # noqa: B019
    def logits(self, row):
        generator = torch.Generator().manual_seed(hash((self.seed, *row)) % 2**31)
        return self.sharpness * torch.randn(TOKENIZER.vocab_size, generator=generator)


def small_transformer():
    torch.manual_seed(0)
    config = ModelConfig(
        vocab_size=TOKENIZER.vocab_size, d_model=16, n_heads=2, n_layers=1, d_ff=16, dropout=0.5
    )
    model = Transformer(config)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(2.0)  # otherwise all tokens are almost equally probable
    return model


def small_rnn():
    torch.manual_seed(5)
    return RNNSeq2Seq(vocab_size=TOKENIZER.vocab_size, d_model=16, attention="dot", dropout=0.5)


MODELS = {
    **{f"dice {seed}": lambda seed=seed: Dice(seed) for seed in (1, 12, 13)},
    "peaked": lambda: Dice(9, sharpness=5),
    "Transformer": small_transformer,
    "RNN": small_rnn,
}
ASKED = [(size, exponent) for size in SIZES for exponent in PENALTIES]


@cache
def recorded(name):
    """A model and its figure."""
    model = MODELS[name]()
    figure = BeamGrower.from_model(model, TOKENIZER, "a tin", max_len=LENGTH)
    assert model.training, "unchanged"
    if isinstance(model, torch.nn.Module):
        model.eval()
    return model, figure


def columns(figure):
    return {name: getattr(figure, name) for name in ("parents", "tokens", "gains")}


@pytest.mark.parametrize("name", MODELS)
def test_page_and_picture_search_like_the_library(js, name):
    model, figure = recorded(name)
    tree = figure.tree()
    pieces = TOKENIZER.tokens(range(TOKENIZER.vocab_size))
    pages = js("beam_grower.js", SEARCH, tree=columns(figure), asked=ASKED, most=LENGTH)
    source, winners = torch.tensor([TOKENIZER.encode("a tin")]), set()
    for (size, exponent), page in zip(ASKED, pages, strict=True):
        settings = {"beam_size": size, "length_penalty": exponent}
        want = beam_search(model, source, max_len=LENGTH, **settings)
        ends = page[-1]["ends"]
        assert len(ends) == want.scores.isfinite().sum()
        for i, end in enumerate(ends):
            tokens = [tree.tokens[node] for node in tree.path(end["node"])]
            ids = [pieces.index(token) for token in tokens]
            assert ids == [*want.ids[0, i].tolist()[: len(ids)]]
            assert set(want.ids[0, i].tolist()[len(ids) :]) <= {0}
            assert end["total"] == pytest.approx(want.scores[0, i].item(), abs=1e-4)
            assert end["rank"] == pytest.approx(want.ranks[0, i].item(), abs=1e-4)
        winners.add(ends[0]["node"])
        assert len(page) == steps_taken(model, source, size, exponent)
        same_notes(search(tree, size, exponent, LENGTH), page)
    if name == "dice 12":
        assert len(winners) > 1  # so the comparison isn't trivial


def steps_taken(model, source, size, exponent):
    """The number of times a search calls the model."""

    class Counter:
        count, config = 0, model.config

        def start(self, source):
            return model.start(source)

        def step(self, tokens, state):
            self.count += 1
            return model.step(tokens, state)

    counter = Counter()
    with torch.no_grad():
        beam_search(
            counter, source, max_len=LENGTH, beam_size=size, length_penalty=exponent
        )  # fmt: skip
    return counter.count


def same_notes(here, page):
    assert len(here) == len(page)
    for mine, its in zip(here, page, strict=True):
        assert [(c.node, c.fate) for c in mine.candidates] == [
            (c["node"], c["fate"]) for c in its["candidates"]
        ]
        assert [end.node for end in mine.ends] == [end["node"] for end in its["ends"]]
        totals = [c["total"] for c in its["candidates"]]
        assert [c.total for c in mine.candidates] == pytest.approx(totals, abs=1e-12)
        ranks = [end["rank"] for end in its["ends"]]
        assert [end.rank for end in mine.ends] == pytest.approx(ranks, abs=1e-12)


@pytest.mark.parametrize("name", MODELS)
def test_greedy_is_greedy(js, name):
    model, figure = recorded(name)
    found = greedy(model, torch.tensor([TOKENIZER.encode("a tin")]), max_len=LENGTH)
    node = js("beam_grower.js", "return m.greedyEnd(m.plant(given.tree));", tree=columns(figure))
    tree = figure.tree()
    assert [tree.tokens[n] for n in tree.path(node)] == TOKENIZER.tokens(found.ids[0].tolist())
    assert sum(tree.gains[n] for n in tree.path(node)) == pytest.approx(found.scores.item())
    text = js(
        "beam_grower.js", "const tree = m.plant(given.tree); return tree.text(m.greedyEnd(tree));",
        tree=columns(figure),
    )  # fmt: skip
    assert text == tree.text(node)


def test_the_stand_in_shows_the_classic_cases():
    tree = Tree(**stand_in())
    winner = {
        (size, exponent): tree.text(search(tree, size, exponent, 6)[-1].ends[0].node)
        for size, exponent in ASKED
    }
    assert winner[1, 0.0] == "the dog is loud"  # greedy
    assert winner[2, 0.0] == "a dog barks"  # better, from a worse first word
    assert winner[2, 0.6] == "a dog barks loudly"  # the penalty changes the winner
    for node, children in enumerate(tree.children):
        assert sum(torch.tensor([tree.gains[child] for child in children]).exp()) < 1, node


def test_what_is_kept_is_always_shown(js):
    fates = ["lost", "kept", "lost", "ended", "lost", "kept", "lost"]
    body = "return given.rooms.map((room) => m.inView(given.all, room).map((c) => c.node));"
    candidates = [{"node": i, "fate": fate} for i, fate in enumerate(fates)]
    rooms = js("beam_grower.js", body, all=candidates, rooms=[9, 5, 3, 2])
    assert rooms == [[0, 1, 2, 3, 4, 5, 6], [0, 1, 2, 3, 5], [1, 3, 5], [1, 3]]


def test_a_tree_holds_only_what_searches_visit():
    _, figure = recorded("dice 1")
    looked_at = {
        candidate.node
        for size, exponent in ASKED
        for step in search(figure.tree(), size, exponent, LENGTH)
        for candidate in step.candidates
    }
    assert looked_at == set(range(1, len(figure.parents) + 1))
    assert figure.source == "a tin"
    assert figure.note == ""
    assert "made up" in BeamGrower().note


TREE = {"parents": [0, 1], "tokens": ["a", END], "gains": [-1, -2], "source": "s", "max_len": 3}


def test_a_tree_can_have_a_single_path():
    figure = BeamGrower(**TREE, step=2)
    assert figure.search()[0].ends == []
    assert figure.tree().text(figure.search()[-1].ends[0].node) == "a"
