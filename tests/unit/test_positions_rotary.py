"""Rotary positions, against the rotation of each pair, and against transformers' Llama."""

import math

import pytest
import torch

from transformer_lib.positions import RotaryPositions

B, H, T, D, LENGTH = 2, 3, 5, 14, 23


def test_every_pair_turns_by_its_angle() -> None:
    rotary, x = RotaryPositions(d_head=D, max_len=LENGTH), torch.randn(B, H, T, D)
    found = rotary(x, offset=11)
    for t in range(T):
        for i in range(D // 2):
            angle = (11 + t) * 10000 ** (-2 * i / D)
            # As complex numbers: the first half are the real parts, the second the imaginary.
            pair = torch.complex(x[:, :, t, i], x[:, :, t, i + D // 2])
            turned = pair * complex(math.cos(angle), math.sin(angle))
            torch.testing.assert_close(found[:, :, t, i], turned.real)
            torch.testing.assert_close(found[:, :, t, i + D // 2], turned.imag)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_rounds_only_once(dtype: torch.dtype) -> None:
    rotary = RotaryPositions(d_head=D, max_len=2048).to(dtype)
    assert rotary.table.dtype is torch.float32
    x = torch.randn(B, H, 2048, D).to(dtype)
    # The table is float32 still, so only the result is rounded.
    exact = RotaryPositions(d_head=D, max_len=2048)(x.float()).to(dtype)
    assert rotary(x).dtype is dtype
    assert rotary(x).equal(exact)
