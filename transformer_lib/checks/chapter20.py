"""Checkers for chapter 20, *Few labels*."""

from collections.abc import Callable
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor

from transformer_lib.checks import Case, Checker, Exercise
from transformer_lib.checks.inputs import normal

__all__ = ["check"]

# ----------------------------------------------------------------------------------- add_extract


def lengths(ids: Tensor) -> Tensor:
    return (ids != 0).sum(dim=1)


def wider(ids: Tensor) -> Tensor:
    return torch.cat([ids, torch.zeros_like(ids[:, :1])], dim=1)


def add_extract(
    ids: Tensor,
    extract: int,
    *,
    end: Callable[[Tensor], Tensor] = lengths,
) -> Tensor:
    found = wider(ids)
    found[torch.arange(len(ids)), end(ids)] = extract
    return found


def at_all_ends(ids: Tensor, extract: int) -> Tensor:
    found = wider(ids)
    found[:, lengths(ids)] = extract
    return found


def extract_cases() -> list[Case]:
    def case(rows: list[list[int]], extract: int, why: str) -> Case:
        return Case((torch.tensor(rows), extract), why)

    return [
        case([[1, 5, 2]], 9, "a text without padding ends where its row does, and the row gets one "
             "position longer"),
        case([[1, 5, 6, 2, 0, 0]], 3, "the token comes right after the text, and the padding after "
             "the token"),
        case([[1, 7, 2, 0], [1, 4, 6, 2]], 9, "each text has its own end"),
        case([[1, 7, 5, 2, 0, 0], [1, 2, 0, 0, 0, 0]], 3, "all rows may have padding"),
        case([[1, 4, 9, 2], [1, 2, 0, 0], [1, 7, 2, 0]], 12, "one token goes into each row, and "
             "all the other numbers stay"),
        case([[1, 7, 2, 5, 0], [1, 2, 4, 2, 3]], 9, "2 is a token like any other: a text may go on "
             "after it"),
    ]  # fmt: skip


added = partial(partial, add_extract)

ADD_EXTRACT = Exercise(
    name="add_extract",
    reference=add_extract,
    cases=extract_cases,
    section="Where does GPT give its label?",
    mistakes={
        "the token goes into the last column of every row, after the padding: its position then "
        "says how long the longest text is": added(
            end=lambda ids: torch.full((len(ids),), ids.size(1))
        ),
        "all padding becomes the token: it's needed once per row": lambda ids, extract: wider(
            ids
        ).masked_fill(wider(ids) == 0, extract),
        "the last token of the text is overwritten": added(end=lambda ids: lengths(ids) - 1),
        "it looks for the first 0 of the given row: a text without padding has none, so its "
        "first token is overwritten": added(end=lambda ids: (ids == 0).int().argmax(dim=1)),
        "every row gets the token at the ends of all texts: `[:, ends]` means all rows for each "
        "end": at_all_ends,
    },
)

# ------------------------------------------------------------------------------------ joint_loss

Pair = tuple[Tensor, Tensor]


def next_words(logits: Tensor, ids: Tensor) -> Pair:
    return logits[:, :-1], ids[:, 1:]


def reshaped_words(logits: Tensor, ids: Tensor) -> Pair:
    logits, words = next_words(logits, ids)
    batch, length, size = logits.shape
    return logits.reshape(batch, size, length).mT, words


def of_each(logits: Tensor, words: Tensor) -> Tensor:
    return F.cross_entropy(logits.flatten(0, 1), words.flatten(), reduction="none").view_as(words)


def without_padding(logits: Tensor, words: Tensor, ids: Tensor) -> Tensor:
    return of_each(logits, words)[words != 0].mean()


def joint_loss(
    label_logits: Tensor,
    labels: Tensor,
    word_logits: Tensor,
    ids: Tensor,
    share: float,
    *,
    new: Callable[[Tensor, Tensor], Tensor] = F.cross_entropy,
    shift: Callable[[Tensor, Tensor], Pair] = next_words,
    old: Callable[[Tensor, Tensor, Tensor], Tensor] = without_padding,
) -> Tensor:
    return new(label_logits, labels) + share * old(*shift(word_logits, ids), ids)


def joint_cases() -> list[Case]:
    def case(
        label_logits: list, labels: list, word_logits: list, ids: list, share: float, why: str
    ) -> Case:
        return Case(
            (
                torch.tensor(label_logits).float(),
                torch.tensor(labels),
                torch.tensor(word_logits).float(),
                torch.tensor(ids),
                share,
            ),
            why,
        )

    def large(ids: list, share: float, seed: int, why: str) -> Case:
        texts = torch.tensor(ids)
        labels = torch.arange(len(ids)) % 3
        logits = normal(len(ids), 3, seed=seed), normal(*texts.shape, 11, seed=seed + 1)
        return Case((logits[0], labels, logits[1], texts, share), why)

    even, sure = [0, 0, 0], [0, 0, 4]
    rows = [[1, 5, 6, 2, 3, 0, 0], [1, 4, 2, 3, 0, 0, 0], [1, 9, 4, 7, 5, 2, 3]]
    return [
        case([[0, 0]], [1], [[even, even]], [[1, 2]], 0.5, "an even guess between two labels costs "
             "0.69, and half of what an even guess among three words costs is 0.55"),
        case([[0, 0]], [1], [[[0, 1, 3], [5, 0, 0]]], [[1, 2]], 1.0, "position 0 predicts the "
             "word of position 1, and the last position predicts nothing"),
        case([[3, 1], [0, 2]], [0, 1], [[even, even]] * 2, [[1, 2]] * 2, 0.0, "with a share of 0 "
             "only the labels count, and 0 is a label like any other"),
        case([[0, 0]], [1], [[sure, even, even]], [[1, 2, 0]], 1.0, "the last position of this "
             "text is padding, not a word"),
        case([[0, 0]] * 2, [1, 0], [[sure, even, even, even]] * 2, [[1, 2, 0, 0], [1, 2, 1, 2]],
             1.0, "the two texts have one and three words to predict: the loss is the mean of all "
             "four"),
        large([[1, 5, 2, 3]], 0.5, 1, "a text of four words has three words to predict"),
        large(rows, 0.5, 3, "there may be many texts, labels and words"),
        large(rows[1:], 2.0, 7, "the share may be larger than 1, and belongs to the words"),
    ]  # fmt: skip


