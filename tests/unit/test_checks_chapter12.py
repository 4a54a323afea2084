"""Chapter 12's checkers: answers that real learners give, each diagnosed by name."""

from bisect import bisect_right
from collections import Counter
from itertools import pairwise

import pytest
import torch
import torch.nn.functional as F

from transformer_lib.checks.chapter12 import check
from transformer_lib.data import TokenBatchSampler, collate

pytestmark = pytest.mark.slow

PAD, BOS, EOS = 0, 1, 2


def verdict(capsys, function, name):
    function.__name__ = name
    result = check(function)
    capsys.readouterr()
    return result


# ------------------------------------------------------------------------------------ shift_right


def shift_by_pad(labels):
    moved = F.pad(labels, (1, 0), value=BOS)[:, :-1]
    return torch.where(moved == EOS, PAD, moved)


def shift_in_loops(labels):
    reads = torch.zeros_like(labels)
    for b, row in enumerate(labels.tolist()):
        for t in range(len(row)):
            before = row[t - 1] if t else BOS
            reads[b, t] = 0 if before == EOS else before
    return reads


def shift_by_roll(labels):
    reads = labels.roll(1, dims=1)
    reads[reads == EOS] = PAD
    reads[:, 0] = BOS
    return reads


def shift_from_lists(labels):
    rows = [[i for i in row if i not in (PAD, EOS)] for row in labels.tolist()]
    return collate([([5], row) for row in rows]).target_input


def shift_in_place_of_a_copy(labels):
    reads = labels.clone()
    reads[:, 1:] = labels[:, :-1]
    reads[:, 0] = 1
    return reads * (reads != 2)


@pytest.mark.parametrize(
    "function",
    [
        shift_by_pad,
        shift_in_loops,
        shift_by_roll,
        shift_from_lists,
        shift_in_place_of_a_copy,
    ],
)
def test_right_shifts_pass(capsys, function):
    assert verdict(capsys, function, "shift_right")


def bos_then_all(labels):
    return torch.cat([torch.ones(len(labels), 1, dtype=torch.long), labels], dim=1)


def huggingface_style(labels):
    shifted = labels.new_zeros(labels.shape)
    shifted[:, 1:] = labels[:, :-1].clone()
    shifted[:, 0] = BOS
    return shifted


def pad_starts(labels):
    shifted = huggingface_style(labels)
    shifted[:, 0] = PAD
    return shifted


def marian_style(labels):
    shifted = huggingface_style(labels)
    shifted[:, 0] = EOS
    return shifted


def labels_ahead(labels):
    return F.pad(labels[:, 1:], (0, 1))


def begin_and_the_rest_to_the_left(labels):
    reads = labels_ahead(labels)
    reads[:, 0] = BOS
    return torch.where(reads == EOS, PAD, reads)


def rolled(labels):
    return torch.roll(labels, 1, dims=-1)


def rolled_down(labels):
    reads = labels.roll(1, 0)
    reads[0] = BOS
    return reads


def untouched(labels):
    return labels + 0


def first_overwritten(labels):
    return torch.cat([torch.ones_like(labels[:, :1]), labels[:, 1:]], 1)


def cut_off(labels):
    return labels[:, :-1]


def two_places(labels):
    return F.pad(labels, (2, 0), value=BOS)[:, : labels.shape[1]]


def ignored_end(labels):
    reads = huggingface_style(labels)
    reads[reads == EOS] = -100
    return reads


def floats(labels):
    return huggingface_style(labels).masked_fill(labels < 0, 0) * torch.ones(1)


def floats_without_end(labels):
    reads = torch.cat([torch.ones(len(labels), 1), labels[:, :-1]], 1)
    reads[reads == EOS] = PAD
    return reads


def end_becomes_begin(labels):
    reads = huggingface_style(labels)
    reads[reads == EOS] = BOS
    return reads


def wiped_in_the_labels(labels):
    reads = F.pad(labels, (1, 0), value=BOS)[:, :-1]
    reads[labels == EOS] = PAD
    return reads


def rolled_left(labels):
    return labels.roll(-1, dims=1)


def shorter(labels):
    return labels[:, 1:]


def shorter_with_begin(labels):
    reads = torch.cat([torch.full((len(labels), 1), BOS), labels[:, 2:]], dim=1)
    return torch.where(reads == EOS, PAD, reads)


