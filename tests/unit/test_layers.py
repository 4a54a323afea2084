"""The parts of a layer, against torch's and against arithmetic."""

from dataclasses import replace
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from transformer_lib import ModelConfig
from transformer_lib.layers import (
    DecoderLayer,
    EncoderLayer,
    FeedForward,
    LayerNorm,
    Residual,
    RMSNorm,
    layer_norm,
    rms_norm,
)

B, T, S = 2, 5, 7
CONFIG = ModelConfig(vocab_size=19, d_model=22, n_heads=2, n_layers=3, d_ff=17, dropout=0.0)
D = CONFIG.d_model


def changed(**changes: Any) -> ModelConfig:
    return replace(CONFIG, **changes)


@pytest.mark.parametrize("eps", [1e-5, 0.5])
def test_layer_norm_by_hand_is_the_kernel_is_torchs(eps: float) -> None:
    torch.manual_seed(0)
    x = torch.randn(B, T, D, dtype=torch.float64) * 3 + 2
    ours, theirs = LayerNorm(D, eps).double(), nn.LayerNorm(D, eps).double()
    assert LayerNorm(D).eps == nn.LayerNorm(D).eps
    nn.init.normal_(ours.weight)
    nn.init.normal_(ours.bias)
    theirs.load_state_dict(ours.state_dict())
    torch.testing.assert_close(ours(x), theirs(x))
    torch.testing.assert_close(layer_norm(x, ours.weight, ours.bias, eps), theirs(x))


def test_layer_norm_divides_by_the_biased_deviation_with_eps_under_the_root() -> None:
    # 1 and 3: mean 2, biased variance 1; with eps 3 the divisor is 2
    for function in (layer_norm, lambda x, w, b, eps: LayerNorm(2, eps)(x)):
        found = function(torch.tensor([1.0, 3.0]), torch.ones(2), torch.zeros(2), 3.0)
        torch.testing.assert_close(found, torch.tensor([-0.5, 0.5]))


@pytest.mark.parametrize("eps", [1e-5, 0.5])
def test_rms_norm_by_hand_is_the_kernel_is_torchs(eps: float) -> None:
    torch.manual_seed(0)
    x = torch.randn(B, T, D, dtype=torch.float64) * 3 + 2
    ours, theirs = RMSNorm(D, eps).double(), nn.RMSNorm(D, eps).double()
    nn.init.normal_(ours.weight)
    theirs.load_state_dict(ours.state_dict())
    torch.testing.assert_close(ours(x), theirs(x))
    torch.testing.assert_close(rms_norm(x, ours.weight, eps), theirs(x))


