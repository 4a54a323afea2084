"""Many heads: against torch's own module, with cache, and with its weights on record."""

from typing import Any

import pytest
import torch
from torch import nn

from transformer_lib import MultiHeadAttention, attention, causal_mask, record_attention
from transformer_lib.cache import AttentionCache

B, T, S, H, D = 2, 5, 7, 3, 33  # d_head 11


def layer(**changes: Any) -> MultiHeadAttention:
    torch.manual_seed(0)
    made = MultiHeadAttention(**{"d_model": D, "n_heads": H} | changes)
    nn.init.normal_(made.in_proj.bias)  # zeros would hide a bias in the wrong place
    nn.init.normal_(made.out_proj.bias)
    return made.double()


def torch_layer(ours: MultiHeadAttention) -> nn.MultiheadAttention:
    theirs = nn.MultiheadAttention(D, H, batch_first=True, dtype=torch.float64)
    theirs.load_state_dict(
        {
            "in_proj_weight": ours.in_proj.weight,
            "in_proj_bias": ours.in_proj.bias,
            "out_proj.weight": ours.out_proj.weight,
            "out_proj.bias": ours.out_proj.bias,
        }
    )
    return theirs


@pytest.mark.parametrize("recording", [False, True])
@pytest.mark.parametrize("cross", [False, True])
@pytest.mark.parametrize("masked", [False, True])
def test_equals_torch(masked: bool, cross: bool, recording: bool) -> None:
    ours = layer()
    theirs = torch_layer(ours)
    x, memory = torch.randn(B, T, D).double(), torch.randn(B, S, D).double()
    keys = memory if cross else x
    mask = torch.rand(B, 1, T, keys.size(1)) < 0.6
    mask[..., 0] = True  # torch gives NaN for an empty row
    hidden = ~mask.expand(B, H, T, -1).flatten(0, 1) if masked else None
    expected, expected_weights = theirs(x, keys, keys, attn_mask=hidden, average_attn_weights=False)
    arguments = {"memory": memory if cross else None, "mask": mask if masked else None}
    if recording:
        with record_attention(ours) as maps:
            found = ours(x, **arguments)
        torch.testing.assert_close(maps[""], expected_weights, rtol=1e-10, atol=1e-10)
    else:
        found = ours(x, **arguments)
    torch.testing.assert_close(found, expected, rtol=1e-10, atol=1e-10)


def test_every_head_is_an_attention_of_its_own_rows() -> None:
    ours = layer()
    x, memory = torch.randn(B, T, D).double(), torch.randn(B, S, D).double()
    w_q, w_k, w_v = ours.in_proj.weight.chunk(3)
    b_q, b_k, b_v = ours.in_proj.bias.chunk(3)
    heads = []
    for h in range(H):
        rows = slice(h * D // H, (h + 1) * D // H)
        heads.append(
            attention(
                x @ w_q[rows].T + b_q[rows],
                memory @ w_k[rows].T + b_k[rows],
                memory @ w_v[rows].T + b_v[rows],
            ).output
        )
    torch.testing.assert_close(ours(x, memory), ours.out_proj(torch.cat(heads, dim=-1)))


@pytest.mark.parametrize("sizes", [[1] * T, [2, 3], [4, 1]])
def test_self_attention_with_a_cache_is_one_causal_pass(sizes: list[int]) -> None:
    ours, x = layer(), torch.randn(B, T, D).double()
    whole, cache, parts = ours(x, mask=causal_mask(T)), AttentionCache(), []
    for part in x.split(sizes, dim=1):
        mask = causal_mask(part.size(1), cache.length + part.size(1))
        parts.append(ours(part, mask=mask, cache=cache))
    torch.testing.assert_close(torch.cat(parts, dim=1), whole)


def test_cross_attention_projects_its_memory_once() -> None:
    ours, cache = layer(), AttentionCache()
    x, memory = torch.randn(B, T, D).double(), torch.randn(B, S, D).double()
    expected = ours(x, memory)
    torch.testing.assert_close(ours(x, memory, cache=cache), expected)
    torch.testing.assert_close(ours(x, torch.full_like(memory, 1e9), cache=cache), expected)
    assert cache.length == S


def test_dropout_is_for_training_only() -> None:
    ours, x = layer(dropout=0.5), torch.randn(B, T, D).double()
    assert not ours(x).equal(ours(x))
    ours.eval()
    torch.testing.assert_close(ours(x), torch_layer(ours)(x, x, x)[0])
    with record_attention(ours):
        torch.testing.assert_close(ours(x), torch_layer(ours)(x, x, x)[0])


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
        self.first, self.second = layer(), layer()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.second(self.first(x), x[:, :3])


def test_record_names_shapes_and_rows() -> None:
    model, x = Pair(), torch.randn(B, T, D).double()
    plain = model(x)
    with record_attention(model) as maps:
        torch.testing.assert_close(model(x), plain)
    assert {name: tuple(w.shape) for name, w in maps.items()} == {
        "first": (B, H, T, T),
        "second": (B, H, T, 3),
    }
    for weights in maps.values():
        torch.testing.assert_close(weights.sum(-1), torch.ones(B, H, T).double())
        assert not weights.requires_grad
    maps.clear()
    model(x)
    assert maps == {}  # over when the block is over


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


def test_record_keeps_the_latest_call() -> None:
    ours = layer()
    with record_attention(ours) as maps:
        ours(torch.randn(B, T, D).double())
        ours(torch.randn(B, S, D).double())
    assert maps[""].shape == (B, H, S, S)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda x: MultiHeadAttention(d_model=10, n_heads=3), ValueError, r"\(10\).*n_heads \(3\)"),
        (lambda x: MultiHeadAttention(d_model=10, n_heads=0), ValueError, "n_heads"),
        (lambda x: layer(dropout=1.0), ValueError, "dropout.*1.0"),
        (lambda x: layer()(x[0]), ValueError, r"x must have shape \(B, length, 33\), got \(5, 33"),
        (lambda x: layer()(x, x[..., 1:]), ValueError, r"memory must have.*\(2, 5, 32\)"),
        (lambda x: layer()(x, x.new_zeros(3, S, D)), ValueError, r"same batch"),
        (lambda x: layer()(x, mask=torch.ones(T, T)), TypeError, "mask must be bool.*float32"),
        (lambda x: layer()(x, mask=torch.ones(T, S) > 0), ValueError, r"mask.*\(5, 7\)"),
        (lambda x: record_attention(nn.Linear(2, 2)).__enter__(), ValueError, "Linear"),
    ],
)
def test_errors_name_the_argument(call, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        call(torch.randn(B, T, D).double())
