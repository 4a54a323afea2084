"""Calls of configs, layers, models and decoding."""

from __future__ import annotations

import math
import random
from functools import cache
from typing import Any

import torch
from torch import Tensor, nn

from transformer_lib import decoding, inspection, layers, models, multihead, recurrent
from transformer_lib.cache import AttentionCache, KVCache
from transformer_lib.config import ModelConfig, SpecialIds
from transformer_lib.embedding import Embedding
from transformer_lib.layers import make_norm
from transformer_lib.positions import RelativePositions, RotaryPositions

from . import Call, call
from .tensors import HUGE, like

B, S, T, V, D = 2, 7, 5, 13, 12
SCHEMES = ("sinusoidal", "learned", "rotary", "relative", "t5", "alibi", "none")


def config(draw: random.Random, **changes: Any) -> ModelConfig:
    choices = {
        "n_kv_heads": draw.choice((None, 1)),
        "positions": draw.choice(SCHEMES),
        "pre_norm": draw.random() < 0.5,
        "n_token_types": 2,
    }
    sizes = {"vocab_size": V, "d_model": D, "n_heads": 3, "n_layers": 1, "d_ff": 7, "max_len": 11}
    return ModelConfig(**sizes | choices | changes)


@cache
def made(kind: Any, scheme: str, *arguments: Any) -> Any:
    """A model in evaluation mode, made once: no call may change it."""
    return kind(config(random.Random(1), positions=scheme), *arguments).eval()


def some(kind: Any, draw: random.Random) -> Any:
    return made(kind, draw.choice(SCHEMES))


def ids(length: int) -> Tensor:
    return torch.randint(3, V, (B, length))


def vectors(length: int) -> Tensor:
    return torch.randn(B, length, D)


def broken() -> nn.Module:
    """A model whose weights are not numbers any more."""
    model = models.Transformer(config(random.Random(1), positions="none"))
    nn.init.constant_(model.embedding.weight, math.nan)
    return model


@call(SpecialIds)
def _(draw: random.Random) -> Call:
    given = {"pad_id": 0, "bos_id": 1, "eos_id": 2}
    return Call(given, extra=dict.fromkeys(given, HUGE))


@call(ModelConfig)
def _(draw: random.Random) -> Call:
    given = {
        "vocab_size": V, "d_model": D, "n_heads": 3, "n_kv_heads": 1, "n_layers": 2,
        "n_decoder_layers": 1, "d_ff": 7, "dropout": 0.1, "max_len": 11, "positions": "rotary",
        "rotary_base": 10_000.0, "bias": False, "qkv_bias": True, "pre_norm": True,
        "final_norm": None, "norm": "rms", "norm_eps": 1e-5, "activation": "swiglu",
        "tie_embeddings": True, "scale_embeddings": True,
        "embedding_norm": False, "output_bias": False, "n_token_types": 2, "pad_id": 0,
        "bos_id": 1, "eos_id": 2,
    }  # fmt: skip

    def check(result: ModelConfig, given: dict[str, Any]) -> None:
        assert sum(models.parameter_counts(result).values()) > 0

    return Call(given, check=check, extra={"dropout": HUGE, "norm_eps": [1e-300, 10**400]})


for preset in (ModelConfig.tiny, ModelConfig.base, ModelConfig.big):

    @call(preset)
    def _(draw: random.Random, preset: Any = preset) -> Call:
        return Call({"vocab_size": V, "n_layers": 1, "dropout": 0.0, "norm": "rms"}, run=preset)


@call(ModelConfig.published)
def _(draw: random.Random) -> Call:
    return Call({"name": draw.choice(("gpt2", "mistral-7b")), "n_layers": 1, "dropout": 0.0})


@call(models.parameter_counts)
def _(draw: random.Random) -> Call:
    kinds = {
        "both": models.Transformer, "encoder": models.EncoderOnly, "decoder": models.DecoderOnly,
    }  # fmt: skip

    def check(result: dict[str, int], given: dict[str, Any]) -> None:
        model = kinds[given["kind"]](given["config"])
        assert sum(result.values()) == sum(p.numel() for p in model.parameters())

    return Call({"config": config(draw), "kind": draw.choice([*kinds])}, check=check)


