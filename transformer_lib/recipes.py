"""What there is to learn, and the settings that suit it."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from transformer_lib.arguments import naming
from transformer_lib.data import (
    Batches,
    BpeDropout,
    TextBatches,
    Tokenizer,
    copy_pairs,
    multi30k,
    number_word_pairs,
    number_words,
    split_pairs,
)
from transformer_lib.data.checking import texts

__all__ = ["TASKS", "Score", "Task", "bleu", "bleu_lowercased", "exact_match"]

Pairs = list[tuple[str, str]]


class Score(NamedTuple):
    """How good a model is on a split, in a number that can be compared."""

    metric: str
    value: float
    signature: str  # how it was counted
    sentences: int  # how many were


@dataclass(frozen=True)
class Task:
    """What there is to learn, how its text is cut, and what counts as good.

    Attributes:
        load: gives the (source, target) texts of a split; of a language model's, the (prompt,
            continuation), which together are a text of the language.
        splits: what can be measured besides ``"train"``; the first is for validation.
        tokenizer: makes one from the training pairs and a vocabulary size.
        score: compares translations, or continuations, with references; None measures perplexity.
        scores_too: other ways to compare them, for ``evaluate``.
        language_model: a decoder alone learns to continue texts; else a Transformer translates.
        model, train: settings that suit the task, over those of preset and ``TrainConfig``.
        max_tokens, batch_size: a batch in tokens per side, or in pairs; one of the two. Tokens
            save padding, but sort by length, and numbers are learned better in mixed lengths.
    """

    load: Callable[[str], Pairs]
    splits: tuple[str, ...]
    tokenizer: Callable[[Pairs, int | None], Tokenizer]
    score: Callable[[Sequence[str], Sequence[str]], Score] | None
    scores_too: tuple[Callable[[Sequence[str], Sequence[str]], Score], ...] = ()
    language_model: bool = False
    model: dict[str, Any] = field(default_factory=dict)
    train: dict[str, Any] = field(default_factory=dict)
    max_tokens: int | None = None
    batch_size: int | None = None


def bleu(translations: Sequence[str], references: Sequence[str]) -> Score:
    """Cased, detokenized BLEU, with sacreBLEU's signature: the numbers that compare.

    Raises:
        ValueError, TypeError: not equally many strings, at least one.

    Source:
        Post (2018), *A Call for Clarity in Reporting BLEU Scores*.
    """
    from sacrebleu.metrics.bleu import BLEU

    translations, references = _both(translations, references)
    metric = BLEU()
    score = metric.corpus_score(translations, [references]).score
    return Score("bleu", score, str(metric.get_signature()), len(references))


def bleu_lowercased(translations: Sequence[str], references: Sequence[str]) -> Score:
    """BLEU of lowercased, tokenized German, as papers on Multi30k report it: not comparable.

    Both sides are put through what made the dataset's own ``.lc.norm.tok`` files: lowercased,
    then Moses' normalization of punctuation and its tokenizer, here from ``sacremoses``. The
    number is higher than :func:`bleu`'s, since no capital can be wrong and each punctuation mark
    counts as a word. (sacreBLEU's own tokenizer splits off punctuation as well, but not alike.)

    Raises:
        ValueError, TypeError: not equally many strings, at least one.
        ImportError: ``sacremoses`` is not installed.

    Source:
        Wu et al. (2021), *Good for Misconceived Reasons: An Empirical Revisiting on the Need for
        Visual Context in Multimodal Machine Translation*, whose scores on Multi30k are such.
    """
    from importlib.metadata import version

    from sacrebleu.metrics.bleu import BLEU
    from sacremoses import MosesPunctNormalizer, MosesTokenizer

    translations, references = _both(translations, references)
    normalizer, tokenizer = MosesPunctNormalizer("de"), MosesTokenizer("de")

    def tokenized(text: str) -> str:
        return " ".join(tokenizer.tokenize(normalizer.normalize(text.lower())))

    metric = BLEU(tokenize="none", force=True)
    score = metric.corpus_score(
        [tokenized(text) for text in translations], [[tokenized(text) for text in references]]
    ).score
    signature = str(metric.get_signature()).replace("case:mixed", "case:lc")
    signature = signature.replace("tok:none", f"tok:sacremoses-{version('sacremoses')}")
    return Score("bleu_lowercased", score, signature, len(references))


def exact_match(translations: Sequence[str], references: Sequence[str]) -> Score:
    """The share of translations, in percent, that are right to the last character."""
    translations, references = _both(translations, references)
    right = sum(a == b for a, b in zip(translations, references, strict=True))
    return Score("exact_match", 100 * right / len(references), "percent", len(references))


def _both(translations: Any, references: Any) -> tuple[list[str], list[str]]:
    translations = texts("translations", translations, least=1)
    references = texts("references", references, least=1)
    if len(translations) != len(references):
        raise ValueError(
            f"translations must be as many as references, {len(references)}; "
            f"got {len(translations)}"
        )
    return translations, references


def holding_out(count: int, pairs: Callable[[], Pairs]) -> Callable[[str], Pairs]:
    """A loader of generated pairs: ``count`` of them are for validation, the rest to train on."""

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


def _number_lines() -> Pairs:
    return [(f"{number_words(n)} =", f" {n}") for n in range(10_000)]


def _texts(pairs: Pairs) -> list[str]:
    return [text for pair in pairs for text in pair]


def _characters(pairs: Pairs, vocab_size: int | None, words: Iterable[str] = ()) -> Tokenizer:
    if vocab_size is not None:
        raise ValueError("vocab_size must be left out: this task is spelled in characters")
    return Tokenizer.characters(_texts(pairs), words=words)


def _words_to_characters(pairs: Pairs, vocab_size: int | None) -> Tokenizer:
    # The source is read word by word, the target spelled: cross-attention, a row per letter and a
    # column per word, can then be read like an alignment.
    words = {word for source, _ in pairs for word in re.findall("[a-z]+", source)}
    return _characters(pairs, vocab_size, words)


def _bpe(pairs: Pairs, vocab_size: int | None) -> Tokenizer:
    return Tokenizer.train_bpe(_texts(pairs), vocab_size=vocab_size or 8_000)


def make_batches(
    task: Task,
    tokenizer: Tokenizer,
    pairs: Pairs,
    bpe_dropout: float | None = None,
    **options: Any,
) -> Batches | TextBatches:
    """The texts as batches for a task's kind of model.

    Args:
        task: what there is to learn.
        tokenizer: of both sides.
        pairs: as ``load`` gives them.
        bpe_dropout: see :class:`~transformer_lib.data.BpeDropout`; None for a fixed encoding.
        options: of :class:`~transformer_lib.data.Batches`.

    Raises:
        ValueError: ``bpe_dropout`` where there are no pairs, or no merges to leave out.
    """
    if task.language_model:
        if bpe_dropout is not None:
            raise ValueError("bpe_dropout must be left out: this task has no pairs")
        texts = [tokenizer.encode(prompt + rest) for prompt, rest in pairs]
        return TextBatches(texts, **options)
    ids = [(tokenizer.encode(source), tokenizer.encode(target)) for source, target in pairs]
    if bpe_dropout is None:
        return Batches(ids, **options)
    with naming("bpe_dropout"):
        spelling = BpeDropout(tokenizer, bpe_dropout)

    def redraw(i: int, draw: random.Random) -> tuple[list[int], list[int]]:
        source, target = pairs[i]
        return spelling.encode(source, draw), spelling.encode(target, draw)

    return Batches(ids, redraw=redraw, **options)


_SMALL = {"n_layers": 2, "dropout": 0.0}
_QUICK = {"epochs": 6, "warmup": 50, "peak_lr": 0.002}
TASKS = {
    "multi30k": Task(
        load=multi30k.load,
        splits=("val", "test_2016_flickr"),
        tokenizer=_bpe,
        score=bleu,
        scores_too=(bleu_lowercased,),
        train={"epochs": 30, "warmup": 2000, "peak_lr": 0.005},
        max_tokens=2048,
    ),
    "number-words": Task(
        load=holding_out(1_000, number_word_pairs),
        splits=("val",),
        tokenizer=_words_to_characters,
        score=exact_match,
        model=_SMALL,
        train=_QUICK,
        batch_size=64,
    ),
    "copy": Task(
        load=holding_out(500, _copy_texts),
        splits=("val",),
        tokenizer=_characters,
        score=exact_match,
        model=_SMALL,
        train=_QUICK,
        batch_size=64,
    ),
    "captions": Task(
        load=_captions,
        splits=("val", "test_2016_flickr"),
        tokenizer=_bpe,
        score=None,
        language_model=True,
        train={"epochs": 10, "warmup": 400, "peak_lr": 0.003},
        max_tokens=2048,
    ),
    "number-lines": Task(
        load=holding_out(1_000, _number_lines),
        splits=("val",),
        tokenizer=_words_to_characters,
        score=exact_match,
        language_model=True,
        model=_SMALL,
        train=_QUICK,
        batch_size=64,
    ),
}
