"""Every way of telling positions, in every model: causal, padded, cached, counted."""

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from transformer_lib import (
    DecoderOnly,
    EncoderOnly,
    ModelConfig,
    Transformer,
)
from transformer_lib.models import parameter_counts

B, S, T, V = 3, 7, 5, 23
CONFIG = ModelConfig(
    vocab_size=V, d_model=36, n_heads=3, n_layers=2, n_decoder_layers=3, d_ff=29, max_len=19,
    dropout=0.0,
)  # fmt: skip
SCHEMES = ("sinusoidal", "learned", "relative", "t5", "rotary", "alibi", "none")
every_scheme = pytest.mark.parametrize("positions", SCHEMES)


def made(kind: type, **changes) -> torch.nn.Module:
    """A model in float64, its parameters away from zeros and ones, which hide mistakes."""
    torch.manual_seed(2)
    model = kind(replace(CONFIG, **changes)).double().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    return model


def ids(length: int) -> Tensor:
    return torch.randint(3, V, (B, length))


@every_scheme
@pytest.mark.parametrize("prefix", [0, 3])
def test_a_decoder_alone_goes_on_from_a_prefix(positions, prefix) -> None:
    model, text = made(DecoderOnly, positions=positions), ids(T)
    whole, state = model(text), model.start(text[:, :prefix])
    for t in range(prefix, T):
        logits, state = model.step(text[:, t], state)
        torch.testing.assert_close(logits, whole[:, t], rtol=1e-10, atol=1e-10)


@every_scheme
def test_only_what_tells_positions_tells_order(positions) -> None:
    """Swap two words: only with positions does a word before them notice, or one after them.

    One layer, so that no word can pass on to another what it noticed.
    """
    model, source = made(EncoderOnly, positions=positions, n_layers=1), ids(S)
    source[:, 4] = source[:, 2] % (V - 4) + 4  # another word
    swapped = source.clone()
    swapped[:, [2, 4]] = source[:, [4, 2]]
    before, after = model.encode(source), model.encode(swapped)
    for place in (0, S - 1):
        same = torch.allclose(before[:, place], after[:, place], atol=1e-9)
        assert same is (positions == "none")


@pytest.mark.parametrize("positions", ["relative", "t5", "rotary", "alibi"])
def test_distances_are_all_that_these_tell(positions) -> None:
    """Padding before a text moves all its positions; who measures distances does not notice."""
    model, source = made(EncoderOnly, positions=positions), ids(S)
    moved = torch.cat((torch.zeros(B, 2, dtype=torch.long), source), dim=1)
    torch.testing.assert_close(  # not closer than the rotary tables, which are in float32
        model.encode(moved)[:, 2:], model.encode(source), rtol=1e-4, atol=1e-5
    )


@every_scheme
def test_cross_attention_knows_no_positions(positions) -> None:
    """The decoder sees a memory as a set: no distance leads from one text to another."""
    model, target = made(Transformer, positions=positions), ids(T)
    memory, order = torch.randn(B, S, 36).double(), torch.randperm(S)
    x = model.embedding(target)
    torch.testing.assert_close(model.decoder(x, memory), model.decoder(x, memory[:, order]))


@every_scheme
def test_gradients_reach_every_parameter(positions) -> None:
    model = made(Transformer, positions=positions)
    model(ids(S), ids(T)).square().sum().backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None and parameter.grad.abs().sum() > 0, name