# --- attention with heads ------------------------------------------------------------------------


@call(multihead.MultiHeadAttention)
def _(draw: random.Random) -> Call:
    rotary = RotaryPositions(d_head=4, max_len=11)
    relative = RelativePositions(d_head=4)
    given = {
        "d_model": D, "n_heads": 3, "n_kv_heads": draw.choice((None, 1)), "dropout": 0.1,
        "bias": draw.random() < 0.5, "qkv_bias": draw.choice((None, True, False)),
        "rotary": draw.choice((None, rotary)), "relative": draw.choice((None, relative)),
    }  # fmt: skip

    def check(result: nn.Module, given: dict[str, Any]) -> None:
        x = torch.randn(2, 5, given["d_model"])
        assert result(x).shape == x.shape

    wrong = [RotaryPositions(d_head=6, max_len=11), RelativePositions(d_head=5)]
    return Call(given, check=check, extra={"rotary": wrong, "relative": wrong})


@call(multihead.MultiHeadAttention.load_projections)
def _(draw: random.Random) -> Call:
    layer = multihead.MultiHeadAttention(d_model=6, n_heads=3, n_kv_heads=1)
    given: dict[str, Any] = {"query": nn.Linear(6, 6), "output": nn.Linear(6, 6)}
    given |= {"key": nn.Linear(6, 2), "value": nn.Linear(6, 2, bias=False)}
    wrong = [nn.Linear(6, 3), nn.Linear(2, 6), nn.Conv1d(6, 6, 1), nn.LayerNorm(6), nn.ReLU()]
    return Call(given, run=layer.load_projections, extra=dict.fromkeys(given, wrong))


def attention_layer(draw: random.Random) -> Any:
    return made(_attention_layer, draw.choice(("rotary", "relative", "none")))


def _attention_layer(config: ModelConfig) -> nn.Module:
    return layers.EncoderLayer(config).self_attention


@call(multihead.MultiHeadAttention.forward)
def _(draw: random.Random) -> Call:
    crossing = draw.random() < 0.5
    layer = made(_attention_layer, "none") if crossing else attention_layer(draw)
    s = S if crossing else T
    given = {
        "x": vectors(T),
        "memory": vectors(S) if crossing else None,
        "mask": draw.choice((None, torch.rand(B, 1, T, s) < 0.5)),
        "bias": draw.choice((None, torch.randn(3, T, s))),
        "causal": not crossing and draw.random() < 0.5,
        "positions": None if crossing else draw.choice((None, torch.randint(11, (B, T)))),
        "cache": draw.choice((None, AttentionCache())),
    }
    if layer.relative is not None and draw.random() < 0.1:
        given["memory"] = None
    wrong = [KVCache(1)]
    extra = {"cache": wrong, "memory": [vectors(S)[:1], vectors(S)[..., 1:]]}
    return Call(given, run=layer, check=like("x"), extra=extra)


@call(inspection.record_attention)
def _(draw: random.Random) -> Call:
    def run(model: Any) -> Any:
        with inspection.record_attention(model) as maps:
            model(ids(S), ids(T))
        return maps

    return Call({"model": some(models.Transformer, draw)}, run=run)


# --- layers --------------------------------------------------------------------------------------


def layer_of(kind: Any) -> Any:
    """A call of a constructor that takes a config."""

    def make(draw: random.Random) -> Call:
        return Call({"config": config(draw)})

    return call(kind)(make)


for kind in (layers.FeedForward, layers.Residual, layers.EncoderLayer, models.Encoder, make_norm):
    layer_of(kind)
for kind in (models.EncoderDecoder, models.Transformer, models.EncoderOnly, models.DecoderOnly):
    layer_of(kind)
layer_of(Embedding)

for kind in (layers.DecoderLayer, models.Decoder):

    @call(kind)
    def _(draw: random.Random) -> Call:
        return Call({"config": config(draw), "cross_attention": draw.random() < 0.5})


