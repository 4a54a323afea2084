"""The tasks a model can learn, the settings that suit them, and batches of their texts."""

import random
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from hashlib import sha256
from typing import Any, Literal

from transformer_lib.data import (
    Batches,
    BpeDropout,
    TextBatches,
    Tokenizer,
    WindowBatches,
    copy_pairs,
    multi30k,
    number_word_pairs,
    number_words,
    shakespeare,
    split_pairs,
)
from transformer_lib.metrics import Score, bleu, bleu_lowercased, bleu_tokenized, chrf, exact_match
from transformer_lib.validation import as_path, naming

__all__ = ["TASKS", "Task", "make_batches", "second_translations", "words_of"]

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


def words_of(task: Task, texts: Iterable[str]) -> dict[str, None]:
    """The distinct words of texts, in order: a set that keeps its order."""
    return {word: None for text in texts for word in re.findall(task.word, text)}


def make_batches(
    task: Task,
    tokenizer: Tokenizer,
    pairs: Pairs,
    bpe_dropout: float | None = None,
    *,
    max_len: int = 0,
    **options: Any,
) -> Batches | TextBatches | WindowBatches:
    """Make the batches for a task's kind of model, of what ``task.load`` returns.

    Args:
        bpe_dropout: see :class:`~transformer_lib.data.BpeDropout`. A text that would exceed
            ``max_len`` is encoded without it.
        max_len: of the model, for the longest text or the windows; 0 allows any text.
        options: of :class:`~transformer_lib.data.Batches`.

    Raises:
        ValueError: ``bpe_dropout`` without pairs, or without merges to skip; a text longer than
            ``max_len``.
    """
    options["special_ids"] = tokenizer.special_ids
    if bpe_dropout is not None and not task.translates:
        raise ValueError("bpe_dropout must be left out: this task has no pairs")
    if task.kind == "running text":
        ids = tokenizer.encode("".join(text for pair in pairs for text in pair))
        return WindowBatches(ids, length=max_len, **options)
    if task.kind == "texts":
        texts = [tokenizer.encode(prompt + rest) for prompt, rest in pairs]
        _check_lengths(pairs, [len(ids) + 1 for ids in texts], max_len)
        return TextBatches(texts, **options)
    both = [(tokenizer.encode(source), tokenizer.encode(target)) for source, target in pairs]
    _check_lengths(pairs, [max(len(ids), len(said) + 1) for ids, said in both], max_len)
    if bpe_dropout is None:
        return Batches(both, **options)
    with naming("bpe_dropout"):
        spelling = BpeDropout(tokenizer, bpe_dropout)

    def redraw(i: int, draw: random.Random) -> tuple[list[int], list[int]]:
        source, target = pairs[i]
        most = max_len or None
        ids = spelling.encode(source, draw, max_len=most)
        return ids, spelling.encode(target, draw, max_len=most and most - 1)

    return Batches(both, redraw=redraw, **options)


def _check_lengths(pairs: Pairs, lengths: list[int], max_len: int) -> None:
    for number, length in enumerate(lengths):
        if length > max_len > 0:
            source, target = pairs[number]
            raise ValueError(
                f"max_len must be at least {length}, the tokens of text {number}, which begins "
                f"{(source or target)[:40]!r}; got {max_len}"
            )


def second_translations(task: Task, path: Any, pairs: Pairs) -> tuple[Pairs, str]:
    """Pair each source with its line of a file; also return the file's hash."""
    content = as_path("distilled", path).read_bytes()
    if not task.translates:
        raise ValueError("distilled must be left out: this task doesn't translate")
    with naming(f"distilled, {path}"):
        text = content.decode("utf-8-sig")  # without the byte order mark, if there is one
    lines = [line.strip() for line in text.removesuffix("\n").split("\n")]
    if len(lines) != len(pairs):
        raise ValueError(
            f"distilled must have a line for each of the {len(pairs):,} training texts; "
            f"{path} has {len(lines):,}"
        )
    if not any(lines):
        raise ValueError(f"distilled must hold translations; all lines of {path} are empty")
    both = [(source, line) for (source, _), line in zip(pairs, lines, strict=True)]
    return both, sha256(content).hexdigest()


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


_CAPTIONS: dict[str, Any] = {
    "splits": ("val", "test_2016_flickr"),
    "tokenizer": _bpe,
    "max_tokens": 2048,
}
_QUICK: dict[str, Any] = {
    "splits": ("val",),
    "score": exact_match,
    "model": {"n_layers": 2, "dropout": 0.0},
    "train": {"epochs": 6, "warmup": 50, "peak_lr": 0.002},
    "batch_size": 64,
}
_TRANSLATING = {"epochs": 30, "warmup": 2000, "peak_lr": 0.005}
TASKS = {
    "multi30k": Task(
        load=multi30k.load,
        example="A man is riding a bike.",
        score=bleu,
        scores_too=(bleu_lowercased, chrf),
        train=_TRANSLATING,
        **_CAPTIONS,
    ),
    "multi30k-lowercase": Task(
        load=partial(multi30k.load, lowercase=True),
        example="a man is riding a bike .",
        score=bleu_tokenized,
        scores_too=(chrf,),
        train=_TRANSLATING,
        **_CAPTIONS,
    ),
    "number-words": Task(
        load=holding_out(1_000, number_word_pairs),
        example="forty-two",
        tokenizer=_words_to_characters,
        **_QUICK,
    ),
    "copy": Task(
        load=holding_out(500, _copy_texts),
        word=r"\S",  # each letter is a word
        example="hello",
        tokenizer=_characters,
        **_QUICK,
    ),
    "captions": Task(
        load=_captions,
        example="A man is",
        score=None,
        kind="texts",
        train={"epochs": 10, "warmup": 400, "peak_lr": 0.003},
        **_CAPTIONS,
    ),
    "number-lines": Task(
        load=holding_out(1_000, _number_lines),
        example="forty-two =",
        tokenizer=_words_to_characters,
        kind="texts",
        **_QUICK,
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
