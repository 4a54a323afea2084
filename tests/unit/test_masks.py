"""Masks: True = may attend."""

import pytest
import torch

from transformer_lib import causal_mask, padding_mask
from transformer_lib.masks import local_mask

B, T, S = 2, 3, 5


def test_padding_mask() -> None:
    ids = torch.tensor([[7, 8, 9, 0, 0], [7, 0, 8, 9, 9]])
    mask = padding_mask(ids, 0)
    assert mask.dtype is torch.bool
    assert mask.shape == (B, 1, 1, S)
    assert mask[:, 0, 0].tolist() == [[True] * 3 + [False] * 2, [True, False] + [True] * 3]
    assert padding_mask(ids, pad_id=9)[0, 0, 0].tolist() == [True, True, False, True, True]


def test_causal_mask_sees_itself_and_what_came_before() -> None:
    mask = causal_mask(T)
    assert mask.dtype is torch.bool
    assert mask.tolist() == [[True, False, False], [True, True, False], [True, True, True]]


def test_causal_mask_knows_its_offset() -> None:
    full = causal_mask(S)
    for t in range(S + 1):
        assert causal_mask(t, S).equal(full[S - t :])


@pytest.mark.parametrize("window", [0, 1, 2, 4, 9, 2**70])
def test_local_mask_sees_its_neighborhood(window: int) -> None:
    mask = local_mask(T, S, window=window)
    assert mask.dtype is torch.bool
    assert mask.shape == (T, S)
    for i in range(T):
        for j in range(S):
            assert mask[i, j] == (abs(S - T + i - j) <= window)
    assert local_mask(S, window=window)[S - T :].equal(mask)
    assert local_mask(0, window=window).shape == (0, 0)
