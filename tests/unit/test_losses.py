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


def written_out(logits: torch.Tensor, labels: torch.Tensor, smoothing: float) -> torch.Tensor:
    """The formula in operations that autograd knows; label 0 is padding."""
    log_p = logits.log_softmax(-1)
    true = log_p.gather(-1, labels[..., None]).squeeze(-1)
    each = -(1 - smoothing) * true - smoothing * log_p.mean(-1)
    return each[labels != 0].sum()


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_second_derivatives(smoothing: float) -> None:
    logits = torch.randn(B, T, V, dtype=torch.float64, requires_grad=True)
    labels = torch.tensor([[3, 6, 0], [1, 0, 0]])

    def total(x: torch.Tensor) -> torch.Tensor:
        return cross_entropy(x, labels, label_smoothing=smoothing).total

    found = torch.autograd.functional.hessian(total, logits)
    expected = torch.autograd.functional.hessian(
        lambda x: written_out(x, labels, smoothing), logits
    )
    assert expected.abs().max() > 0.1
    torch.testing.assert_close(found, expected)
    torch.autograd.gradgradcheck(total, logits)


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_function_transforms(smoothing: float) -> None:
    logits, labels = torch.randn(B, T, V), torch.tensor([[3, 6, 0], [1, 0, 0]])

    def total(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return cross_entropy(x, y, label_smoothing=smoothing).total

    each = [written_out(x, y, smoothing) for x, y in zip(logits, labels, strict=True)]
    torch.testing.assert_close(torch.func.vmap(total)(logits, labels), torch.stack(each))
    counts = torch.func.vmap(lambda x, y: cross_entropy(x, y).count)(logits, labels)
    assert counts.tolist() == [2, 1]
    gradients = torch.func.vmap(torch.func.grad(total))(logits, labels)
    torch.testing.assert_close(
        gradients, torch.func.grad(lambda x: written_out(x, labels, smoothing))(logits)
    )


def test_it_compiles_as_one_graph() -> None:
    def total(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return cross_entropy(x, y, label_smoothing=0.1).mean

    compiled = torch.compile(total, backend="aot_eager", fullgraph=True, dynamic=True)
    for length in (3, 5):
        logits = torch.randn(B, length, V, requires_grad=True)
        labels = torch.randint(0, V, (B, length))
        losses = [f(logits, labels) for f in (compiled, total)]
        torch.testing.assert_close(*losses)
        torch.testing.assert_close(*(torch.autograd.grad(x, logits)[0] for x in losses))


def test_any_id_can_be_padding_and_any_integer_a_label() -> None:
    logits = torch.randn(4, V)
    loss = cross_entropy(logits, torch.tensor([0, 5, 5, 5]), pad_id=5)
    assert loss.count == 1
    torch.testing.assert_close(loss.total, -logits[0].log_softmax(-1)[0])
    labels = torch.tensor([0, 1, 6, 5], dtype=torch.uint8)  # where 5 - 256 would be 5
    assert cross_entropy(logits, labels, pad_id=5 - 256).count == 4


def test_a_forbidden_token_costs_nothing_without_smoothing() -> None:
    logits = torch.randn(4, V, dtype=torch.float64)
    logits[:, 5] = -math.inf
    logits[3, 1] = -math.inf  # the label of the last row is forbidden, too: an infinite loss
    labels = torch.tensor([3, 6, 1, 1])
    for rows in (slice(0, 3), slice(0, 4)):
        here = logits[rows].clone().requires_grad_()
        loss = cross_entropy(here, labels[rows])
        expected = F.cross_entropy(here, labels[rows], reduction="sum")
        assert loss.total.item() == pytest.approx(expected.item())
        gradients = [torch.autograd.grad(total, here)[0] for total in (loss.total, expected)]
        torch.testing.assert_close(*gradients, rtol=1e-12, atol=1e-12)
    assert loss.total == math.inf


def test_a_forbidden_token_costs_infinitely_much_with_smoothing() -> None:
    logits = torch.randn(2, V)
    logits[0, 5] = -math.inf
    labels = torch.tensor([3, 6])
    assert cross_entropy(logits, labels, label_smoothing=0.1).total == math.inf
    assert F.cross_entropy(logits, labels, label_smoothing=0.1) == math.inf
    finite = cross_entropy(logits, torch.tensor([0, 6]), label_smoothing=0.1)  # padding
    expected = F.cross_entropy(logits[1:], labels[1:], label_smoothing=0.1)
    torch.testing.assert_close(finite.total, expected)


def test_half_precision_is_summed_in_float32() -> None:
    dtype = torch.bfloat16
    logits = (torch.randn(5, V) * 3).to(dtype).requires_grad_()
    loss = cross_entropy(logits, torch.tensor([1, 2, 3, 4, 6]), label_smoothing=0.1)
    exact = cross_entropy(logits.double(), torch.tensor([1, 2, 3, 4, 6]), label_smoothing=0.1)
    assert loss.total.dtype is torch.float32
    torch.testing.assert_close(loss.total.double(), exact.total, rtol=1e-6, atol=0)
    (gradient,) = torch.autograd.grad(loss.total, logits)
    assert gradient.dtype is dtype
    (expected,) = torch.autograd.grad(exact.total, logits)
    torch.testing.assert_close(gradient, expected, rtol=1e-2, atol=1e-3)


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_nothing_but_padding_is_zero_with_zero_gradients(smoothing: float) -> None:
    logits = torch.randn(B, T, V, requires_grad=True)
    loss = cross_entropy(logits, torch.zeros(B, T, dtype=torch.int64), label_smoothing=smoothing)
    (loss.total / loss.count.clamp(min=1)).backward()
    assert (loss.total.item(), loss.count.item(), loss.mean.item()) == (0, 0, 0)
    assert logits.grad is not None
    torch.testing.assert_close(logits.grad, torch.zeros(B, T, V))


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"logits": torch.zeros(B, T, V, dtype=torch.int64)}, TypeError, "logits.*int64"),
        ({"labels": torch.zeros(B, T)}, TypeError, "labels.*float32"),
        ({"labels": torch.zeros(B, T, dtype=torch.bool)}, TypeError, "labels.*bool"),
        ({"labels": torch.zeros(B, T + 1, dtype=torch.int64)}, ValueError, r"\(2, 4\)"),
        ({"logits": torch.tensor(1.0)}, ValueError, "logits"),
        ({"labels": torch.full((B, T), V)}, ValueError, r"\[0, 7\): Target 7 is"),
        ({"labels": torch.full((B, T), -100), "pad_id": None}, ValueError, "Target -100 is"),
        ({"label_smoothing": 1.0}, ValueError, "label_smoothing.*1.0"),
        ({"labels": 3}, TypeError, "labels must be a Tensor, got int"),
        ({"labels": torch.ones(B, T, dtype=torch.int64, device="meta")}, ValueError, "labels.*cpu"),
        ({"logits": torch.zeros(B, T, 0)}, ValueError, r"logits.*\(2, 3, 0\)"),
        ({"pad_id": 0.0}, TypeError, "pad_id.*0.0"),
    ],
)
def test_errors_name_the_argument(change: dict, error: type[Exception], message: str) -> None:
    good = {"logits": torch.zeros(B, T, V), "labels": torch.ones(B, T, dtype=torch.int64)}
    arguments = good | change
    with pytest.raises(error, match=message):
        cross_entropy(arguments.pop("logits"), arguments.pop("labels"), **arguments)


