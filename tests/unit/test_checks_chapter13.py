"""Chapter 13's checkers: right answers in every form, and what is said of wrong ones."""

import math

import torch
import torch.nn.functional as F

from tests.unit.judging import table
from transformer_lib.checks.chapter13 import check
from transformer_lib.data import collate

# ------------------------------------------------------------------------------------ three_tensors


def tensors_by_collate(source_ids, target_ids):
    return collate(list(zip(source_ids, target_ids, strict=True)))


def tensors_by_pad_sequence(sources, targets):
    def fill(rows):
        rows = [torch.tensor(row) for row in rows]
        return torch.nn.utils.rnn.pad_sequence(rows, batch_first=True)

    return [
        fill(sources),
        fill([[1, *row] for row in targets]),
        fill([[*row, 2] for row in targets]),
    ]


def inserted(sources, targets):
    for row in targets:
        row.insert(0, 1)
    return tensors_by_pad_sequence(sources, targets)


# ------------------------------------------------------------------------------------ smoothed_loss


def loss_by_torch(logits, labels, epsilon):
    return F.cross_entropy(
        logits.flatten(0, 1), labels.flatten(), ignore_index=0, label_smoothing=epsilon
    )


def loss_in_loops(logits, labels, epsilon):
    total, n = 0.0, 0
    for row, answers in zip(logits.double(), labels, strict=True):
        for scores, right in zip(row, answers, strict=True):
            if right == 0:
                continue
            log_p = scores - torch.logsumexp(scores, 0)
            total += -(1 - epsilon) * log_p[right] - epsilon * sum(log_p) / len(log_p)
            n += 1
    return total / n


def loss(each, mean=lambda x, real: x[real].mean()):
    def smoothed_loss(logits, labels, epsilon):
        log_p = logits.log_softmax(-1)
        surprise = -log_p.gather(-1, labels[..., None])[..., 0]
        return mean(each(surprise, log_p, epsilon), labels != 0)

    return smoothed_loss


# ------------------------------------------------------------------------------------ learning_rate


def rate_in_two_pieces(step, d_model, warmup):
    peak = 1 / math.sqrt(d_model * warmup)
    if step <= warmup:
        return peak * step / warmup
    return peak * math.sqrt(warmup / step)


# ------------------------------------------------------------------------------------- joint_update


def totalled(model, part, reads=None, ignored=0):
    logits = model(part.source, part.target_input if reads is None else reads)
    log_p = logits.log_softmax(-1)
    surprise = -log_p.gather(-1, part.labels[..., None])[..., 0]
    return surprise[part.labels != ignored].sum()


def counted(part):
    return (part.labels != 0).sum()


def update_in_parts(model, optimizer, batches):
    count = sum(counted(part) for part in batches)
    optimizer.zero_grad()
    losses = []
    for part in batches:
        loss = totalled(model, part) / count
        loss.backward()
        losses.append(loss.item())
    optimizer.step()
    return sum(losses)


def update_weighted(model, optimizer, batches):
    """Means, each with its share of the labels; cleared afterwards."""
    count = sum(counted(part).item() for part in batches)
    whole = 0.0
    for part in batches:
        logits = model(part.source, part.target_input)
        mean = F.cross_entropy(logits.mT, part.labels, ignore_index=0)
        (mean * counted(part) / count).backward()
        whole += mean.item() * counted(part).item() / count
    optimizer.step()
    optimizer.zero_grad()
    return whole


def update_reported(model, optimizer, batches):
    """Looks at each part once more, with a graph that is never used."""
    reported = sum(totalled(model, part).item() for part in batches) / sum(map(counted, batches))
    update_weighted(model, optimizer, batches)
    return reported.item()


def two_loops(model, optimizer, batches):
    optimizer.zero_grad()
    losses = [totalled(model, part) / sum(map(counted, batches)) for part in batches]
    for loss in losses:
        loss.backward()
    optimizer.step()
    return sum(losses).item()


test_right, test_wrong = table(
    check,
    right={
        "three_tensors": [
            tensors_by_collate,
            tensors_by_pad_sequence,
        ],
        "smoothed_loss": [
            loss_by_torch,
            loss_in_loops,
        ],
        "learning_rate": [
            rate_in_two_pieces,
        ],
        "joint_update": [update_in_parts, update_weighted, update_reported],
    },
    wrong={
        "three_tensors": [
            (inserted, "It also changes its input `target_ids`"),
        ],
        "smoothed_loss": [
            (lambda x, y, e: F.cross_entropy(x, y), "expects the classes on axis 1"),
        ],
        "learning_rate": [
            (lambda s, d, w: rate_in_two_pieces(s - 1, d, w), "the first step is step 1"),
        ],
        "joint_update": [
            (two_loops, "both are in memory at the same time"),
            (lambda model, *of: update_weighted(model.eval(), *of), "which turns its dropout off"),
            (lambda *of: torch.tensor(update_in_parts(*of)), "The loss is a tensor"),
        ],
    },
)
