"""Calls of training, of saved models, and of runs."""

from __future__ import annotations

import inspect
import random
from functools import cache, partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from transformer_lib import decoding, pretrained, runs, training
from transformer_lib.config import ModelConfig
from transformer_lib.data import Batches, TextBatches
from transformer_lib.decoding import beam_search, sample
from transformer_lib.models import DecoderOnly, Transformer

from . import Call, call
from .data import MISSING, PAIRS, TEXTS, folder, tokenizer
from .models import broken
from .tensors import HUGE

V = 13


def model() -> Transformer:
    sizes = {"d_model": 12, "n_heads": 3, "n_layers": 1, "d_ff": 7, "max_len": 30}
    return Transformer(ModelConfig(vocab_size=V, **sizes))


@call(training.TrainConfig)
def _(draw: random.Random) -> Call:
    given = {
        "max_steps": 10, "epochs": 2, "patience": None, "warmup": 3, "peak_lr": 0.1,
        "betas": (0.9, 0.98), "eps": 1e-9, "label_smoothing": 0.1, "clip_norm": 1.0,
        "accumulate": 2, "seed": 3, "amp": "auto", "compile": False,
        "parallel": "ddp", "log_every": 5, "validate_every": None, "checkpoint_every": 7,
        "keep_last": 2, "tensorboard": False,
    }  # fmt: skip
    big = ("max_steps", "epochs", "patience", "warmup", "accumulate", "seed", "log_every")
    extra: dict[str, list[Any]] = dict.fromkeys(big, HUGE)
    extra |= {name: [1e300, 10**400] for name in ("peak_lr", "clip_norm", "eps")}
    return Call(given, extra=extra | {"betas": [(0.9,), (0.9, 1.0), (0.9, None), [0.5, 0.5]]})


@call(training.cross_entropy)
def _(draw: random.Random) -> Call:
    def check(result: Any, given: dict[str, Any]) -> None:
        logits, labels = given["logits"], given["labels"].long()
        if logits.device.type == "meta" or not logits.isfinite().all():
            return
        pad_id = given["pad_id"]
        kept = torch.ones_like(labels).bool() if pad_id is None else labels != pad_id
        log_p = logits.double().log_softmax(-1)[kept]
        smoothing = given["label_smoothing"]
        each = -(1 - smoothing) * log_p.gather(-1, labels[kept][..., None])[..., 0]
        each = each - smoothing * log_p.mean(-1)
        assert result.count == kept.sum()
        torch.testing.assert_close(result.total.double(), each.sum(), rtol=1e-3, atol=1e-3)

    given = {
        "logits": torch.randn(2, 3, V),
        "labels": torch.tensor([[4, 5, 0], [6, 0, 0]]),
        "label_smoothing": draw.choice((0.0, 0.1)),
        "pad_id": 0,
    }
    return Call(given, check=check, extra={"pad_id": HUGE})


@call(training.r_drop)
def _(draw: random.Random) -> Call:
    given = {
        "logits": torch.randn(2, 3, V),
        "others": torch.randn(2, 3, V),
        "labels": torch.tensor([[4, 5, 0], [6, 0, 0]]),
        "alpha": draw.choice((0.0, 5)),
        "label_smoothing": draw.choice((0.0, 0.1)),
        "pad_id": 0,
    }
    return Call(given, extra={"pad_id": HUGE})


@call(training.cosine_schedule)
def _(draw: random.Random) -> Call:
    def check(result: float, given: dict[str, Any]) -> None:
        assert 0 < result <= given["peak"]

    return Call({"step": draw.randint(1, 9), "warmup": 4, "last_step": 9, "peak": 0.1}, check=check)


@call(training.inverse_sqrt_schedule)
def _(draw: random.Random) -> Call:
    def check(result: float, given: dict[str, Any]) -> None:
        assert result > 0

    peak = draw.random() < 0.5
    given = {"step": 7, "warmup": 10, "d_model": None if peak else 512}
    given |= {"peak": 0.1 if peak else None}
    extra = {"step": HUGE, "warmup": HUGE, "d_model": HUGE, "peak": [10**400, 1e-300]}
    return Call(given, check=check, extra=extra)


