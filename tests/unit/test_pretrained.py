"""Parity with torch: same weights, same numbers."""

from typing import Any

import pytest
import torch
from torch import nn

from transformer_lib import EncoderDecoder, record_attention
from transformer_lib.pretrained import from_torch

B, T, S, H, D, FF = 2, 5, 7, 3, 12, 17
# PyTorch warns that it can't use its nested tensors
pytestmark = pytest.mark.filterwarnings("ignore:enable_nested_tensor is True")


def torch_transformer(dtype: torch.dtype = torch.float64, **options: Any) -> nn.Transformer:
    torch.manual_seed(0)
    options = {"nhead": H, "num_encoder_layers": 2, "num_decoder_layers": 3} | options
    peer = nn.Transformer(
        D, dim_feedforward=FF, dropout=0.1, batch_first=True, dtype=dtype, **options
    )
    for parameter in peer.parameters():  # biases of 0 and norms of 1 hide mistakes
        nn.init.normal_(parameter, std=0.3)
    return peer.eval()


def compare(peer: nn.Transformer, dtype: torch.dtype = torch.float64) -> None:
    """Two sources and two targets of different length, and the gradients; S and T differ."""
    torch.manual_seed(1)
    given = [torch.randn(B, n, D, dtype=dtype, requires_grad=True) for n in (S, T)]
    source_real, target_real = torch.ones(B, S) > 0, torch.ones(B, T) > 0
    source_real[1, 4:], target_real[1, 3:] = False, False
    ours = from_torch(peer)
    assert isinstance(ours, EncoderDecoder)
    found = ours(
        *given, source_mask=source_real[:, None, None], target_mask=target_real[:, None, None]
    )
    expected = peer(
        *given, tgt_mask=torch.ones(T, T).triu(1) > 0,
        src_key_padding_mask=~source_real, tgt_key_padding_mask=~target_real,
        memory_key_padding_mask=~source_real,
    )  # fmt: skip
    bound = 1e-10 if dtype is torch.float64 else 1e-5
    results = found[target_real], expected[target_real]
    torch.testing.assert_close(*results, rtol=bound, atol=bound)
    gradients = [torch.autograd.grad(result.square().sum(), given) for result in results]
    torch.testing.assert_close(*gradients, rtol=100 * bound, atol=100 * bound)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("activation", ["relu", "gelu"])
@pytest.mark.parametrize("norm_first", [True, False])
def test_outputs_equal(norm_first: bool, activation: str, dtype: torch.dtype) -> None:
    peer = torch_transformer(dtype, norm_first=norm_first, activation=activation)
    compare(peer, dtype)
    peer.encoder.norm = peer.decoder.norm = None
    compare(peer, dtype)


@pytest.mark.parametrize(
    "options",
    [
        {"num_encoder_layers": 3, "num_decoder_layers": 1, "nhead": 1},
        {"layer_norm_eps": 0.1},
        {"activation": nn.ReLU()},
    ],
)
def test_outputs_equal_at_other_sizes(options: dict) -> None:
    compare(torch_transformer(**options))


def test_weights_are_copied_and_the_mode_is_the_peers() -> None:
    peer = torch_transformer()
    ours: Any = from_torch(peer)
    assert not ours.training
    assert from_torch(peer.train()).training
    theirs: Any = peer.encoder.layers[0]
    before = theirs.linear1.weight.clone()
    nn.init.zeros_(ours.encoder.layers[0].feed_forward.up.weight)
    assert theirs.linear1.weight.equal(before)
    n_ours, n_theirs = (sum(p.numel() for p in m.parameters()) for m in (ours, peer))
    assert n_ours == n_theirs


@pytest.mark.parametrize("norm", [None, nn.LayerNorm(D)])
def test_an_encoder_alone(norm) -> None:
    layer = nn.TransformerEncoderLayer(D, 3, 20, batch_first=True, norm_first=norm is not None)
    peer = nn.TransformerEncoder(layer, 2, norm, enable_nested_tensor=False).double().eval()
    for parameter in peer.parameters():
        nn.init.normal_(parameter, std=0.3)
    ours = from_torch(peer)
    x, visible = torch.randn(B, S, D).double(), torch.rand(B, S) > 0.3
    visible[:, 0] = True
    wanted = peer(x, src_key_padding_mask=~visible)
    torch.testing.assert_close(ours(x, visible[:, None, None]), wanted, rtol=1e-9, atol=1e-9)
    assert not ours.training and from_torch(peer.train()).training


@pytest.mark.parametrize("bias", [True, False])
def test_attention_alone_and_its_weights(bias: bool) -> None:
    peer = nn.MultiheadAttention(D, H, bias=bias, dropout=0.1, batch_first=True).double().eval()
    for parameter in peer.parameters():
        nn.init.normal_(parameter, std=0.3)
    ours = from_torch(peer)
    x, memory = torch.randn(B, T, D).double(), torch.randn(B, S, D).double()
    visible = torch.rand(B, 1, T, S) < 0.6
    visible[..., 0] = True  # torch gives NaN for an empty row
    hidden = ~visible.expand(B, H, T, S).flatten(0, 1)
    wanted, weights = peer(x, memory, memory, attn_mask=hidden, average_attn_weights=False)
    torch.testing.assert_close(ours(x, memory, mask=visible), wanted, rtol=1e-9, atol=1e-9)
    with record_attention(ours) as maps:
        ours(x, memory, mask=visible)
    torch.testing.assert_close(maps[""], weights, rtol=1e-9, atol=1e-9)
    assert ours.dropout.p == 0.1 and not ours.training
    for option in ({"kdim": 5}, {"add_bias_kv": True}, {"add_zero_attn": True}):
        with pytest.raises(ValueError, match=r"^peer"):
            from_torch(nn.MultiheadAttention(D, 3, **option))


def test_errors() -> None:
    with pytest.raises(TypeError, match=r"peer must be a torch.nn.Transformer, .*; got Linear"):
        from_torch(nn.Linear(2, 2))  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="bias=False"):
        from_torch(torch_transformer(bias=False))
    for activation in (torch.tanh, nn.GELU(approximate="tanh"), nn.SiLU()):
        with pytest.raises(ValueError, match="activation must be ReLU or GELU"):
            from_torch(torch_transformer(activation=activation))
    with pytest.raises(ValueError, match=r"one activation everywhere, got .'gelu', 'relu'"):
        from_torch(torch_transformer(activation=nn.GELU()))  # torch's decoder makes it ReLU
    with pytest.raises(ValueError, match="must have layers, got none"):
        from_torch(nn.Transformer(12, 4, 0, 0, 20))
    peer = torch_transformer()
    peer.decoder.layers[1].norm_first = not peer.decoder.layers[0].norm_first
    with pytest.raises(ValueError, match=r"one norm_first everywhere, got .False, True"):
        from_torch(peer)
    peer = torch_transformer()
    peer.decoder.layers[0].multihead_attn.num_heads = 1
    with pytest.raises(ValueError, match=r"one nhead everywhere, got .1, "):
        from_torch(peer)
    peer = torch_transformer()
    peer.decoder.norm = None
    with pytest.raises(ValueError, match="final norm in both its stacks or neither"):
        from_torch(peer)
