"""What holds of every model, whatever its sizes and choices: hypothesis looks for exceptions.

The examples are the same at every run. To look elsewhere, for longer:
``HYPOTHESIS_PROFILE=explore python -m pytest tests/unit/test_properties.py``.
"""

import itertools
import os
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import Tensor

from transformer_lib import (
    Decoder,
    DecoderOnly,
    EncoderOnly,
    KVCache,
    ModelConfig,
    Transformer,
    attention,
    causal_mask,
    fused_attention,
    greedy,
    record_attention,
)
from transformer_lib.decoding import beam_search, sample
from transformer_lib.recurrent import RNNSeq2Seq

common = {"deadline": None, "suppress_health_check": list(HealthCheck), "print_blob": True}
settings.register_profile("steady", derandomize=True, database=None, max_examples=60, **common)
settings.register_profile("explore", max_examples=2000, **common)
PROFILE = settings.get_profile(os.environ.get("HYPOTHESIS_PROFILE", "steady"))

PRIMES = (2, 3, 5, 7, 11)
POSITIONS = ("sinusoidal", "learned", "rotary", "relative", "alibi", "none")
SAME = {"rtol": 1e-9, "atol": 1e-9}  # of float64, through a few layers
V, MAX_LEN, PAD, BOS, EOS = 13, 29, 0, 1, 2
NO_DROPOUT = {"dropout": 0.0, "attention_dropout": 0.0, "activation_dropout": 0.0}
booleans = st.booleans()
seeds = st.integers(0, 2**16)
lengths = st.permutations(PRIMES)  # every axis has another


@st.composite
def configs(draw: Any, **fixed: Any) -> ModelConfig:
    """Any config there can be, small."""
    positions = fixed.get("positions") or draw(st.sampled_from(POSITIONS))
    n_heads = draw(st.sampled_from((1, 2, 3, 4, 6)))
    # Waves come in pairs, of the model's features or of a head's.
    even = positions in ("rotary", "sinusoidal")
    settings = {
        "vocab_size": V,
        "n_heads": n_heads,
        "d_model": n_heads * draw(st.sampled_from((4, 6) if even else (3, 5))),
        "n_kv_heads": draw(st.sampled_from([None, *_divisors(n_heads)])),
        "bias": draw(st.booleans()),
        "qkv_bias": draw(st.sampled_from((None, True, False))),
        "n_layers": draw(st.integers(1, 2)),
        "n_decoder_layers": draw(st.sampled_from((None, 1, 2))),
        "d_ff": draw(st.sampled_from((1, 7, 17))),
        # Three that evaluation must not notice.
        "dropout": draw(st.sampled_from((0.0, 0.4))),
        "attention_dropout": draw(st.sampled_from((None, 0.0, 0.5))),
        "activation_dropout": draw(st.sampled_from((None, 0.0, 0.5))),
        "max_len": MAX_LEN,
        "positions": positions,
        "pre_norm": draw(booleans),
        "final_norm": draw(st.sampled_from((None, True, False))),
        "norm": draw(st.sampled_from(("layer", "rms"))),
        "activation": draw(st.sampled_from(("relu", "gelu", "gelu_tanh", "silu", "swiglu"))),
        "tie_embeddings": draw(booleans),
        "scale_embeddings": draw(booleans),
        "embedding_norm": draw(booleans),
        "output_bias": draw(booleans),
        "n_token_types": draw(st.sampled_from((0, 2))),
        "bos_id": draw(st.sampled_from((BOS, PAD))),  # Marian's targets begin with padding
    }
    return ModelConfig(**settings | fixed)


def _divisors(n: int) -> list[int]:
    return [i for i in range(1, n + 1) if n % i == 0]


def made(kind: Any, config: ModelConfig, seed: int, **arguments: Any) -> Any:
    """A model in float64, its parameters away from the zeros and ones that hide mistakes."""
    torch.manual_seed(seed)
    model = kind(config, **arguments).double().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    return model


def words(rows: int, length: int) -> Tensor:
    """Ids of real words, ``(rows, length)``."""
    return torch.randint(3, V, (rows, length))


def padded(ids: Tensor, n: int) -> Tensor:
    return torch.cat((ids, ids.new_full((len(ids), n), PAD)), dim=1)


