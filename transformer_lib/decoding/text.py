"""From text to text: translate sentences, continue prompts."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from transformer_lib.data import Tokenizer
from transformer_lib.data.batching import padded
from transformer_lib.decoding.generate import greedy
from transformer_lib.decoding.protocol import Beams, Generation
from transformer_lib.validation import (
    check_count,
    check_ids,
    check_text,
    check_type,
    id_list,
    items,
    text_list,
)


class Continuation:
    """What a model adds to one prompt, given as ids.

    Text that has been shown can't be taken back. So two things at its end wait for the next token:
    a character with bytes still missing, and what may become a ``stop`` string.
    """

    def __init__(self, tokenizer: Tokenizer, prompt: list[int], stop: Sequence[str]) -> None:
        self.tokenizer, self.stop = tokenizer, stop
        # A chat has ended messages before this one, and decoding stops at the first end.
        ends = [i for i, token in enumerate(prompt) if token == tokenizer.special_ids.eos_id]
        self.ids = list(prompt[ends[-1] + 1 :] if ends else prompt)
        self.begin = len(tokenizer.decode(self.ids))  # where the continuation begins
        self.text = ""  # the part that's certain
        self.ended = False

    def add(self, token: int) -> str:
        """Take the next token; return the text that's now certain."""
        if token == self.tokenizer.special_ids.eos_id:
            return self.end()
        self.ids.append(token)
        text = self._added()
        if (found := self._first_stop(text)) is not None:
            self.ended = True
            return self._show(text[:found])
        text = text.rstrip("�")  # bytes of an unfinished character
        return self._show(text[: len(text) - self._held_back(text)])

    def end(self) -> str:
        """End the text; return what was held back."""
        self.ended = True
        return self._show(self._added())

    def _added(self) -> str:
        # Decoded as a whole, since a leading space may depend on the prompt.
        return self.tokenizer.decode(self.ids)[self.begin :]

    def _show(self, text: str) -> str:
        new = text[len(self.text) :]
        self.text += new
        return new

    def _first_stop(self, text: str) -> int | None:
        return min((at for stop in self.stop if (at := text.find(stop)) >= 0), default=None)

    def _held_back(self, text: str) -> int:
        """Count the characters at the end of a text that may begin a stop string."""
        longest = max(map(len, self.stop), default=1) - 1
        for length in range(min(longest, len(text)), 0, -1):
            if any(string.startswith(text[-length:]) for string in self.stop):
                return length
        return 0


Decode = Callable[..., Any]  # greedy, or another search with its options bound
OnText = Callable[[int, str, bool], None]  # number of the prompt, new text, whether that's the end


class Candidate(NamedTuple):
    """A text that a model proposes."""

    text: str
    score: float  # log-probability; from beam search, divided by the length penalty