@call(layers.FeedForward.forward)
def _(draw: random.Random) -> Call:
    return Call({"x": vectors(T)}, run=some(layers.FeedForward, draw), check=like("x"))


@call(layers.Residual.forward)
def _(draw: random.Random) -> Call:
    residual = layers.Residual(config(draw)).eval()
    given = {"x": vectors(T), "sublayer": nn.Identity()}
    return Call(given, run=residual, check=like("x"), calls_others=True)


@call(layers.EncoderLayer.forward)
def _(draw: random.Random) -> Call:
    given = {
        "x": vectors(S),
        "mask": draw.choice((None, torch.rand(B, 1, S, S) < 0.5)),
        "bias": draw.choice((None, torch.randn(3, S, S))),
    }
    return Call(given, run=some(layers.EncoderLayer, draw), check=like("x"))


@call(layers.DecoderLayer.forward)
def _(draw: random.Random) -> Call:
    given = {
        "x": vectors(T),
        "memory": vectors(S),
        "mask": draw.choice((None, torch.rand(B, 1, T, T) < 0.5)),
        "bias": draw.choice((None, torch.randn(3, T, T))),
        "memory_mask": draw.choice((None, torch.rand(B, 1, 1, S) < 0.5)),
        "cache": draw.choice((None, KVCache(1).layers[0])),
    }
    wrong = [KVCache(1), AttentionCache()]
    return Call(given, run=some(layers.DecoderLayer, draw), check=like("x"), extra={"cache": wrong})


@call(models.Encoder.forward)
def _(draw: random.Random) -> Call:
    given = {"x": vectors(S), "mask": draw.choice((None, torch.rand(B, 1, 1, S) < 0.5))}
    return Call(given, run=some(models.Encoder, draw), check=like("x"))


@call(models.Decoder.forward)
def _(draw: random.Random) -> Call:
    given = {
        "x": vectors(T),
        "memory": vectors(S),
        "mask": draw.choice((None, torch.rand(B, 1, T, T) < 0.5, torch.rand(B, 1, 1, T) < 0.5)),
        "memory_mask": draw.choice((None, torch.rand(B, 1, 1, S) < 0.5)),
        "positions": draw.choice((None, torch.randint(11, (B, T)))),
        "cache": draw.choice((None, KVCache(1))),
    }
    wrong = [KVCache(2), AttentionCache(), used_cache()]
    return Call(given, run=some(models.Decoder, draw), check=like("x"), extra={"cache": wrong})


def used_cache() -> KVCache:
    """Keys and values of a batch of another size."""
    used = KVCache(1)
    used.layers[0].self_attention.append(torch.randn(3, 3, 2, 4), torch.randn(3, 3, 2, 4))
    return used


@call(models.EncoderDecoder.forward)
def _(draw: random.Random) -> Call:
    given = {
        "source": vectors(S),
        "target": vectors(T),
        "source_mask": draw.choice((None, torch.rand(B, 1, 1, S) < 0.5)),
        "target_mask": draw.choice((None, torch.rand(B, 1, 1, T) < 0.5)),
    }
    return Call(given, run=some(models.EncoderDecoder, draw), check=like("target"))


# --- words in, words out -------------------------------------------------------------------------


def logits_for(name: str) -> Any:
    """A check: logits for each of the ids."""

    def check(result: Tensor, given: dict[str, Any]) -> None:
        assert result.shape == (*given[name].shape, V), tuple(result.shape)

    return check


@call(Embedding.forward)
def _(draw: random.Random) -> Call:
    def check(result: Tensor, given: dict[str, Any]) -> None:
        assert result.shape == (*given["ids"].shape, D)

    types = draw.choice((None, torch.randint(2, (B, T))))
    given = {"ids": ids(T), "types": types, "offset": draw.choice((0, 3))}
    given["positions"] = draw.choice((None, torch.randint(11, (B, T))))
    return Call(given, run=some(Embedding, draw), check=check, extra={"offset": HUGE})


@call(Embedding.logits)
def _(draw: random.Random) -> Call:
    def check(result: Tensor, given: dict[str, Any]) -> None:
        assert result.shape == (*given["x"].shape[:-1], V)

    return Call({"x": vectors(T)}, run=some(Embedding, draw).logits, check=check)


