"""Rotary positions, against the rotation of each pair, and against transformers' Llama."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

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


def test_parity_with_llama() -> None:
    llama = pytest.importorskip("transformers.models.llama.modeling_llama")
    config = llama.LlamaConfig(
        hidden_size=H * D, num_attention_heads=H, head_dim=D, max_position_embeddings=LENGTH
    )
    query, key = torch.randn(B, H, T, D), torch.randn(B, H, T, D)
    cos, sin = llama.LlamaRotaryEmbedding(config)(query, torch.arange(7, 7 + T)[None])
    their_query, their_key = llama.apply_rotary_pos_emb(query, key, cos, sin)
    rotary = RotaryPositions(d_head=D, max_len=LENGTH)
    torch.testing.assert_close(rotary(query, offset=7), their_query)
    torch.testing.assert_close(rotary(key, offset=7), their_key)


def test_the_papers_pairs_are_a_reordering() -> None:
    x = torch.randn(B, H, T, D, dtype=torch.float64)
    halves = torch.cat((x[..., 0::2], x[..., 1::2]), dim=-1)  # (2i, 2i + 1) -> (i, i + d/2)
    found = RotaryPositions(d_head=D, max_len=LENGTH)(halves)
    for i in range(D // 2):
        angle = torch.arange(T, dtype=torch.float64) * 10000 ** (-2 * i / D)
        pair = torch.view_as_complex(x[..., 2 * i : 2 * i + 2].contiguous())
        turned = pair * torch.polar(torch.ones_like(angle), angle)
        torch.testing.assert_close(found[..., i], turned.real, rtol=0, atol=1e-6)


@settings(max_examples=50, deadline=None)
@given(
    st.integers(0, LENGTH - 1), st.integers(0, LENGTH - 1), st.integers(0, 500), st.integers(0, 99)
)
def test_a_dot_product_depends_on_the_distance_only(i: int, j: int, far: int, seed: int) -> None:
    rotary = RotaryPositions(d_head=D, max_len=LENGTH + 500)
    torch.manual_seed(seed)
    query, key = torch.randn(2, 1, 1, 1, D)
    here = (rotary(query, i) * rotary(key, j)).sum()
    there = (rotary(query, i + far) * rotary(key, j + far)).sum()
    torch.testing.assert_close(here, there, rtol=0, atol=1e-5)


def test_an_offset_counts_on() -> None:
    rotary, x = RotaryPositions(d_head=D, max_len=LENGTH), torch.randn(B, H, LENGTH, D)
    whole = rotary(x)
    assert rotary(x[:, :, 11:], offset=11).equal(whole[:, :, 11:])
    assert rotary(x[:, :, 11:12], offset=11).equal(whole[:, :, 11:12])
    assert rotary(x[:, :, :0], offset=11).shape == (B, H, 0, D)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_rounds_only_once(dtype: torch.dtype) -> None:
    rotary = RotaryPositions(d_head=D, max_len=2048).to(dtype)
    assert rotary.table.dtype is torch.float32
    x = torch.randn(B, H, 2048, D).to(dtype)
    # The table is float32 still, so only the result is rounded.
    exact = RotaryPositions(d_head=D, max_len=2048)(x.float()).to(dtype)
    assert rotary(x).dtype is dtype
    assert rotary(x).equal(exact)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: RotaryPositions(d_head=7, max_len=5), ValueError, "d_head must be even, got 7"),
        (lambda: RotaryPositions(d_head=4, max_len=None), TypeError, "max_len.*None"),  # pyright: ignore
        (lambda: RotaryPositions(d_head=4, max_len=5, base=0.0), ValueError, "base.*0.0"),
        (lambda: RotaryPositions(d_head=4, max_len=5)(torch.zeros(1, 2, 4)), ValueError,
         r"x must have shape \(B, H, T, 4\), got \(1, 2, 4\)"),
        (lambda: RotaryPositions(d_head=4, max_len=5)(torch.zeros(1, 2, 3, 6)), ValueError,
         r"x.*\(1, 2, 3, 6\)"),
        (lambda: RotaryPositions(d_head=4, max_len=5)(torch.zeros(1, 2, 3, 4).int()), TypeError,
         "x must be floating point.*int32"),
        (lambda: RotaryPositions(d_head=4, max_len=5)(torch.zeros(1, 2, 3, 4), 3), ValueError,
         r"6 is longer than max_len \(5\)"),
        (lambda: RotaryPositions(d_head=4, max_len=5)(torch.zeros(1, 2, 3, 4), -1), ValueError,
         "offset.*-1"),
    ],
)  # fmt: skip
def test_errors_name_the_argument(call, error, message: str) -> None:
    with pytest.raises(error, match=message):
        call()