def all_but_the_end_wiped(labels):
    reads = huggingface_style(labels)
    return torch.where(reads == EOS, reads, PAD)


def test_a_shift_without_return_is_asked_for_it(capsys):
    report = verdict(capsys, lambda labels: None, "shift_right").report
    assert "Your function returned None: is a `return` missing?" in report


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (bos_then_all, "one place longer"),
        (huggingface_style, "<eos> is still read"),
        (pad_starts, "the first place is <pad>"),
        (marian_style, "the first place is <eos>"),
        (all_but_the_end_wiped, "the wrong way round"),
        (labels_ahead, "moved to the left"),
        (rolled, "the row is rolled"),
        (rolled_down, "moved down"),
        (untouched, "nothing was shifted"),
        (first_overwritten, "written over"),
        (cut_off, "<bos> is missing"),
        (two_places, "shifted twice"),
        (ignored_end, "-100"),
        (end_becomes_begin, "replaced by <bos>"),
        (rolled_left, "moved to the left"),
        (begin_and_the_rest_to_the_left, "moved to the left"),
        (shorter, "moved to the left"),
        (shorter_with_begin, "moved to the left"),
        (wiped_in_the_labels, "one place further"),
        (floats, "makes floats"),
        (floats_without_end, "makes floats"),
    ],
)
def test_wrong_shifts_are_named(capsys, function, said):
    result = verdict(capsys, function, "shift_right")
    assert not result and said in result.report


def test_labels_that_are_changed_are_reported(capsys):
    def in_place(labels):
        labels[:, 1:] = labels[:, :-1].clone()
        labels[:, 0] = BOS
        labels[labels == EOS] = PAD
        return labels

    result = verdict(capsys, in_place, "shift_right")
    assert not result and "labels" in result.report


# -------------------------------------------------------------------------------------- wordpiece


def pieces_while(word, vocabulary):
    found, rest, mark = [], word, ""
    while rest:
        size = len(rest)
        while size and mark + rest[:size] not in vocabulary:
            size -= 1
        if size == 0:
            return ["[UNK]"]
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


@pytest.mark.parametrize("function", [pieces_while, pieces_recursive, pieces_by_max])
def test_right_cuts_pass(capsys, function):
    assert verdict(capsys, function, "wordpiece")


def test_the_reference_is_berts():
    from tokenizers import Tokenizer as Theirs
    from tokenizers import models

    exercise = check.exercises["wordpiece"]
    for case in exercise.cases:
        word, vocabulary = case.args
        ids = {piece: i for i, piece in enumerate(sorted(vocabulary | {"[UNK]"}))}
        theirs = Theirs(models.WordPiece(ids, unk_token="[UNK]"))
        assert theirs.encode(word).tokens == exercise.reference(word, vocabulary)


def without_marks(word, vocabulary):
    found = []
    while word:
        size = max((n for n in range(len(word) + 1) if word[:n] in vocabulary), default=0)
        if not size:
            return ["[UNK]"]
        found.append(word[:size])
        word = word[size:]
    return found


def marked_afterwards(word, vocabulary):
    found = without_marks(word, vocabulary)
    return found[:1] + ["##" + piece for piece in found[1:]]


def marks_lost(word, vocabulary):
    return [piece.removeprefix("##") for piece in pieces_while(word, vocabulary)]


def shortest(word, vocabulary):
    found, mark = [], ""
    while word:
        for size in range(1, len(word) + 1):
            if mark + word[:size] in vocabulary:
                found.append(mark + word[:size])
                word, mark = word[size:], "##"
                break
        else:
            return ["[UNK]"]
    return found


def unknown_rest(word, vocabulary):
    found, mark = [], ""
    while word:
        size = len(word)
        while size and mark + word[:size] not in vocabulary:
            size -= 1
        if size == 0:
            return [*found, "[UNK]"]
        found.append(mark + word[:size])
        word, mark = word[size:], "##"
    return found


def rest_lost(word, vocabulary):
    return [piece for piece in unknown_rest(word, vocabulary) if piece != "[UNK]"]