@call(training.linear_cooldown)
def _(draw: random.Random) -> Call:
    def check(result: float, given: dict[str, Any]) -> None:
        assert 0 < result <= 1

    given = {"left": draw.choice((1, 7, 100)), "cooldown": 10}
    return Call(given, check=check, extra={"left": HUGE, "cooldown": HUGE})


@call(training.evaluate)
def _(draw: random.Random) -> Call:
    def check(result: dict[str, float], given: dict[str, Any]) -> None:
        assert result["loss"] > 0 and 0 <= result["accuracy"] <= 1

    given = {"model": model(), "batches": Batches(PAIRS, batch_size=2)}
    wrong = {"batches": [TextBatches(TEXTS, batch_size=2), [1], nothing()]}
    return Call(given, check=check, extra=wrong, calls_others=True)


def nothing() -> Any:
    """Batches of nothing but padding."""
    batches = Batches([([4], [])], batch_size=1)
    batches.epoch = lambda epoch, start=0: iter(())  # type: ignore[method-assign]
    return batches


@call(training.fit)
def _(draw: random.Random) -> Call:
    given = {
        "model": model(),
        "batches": Batches(PAIRS, batch_size=2),
        "config": training.TrainConfig(max_steps=1, warmup=1, peak_lr=1e-3, log_every=1),
        "validate": draw.choice((None, lambda model, epoch: {"loss": 1.0})),
        "directory": None,
        "resume": draw.choice((False, "auto")),
        "progress": False,
    }
    wrong = {
        "model": [nn.Linear(2, 3), nn.ReLU(), Transformer],
        "batches": [TextBatches(TEXTS, batch_size=2), nothing()],
        "directory": [3, b"x"],
    }
    return Call(given, errors=(FileNotFoundError,), extra=wrong, calls_others=True)


@call(training.save_checkpoint)
def _(draw: random.Random) -> Call:
    state = {"step": 3, "model": {"weight": torch.ones(2)}}
    wrong = {"state": [{3.5: 1}, {"a": object()}, {"a": [{"b": len}]}]}
    given = {"path": folder() / "saved.pt", "state": state}
    return Call(given, errors=(OSError,), extra=wrong)


@cache
def checkpoint(number: int) -> Any:
    path = folder() / f"checkpoint-{number}.pt"
    training.save_checkpoint(path, {"model": {"weight": torch.full((2,), float(number))}})
    return path


@cache
def damaged(name: str) -> Any:
    path = folder() / name
    path.write_bytes(b"PK\3\4 no longer a checkpoint")
    return path


@call(training.load_checkpoint)
def _(draw: random.Random) -> Call:
    given = {"path": checkpoint(1)}
    # What is wrong with a file is said of the file, by its path.
    return Call(
        given, errors=MISSING, extra={"path": [folder(), Path("nowhere"), damaged("path.pt")]}
    )


@call(training.average_checkpoints)
def _(draw: random.Random) -> Call:
    def check(result: dict[str, Tensor], given: dict[str, Any]) -> None:
        assert 1 <= result["weight"][0] <= 3

    wrong = [[folder()], ["nowhere"], [checkpoint(1), damaged("paths.pt")], str(checkpoint(1))]
    given = {"paths": [checkpoint(1), checkpoint(3)]}
    return Call(given, check=check, errors=MISSING, extra={"paths": wrong})


@call(training.local_device)
def _(draw: random.Random) -> Call:
    given = {"device": draw.choice(("auto", "cpu"))}
    return Call(given, extra={"device": ["tpu", "cuda:x", "cpu:0"]})


@call(training.History.column)
def _(draw: random.Random) -> Call:
    history = training.History([{"step": 1, "loss": 5.0}, {"step": 1, "val_loss": 4.0}])
    return Call({"name": "loss"}, run=history.column)


@call(training.History.read)
def _(draw: random.Random) -> Call:
    path = folder() / "log.jsonl"
    path.write_text('{"step": 1, "loss": 5.0}\n{"step": 2')
    broken = folder() / "path.jsonl"
    broken.write_text('{"step": 1\n{"step": 2}\n')
    wrong = [broken, folder(), Path("nowhere"), damaged("path.bin")]
    return Call({"path": path}, run=training.History.read, errors=MISSING, extra={"path": wrong})


# --- models of others, models saved --------------------------------------------------------------


