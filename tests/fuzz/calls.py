"""A right call of every public function, from what its signature says.

An argument that has a default keeps it, unless that is None. Others get the value that `NUMBERS` or
`RIGHT` has for their name: names mean the same all over the library. `GIVEN` says what else a
function needs, and `MADE` makes the objects whose methods are called.
"""

import inspect
import random
import tempfile
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any
from uuid import uuid4

import torch
from torch import Tensor, nn

from transformer_lib import (
    data,
    decoding,
    layers,
    metrics,
    models,
    multihead,
    positions,
    pretrained,
    recurrent,
    results,
    runs,
    training,
)
from transformer_lib.attention import attention, fused_attention
from transformer_lib.cache import AttentionCache, KVCache
from transformer_lib.config import ModelConfig
from transformer_lib.dropout import Dropout
from transformer_lib.embedding import Embedding

B, S, T, V, D, H = 2, 7, 5, 13, 12, 3
SCHEMES = ("sinusoidal", "learned", "rotary", "relative", "alibi", "none")
PAIRS = [([4, 5, 6], [7]), ([8], [9, 10]), ([5, 5], [])]
TEXTS = [[4, 5, 6], [7], []]
SENTENCES = ["abc", "", "gh xy"]
SMALL = {"d_model": D, "n_heads": H, "n_layers": 1, "d_ff": 7}


@dataclass
class Call:
    """What is called, and with what."""

    run: Callable[..., Any]
    given: dict[str, Any]


def right_call(function: Any, owner: type | None) -> Call:
    """A call of a function, of a class, or of the method of a class, that has an answer."""
    key, run, made = function, function, None
    if owner is not None and function is not owner:
        on_class = isinstance(inspect.getattr_static(owner, function.__name__), classmethod)
        made = owner if on_class else MADE[owner]()
        run = getattr(made, function.__name__)
    chosen = GIVEN.get(key, lambda _: {})(made)
    given = {
        name: chosen[name] if name in chosen else _value(key, parameter)
        for name, parameter in inspect.signature(run).parameters.items()
        if parameter.kind is not parameter.VAR_KEYWORD
    }
    given = {name: value for name, value in (given | chosen).items() if value is not ...}
    return Call(partial(_to_the_end, run), given)


def _value(function: Any, parameter: inspect.Parameter) -> Any:
    if parameter.default not in (None, parameter.empty):
        return parameter.default
    if parameter.name in RIGHT:
        return RIGHT[parameter.name]()
    if parameter.name not in NUMBERS and parameter.default is parameter.empty:
        raise KeyError(f"{function.__qualname__}: no right value for {parameter.name}")
    return NUMBERS.get(parameter.name)


def _to_the_end(run: Callable[..., Any], **given: Any) -> Any:
    result = run(**given)
    if isinstance(result, AbstractContextManager):
        with result as inside:
            return inside
    return list(result) if inspect.isgenerator(result) else result


def maybe(value: Any) -> Any:
    return random.choice((None, value))


# --- models and files, made once -----------------------------------------------------------------


def config(**changes: Any) -> ModelConfig:
    choices = {
        "positions": random.choice(SCHEMES),
        "n_kv_heads": maybe(1),
        "pre_norm": random.random() < 0.5,
    }
    sizes = SMALL | {"vocab_size": V, "max_len": 11, "n_token_types": 2}
    return ModelConfig(**sizes | choices | changes)


@cache
def made(kind: Any, scheme: str) -> Any:
    return kind(config(positions=scheme, n_kv_heads=1, pre_norm=True)).eval()


def some(kind: Any) -> Any:
    """A model in evaluation mode: no call may change it."""
    return made(kind, random.choice(SCHEMES))


@cache
def self_attention(scheme: str) -> nn.Module:
    return made(layers.EncoderLayer, scheme).self_attention


@cache
def recurrent_model(kind: str | None) -> nn.Module:
    return recurrent.RNNSeq2Seq(vocab_size=V, d_model=6, attention=kind).eval()


def rnn() -> nn.Module:
    return recurrent_model(random.choice((None, "additive", "dot", "general")))


@cache
def tokenizer() -> data.Tokenizer:
    return data.Tokenizer.characters(["abcdefgh ", "xyz"])


@cache
def merging() -> data.Tokenizer:
    return data.Tokenizer.train_bpe(["low low lower", "newest newest"], vocab_size=265)


