"""Calls of what makes, reads and batches data, and of what compares texts."""

from __future__ import annotations

import gzip
import hashlib
import random
import tempfile
from collections.abc import Sequence
from dataclasses import astuple
from functools import cache
from pathlib import Path
from typing import Any
from unittest import mock

import torch
from torch import Tensor

from transformer_lib import data, metrics, results
from transformer_lib.config import SpecialIds
from transformer_lib.data import Tokenizer, multi30k, numbers, shakespeare

from . import Call, call
from .tensors import HUGE

PAIRS = [([4, 5, 6], [7]), ([8], [9, 10]), ([5, 5], [])]
TEXTS = [[4, 5, 6], [7], []]
MISSING = (FileNotFoundError, IsADirectoryError, NotADirectoryError, PermissionError)


@cache
def folder() -> Path:
    """A folder of this process, emptied by the system."""
    return Path(tempfile.mkdtemp(prefix="fuzz-"))


@cache
def tokenizer() -> Tokenizer:
    return Tokenizer.characters(["abcdefgh ", "xyz"])


def lists(rows: Any) -> bool:
    """Whether it can be looked at again: an iterator is used up."""
    return isinstance(rows, list | tuple) and all(isinstance(row, list | tuple) for row in rows)


def padded(result: Tensor, rows: list[list[int]], pad_id: int) -> None:
    assert result.dtype is torch.int64 and result.shape == (len(rows), max(map(len, rows)))
    for found, row in zip(result.tolist(), rows, strict=True):
        assert found == row + [pad_id] * (len(found) - len(row))


# --- batches -------------------------------------------------------------------------------------


@call(data.pad)
def _(draw: random.Random) -> Call:
    def check(result: Tensor, given: dict[str, Any]) -> None:
        if lists(given["rows"]):
            padded(result, [[int(i) for i in row] for row in given["rows"]], given["pad_id"])

    return Call({"rows": TEXTS, "pad_id": 0}, check=check, extra={"pad_id": HUGE})


@call(data.collate)
def _(draw: random.Random) -> Call:
    def check(result: Any, given: dict[str, Any]) -> None:
        if lists(given["pairs"]) and all(map(lists, given["pairs"])):
            pairs = [([int(i) for i in s], [int(i) for i in t]) for s, t in given["pairs"]]
            pad_id, bos_id, eos_id = astuple(given["special_ids"])
            padded(result.source, [source for source, _ in pairs], pad_id)
            padded(result.target_input, [[bos_id, *target] for _, target in pairs], pad_id)
            padded(result.labels, [[*target, eos_id] for _, target in pairs], pad_id)

    return Call({"pairs": PAIRS, "special_ids": SpecialIds(bos_id=3)}, check=check)


@call(data.Batch.to)
def _(draw: random.Random) -> Call:
    return Call({"device": "cpu"}, run=data.collate(PAIRS).to)


@call(data.TextBatch.to)
def _(draw: random.Random) -> Call:
    batch = next(data.TextBatches(TEXTS, batch_size=3).epoch(0))
    return Call({"device": "cpu"}, run=batch.to)


def sizes(draw: random.Random) -> dict[str, Any]:
    size = draw.choice(({"max_tokens": 9}, {"batch_size": 2}))
    return size | {"seed": 3, "shuffle": draw.random() < 0.5, "special_ids": SpecialIds()}


@call(data.Batches)
def _(draw: random.Random) -> Call:
    def check(result: Any, given: dict[str, Any]) -> None:
        assert sum(len(batch.labels) for batch in result.epoch(0)) == len(result.pairs)

    extra = {"max_tokens": HUGE, "batch_size": HUGE, "seed": HUGE}
    return Call({"pairs": PAIRS, **sizes(draw)}, check=check, extra=extra)


@call(data.TextBatches)
def _(draw: random.Random) -> Call:
    def check(result: Any, given: dict[str, Any]) -> None:
        assert sum(len(batch.labels) for batch in result.epoch(0)) == len(result.texts)

    extra = {"max_tokens": HUGE, "batch_size": HUGE, "seed": HUGE}
    return Call({"texts": TEXTS, **sizes(draw)}, check=check, extra=extra)


@call(data.WindowBatches)
def _(draw: random.Random) -> Call:
    extra = {"length": HUGE, "max_tokens": HUGE, "batch_size": HUGE, "seed": HUGE}
    return Call({"ids": list(range(4, 30)), "length": 5, **sizes(draw)}, extra=extra)


for batches, examples in (
    (data.Batches, {"pairs": PAIRS}),
    (data.TextBatches, {"texts": TEXTS}),
    (data.WindowBatches, {"ids": list(range(4, 30)), "length": 5}),
):

    @call(batches.epoch)
    def _(draw: random.Random, batches: Any = batches, examples: Any = examples) -> Call:
        made = batches(**examples, **sizes(draw))
        extra = {"epoch": HUGE, "start": HUGE}
        return Call({"epoch": 2, "start": 1}, run=lambda **a: list(made.epoch(**a)), extra=extra)


