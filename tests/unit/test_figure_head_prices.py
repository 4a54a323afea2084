"""HeadPrices: the library measures its table, and its sums are those of the table."""

import json
from importlib import import_module
from pathlib import Path

import pytest
import torch
from figure_page import tell

from transformer_lib import ModelConfig, Transformer
from transformer_lib.figures.widgets import HeadPrices
from transformer_lib.figures.widgets.head_prices import price_table
from transformer_lib.pretrained import load_bundled
from transformer_lib.results import load_result

EXPERIMENTS = Path(__file__).resolve().parents[2] / "experiments"
EIGHT = 0b11111111
MODULE = "head_prices.js"
PRICES = "return given.table.map((_, gone) => m.prices(given.table, gone));"
SUMS = ("added", "together", "lasts")


@pytest.fixture(scope="module")
def record():
    return load_result("head-prices")


def test_the_record_is_what_the_library_measures(record, monkeypatch):
    """No head, each alone, each layer, all, and three sets across both layers."""
    sets = [0, *(1 << i for i in range(8)), 0x0F, 0xF0, EIGHT, 0b10010110, 0b01100100, 0b00110011]
    monkeypatch.syspath_prepend(str(EXPERIMENTS))
    experiment = import_module("head_prices")
    model, _ = load_bundled(record["model"])
    source, target = experiment.numbers()
    assert (len(source), record["letters"]) == (record["numbers"], int((target[:, 1:] != 0).sum()))
    loss, wrong = price_table(model, source, target, sets=sets)
    assert loss == pytest.approx([record["loss"][gone] for gone in sets], abs=2e-4)
    for got, gone in zip(wrong, sets, strict=True):
        assert abs(got - record["wrong"][gone]) <= 2, gone  # there may be near ties


def test_what_chapter_16_says_of_it_is_in_the_record(js, record):
    """In the question, its answer, the text after it, and the picture's description."""
    path = Path(__file__).resolve().parents[2] / "chapters" / "16_looking_inside.ipynb"
    cells = {cell["id"]: cell for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]}
    layer_1, layer_2, head_2, head_4 = 0x0F, 0xF0, 1 << 5, 1 << 7
    loss, wrong = record["loss"], record["wrong"]
    price = js(MODULE, PRICES, table=loss)[layer_2]
    added, together, lasts = (price[name] for name in SUMS)
    last = price["last"][7]
    assert wrong[head_4] == wrong[0]
    in_its_way = wrong[layer_1 + head_2] - wrong[layer_1]
    for id_, said in {
        "remove-read": f"256 sets, on {record['letters']:,} letters",
        "prices-predict": f"costs {loss[head_4] - loss[0]:.3f} in loss, and not one more letter is",
        "prices-answer": f"{wrong[layer_2] - wrong[layer_2 - head_4]}, and {last:.2f} in",
        "prices-read": f"cost {added:.2f} in loss one by one, {together:.2f} "
        f"together, and {lasts:.2f} if",
        "live-prices": f"to {added:.2f} in loss, together they cost {together:.2f}, "
        f"and their prices as the last add up to {lasts:.2f}",
    }.items():
        cell = cells[id_]
        alt = cell["metadata"].get("mystnb", {}).get("image", {}).get("alt", "")
        assert said in "".join(cell["source"]) + alt, id_
    assert f"costs −{-in_its_way} letters" in "".join(cells["prices-answer"]["source"])


def test_too_many_heads_and_unknown_sets_are_refused():
    ids = torch.tensor([[1, 5, 2]])
    for layers, message in ((2, r"below 64; got \[64\]"), (3, "at most 8 .* heads; got 9")):
        config = ModelConfig(vocab_size=11, d_model=12, n_heads=3, n_layers=layers, d_ff=16)
        with pytest.raises(ValueError, match=message):
            price_table(Transformer(config), ids, ids, sets=[64])


def test_each_price_is_a_difference_of_two_sets_and_the_track_holds_all_sums(js, record):
    tables = [torch.rand(2**n).tolist() for n in (2, 6, 8)]
    for table in (*tables, record["loss"], record["wrong"], [5, 3, 4, 1]):
        heads = [1 << i for i in range(len(table).bit_length() - 1)]
        sums = []
        for gone, page in enumerate(js(MODULE, PRICES, table=table)):
            alone = [table[head] - table[0] for head in heads]
            last = [table[gone | head] - table[gone - (gone & head)] for head in heads]
            assert (page["alone"], page["last"]) == (alone, last)
            here = [i for i, head in enumerate(heads) if gone & head]
            assert page["added"] == pytest.approx(sum(alone[i] for i in here))
            assert page["together"] == table[gone] - table[0]
            assert page["lasts"] == pytest.approx(sum(last[i] for i in here))
            sums += [page[name] for name in SUMS]
        assert js(MODULE, "return m.range(given.table);", table=table) == [min(0, *sums), max(sums)]


@pytest.mark.slow
def test_the_bars_are_as_long_as_the_sums(js, show):
    """If the loss falls without a head, its price is negative and its bar goes left."""
    table = [1.0, 0.8, 1.1, 1.5]
    page = show(HeadPrices(table=[table], measures=["loss"], layers=["layer 1"]))
    bars = """[...document.querySelectorAll(".hp-track")].map((track) => {
      const width = track.getBoundingClientRect().width;
      return [...track.children].map((bar) => bar.getBoundingClientRect().width / width);
    })"""
    for gone, price in enumerate(js(MODULE, PRICES, table=table)):
        tell(page, gone=gone)
        whole = 1.1 + 0.2  # from head 1 alone, -0.2, to both as the last, 0.4 + 0.7
        for (ahead, back), name in zip(page.evaluate(bars), SUMS, strict=True):
            assert ahead - back == pytest.approx(price[name] / whole, abs=0.01)
            assert min(ahead, back) == 0
    assert page.locator(".hp-map tbody td").all_inner_texts() == [
        "−0.20",
        "+0.10",
        "+0.40",
        "+0.70",
    ]
