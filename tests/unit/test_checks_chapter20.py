"""Chapter 20's checkers: right answers in every form, and what is said of wrong ones."""

import torch
import torch.nn.functional as F

from tests.unit.judging import table
from transformer_lib.checks.chapter20 import check

# ----------------------------------------------------------------------------------- add_extract


def by_scatter(ids, extract):
    longer = F.pad(ids, (0, 1))
    ends = (ids != 0).sum(dim=1, keepdim=True)
    return longer.scatter(1, ends, extract)


def by_lists(ids, extract):
    width = ids.size(1) + 1
    rows = [[i for i in row if i != 0] + [extract] for row in ids.tolist()]
    return torch.tensor([row + [0] * (width - len(row)) for row in rows])


def at_the_first_0(ids, extract):
    found = F.pad(ids, (0, 1))
    for row, text in zip(found, ids, strict=True):
        row[text.eq(0).byte().argmax()] = extract
    return found


def where_there_is_padding(ids, extract):
    rows = [[*row, 0] for row in ids.tolist()]
    for row in rows:
        if 0 in row[:-1]:
            row[row.index(0)] = extract
    return torch.tensor(rows)


def at_each_end(ids, extract):
    found = F.pad(ids, (0, 1))
    for end in (ids != 0).sum(1):
        found[:, end] = extract
    return found


def in_place_too(ids, extract):
    found = by_scatter(ids, extract)
    ids.copy_(found[:, :-1])
    return found


def no_longer(ids, extract):
    found = ids.clone()
    found[range(len(ids)), (ids != 0).sum(1)] = extract
    return found


def as_floats(ids, extract):
    return by_scatter(torch.cat([ids, torch.zeros(len(ids), 1)], 1)[:, :-1], float(extract))


def after_the_last_2(ids, extract):
    ends = (torch.arange(ids.size(1)) * (ids == 2)).amax(dim=1, keepdim=True) + 1
    return F.pad(ids, (0, 1)).scatter(1, ends, extract)


def after_the_first_2(ids, extract):
    found = [[*row, 0] for row in ids.tolist()]
    for row in found:
        row[row.index(2) + 1] = extract
    return torch.tensor(found)


# ------------------------------------------------------------------------------------ joint_loss


def by_hand(label_logits, labels, word_logits, ids, share):
    new = -label_logits.log_softmax(1)[torch.arange(len(labels)), labels].mean()
    log_p = word_logits.log_softmax(-1)[:, :-1].gather(2, ids[:, 1:, None])[..., 0]
    real = ids[:, 1:] != 0
    return new - share * (log_p * real).sum() / real.sum()


def joint(
    logits_of=lambda word_logits: word_logits[:, :-1],
    words_of=lambda ids: ids[:, 1:],
    before=lambda logits: logits,
    join=lambda new, old, share: new + share * old,
    **how,
):
    def answer(label_logits, labels, word_logits, ids, share):
        logits = before(logits_of(word_logits))
        old = F.cross_entropy(logits.mT, words_of(ids), **{"ignore_index": 0} | how)
        return join(F.cross_entropy(before(label_logits), labels), old, share)

    return answer


def by_texts(label_logits, labels, word_logits, ids, share):
    each = F.cross_entropy(word_logits[:, :-1].mT, ids[:, 1:], ignore_index=0, reduction="none")
    return F.cross_entropy(label_logits, labels) + share * each.sum(dim=1).mean()


def mean_of_each_text(label_logits, labels, word_logits, ids, share):
    words = F.cross_entropy(word_logits[:, :-1].mT, ids[:, 1:], ignore_index=0, reduction="none")
    words = (words.sum(1) / (ids[:, 1:] > 0).sum(1)).mean()
    return F.cross_entropy(label_logits, labels) + share * words


def by_what_is_read(label_logits, labels, word_logits, ids, share):
    read = ids[:, :-1] != 0
    words = F.cross_entropy(word_logits[:, :-1][read], ids[:, 1:][read])
    return F.cross_entropy(label_logits, labels) + share * words


def no_label_0(label_logits, labels, word_logits, ids, share):
    loss = torch.nn.CrossEntropyLoss(ignore_index=0)
    return loss(label_logits, labels) + share * loss(word_logits[:, :-1].mT, ids[:, 1:])