def range_too_short(word, vocabulary):
    found, start = [], 0
    while start < len(word):
        for end in range(len(word) - 1, start, -1):
            if "##" * bool(start) + word[start:end] in vocabulary:
                break
        else:
            return ["[UNK]"]
        found.append("##" * bool(start) + word[start:end])
        start = end
    return found


def empty_for_unknown(word, vocabulary):
    found = pieces_while(word, vocabulary)
    return [] if found == ["[UNK]"] else found


def other_name(word, vocabulary):
    return [p.replace("[UNK]", "<unk>") for p in pieces_while(word, vocabulary)]


def backtracking(word, vocabulary, mark=""):
    if not word:
        return []
    for end in range(len(word), 0, -1):
        if mark + word[:end] in vocabulary:
            rest = backtracking(word[end:], vocabulary, "##")
            if rest != ["[UNK]"]:
                return [mark + word[:end], *rest]
    return ["[UNK]"]


def from_behind(word, vocabulary):
    found, end = [], len(word)
    while end:
        start = next(
            (s for s in range(end) if ("##" if s else "") + word[s:end] in vocabulary), None
        )
        if start is None:
            return ["[UNK]"]
        found = [("##" if start else "") + word[start:end], *found]
        end = start
    return found


def letter_fallback(word, vocabulary):
    found, start = [], 0
    while start < len(word):
        mark = "##" if start else ""
        end = next(
            j
            for j in range(len(word), start, -1)
            if j == start + 1 or mark + word[start:j] in vocabulary
        )
        found.append(mark + word[start:end])
        start = end
    return found


def with_or_without(word, vocabulary):
    found, start = [], 0
    while start < len(word):
        for end in range(len(word), start, -1):
            part = word[start:end]
            names = ["##" + part, part] if start else [part]
            hits = [name for name in names if name in vocabulary]
            if hits:
                found.append(hits[0])
                break
        else:
            return ["[UNK]"]
        start = end
    return found


def space_in_front(word, vocabulary):
    return pieces_while("▁" + word, vocabulary)


def never_whole(word, vocabulary):
    found, start = [], 0
    while start < len(word):
        mark, left = "##" * bool(start), len(word) - start
        for size in range(max(left - 1, 1), 0, -1):
            if mark + word[start : start + size] in vocabulary:
                break
        else:
            return ["[UNK]"]
        found.append(mark + word[start : start + size])
        start += size
    return found


def a_string(word, vocabulary):
    found = pieces_while(word, vocabulary)
    return "[UNK]" if found == ["[UNK]"] else found


def letters_never_tried(word, vocabulary):
    found, start = [], 0
    while start < len(word):
        for end in range(len(word), start + 1, -1):
            if "##" * (start > 0) + word[start:end] in vocabulary:
                break
        else:
            return ["[UNK]"]
        found.append("##" * (start > 0) + word[start:end])
        start = end
    return found


def max_of_nothing(word, vocabulary):
    found, at = [], 0
    while at < len(word):
        mark = "##" if at else ""
        ends = range(at + 1, len(word) + 1)
        piece = max((word[at:e] for e in ends if mark + word[at:e] in vocabulary), key=len)
        found.append(mark + piece)
        at += len(piece)
    return found


def endless(word, vocabulary):
    found, start = [], 0
    while start < len(word):
        for end in range(len(word), start, -1):
            piece = ("##" if start > 0 else "") + word[start:end]
            if piece in vocabulary:
                found.append(piece)
                start = end
                break
    return found


def with_mark(mark, behind=""):
    def wordpiece(word, vocabulary):
        found, start = [], 0
        while start < len(word):
            before, after = (mark, behind) if start else ("", "")
            for end in range(len(word), start, -1):
                if before + word[start:end] + after in vocabulary:
                    break
            else:
                return ["[UNK]"]
            found.append(before + word[start:end] + after)
            start = end
        return found

    return wordpiece


def going_on(further):
    def wordpiece(word, vocabulary):
        found, start = [], 0
        while start < len(word):
            for end in range(len(word), start, -1):
                if "##" * bool(start) + word[start:end] in vocabulary:
                    break
            else:
                return ["[UNK]"]
            found.append("##" * bool(start) + word[start:end])
            start = further(start, end)
        return found

    return wordpiece


