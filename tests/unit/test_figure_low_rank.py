"""LowRank: its singular values and approximations are those of PyTorch."""

import pytest
import torch

from transformer_lib.figures.widgets import LowRank

CALL = """const terms = m.decompose(given.matrix);
return { values: terms.values, shares: m.sharesOf(terms.values),
  near: given.ranks.map((r) => m.approximate(terms, r)) };"""


def matrices():
    """Square, tall and wide; of full rank, of low rank, with equal values, with empty columns."""
    for m, n in ((2, 2), (5, 3), (3, 7), (13, 11), (24, 32), (64, 64)):
        full = torch.randn(m, n, dtype=torch.float64)
        yield full
        yield torch.randn(m, 2, dtype=torch.float64) @ torch.randn(2, n, dtype=torch.float64)
        yield torch.linalg.qr(full)[0]
        yield full.masked_fill(torch.arange(n) % 2 == 1, 0.0)


def test_the_pages_singular_values_are_pytorchs(js):
    for matrix in matrices():
        full = min(matrix.shape)
        ranks = sorted({0, 1, full // 2, full})
        page = js("low_rank.js", CALL, matrix=matrix.tolist(), ranks=ranks)
        left, values, right = torch.linalg.svd(matrix, full_matrices=False)
        assert page["values"] == pytest.approx(values.tolist(), abs=1e-9)
        squares = values.square().cumsum(0) / values.square().sum()
        assert page["shares"] == pytest.approx([0, *squares.tolist()], abs=1e-12)
        for r, near in zip(ranks, page["near"], strict=True):
            near = torch.tensor(near, dtype=torch.float64)
            assert near.shape == matrix.shape
            # with equal singular values there are several nearest matrices
            missing = values[r:].square().sum().sqrt()
            torch.testing.assert_close(torch.dist(near, matrix), missing, atol=1e-9, rtol=0)
            assert r == full or torch.linalg.matrix_rank(near) <= r
            if r < full and values[r - 1] - values[r] > 0.01:
                want = left[:, :r] * values[:r] @ right[:r]
                torch.testing.assert_close(near, want, atol=1e-7, rtol=0)


@pytest.mark.parametrize("shuffled", [False, True])
def test_the_figure_and_its_page_have_the_same_numbers(js, shuffled):
    figure = LowRank(torch.randn(9, 14), rank=3, shuffled=shuffled)
    body = "const matrix = given.shuffled ? m.shuffle(given.numbers) : given.numbers;"
    body += "const shares = m.sharesOf(m.decompose(matrix).values);"
    body += "return [matrix, shares, m.trained(matrix, 3)];"
    page = js(figure, body, numbers=figure.numbers().tolist())
    assert page[0] == figure.matrix().tolist()
    assert page[1] == pytest.approx(figure.shares())
    assert figure.share() == figure.shares()[3]
    assert page[2] == 3 * 9 + 3 * 14


def test_numbers_are_rounded_to_a_thousandth_of_the_largest():
    change = 0.03 * torch.randn(20, 30)
    figure = LowRank(change)
    largest = change.abs().max().item()
    kept = torch.tensor(figure.numbers()) * largest / 999
    torch.testing.assert_close(kept, change.double(), atol=largest / 1990, rtol=0)
    squares = torch.linalg.svdvals(change.double()).square()
    want = (squares.cumsum(0) / squares.sum()).tolist()
    assert figure.shares()[1:] == pytest.approx(want, abs=1e-3)


@pytest.mark.slow
def test_the_maps_show_the_matrix_and_its_approximation(show):
    figure = LowRank([[9, -3, 0], [3, -1, 0]], rank=1)  # of rank 1: both maps are equal
    page = show(figure)
    pixels = """[...document.querySelectorAll(".lr-map canvas")].map((map) =>
      [...map.getContext("2d").getImageData(0, 0, map.width, map.height).data])"""
    one, other = page.evaluate(pixels)
    assert one == other
    colors = [one[4 * i : 4 * i + 4] for i in range(6)]
    blue, faint_blue = colors[0], colors[3]
    assert blue[2] > 150 and blue[3] > faint_blue[3] > colors[4][3] > 0
    assert colors[1][0] > 200 > colors[1][2]  # orange: negative
    assert colors[2][3] == colors[5][3] == 0
    one, other = show(LowRank([[9, -3, 0], [3, -1, 0]], rank=0)).evaluate(pixels)
    assert any(one) and not any(other)
