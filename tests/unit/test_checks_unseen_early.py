"""Chapters 1 to 17: answers written without the checkers' lists, later named."""

import math
from collections import Counter

import pytest
import torch
import torch.nn.functional as F

from transformer_lib.checks.chapter01 import check as chapter01
from transformer_lib.checks.chapter03 import check as chapter03
from transformer_lib.checks.chapter04 import check as chapter04
from transformer_lib.checks.chapter05 import check as chapter05
from transformer_lib.checks.chapter14 import check as chapter14
from transformer_lib.checks.chapter16 import check as chapter16

pytestmark = pytest.mark.slow


def largest_of_rows_and_sum_of_columns(scores):
    powers = (scores - scores.amax(dim=-1, keepdim=True)).exp()
    return powers / powers.sum(dim=0, keepdim=True)


def without_a_least_sum(query, key, value, mask):
    scores = query @ key.mT / query.shape[-1] ** 0.5
    scores = scores.masked_fill(~mask, torch.finfo(scores.dtype).min)
    powers = (scores - scores.amax(dim=-1, keepdim=True)).exp().masked_fill(~mask, 0.0)
    return powers @ value / powers.sum(dim=-1, keepdim=True)


def one_score(mix):
    def distance_lookup(query, keys, values, temperature=1.0):
        distance = ((query - keys) ** 2).sum()
        return mix(F.softmax(-distance / temperature, dim=0), values)

    return distance_lookup


def all_states(h, states, W, real):
    scores = (h @ W) @ states.mT
    weights = scores.masked_fill(~real, -1e9).softmax(-1)
    return weights @ states, weights


def zeros_for_padding(hide):
    def look_back(h, states, W, real):
        scores = hide(((h @ W).unsqueeze(1) * states).sum(-1), real)
        weights = scores.softmax(-1) * real
        return torch.einsum("bs,bsk->bk", weights, states), weights

    return look_back


def first_two(f, x):
    order = list(range(len(x)))
    order[0], order[1] = 1, 0
    return torch.equal(f(x[order]), f(x)[order])


def looks_before(loss, heads, budget):
    gone, left = [], list(heads)
    while left and loss(gone) < budget:
        best = min(left, key=lambda head: loss([*gone, head]))
        gone.append(best)
        left.remove(best)
    return gone


def in_shares(allowed=max, length=None):
    def corpus_bleu(translations, references):
        right, there = [0] * 4, [0] * 4
        ours = theirs = 0
        for text, others in zip(translations, references, strict=True):
            words, *others = (one.split() for one in (text, *others))
            ours += len(words)
            theirs += (length or closest)(len(words), [len(other) for other in others])
            for n in range(4):
                said, *found = (
                    Counter(tuple(one[i : i + n + 1]) for i in range(len(one) - n))
                    for one in (words, *others)
                )
                there[n] += sum(said.values())
                right[n] += sum(min(said[g], allowed(c[g] for c in found)) for g in said)
        if 0 in right:
            return 0.0
        mean = math.prod(a / b for a, b in zip(right, there, strict=True)) ** 0.25
        return mean * math.exp(min(0, 1 - theirs / ours))

    return corpus_bleu


def closest(n, found):
    return min(found, key=lambda r: (abs(r - n), r))


NOT_ALL = "asked for in percent, and that is not all"

ANSWERS = [
    (chapter01, "my_softmax", largest_of_rows_and_sum_of_columns, "runs along the wrong axis"),
    (chapter01, "distance_lookup", one_score(lambda w, v: w * v), "over the keys as well"),
    (chapter01, "distance_lookup", one_score(lambda w, v: (w * v).sum(0)), "over the keys as well"),
    (chapter03, "look_back", all_states, "looks at the states of all lines"),
    (chapter03, "look_back", zeros_for_padding(lambda s, real: s * real),
     "the padding is zeroed after the softmax"),
    (chapter03, "look_back", zeros_for_padding(lambda s, real: s.masked_fill(~real, 0)),
     "the padding is zeroed after the softmax"),
    (chapter04, "is_equivariant", first_two, "only the first two words change places"),
    (chapter05, "masked_attention", without_a_least_sum, "all its powers are 0, and so is their"),
    (chapter14, "corpus_bleu", in_shares(), "from 0 to 1: it is asked for in percent"),
    (chapter14, "corpus_bleu", in_shares(sum), NOT_ALL),
    (chapter14, "corpus_bleu", in_shares(length=lambda n, found: min(found)), NOT_ALL),
    (chapter16, "prune", looks_before, "is removed before the end is noticed"),
]  # fmt: skip


@pytest.mark.parametrize(("check", "name", "answer", "what"), ANSWERS)
def test_an_unseen_answer_is_named(check, name, answer, what):
    answer.__name__ = name
    result = check(answer)
    assert not result
    said = " ".join(result.report.split())
    assert what in said.partition("what happens when ")[2], said