@cache
def speaker(kind: Any) -> Any:
    return kind(ModelConfig(vocab_size=tokenizer().vocab_size, max_len=12, **SMALL)).eval()


def filled(batch: int = B) -> AttentionCache:
    kept = AttentionCache()
    kept.append(torch.randn(batch, 3, 2, 4), torch.randn(batch, 3, 2, 4))
    return kept


def used_cache(batch: int = B) -> KVCache:
    used = KVCache(1)
    used.layers[0].self_attention = filled(batch)
    return used


def written(name: str, content: bytes = b"{") -> Path:
    Path(name).write_bytes(content)
    return Path(name)


def saved(name: str, save: Callable[[Path], Any]) -> Path:
    save(Path(name))
    return Path(name)


def checkpoint(name: str = "saved.pt") -> Path:
    return saved(name, lambda path: training.save_checkpoint(path, {"model": {"w": torch.ones(2)}}))


def run_folder() -> Path:
    """A run that has just begun."""
    if not Path("run").exists():
        settings = {"n_layers": 1, "d_model": 16, "n_heads": 2, "d_ff": 8}
        runs.train("run", task="copy", model=settings, training={"max_steps": 1}, progress=False)
    return Path("run")


def run() -> runs.Run:
    return runs.Run.load(run_folder(), "last", "cpu")


@cache
def peers() -> dict[str, Any]:
    """A tiny model of Hugging Face's for each function that takes one."""
    import transformers as hf

    sizes = {"vocab_size": 11, "hidden_size": 12, "num_hidden_layers": 1, "intermediate_size": 20}
    sizes |= {"n_embd": 12, "n_head": 3, "n_layer": 1, "n_positions": 7, "num_attention_heads": 3}
    marian = {"d_model": 12, "encoder_layers": 1, "decoder_layers": 1, "vocab_size": 11}
    marian |= {"encoder_attention_heads": 3, "decoder_attention_heads": 3, "eos_token_id": 0}
    marian |= {"pad_token_id": 10, "decoder_start_token_id": 10, "max_position_embeddings": 9}
    gpt2 = hf.GPT2Config(**sizes, bos_token_id=10, eos_token_id=10)
    return {
        "from_bert": hf.BertForMaskedLM(hf.BertConfig(**sizes)),
        "from_gpt2": hf.GPT2LMHeadModel(gpt2),
        "from_llama": hf.LlamaForCausalLM(hf.LlamaConfig(**sizes)),
        "from_marian": hf.MarianMTModel(hf.MarianConfig(**marian)),
        "from_torch": nn.Transformer(12, 4, 1, 1, 20, batch_first=True),
    }


@cache
def cache_folder() -> Path:
    """The user's cache, with a tiny published model in it under each name."""
    import transformers as hf

    home = Path(tempfile.mkdtemp())
    theirs = hf.PreTrainedTokenizerFast(tokenizer_object=tokenizer()._tokenizer)
    for name in pretrained.published.PUBLISHED:
        for part in (peers()["from_llama"], theirs):
            part.save_pretrained(home / "published" / name)
    return home


# --- right values by name ------------------------------------------------------------------------


def ids(length: int) -> Tensor:
    return torch.randint(3, V, (B, length))


def vectors(length: int) -> Tensor:
    return torch.randn(B, length, D)


def heads(length: int) -> Tensor:
    return torch.randn(B, H, length, D)


def seen(*shape: int) -> Tensor | None:
    return maybe(torch.rand(shape) < 0.5)


