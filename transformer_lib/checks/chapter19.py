"""Checkers for chapter 19, *BERT: fill in the blank*."""

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor

from transformer_lib.checks import Case, Checker, Exercise, Flaw
from transformer_lib.checks.inputs import normal

__all__ = ["check"]

# ----------------------------------------------------------------------------------- hidden_loss


def text_by_text(each: Tensor, labels: Tensor) -> Tensor:
    asked = labels != 0
    return ((each * asked).sum(1) / asked.sum(1).clamp(min=1)).mean()


def hidden_loss(
    logits: Tensor,
    labels: Tensor,
    *,
    before: Callable[[Tensor], Tensor] = lambda logits: logits,
    finish: Callable[[Tensor, Tensor], Tensor] = lambda each, labels: each[labels != 0].mean(),
) -> Tensor:
    log_p = before(logits).log_softmax(-1)
    return finish(-log_p.gather(-1, labels[..., None])[..., 0], labels)


def reshaped(logits: Tensor, labels: Tensor) -> Tensor:
    """Numbers of other positions and words, in the shape that `F.cross_entropy` asks for."""
    batch, length, size = logits.shape
    return hidden_loss(logits.reshape(batch, size, length).mT, labels)


def loss_cases() -> list[Case]:
    def case(logits: list, labels: list, why: str) -> Case:
        return Case((torch.tensor(logits).float(), torch.tensor(labels)), why)

    def large(labels: list, size: int, seed: int, why: str) -> Case:
        ids = torch.tensor(labels)
        return Case((2 * normal(*ids.shape, size, seed=seed), ids), why)

    even, best_0, best_2 = [0, 0, 0, 0], [5, 0, 0, 0], [0, 0, 2, 0]
    return [
        case([[even]], [[2]], "an even guess among four words gives the right one a probability of "
             "1/4, and -log(1/4) is 1.39"),
        case([[best_2]], [[1]], "the label is 1: the probability of word 1 counts, however small"),
        case([[best_2, best_0]], [[2, 0]], "the second position isn't asked"),
        case([[even, best_2, best_0]], [[2, 1, 0]], "two positions are asked, and the loss is the "
             "mean of two"),
        case([[best_2, even, even], [best_0, best_0, best_2]], [[1, 2, 3], [0, 0, 2]],
             "three positions of the first text are asked and one of the second, and these four "
             "count alike"),
        large([[0, 0, 0, 5, 0], [0, 4, 0, 0, 6], [7, 0, 4, 0, 9]], 11, 3, "there may be many texts "
              "and words"),
        large([[0, 1, 5, 2, 0], [0, 4, 0, 6, 3]], 7, 4, "1, 2 and 3 are words, too: only 0 means "
              "that nothing is asked"),
    ]  # fmt: skip


lost = partial(partial, hidden_loss)

HIDDEN_LOSS = Exercise(
    name="hidden_loss",
    reference=hidden_loss,
    cases=loss_cases,
    section="What is asked, and what does the loss count?",
    mistakes={
        "every position counts: only those that are asked do, where the label is not 0": lost(
            finish=lambda each, labels: each.mean()
        ),
        "the sum is divided by the number of all positions, asked or not": lost(
            finish=lambda each, labels: (each * (labels != 0)).mean()
        ),
        "[MASK] is looked for among the labels: they hold the words that were there": lost(
            finish=lambda each, labels: each[labels == 3].mean()
        ),
        "each text has its own mean: a text with one hidden word then counts as much as one with "
        "three": lost(finish=text_by_text),
        "`reshape` makes (B, V, S) of the logits, which mixes positions and words: `transpose` "
        "swaps the two axes": reshaped,
        "each position predicts the next word, as in GPT: here it predicts its own": (
            lambda logits, labels: hidden_loss(logits[:, :-1], labels[:, 1:])
        ),
        "the softmax is applied twice: `F.cross_entropy` takes logits": lost(
            before=lambda logits: logits.softmax(-1)
        ),
    },
)

# --------------------------------------------------------------------------------- one_at_a_time

MASK = 3
MOST = 200  # guesses for one text
Guess = Callable[[Tensor], Tensor]


class Guesser:
    """Logits at each position that depend on all the words in the text: a tiny model."""

    def __init__(self, vocab_size: int, seed: int) -> None:
        self.vocab_size, self.seed = vocab_size, seed
        self.guesses = 0
        self.words = normal(vocab_size, vocab_size, seed=seed)
        self.near = normal(vocab_size, vocab_size, seed=seed + 1)

    def __call__(self, ids: Tensor) -> Tensor:
        """Logits (S, vocab_size) for ids (S,)."""
        if ids.dim() != 1:
            raise Flaw(f"`guess` takes one text of shape (S,); it was given {tuple(ids.shape)}.")
        self.guesses += 1
        if self.guesses > MOST:
            raise Flaw(
                f"It still asks `guess` after {MOST} guesses: each word must be written where "
                "there was a [MASK], into the text that is asked about next."
            )
        position = torch.arange(len(ids)).float()
        closeness = (-(position[:, None] - position).abs()).exp()
        logits = closeness @ self.words[ids] @ self.near * 0.7
        logits = logits + (position[:, None] + torch.arange(self.vocab_size)).sin()
        logits = logits * (1 + 0.5 * (position * 2.3).sin()[:, None])
        logits = logits + 6 * (position * 1.7).cos()[:, None]
        logits[:, :4] = -30.0  # no special token is ever the best
        return logits


def probability(logits: Tensor) -> Tensor:
    return logits.softmax(-1).amax(-1)


def among_hidden(sure: Tensor, ids: Tensor) -> Tensor:
    return sure.masked_fill(ids != MASK, -torch.inf).argmax()


