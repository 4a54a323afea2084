"""Chapter 12's checkers: right answers in every form, and what is said of wrong ones."""

from collections import Counter
from itertools import pairwise

import torch
import torch.nn.functional as F

from tests.unit.judging import table
from transformer_lib.checks.chapter12 import check
from transformer_lib.checks.run import cases_of
from transformer_lib.data import TokenBatchSampler, collate

PAD, BOS, EOS = 0, 1, 2

# ------------------------------------------------------------------------------------- best_pair


def pair_by_sorting(cuts):
    found = {}
    for pieces, times in cuts.items():
        for i in range(len(pieces) - 1):
            pair = pieces[i], pieces[i + 1]
            found[pair] = found.get(pair, 0) + times
    return sorted(found, key=lambda pair: (-found[pair], pair))[0]


def pair_by_counter(cuts, choose=min, update=lambda f, p, n: f.update(list(pairwise(p)) * n)):
    found = Counter()
    for pieces, times in cuts.items():
        update(found, pieces, times)
    most = max(found.values())
    return choose(pair for pair in found if found[pair] == most)


def updated(update):
    return lambda cuts: pair_by_counter(cuts, update=update)


# ----------------------------------------------------------------------------------- shift_right


def shift_by_pad(labels, end=PAD, begin=BOS):
    moved = F.pad(labels, (1, 0), value=begin)[:, :-1]
    return torch.where(moved == EOS, end, moved)


def shift_by_roll(labels):
    reads = labels.roll(1, dims=1)
    reads[reads == EOS] = PAD
    reads[:, 0] = BOS
    return reads


def shift_from_lists(labels):
    rows = [[i for i in row if i not in (PAD, EOS)] for row in labels.tolist()]
    return collate([([5], row) for row in rows]).target_input


def shift_in_a_copy(labels):
    reads = labels.clone()
    reads[:, 1:] = labels[:, :-1]
    reads[:, 0] = 1
    return reads * (reads != 2)


# ------------------------------------------------------------------------------------- wordpiece


def pieces_while(word, vocabulary, unknown=lambda found: ["[UNK]"]):
    found, rest, mark = [], word, ""
    while rest:
        size = len(rest)
        while size and mark + rest[:size] not in vocabulary:
            size -= 1
        if size == 0:
            return unknown(found)
        found.append(mark + rest[:size])
        rest, mark = rest[size:], "##"
    return found


def pieces_recursive(word, vocabulary, mark=""):
    for end in range(len(word), 0, -1):
        if mark + word[:end] in vocabulary:
            if end == len(word):
                return [mark + word]
            rest = pieces_recursive(word[end:], vocabulary, "##")
            return ["[UNK]"] if rest == ["[UNK]"] else [mark + word[:end], *rest]
    return ["[UNK]"]


def pieces_by_max(word, vocabulary):
    found, at = [], 0
    while at < len(word):
        mark = "##" * bool(at)
        fitting = [p for p in vocabulary if p.startswith("##") == bool(at)]
        fitting = [p for p in fitting if word.startswith(p[len(mark) :], at)]
        if not fitting:
            return ["[UNK]"]
        found.append(max(fitting, key=len))
        at += len(found[-1]) - len(mark)
    return found


def with_or_without(word, vocabulary):
    bare = {"##" + piece for piece in vocabulary if not piece.startswith("##")}
    return pieces_while(word, vocabulary | bare)


def test_the_reference_is_berts():
    from tokenizers import Tokenizer as Theirs
    from tokenizers import models

    exercise = check.exercises["wordpiece"]
    for case in cases_of(exercise):
        word, vocabulary = case.args
        ids = {piece: i for i, piece in enumerate(sorted(vocabulary | {"[UNK]"}))}
        theirs = Theirs(models.WordPiece(ids, unk_token="[UNK]"))
        assert theirs.encode(word).tokens == exercise.reference(word, vocabulary)


# --------------------------------------------------------------------------------- token_batches


def batches_by_sampler(lengths, max_tokens):
    if not lengths:
        return []
    return TokenBatchSampler(lengths, max_tokens=max_tokens, shuffle=False).epoch(0)


def batches_with_a_current(lengths, max_tokens, full=lambda b, n, m: n * (len(b) + 1) > m, sign=1):
    found, current = [], []
    for length, i in sorted((n, sign * i) for i, n in enumerate(lengths)):
        if full([lengths[j] for j in current], length, max_tokens):
            found.append(current)
            current = []
        current.append(sign * i)
    return [*found, current] if current else found


def filled(full):
    return lambda lengths, max_tokens: batches_with_a_current(lengths, max_tokens, full)


def cleared(lengths, max_tokens):
    found, current = [], []
    for i in sorted(range(len(lengths)), key=lambda i: lengths[i]):
        if (len(current) + 1) * lengths[i] > max_tokens:
            found.append(current)
            current.clear()
        current.append(i)
    return [*found, current] if current else found


test_right, test_wrong = table(
    check,
    right={
        "best_pair": [pair_by_sorting, pair_by_counter],
        "shift_right": [
            shift_by_pad,
            shift_by_roll,
            shift_from_lists,
            shift_in_a_copy,
        ],
        "wordpiece": [pieces_while, pieces_by_max],
        "token_batches": [
            batches_by_sampler,
            batches_with_a_current,
        ],
    },
    wrong={
        "best_pair": [
            (updated(lambda f, p, n: f.update([*pairwise("".join(p))] * n)), "and stays whole"),
            (updated(lambda f, p, n: f.update([*pairwise(p[1:])] * n)), "in the line"),
        ],
        "shift_right": [
            (lambda labels: shift_by_pad(labels, end=-100), "reads no `<eos>` either"),
        ],
        "wordpiece": [
            (with_or_without, "a piece without `##` fits only at the beginning"),
            (lambda word, known: pieces_while("▁" + word, known), "the whole word may be a piece"),
        ],
        "token_batches": [
            (lambda *of: batches_with_a_current(*of, sign=-1), "texts keep their order"),
            (filled(lambda b, n, m: b and len(b) * b[-1] > m), "don't fit together"),
            (cleared, "don't fit together"),
        ],
    },
)
