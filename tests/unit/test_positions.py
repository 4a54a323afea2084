"""Sinusoidal positions, against the paper's formula and by hand."""

import math

import pytest
import torch

from transformer_lib import SinusoidalPositions

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


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: SinusoidalPositions(d_model=7, max_len=5), "d_model must be even.*got 7"),
        (lambda: SinusoidalPositions(d_model=0, max_len=5), "d_model.*got 0"),
        (lambda: SinusoidalPositions(d_model=4, max_len=0), "max_len.*got 0"),
        (lambda: SinusoidalPositions(d_model=4, max_len=5)(torch.zeros(1, 3, 6)), r"\(1, 3, 6\)"),
        (lambda: SinusoidalPositions(d_model=4, max_len=5)(torch.zeros(3, 4)), r"x.*\(3, 4\)"),
        (lambda: SinusoidalPositions(d_model=4, max_len=5)(torch.zeros(1, 6, 4)), r"6.*max_len"),
        (
            lambda: SinusoidalPositions(d_model=4, max_len=5)(torch.zeros(1, 1, 4), offset=5),
            r"6 is longer than max_len \(5\)",
        ),
        (
            lambda: SinusoidalPositions(d_model=4, max_len=5)(torch.zeros(1, 1, 4), offset=-1),
            "offset.*got -1",
        ),
    ],
)
def test_errors_name_the_argument(call, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()
