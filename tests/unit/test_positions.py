"""Positions added to the vectors: sinusoidal, against the paper's formula, and learned."""

import math

import pytest
import torch

from transformer_lib.positions import LearnedPositions, SinusoidalPositions

D, LENGTH = 14, 23


def table(positions: SinusoidalPositions) -> torch.Tensor:
    return positions(torch.zeros(1, positions.max_len, positions.d_model))[0]


def test_the_papers_formula() -> None:
    found = table(SinusoidalPositions(d_model=D, max_len=LENGTH))
    for pos in range(LENGTH):
        for i in range(D // 2):
            angle = pos / 10000 ** (2 * i / D)
            assert found[pos, 2 * i].item() == pytest.approx(math.sin(angle), abs=1e-6)
            assert found[pos, 2 * i + 1].item() == pytest.approx(math.cos(angle), abs=1e-6)


def test_the_last_row_of_the_four_by_four_example() -> None:
    # embedding + position, as in the well-known worked example: 0.4 + sin 3 and so on
    embedded = torch.tensor([[[0.0] * 4, [0.0] * 4, [0.0] * 4, [0.4, 0.5, 0.6, 0.7]]])
    row = SinusoidalPositions(d_model=4, max_len=4)(embedded)[0, 3]
    assert [round(x, 3) for x in row.tolist()] == [0.541, -0.490, 0.630, 1.700]
    # the often printed 0.895, 1.655 belong to base 100
    row = SinusoidalPositions(d_model=4, max_len=4, base=100.0)(embedded)[0, 3]
    assert [round(x, 3) for x in row.tolist()] == [0.541, -0.490, 0.896, 1.655]


def test_offset_counts_on() -> None:
    positions, x = SinusoidalPositions(d_model=D, max_len=LENGTH), torch.randn(2, LENGTH, D)
    whole = positions(x)
    torch.testing.assert_close(positions(x[:, 11:], offset=11), whole[:, 11:])
    torch.testing.assert_close(positions(x[:, 11:12], offset=11), whole[:, 11:12])


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_the_table_stays_float32(dtype: torch.dtype) -> None:
    positions = SinusoidalPositions(d_model=D, max_len=2048)
    exact = positions.table.clone()
    # through the coarsest on the way: a table that had been rounded would stay so
    cast = positions.to(torch.bfloat16).to(dtype)
    assert cast.table.dtype is torch.float32
    assert cast.table.equal(exact)
    assert cast(torch.zeros(1, 3, D, dtype=dtype)).dtype is dtype


def test_the_table_survives_being_emptied() -> None:
    exact = SinusoidalPositions(d_model=D, max_len=LENGTH).table
    with torch.device("meta"):
        positions = SinusoidalPositions(d_model=D, max_len=LENGTH)
    assert positions.to_empty(device="cpu").table.equal(exact)


def test_the_table_is_not_saved() -> None:
    assert SinusoidalPositions(d_model=D, max_len=LENGTH).state_dict() == {}


def test_learned_positions_add_their_rows() -> None:
    positions, x = LearnedPositions(d_model=D, max_len=LENGTH), torch.randn(2, 5, D)
    found = positions(x, offset=11)
    for i in range(5):
        torch.testing.assert_close(found[:, i], x[:, i] + positions.table[11 + i])
    assert positions(x.bfloat16()).dtype is torch.bfloat16
    assert set(positions.state_dict()) == {"table"}


def test_learned_positions_are_learned_and_start_small() -> None:
    positions = LearnedPositions(d_model=128, max_len=512)
    assert positions.table.std().item() == pytest.approx(0.02, rel=0.05)
    positions(torch.zeros(3, 2, 128), offset=7).sum().backward()
    assert positions.table.grad is not None
    expected = torch.zeros(512, 128)
    expected[7:9] = 3  # once per row of the batch
    torch.testing.assert_close(positions.table.grad, expected)


SCHEMES = [SinusoidalPositions, LearnedPositions]


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda new: new(d_model=0, max_len=5), ValueError, "d_model.*got 0"),
        (lambda new: new(d_model=4, max_len="5"), TypeError, "max_len.*got '5'"),
        (lambda new: new(d_model=4, max_len=5)(torch.zeros(1, 3, 6)), ValueError, r"\(1, 3, 6\)"),
        (lambda new: new(d_model=4, max_len=5)([[[0.0] * 4]]), TypeError, "x.*list"),
        (lambda new: new(d_model=4, max_len=5)(torch.ones(1, 3, 4).long()), TypeError, "x.*int64"),
        (lambda new: new(d_model=4, max_len=5)(torch.zeros(1, 6, 4)), ValueError, "6.*max_len"),
        (lambda new: new(d_model=4, max_len=5)(torch.zeros(1, 1, 4), 5), ValueError,
         r"6 is longer than max_len \(5\)"),
        (lambda new: new(d_model=4, max_len=5)(torch.zeros(1, 1, 4), -1), ValueError, "offset.*-1"),
        (lambda new: new(d_model=4, max_len=5)(torch.zeros(1, 1, 4), 1.0), TypeError, "offset.*1"),
    ],
)  # fmt: skip
def test_errors_name_the_argument(scheme, call, error, message: str) -> None:
    with pytest.raises(error, match=message):
        call(scheme)


@pytest.mark.parametrize("base", [0.5, -1.0, math.nan, math.inf])
def test_a_base_that_is_no_ratio(base: float) -> None:
    with pytest.raises(ValueError, match="base"):
        SinusoidalPositions(d_model=4, max_len=5, base=base)
    with pytest.raises(ValueError, match=r"d_model must be even.*got 7"):
        SinusoidalPositions(d_model=7, max_len=5)