NUMBERS = {
    **{"vocab_size": V, "d_model": D, "n_heads": H, "d_head": D, "d_query": D, "d_key": D},
    **{"d_ff": 7, "d_hidden": 7, "n_layers": 2, "max_len": 11, "t": T, "s": S, "window": 2},
    **{"dropout": 0.1, "p": 0.3, "eps": 1e-5, "pad_id": 0, "n": 5},
    **{"step": 7, "warmup": 4, "last_step": 9, "cooldown": 10, "left": 7, "peak": 0.1},
    **{"epoch": 2, "held_out": 1},
}
RIGHT: dict[str, Callable[[], Any]] = {
    # ids and vectors
    "ids": lambda: ids(T),
    "source": lambda: ids(S),
    "target": lambda: ids(T),
    "tokens": lambda: ids(1)[:, 0],
    "types": lambda: maybe(torch.randint(2, (B, T))),
    "index": lambda: torch.tensor([1, 0, 1]),
    "x": lambda: vectors(T),
    "memory": lambda: vectors(S),
    "query": lambda: heads(T),
    "key": lambda: heads(S),
    "value": lambda: heads(S),
    "scores": lambda: torch.randn(B, H, T, S),
    "weights": lambda: torch.rand(B, H, T, T),
    "weight": lambda: torch.rand(D),
    "mask": lambda: seen(B, 1, T, T),
    "memory_mask": lambda: seen(B, 1, 1, S),
    "source_mask": lambda: seen(B, 1, 1, S),
    "target_mask": lambda: seen(B, 1, 1, T),
    "logits": lambda: torch.randn(2, 3, V),
    "labels": lambda: torch.tensor([[4, 5, 0], [6, 0, 0]]),
    # what stands for more
    "config": config,
    "sublayer": nn.Identity,
    "model": lambda: some(models.Transformer),
    "models": lambda: [some(models.Transformer) for _ in range(2)],
    "tokenizer": tokenizer,
    "draw": lambda: random.Random(1),
    "device": lambda: torch.device("cpu"),
    "batches": lambda: data.Batches(PAIRS, batch_size=2),
    # data, text and files
    "pairs": lambda: PAIRS,
    "texts": lambda: TEXTS,
    "rows": lambda: TEXTS,
    "text": lambda: "hide",
    "sentences": lambda: SENTENCES,
    "prompts": lambda: SENTENCES,
    "translations": lambda: ["a b c d", "e"],
    "others": lambda: ["a b c", "f"],
    "references": lambda: ["a b c d", "f"],
    "told": lambda: data.stories(9, seed=1),
    "split": lambda: "val",
    "folder": lambda: run_folder(),
    "path": lambda: Path("new"),
}


# --- what a function needs beside that -----------------------------------------------------------


def batch_size(_: Any) -> dict[str, Any]:
    return random.choice(({"max_tokens": 9}, {"batch_size": 2}))


def strings(_: Any) -> dict[str, Any]:
    return {"texts": ["low low lower", "newest d-z"]}


def name_of_a_bundled_model(_: Any) -> dict[str, Any]:
    return {"name": "shakespeare"}


def attended(_: Any) -> dict[str, Any]:
    return {"mask": seen(B, 1, T, S), "bias": maybe(torch.randn(H, T, S)), "scale": maybe(0.3)}


def of_this_model(model: Any) -> dict[str, Any]:
    return {"state": model.start(ids(S))}


def layer_cache(_: Any) -> dict[str, Any]:
    return {"cache": maybe(KVCache(1).layers[0])}


def decoded(_: Any) -> dict[str, Any]:
    model = random.choice((some(models.Transformer), some(models.DecoderOnly), rnn()))
    return {"model": model, "source": ids(3), "max_len": 4, "bos_id": 1, "eos_id": 2, "pad_id": 0}


def sampled(_: Any) -> dict[str, Any]:
    return decoded(_) | {"top_k": maybe(3), "top_p": maybe(0.9), "generator": torch.Generator()}


def spoken(_: Any) -> dict[str, Any]:
    ways = (decoding.beam_search, partial(decoding.sample, top_k=3))
    return {"model": speaker(models.Transformer), "decode": random.choice(ways)}


def a_preset(_: Any) -> dict[str, Any]:
    return {"vocab_size": V, "n_layers": 1, "dropout": 0.0, "norm": "rms"}


def heads_of_attention(layer: Any) -> dict[str, Any]:
    """Self-attention, or attention to a memory as long."""
    crossing = layer.rotary is layer.relative is None and random.random() < 0.5
    self_only = {"memory": None, "causal": random.random() < 0.5}
    chosen = {"memory": vectors(T)} if crossing else self_only
    return chosen | {"mask_name": ...}  # for the library's own calls


def trained(_: Any) -> dict[str, Any]:
    folder = f"train-{uuid4().hex}"
    small = {"n_layers": 1, "d_model": 16, "n_heads": 2, "d_ff": 8}
    return {
        "folder": folder,
        "task": "copy",
        "vocab_size": None,
        "model": small,
        "training": {"max_steps": 1},
    }