@pytest.mark.parametrize("positions", ["sinusoidal", "learned", "relative", "t5"])
@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"norm": "rms", "activation": "swiglu", "n_kv_heads": 1},
        {"bias": False, "qkv_bias": True, "n_kv_heads": 1},
        {"qkv_bias": False},
        {"pre_norm": False, "tie_embeddings": False, "output_bias": True},
        {"n_token_types": 2, "embedding_norm": True, "final_norm": False},
    ],
)
def test_the_formula_counts_every_parameter(positions, changes) -> None:
    for kind, alone in (("encoder", EncoderOnly), ("decoder", DecoderOnly)):
        model = made(alone, positions=positions, **changes)
        counts = parameter_counts(model.config, kind)
        assert sum(counts.values()) == sum(p.numel() for p in model.parameters())
    model = made(Transformer, positions=positions, **changes)
    counts = parameter_counts(model.config)
    assert sum(counts.values()) == sum(p.numel() for p in model.parameters())
    for part in ("encoder.self_attention", "decoder.cross_attention", "encoder.feed_forward"):
        stack, kind = part.split(".")
        layers = getattr(model, stack).layers
        own = sum(p.numel() for layer in layers for p in getattr(layer, kind).parameters())
        bias = sum(p.numel() for p in getattr(model, stack).bias.parameters())
        assert counts[part] == own + (bias if kind == "self_attention" else 0)


def test_the_papers_sizes_cannot_both_come_from_one_vocabulary() -> None:
    def total(make, vocab_size: int) -> int:
        return sum(parameter_counts(make(vocab_size=vocab_size)).values())

    assert round(total(ModelConfig.base, 37_000) / 1e6, 1) == 63.1
    assert round(total(ModelConfig.big, 37_000) / 1e6, 1) == 214.2
    assert round(total(ModelConfig.base, 40_700) / 1e6) == 65
    assert round(total(ModelConfig.big, 35_800) / 1e6) == 213
    assert round(total(ModelConfig.big, 40_700) / 1e6) == 218
    with torch.device("meta"):  # sizes without memory
        base = Transformer(ModelConfig.base(vocab_size=37_000))
    assert sum(p.numel() for p in base.parameters()) == total(ModelConfig.base, 37_000)


def test_a_cache_of_shared_heads_is_smaller() -> None:
    sizes = {}
    for n_kv_heads in (3, 1):
        model = made(DecoderOnly, n_kv_heads=n_kv_heads)
        keys, _ = model.start(ids(T)).cache.layers[0].self_attention.read()
        sizes[n_kv_heads] = keys.shape
    assert sizes == {3: (B, 3, T, 12), 1: (B, 1, T, 12)}


def test_a_model_that_begins_with_the_id_of_padding_hears_its_first_token() -> None:
    plain, marian = made(Transformer), made(Transformer, bos_id=0)
    source, target = ids(S), ids(T)
    target[:, 0] = 0
    target[0, 3:] = 0
    torch.testing.assert_close(
        marian(source, target)[:, 0], marian.step(target[:, 0], marian.start(source))[0]
    )
    assert not torch.allclose(plain(source, target)[:, 1], marian(source, target)[:, 1])


# --- errors --------------------------------------------------------------------------------------


def test_errors_name_the_argument() -> None:
    encoder, decoder = made(EncoderOnly), made(DecoderOnly)
    with pytest.raises(ValueError, match="types must be None: the model has no token types"):
        encoder(ids(S), ids(S))
    with pytest.raises(ValueError, match=r"types must have the shape of ids, \(3, 7\).*\(3, 5\)"):
        made(EncoderOnly, n_token_types=30)(ids(S), ids(T))
    with pytest.raises(ValueError, match="types holds id 2, the vocabulary is 0 to 1"):
        made(EncoderOnly, n_token_types=2)(ids(S), torch.full((B, S), 2))
    with pytest.raises(ValueError, match="ids must not be empty"):
        decoder(ids(0))
    with pytest.raises(TypeError, match="source must be token ids"):
        decoder.start(ids(3).float())
    with pytest.raises(ValueError, match="source must not be empty"):
        decoder.start(torch.zeros(0, 3, dtype=torch.long))
    state = decoder.start(ids(18))
    _, state = decoder.step(torch.full((B,), 5), state)
    with pytest.raises(ValueError, match=r"tokens of length 20 is longer than max_len \(19\)"):
        decoder.step(torch.full((B,), 5), state)
    with pytest.raises(ValueError, match="memory must be None: the layer has no cross-attention"):
        decoder.decoder(torch.randn(B, T, 36).double(), torch.randn(B, S, 36).double())
    with pytest.raises(ValueError, match="memory must be given"):
        made(Transformer).decoder(torch.randn(B, T, 36).double())
