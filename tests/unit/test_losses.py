import math
from functools import partial

import pytest
import torch
import torch.nn.functional as F

from transformer_lib import training

B, T, V = 2, 3, 7
cross_entropy = partial(training.cross_entropy, pad_id=0)
r_drop = partial(training.r_drop, pad_id=0)


def test_by_hand_with_smoothing() -> None:
    # p = (1/2, 1/4, 1/4), true class 1, epsilon 0.3:
    # 0.7 * log 4 + 0.1 * (log 2 + log 4 + log 4)
    logits = torch.tensor([[0.5, 0.25, 0.25]], dtype=torch.float64).log()
    loss = cross_entropy(logits, torch.tensor([1]), label_smoothing=0.3)
    expected = 0.7 * math.log(4) + 0.1 * (math.log(2) + 2 * math.log(4))
    assert loss.total.item() == pytest.approx(expected, rel=1e-12)
    assert loss.count.item() == 1


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_equals_torch_per_token_and_skips_padding(smoothing: float) -> None:
    logits = torch.randn(B, T, V, dtype=torch.float64, requires_grad=True)
    labels = torch.tensor([[3, 6, 0], [1, 0, 0]])
    loss = cross_entropy(logits, labels, label_smoothing=smoothing)
    kept = torch.stack([logits[0, 0], logits[0, 1], logits[1, 0]])
    expected = F.cross_entropy(kept, torch.tensor([3, 6, 1]), label_smoothing=smoothing)
    assert loss.count.item() == 3
    torch.testing.assert_close(loss.mean, expected)
    (gradient,) = torch.autograd.grad(loss.total, logits)
    assert gradient[labels == 0].abs().max() == 0
    assert gradient[labels != 0].abs().min() > 0


def test_second_derivatives_and_function_transforms() -> None:
    logits = torch.randn(B, T, V, dtype=torch.float64, requires_grad=True)
    labels = torch.tensor([[3, 6, 0], [1, 0, 0]])

    def total(x: torch.Tensor, y: torch.Tensor = labels) -> torch.Tensor:
        return cross_entropy(x, y, label_smoothing=0.1).total

    torch.autograd.gradgradcheck(total, logits)
    each = torch.stack([total(x, y) for x, y in zip(logits, labels, strict=True)])
    torch.testing.assert_close(torch.func.vmap(total)(logits, labels), each)
    gradients = torch.func.vmap(torch.func.grad(total))(logits, labels)
    torch.testing.assert_close(gradients, torch.func.grad(total)(logits))


def test_any_id_can_be_padding_and_any_integer_a_label() -> None:
    logits = torch.randn(4, V)
    loss = cross_entropy(logits, torch.tensor([0, 5, 5, 5]), pad_id=5)
    assert loss.count == 1
    torch.testing.assert_close(loss.total, -logits[0].log_softmax(-1)[0])
    labels = torch.tensor([0, 1, 6, 5], dtype=torch.uint8)  # where 5 - 256 would be 5
    assert cross_entropy(logits, labels, pad_id=5 - 256).count == 4


def test_half_precision_is_summed_in_float32() -> None:
    logits = (torch.randn(5, V) * 3).bfloat16()
    loss = cross_entropy(logits, torch.tensor([1, 2, 3, 4, 6]), label_smoothing=0.1)
    exact = cross_entropy(logits.double(), torch.tensor([1, 2, 3, 4, 6]), label_smoothing=0.1)
    assert loss.total.dtype is torch.float32
    torch.testing.assert_close(loss.total.double(), exact.total, rtol=1e-6, atol=0)


def test_nothing_but_padding_is_zero_with_zero_gradients() -> None:
    logits = torch.randn(B, T, V, requires_grad=True)
    loss = cross_entropy(logits, torch.zeros(B, T, dtype=torch.int64), label_smoothing=0.1)
    (loss.total / loss.count.clamp(min=1)).backward()
    assert (loss.total.item(), loss.count.item(), loss.mean.item()) == (0, 0, 0)
    assert logits.grad is not None
    torch.testing.assert_close(logits.grad, torch.zeros(B, T, V))


def test_what_would_be_rounded_or_smoothed_away_is_refused() -> None:
    logits, labels = torch.zeros(2, V), torch.tensor([1, 2])
    with pytest.raises(TypeError, match=r"labels.*float32"):
        cross_entropy(logits, labels.float())
    with pytest.raises(ValueError, match=r"label_smoothing.*1.0"):
        cross_entropy(logits, labels, label_smoothing=1.0)


def test_r_drop_is_its_formula() -> None:
    smoothing, alpha = 0.1, 5.0
    one, two = (torch.randn(B, T, V, dtype=torch.float64, requires_grad=True) for _ in range(2))
    labels = torch.tensor([[3, 6, 0], [1, 0, 0]])
    expected = torch.zeros((), dtype=torch.float64)
    for b, t in ((0, 0), (0, 1), (1, 0)):
        p, q = one[b, t].softmax(-1), two[b, t].softmax(-1)
        for logits in (one, two):
            expected = expected + F.cross_entropy(
                logits[b, t], labels[b, t], label_smoothing=smoothing
            )
        divergence = sum(p[k] * (p[k] / q[k]).log() + q[k] * (q[k] / p[k]).log() for k in range(V))
        expected = expected + alpha / 2 * divergence
    loss = r_drop(one, two, labels, alpha=alpha, label_smoothing=smoothing)
    assert loss.count == 3
    torch.testing.assert_close(loss.total, expected / 2)
    gradients = [torch.autograd.grad(x, (one, two)) for x in (loss.total, expected / 2)]
    torch.testing.assert_close(*gradients)