def fitted(_: Any) -> dict[str, Any]:
    settings = training.TrainConfig(max_steps=1, warmup=1, peak_lr=1e-3, log_every=1)
    return {"config": settings, "model": models.Transformer(config()), "resume": False}


GIVEN: dict[Any, Callable[[Any], dict[str, Any]]] = {
    **dict.fromkeys((attention, fused_attention), attended),
    **dict.fromkeys((data.Batches, data.TextBatches), batch_size),
    data.WindowBatches: lambda _: {"ids": list(range(4, 30)), "length": 5} | batch_size(_),
    data.BpeDropout: lambda _: {"tokenizer": merging()},
    data.BpeDropout.encode: lambda _: {"text": "lowest"},
    data.Tokenizer: lambda _: {"tokenizer": tokenizer()._tokenizer},
    data.Tokenizer.train_bpe: lambda _: strings(_) | {"vocab_size": 265},
    data.Tokenizer.characters: strings,
    data.Tokenizer.decode: lambda _: {"ids": [4, 5, 6, 2]},
    data.Tokenizer.tokens: lambda _: {"ids": [4, 5, 6, 2]},
    data.Tokenizer.load: lambda _: {"path": saved("tokenizer.json", tokenizer().save)},
    data.TokenBatchSampler: lambda _: {"lengths": [2, 9, 3], "max_tokens": 18},
    data.number_words: lambda _: {"n": 1234},
    data.number_word_pairs: lambda _: {"low": 3, "high": 20},
    metrics.paired_bootstrap: lambda _: {"score": metrics.chrf, "samples": 7},
    results.load_run: lambda _: {"name": "multi30k-tiny-s0"},
    results.load_result: lambda _: {"name": "multi30k-text"},
    Embedding.forward: lambda _: {"name": ...},  # for the library's own calls
    positions.RotaryPositions.forward: lambda _: {"x": heads(T)},
    positions.RelativePositions.scores: lambda _: {"s": T},
    positions.alibi_bias: lambda _: {"s": T},
    multihead.MultiHeadAttention.forward: heads_of_attention,
    multihead.MultiHeadAttention.load_projections: lambda _: {
        name: nn.Linear(D, 4 if name in ("key", "value") else D)
        for name in ("query", "key", "value", "output")
    },
    layers.DecoderLayer.forward: layer_cache,
    models.EncoderDecoder.forward: lambda _: {"source": vectors(S), "target": vectors(T)},
    models.parameter_counts: lambda _: {"kind": random.choice(("both", "encoder", "decoder"))},
    **dict.fromkeys(
        (models.Transformer.step, models.DecoderOnly.step, recurrent.RNNSeq2Seq.step), of_this_model
    ),
    decoding.Ensemble.step: of_this_model,
    ModelConfig.published: lambda _: {"name": "gpt2", "n_layers": 1},
    **dict.fromkeys((ModelConfig.tiny, ModelConfig.base, ModelConfig.big), a_preset),
    decoding.greedy: decoded,
    decoding.sample: sampled,
    decoding.beam_search: decoded,
    **dict.fromkeys((decoding.translate, decoding.candidates), spoken),
    decoding.complete: lambda _: {"model": speaker(models.DecoderOnly), "max_tokens": 3},
    training.TrainConfig: lambda _: {"max_steps": 10},
    training.fit: fitted,
    training.r_drop: lambda _: {"others": torch.randn(2, 3, V)},
    training.inverse_sqrt_schedule: lambda _: random.choice(({"peak": None}, {"d_model": None})),
    training.save_checkpoint: lambda _: {"state": {"step": 3, "w": torch.ones(2)}},
    training.load_checkpoint: lambda _: {"path": checkpoint()},
    training.average_checkpoints: lambda _: {"paths": [checkpoint(), checkpoint("other.pt")]},
    training.History.column: lambda _: {"name": "loss"},
    training.History.read: lambda _: {"path": written("log.jsonl", b'{"step": 1, "loss": 5.0}\n')},
    **{getattr(pretrained, name): lambda _, name=name: {"peer": peers()[name]} for name in (
        "from_bert", "from_gpt2", "from_llama", "from_marian", "from_torch")},
    pretrained.from_peer: lambda _: {"peer": peers()["from_llama"]},
    pretrained.load_peer: lambda _: {"source": "minilm"},
    pretrained.published_folder: lambda _: {"name": "minilm"},
    **dict.fromkeys((pretrained.load_bundled, pretrained.bundled_folder), name_of_a_bundled_model),
    runs.Run.load: lambda _: {"checkpoint": "last"},
    **dict.fromkeys((runs.Run.unseen, runs.Run.answer), lambda _: {"texts": ["abc", "d"]}),
    runs.Run.score: lambda _: {"limit": 2},
    runs.train: trained,
}  # fmt: skip
GIVEN = {getattr(function, "__func__", function): given for function, given in GIVEN.items()}