@call(data.TokenBatchSampler)
def _(draw: random.Random) -> Call:
    lengths = draw.choice(([2, 9, 3, 2], [(2, 3), (9, 1), (4, 4)]))
    given = {"lengths": lengths, "max_tokens": 18, "seed": 3, "shuffle": draw.random() < 0.5}
    return Call(given, extra={"max_tokens": HUGE, "seed": HUGE})


@call(data.TokenBatchSampler.epoch)
def _(draw: random.Random) -> Call:
    def check(result: list[list[int]], given: dict[str, Any]) -> None:
        assert sorted(i for batch in result for i in batch) == [0, 1, 2]

    sampler = data.TokenBatchSampler([2, 9, 3], max_tokens=9)
    return Call({"epoch": 3}, run=sampler.epoch, check=check, extra={"epoch": HUGE})


# --- text ----------------------------------------------------------------------------------------


@call(data.Tokenizer)
def _(draw: random.Random) -> Call:
    from tokenizers import Tokenizer as Theirs
    from tokenizers.models import BPE

    wrong = [Theirs(BPE()), tokenizer()]
    return Call({"tokenizer": tokenizer()._tokenizer}, extra={"tokenizer": wrong})


@call(data.Tokenizer.from_bpe)
def _(draw: random.Random) -> Call:
    given = {
        "vocab": {"a": 0, "b": 1, "ab": 2},
        "merges": [("a", "b")],
        "special_ids": SpecialIds(pad_id=0, bos_id=1, eos_id=1),
    }
    extra = {"vocab": [{"a": "b"}, {}], "merges": [[("a", "x")], ["ab"]]}
    return Call(given, run=Tokenizer.from_bpe, extra=extra)


@call(data.Tokenizer.train_bpe)
def _(draw: random.Random) -> Call:
    text = ["low low lower", "newest newest"]
    extra = {"vocab_size": [*HUGE[:2], 259, 260]}
    return Call({"texts": text, "vocab_size": 265}, run=Tokenizer.train_bpe, extra=extra)


@call(data.Tokenizer.characters)
def _(draw: random.Random) -> Call:
    given = {"texts": ["two-one", "zwei"], "words": ["two", "one"]}
    return Call(given, run=Tokenizer.characters)


@call(data.Tokenizer.encode)
def _(draw: random.Random) -> Call:
    given = {"text": "hide", "add_eos": draw.random() < 0.5}
    extra = {"text": ["\ud800", "a\0b", "<eos>", "ß" * 50]}
    return Call(given, run=tokenizer().encode, extra=extra)


@cache
def merging() -> Tokenizer:
    return Tokenizer.train_bpe(["low low lower", "newest newest"], vocab_size=265)


@call(data.BpeDropout)
def _(draw: random.Random) -> Call:
    extra = {"tokenizer": [tokenizer()], "dropout": [1, 1.0, -0.1]}
    return Call({"tokenizer": merging(), "dropout": 0.5}, extra=extra)


@call(data.BpeDropout.encode)
def _(draw: random.Random) -> Call:
    def check(result: list[int], given: dict[str, Any]) -> None:
        assert merging().decode(result) == given["text"]

    given = {"text": "lowest", "draw": random.Random(1), "max_len": 3}
    extra = {"text": ["\ud800", "a\0b", "<eos>", "ß" * 50]}
    return Call(given, run=data.BpeDropout(merging(), 0.5).encode, check=check, extra=extra)


@call(data.Tokenizer.decode)
def _(draw: random.Random) -> Call:
    return Call({"ids": [4, 5, 6, 2]}, run=tokenizer().decode, extra={"ids": [[2**64], [10**9]]})


@call(data.Tokenizer.tokens)
def _(draw: random.Random) -> Call:
    return Call({"ids": [4, 5, 6, 2]}, run=tokenizer().tokens, extra={"ids": [[2**64], [10**9]]})


@call(data.Tokenizer.save)
def _(draw: random.Random) -> Call:
    here = folder() / "tokenizer.json"
    return Call({"path": here}, run=tokenizer().save, errors=(OSError,))


@call(data.Tokenizer.load)
def _(draw: random.Random) -> Call:
    here = folder() / "tokenizer.json"
    tokenizer().save(here)
    (folder() / "broken.json").write_text('{"version": "1.0"')
    wrong = [folder() / "broken.json", folder(), Path("nowhere"), "\0"]
    return Call({"path": here}, run=Tokenizer.load, errors=MISSING, extra={"path": wrong})


# --- made data -----------------------------------------------------------------------------------


@call(numbers.number_words)
def _(draw: random.Random) -> Call:
    given = {"n": 1234, "language": draw.choice(("en", "de"))}
    return Call(given, extra={"n": [*HUGE, 999_999, 1_000_000]})


@call(numbers.number_word_pairs)
def _(draw: random.Random) -> Call:
    def check(result: Any, given: dict[str, Any]) -> None:
        assert len(result) == given["high"] - given["low"] + 1

    return Call({"low": 3, "high": 20}, check=check, extra={"high": [*HUGE, 10**6], "low": HUGE})


