"""From a task's texts to the batches that a model trains on."""

from __future__ import annotations

import random
from hashlib import sha256
from typing import Any

from transformer_lib.data import Batches, BpeDropout, TextBatches, Tokenizer, WindowBatches
from transformer_lib.runs.tasks import Pairs, Task
from transformer_lib.validation import as_path, naming

__all__ = ["make_batches", "second_translations"]


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
    try:
        text = content.decode("utf-8-sig")  # without the byte order mark, if there is one
    except UnicodeDecodeError as error:
        raise ValueError(f"distilled must be text in UTF-8; {path} is not: {error}") from error
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