def mark_counted(word, vocabulary):
    found, rest = [], word
    while rest:
        mark = "##" if found else ""
        ends = [end for end in range(1, len(rest) + 1) if mark + rest[:end] in vocabulary]
        if not ends:
            return ["[UNK]"]
        found.append(mark + rest[: max(ends)])
        rest = rest[len(found[-1]) :]
    return found


def last_letter_lost(word, vocabulary):
    found, start = [], 0
    while start < len(word) - 1:
        end = len(word)
        while end > start and "##" * (start > 0) + word[start:end] not in vocabulary:
            end -= 1
        if end == start:
            return ["[UNK]"]
        found.append("##" * (start > 0) + word[start:end])
        start = end
    return found


def marked_on_the_way_back(word, vocabulary):
    if not word:
        return []
    for end in range(len(word), 0, -1):
        if word[:end] in vocabulary:
            rest = marked_on_the_way_back(word[end:], vocabulary)
            return [word[:end], *("##" + piece for piece in rest)]
    return ["[UNK]"]


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (with_mark("#"), "another mark than ##"),
        (with_mark("", "##"), "another mark than ##"),
        (going_on(lambda start, end: start), "the same piece is found for ever"),
        (going_on(lambda start, end: start + end), "added to the start of the next one"),
        (mark_counted, "counted like letters of the word"),
        (last_letter_lost, "a last letter that stands alone"),
        (marked_on_the_way_back, "are looked up without their ##"),
        (letter_fallback, "one letter always fits"),
        (with_or_without, "with its ## or without"),
        (space_in_front, "every word comes out as [UNK]"),
        (never_whole, "is never looked up"),
        (without_marks, "are looked up without their ##"),
        (marked_afterwards, "are looked up without their ##"),
        (marks_lost, "returned without their ##"),
        (shortest, "the shortest piece"),
        (unknown_rest, "only the rest becomes [UNK]"),
        (rest_lost, "the end of the word is lost"),
        (range_too_short, "a range ends one before"),
        (empty_for_unknown, "an empty list"),
        (other_name, "BERT's name for it is [UNK]"),
        (backtracking, "goes back and tries a shorter piece"),
        (from_behind, "from right to left"),
        (a_string, "a list, with [UNK]"),
        (letters_never_tried, "single letters are never tried"),
        (max_of_nothing, "the longest of no pieces"),
        (endless, "tries the same place for ever"),
    ],
)
def test_wrong_cuts_are_named(capsys, function, said):
    result = verdict(capsys, function, "wordpiece")
    assert not result and said in result.report


# ---------------------------------------------------------------------------------- token_batches


def batches_by_sampler(lengths, max_tokens):
    if not lengths:
        return []
    return TokenBatchSampler(lengths, max_tokens=max_tokens, shuffle=False).epoch(0)


def batches_with_a_current(lengths, max_tokens):
    found, current = [], []
    for length, i in sorted((n, i) for i, n in enumerate(lengths)):
        if length * (len(current) + 1) > max_tokens:
            found.append(current)
            current = []
        current.append(i)
    return [*found, current] if current else found


def batches_by_tensor(lengths, max_tokens):
    order = torch.tensor(lengths).argsort(stable=True).tolist()
    found = []
    while order:
        n = bisect_right(
            range(1, len(order) + 1), max_tokens, key=lambda n: n * lengths[order[n - 1]]
        )
        found.append(order[:n])
        order = order[n:]
    return found


def batches_of_tuples(lengths, max_tokens):
    return tuple(tuple(batch) for batch in batches_with_a_current(lengths, max_tokens))


@pytest.mark.parametrize(
    "function", [batches_by_sampler, batches_with_a_current, batches_by_tensor]
)
def test_right_batches_pass(capsys, function):
    assert verdict(capsys, function, "token_batches")


def made(full, order=None):
    def token_batches(lengths, max_tokens):
        batches = [[]]
        for i in order(lengths) if order else sorted(range(len(lengths)), key=lengths.__getitem__):
            if full(batches[-1], lengths, i, max_tokens):
                batches.append([])
            batches[-1].append(i)
        return [batch for batch in batches if batch]

    return token_batches


def right_test(batch, lengths, i, most):
    return (len(batch) + 1) * lengths[i] > most


def last_lost(lengths, max_tokens):
    return batches_with_a_current(lengths, max_tokens)[:-1]


