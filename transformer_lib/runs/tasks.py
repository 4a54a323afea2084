"""The tasks a model can learn, and the settings that suit them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal

from transformer_lib.data import (
    Tokenizer,
    copy_pairs,
    multi30k,
    number_word_pairs,
    number_words,
    shakespeare,
    split_pairs,
)
from transformer_lib.metrics import Score, bleu, bleu_lowercased, bleu_tokenized, chrf, exact_match
from transformer_lib.validation import check_choice

__all__ = ["TASKS", "Task"]

Pairs = list[tuple[str, str]]


@dataclass(frozen=True)
class Task:
    """A task: its texts, how they are tokenized, and how a model is scored.

    Attributes:
        kind: ``"translation"``, from a source to a target; or, for a decoder alone, ``"texts"``,
            each on its own, or ``"running text"``, read in windows of the model's ``max_len``.
        load: returns the (source, target) texts of a split; for a decoder, (prompt, continuation),
            which together are one text.
        splits: what can be scored besides ``"train"``; the first is for validation.
        tokenizer: makes one from the training pairs and a vocabulary size.
        score: compares translations or continuations with references; None measures perplexity.
        scores_too: more ways to compare them, for ``evaluate``.
        word: a regular expression: what counts as a word in the texts that the model reads.
        example: a text to try a trained model on.
        model, train: settings that replace those of the preset and of ``TrainConfig``.
        max_tokens, batch_size: the size of a batch in tokens per side, or in pairs. Tokens save
            padding but sort by length, and numbers are learned better in mixed lengths.
    """

    load: Callable[[str], Pairs]
    splits: tuple[str, ...]
    tokenizer: Callable[[Pairs, int | None], Tokenizer]
    score: Callable[[Sequence[str], Sequence[str]], Score] | None
    kind: Literal["translation", "texts", "running text"] = "translation"
    scores_too: tuple[Callable[[Sequence[str], Sequence[str]], Score], ...] = ()
    word: str = r"\w+|[^\w\s]"  # a run of letters and digits, or one other character
    example: str = ""
    model: dict[str, Any] = field(default_factory=dict)
    train: dict[str, Any] = field(default_factory=dict)
    max_tokens: int | None = None
    batch_size: int | None = None

    @property
    def translates(self) -> bool:
        """Whether a Transformer translates; otherwise a decoder continues texts."""
        return self.kind == "translation"


def task_named(name: str) -> Task:
    """The task, or a ValueError that lists all tasks."""
    check_choice("task", name, TASKS)
    return TASKS[name]


def words_of(task: Task, texts: Iterable[str]) -> dict[str, None]:
    """The distinct words of texts, in order: a set that keeps its order."""
    return {word: None for text in texts for word in re.findall(task.word, text)}


def holding_out(count: int, pairs: Callable[[], Pairs]) -> Callable[[str], Pairs]:
    """Make a loader of generated pairs: ``count`` for validation, the rest for training."""

    def load(split: str) -> Pairs:
        train, val = split_pairs(pairs(), held_out=count)
        return train if split == "train" else val

    return load


def _copy_texts() -> Pairs:
    # Ids 4 to 23 as the letters a to t.
    texts = ["".join(chr(ord("a") + i - 4) for i in ids) for ids, _ in copy_pairs(5_000)]
    return [(text, text) for text in texts]


def _captions(split: str) -> Pairs:
    return [("", english) for english, _ in multi30k.load(split)]


def _speeches(split: str) -> Pairs:
    text = shakespeare.load(split)
    return [("", speech) for speech in re.findall(r".+?(?:\n\n|\n\Z)", text, re.DOTALL)]


def _number_lines() -> Pairs:
    return [(f"{number_words(n)} =", f" {n}") for n in range(10_000)]


def _characters(pairs: Pairs, vocab_size: int | None, words: Iterable[str] = ()) -> Tokenizer:
    if vocab_size is not None:
        raise ValueError("vocab_size must be left out: the tokens of this task are characters")
    return Tokenizer.characters([text for pair in pairs for text in pair], words=words)


def _words_to_characters(pairs: Pairs, vocab_size: int | None) -> Tokenizer:
    # Source in words, target in characters: cross-attention can be read like an alignment.
    words = {word for source, _ in pairs for word in re.findall("[a-z]+", source)}
    return _characters(pairs, vocab_size, words)


def _bpe(pairs: Pairs, vocab_size: int | None) -> Tokenizer:
    texts = [text for pair in pairs for text in pair]
    return Tokenizer.train_bpe(texts, vocab_size=vocab_size or 8_000)


_SMALL = {"n_layers": 2, "dropout": 0.0}
_QUICK = {"epochs": 6, "warmup": 50, "peak_lr": 0.002}
_CAPTIONS = {"epochs": 30, "warmup": 2000, "peak_lr": 0.005}
TASKS = {
    "multi30k": Task(
        load=multi30k.load,
        example="A man is riding a bike.",
        splits=("val", "test_2016_flickr"),
        tokenizer=_bpe,
        score=bleu,
        scores_too=(bleu_lowercased, chrf),
        train=_CAPTIONS,
        max_tokens=2048,
    ),
    "multi30k-lowercase": Task(
        load=partial(multi30k.load, lowercase=True),
        example="a man is riding a bike .",
        splits=("val", "test_2016_flickr"),
        tokenizer=_bpe,
        score=bleu_tokenized,
        scores_too=(chrf,),
        train=_CAPTIONS,
        max_tokens=2048,
    ),
    "number-words": Task(
        load=holding_out(1_000, number_word_pairs),
        example="forty-two",
        splits=("val",),
        tokenizer=_words_to_characters,
        score=exact_match,
        model=_SMALL,
        train=_QUICK,
        batch_size=64,
    ),
    "copy": Task(
        load=holding_out(500, _copy_texts),
        word=r"\S",  # each letter is a word
        example="hello",
        splits=("val",),
        tokenizer=_characters,
        score=exact_match,
        model=_SMALL,
        train=_QUICK,
        batch_size=64,
    ),
    "captions": Task(
        load=_captions,
        example="A man is",
        splits=("val", "test_2016_flickr"),
        tokenizer=_bpe,
        score=None,
        kind="texts",
        train={"epochs": 10, "warmup": 400, "peak_lr": 0.003},
        max_tokens=2048,
    ),
    "number-lines": Task(
        load=holding_out(1_000, _number_lines),
        example="forty-two =",
        splits=("val",),
        tokenizer=_words_to_characters,
        score=exact_match,
        kind="texts",
        model=_SMALL,
        train=_QUICK,
        batch_size=64,
    ),
    "shakespeare": Task(
        load=_speeches,
        example="ROMEO:",
        splits=("val",),
        tokenizer=_characters,
        score=None,
        kind="running text",
        model={"max_len": 128, "dropout": 0.0},
        train={"epochs": 2, "warmup": 100, "peak_lr": 0.003, "label_smoothing": 0.0},
        batch_size=16,
    ),
}