@call(numbers.copy_pairs)
def _(draw: random.Random) -> Call:
    def check(result: Any, given: dict[str, Any]) -> None:
        assert len({tuple(source) for source, _ in result}) == given["n"]
        assert all(source == target for source, target in result)

    given = {"n": 5, "vocab_size": 9, "max_length": 3, "seed": 1}
    return Call(given, check=check, extra={"vocab_size": HUGE, "seed": HUGE, "n": [155, 156]})


@call(numbers.split_pairs)
def _(draw: random.Random) -> Call:
    def check(result: Any, given: dict[str, Any]) -> None:
        train, test = result
        assert len(test) == given["held_out"] and len(train) > 0

    pairs = draw.choice((PAIRS, [("a", "b"), ("c", "d"), ("e", "f")]))
    given = {"pairs": pairs, "held_out": 2, "seed": 1}
    return Call(given, check=check, extra={"held_out": HUGE, "seed": HUGE})


@call(data.stories)
def _(draw: random.Random) -> Call:
    def check(result: Any, given: dict[str, Any]) -> None:
        assert len(result) == given["n"]
        assert all(len(story.roles) == len(story.first.split()) for story in result)

    return Call({"n": 3, "seed": 2}, check=check, extra={"n": [0, 10**7], "seed": HUGE})


@call(data.story_pairs)
def _(draw: random.Random) -> Call:
    told = data.stories(9, seed=1)

    def check(result: Any, given: dict[str, Any]) -> None:
        asked = given["told"]  # an iterator is at its end by now
        assert len(result) == len(asked if isinstance(asked, Sequence) else told)

    extra = {"told": [told[:1], [*told, "a story"], []], "seed": HUGE}
    return Call({"told": told, "seed": 2}, check=check, extra=extra)


# --- files ---------------------------------------------------------------------------------------


@call(data.fetch)
def _(draw: random.Random) -> Call:
    source = folder() / "source.txt"
    source.write_bytes(b"content")
    given = {
        "url": source.as_uri(),
        "sha256": hashlib.sha256(b"content").hexdigest(),
        "path": folder() / f"fetched-{draw.random()}.txt",
        "progress": False,
        "timeout": 5.0,
    }
    wrong = {"url": ["file:///nowhere", "ftp://host/x"], "sha256": ["0" * 64]}
    return Call(given, errors=(data.DownloadError, *MISSING), extra=wrong)


@call(multi30k.load)
def _(draw: random.Random) -> Call:
    captions = folder() / "captions.gz"
    captions.write_bytes(gzip.compress(b"a dog\na cat\n"))

    def run(**arguments: Any) -> Any:
        with mock.patch.object(multi30k, "_file", lambda *_: captions):  # no test may download
            return multi30k.load(**arguments)

    given = {"split": "val", "lowercase": draw.choice((True, False)), "progress": False}
    return Call(given, run=run)


@call(shakespeare.load)
def _(draw: random.Random) -> Call:
    return Call({"split": draw.choice(shakespeare.SPLITS)})


# --- scores and records --------------------------------------------------------------------------


@call(metrics.exact_match)
def _(draw: random.Random) -> Call:
    given = {"translations": ["a b c d", "e"], "references": ["a b c d", "f"]}

    def check(result: Any, given: dict[str, Any]) -> None:
        assert 0 <= result.value <= 100

    return Call(given, check=check)


for function in (metrics.bleu, metrics.bleu_lowercased, metrics.bleu_tokenized, metrics.chrf):

    @call(function)
    def _(draw: random.Random) -> Call:
        given = {"translations": ["a b c d", "e"], "references": ["a b c d", "f"]}

        def check(result: Any, given: dict[str, Any]) -> None:
            assert 0 <= result.value <= 100.001

        return Call(given, check=check)


@call(metrics.paired_bootstrap)
def _(draw: random.Random) -> Call:
    given = {
        "score": draw.choice((metrics.bleu, metrics.bleu_tokenized, metrics.chrf)),
        "translations": ["a b c d", "e"],
        "others": ["a b c", "f"],
        "references": ["a b c d", "f"],
        "samples": draw.choice((1, 7)),
    }

    def check(result: Any, given: dict[str, Any]) -> None:
        assert 0 <= result.p_value <= 1

    return Call(given, check=check, extra={"score": [metrics.exact_match, len, "bleu"]})


@call(results.load_run)
def _(draw: random.Random) -> Call:
    wrong = ["", ".", "..", "../results/multi30k-tiny-s0", "\0", "/etc"]
    return Call({"name": "multi30k-tiny-s0"}, extra={"name": wrong})


@call(results.load_result)
def _(draw: random.Random) -> Call:
    wrong = ["", ".", "..", "\0", "multi30k-tiny-s0"]
    return Call({"name": "multi30k-text"}, extra={"name": wrong})


@call(results.write_score)
def _(draw: random.Random) -> Call:
    given = {"folder": folder(), "split": "val", "score": {"metric": "bleu", "value": 3.0}}
    return Call(given, errors=(OSError,))


@call(results.circumstances)
def _(draw: random.Random) -> Call:
    return Call({"device": torch.device("cpu")}, extra={"device": ["cpu", "cuda", "nowhere"]})
