"""BatchPadding: its batches are the library's, and its share is that of their tensors."""

import pytest

from transformer_lib.data import Batches, TokenBatchSampler
from transformer_lib.figures.widgets import BatchPadding

WAYS = ("given", "source", "longer", "tokens")
CALL = """const batches = m.batchesOf(given);
return { batches, share: m.padding(given.lengths, batches) };"""


def of_tensors(lengths, **options):
    """The share of padding in the library's own padded batches, in this order of pairs."""
    # a target starts with `<bos>`, which counts too
    pairs = [([5] * source, [5] * (target - 1)) for source, target in lengths]
    batches = list(Batches(pairs, shuffle=False, **options).epoch(0))
    sides = [side for batch in batches for side in (batch.source, batch.target_input)]
    return sum(int((ids == 0).sum()) for ids in sides) / sum(ids.numel() for ids in sides)


@pytest.mark.parametrize("size", [4, 13, 64, 128])
@pytest.mark.parametrize("way", WAYS)
def test_the_share_is_that_of_the_librarys_padded_tensors(js, way, size):
    figure = BatchPadding(way=way, size=size)
    lengths = figure.lengths
    page = js(figure, CALL)
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


@pytest.mark.slow
def test_the_drawn_areas_are_tokens_and_padding(show):
    """A batch has a blue square for each token and an orange one for each padding token."""
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
