"""Masks: True = may attend."""

import pytest
import torch

from transformer_lib import causal_mask, padding_mask

B, T, S = 2, 3, 5


def test_padding_mask() -> None:
    ids = torch.tensor([[7, 8, 9, 0, 0], [7, 0, 8, 9, 9]])
    mask = padding_mask(ids)
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


def test_masks_compose() -> None:
    both = padding_mask(torch.tensor([[7, 8, 0], [7, 8, 9]])) & causal_mask(T)
    assert both.shape == (B, 1, T, T)
    assert both[0, 0].int().tolist() == [[1, 0, 0], [1, 1, 0], [1, 1, 0]]
    assert both[1, 0].int().tolist() == [[1, 0, 0], [1, 1, 0], [1, 1, 1]]


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: padding_mask(torch.ones(B, S)), TypeError, "ids.*float32"),
        (lambda: padding_mask(torch.ones(B, S) > 0), TypeError, "ids.*bool"),
        (lambda: padding_mask(torch.ones(S).long()), ValueError, r"ids.*\(B, S\).*\(5,\)"),
        (lambda: causal_mask(-1), ValueError, "t must be at least 0, got -1"),
        (lambda: causal_mask(5, 3), ValueError, r"s \(3\) must be at least t \(5\)"),
    ],
)
def test_errors_name_the_argument(call, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        call()
