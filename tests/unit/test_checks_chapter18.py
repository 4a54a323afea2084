"""Chapter 18's checkers: right answers in every form, and what is said of wrong ones."""

import torch
import torch.nn.functional as F

from tests.unit.judging import table
from transformer_lib.checks.chapter18 import check
from transformer_lib.decoding.generate import distribution

# ------------------------------------------------------------------------------------ drawn_from


def by_the_library(logits, temperature, top_k, top_p):
    probs, ids = distribution(logits.log_softmax(-1), temperature, top_k, top_p)
    return torch.zeros_like(logits).scatter(-1, ids, probs.to(logits.dtype))


def by_masked_logits(logits, temperature, top_k, top_p, fill=-torch.inf):
    logits = logits / temperature
    if top_k is not None:
        logits = logits.masked_fill(logits < logits.topk(top_k).values[:, -1:], fill)
    values, order = logits.softmax(-1).sort(descending=True)
    gone = (values.cumsum(-1) - values >= top_p).gather(-1, order.argsort(-1))
    return logits.masked_fill(gone, fill).softmax(-1)


def by_a_shifted_mask(logits, temperature, top_k, top_p, moved=True, first=True):
    logits = logits / temperature
    if top_k is not None:
        logits = logits.masked_fill(logits < logits.topk(top_k).values[:, -1:], -torch.inf)
    scores, order = logits.sort(descending=True)
    remove = scores.softmax(-1).cumsum(-1) > top_p
    if moved:
        remove[:, 1:] = remove[:, :-1].clone()
    if first:
        remove[:, 0] = False
    return logits.masked_fill(remove.scatter(1, order, remove), -torch.inf).softmax(-1)


def draw(
    warm=lambda x, t: (x / t).softmax(-1),
    inside=lambda share, p: share.cumsum(-1) - share < p,
    back=lambda probs, order: torch.zeros_like(probs).scatter(-1, order, probs),
    slim=False,
):
    """The solution of the page."""

    def answer(logits, temperature, top_k, top_p):
        probs, order = warm(logits, temperature).sort(dim=-1, descending=True)
        if slim:
            probs, order = probs[:, :top_k], order[:, :top_k]
        elif top_k is not None:
            probs[:, top_k:] = 0
        probs = probs * inside(probs / probs.sum(-1, keepdim=True), top_p)
        return back(probs / probs.sum(-1, keepdim=True), order)

    return answer


# ------------------------------------------------------------------------------------- text_loss


def answer_by_answer(model, ids, length, stride):
    """For each answer the window that has it first."""
    losses = []
    for answer in range(1, len(ids)):
        start = max(0, -(-(answer - length) // stride)) * stride
        logits = model(ids[None, start:answer])[0, -1]
        losses.append(F.cross_entropy(logits, ids[answer]).item())
    return sum(losses) / len(losses)


def loss(
    new=lambda each, known: each[known:],
    step=lambda length, stride: stride,
    labels_of=lambda reads, labels: labels,
    by=lambda losses: losses.mean(),
):
    def text_loss(model, ids, length, stride):
        parts, counted = [], 0
        for start in range(0, len(ids) - 1, step(length, stride)):
            labels = ids[start + 1 : start + 1 + length]
            reads = ids[start : start + len(labels)]
            each = F.cross_entropy(
                model(reads[None])[0], labels_of(reads, labels), reduction="none"
            )
            parts.append(new(each, counted - start))
            counted = start + len(labels)
            if counted == len(ids) - 1:
                break
        return by(torch.cat(parts))

    return text_loss


test_right, test_wrong = table(
    check,
    right={
        "drawn_from": [
            by_the_library,   by_a_shifted_mask, draw(),
        ],
        "text_loss": [answer_by_answer, loss()],
    },
    wrong={
        "drawn_from": [
            (lambda *of: by_a_shifted_mask(*of, moved=False), "the second is needed to reach"),
            (lambda *of: by_a_shifted_mask(*of, first=False), "`top_p` = 0.5"),
            (lambda *of: by_masked_logits(*of, fill=0.0), "`top_k` = 2 keeps the two most"),
            
            (draw(back=lambda p, order: (p / p.sum()).gather(-1, order.argsort(-1))), "each row"),
            
            
        ],
        "text_loss": [
            
            (lambda model, *of: loss()(lambda reads: model(reads).softmax(-1), *of), "8 after it"),
            
        ],
    },
)  # fmt: skip