def lengths_returned(lengths, max_tokens):
    return [[lengths[i] for i in b] for b in batches_with_a_current(lengths, max_tokens)]


def sorted_places(lengths, max_tokens):
    return batches_with_a_current(sorted(lengths), max_tokens)


def index_of_length(lengths, max_tokens):
    return [[lengths.index(n) for n in b] for b in lengths_returned(lengths, max_tokens)]


def fixed_number(lengths, max_tokens):
    size = max_tokens // max(lengths)
    order = sorted(range(len(lengths)), key=lambda i: lengths[i])
    return [order[i : i + size] for i in range(0, len(order), size)]


def newcomer_lost(lengths, max_tokens):
    found, current = [], []
    for i in sorted(range(len(lengths)), key=lambda i: lengths[i]):
        if (len(current) + 1) * lengths[i] > max_tokens:
            found.append(current)
            current = []
        else:
            current.append(i)
    return [*found, current] if current else found


def one_empty(lengths, max_tokens):
    return batches_with_a_current(lengths, max_tokens) or [[]]


def first_asked_for(lengths, max_tokens):
    order = sorted(range(len(lengths)), key=lambda i: lengths[i])
    batches = [[order[0]]]
    for i in order[1:]:
        if (len(batches[-1]) + 1) * lengths[i] > max_tokens:
            batches.append([])
        batches[-1].append(i)
    return batches


def added_up_and_one_empty(lengths, max_tokens):
    batches, tokens = [[]], 0
    for i in sorted(range(len(lengths)), key=lengths.__getitem__):
        tokens += lengths[i]
        if tokens > max_tokens:
            batches.append([])
            tokens = lengths[i]
        batches[-1].append(i)
    return batches


def cleared(lengths, max_tokens):
    found, current = [], []
    for i in sorted(range(len(lengths)), key=lambda i: lengths[i]):
        if (len(current) + 1) * lengths[i] > max_tokens:
            found.append(current)
            current.clear()
        current.append(i)
    if current:
        found.append(current)
    return found


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (cleared, "one and the same list"),
        (made(lambda b, n, i, m: (len(b) + 1) * (n[i] + 1) > m), "one place longer"),
        (made(lambda b, n, i, m: sum(n[j] for j in b) + n[i] > m), "padding is not counted"),
        (made(lambda b, n, i, m: b and (len(b) + 1) * n[b[-1]] > m), "newcomer's own length"),
        (made(lambda b, n, i, m: len(b) * n[i] > m), "newcomer's own row"),
        (made(lambda b, n, i, m: b and len(b) * n[b[-1]] > m), "before the newcomer is in it"),
        (made(lambda b, n, i, m: (len(b) + 1) * n[i] >= m), "fills its budget exactly"),
        (made(lambda b, n, i, m: len(b) >= m), "a number of texts"),
        (made(right_test, lambda n: range(len(n))), "not sorted"),
        (made(right_test, lambda n: sorted(range(len(n)), key=lambda i: -n[i])), "longest come"),
        (
            made(right_test, lambda n: sorted(range(len(n)), key=n.__getitem__)[::-1]),
            "longest come",
        ),
        (made(right_test, lambda n: sorted(range(len(n)), key=lambda i: (n[i], -i))), "equals"),
        (last_lost, "the last batch is missing"),
        (lengths_returned, "the batches hold lengths"),
        (sorted_places, "those of the sorted list"),
        (index_of_length, "an index occurs twice"),
        (fixed_number, "the same number of texts"),
        (newcomer_lost, "no longer fits is lost"),
        (one_empty, "one batch all the same"),
        (first_asked_for, "without any text it fails"),
        (added_up_and_one_empty, "padding is not counted"),
    ],
)
def test_wrong_batches_are_named(capsys, function, said):
    result = verdict(capsys, function, "token_batches")
    assert not result and said in result.report


# -------------------------------------------------------------------------------------- best_pair


def pair_by_sorting(cuts):
    found = {}
    for pieces, times in cuts.items():
        for i in range(len(pieces) - 1):
            pair = pieces[i], pieces[i + 1]
            found[pair] = found.get(pair, 0) + times
    return sorted(found, key=lambda pair: (-found[pair], pair))[0]