for kind in (models.Transformer, recurrent.RNNSeq2Seq):

    @call(kind.forward)
    def _(draw: random.Random, kind: Any = kind) -> Call:
        model = translator(kind, draw)
        return Call({"source": ids(S), "target": ids(T)}, run=model, check=logits_for("target"))

    @call(kind.start)
    def _(draw: random.Random, kind: Any = kind) -> Call:
        return Call({"source": ids(S)}, run=translator(kind, draw).start)

    @call(kind.step)
    def _(draw: random.Random, kind: Any = kind) -> Call:
        model = translator(kind, draw)
        given = {"tokens": torch.randint(3, V, (B,)), "state": model.start(ids(S))}
        wrong = [model.start(ids(S)[:1]), some(models.DecoderOnly, draw).start(ids(S))]
        return Call(given, run=lambda **a: model.step(**a)[0], check=logits_for("tokens"),
                    extra={"state": wrong})  # fmt: skip


def translator(kind: Any, draw: random.Random) -> Any:
    if kind is models.Transformer:
        return some(kind, draw)
    return _recurrent(draw.choice((None, "additive", "dot", "general", "concat")))


@cache
def _recurrent(attention: str | None) -> nn.Module:
    return recurrent.RNNSeq2Seq(vocab_size=V, d_model=6, attention=attention).eval()


@call(models.Transformer.encode)
def _(draw: random.Random) -> Call:
    return Call({"source": ids(S)}, run=some(models.Transformer, draw).encode)


for method in ("forward", "encode", "pooled"):

    @call(getattr(models.EncoderOnly, method))
    def _(draw: random.Random, method: str = method) -> Call:
        given = {"ids": ids(S), "types": draw.choice((None, torch.randint(2, (B, S))))}
        return Call(given, run=getattr(some(models.EncoderOnly, draw), method))


@call(models.DecoderOnly.forward)
def _(draw: random.Random) -> Call:
    given = {
        "ids": ids(T),
        "mask": draw.choice((None, torch.rand(B, 1, 1, T) < 0.5)),
        "positions": draw.choice((None, torch.randint(11, (B, T)))),
    }
    return Call(given, run=some(models.DecoderOnly, draw), check=logits_for("ids"))


@call(models.DecoderOnly.start)
def _(draw: random.Random) -> Call:
    length = draw.choice((0, 3))
    lengths = draw.choice((None, torch.randint(length + 1, (B,))))
    given = {"source": ids(length), "lengths": lengths}
    return Call(given, run=some(models.DecoderOnly, draw).start)


@call(models.DecoderOnly.step)
def _(draw: random.Random) -> Call:
    model = some(models.DecoderOnly, draw)
    given = {"tokens": torch.randint(3, V, (B,)), "state": model.start(ids(draw.choice((0, 3))))}
    wrong = [model.start(ids(3)[:1]), some(models.Transformer, draw).start(ids(S))]
    return Call(
        given, run=lambda **a: model.step(**a)[0], check=logits_for("tokens"),
        extra={"state": wrong},
    )  # fmt: skip


@call(models.DecoderState.reorder)
def _(draw: random.Random) -> Call:
    model = some(draw.choice((models.Transformer, models.DecoderOnly)), draw)
    return Call({"index": torch.tensor([1, 0, 1])}, run=model.start(ids(3)).reorder)


@call(recurrent.RNNState.reorder)
def _(draw: random.Random) -> Call:
    state = translator(recurrent.RNNSeq2Seq, draw).start(ids(S))
    return Call({"index": torch.tensor([1, 0, 1])}, run=state.reorder)


@call(recurrent.RNNConfig)
@call(recurrent.RNNSeq2Seq)
def _(draw: random.Random) -> Call:
    attention = draw.choice((None, "additive", "dot", "general", "concat"))
    given = {"vocab_size": V, "d_model": 6, "attention": attention, "dropout": 0.1}
    return Call(given | {"pad_id": 0, "bos_id": 1, "eos_id": 2})


# --- decoding ------------------------------------------------------------------------------------


