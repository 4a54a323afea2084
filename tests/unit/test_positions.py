"""Tables of waves: by the paper's formula, and as exact in a model of any precision."""

import math

import pytest
import torch

from transformer_lib.positions import RotaryPositions, SinusoidalPositions

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


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_rotating_in_half_precision_rounds_only_once(dtype: torch.dtype) -> None:
    rotary = RotaryPositions(d_head=D, max_len=2048).to(dtype)
    assert rotary.table.dtype is torch.float32
    x = torch.randn(2, 3, 2048, D).to(dtype)
    # The table is float32 still, so only the result is rounded.
    exact = RotaryPositions(d_head=D, max_len=2048)(x.float()).to(dtype)
    assert rotary(x).dtype is dtype
    assert rotary(x).equal(exact)
