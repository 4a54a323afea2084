"""Chapter 19's checkers: right answers in every form, and what is said of wrong ones."""

import torch
import torch.nn.functional as F

from tests.unit.judging import table
from transformer_lib.checks.chapter19 import check

# ----------------------------------------------------------------------------------- hidden_loss


def loss_by_torch(logits, labels, **how):
    return F.cross_entropy(logits.flatten(0, 1), labels.flatten(), **{"ignore_index": 0} | how)


def loss_of_the_asked(logits, labels):
    asked = labels > 0
    return F.cross_entropy(logits[asked], labels[asked])


def loss_in_loops(logits, labels):
    losses = []
    for text, wanted in zip(logits, labels, strict=True):
        for scores, word in zip(text, wanted, strict=True):
            if word != 0:
                losses.append(scores.exp().sum().log() - scores[word])
    return torch.stack(losses).mean()


def others_at_0(logits, labels):
    logits = torch.where((labels != 0)[:, :, None], logits, 0.0)
    return F.cross_entropy(logits.mT, labels)


# --------------------------------------------------------------------------------- one_at_a_time


def filled(
    sure=lambda logits: logits.softmax(-1).amax(-1),
    at=lambda p, ids: p.masked_fill(ids != 3, -1e9).argmax(),
    times=lambda ids: int((ids == 3).sum()),
):
    def answer(guess, ids):
        ids = ids.clone()
        for _ in range(times(ids)):
            logits = guess(ids)
            place = at(sure(logits), ids)
            ids[place] = logits.argmax(-1)[place]
        return ids

    return answer


def never_written(guess, ids):
    found = ids.clone()
    while 3 in ids:
        best, words = guess(ids).softmax(dim=-1).max(dim=-1)
        place = best.masked_fill(ids != 3, -1).argmax()
        found[place] = words[place]
    return found


def in_a_batch(guess, ids):
    return filled()(lambda text: guess(text[None])[0], ids)


def lead(logits):
    first, second = logits.softmax(-1).topk(2).values.unbind(-1)
    return first - second


# -------------------------------------------------------------------------------- mean_of_tokens


def mean_in_loop(x, ids):
    return torch.stack([row[i != 0].mean(dim=0) for row, i in zip(x, ids, strict=True)])


def mean_by_product(x, ids):
    share = (ids != 0).to(x.dtype)
    return torch.einsum("bs,bsd->bd", share / share.sum(1, keepdim=True), x)


test_right, test_wrong = table(
    check,
    right={
        "hidden_loss": [
            loss_by_torch, loss_of_the_asked,  
            lambda *of: loss_in_loops(*of).item(),
        ],
        "one_at_a_time": [filled(), ],
        "mean_of_tokens": [mean_in_loop, mean_by_product, ],
    },
    wrong={
        "hidden_loss": [
            (others_at_0, "the second position isn't asked"),
            
            
        ],
        "one_at_a_time": [
            (filled(at=lambda p, ids: p[ids == 3].argmax()), "the others stay as they are"),
            (filled(times=lambda ids: int((ids == 3).sum()) - 1), "one word is hidden"),
            (filled(sure=lead), "the largest probability decides"),
            (never_written, "into the text that is asked about next"),
            (in_a_batch, "takes one text of shape (S,); it was given (1, 5)"),
            
        ],
        "mean_of_tokens": [
            (lambda x, ids: x.max(dim=1).values, "all three tokens"),
            (lambda x, ids: mean_in_loop(x[:, 1:], ids[:, 1:]), "[CLS] and [SEP] among them"),
            (lambda x, ids: x[:, : (ids != 0).sum(1).amin()].mean(1), "and the second three"),
            
            
            
            
        ],
    },
)  # fmt: skip
