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


def in_place_too(ids, extract):
    found = by_scatter(ids, extract)
    ids.copy_(found[:, :-1])
    return found


def as_floats(ids, extract):
    return by_scatter(torch.cat([ids, torch.zeros(len(ids), 1)], 1)[:, :-1], float(extract))


def after_the_last_2(ids, extract):
    ends = (torch.arange(ids.size(1)) * (ids == 2)).amax(dim=1, keepdim=True) + 1
    return F.pad(ids, (0, 1)).scatter(1, ends, extract)


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
            (after_the_last_2, "2 is a token like any other"),
            (in_place_too, "changes its input `ids`"),
            (as_floats, "it must hold whole numbers"),
            (lambda ids, extract: by_scatter(ids, extract)[:, :-1], "has shape (1, 3)"),
        ],
        "joint_loss": [
            (joint(join=lambda new, old, share: share * (new + old)), "costs is 0.55"),
            (joint(join=lambda new, old, share: (new + share * old) / (1 + share)), "costs is"),
            (by_texts, "one and three words"),
            (joint(lambda w: w[:, 1:]), "position 0 predicts the word of position 1"),
            (joint(before=lambda logits: logits.softmax(-1)), "position 0 predicts"),
        ],
        "low_rank": [
            (low_rank(lambda alpha, a, b: alpha), "not divided by the rank"),
            (low_rank(lambda alpha, a, b: int(alpha / len(a))), "is rounded to a whole number"),
            (low_rank(lambda alpha, a, b: alpha / len(b)), "the number of outputs"),
            (reshaped, "`.T` moves them"),
            (low_rank(lambda alpha, a, b: alpha * len(a)), "the rank is 2 and alpha 1"),
            *((cut_off(name), f"gradient reaches `{name}`") for name in "ab"),
            (cut_off("x"), "`x`"),
        ],
    },
)  # fmt: skip