joint = partial(partial, joint_loss)

JOINT_LOSS = Exercise(
    name="joint_loss",
    reference=joint_loss,
    cases=joint_cases,
    section="Where does GPT give its label?",
    mistakes={
        "padding is left out of the sum, but the sum is divided as if it counted": joint(
            old=lambda logits, words, ids: (of_each(logits, words) * (words != 0)).mean()
        ),
        "it looks for padding among the words that are read, and not among those that are "
        "predicted": joint(
            old=lambda logits, words, ids: of_each(logits, words)[ids[:, :-1] != 0].mean()
        ),
        "the label 0 is left out: 0 is padding among the words only": joint(
            new=partial(F.cross_entropy, ignore_index=0)
        ),
        "`reshape` makes (B, V, T - 1) of the logits, which mixes positions and words: `transpose` "
        "swaps the two axes": joint(shift=reshaped_words),
        "the words are rolled, so the last position predicts the first word": joint(
            shift=lambda logits, ids: (logits, ids.roll(-1, dims=1))
        ),
    },
)

# -------------------------------------------------------------------------------------- low_rank


def frozen(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """The layer learns nothing: whether gradients reach it is not asked."""
    return x @ weight.detach().T + bias.detach()


def in_two_steps(x: Tensor, a: Tensor, b: Tensor) -> Tensor:
    return x @ a.T @ b.T


def low_rank(
    x: Tensor,
    weight: Tensor,
    bias: Tensor,
    a: Tensor,
    b: Tensor,
    alpha: float,
    *,
    change: Callable[[Tensor, Tensor, Tensor], Tensor] = in_two_steps,
    scale: Callable[[Tensor, Tensor, float], float] = lambda a, b, alpha: alpha / a.size(0),
) -> Tensor:
    return frozen(x, weight, bias) + scale(a, b, alpha) * change(x, a, b)


def reshaped(x: Tensor, a: Tensor, b: Tensor) -> Tensor:
    return x @ a.reshape(a.size(1), a.size(0)) @ b.reshape(b.size(1), b.size(0))


def all_scaled(
    x: Tensor, weight: Tensor, bias: Tensor, a: Tensor, b: Tensor, alpha: float
) -> Tensor:
    return alpha / a.size(0) * (frozen(x, weight, bias) + in_two_steps(x, a, b))


def rank_cases() -> list[Case]:
    def case(x: list, weight: list, bias: list, a: list, b: list, alpha: float, why: str) -> Case:
        return Case((*(torch.tensor(each).float() for each in (x, weight, bias, a, b)), alpha), why)

    def large(sizes: tuple[int, ...], out: int, rank: int, alpha: float, why: str) -> Case:
        *_, d = sizes
        shapes = [sizes, (out, d), (out,), (rank, d), (out, rank)]
        return Case((*(normal(*shape, seed=i) for i, shape in enumerate(shapes)), alpha), why)

    return [
        case([1], [[2]], [3], [[4]], [[5]], 6.0, "the layer alone gives 2 + 3, and what's added "
             "is 6 · 4 · 5, since the rank is 1"),
        case([1], [[2]], [3], [[4], [6]], [[5, 2]], 1.0, "the rank is 2 and alpha 1, so that half "
             "of 4 · 5 + 6 · 2 is added"),
        case([1, -2], [[1, 2], [0, 1]], [0, 0], [[1, 1]], [[3], [5]], 1.0, "a row of a matrix "
             "makes one number of the result"),
        case([1, 2], [[0, 0], [0, 0]], [0, 0], [[1, 2], [0, 1]], [[1, 3], [0, 1]], 2.0, "`a` makes "
             "r numbers, and `b` makes the result from those, even where both are square"),
        large((4, 5), 5, 2, 1.0, "each row of `x` is a vector of its own"),
        large((2, 3, 7), 5, 2, 8.0, "the features are on the last axis, however many axes there "
              "are"),
        large((2, 5), 7, 3, 16.0, "alpha / rank is rarely a whole number"),
    ]  # fmt: skip


ranked = partial(partial, low_rank)

LOW_RANK = Exercise(
    name="low_rank",
    reference=low_rank,
    cases=rank_cases,
    section="How many parameters must be trained?",
    mistakes={
        "it's multiplied by alpha and not divided by the rank": ranked(
            scale=lambda a, b, alpha: alpha
        ),
        "it's divided by the width of `x`: the rank is the number of rows of `a`": ranked(
            scale=lambda a, b, alpha: alpha / a.size(1)
        ),
        "it's divided by the number of outputs: the rank is the number of columns of `b`": ranked(
            scale=lambda a, b, alpha: alpha / b.size(0)
        ),
        "alpha / rank is rounded to a whole number: `//` drops what comes after the point": ranked(
            scale=lambda a, b, alpha: alpha // a.size(0)
        ),
        "`reshape` gives a matrix the shape of its transpose and leaves the numbers in their "
        "order: `.T` moves them": ranked(change=reshaped),
        "everything is scaled: the scale belongs to what is added": all_scaled,
    },
    keeps=frozenset({"gradient"}),
)

check = Checker(ADD_EXTRACT, JOINT_LOSS, LOW_RANK)