@pytest.mark.parametrize(("smoothing", "alpha"), [(0.0, 2.0), (0.1, 5.0)])
def test_r_drop_is_its_formula(smoothing: float, alpha: float) -> None:
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


def test_passes_that_agree_cost_what_one_does() -> None:
    logits, labels = torch.randn(B, T, V), torch.tensor([[3, 6, 0], [1, 0, 0]])
    loss = r_drop(logits, logits.clone(), labels, label_smoothing=0.1)
    torch.testing.assert_close(loss.total, cross_entropy(logits, labels, label_smoothing=0.1).total)
    half = r_drop(logits.bfloat16(), logits.flip(-1).bfloat16(), labels)
    assert half.total.dtype is torch.float32


def test_r_drop_of_a_forbidden_token_is_that_of_the_others() -> None:
    """A logit of -inf adds nothing in both passes; in one alone, they are infinitely far apart."""
    one, two = torch.randn(2, 3, 5)
    labels = torch.tensor([1, 2, 3])
    wanted = r_drop(one, two, labels)
    forbidden = torch.full((3, 1), float("-inf"))
    one, two = (torch.cat([x, forbidden], dim=-1).requires_grad_() for x in (one, two))
    loss = r_drop(one, two, labels)
    torch.testing.assert_close(loss.total, wanted.total)
    loss.total.backward()
    assert one.grad.isfinite().all() and two.grad.isfinite().all()
    assert r_drop(one, torch.randn(3, 6), labels).total == float("inf")


def test_r_drop_errors_name_the_argument() -> None:
    logits, labels = torch.zeros(B, T, V), torch.ones(B, T, dtype=torch.int64)
    for others in (logits[:, :2], torch.zeros(B, T, V + 1)):
        with pytest.raises(ValueError, match=r"others must have the shape of logits, \(2, 3, 7\)"):
            r_drop(logits, others, labels)
    with pytest.raises(TypeError, match="others must be a Tensor, got int"):
        r_drop(logits, 3, labels)
    with pytest.raises(ValueError, match=r"alpha.*-1"):
        r_drop(logits, logits, labels, alpha=-1)