def one_at_a_time(
    guess: Guess,
    ids: Tensor,
    *,
    sure: Callable[[Tensor], Tensor] = probability,
    choose: Callable[[Tensor, Tensor], Tensor] = among_hidden,
) -> Tensor:
    ids = ids.clone()
    while (ids == MASK).any():
        logits = guess(ids)
        at = choose(sure(logits), ids)
        ids[at] = logits.argmax(-1)[at]
    return ids


def once_decided(guess: Guess, ids: Tensor) -> Tensor:
    """The order is that of the first guess."""
    sure = probability(guess(ids))
    return one_at_a_time(guess, ids, sure=lambda logits: sure)


def blank_cases() -> list[Case]:
    def case(vocab_size: int, seed: int, ids: list[int], why: str) -> Case:
        return Case((Guesser(vocab_size, seed), torch.tensor(ids)), why)

    return [
        case(9, 1, [1, 5, 3, 7, 2], "one word is hidden, and the others stay as they are"),
        case(9, 4, [1, 6, 4, 2], "where nothing is hidden, there is nothing to do"),
        case(11, 2, [1, 3, 6, 3, 9, 2], "of two hidden words, the one with the larger probability "
             "is written first"),
        case(13, 5, [1, 3, 3, 8, 3, 2], "a word that has been written changes the next guesses, "
             "and with them which is the surest"),
        case(9, 887, [1, 5, 3, 3, 3, 2], "even a sure guess may change when another word has been "
             "written"),
        case(9, 425, [1, 5, 4, 3, 3, 5, 2], "only one word is written per guess"),
        case(17, 8, [1, 3, 3, 3, 3, 3, 3, 2], "all words may be hidden"),
        case(23, 11, [1, 3, 9, 3, 3, 12, 3, 20, 3, 2], "probabilities of different positions can "
             "be compared, and logits can't"),
        case(19, 17, [1, 7, 3, 3, 3, 3, 3, 3, 3, 2], "the largest probability decides, and "
             "nothing else does"),
    ]  # fmt: skip


filled = partial(partial, one_at_a_time)

ONE_AT_A_TIME = Exercise(
    name="one_at_a_time",
    reference=one_at_a_time,
    cases=blank_cases,
    section="Why doesn't it write?",
    mistakes={
        "all blanks are filled from one guess: write one word, then ask again": filled(
            choose=lambda sure, ids: ids == MASK
        ),
        "the blanks are filled from left to right: the surest guess goes first": filled(
            choose=lambda sure, ids: (ids == MASK).int().argmax()
        ),
        "the largest logit goes first: logits of two positions can't be compared, probabilities "
        "can": filled(sure=lambda logits: logits.amax(-1)),
        "the first guess decides the order: after each word, another blank may be the surest": (
            once_decided
        ),
        "the softmax goes over the positions: it goes over the vocabulary": (
            lambda guess, ids: filled(sure=lambda shares: shares.amax(-1))(
                lambda text: guess(text).softmax(0), ids
            )
        ),
        "the least sure guess goes first": filled(sure=lambda logits: -probability(logits)),
    },
)

# -------------------------------------------------------------------------------- mean_of_tokens


def real_tokens(ids: Tensor) -> Tensor:
    return (ids != 0)[..., None]  # (B, S, 1)


def mean_of_tokens(x: Tensor, ids: Tensor) -> Tensor:
    real = real_tokens(ids)
    return (x * real).sum(1) / real.sum(1)


def mean_cases() -> list[Case]:
    def case(x: list, ids: list, why: str) -> Case:
        return Case((torch.tensor(x).float(), torch.tensor(ids)), why)

    def large(ids: list, d: int, seed: int, why: str) -> Case:
        texts = torch.tensor(ids)
        return Case((normal(*texts.shape, d, seed=seed) + 0.5, texts), why)

    return [
        case([[[3, 0], [1, 2], [2, 7]]], [[1, 5, 2]], "the mean of each feature goes over all "
             "three tokens, [CLS] and [SEP] among them"),
        case([[[3, 0], [1, 2], [2, 7], [50, 50]]], [[1, 5, 2, 0]], "the last vector is that of "
             "padding, and three count"),
        case([[[3, 0], [1, 2], [50, 50]], [[1, 0], [2, 0], [6, 3]]], [[1, 2, 0], [1, 5, 2]],
             "the first text has two tokens, and the second three"),
        large([[1, 5, 6, 2, 0, 0, 0], [1, 4, 2, 0, 0, 0, 0], [1, 9, 4, 7, 2, 5, 2]], 5, 3, "each "
              "text has its own tokens, whatever they are"),
        large([[1, 5, 2, 0], [1, 4, 7, 2], [1, 2, 0, 0], [1, 2, 5, 2]], 4, 4, "the tokens are on "
              "axis 1, even where all axes have the same length"),
    ]  # fmt: skip


MEAN_OF_TOKENS = Exercise(
    name="mean_of_tokens",
    reference=mean_of_tokens,
    cases=mean_cases,
    section="One vector for a text: the first token or the mean?",
    mistakes={
        "padding is left out of the sum, and still counted when the sum is divided": (
            lambda x, ids: (x * real_tokens(ids)).mean(1)
        ),
        "the numbers of tokens, (B,), have no axis for the features": (
            lambda x, ids: (x * real_tokens(ids)).sum(1) / (ids != 0).sum(1)
        ),
        "the mask is the wrong way round: padding is averaged": (
            lambda x, ids: mean_of_tokens(x, ids == 0)
        ),
    },
    keeps=frozenset({"gradient"}),
)

check = Checker(HIDDEN_LOSS, ONE_AT_A_TIME, MEAN_OF_TOKENS)