@call(pretrained.from_torch)
def _(draw: random.Random) -> Call:
    def check(result: Any, given: dict[str, Any]) -> None:
        source, target = torch.randn(2, 5, 12), torch.randn(2, 3, 12)
        assert result(source, target).shape == target.shape

    def peer(**changes: Any) -> nn.Module:
        return nn.Transformer(12, 4, 1, 1, 20, batch_first=True, **changes)

    wrong = [
        nn.Transformer, peer(bias=False), peer(activation=torch.tanh), nn.TransformerEncoder,
        peer(custom_encoder=nn.Identity()),
    ]  # fmt: skip
    return Call({"peer": peer()}, check=check, extra={"peer": wrong})


@cache
def peers() -> dict[str, Any]:
    """Tiny models of Hugging Face's, one of each class."""
    from transformers import (
        BertConfig,
        BertForMaskedLM,
        GPT2Config,
        GPT2LMHeadModel,
        LlamaConfig,
        LlamaForCausalLM,
        MarianConfig,
        MarianMTModel,
    )

    sizes = {"vocab_size": 11, "hidden_size": 12, "num_hidden_layers": 1, "intermediate_size": 20}
    bert = BertForMaskedLM(BertConfig(**sizes, num_attention_heads=3))
    sizes = {"vocab_size": 11, "n_embd": 12, "n_head": 3, "n_layer": 1, "n_positions": 7}
    gpt2 = GPT2LMHeadModel(GPT2Config(**sizes, bos_token_id=10, eos_token_id=10))
    sizes = {"vocab_size": 11, "hidden_size": 12, "num_hidden_layers": 1, "intermediate_size": 20}
    llama = LlamaForCausalLM(LlamaConfig(**sizes, num_attention_heads=3))
    sizes = {"vocab_size": 11, "d_model": 12, "encoder_layers": 1, "decoder_layers": 1}
    sizes |= {"encoder_attention_heads": 3, "decoder_attention_heads": 3}
    ids = {"pad_token_id": 10, "decoder_start_token_id": 10, "eos_token_id": 0}
    marian = MarianMTModel(MarianConfig(**sizes, **ids, max_position_embeddings=9))
    return {"from_bert": bert, "from_gpt2": gpt2, "from_llama": llama, "from_marian": marian}


for function in (
    pretrained.from_bert, pretrained.from_gpt2, pretrained.from_llama, pretrained.from_marian
):  # fmt: skip

    @call(function)
    def _(draw: random.Random, function: Any = function) -> Call:
        wrong = [peer for name, peer in peers().items() if name != function.__name__]
        extra = {"peer": [*wrong, *map(type, wrong), nn.Transformer(12, 4, 1, 1, 20)]}
        return Call({"peer": peers()[function.__name__]}, extra=extra)


@call(pretrained.save_pretrained)
def _(draw: random.Random) -> Call:
    given = {"model": model(), "folder": folder() / "model"}
    extra = {"model": [nn.Linear(2, 3), Transformer, nn.Sequential(model())]}
    return Call(given, errors=(OSError,), extra=extra)


@call(pretrained.from_pretrained)
def _(draw: random.Random) -> Call:
    here = folder() / "model"
    pretrained.save_pretrained(model(), here)
    broken = folder() / "folder"
    broken.mkdir(exist_ok=True)
    (broken / "config.json").write_text("{")
    wrong = [folder(), Path("nowhere"), "", broken]
    return Call({"folder": here}, errors=MISSING, extra={"folder": wrong})


for function in (pretrained.load_bundled, pretrained.bundled_folder):

    @call(function)
    def _(draw: random.Random) -> Call:
        return Call({"name": "shakespeare"}, extra={"name": ["", ".", "..", "\0", "gpt2"]})


# --- runs and texts ------------------------------------------------------------------------------


@cache
def speaker(kind: Any) -> Any:
    sizes = {"d_model": 12, "n_heads": 3, "n_layers": 1, "d_ff": 7, "max_len": 12}
    return kind(ModelConfig(vocab_size=tokenizer().vocab_size, **sizes)).eval()


