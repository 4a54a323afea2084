"""BatchPadding: its batches are the library's, its share that of their tensors."""

import pytest
from figure_page import PUBLISHED, SETTLE, status
from traitlets import TraitError

from transformer_lib.data import Batches, TokenBatchSampler
from transformer_lib.figures.widgets import BatchPadding

WAYS = ("given", "source", "longer", "tokens")
CALL = """const batches = m.batchesOf(given.numbers);
return { batches, share: m.padding(given.numbers.lengths, batches) };"""


def of_tensors(lengths, **options):
    """The share of padding in the library's own padded batches, in this order of pairs."""
    # a target gets `<bos>` in front, which counts as one of its places
    pairs = [([5] * source, [5] * (target - 1)) for source, target in lengths]
    batches = list(Batches(pairs, shuffle=False, **options).epoch(0))
    sides = [side for batch in batches for side in (batch.source, batch.target_input)]
    return sum(int((ids == 0).sum()) for ids in sides) / sum(ids.numel() for ids in sides)


@pytest.mark.parametrize("size", [4, 13, 64, 128])
@pytest.mark.parametrize("way", WAYS)
def test_the_share_is_that_of_the_librarys_padded_tensors(js, way, size):
    figure = BatchPadding(way=way, size=size)
    lengths = figure.lengths
    page = js("batch_padding.js", CALL, numbers={"lengths": lengths, "way": way, "size": size})
    assert page["batches"] == figure.batches()

    order = [i for batch in page["batches"] for i in batch]
    assert sorted(order) == list(range(len(lengths)))
    if way == "tokens":
        assert page["batches"] == TokenBatchSampler(
            [tuple(pair) for pair in lengths], max_tokens=32 * size, shuffle=False
        ).epoch(0)
        want = of_tensors(lengths, max_tokens=32 * size)
    else:
        assert {len(batch) for batch in page["batches"][:-1]} <= {size}
        want = of_tensors([lengths[i] for i in order], batch_size=size)
    assert page["share"] == pytest.approx(want) == pytest.approx(figure.waste())


def test_the_ways_sort_by_what_they_say():
    pairs = {way: BatchPadding(way=way) for way in WAYS}
    order = {
        way: [figure.lengths[i] for batch in figure.batches() for i in batch]
        for way, figure in pairs.items()
    }
    assert order["given"] == pairs["given"].lengths
    assert [pair[0] for pair in order["source"]] == sorted(pair[0] for pair in order["given"])
    keys = [(max(pair), pair[0]) for pair in order["longer"]]
    assert keys == sorted(keys)


def test_what_is_drawn_lies_inside_the_order(js):
    counts = [1, 2, 3, 4, 8, 256]
    body = "return given.counts.map(m.some);"
    shown = js("batch_padding.js", body, counts=counts)
    assert shown == [[0], [0, 1], [0, 1, 2], [0, 2, 3], [1, 4, 6], [42, 128, 213]]


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ({"lengths": [[3, 4]] * 7}, ValueError, "lengths must be of 8 to 2048 pairs; got 7"),
        ({"lengths": [[3, 4]] * 2049}, ValueError, "8 to 2048 pairs; got 2049"),
        ({"lengths": [[3, 4]] * 8 + [[3]]}, ValueError, r"lengths\[8\] must be two whole numbers"),
        ({"lengths": [[3, 4.5]] * 8}, ValueError, r"lengths\[0\] must be two whole numbers"),
        ({"lengths": [[3, 129]] * 8}, ValueError, r"lengths\[0\]\[1\] must be from 1 to 128"),
        ({"lengths": [[0, 4]] * 8}, ValueError, r"lengths\[0\]\[0\] must be from 1 to 128"),
        ({"lengths": [3] * 8}, TypeError, r"lengths\[0\] must be a list"),
        ({"way": "random"}, ValueError, "way must be one of 'given'"),
        ({"size": 3}, ValueError, "size must be from 4 to 128"),
        ({"size": 16.5}, TypeError, "size must be a whole number"),
    ],
)
def test_what_makes_no_batch_is_refused(given, error, message):
    with pytest.raises((error, TraitError), match=message):
        BatchPadding(**given)


@pytest.mark.slow
def test_batches_are_made_by_mouse_keys_and_finger(show):
    page = show(BatchPadding(), viewport={"width": 390, "height": 900}, has_touch=True)
    size = page.get_by_role("slider")
    assert (
        status(page)
        == "Batches of 16 pairs, as they come: 38\u00a0% of what is computed is padding."
    )
    said = page.locator(".ba-panels .lf-room > p")
    first = said.nth(0).inner_text()
    assert said.all_inner_texts()[3] == "all 8 batches: 38\u00a0% padding"

    page.locator("label", has_text="by the longer").click()
    assert status(page).startswith(
        "Batches of 16 pairs, sorted by the longer side: 16\u00a0% of what"
    )
    assert status(page).endswith("As they come, in batches of 16 pairs, it is 38\u00a0%.")
    assert said.nth(0).inner_text() != first

    size.focus()
    page.keyboard.press("ArrowRight")
    page.evaluate(SETTLE)
    assert page.evaluate("models[0].get('size')") == 32
    assert size.get_attribute("aria-valuetext") == "32 pairs"
    page.locator("label", has_text="by tokens").tap()
    assert size.get_attribute("aria-valuetext") == "1,024 places a side"
    assert status(page).startswith("Batches of up to 1,024 places a side, by tokens: ")
    for _ in range(9):
        size.press("ArrowRight")
    assert page.evaluate("models[0].get('size')") == 128
    assert said.all_inner_texts()[2] == ""  # one batch: nothing else to show

    page.get_by_role("button", name="Reset").tap()
    assert status(page).startswith("Batches of 16 pairs, as they come: 38")


@pytest.mark.slow
def test_the_drawn_places_are_tokens_and_padding(show):
    """The areas of a batch: as many blue places as tokens, as many orange ones as padding."""
    figure = BatchPadding(size=8)
    page = show(figure)
    batch = figure.batches()[16 // 6]
    areas = page.evaluate(
        """[...document.querySelectorAll(".ba-panels svg")].map((field) => [".ba-real", ".ba-pad"]
          .map((kind) => [...field.querySelector(kind).getAttribute("d").matchAll(/h([\\d.]+)v/g)]
            .reduce((total, [, width]) => total + Number(width), 0)))"""
    )
    pairs = [figure.lengths[i] for i in batch]
    tokens = sum(map(sum, pairs))
    places = len(pairs) * sum(max(side) for side in zip(*pairs, strict=True))
    assert areas[0] == [tokens, places - tokens]
    assert areas[3] == pytest.approx([100 - 100 * figure.waste(), 100 * figure.waste()], abs=0.01)


@pytest.mark.slow
def test_an_address_without_sense_does_no_harm(show):
    page = show(BatchPadding(), attributes=PUBLISHED, fragment="#BatchPadding=way:tokens;size:9.7")
    assert status(page).startswith("Batches of up to 320 places a side, by tokens: ")
    page = show(BatchPadding(), attributes=PUBLISHED, fragment="#BatchPadding=way:worse;size:x")
    assert status(page).startswith("Batches of 16 pairs, as they come")
