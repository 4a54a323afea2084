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


def frozen(x, weight, bias, a, b, alpha):
    kept = F.linear(x, weight.detach(), bias.detach())
    return kept + alpha / a.shape[0] * (x @ a.T @ b.T)


def low_rank(factor):
    return lambda x, weight, bias, a, b, alpha: F.linear(
        x, weight + factor(alpha, a, b) * (b @ a), bias
    )


def cut_off(name):
    def answer(x, weight, bias, a, b, alpha):
        given = {"x": x, "a": a, "b": b}
        given[name] = given[name].detach()
        return frozen(given["x"], weight, bias, given["a"], given["b"], alpha)

    return answer


test_right, test_wrong = table(
    check,
    right={
        "add_extract": [by_scatter, ],
        "joint_loss": [by_hand, joint(), lambda *of: by_hand(*of).item()],
        "low_rank": [  frozen],
    },
    wrong={
        "add_extract": [
            (after_the_last_2, "2 is a token like any other"),
            
            
            
        ],
        "joint_loss": [
            (joint(join=lambda new, old, share: share * (new + old)), "costs is 0.55"),
            
            (by_texts, "one and three words"),
            (joint(lambda w: w[:, 1:]), "position 0 predicts the word of position 1"),
            (joint(before=lambda logits: logits.softmax(-1)), "position 0 predicts"),
        ],
        "low_rank": [
            
            
            
            
            (low_rank(lambda alpha, a, b: alpha * len(a)), "the rank is 2 and alpha 1"),
            *((cut_off(name), f"gradient reaches `{name}`") for name in "ab"),
            
        ],
    },
)  # fmt: skip