def pair_by_counter(cuts):
    found = Counter()
    for pieces, times in cuts.items():
        found.update(list(pairwise(pieces)) * times)
    most = max(found.values())
    return min(pair for pair in found if found[pair] == most)


@pytest.mark.parametrize("function", [pair_by_sorting, pair_by_counter])
def test_right_pairs_pass(capsys, function):
    assert verdict(capsys, function, "best_pair")


def counted(update, choose=lambda found: min(found, key=lambda p: (-found[p], p))):
    def best_pair(cuts):
        found = Counter()
        for pieces, times in cuts.items():
            update(found, pieces, times)
        return choose(found)

    return best_pair


def honestly(found, pieces, times):
    for pair in pairwise(pieces):
        found[pair] += times


def glued(cuts):
    return pair_by_counter({tuple(p for pieces in cuts for p in pieces): 1})


def over_the_numbers(cuts):
    found = Counter()
    for pieces in cuts.values():
        for pair in pairwise(pieces):
            found[pair] += 1
    return min(found, key=lambda pair: (-found[pair], pair))


def over_the_items(cuts):
    found = Counter()
    for word in cuts.items():
        for pair in pairwise(word):
            found[pair] += 1
    return max(found, key=found.get)


def over_the_words_alone(cuts):
    found = Counter()
    for pieces, times in cuts:
        for pair in pairwise(pieces):
            found[pair] += times
    return min(found, key=lambda pair: (-found[pair], pair))


def replaced(found, pieces, times):
    for pair in pairwise(pieces):
        found[pair] = times


def longer_counts_more(found, pieces, times):
    for pair in pairwise(pieces):
        found[pair] += times * len(pieces)


def last_one_alone(found, pieces, times):
    for i in range(len(pieces)):
        found[pieces[i : i + 2]] += times


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (over_the_words_alone, "`cuts.items()` gives both"),
        (counted(replaced), "the count of one word alone"),
        (counted(longer_counts_more), "times the length of that word"),
        (counted(last_one_alone), "the last piece of a word is counted alone"),
        (
            counted(honestly, lambda f: min(f, key=lambda p: (-f[p], p[0]))),
            "only the first pieces are compared",
        ),
        (
            counted(honestly, lambda f: min(f, key=lambda p: (-f[p], p[::-1]))),
            "the second pieces are compared first",
        ),
        (counted(lambda f, p, n: f.update(pairwise(p))), "each word counts once"),
        (counted(lambda f, p, n: f.update(list(set(pairwise(p))) * n)), "is counted once"),
        (
            counted(lambda f, p, n: f.update([*zip(p[::2], p[1::2], strict=False)] * n)),
            "cut into twos",
        ),
        (counted(lambda f, p, n: f.update([*pairwise("".join(p))] * n)), "letters are counted"),
        (counted(lambda f, p, n: f.update([*pairwise(p[:-1])] * n)), "n pieces have n - 1 pairs"),
        (
            counted(
                lambda f, p, n: f.update([*pairwise(p[1:])] * n),
                lambda f: sorted(f, key=lambda pair: (-f[pair], pair))[0],
            ),
            "n pieces have n - 1 pairs",
        ),
        (glued, "taken for neighbors"),
        (counted(honestly, lambda f: f.most_common(1)[0][0]), "met first"),
        (counted(honestly, lambda f: f.most_common()[-1][0]), "rarest"),
        (counted(honestly, lambda f: "".join(min(f, key=lambda p: (-f[p], p)))), "one string"),
        (counted(honestly, lambda f: max(f.values())), "the count is returned"),
        (
            counted(honestly, lambda f: min(f.items(), key=lambda item: (-item[1], item[0]))),
            "together with its count",
        ),
        (counted(honestly, lambda f: f.most_common(1)[0]), "together with its count"),
        (counted(honestly, lambda f: f.most_common(1)), "together with its count"),
        (
            counted(honestly, lambda f: min(f, key=lambda p: (-f[p], "".join(p)))),
            "compared as one string",
        ),
        (over_the_numbers, "runs over the numbers"),
        (over_the_items, "runs over the numbers"),
    ],
)
def test_wrong_pairs_are_named(capsys, function, said):
    result = verdict(capsys, function, "best_pair")
    assert not result and said in result.report
