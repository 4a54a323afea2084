"""The parts of a layer, against torch's and against arithmetic."""

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from transformer_lib import ModelConfig
from transformer_lib.blocks import (
    DecoderLayer,
    EncoderLayer,
    FeedForward,
    LayerNorm,
    Residual,
    layer_norm,
)
from transformer_lib.dropout import Dropout

B, T, S = 2, 5, 7
CONFIG = ModelConfig(vocab_size=19, d_model=22, n_heads=2, n_layers=3, d_ff=17, dropout=0.0)
D = CONFIG.d_model


def changed(**changes: Any) -> ModelConfig:
    from dataclasses import replace

    return replace(CONFIG, **changes)


@pytest.mark.parametrize("eps", [1e-5, 0.5])
def test_layer_norm_by_hand_is_the_kernel_is_torchs(eps: float) -> None:
    torch.manual_seed(0)
    x = torch.randn(B, T, D, dtype=torch.float64) * 3 + 2
    ours, theirs = LayerNorm(D, eps).double(), nn.LayerNorm(D, eps).double()
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


@pytest.mark.parametrize(("activation", "function"), [("relu", F.relu), ("gelu", F.gelu)])
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
    shares = [module.p for module in layer.modules() if isinstance(module, Dropout)]
    assert shares == [0.25] * 4  # three residuals and inside the feed-forward
    assert layer.self_attention.dropout == layer.cross_attention.dropout == 0.25
    x, memory = torch.randn(B, T, D), torch.randn(B, S, D)
    assert not layer(x, memory).equal(layer(x, memory))
    layer.eval()
    assert layer(x, memory).equal(layer(x, memory))


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
