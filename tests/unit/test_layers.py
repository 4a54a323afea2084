"""Where a layer drops. What its parts compute, `test_pretrained*.py` compare with the peers."""

from dataclasses import replace
from typing import Any

import torch
from torch import nn

from transformer_lib import ModelConfig
from transformer_lib.layers import DecoderLayer, Residual

B, T, S = 2, 5, 7
CONFIG = ModelConfig(vocab_size=19, d_model=22, n_heads=2, n_layers=3, d_ff=17, dropout=0.0)
D = CONFIG.d_model


def changed(**changes: Any) -> ModelConfig:
    return replace(CONFIG, **changes)


def test_residual_drops_only_what_is_added() -> None:
    torch.manual_seed(0)
    residual, x = Residual(changed(dropout=0.5)), torch.full((B, T, D), 7.0)
    found = residual(x, torch.ones_like)  # 7 + 0 or 7 + 2
    assert found.unique().tolist() == [7.0, 9.0]
    assert residual.eval()(x, torch.ones_like).eq(8).all()


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