def decoded(result: Any, given: dict[str, Any]) -> None:
    """Ids of the vocabulary, and what their probability is."""
    rows = len(given["source"])
    assert result.ids.size(0) == rows and 1 <= result.ids.size(-1) <= given["max_len"]
    assert result.ids.dtype is torch.int64 and result.ids.ge(0).all()
    assert result.scores.shape == result.ids.shape[:-1] and result.scores.le(0).all()


def decoding_call(draw: random.Random, **options: Any) -> Call:
    kind = draw.choice((models.Transformer, models.DecoderOnly, recurrent.RNNSeq2Seq))
    model = some(kind, draw) if kind is models.DecoderOnly else translator(kind, draw)
    source = ids(3)
    bos_id = draw.choice((1, source[:, 0]))
    given = {"model": model, "source": source, "max_len": 4, "bos_id": bos_id, "eos_id": 2}
    extra: dict[str, list[Any]] = {"model": [broken(), nn.Linear(2, 3), models.Transformer]}
    extra |= {"bos_id": HUGE, "eos_id": HUGE, "pad_id": HUGE}
    if kind is not recurrent.RNNSeq2Seq:  # which has no greatest length
        extra["max_len"] = HUGE
    return Call(given | {"pad_id": 0} | options, check=decoded, extra=extra)


def two() -> list[models.Transformer]:
    draw = random.Random(0)
    return [translator(models.Transformer, draw).eval() for _ in range(2)]


@call(decoding.Ensemble)
def _(draw: random.Random) -> Call:
    return Call({"models": two()}, extra={"models": [two()[:1], [*two(), nn.Linear(2, 3)]]})


@call(decoding.Ensemble.start)
def _(draw: random.Random) -> Call:
    return Call({"source": ids(3)}, run=decoding.Ensemble(two()).start)


@call(decoding.Ensemble.step)
def _(draw: random.Random) -> Call:
    together = decoding.Ensemble(two())
    given = {"tokens": torch.tensor([1] * B), "state": together.start(ids(3))}
    return Call(given, run=together.step)


def step_call(draw: random.Random, **options: Any) -> Call:
    """A call of what decodes one token at a time, so that each step can be watched."""
    made = decoding_call(draw, **options)
    if draw.random() < 0.25:  # seldom: an error that it raises is its own
        made.given["on_step"] = draw.choice((None, lambda tokens: None))
        made.extra["on_step"] = [lambda tokens: tokens, lambda tokens: tokens[:1] > 0, 3]
        made.calls_others = True
    return made


@call(decoding.greedy)
def _(draw: random.Random) -> Call:
    return step_call(draw)


@call(decoding.sample)
def _(draw: random.Random) -> Call:
    made = step_call(
        draw,
        temperature=draw.choice((1.0, 0.5)),
        top_k=draw.choice((None, 3)),
        top_p=draw.choice((None, 0.9)),
        generator=draw.choice((None, torch.Generator())),
    )
    made.extra |= {"top_k": HUGE, "temperature": [1e-300, 1e300, *HUGE, 10**400]}
    made.extra |= {"top_p": [1e-300, 1.0, 1 + 1e-9]}
    return made


@call(decoding.beam_search)
def _(draw: random.Random) -> Call:
    made = decoding_call(
        draw, beam_size=3, length_penalty=0.6, n_best=draw.choice((None, 2)),
        early_stopping=draw.random() < 0.5,
    )  # fmt: skip

    def check(result: Any, given: dict[str, Any]) -> None:
        n_best = given["beam_size"] if given["n_best"] is None else given["n_best"]
        assert result.ids.shape[:2] == (len(given["source"]), n_best)
        assert result.ranks.sort(descending=True).values.equal(result.ranks)

    made.check = check
    made.extra |= {"beam_size": [50, 1000], "length_penalty": [10, 11, 1e300, 10**400, 1e-300]}
    return made


@call(decoding.evaluating)
def _(draw: random.Random) -> Call:
    def run(model: Any) -> None:
        with decoding.evaluating(model):
            pass

    return Call({"model": some(models.Transformer, draw)}, run=run, anything=True)
