"""Many heads: with cache, with weights on record, and with heads that share."""

import sys
from typing import Any

import pytest
import torch
from torch import nn

from transformer_lib import (
    DecoderOnly,
    Encoder,
    EncoderDecoder,
    ModelConfig,
    MultiHeadAttention,
    attention,
    causal_mask,
    multihead,
    record_attention,
)
from transformer_lib.cache import AttentionCache
from transformer_lib.positions import RelativePositions

B, T, S, H, D = 2, 5, 7, 3, 33  # d_head 11


def layer(seed: int = 0, **changes: Any) -> MultiHeadAttention:
    torch.manual_seed(seed)
    made = MultiHeadAttention(**{"d_model": D, "n_heads": H} | changes)
    nn.init.normal_(made.in_proj.bias)  # zeros would hide a bias in the wrong place
    nn.init.normal_(made.out_proj.bias)
    return made.double()


def test_cross_attention_projects_its_memory_once() -> None:
    ours, cache = layer(), AttentionCache()
    x, memory = torch.randn(B, T, D).double(), torch.randn(B, S, D).double()
    expected = ours(x, memory)
    torch.testing.assert_close(ours(x, memory, cache=cache), expected)
    torch.testing.assert_close(ours(x, torch.full_like(memory, 1e9), cache=cache), expected)
    assert cache.length == S


def test_the_projections_are_drawn_as_square_matrices() -> None:
    torch.manual_seed(0)
    ours = MultiHeadAttention(d_model=128, n_heads=4)
    bound = (6 / (128 + 128)) ** 0.5
    for weight in (*ours.in_proj.weight.chunk(3), ours.out_proj.weight):
        assert 0.98 * bound < weight.abs().max() < bound
    assert ours.in_proj.bias.eq(0).all()


class Pair(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = layer(seed=1), layer(seed=2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.second(self.first(x), x[:, :3])


def test_the_record_of_a_layer_is_that_layers() -> None:
    model, x = Pair(), torch.randn(B, T, D).double()
    with record_attention(model) as maps:
        model(x)
    for name, query, memory in (("first", x, None), ("second", model.first(x), x[:, :3])):
        with record_attention(getattr(model, name)) as alone:
            getattr(model, name)(query, memory)
        torch.testing.assert_close(maps[name], alone[""])
        assert not maps[name].requires_grad


def test_record_ends_when_an_exception_does_and_nests() -> None:
    model, x = Pair(), torch.randn(B, T, D).double()
    with pytest.raises(RuntimeError, match="on purpose"), record_attention(model):
        raise RuntimeError("on purpose")
    assert model.first.recorder is None
    with record_attention(model) as outer:
        with record_attention(model.first) as inner:
            model(x)
        assert inner.keys() == {""}
        assert outer.keys() == {"second"}
        model(x)
        assert outer.keys() == {"first", "second"}
    assert model.first.recorder is None


# --- heads that share, biases, other libraries' projections ---------------------------------------


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("n_kv_heads", [1, 2])
def test_shared_heads_are_not_copied_and_causality_needs_no_mask(
    n_kv_heads: int, masked: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Output and gradients are those of the explicit path, which has both."""
    block = MultiHeadAttention(d_model=44, n_heads=4, n_kv_heads=n_kv_heads).double()
    x = torch.randn(B, T, 44).double().requires_grad_()
    given = {"mask": causal_mask(T)} if masked else {"causal": True}
    with record_attention(block) as maps:
        expected = block(x, **given)
    assert maps[""].shape == (B, 4, T, T) and maps[""].triu(1).eq(0).all()
    monkeypatch.setattr(multihead, "for_each_head", None)
    if not masked:
        monkeypatch.setattr(sys.modules[attention.__module__], "with_causality", None)
    found = block(x, **given)
    torch.testing.assert_close(found, expected)
    of = [x, *block.parameters()]
    gradients = [torch.autograd.grad(y.square().sum(), of) for y in (found, expected)]
    torch.testing.assert_close(*gradients)


def test_a_mask_for_each_text_is_not_taken_for_one_for_each_head() -> None:
    """Three texts and three heads: by broadcasting alone it would be."""
    block, x = MultiHeadAttention(d_model=12, n_heads=3), torch.randn(3, 5, 12)
    mask = (torch.rand(3, 5, 5) < 0.5) | torch.eye(5, dtype=torch.bool)
    with pytest.raises(ValueError, match=r"mask must have four.*\(3, 5, 5\).*mask\[:, None\]"):
        block(x, mask=mask)
    alone = torch.cat([block(x[i : i + 1], mask=mask[i]) for i in range(3)])
    torch.testing.assert_close(block(x, mask=mask[:, None]), alone)
    config = ModelConfig(vocab_size=11, d_model=12, n_heads=3, d_ff=20)
    both, model, ids = EncoderDecoder(config), DecoderOnly(config), torch.randint(3, 11, (3, 5))
    for call in (
        lambda: Encoder(config)(x, mask),
        lambda: both.decoder(x, x, mask=mask),
        lambda: both.decoder(x, x, memory_mask=mask),
        lambda: both(x, x, source_mask=mask[:, :1]),
        lambda: both(x, x, target_mask=mask),
        lambda: model(ids, mask=mask),
    ):
        with pytest.raises(ValueError, match="mask must have four dimensions"):
            call()


@pytest.mark.parametrize("biased", [True, False])
def test_separate_projections_can_be_loaded(biased: bool) -> None:
    torch.manual_seed(0)
    block = MultiHeadAttention(d_model=12, n_heads=3, n_kv_heads=1)
    wide, small = (lambda: nn.Linear(12, 12, bias=biased)), (lambda: nn.Linear(12, 4, bias=biased))
    query, key, value, output = wide(), small(), small(), wide()
    nn.init.normal_(block.in_proj.bias)  # to be replaced, by zeros if there is no bias
    block.load_projections(query, key, value, output)
    x = torch.randn(2, 5, 12)
    heads = [attention(part, key(x), value(x)).output for part in query(x).split(4, dim=-1)]
    torch.testing.assert_close(block(x), output(torch.cat(heads, dim=-1)))
    bare = MultiHeadAttention(d_model=12, n_heads=3, n_kv_heads=1, bias=False)
    if biased:
        with pytest.raises(ValueError, match=r"query\.bias must be None"):
            bare.load_projections(query, key, value, output)
    else:
        bare.load_projections(query, key, value, output)
        torch.testing.assert_close(bare(x), block(x))


@pytest.mark.parametrize("k", [1, 2, 20])
def test_relative_positions_are_added_to_keys_and_values(k: int) -> None:
    """Shaw et al. (2018), equations (3) and (4), pair by pair."""
    torch.manual_seed(0)
    relative = RelativePositions(d_head=4, max_distance=k)
    block = MultiHeadAttention(d_model=12, n_heads=3, relative=relative)
    for parameter in relative.parameters():
        nn.init.normal_(parameter)
    x = torch.randn(1, 5, 12)
    query, key, value = (part.view(5, 3, 4) for part in block.in_proj(x)[0].split(12, dim=-1))
    far_key, far_value = relative.key, relative.value  # (distances from -k to k, d_head)
    mixed = torch.empty(5, 3, 4)
    for i in range(5):
        distances = (torch.arange(5) - i).clamp(-k, k) + k
        for h in range(3):
            scores = (key[:, h] + far_key[distances]) @ query[i, h] / 4**0.5
            mixed[i, h] = scores.softmax(-1) @ (value[:, h] + far_value[distances])
    torch.testing.assert_close(block(x)[0], block.out_proj(mixed.flatten(1)))