def viewed(logits):
    return logits.reshape(len(logits), logits.size(2), -1).mT


# -------------------------------------------------------------------------------------- low_rank


def merged(x, weight, bias, a, b, alpha):
    return F.linear(x, weight + b @ a * (alpha / len(a)), bias)


def in_steps(x, weight, bias, a, b, alpha):
    return F.linear(x, weight, bias) + F.linear(F.linear(x, a), b) * alpha / b.size(1)


def frozen(x, weight, bias, a, b, alpha):
    kept = F.linear(x, weight.detach(), bias.detach())
    return kept + alpha / a.shape[0] * (x @ a.T @ b.T)


def low_rank(factor):
    return lambda x, weight, bias, a, b, alpha: F.linear(
        x, weight + factor(alpha, a, b) * (b @ a), bias
    )


def reshaped(x, weight, bias, a, b, alpha):
    d, out = x.size(-1), len(bias)
    added = x @ a.reshape(d, -1) @ b.reshape(-1, out)
    return F.linear(x, weight, bias) + alpha / len(a) * added


def cut_off(name):
    def answer(x, weight, bias, a, b, alpha):
        given = {"x": x, "a": a, "b": b}
        given[name] = given[name].detach()
        return frozen(given["x"], weight, bias, given["a"], given["b"], alpha)

    return answer


test_right, test_wrong = table(
    check,
    right={
        "add_extract": [by_scatter, by_lists],
        "joint_loss": [by_hand, joint(), lambda *of: by_hand(*of).item()],
        "low_rank": [merged, in_steps, frozen],
    },
    wrong={
        "add_extract": [
            (lambda ids, extract: F.pad(ids, (0, 1), value=extract), "the last column of every"),
            (at_the_first_0, "its first token is overwritten"),
            (where_there_is_padding, "a text without padding gets no token"),
            (at_each_end, "at the ends of all texts"),
            (after_the_first_2, "it looks for the number 2"),
            (after_the_last_2, "2 is a token like any other"),
            (no_longer, "don't get longer"),
            (in_place_too, "changes its input `ids`"),
            (as_floats, "it must hold whole numbers"),
            (lambda ids, extract: by_scatter(ids, extract)[:, :-1], "has shape (1, 3)"),
        ],
        "joint_loss": [
            (joint(lambda w: w, lambda ids: ids), "each position predicts its own word"),
            (joint(ignore_index=-100), "padding counts as a word"),
            (mean_of_each_text, "each text has its own mean"),
            (by_what_is_read, "among the words that are read"),
            (no_label_0, "the label 0 is left out"),
            (joint(lambda w: w, lambda ids: ids.roll(-1, 1)), "the words are rolled"),
            (joint(join=lambda new, old, share: share * (new + old)), "costs is 0.55"),
            (joint(join=lambda new, old, share: (new + share * old) / (1 + share)), "costs is"),
            (by_texts, "one and three words"),
            (joint(lambda w: w[:, 1:]), "position 0 predicts the word of position 1"),
            (joint(before=lambda logits: logits.softmax(-1)), "position 0 predicts"),
            (joint(lambda w: viewed(w[:, :-1])), "mixes positions and words"),
            (joint(reduction="none"), "shape"),
        ],
        "low_rank": [
            (low_rank(lambda alpha, a, b: 1), "isn't scaled"),
            (low_rank(lambda alpha, a, b: alpha), "not divided by the rank"),
            (low_rank(lambda alpha, a, b: int(alpha / len(a))), "is rounded to a whole number"),
            (low_rank(lambda alpha, a, b: alpha / len(b)), "the number of outputs"),
            (lambda x, w, bias, a, b, alpha: merged(x, w, 0 * bias, a, b, alpha), "the bias is"),
            (reshaped, "`.T` moves them"),
            (low_rank(lambda alpha, a, b: alpha * len(a)), "the rank is 2 and alpha 1"),
            *((cut_off(name), f"gradient reaches `{name}`") for name in "ab"),
            (cut_off("x"), "`x`"),
        ],
    },
)  # fmt: skip
