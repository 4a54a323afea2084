"""The models: who sees whom, one step at a time as all at once, and what is saved."""

from dataclasses import replace
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from transformer_lib import (
    DecoderOnly,
    ModelConfig,
    Transformer,
    masks,
    record_attention,
)

B, T, S, H, D, V = 2, 5, 7, 3, 18, 23
CONFIG = ModelConfig(
    vocab_size=V, d_model=D, n_heads=H, n_layers=2, n_decoder_layers=3, d_ff=13, dropout=0.1,
    max_len=29,
)  # fmt: skip


def transformer(**changes: Any) -> Transformer:
    torch.manual_seed(0)
    model = Transformer(replace(CONFIG, **changes)).double().eval()
    for parameter in model.parameters():  # away from zeros and ones, which hide mistakes
        nn.init.normal_(parameter, std=0.3)
    return model


def sentences(batch: int, length: int, seed: int = 1) -> Tensor:
    return torch.randint(3, V, (batch, length), generator=torch.Generator().manual_seed(seed))


BOTH_NORMS = pytest.mark.parametrize("pre_norm", [True, False])


# --- who sees whom -------------------------------------------------------------------------------


def test_padding_is_not_felt_wherever_it_stands() -> None:
    model, source, target = transformer(), sentences(B, S), sentences(B, T)
    source[0, 2], target[0, 1] = 0, 0  # in the middle, where causality does not hide it
    before = model(source, target)
    with torch.no_grad():
        model.embedding.weight[0] += torch.randn(D)  # a constant would be gone after a norm
    after = model(source, target)
    real = target != 0
    torch.testing.assert_close(after[real][:, 1:], before[real][:, 1:], rtol=1e-10, atol=1e-10)


@BOTH_NORMS
@pytest.mark.parametrize("explicit", [False, True])
def test_a_source_of_nothing_but_padding_gives_finite_numbers(
    explicit: bool, pre_norm: bool
) -> None:
    model = transformer(pre_norm=pre_norm).train()
    source, target = sentences(B, S), sentences(B, T)
    source[0], target[0] = 0, 0
    if explicit:
        with record_attention(model) as maps:
            logits = model(source, target)
        assert maps["decoder.layers.0.cross_attention"][0].eq(0).all()
    else:
        logits = model(source, target)
    assert logits.isfinite().all()
    logits.square().sum().backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.isfinite().all(), name


# --- embeddings, saving, starting ----------------------------------------------------------------


def test_what_is_saved_and_what_is_not() -> None:
    names = transformer().state_dict().keys()
    assert [name for name in names if "embedding" in name or "output" in name] == [
        "embedding.tokens.weight"
    ]
    assert not any("table" in name or "positions" in name for name in names)
    untied = transformer(tie_embeddings=False)
    assert untied.state_dict()["embedding.output"].shape == (V, D)
    assert not untied.embedding.logits(torch.randn(D).double()).isnan().any()


@pytest.mark.parametrize("assign", [False, True])
def test_tied_embeddings_survive_saving_and_loading(tmp_path, assign: bool) -> None:
    model, source, target = transformer(), sentences(B, S), sentences(B, T)
    torch.save(model.state_dict(), tmp_path / "weights.pt")
    other = Transformer(CONFIG).double().eval()
    other.load_state_dict(torch.load(tmp_path / "weights.pt"), assign=assign)
    assert other(source, target).equal(model(source, target))
    other.embedding.weight.data[4] += 1  # and one change is felt at both ends
    ones = torch.ones(D).double()
    assert not other.embedding.logits(ones)[4].eq(model.embedding.logits(ones)[4])
    assert sum(p.numel() for p in other.parameters()) == sum(p.numel() for p in model.parameters())


def test_layers_start_from_different_weights() -> None:
    model = Transformer(CONFIG)
    for stack in (model.encoder.layers, model.decoder.layers):
        first, second = (dict(layer.named_parameters()) for layer in list(stack)[:2])
        for name in first:
            if name.endswith("weight") and "norm" not in name:
                assert not first[name].equal(second[name]), name


def test_new_logits_are_of_a_size_that_softmax_likes() -> None:
    torch.manual_seed(0)
    config = replace(CONFIG, vocab_size=500, d_model=96, d_ff=64)
    source = torch.randint(3, 500, (B, S))
    with torch.no_grad():
        logits = Transformer(config).eval()(source, source[:, :T])
    assert 0.5 < logits.std() < 2


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_modules_follow_their_dtype(dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    model = Transformer(CONFIG).to(dtype)
    logits = model(sentences(B, S), sentences(B, T))
    assert logits.dtype is dtype
    logits.float().square().mean().backward()
    assert model.embedding.weight.grad is not None
    assert model.embedding.weight.grad.isfinite().all()
    assert model.embedding.positions.table.dtype is torch.float32


@pytest.mark.parametrize(("positions", "n_kv_heads"), [("sinusoidal", None), ("rotary", 1)])
def test_a_causal_stack_makes_no_mask(
    positions: str, n_kv_heads: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch.manual_seed(0)
    config = replace(CONFIG, positions=positions, n_kv_heads=n_kv_heads)
    model = DecoderOnly(config).eval()
    ids = torch.randint(3, V, (B, T))
    with record_attention(model):  # the explicit path, with masks
        expected = model(ids)
    calls, kernel = [], F.scaled_dot_product_attention

    def spy(query: torch.Tensor, key: torch.Tensor, *args: Any, **options: Any) -> torch.Tensor:
        calls.append((key.size(1), options["attn_mask"], options["is_causal"]))
        return kernel(query, key, *args, **options)

    monkeypatch.setattr(F, "scaled_dot_product_attention", spy)
    monkeypatch.setattr(masks, "causal_mask", None)
    torch.testing.assert_close(model(ids), expected)
    assert calls == [(n_kv_heads or H, None, True)] * config.decoder_layers
