"""From text to text: sentences to translations, prompts to continuations."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import torch
from torch import nn

from transformer_lib.arguments import check_count, check_type
from transformer_lib.data import BOS, Tokenizer, pad
from transformer_lib.data.checking import texts
from transformer_lib.decoding import Beams, Generation, greedy

__all__ = ["Candidate", "candidates", "complete", "translate"]

Decode = Callable[..., Any]  # greedy, or another of transformer_lib.decoding with its options


class Candidate(NamedTuple):
    """A text that a model proposes."""

    text: str
    score: float  # log-probability; of a beam search, over the length penalty


def translate(
    model: nn.Module,
    tokenizer: Tokenizer,
    sentences: Sequence[str],
    *,
    decode: Decode = greedy,
    batch_size: int = 64,
    progress: bool = False,
) -> list[str]:
    """Translate sentences, those of like length together. A blank one stays blank.

    Args:
        model: a Transformer, or any other model that reads a source.
        tokenizer: of source and target.
        sentences: what to translate.
        decode: how; :func:`~transformer_lib.decoding.greedy`, or the like with its options
            bound: ``partial(beam_search, beam_size=4)``.
        batch_size: how many at once.
        progress: show a progress bar on the error stream.

    Returns:
        The translations, in the order of the sentences.

    Raises:
        ValueError, TypeError: an argument of another kind; a sentence longer than the model's
            ``max_len``.
    """
    found = candidates(
        model, tokenizer, sentences, decode=decode, batch_size=batch_size, progress=progress
    )
    return [best.text for best, *_ in found]


def candidates(
    model: nn.Module,
    tokenizer: Tokenizer,
    sentences: Sequence[str],
    *,
    decode: Decode = greedy,
    batch_size: int = 64,
    progress: bool = False,
) -> list[list[Candidate]]:
    """The same, and all that the decoding found for each sentence, the best first."""
    device, longest = _check(model, tokenizer, decode, batch_size, progress)
    sentences = texts("sentences", sentences)
    ids = [tokenizer.encode(sentence.strip()) for sentence in sentences]
    order = sorted((i for i in range(len(ids)) if ids[i]), key=lambda i: len(ids[i]))
    found = [[Candidate("", 0.0)] for _ in sentences]
    for chosen in _bar(_parts(order, batch_size), len(order), progress):
        source = pad([ids[i] for i in chosen]).to(device)
        # Longer than any honest translation, so that one that never ends does end.
        max_len = min(2 * source.size(1) + 20, longest)
        for i, rows in zip(chosen, _rows(decode(model, source, max_len=max_len)), strict=True):
            found[i] = [Candidate(tokenizer.decode(row), score) for row, score in rows]
    return found


def complete(
    model: nn.Module,
    tokenizer: Tokenizer,
    prompts: Sequence[str],
    *,
    max_tokens: int | None = None,
    decode: Decode = greedy,
    batch_size: int = 64,
    progress: bool = False,
) -> list[str]:
    """Continue prompts with a language model; white space around a prompt is left out.

    Args:
        model: a ``DecoderOnly``. A prompt has no padding, so those of one length go together.
        tokenizer: of the texts that it learned.
        prompts: how the texts begin; an empty one leaves the beginning to the model, too.
        max_tokens: most tokens to add; as many as the model has positions for if None.
        decode: how, as of :func:`translate`.
        batch_size, progress: as of :func:`translate`.

    Returns:
        The continuations, without the prompts.

    Raises:
        ValueError: a prompt that leaves the model no position to go on at.
        TypeError: an argument of another kind.
    """
    device, longest = _check(model, tokenizer, decode, batch_size, progress)
    check_count("max_tokens", max_tokens, optional=True)
    prompts = texts("prompts", prompts)
    ids = [[BOS, *tokenizer.encode(prompt.strip())] for prompt in prompts]
    by_length: dict[int, list[int]] = {}
    for i, row in enumerate(ids):
        by_length.setdefault(len(row), []).append(i)
    found = [""] * len(ids)
    parts = (part for group in by_length.values() for part in _parts(group, batch_size))
    for chosen in _bar(parts, len(ids), progress):
        begun = pad([ids[i] for i in chosen]).to(device)
        room = longest + 1 - begun.size(1)  # the last token need not be read again
        if room < 1:
            raise ValueError(
                f"prompts must have fewer than {longest} tokens; "
                f"number {chosen[0]} has {begun.size(1) - 1}"
            )
        most = room if max_tokens is None else min(max_tokens, room)
        said = decode(model, begun[:, :-1], bos_id=begun[:, -1], max_len=most)
        for i, ((row, _), *_) in zip(chosen, _rows(said), strict=True):
            # Decoded as a whole: the first piece may need the prompt to know its space.
            found[i] = tokenizer.decode(ids[i] + row)[len(tokenizer.decode(ids[i])) :]
    return found


def _rows(decoded: Any) -> Iterator[list[tuple[list[int], float]]]:
    """For each row of a batch what was found, as (ids, score), whether it is one or several."""
    if isinstance(decoded, Generation):
        ids, scores = decoded.ids[:, None], decoded.scores[:, None]
    elif isinstance(decoded, Beams):
        ids, scores = decoded.ids, decoded.ranks
    else:
        raise TypeError(f"decode must give a Generation or Beams, got {type(decoded).__name__}")
    for rows, row_scores in zip(ids.tolist(), scores.tolist(), strict=True):
        both = list(zip(rows, row_scores, strict=True))
        # A beam search that finds less than was asked for fills up with scores of −inf.
        yield [(row, score) for row, score in both if score > float("-inf")] or both[:1]


def _parts(indices: list[int], size: int) -> list[list[int]]:
    return [indices[i : i + size] for i in range(0, len(indices), size)]


def _bar(parts: Any, total: int, shown: bool) -> Iterator[list[int]]:
    from tqdm import tqdm

    with tqdm(total=total, disable=not shown, unit="text", leave=False) as bar:
        for part in parts:
            yield part
            bar.update(len(part))


def _check(
    model: Any, tokenizer: Any, decode: Any, batch_size: Any, progress: Any
) -> tuple[torch.device, int]:
    """The model's device and longest sequence, if it has such, and the rest is of its kind."""
    longest = getattr(getattr(model, "config", None), "max_len", None)
    if not isinstance(model, nn.Module) or longest is None:
        raise TypeError(f"model must be a Module with config.max_len; got {type(model).__name__}")
    check_type("tokenizer", tokenizer, Tokenizer)
    if not callable(decode):
        raise TypeError(f"decode must be a function; got {type(decode).__name__}")
    check_count("batch_size", batch_size)
    check_type("progress", progress, bool)
    vocab_size = getattr(model.config, "vocab_size", tokenizer.vocab_size)
    if vocab_size < tokenizer.vocab_size:
        raise ValueError(
            f"model must know all {tokenizer.vocab_size} pieces of tokenizer, it knows {vocab_size}"
        )
    return next(model.parameters()).device, longest