def test_rms_norm_keeps_the_mean_and_has_eps_under_the_root() -> None:
    # 1 and 7: mean square 25; with eps 11 the divisor is 6
    for function in (rms_norm, lambda x, w, eps: RMSNorm(2, eps)(x)):
        found = function(torch.tensor([1.0, 7.0]), torch.ones(2), 11.0)
        torch.testing.assert_close(found, torch.tensor([1 / 6, 7 / 6]))


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda x: layer_norm(x, torch.ones(3), torch.zeros(3), 1e-5), ValueError, "weight must"),
        (lambda x: layer_norm(x, torch.ones(D), torch.zeros(D), 0.0), ValueError, "eps must"),
        (lambda x: layer_norm(x, torch.ones(D), torch.zeros(3), 1e-5), ValueError, "bias must"),
        (lambda x: rms_norm(x.long(), torch.ones(D), 1e-5), TypeError, "x must be a float"),
        (lambda x: rms_norm([1.0], torch.ones(1), 1e-5), TypeError, "x must be a float"),
        (lambda x: rms_norm(x[..., :0], torch.ones(0), 1e-5), ValueError, "weight must"),
        (lambda x: LayerNorm(0), ValueError, "d_model must"),
        (lambda x: RMSNorm(3, -1.0), ValueError, "eps must"),
    ],
)
def test_norms_name_the_argument(call, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        call(torch.randn(B, T, D))


def test_a_config_decides_on_the_norm() -> None:
    norms = {type(m) for m in EncoderLayer(changed(norm="rms")).modules() if "Norm" in repr(m)[:9]}
    assert norms == {RMSNorm}


def test_swiglu_multiplies_by_a_gate() -> None:
    torch.manual_seed(0)
    block, x = FeedForward(changed(activation="swiglu")), torch.randn(B, T, D)
    for linear in (block.up, block.gate, block.down):
        nn.init.normal_(linear.bias)
    up, gate, down = block.up, block.gate, block.down
    opened = x @ gate.weight.T + gate.bias
    opened = opened * opened.sigmoid()  # SiLU
    expected = (opened * (x @ up.weight.T + up.bias)) @ down.weight.T + down.bias
    torch.testing.assert_close(block(x), expected)


@pytest.mark.parametrize(
    ("activation", "function"),
    [
        ("relu", F.relu),
        ("gelu", F.gelu),
        ("silu", lambda x: x * x.sigmoid()),
        ("gelu_tanh", lambda x: x / 2 * (1 + (0.7978845608 * (x + 0.044715 * x**3)).tanh())),
    ],
)
def test_feed_forward(activation: str, function) -> None:
    torch.manual_seed(0)
    block, x = FeedForward(changed(activation=activation)), torch.randn(B, T, D)
    nn.init.normal_(block.up.bias)
    up, down = block.up, block.down
    expected = function(x @ up.weight.T + up.bias) @ down.weight.T + down.bias
    torch.testing.assert_close(block(x), expected)
    torch.testing.assert_close(block(x)[:, 2], block(x[:, 2]))  # each position by itself


def test_residual_puts_the_norm_before_or_after() -> None:
    torch.manual_seed(0)
    x = torch.randn(B, T, D) * 3 + 1

    def double(x: torch.Tensor) -> torch.Tensor:
        return 2 * x

    norm = nn.LayerNorm(D)
    pre, post = Residual(changed(pre_norm=True)), Residual(changed(pre_norm=False))
    torch.testing.assert_close(pre(x, double), x + 2 * norm(x))
    torch.testing.assert_close(post(x, double), norm(3 * x))


def test_residual_drops_only_what_is_added() -> None:
    torch.manual_seed(0)
    residual, x = Residual(changed(dropout=0.5)), torch.full((B, T, D), 7.0)
    found = residual(x, torch.ones_like)  # 7 + 0 or 7 + 2
    assert found.unique().tolist() == [7.0, 9.0]
    assert residual.eval()(x, torch.ones_like).eq(8).all()


@pytest.mark.parametrize("pre_norm", [True, False])
def test_layers_are_their_sublayers_in_order(pre_norm: bool) -> None:
    torch.manual_seed(0)
    config = changed(pre_norm=pre_norm)
    x, memory = torch.randn(B, T, D), torch.randn(B, S, D)
    mask, memory_mask = torch.rand(B, 1, 1, T) < 0.8, torch.rand(B, 1, 1, S) < 0.8

    encoder = EncoderLayer(config)
    y = encoder.attention_residual(x, lambda x: encoder.self_attention(x, mask=mask))
    y = encoder.feed_forward_residual(y, encoder.feed_forward)
    torch.testing.assert_close(encoder(x, mask), y)

    decoder = DecoderLayer(config)
    y = decoder.self_residual(x, lambda x: decoder.self_attention(x, mask=mask))
    y = decoder.cross_residual(y, lambda x: decoder.cross_attention(x, memory, mask=memory_mask))
    y = decoder.feed_forward_residual(y, decoder.feed_forward)
    torch.testing.assert_close(decoder(x, memory, mask=mask, memory_mask=memory_mask), y)


def test_dropout_is_where_the_config_says_and_off_in_evaluation() -> None:
    torch.manual_seed(0)
    layer = DecoderLayer(changed(dropout=0.25))
    shares = [module.p for module in layer.modules() if isinstance(module, nn.Dropout)]
    assert shares == [0.25] * 6  # both attentions, inside the feed-forward, three residuals
    x, memory = torch.randn(B, T, D), torch.randn(B, S, D)
    assert not layer(x, memory).equal(layer(x, memory))
    layer.eval()
    assert layer(x, memory).equal(layer(x, memory))
    for module in layer.modules():  # Monte Carlo dropout, in one attention alone
        if isinstance(module, nn.Dropout):
            module.train()
            module.p = 0.5 if module is layer.self_attention.dropout else 0.0
    assert not layer(x, memory).equal(layer(x, memory))


def test_attention_and_the_feed_forward_part_may_have_a_dropout_of_their_own() -> None:
    config = changed(dropout=0.25, attention_dropout=0.0, activation_dropout=0.5)
    layer = DecoderLayer(config)
    assert layer.feed_forward.dropout.p == 0.5
    residuals = (layer.self_residual, layer.cross_residual, layer.feed_forward_residual)
    assert [residual.dropout.p for residual in residuals] == [0.25] * 3
    assert layer.self_attention.dropout.p == layer.cross_attention.dropout.p == 0
    layer = DecoderLayer(changed(dropout=0.25, activation_dropout=0))
    assert layer.feed_forward.dropout.p == 0, "0 is a setting, not one left out"
    assert layer.self_attention.dropout.p == 0.25


@pytest.mark.parametrize("pre_norm", [True, False])
def test_a_hidden_row_does_not_poison_two_stacked_layers(pre_norm: bool) -> None:
    """On the plain -inf path one empty row makes every row NaN by the second layer."""
    torch.manual_seed(0)
    config = changed(pre_norm=pre_norm)
    layers = nn.ModuleList([EncoderLayer(config), EncoderLayer(config)])
    x = torch.randn(B, T, D, requires_grad=True)
    mask = torch.ones(B, 1, T, T, dtype=torch.bool)
    mask[0, :, 1] = False  # one query sees nothing
    mask[1] = False  # nobody sees anything
    y = x
    for layer in layers:
        y = layer(y, mask)
    y.square().sum().backward()
    assert y.isfinite().all()
    for tensor in (x, *layers.parameters()):
        assert tensor.grad is not None
        assert tensor.grad.isfinite().all()
