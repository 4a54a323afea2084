"""Checkers for chapter 14, *Decoding: the best next word and the best sentence*."""

import math
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial, reduce
from typing import Any

import torch
from torch import Tensor

from transformer_lib.checks import Case, Checker, Exercise, Flaw
from transformer_lib.checks.inputs import normal

__all__ = ["check"]

# ---------------------------------------------------------------------------------- greedy_batch

PAD, BOS, EOS = 0, 1, 2
Texts = list[list[int]]


class Writer:
    """A model with a text for each row, if all that was read before it is right.

    Off its text, and after its end, it babbles: what it says depends on all that it has read.
    """

    def __init__(self, *texts: list[int]) -> None:
        self.texts = [[BOS, *text, EOS] for text in texts]
        self.noise = normal(64, 11, seed=3)
        self.noise[:, :3] -= 10  # what babbles neither ends nor fills up
        self.calls = 0

    def __call__(self, ids: Tensor) -> Tensor:
        self.calls += 1
        if self.calls > 64:
            raise Flaw("It calls `next_logits` again and again, more than `max_len` times.")
        if ids.dim() != 2 or len(ids) != len(self.texts):
            raise Flaw(
                f"`next_logits` takes ids of shape (B, t) with all rows at once, here "
                f"{len(self.texts)}; it was given shape {tuple(ids.shape)}."
            )
        if ids.is_floating_point():
            raise Flaw("`next_logits` takes ids, which are whole numbers; it was given floats.")
        pairs = zip(ids.tolist(), self.texts, strict=True)
        return torch.stack([self.logits(*pair) for pair in pairs])

    def logits(self, row: list[int], text: list[int]) -> Tensor:
        n = len(row)
        scores = self.noise[(7 * sum(row) + 5 * n + 3 * row[-1]) % 64].clone()
        if row == text[:n] and n < len(text):
            scores[text[n]] = scores.max() + 1.5
        return scores


def before_end(row: list[int]) -> list[int]:
    return row[: row.index(EOS)] if EOS in row else row


def greedy_batch(
    next_logits: Callable[[Tensor], Tensor],
    n_rows: int,
    max_len: int,
    *,
    first: int = BOS,
    reads: Callable[[Tensor], Tensor] = lambda ids: ids,
    over: Callable[[Tensor], Tensor] = lambda ended: ended.all(),
    result: Callable[[list[int]], list[int]] = lambda row: before_end(row[1:]),
) -> Texts:
    ids = torch.full((n_rows, 1), first)
    ended = torch.zeros(n_rows, dtype=torch.bool)
    for _ in range(max_len):
        newest = next_logits(reads(ids)).argmax(-1)
        ids = torch.cat([ids, newest[:, None]], 1)
        ended = ended | (newest == EOS)
        if over(ended):
            break
    return [result(row) for row in ids.tolist()]


greedy = partial(partial, greedy_batch)

GREEDY_BATCH = Exercise(
    name="greedy_batch",
    reference=greedy_batch,
    cases=lambda: [
        Case((Writer([5, 7]), 1, 9), "the most probable id is chosen, given all ids before it"),
        Case((Writer([5, 0, 7]), 1, 9), "0 is an id like any other"),
        Case((Writer([5, 3, 7], [4, 4, 9]), 2, 9), "each row has its own most probable id"),
        Case(
            (Writer([5, 3, 7, 8], [6]), 2, 9),
            "the second row ends at its own <eos>, and the first goes on",
        ),
        Case(
            (Writer([6, 3], [5, 3, 7, 8, 4], [9, 9, 9]), 3, 9),
            "a row's text ends at its <eos>, whatever is chosen later",
        ),
        Case((Writer([6, 3], [], [5, 4, 3]), 3, 9), "a text may be empty"),
        Case(
            (Writer([5, 3, 7, 8, 4, 6], [6, 6]), 2, 4),
            "no text has more than `max_len` ids, and <bos> isn't counted",
        ),
    ],
    section="The finished code",
    mistakes={
        "all rows stop as soon as one ends: the others are cut off": greedy(
            over=lambda ended: ended.any()
        ),
        "the first id read is <pad>: in training every text began with <bos>": greedy(first=PAD),
        "the <eos> is taken out, but what the row wrote after it is kept": greedy(
            result=lambda row: [i for i in row[1:] if i != EOS]
        ),
        "no row is cut at its <eos>": greedy(result=lambda row: row[1:]),
        "the <eos> is kept: it says that the text is over and isn't part of it": greedy(
            result=lambda row: [*before_end(row[1:]), *([EOS] if EOS in row else [])]
        ),
        "the <bos> is kept: it was read, not written": greedy(result=before_end),
        "the model reads the newest id only, not all ids before it": greedy(
            reads=lambda ids: ids[:, -1:]
        ),
    },
)