def text_call(kind: Any, draw: random.Random, **given: Any) -> Call:
    ways = (beam_search, partial(beam_search, beam_size=2), partial(sample, top_k=3))
    given |= {"decode": draw.choice(ways), "batch_size": 2, "progress": False}
    extra: dict[str, list[Any]] = {"batch_size": HUGE}
    extra |= {"decode": [lambda *_, **__: 3]}
    extra |= {"model": [nn.Linear(2, 3), kind, broken()]}

    def check(result: list[str], given: dict[str, Any]) -> None:
        wanted = given["prompts"] if "prompts" in given else given["sentences"]
        assert not isinstance(wanted, list | tuple) or len(result) == len(wanted)

    given |= {"model": speaker(kind), "tokenizer": tokenizer()}
    return Call(given, check=check, extra=extra, calls_others=True)


for function in (decoding.translate, decoding.candidates):

    @call(function)
    def _(draw: random.Random) -> Call:
        return text_call(Transformer, draw, sentences=["abc", "", "gh xy"])


def shows(number: int, new: str, is_end: bool) -> None:
    """What a text that grows is shown to."""


@call(decoding.complete)
def _(draw: random.Random) -> Call:
    made = text_call(DecoderOnly, draw, prompts=["abc", "", "gh xy"], max_tokens=3)
    if "on_step" in inspect.signature(made.given["decode"]).parameters:
        made.given |= {"stop": draw.choice(([], ["a"])), "on_text": draw.choice((None, shows))}
    made.extra |= {"max_tokens": HUGE, "prompts": [["a" * 40]], "stop": [[""], "ab", ["a", 3]]}
    return made


@cache
def run_folder() -> Any:
    """A run that has just begun."""
    here = folder() / "run"
    settings = {"n_layers": 1, "d_model": 16, "n_heads": 2, "d_ff": 8}
    runs.train(here, task="copy", model=settings, training={"max_steps": 1}, progress=False)
    return here


@call(runs.Run.load)
def _(draw: random.Random) -> Call:
    given = {"folder": run_folder(), "checkpoint": "last", "device": "cpu"}
    extra = {"checkpoint": ["best", "average", "first"], "folder": [Path("nowhere"), folder()]}
    extra["device"] = ["tpu", "cuda:x"]
    return Call(given, run=runs.Run.load, errors=MISSING, extra=extra)


@call(runs.Run.together)
def _(draw: random.Random) -> Call:
    given = {"folders": [run_folder(), run_folder()], "checkpoint": "last", "device": "cpu"}
    return Call(given, run=runs.Run.together, errors=MISSING, extra={"folders": [[]]})


@cache
def loaded() -> runs.Run:
    return runs.Run.load(run_folder(), "last", "cpu")


@call(runs.Run.unseen)
def _(draw: random.Random) -> Call:
    def check(result: list[str], given: dict[str, Any]) -> None:
        assert len(set(result)) == len(result) and not set(result) & set("abcdefghijklmnopqrst")

    return Call({"texts": ["abc", "d?"]}, run=loaded().unseen, check=check)


@call(runs.Run.answer)
def _(draw: random.Random) -> Call:
    given = {"texts": ["abc", "d"], "batch_size": 2, "progress": False}
    return Call(given, run=loaded().answer, extra={"batch_size": HUGE})


@call(runs.Run.score)
def _(draw: random.Random) -> Call:
    given = {"split": "val", "limit": 2, "decode": partial(sample, top_k=1), "progress": False}
    extra = {"split": ["train", "test"]}
    return Call(given, run=loaded().score, extra=extra, calls_others=True)


@call(runs.train)
def _(draw: random.Random) -> Call:
    here = folder() / f"train-{draw.random()}"
    given = {
        "folder": here, "task": "copy", "preset": "tiny", "vocab_size": None, "device": "cpu",
        "max_tokens": 4000, "score_every": None, "restart": False, "command": "fuzz",
        "progress": False, "model": {"n_layers": 1, "d_model": 16, "n_heads": 2, "d_ff": 8},
        "training": {"max_steps": 1, "epochs": None},
    }  # fmt: skip
    extra: dict[str, list[Any]] = {"task": ["Copy", "unknown"], "preset": ["huge", "tiny "]}
    extra |= {"model": [{"n_layers": 0}, {"layers": 3}, {"vocab_size": 3}, [1]]}
    extra |= {"training": [{"warmup": -1}, {"steps": 3}, "quick"], "device": ["tpu"]}
    return Call(given, errors=(OSError,), extra=extra)