def ragged(rows: int, length: int) -> Tensor:
    """Rows of every length, none too, padded on the right."""
    ids = words(rows, length)
    for row, kept in zip(ids, torch.randint(length + 1, (rows,)).tolist(), strict=True):
        row[kept:] = PAD
    return ids


def targets(config: ModelConfig, rows: int, length: int) -> Tensor:
    ids = words(rows, length)
    ids[:, 0] = config.bos_id
    return ids


# --- the past, the padding and the neighbors ------------------------------------------------------


@PROFILE
@given(configs(**NO_DROPOUT), lengths, seeds, st.data())
def test_what_comes_later_leaves_the_past_unmoved(config, sizes, seed, data) -> None:
    b, s, t = sizes[:3]
    training = data.draw(booleans)
    model, alone = (made(kind, config, seed).train(training) for kind in (Transformer, DecoderOnly))
    source, target = ragged(b, s), targets(config, b, t)
    k = data.draw(st.integers(1, t - 1))
    changed = target.clone()
    changed[:, k:] = (target[:, k:] - 3 + 1) % (V - 3) + 3  # other words
    for run in (lambda ids: model(source, ids), alone):
        before, after = run(target), run(changed)
        torch.testing.assert_close(after[:, :k], before[:, :k], **SAME)
        assert not torch.allclose(after[:, k], before[:, k], **SAME)


@PROFILE
@given(configs(), lengths, seeds)
def test_padding_changes_nothing(config, sizes, seed) -> None:
    b, s, t, more, yet_more = sizes
    source, target = ragged(b, s), targets(config, b, t)
    model = made(Transformer, config, seed)
    with_pads = model(padded(source, more), padded(target, yet_more))
    torch.testing.assert_close(with_pads[:, :t], model(source, target), **SAME)
    alone = made(DecoderOnly, config, seed)
    torch.testing.assert_close(alone(padded(target, more))[:, :t], alone(target), **SAME)
    reader = made(EncoderOnly, config, seed)
    types = torch.randint(2, (b, s)) if config.n_token_types else None
    more_types = types if types is None else padded(types, more)
    longer = padded(source, more)
    for method in (reader.encode, reader):
        torch.testing.assert_close(method(longer, more_types)[:, :s], method(source, types), **SAME)
    torch.testing.assert_close(
        reader.pooled(longer, more_types), reader.pooled(source, types), **SAME
    )


@PROFILE
@given(configs(), lengths, seeds, st.data())
def test_a_row_alone_is_the_row_in_its_batch(config, sizes, seed, data) -> None:
    b, s, t = sizes[:3]
    source, target = ragged(b, s), targets(config, b, t)
    row = slice(i := data.draw(st.integers(0, b - 1)), i + 1)
    model, alone = made(Transformer, config, seed), made(DecoderOnly, config, seed)
    torch.testing.assert_close(model(source[row], target[row]), model(source, target)[row], **SAME)
    torch.testing.assert_close(alone(target[row]), alone(target)[row], **SAME)
    reader = made(EncoderOnly, config, seed)
    torch.testing.assert_close(reader(source[row]), reader(source)[row], **SAME)
    for decode in (greedy, beam_search):
        together = decode(model, source, max_len=t)
        only = decode(model, source[row], max_len=t)
        length = only.ids.size(-1)  # the others may have gone on
        assert only.ids.equal(together.ids[row][..., :length])
        assert together.ids[row][..., length:].eq(PAD).all()
        torch.testing.assert_close(only.scores, together.scores[row])


# --- with a cache and without ---------------------------------------------------------------------


@dataclass
class Everything:
    """The state of `Uncached`: all that was read so far, and where rows came from."""

    source: Tensor
    ids: Tensor  # (B, length)
    moves: list[Tensor]

    def reorder(self, index: Tensor) -> None:
        self.moves.append(index)
        self.source, self.ids = self.source[index], self.ids[index]


class Uncached:
    """A model that reads its whole text anew at each step."""

    def __init__(self, model: Any) -> None:
        self.model, self.config = model, model.config
        self.moves: list[Tensor] = []

    def start(self, source: Tensor) -> Everything:
        prefix = source if isinstance(self.model, DecoderOnly) else source[:, :0]
        return Everything(source, prefix, self.moves)

    def step(self, tokens: Tensor, state: Everything) -> tuple[Tensor, Everything]:
        model, ids = self.model, torch.cat((state.ids, tokens[:, None]), dim=1)
        state.ids = ids
        if isinstance(model, DecoderOnly):
            return model(ids)[:, -1], state
        # Not through model(source, ids): what a row says after its end is no padding to a cache.
        x = model.decoder(
            model.embedding(ids),
            model.encode(state.source),
            memory_mask=(state.source != PAD)[:, None, None, :],
        )
        return model.embedding.logits(x[:, -1]), state


