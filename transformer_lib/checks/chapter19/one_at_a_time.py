"""The exercise `one_at_a_time`: what it asks for, and how its answers go wrong."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from transformer_lib.checks.old.core import Case, Exercise
from transformer_lib.checks.old.inputs import random_tensor
from transformer_lib.checks.old.modules import Flaw

MASK = 3
MOST = 1000  # guesses for one text
Guess = Callable[[Tensor], Tensor]


class Guesser:
    """Logits at each place that depend on all words that stand there: a tiny model.

    It guesses `MOST` times: whoever asks more often asks forever.
    """

    def __init__(self, vocab_size: int, seed: int) -> None:
        self.vocab_size, self.seed = vocab_size, seed
        self.guesses = 0
        self.words = random_tensor(vocab_size, vocab_size, seed=seed)
        self.near = random_tensor(vocab_size, vocab_size, seed=seed + 1)

    def __call__(self, ids: Tensor) -> Tensor:
        """Logits (S, vocab_size) for ids (S,)."""
        if ids.dim() != 1:
            raise ValueError(f"`guess` takes one text of shape (S,), got {tuple(ids.shape)}")
        self.guesses += 1
        if self.guesses > MOST:
            raise Flaw(
                ("endless", torch.as_tensor(ids).tolist()),  # where the same mistake ends up, too
                f"Your function still asks `guess` after {MOST:,} guesses: each guess must leave "
                "one [MASK] less in the text that is asked next.",
            )
        x = self.words[ids]  # (S, V)
        place = torch.arange(len(ids), dtype=x.dtype)
        closeness = (-(place[:, None] - place).abs()).exp()
        wave = (place[:, None] + torch.arange(self.vocab_size)).sin()
        logits = closeness @ (x @ self.near) * 0.7 + wave
        logits = (
            logits * (1 + 0.5 * (place * 2.3).sin()[:, None]) + 6 * (place * 1.7).cos()[:, None]
        )
        logits[:, :4] = -30.0  # no special token is ever the best
        return logits

    def __repr__(self) -> str:
        return f"transformer_lib.checks.chapter19.Guesser({self.vocab_size}, {self.seed})"


def _fill(
    guess: Guess,
    ids: Tensor,
    sure: Callable[[Tensor], Tensor] = lambda logits: logits.softmax(-1).amax(-1),
    pick: Callable[[Tensor], Tensor] = torch.argmax,
    most: int = 99,
) -> Tensor:
    """The loop, with another measure of being sure, another choice, or an early end."""
    ids = ids.clone()
    for _ in range(min(most, int((ids == MASK).sum()))):
        logits = guess(ids)
        hidden = (ids == MASK).nonzero()[:, 0]
        place = hidden[pick(sure(logits)[hidden])]
        ids[place] = logits[place].argmax()
    return ids


def _all_at_once(guess: Guess, ids: Tensor) -> Tensor:
    return torch.where(ids == MASK, guess(ids).argmax(-1), ids)


def _in_order(step: int) -> Callable[[Guess, Tensor], Tensor]:
    def answer(guess: Guess, ids: Tensor) -> Tensor:
        ids = ids.clone()
        for place in (ids == MASK).nonzero()[:, 0].tolist()[::step]:
            ids[place] = guess(ids)[place].argmax()
        return ids

    return answer


def _order_of_the_first(guess: Guess, ids: Tensor) -> Tensor:
    sure = guess(ids).softmax(-1).amax(-1)
    hidden = (ids == MASK).nonzero()[:, 0].tolist()
    ids = ids.clone()
    for place in sorted(hidden, key=lambda at: -sure[at].item()):
        ids[place] = guess(ids)[place].argmax()
    return ids


def _every_place(guess: Guess, ids: Tensor) -> Tensor:
    return guess(_fill(guess, ids)).argmax(-1)


def _visible_too(guess: Guess, ids: Tensor) -> Tensor:
    return guess(ids).argmax(-1)


def _only_the_words(guess: Guess, ids: Tensor) -> Any:
    return _fill(guess, ids)[ids == MASK]


def _over_places(logits: Tensor) -> Tensor:
    return logits.softmax(0).amax(-1)


def _among_all(guess: Guess, ids: Tensor, forever: bool = False) -> Tensor:
    """The surest of all places, hidden or not: once for each blank, or until nothing is hidden."""
    ids = ids.clone()
    left = int((ids == MASK).sum())
    while left if not forever else (ids == MASK).any():
        logits = guess(ids)
        place = logits.softmax(-1).amax(-1).argmax()
        ids[place] = logits[place].argmax()
        left -= 1
    return ids


def _among_the_blanks(guess: Guess, ids: Tensor, word_too: bool = True) -> Tensor:
    """The number of a blank among the blanks is taken for its place in the text."""
    ids = ids.clone()
    while (ids == MASK).any():
        best, words = guess(ids).softmax(-1).max(-1)
        number = best[ids == MASK].argmax()
        ids[number] = (words if word_too else words[ids == MASK])[number]
    return ids


def _several(sure_enough: Callable[[Tensor], Tensor]) -> Callable[[Guess, Tensor], Tensor]:
    """Besides the surest, all hidden words whose probability is large enough."""

    def answer(guess: Guess, ids: Tensor) -> Tensor:
        ids = ids.clone()
        while (ids == MASK).any():
            best, words = guess(ids).softmax(-1).max(-1)
            best = best.masked_fill(ids != MASK, -1)
            here = sure_enough(best) & (ids == MASK)
            here[best.argmax()] = True
            ids[here] = words[here]
        return ids

    return answer


def _one_word_for_all(guess: Guess, ids: Tensor) -> Tensor:
    best, words = guess(ids).softmax(-1).max(-1)
    return torch.where(ids == MASK, words[best.masked_fill(ids != MASK, -1).argmax()], ids)


def _among_the_visible(guess: Guess, ids: Tensor) -> Tensor:
    ids = ids.clone()
    while (ids == MASK).any():
        best, words = guess(ids).softmax(-1).max(-1)
        place = best.masked_fill(ids == MASK, -1).argmax()
        ids[place] = words[place]
    return ids


def _once_for_each_place(guess: Guess, ids: Tensor) -> Tensor:
    ids = ids.clone()
    for _ in range(len(ids)):
        best, words = guess(ids).softmax(-1).max(-1)
        place = best.masked_fill(ids != MASK, -1).argmax()
        ids[place] = words[place]
    return ids


def _number_for_word(guess: Guess, ids: Tensor, among_blanks: bool) -> Tensor:
    ids = ids.clone()
    while (ids == MASK).any():
        hidden = (ids == MASK).nonzero()[:, 0]
        number = guess(ids).softmax(-1).amax(-1)[hidden].argmax()
        ids[hidden[number]] = number if among_blanks else hidden[number]
    return ids


def _lead(logits: Tensor) -> Tensor:
    first, second = logits.softmax(-1).topk(2).values.unbind(-1)
    return first - second


def _one_in_any_case(guess: Guess, ids: Tensor) -> Tensor:
    """One word is written, even where nothing is hidden."""
    best, words = guess(ids).softmax(-1).max(-1)
    place = best.masked_fill(ids != MASK, -1).argmax()
    return ids.scatter(0, place[None], words[place][None])


def _without_writing(guess: Guess, ids: Tensor) -> Tensor:
    while (ids == MASK).any():
        guess(ids)
    return ids.clone()


def _best_over_places(guess: Guess, ids: Tensor) -> Tensor:
    """As sure as the softmax over the places says, and the word is the best by it, too."""
    return _fill(lambda ids: guess(ids).log_softmax(0), ids, sure=lambda logits: logits.amax(-1))


def _text(*ids: int) -> Tensor:
    return torch.tensor(ids)


ONE_AT_A_TIME = Exercise(
    name="one_at_a_time",
    reference=_fill,
    cases=[
        Case("one hidden word", Guesser(9, 1), _text(1, 5, 3, 7, 2)),
        Case("two hidden words", Guesser(11, 2), _text(1, 3, 6, 3, 9, 2)),
        Case("three hidden words", Guesser(13, 5), _text(1, 3, 3, 8, 3, 2)),
        Case("nothing hidden", Guesser(9, 4), _text(1, 6, 4, 2)),
        Case("everything hidden", Guesser(17, 8), _text(1, 3, 3, 3, 3, 3, 3, 2)),
        Case("a longer text", Guesser(23, 11), _text(1, 3, 9, 3, 3, 12, 3, 20, 3, 2)),
        Case("two sure guesses, one of which changes", Guesser(9, 887), _text(1, 5, 3, 3, 3, 2)),
        Case("the same in another text", Guesser(9, 425), _text(1, 5, 4, 3, 3, 5, 2)),
        Case("another longer text", Guesser(19, 17), _text(1, 7, 3, 3, 3, 3, 3, 3, 3, 2)),
    ],
    mistakes={
        "all are filled after one look: write one word, then ask again with it in place": [
            _all_at_once,
        ],
        "the places are filled from left to right: the surest guess goes first": _in_order(1),
        "the places are filled from right to left: the surest guess goes first": _in_order(-1),
        "the least sure guess goes first": lambda guess, ids: _fill(guess, ids, pick=torch.argmin),
        "the largest logit goes first: logits of two places cannot be compared, probabilities "
        "can": lambda guess, ids: _fill(guess, ids, sure=lambda logits: logits.amax(-1)),
        "the order is decided by the first look: after each word, ask again which guess is the "
        "surest": _order_of_the_first,
        "the softmax goes over the places: it goes over the vocabulary": [
            lambda guess, ids: _fill(guess, ids, sure=_over_places),
            _best_over_places,
        ],
        "visible words are guessed as well: only [MASK], number 3, is replaced": [
            _visible_too,
            _every_place,
        ],
        "the surest of all places is written, visible or not: choose among the hidden ones": [
            _among_all,
            lambda guess, ids: _among_all(guess, ids, forever=True),
        ],
        "the place is counted among the blanks: what is written needs the place in the text": [
            _among_the_blanks,
            lambda guess, ids: _among_the_blanks(guess, ids, word_too=False),
        ],
        "several words are written after one look: write only the surest, then ask again, for the "
        "others may change": [
            _several(lambda best: best > 0.5),
            _several(lambda best: best > 0.8),
            _several(lambda best: best > 0.9),
            _several(lambda best: best >= 0.9 * best.max()),
            _several(lambda best: best >= best.topk(2).values[-1]),
        ],
        "the surest word is written to all places that are hidden: write it to its own place": [
            _one_word_for_all,
        ],
        "the place is chosen among the visible words, so the mask is the wrong way round: choose "
        "among the hidden ones": _among_the_visible,
        "it goes on when nothing is hidden any more, and writes over a visible word": [
            _once_for_each_place,
        ],
        "it ends one word too early: go on until nothing is hidden": [
            lambda guess, ids: _fill(guess, ids, most=int((ids == MASK).sum()) - 1),
        ],
        "the number of the place is written, and not a word: the word is the best one there": [
            lambda guess, ids: _number_for_word(guess, ids, among_blanks=True),
            lambda guess, ids: _number_for_word(guess, ids, among_blanks=False),
        ],
        "the largest lead over the second best word goes first: the largest probability does": [
            lambda guess, ids: _fill(guess, ids, sure=_lead),
        ],
        "no word gets into the text that `guess` is asked about: it is the same text each time": [
            _without_writing,
        ],
        "it ends after one word: go on until nothing is hidden": [
            lambda guess, ids: _fill(guess, ids, most=1),
            _one_in_any_case,
        ],
        "nothing is filled in": lambda guess, ids: ids.clone(),
        "only the words that were hidden are returned: return the whole text": _only_the_words,
    },
    section="Why does it not write?",
)
