"""Positions added to the vectors: sinusoidal, against the paper's formula, and learned."""

import math

import pytest
import torch

from transformer_lib.positions import LearnedPositions, SinusoidalPositions

D, LENGTH = 14, 23


def test_the_papers_formula() -> None:
    found = SinusoidalPositions(d_model=D, max_len=LENGTH)(torch.zeros(1, LENGTH, D))[0]
    for pos in range(LENGTH):
        for i in range(D // 2):
            angle = pos / 10000 ** (2 * i / D)
            assert found[pos, 2 * i].item() == pytest.approx(math.sin(angle), abs=1e-6)
            assert found[pos, 2 * i + 1].item() == pytest.approx(math.cos(angle), abs=1e-6)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_the_table_stays_float32(dtype: torch.dtype) -> None:
    positions = SinusoidalPositions(d_model=D, max_len=2048)
    exact = positions.table.clone()
    # through the coarsest on the way: a table that had been rounded would stay so
    cast = positions.to(torch.bfloat16).to(dtype)
    assert cast.table.dtype is torch.float32
    assert cast.table.equal(exact)
    assert cast(torch.zeros(1, 3, D, dtype=dtype)).dtype is dtype


def test_learned_positions_add_their_rows() -> None:
    positions, x = LearnedPositions(d_model=D, max_len=LENGTH), torch.randn(2, 5, D)
    found = positions(x, offset=11)
    for i in range(5):
        torch.testing.assert_close(found[:, i], x[:, i] + positions.table[11 + i])
    assert positions(x.bfloat16()).dtype is torch.bfloat16
    assert set(positions.state_dict()) == {"table"}