def sources(config: ModelConfig, kind: Any, rows: int, length: int) -> tuple[Tensor, Any]:
    """What decoding starts from: a source, or a prompt whose last token begins the text."""
    if kind is Transformer:
        return ragged(rows, length), config.bos_id
    prompt = words(rows, length)
    return prompt[:, :-1], prompt[:, -1]


@pytest.mark.parametrize("kind", [Transformer, DecoderOnly])
@pytest.mark.parametrize("positions", POSITIONS)
def test_decoding_with_a_cache_is_decoding_without(kind, positions) -> None:
    swapped = 0

    @settings(PROFILE, max_examples=max(4, PROFILE.max_examples // 8))
    @given(configs(positions=positions), lengths, seeds)
    def check(config, sizes, seed) -> None:
        nonlocal swapped
        b, s, t = sizes[:3]
        model = made(kind, config, seed)
        source, begin = sources(config, kind, b, s)
        rest = {"max_len": t + 2, "bos_id": begin}
        for cached, whole in (
            (greedy(model, source, **rest), greedy(Uncached(model), source, **rest)),
            (
                beam_search(model, source, beam_size=3, **rest),
                beam_search(reference := Uncached(model), source, beam_size=3, **rest),
            ),
        ):
            assert cached.ids.equal(whole.ids)
            torch.testing.assert_close(cached.scores, whole.scores)
        swapped += sum(move.tolist() != sorted(set(move.tolist())) for move in reference.moves[1:])

    check()
    assert swapped > 5, "beams that keep their parents test no cache"


@PROFILE
@given(configs(), lengths, seeds)
def test_a_target_read_word_by_word_is_the_target_read_at_once(config, sizes, seed) -> None:
    b, s, t = sizes[:3]
    model, source, target = made(Transformer, config, seed), ragged(b, s), targets(config, b, t)
    whole, state = model(source, target), model.start(source)
    for i in range(t):
        logits, state = model.step(target[:, i], state)
        torch.testing.assert_close(logits, whole[:, i], **SAME)


@PROFILE
@given(configs(), lengths, seeds, st.data())
def test_a_cache_may_be_filled_in_any_portions(config, sizes, seed, data) -> None:
    b, s, t = sizes[0], sizes[1], sizes[2] + sizes[3]
    crossing = data.draw(booleans)
    decoder = made(Decoder, config, seed, cross_attention=crossing)
    x, memory = torch.randn(2, b, max(s, t), config.d_model).double()
    x, rest = x[:, :t], {"memory": memory[:, :s]} if crossing else {}
    cuts = sorted(data.draw(st.sets(st.integers(1, t - 1), max_size=4)))
    cache = KVCache(config.decoder_layers)
    parts = [
        decoder(x[:, start:end], cache=cache, **rest)
        for start, end in itertools.pairwise([0, *cuts, t])
    ]
    torch.testing.assert_close(torch.cat(parts, dim=1), decoder(x, **rest), **SAME)


# --- recurrent translators ------------------------------------------------------------------------


@PROFILE
@given(st.sampled_from((None, "additive", "dot", "general")), lengths, seeds, st.data())
def test_recurrent_translators_have_the_same_properties(attention, sizes, seed, data) -> None:
    b, s, t, more, d = sizes
    torch.manual_seed(seed)
    model = RNNSeq2Seq(vocab_size=V, d_model=d, attention=attention, dropout=0.4).double().eval()
    source, target = ragged(b, s), words(b, t)
    whole = model(source, target)
    k = data.draw(st.integers(1, t - 1))
    changed = torch.cat((target[:, :k], (target[:, k:] - 2) % (V - 3) + 3), dim=1)
    torch.testing.assert_close(model(source, changed)[:, :k], whole[:, :k], **SAME)
    spread = source.new_full((b, s + more), PAD)  # padding before, behind and in between
    spread[:, torch.randperm(s + more)[:s].sort().values] = source
    long = model(spread, padded(target, more))
    torch.testing.assert_close(long[:, :t], whole, **SAME)
    row = slice(i := data.draw(st.integers(0, b - 1)), i + 1)
    torch.testing.assert_close(model(source[row], target[row]), whole[row], **SAME)
    state = model.start(source)
    for i in range(t):
        logits, state = model.step(target[:, i], state)
        torch.testing.assert_close(logits, whole[:, i], **SAME)
    ids, scores = greedy(model, source, max_len=t)
    beams = beam_search(model, source, max_len=t, beam_size=1, early_stopping=True)
    assert beams.ids[:, 0].equal(ids)
    torch.testing.assert_close(beams.scores[:, 0], scores)


# --- two paths, one result ------------------------------------------------------------------------


@PROFILE
@given(lengths, seeds, st.data())
def test_the_explicit_attention_is_the_fused_one(sizes, seed, data) -> None:
    """With inputs, masks and biases that broadcast, rows without a key, and gradients."""
    torch.manual_seed(seed)
    b, h, t, s, d = sizes
    s = data.draw(st.sampled_from((s, t)))  # one of torch's kernels is for causal squares
    t, s = (data.draw(st.sampled_from((size, size, size, 0))) for size in (t, s))
    d_v = data.draw(st.sampled_from((1, 4, d)))
    batches = [data.draw(st.sampled_from(((), (h,), (b, 1), (b, h)))) for _ in range(3)]
    batch = torch.broadcast_shapes(*batches)
    inputs = [
        torch.randn(*batch, *shape, dtype=torch.float64, requires_grad=True)
        for batch, shape in zip(batches, ((t, d), (s, d), (s, d_v)), strict=True)
    ]

    def broadcast() -> tuple[int, ...] | None:
        if not data.draw(booleans):
            return None
        shape = [size if data.draw(booleans) else 1 for size in (*batch, t, s)]
        return tuple(shape[data.draw(st.integers(0, len(shape))) :])

    mask, bias, shape = None, None, broadcast()
    if shape is not None:
        mask = torch.rand(shape) < data.draw(st.sampled_from((0.0, 0.2, 0.8)))
    if (shape := broadcast()) is not None:
        bias = 3 * torch.randn(shape, dtype=torch.float64)
    scale = data.draw(st.sampled_from((None, 0.3)))
    causal = t <= s and data.draw(booleans)
    fused = fused_attention(*inputs, mask, bias=bias, scale=scale, causal=causal)
    if causal:
        mask = causal_mask(t, s) if mask is None else mask & causal_mask(t, s)
    explicit, weights = attention(*inputs, mask, bias=bias, scale=scale)
    torch.testing.assert_close(fused, explicit, **SAME)
    torch.testing.assert_close(weights.sum(-1).round(), weights.sum(-1), **SAME)  # 1 or 0
    direction = torch.randn_like(explicit)
    for one, other in zip(
        torch.autograd.grad(explicit, inputs, direction),
        torch.autograd.grad(fused, inputs, direction),
        strict=True,
    ):
        torch.testing.assert_close(one, other, **SAME)


@PROFILE
@given(configs(), lengths, seeds)
def test_recording_a_model_changes_no_result(config, sizes, seed) -> None:
    b, s, t = sizes[:3]
    model, source, target = made(Transformer, config, seed), ragged(b, s), targets(config, b, t)
    fused = model(source, target)
    with record_attention(model) as maps:
        torch.testing.assert_close(model(source, target), fused, **SAME)
    assert len(maps) == config.n_layers + 2 * config.decoder_layers


# --- what a beam is worth -------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [Transformer, DecoderOnly])
def test_a_beam_of_one_is_greedy_and_so_is_a_draw_from_one_token(kind) -> None:
    @PROFILE
    @given(configs(), lengths, seeds, st.sampled_from((0.0, 0.6, 1.3)))
    def check(config, sizes, seed, penalty) -> None:
        b, s, t = sizes[:3]
        model = made(kind, config, seed)
        source, begin = sources(config, kind, b, s)
        rest = {"max_len": t, "bos_id": begin}
        ids, scores = greedy(model, source, **rest)
        options = {"length_penalty": penalty, "early_stopping": True}
        beams = beam_search(model, source, beam_size=1, **options, **rest)
        assert beams.ids[:, 0].equal(ids)
        torch.testing.assert_close(beams.scores[:, 0], scores)
        drawn = sample(model, source, top_k=1, **rest)
        assert drawn.ids.equal(ids)
        torch.testing.assert_close(drawn.scores, scores)

    check()
