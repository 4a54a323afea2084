"""The models: who sees whom, one step at a time as all at once, and what is saved."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from transformer_lib import (
    Decoder,
    DecoderOnly,
    Encoder,
    EncoderDecoder,
    EncoderOnly,
    KVCache,
    ModelConfig,
    Transformer,
    masks,
    parameter_counts,
    record_attention,
)
from transformer_lib.embedding import Embedding
from transformer_lib.layers import LayerNorm
from transformer_lib.models import DecoderState

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


@BOTH_NORMS
@pytest.mark.parametrize("training", [True, False])
def test_the_future_does_not_move_the_past(training: bool, pre_norm: bool) -> None:
    model = transformer(dropout=0.0, pre_norm=pre_norm).train(training)
    source, target = sentences(B, S), sentences(B, T)
    before = model(source, target)
    for t in range(T):
        changed = target.clone()
        changed[:, t] = (changed[:, t] - 3 + 1) % (V - 3) + 3
        after = model(source, changed)
        torch.testing.assert_close(after[:, :t], before[:, :t], rtol=0, atol=1e-12)
        for later in range(t, T):  # the token itself and all that follow do feel it
            assert (after[:, later] - before[:, later]).abs().max() > 1e-6


def test_padding_is_not_felt_wherever_it_stands() -> None:
    model, source, target = transformer(), sentences(B, S), sentences(B, T)
    source[0, 2], target[0, 1] = 0, 0  # in the middle, where causality does not hide it
    before = model(source, target)
    with torch.no_grad():
        model.embedding.weight[0] += torch.randn(D)  # a constant would be gone after a norm
    after = model(source, target)
    real = target != 0
    torch.testing.assert_close(after[real][:, 1:], before[real][:, 1:], rtol=1e-10, atol=1e-10)


def test_every_source_token_is_felt_at_every_target_position() -> None:
    model, source, target = transformer(), sentences(B, S), sentences(B, T)
    before = model(source, target)
    for s in range(S):
        changed = source.clone()
        changed[:, s] = (changed[:, s] - 3 + 1) % (V - 3) + 3
        assert (model(changed, target) - before).abs().amax(dim=(0, 2)).min() > 1e-6


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


def test_record_attention_names_every_layer() -> None:
    model, source, target = transformer(), sentences(B, S), sentences(B, T)
    plain = model(source, target)
    with record_attention(model) as maps:
        torch.testing.assert_close(model(source, target), plain)
    expected = {f"encoder.layers.{i}.self_attention": (B, H, S, S) for i in range(2)}
    expected |= {f"decoder.layers.{i}.self_attention": (B, H, T, T) for i in range(3)}
    expected |= {f"decoder.layers.{i}.cross_attention": (B, H, T, S) for i in range(3)}
    assert {name: tuple(w.shape) for name, w in maps.items()} == expected
    for weights in maps.values():
        torch.testing.assert_close(weights.sum(-1), torch.ones(weights.shape[:-1]).double())
    assert maps["decoder.layers.1.self_attention"].triu(1).eq(0).all()


# --- one step at a time --------------------------------------------------------------------------


def test_steps_equal_one_pass() -> None:
    model = transformer()
    source, target = sentences(B, S), sentences(B, 19)  # past the cache's first 16
    source[0, 5:] = 0
    whole = model(source, target)
    state = model.start(source)
    for t in range(target.size(1)):
        logits, state = model.step(target[:, t], state)
        torch.testing.assert_close(logits, whole[:, t], rtol=1e-10, atol=1e-10)


def test_the_decoder_in_parts_equals_one_pass() -> None:
    torch.manual_seed(0)
    decoder = Decoder(CONFIG).double().eval()
    x, memory = torch.randn(B, T, D).double(), torch.randn(B, S, D).double()
    hidden = torch.tensor([[True] * T, [True, True, False, True, True]])[:, None, None]
    whole, cache, parts = decoder(x, memory, mask=hidden), KVCache(n_layers=3), []
    for part in x.split([1, 3, 1], dim=1):
        mask = hidden[..., : cache.length + part.size(1)]
        parts.append(decoder(part, memory, mask=mask, cache=cache))
    torch.testing.assert_close(torch.cat(parts, dim=1), whole, rtol=1e-10, atol=1e-10)


def test_reordered_rows_go_on_as_their_parents() -> None:
    """Beams that swap parents: with an unordered cache shapes are right and numbers wrong."""
    model, source, target = transformer(), sentences(3, S), sentences(3, T)
    source[2, 4:] = 0
    state = model.start(source)
    for t in range(3):
        _, state = model.step(target[:, t], state)
    index = torch.tensor([2, 0, 0, 1])
    state.reorder(index)
    source, target = source[index], target[index]
    target[2, 3] = 3 + (target[2, 3] - 2) % (V - 3)  # two children of one parent part ways
    whole = model(source, target)
    for t in (3, 4):
        logits, state = model.step(target[:, t], state)
        torch.testing.assert_close(logits, whole[:, t], rtol=1e-10, atol=1e-10)


def test_a_memory_without_a_mask_is_reordered_too() -> None:
    model, source = transformer(), sentences(3, S)
    index, tokens = torch.tensor([2, 0, 1]), torch.ones(3, dtype=torch.int64)
    memory = model.encode(source)
    state = DecoderState(KVCache(model.config.decoder_layers), memory)
    state.reorder(torch.arange(3))
    assert state.memory is memory  # nothing moved, nothing is copied
    state.reorder(index)
    logits, _ = model.step(tokens, state)
    wanted, _ = model.step(tokens, model.start(source[index]))
    torch.testing.assert_close(logits, wanted, rtol=1e-10, atol=1e-10)


# --- embeddings, saving, starting ----------------------------------------------------------------


def test_logits_are_the_embeddings_times_the_decoders_output() -> None:
    model, source, target = transformer(), sentences(B, S), sentences(B, T)

    def embed(ids: Tensor) -> Tensor:
        waves = model.embedding.positions.table[: ids.size(1)].double()
        return model.embedding.weight[ids] * D**0.5 + waves

    vectors = model.decoder(embed(target), model.encoder(embed(source)))
    expected = vectors @ model.embedding.weight.T
    torch.testing.assert_close(model(source, target), expected)


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


@BOTH_NORMS
@pytest.mark.parametrize("final_norm", [None, True, False])
def test_pre_norm_stacks_end_in_a_norm_and_others_need_not(
    pre_norm: bool, final_norm: bool | None
) -> None:
    model = EncoderDecoder(replace(CONFIG, pre_norm=pre_norm, final_norm=final_norm))
    wanted = pre_norm if final_norm is None else final_norm
    assert isinstance(model.encoder.norm, LayerNorm) is wanted
    assert isinstance(model.decoder.norm, LayerNorm) is wanted


def test_a_model_of_ids_is_not_a_model_of_vectors() -> None:
    assert not isinstance(Transformer(CONFIG), EncoderDecoder)


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


def test_the_seed_decides() -> None:
    one, other = transformer(), transformer()
    source, target = sentences(B, S), sentences(B, T)
    assert one(source, target).equal(other(source, target))
    one.train()
    assert not one(source, target).equal(one(source, target))  # dropout is on


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


def test_ids_may_be_int32() -> None:
    model, source, target = transformer(), sentences(B, S), sentences(B, T)
    assert model(source.int(), target.int()).equal(model(source, target))


# --- errors --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("source", "target", "error", "message"),
    [
        (torch.full((B, S), V), None, ValueError, "source holds id 23.*0 to 22"),
        (None, torch.full((B, T), -1), ValueError, "target holds id -1.*0 to 22"),
        (torch.ones(B, 30).long(), None, ValueError, r"length 30.*max_len \(29\)"),
        (torch.ones(B, 0).long(), None, ValueError, r"source must not be empty.*\(2, 0\)"),
        (None, torch.ones(B, 0).long(), ValueError, r"target must not be empty.*\(2, 0\)"),
        (torch.ones(B + 1, S).long(), None, ValueError, r"same batch size.*\(3, 7\).*\(2, 5\)"),
        (torch.ones(B, S), None, TypeError, "source must be token ids.*float32"),
        (None, torch.ones(B).long(), ValueError, r"target must have.*\(2,\)"),
    ],
)
def test_forward_names_what_is_wrong(
    source: Tensor | None, target: Tensor | None, error: type[Exception], message: str
) -> None:
    source = sentences(B, S) if source is None else source
    target = sentences(B, T) if target is None else target
    with pytest.raises(error, match=message):
        transformer()(source, target)


def test_step_names_what_is_wrong() -> None:
    model = transformer(max_len=8)
    state = model.start(sentences(B, S))
    with pytest.raises(ValueError, match=r"tokens must have shape \(B,\), got \(2, 1\)"):
        model.step(torch.ones(B, 1).long(), state)
    with pytest.raises(ValueError, match="tokens must hold 2 ids, one per row of state; got 1"):
        model.step(torch.ones(1).long(), state)
    with pytest.raises(ValueError, match="tokens holds id 23"):
        model.step(torch.full((B,), V), state)
    for _ in range(8):
        model.step(torch.ones(B).long(), state)
    with pytest.raises(ValueError, match=r"length 9 is longer than max_len \(8\)"):
        model.step(torch.ones(B).long(), state)
    with pytest.raises(ValueError, match="source must not be empty"):
        model.start(torch.ones(B, 0).long())


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda x: Encoder(CONFIG)(x, torch.ones(T)), TypeError, "mask must be bool"),
        (lambda x: Encoder(CONFIG)(x[0]), ValueError, r"x must have shape \(B, length, 18\)"),
        (lambda x: Decoder(CONFIG)(x, x, mask=torch.ones(S) > 0), ValueError, "5 keys"),
        (lambda x: Decoder(CONFIG)(x, x[..., 1:]), ValueError, r"memory must have.*\(2, 5, 17\)"),
        (lambda x: Decoder(CONFIG)(x, x, memory_mask=torch.ones(S) > 0), ValueError, r"\(7,\)"),
        (
            lambda x: Decoder(CONFIG)(x, x, cache=KVCache(n_layers=2)),
            ValueError,
            "cache is for 2 layers.*has 3",
        ),
        (lambda x: EncoderDecoder(CONFIG)(x[:1], x), ValueError, "source and target.*batch size"),
    ],
)
def test_the_stacks_name_what_is_wrong(call, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        call(torch.randn(B, T, D))


@pytest.mark.parametrize(
    "part", [Embedding, Encoder, Decoder, Transformer, EncoderOnly, DecoderOnly, parameter_counts]
)
def test_a_config_of_another_type_is_refused(part: Callable[[Any], Any]) -> None:
    with pytest.raises(TypeError, match="config must be a ModelConfig, got dict"):
        part({"d_model": D})


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