# ------------------------------------------------------------------------------------- beam_step

Step = tuple[Tensor, Tensor, Tensor]


def beam_step(
    totals: Tensor,
    log_probs: Tensor,
    *,
    split: Callable[[Tensor, int, int], tuple[Tensor, Tensor]] = lambda i, k, v: (i // v, i % v),
) -> Step:
    b, k, v = log_probs.shape
    best, places = (totals[..., None] + log_probs).reshape(b, k * v).topk(k)
    return best, *split(places, k, v)


def each_its_own(totals: Tensor, log_probs: Tensor) -> Step:
    best, ids = (totals[..., None] + log_probs).max(-1)
    return best, torch.arange(totals.size(1)).expand_as(ids), ids


def beam_cases() -> list[Case]:
    # Without equal candidates: any of them would be right.
    def whole(totals: list, log_probs: list, why: str) -> Case:
        return Case((torch.tensor(totals).float(), torch.tensor(log_probs).float()), why)

    def some(b: int, k: int, v: int, why: str, seed: int) -> Case:
        totals = -3 * normal(b, k, seed=seed).abs()
        totals = totals.sort(-1, descending=True).values
        return Case((totals, normal(b, k, v, seed=seed + 1).log_softmax(-1)), why)

    return [
        whole(
            [[-1]],
            [[[-3, -1, -2]]],
            "a total is the log-probability of a whole text: its beginning and its new id",
        ),
        whole(
            [[-1, -3]],
            [[[-6, -8, -3], [-2, -7, -5]]],
            "the best comes first, and each adds its own parent's total",
        ),
        whole(
            [[-1, -6]],
            [[[-2, -1, -5], [-4, -6, -3]]],
            "all candidates compete: here two children of one parent win, and both add its total",
        ),
        whole(
            [[-1, -4]], [[[-6, -7, -8], [-4, -2, -5]]], "the best comes first, whatever its parent"
        ),
        whole(
            [[-1, -3], [-9, -8]],
            [[[-6, -8, -3], [-2, -7, -5]], [[-1, -4, -5], [-7, -6, -3]]],
            "each sentence has a beam of its own",
        ),
        some(5, 3, 11, "each sentence has K * V candidates", seed=6),
        some(2, 7, 5, "there may be more beginnings than ids", seed=8),
    ]


step = partial(partial, beam_step)

BEAM_STEP = Exercise(
    name="beam_step",
    reference=beam_step,
    cases=beam_cases,
    section="What does a beam do?",
    mistakes={
        "every beginning keeps a place, for its own best id: a poor beginning stays, and a second "
        "good child of another is lost": each_its_own,
        "parents and ids are swapped": step(split=lambda i, k, v: (i % v, i // v)),
        "a position in the flat list is divided by K: each beginning has V positions in it": step(
            split=lambda i, k, v: (i // k, i % k)
        ),
        "an id is its position in the flat list: the remainder must still be taken": step(
            split=lambda i, k, v: (i // v, i)
        ),
    },
)

# ----------------------------------------------------------------------------------- attend_more

Cache = tuple[Tensor, Tensor]


def above(first: Callable[[int, int], int]) -> Callable[[Tensor, int], Tensor]:
    """A mask that hides everything from a diagonal up; `first` gets n and t."""
    return lambda scores, n: torch.ones_like(scores).triu(first(n, scores.size(1) - n)).bool()


future = above(lambda n, t: t + 1)


def attend_more(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    cache: Cache,
    *,
    hidden: Callable[[Tensor, int], Tensor] = future,
    dim: int = -1,
    after: bool = False,
) -> tuple[Tensor, Cache]:
    keys, values = torch.cat([cache[0], key]), torch.cat([cache[1], value])
    scores = query @ keys.T / query.size(-1) ** 0.5
    mask = hidden(scores, len(query))
    if after:
        weights = scores.softmax(dim).masked_fill(mask, 0)
    else:
        weights = scores.masked_fill(mask, -torch.inf).softmax(dim)
    return weights @ values, (keys, values)


def chunk_cases() -> list[Case]:
    def some(n: int, t: int, d: int, why: str, seed: int = 0) -> Case:
        query, key, value = (normal(n, d, seed=seed + i) for i in range(3))
        return Case((query, key, value, (normal(t, d, seed=seed + 3), normal(t, d, seed=4))), why)

    def column(*numbers: float) -> Tensor:
        return torch.tensor(numbers)[:, None]

    old = torch.eye(2, 9)
    return [
        Case(
            (column(0.0), column(1.0), column(2.0), (column(5.0), column(4.0))),
            "a new token attends to the old one and to itself, here equally, and both are kept",
        ),
        Case(
            (column(0.0, 0), column(1.0, 2), column(3.0, 6), (column(5.0), column(0.0))),
            "a new token must not attend to a later one, and it attends to all the others",
        ),
        Case(
            (3 * old[:1] + 6 * old[1:], 3 * old[:1], 5 * old[1:], (old, old)),
            "the scores are divided by √d, here 3, and each row of weights sums to 1",
        ),
        some(1, 0, 5, "the first token finds an empty cache"),
        some(4, 0, 5, "with an empty cache this is ordinary causal attention", seed=5),
        some(2, 3, 5, "new token i attends to all t old ones and to the new ones up to itself"),
        some(3, 7, 11, "the mask begins after the t old tokens", seed=20),
    ]


more = partial(partial, attend_more)

ATTEND_MORE = Exercise(
    name="attend_more",
    reference=attend_more,
    cases=chunk_cases,
    section="What is computed twice?",
    mistakes={
        "the mask is made for a text without a cache: it begins at the first old token, not at "
        "the first new one": more(hidden=above(lambda n, t: 1)),
        "the mask begins at column n, the number of new tokens: it must begin after the t old "
        "ones": more(hidden=above(lambda n, t: n + 1)),
        "the softmax runs over the queries, not over the keys": more(dim=0),
        "the mask comes after the softmax: the hidden tokens' weight is lost": more(after=True),
    },
)

# --------------------------------------------------------------------------------------- nucleus


def unfinished(sorted_probs: Tensor, p: float) -> Tensor:
    """Where the ids before haven't reached p."""
    return sorted_probs.cumsum(-1) - sorted_probs < p


def shared(kept: Tensor) -> Tensor:
    return kept / kept.sum(-1, keepdim=True)


def scattered(kept: Tensor, order: Tensor) -> Tensor:
    return torch.zeros_like(kept).scatter(-1, order, kept)


def nucleus(
    logits: Tensor,
    p: float,
    *,
    inside: Callable[[Tensor, float], Tensor] = unfinished,
    back: Callable[[Tensor, Tensor], Tensor] = scattered,
) -> Tensor:
    probs, order = logits.softmax(-1).sort(dim=-1, descending=True)
    return back(shared(probs * inside(probs, p)), order)


def alone(keep: Callable[[Tensor, float], Tensor]) -> Callable[[Tensor, float], Tensor]:
    """Ids that are kept or dropped in the order of the vocabulary."""
    return lambda logits, p: shared(logits.softmax(-1) * keep(logits.softmax(-1), p))


def by_probability(answer: Callable[..., Any], /, logits: Tensor, p: float) -> Any:
    """The result; of ids that are equally probable, whichever are kept count as the first ones."""
    given = logits.clone()
    result = answer(logits, p)
    if not isinstance(result, Tensor) or result.shape != logits.shape:
        return result
    likeliest = partial(torch.argsort, dim=-1, descending=True, stable=True)
    order = likeliest(result)
    order = order.gather(-1, likeliest(given.gather(-1, order)))
    return torch.zeros_like(result).scatter(-1, likeliest(given), result.gather(-1, order))


def nucleus_cases() -> list[Case]:
    def case(probs: list[float], p: float, why: str) -> Case:
        return Case((torch.tensor([probs]).log(), p), why)

    return [
        case([0.5, 0.3, 0.15, 0.05], 0.7, "of 0.5, 0.3, 0.15 and 0.05, the first two reach p = "
             "0.7 together, and their new sum is 1"),
        case([0.15, 0.5, 0.05, 0.3], 0.7, "the probabilities are 0.15, 0.5, 0.05 and 0.3, and the "
             "result is in the same order"),
        case([0.1, 0.6, 0.3], 0.2, "of 0.1, 0.6 and 0.3, one id alone reaches p = 0.2"),
        Case(
            (torch.tensor([[4, 0, 1, 0.5], [1, 0.8, 0.9, 1.1]]), 0.8),
            "a row that is certain keeps fewer ids than one that isn't",
        ),
        Case((2 * normal(5, 11), 0.9), "each row has its own order, number of ids and sum"),
        Case(
            (torch.tensor([[1, 1.5, 1, 0], [3, 3, 3, 3]]), 0.5),
            "of equally probable ids, no more are kept than it takes: of four with 0.25 each, two "
            "have exactly p = 0.5",
        ),
        Case((normal(3, 7, seed=1), 1.0), "with p = 1 nothing is dropped"),
    ]  # fmt: skip


top_p = partial(partial, nucleus)

NUCLEUS = Exercise(
    name="nucleus",
    reference=nucleus,
    cases=nucleus_cases,
    use=by_probability,
    section="When is the likeliest text not what you want?",
    mistakes={
        "the id that brings the sum to p is dropped: the kept ones then have less than p": top_p(
            inside=lambda probs, p: probs.cumsum(-1) <= p
        ),
        "`gather` is used with `order`, which says where each probability came from: that "
        "rearranges them once more": top_p(back=lambda kept, order: kept.gather(-1, order)),
        "the mask of the sorted probabilities is applied to the unsorted ones": alone(
            lambda probs, p: unfinished(probs.sort(-1, descending=True).values, p)
        ),
        "the probabilities are added up in the order of the vocabulary, unsorted": alone(
            unfinished
        ),
        "the logits of dropped ids are set to 0, and e^0 = 1 isn't a small share": (
            lambda logits, p: logits.masked_fill(nucleus(logits, p) == 0, 0).softmax(-1)
        ),
    },
)

# ----------------------------------------------------------------------------------- corpus_bleu

Many = Sequence[Counter]


def n_grams(words: Sequence[str], n: int) -> Counter:
    return Counter(tuple(words[i : i + n]) for i in range(len(words) - n + 1))


def hits(ours: Counter, theirs: Many) -> int:
    return (ours & reduce(Counter.__or__, theirs)).total()


def corpus_bleu(
    translations: Sequence[str],
    references: Sequence[Sequence[str]],
    *,
    hits: Callable[[Counter, Many], int] = hits,
    brevity: bool = True,
) -> float:
    right, said, c, r = [0] * 4, [0] * 4, 0, 0
    for text, others in zip(translations, references, strict=True):
        words, their_words = text.split(), [other.split() for other in others]
        c += len(words)
        r += min(map(len, their_words), key=lambda length: (abs(length - len(words)), length))
        for n in range(4):
            ours = n_grams(words, n + 1)
            right[n] += hits(ours, [n_grams(other, n + 1) for other in their_words])
            said[n] += ours.total()
    if 0 in right:
        return 0.0
    shares = [a / b for a, b in zip(right, said, strict=True)]
    return 100 * math.prod(shares) ** 0.25 * (math.exp(min(0.0, 1 - r / c)) if brevity else 1)


def mean_of_sentences(translations: Sequence[str], references: Sequence[Sequence[str]]) -> float:
    pairs = zip(translations, references, strict=True)
    return sum(corpus_bleu([t], [r]) for t, r in pairs) / len(translations)


def bleu_cases() -> list[Case]:
    def case(why: str, *pairs: tuple[str, list[str]]) -> Case:
        return Case(([text for text, _ in pairs], [others for _, others in pairs]), why)

    near = "a dog runs in the deep snow", ["a dog runs in the deep white snow"]
    long = (
        "a woman is sitting on a bench and is reading a book",
        ["a woman is sitting on a bench reading", "a woman on a bench is reading"],
    )
    stage = (
        "the man in the red hat plays the guitar",
        ["a man in a red hat plays the guitar", "the man with the red hat plays"],
    )
    return [
        case("a translation that is its reference has 100 percent",
             ("a dog runs fast", ["a dog runs fast"])),
        case("runs of one to four words count, and all are right here; one word is missing",
             ("a dog runs in the", ["a dog runs in the snow"])),
        case("each n-gram is in one of the references, and a translation that is longer gets "
             "neither penalty nor reward",
             ("a big dog runs fast", ["a big dog runs", "big dog runs fast"])),
        case("the four fractions have a geometric mean", near),
        case("an n-gram may come from any of the references; they don't add up", stage),
        case("a word counts as often as the reference has it that has it most often",
             ("two two two girls play play play in the park today",
              ["two girls play in the park", "two children play in the park near two girls"])),
        case("of several references, the one closest in length counts",
             ("a cat sleeps on the stove", ["a cat sleeps on the warm stove",
                                            "a small cat sleeps on the warm old stove", "a cat"])),
        case("counts and lengths are added up over all texts before anything is divided",
             near, long),
        case("lengths are added up, and a text with fewer than four words doesn't make the score 0",
             stage, ("a cat", ["a cat sleeps"])),
        case("of references equally close in length, the shorter one counts",
             ("a dog runs in the deep snow", ["a big dog runs in the deep snow",
                                              "a dog runs in the snow"])),
        case("a word with a capital is another word",
             ("The dog sleeps in the sun", ["the dog sleeps in the sun"])),
        case("with no right run of four words, the score is 0",
             ("a cat is on the mat", ["a cat sits on a mat"])),
    ]  # fmt: skip


bleu = partial(partial, corpus_bleu)

CORPUS_BLEU = Exercise(
    name="corpus_bleu",
    reference=corpus_bleu,
    cases=bleu_cases,
    section="How do you score a translation when several are good?",
    mistakes={
        "the result is the mean of the sentences' scores": mean_of_sentences,
        "the counts are not clipped: a word said twice counts twice, even where the reference has "
        "it once": bleu(
            hits=lambda ours, theirs: sum(
                n for gram, n in ours.items() if any(gram in other for other in theirs)
            )
        ),
        "the brevity penalty is missing": bleu(brevity=False),
    },
)

check = Checker(GREEDY_BATCH, BEAM_STEP, ATTEND_MORE, NUCLEUS, CORPUS_BLEU)
