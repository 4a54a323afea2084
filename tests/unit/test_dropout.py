"""Dropout: the right share, the right scale, off when it should be."""

import pytest
import torch

from transformer_lib.dropout import Dropout, drop


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
@pytest.mark.parametrize("p", [0.1, 0.5, 0.9])
def test_share_and_scale(p: float, dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    x = torch.full((101, 103, 17), 2.0, dtype=dtype, requires_grad=True)  # not a multiple of 4
    y = drop(x, p)
    assert y.dtype is dtype
    assert y.shape == x.shape
    kept = y != 0
    assert kept.double().mean().item() == pytest.approx(1 - p, abs=0.004)
    torch.testing.assert_close(y[kept], torch.full_like(y[kept], 2 / (1 - p)))
    # the gradient goes where the number went
    (gradient,) = torch.autograd.grad(y.sum(), x)
    torch.testing.assert_close(gradient, y.detach() / 2)


def test_no_neighbours_go_together() -> None:
    """Four decisions come out of one draw: they must be as independent as any others."""
    torch.manual_seed(0)
    kept = (drop(torch.ones(4 * 50_021), 0.5) != 0).float().view(-1, 4)
    assert torch.corrcoef(kept.T).sub(torch.eye(4)).abs().max() < 0.02
    assert (kept.mean(0) - 0.5).abs().max() < 0.01


def test_the_seed_decides() -> None:
    torch.manual_seed(5)
    first = drop(torch.ones(1013), 0.3)
    second = drop(torch.ones(1013), 0.3)
    torch.manual_seed(5)
    assert drop(torch.ones(1013), 0.3).equal(first)
    assert not second.equal(first)


def test_nothing_to_drop() -> None:
    x = torch.randn(3, 5)
    assert drop(x, 0.0) is x
    assert Dropout(0.5).eval()(x) is x
    assert drop(torch.ones(0, 3), 0.5).shape == (0, 3)
    assert drop(torch.tensor(1.0), 0.5).item() in (0.0, 2.0)


def test_the_extremes() -> None:
    assert drop(torch.ones(1000), 1e-9).eq(1).all()
    assert drop(torch.ones(1000), 1 - 1e-9).eq(0).float().mean() > 0.99