def translate(
    model: nn.Module,
    tokenizer: Tokenizer,
    sentences: Sequence[str],
    *,
    decode: Decode = greedy,
    batch_size: int = 64,
    progress: bool = False,
) -> list[str]:
    """Translate sentences, ignoring white space around them. A blank sentence stays blank.

    Sentences of similar length share a batch.

    Args:
        model: a Transformer, or another model that reads a source.
        tokenizer: of source and target.
        sentences: what to translate.
        decode: the search: :func:`~transformer_lib.decoding.greedy`, or another one with its
            options bound, such as ``partial(beam_search, beam_size=4)``.
        batch_size: sentences per batch.
        progress: show a progress bar on standard error.

    Raises:
        TypeError: an argument of the wrong type.
        ValueError: a sentence longer than the model's ``max_len``; a model that doesn't have the
            vocabulary or the special ids of the tokenizer.
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
    """Like :func:`translate`, but return every text that the search found, best first."""
    device, longest = _check(model, tokenizer, decode, batch_size, progress)
    sentences = text_list("sentences", sentences)
    ids = [tokenizer.encode(sentence.strip()) for sentence in sentences]
    for i, row in enumerate(ids):
        if len(row) > longest:
            raise ValueError(
                f"sentences must have at most {longest} tokens; number {i} has {len(row)} and "
                f"begins with {sentences[i].strip()[:40]!r}"
            )
    pad_id = tokenizer.special_ids.pad_id
    order = sorted((i for i in range(len(ids)) if ids[i]), key=lambda i: len(ids[i]))
    found = [[Candidate("", 0.0)] for _ in sentences]
    for chosen in _bar(_parts(order, batch_size), len(order), progress):
        source = padded([ids[i] for i in chosen], pad_id).to(device)
        # No real translation is longer, and one that never ends is cut off.
        max_len = min(2 * source.size(1) + 20, longest)
        for i, rows in zip(chosen, _rows(decode(model, source, max_len=max_len)), strict=True):
            found[i] = [Candidate(tokenizer.decode(row), score) for row, score in rows]
    return found


def complete(
    model: nn.Module,
    tokenizer: Tokenizer,
    prompts: Sequence[str | Sequence[int]],
    *,
    max_tokens: int | None = None,
    stop: Sequence[str] = (),
    on_text: OnText | None = None,
    decode: Decode = greedy,
    batch_size: int = 64,
    progress: bool = False,
) -> list[str]:
    """Continue prompts with a language model; return the continuations.

    Prompts of the same length share a batch.

    Args:
        model: a ``DecoderOnly``, or an ``Ensemble`` of several.
        tokenizer: of the texts it was trained on.
        prompts: how the texts begin, white space included. If one is empty, the model makes up the
            beginning, too. A prompt given as token ids is read as it is, without ``<bos>`` before
            it: a chat's template has its own.
        max_tokens: the most tokens to add; None for as many as the model has positions.
        stop: strings. A continuation ends before the first of them, even in the middle of a token.
        on_text: a function called as texts grow, with the number of the prompt, the text added to
            its continuation, and whether that's the end. No text is taken back.
        decode: the search, as for :func:`translate`; with ``stop`` or ``on_text``, one that takes
            ``on_step``: ``greedy`` or ``sample``.
        batch_size, progress: as for :func:`translate`.

    Raises:
        TypeError: an argument of the wrong type.
        ValueError: a prompt that leaves no position to continue at; otherwise as
            :func:`translate`.
    """
    device, longest = _check(model, tokenizer, decode, batch_size, progress)
    check_count("max_tokens", max_tokens, optional=True)
    if on_text is not None and not callable(on_text):
        raise TypeError(f"on_text must be a function; got {type(on_text).__name__}")
    stop = text_list("stop", stop)
    if "" in stop:
        raise ValueError("stop must not contain an empty string")
    watched = bool(stop) or on_text is not None
    ids = []
    for i, prompt in enumerate(items("prompts", prompts, "string", least=0)):
        name = f"number {i} of prompts"
        if isinstance(prompt, list | tuple):
            ids.append(id_list(name, items(name, prompt, "id")))
            check_ids(name, torch.tensor(ids[-1:]), tokenizer.vocab_size)
        else:
            check_text(name, prompt)
            ids.append([tokenizer.special_ids.bos_id, *tokenizer.encode(prompt)])
    by_length: dict[int, list[int]] = {}  # a batch without padding
    for i, row in enumerate(ids):
        if len(row) > longest:
            raise ValueError(
                f"prompts must have fewer than {longest} tokens; number {i} has {len(row) - 1}"
            )
        by_length.setdefault(len(row), []).append(i)
    found = [""] * len(ids)
    parts = [part for group in by_length.values() for part in _parts(group, batch_size)]
    for chosen in _bar(parts, len(ids), progress):
        begun = torch.tensor([ids[i] for i in chosen], device=device)  # (B, P + 1)
        room = longest + 1 - begun.size(1)  # the last token isn't read
        most = room if max_tokens is None else min(max_tokens, room)
        added = [Continuation(tokenizer, ids[i], stop) for i in chosen]
        options: dict[str, Any] = {"bos_id": begun[:, -1], "max_len": most}
        if watched:
            options["on_step"] = partial(_grow, added, chosen, on_text)
        said = decode(model, begun[:, :-1], **options)
        for i, text, ((row, _), *_) in zip(chosen, added, _rows(said), strict=True):
            if not watched:
                text.ids += row
            if not text.ended:
                rest = text.end()
                if on_text:
                    on_text(i, rest, True)
            found[i] = text.text
    return found


def _grow(
    added: list[Continuation], numbers: list[int], on_text: OnText | None, tokens: Tensor
) -> Tensor:
    """Add a token to each continuation; return which ones have ended, bool ``(B,)``."""
    for text, number, token in zip(added, numbers, tokens.tolist(), strict=True):
        if not text.ended:
            new = text.add(token)
            if on_text and (new or text.ended):
                on_text(number, new, text.ended)
    return torch.tensor([text.ended for text in added])


def _rows(decoded: Any) -> Iterator[list[tuple[list[int], float]]]:
    """Yield the texts found for each row of a batch, as pairs (ids, score)."""
    if isinstance(decoded, Generation):
        ids, scores = decoded.ids[:, None], decoded.scores[:, None]
    elif isinstance(decoded, Beams):
        ids, scores = decoded.ids, decoded.ranks
    else:
        raise TypeError(f"decode must return a Generation or Beams, got {type(decoded).__name__}")
    for rows, row_scores in zip(ids.tolist(), scores.tolist(), strict=True):
        both = list(zip(rows, row_scores, strict=True))
        # If beam search finds too few texts, the rest have a score of −inf.
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
    """Check the arguments; return the model's device and its ``max_len``."""
    longest = getattr(getattr(model, "config", None), "max_len", None)
    if not isinstance(model, nn.Module) or longest is None:
        raise TypeError(f"model must be a Module with config.max_len; got {type(model).__name__}")
    check_type("tokenizer", tokenizer, Tokenizer)
    if not callable(decode):
        raise TypeError(f"decode must be a function; got {type(decode).__name__}")
    check_count("batch_size", batch_size)
    check_type("progress", progress, bool)
    ids = getattr(model.config, "special_ids", None)
    if ids != tokenizer.special_ids:
        raise ValueError(
            f"model must have the special ids of tokenizer, {tokenizer.special_ids}; got {ids}"
        )
    vocab_size = getattr(model.config, "vocab_size", tokenizer.vocab_size)
    if vocab_size < tokenizer.vocab_size:
        raise ValueError(
            f"model must have the {tokenizer.vocab_size} pieces of tokenizer, got {vocab_size}"
        )
    return next(model.parameters()).device, longest
