"""The linear map: both libraries give the same, whatever the input looks like."""

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

import transformer_lib.linear
from transformer_lib import ModelConfig, Transformer
from transformer_lib.linear import Linear, _suits_onednn, linear

T, D, OUT = 131, 257, 263  # their product is just above the size from which oneDNN is used

needs_onednn = pytest.mark.skipif(
    not torch.backends.mkldnn.is_available(), reason="this build of PyTorch has no oneDNN"
)


def inputs(*shape: int) -> list[Tensor]:
    torch.manual_seed(0)
    return [torch.randn(shape), torch.randn(OUT, D) / D**0.5, torch.randn(OUT)]


@needs_onednn
@pytest.mark.parametrize("biased", [True, False])
@pytest.mark.parametrize("shape", [(T, D), (1, T, D), (2, 3, T, D)])
def test_both_libraries_agree_forward_and_backward(shape: tuple[int, ...], biased: bool) -> None:
    arguments = inputs(*shape) if biased else inputs(*shape)[:2]
    for tensor in arguments:
        tensor.requires_grad_()
    assert _suits_onednn(*arguments[:2])
    found, expected = linear(*arguments), F.linear(*arguments)
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)
    weight = torch.randn_like(found)
    for one, other in zip(
        torch.autograd.grad((found * weight).sum(), arguments),
        torch.autograd.grad((expected * weight).sum(), arguments),
        strict=True,
    ):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-4)


@needs_onednn
def test_strided_inputs_and_slices_of_a_weight() -> None:
    x, weight, bias = inputs(T, 2 * D)
    torch.testing.assert_close(
        linear(x[:, ::2], weight, bias), F.linear(x[:, ::2], weight, bias), rtol=1e-5, atol=1e-5
    )
    both = torch.randn(3 * OUT, D, requires_grad=True)
    x = torch.randn(D, T).t()
    (found,) = torch.autograd.grad(linear(x, both[OUT:]).square().sum(), both)
    (expected,) = torch.autograd.grad(F.linear(x, both[OUT:]).square().sum(), both)
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-3)


def test_what_does_not_suit_goes_the_usual_way() -> None:
    x, weight, bias = inputs(T, D)
    for one in ((x.double(), weight.double()), (x.bfloat16(), weight.bfloat16())):
        assert not _suits_onednn(*one)
    assert not _suits_onednn(x[:113], weight)  # too small
    assert not _suits_onednn(torch.randn(D), torch.randn(2**16, D))  # one vector
    assert not _suits_onednn(x, torch.randn(D, OUT).t())
    assert linear(x[:0], weight, bias).shape == (0, OUT)
    with torch.autocast("cpu", torch.bfloat16):
        assert not _suits_onednn(x, weight)
        assert linear(x, weight, bias).dtype is torch.bfloat16


def test_it_is_torchs_layer() -> None:
    x, weight, bias = inputs(T, D)
    layer = Linear(D, OUT)
    layer.load_state_dict({"weight": weight, "bias": bias})
    torch.testing.assert_close(layer(x), F.linear(x, weight, bias), rtol=1e-5, atol=1e-5)
    with pytest.raises(ValueError, match="x must have shape"):
        layer(torch.randn(T, D + 1))


@needs_onednn
def test_a_model_gives_the_same_either_way(monkeypatch: pytest.MonkeyPatch) -> None:
    """Large enough for oneDNN, which the other tests' models are not."""
    torch.manual_seed(0)
    model = Transformer(
        ModelConfig(vocab_size=997, d_model=128, n_heads=4, n_layers=2, d_ff=256, dropout=0.0)
    )
    source, target = torch.randint(3, 997, (13, 41)), torch.randint(3, 997, (13, 43))
    used: list[bool] = []

    def spy(x: Tensor, weight: Tensor) -> bool:
        used.append(_suits_onednn(x, weight))
        return used[-1]

    results = []
    for suits in (spy, lambda x, weight: False):
        monkeypatch.setattr("transformer_lib.linear._suits_onednn", suits)
        model.zero_grad()
        logits = model(source, target)
        logits.square().mean().backward()
        results.append((logits.detach(), [p.grad for p in model.parameters()]))
    (one, gradients), (other, others) = results
    assert used == [True] * (2 * 4 + 2 * 7 + 1)  # every product of both stacks, and the logits
    torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-4)
    for a, b in zip(gradients, others, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-3, atol=1e-6)


def test_inference_gives_the_same_bits_with_and_without_an_operator_of_its_own(monkeypatch) -> None:
    x, weight, bias = torch.randn(7, 11, 256), torch.randn(512, 256), torch.randn(512)
    for shift in (bias, None):
        with torch.no_grad():
            quick = linear(x, weight, shift)
        assert quick.equal(linear(x, weight, shift))  # which has a gradient
        with torch.no_grad(), monkeypatch.context() as patch:
            patch.setattr("transformer_lib.linear._has_inference_op", lambda: False)
            assert quick.equal(linear(x, weight, shift))


def test_small_products_go_to_onednn_in_inference_only(monkeypatch) -> None:
    x, weight = torch.randn(16, 256), torch.randn(768, 256)
    seen: list[bool] = []
    real = transformer_lib.linear._suits_onednn
    monkeypatch.setattr(
        "transformer_lib.linear._suits_onednn", lambda *a: seen.append(real(*a)) or seen[-1]
    )
    linear(x, weight)
    with torch.no_grad():
        torch.testing.assert_close(linear(x, weight), x @ weight.T, rtol=1e-4, atol=1e-4)
    assert seen == [False, torch.backends.mkldnn.is_available()]


def test_large_matrices_do_not_break_a_compiled_graph() -> None:
    """Small ones never asked what suits oneDNN, so that nobody saw the model cut at each matrix."""
    layer, x = Linear(256, 512), torch.randn(2, 64, 256, requires_grad=True)
    compiled = torch.compile(layer, backend="eager", fullgraph=True)
    torch.testing.assert_close(compiled(x), layer(x), rtol=1e-4, atol=1e-4)