CONFIGURED = (
    layers.FeedForward, layers.Residual, layers.EncoderLayer, layers.DecoderLayer, models.Encoder,
    models.Decoder, models.EncoderDecoder, models.Transformer, models.EncoderOnly,
    models.DecoderOnly, Embedding,
)  # fmt: skip
MADE: dict[type, Callable[[], Any]] = {
    **{kind: partial(some, kind) for kind in CONFIGURED},
    multihead.MultiHeadAttention: lambda: self_attention(
        random.choice(("rotary", "relative", "none"))
    ),
    recurrent.RNNSeq2Seq: rnn,
    recurrent.RNNState: lambda: rnn().start(ids(S)),
    recurrent.AdditiveScore: lambda: recurrent.AdditiveScore(d_query=D, d_key=D, d_hidden=7),
    models.DecoderState: lambda: some(models.Transformer).start(ids(3)),
    decoding.Ensemble: lambda: decoding.Ensemble([some(models.DecoderOnly) for _ in range(2)]),
    positions.SinusoidalPositions: lambda: positions.SinusoidalPositions(d_model=D, max_len=11),
    positions.LearnedPositions: lambda: positions.LearnedPositions(d_model=D, max_len=11),
    positions.RotaryPositions: lambda: positions.RotaryPositions(d_head=D, max_len=11),
    positions.RelativePositions: lambda: positions.RelativePositions(d_head=D, max_distance=3),
    Dropout: lambda: Dropout(0.5),
    AttentionCache: filled,
    KVCache: used_cache,
    data.Batch: lambda: data.collate(PAIRS),
    data.TextBatch: lambda: next(data.TextBatches(TEXTS, batch_size=3).epoch(0)),
    data.Batches: RIGHT["batches"],
    data.TextBatches: lambda: data.TextBatches(TEXTS, batch_size=2),
    data.WindowBatches: lambda: data.WindowBatches(range(4, 30), length=5, batch_size=2),
    data.TokenBatchSampler: lambda: data.TokenBatchSampler([2, 9, 3], max_tokens=9),
    data.Tokenizer: tokenizer,
    data.BpeDropout: lambda: data.BpeDropout(merging(), 0.5),
    training.History: lambda: training.History([{"step": 1, "loss": 5.0}]),
    runs.Run: run,
}


# --- wrong values by name, beside those that test_fuzz.py makes of right ones ---------------------

WRONG: dict[str, tuple[Callable[[], Any], ...]] = {
    "cache": (lambda: KVCache(2), AttentionCache, lambda: used_cache(3), lambda: filled(3)),
    "state": (lambda: some(models.DecoderOnly).start(ids(3)[:1]),),
    "rotary": (lambda: positions.RotaryPositions(d_head=6, max_len=11),),
    "relative": (lambda: positions.RelativePositions(d_head=5),),
    "path": (lambda: "\0", lambda: Path(".")),
}

# Errors of what is handed over to be called are its own; so are those of files.
OTHERS = {
    "decode",
    "validate",
    "prepare",
    "say",
    "on_step",
    "on_text",
    "sublayer",
    "redraw",
    "batches",
}
FILES = {
    "checkpoint",
    "path",
    "paths",
    "folder",
    "folders",
    "directory",
    "vocab",
    "merges",
    "distilled",
    "source",
}
ANYTHING = {decoding.evaluating}  # takes whatever there is


# --- what is right about a result ----------------------------------------------------------------


def check(function: Any, result: Any, given: dict[str, Any]) -> None:
    """Raise unless a layer keeps its input's shape and type."""
    if isinstance(given.get("x"), Tensor) and function.__name__ == "forward":
        x = given["x"]
        assert result.shape == x.shape and result.dtype is x.dtype and result.device == x.device
