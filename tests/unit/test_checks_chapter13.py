"""Chapter 13's checkers: answers that real learners give, each diagnosed by name."""

import math

import pytest
import torch
import torch.nn.functional as F

from transformer_lib.checks.chapter13 import check


def verdict(capsys, function, name):
    function.__name__ = name
    result = check(function)
    capsys.readouterr()
    return result


# --------------------------------------------------------------------------------- smoothed_loss


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


def loss_from_one_hot(logits, labels, epsilon):
    v = logits.shape[-1]
    goal = F.one_hot(labels, v) * (1 - epsilon) + epsilon / v
    loss = torch.einsum("btv,btv->bt", goal, -F.log_softmax(logits, dim=2))
    keep = (labels > 0).float()
    return torch.sum(loss * keep) / torch.sum(keep)


@pytest.mark.parametrize("function", [loss_by_torch, loss_in_loops, loss_from_one_hot])
def test_right_losses_pass(capsys, function):
    assert verdict(capsys, function, "smoothed_loss")


def flat(logits, labels):
    return logits.flatten(0, 1), labels.flatten()


def parts(logits, labels):
    log_p = logits.log_softmax(-1)
    return log_p, -log_p.gather(-1, labels[..., None])[..., 0], labels != 0


def with_padding(logits, labels, epsilon):
    return F.cross_entropy(*flat(logits, labels), label_smoothing=epsilon)


def divided_by_all(logits, labels, epsilon):
    loss = F.cross_entropy(
        *flat(logits, labels), label_smoothing=epsilon, ignore_index=0, reduction="none"
    )
    return loss.mean()


def row_by_row(logits, labels, epsilon):
    rows = [
        F.cross_entropy(row, answers, ignore_index=0, label_smoothing=epsilon)
        for row, answers in zip(logits, labels, strict=True)
    ]
    return sum(rows) / len(rows)


def not_divided(logits, labels, epsilon):
    return F.cross_entropy(
        *flat(logits, labels), ignore_index=0, label_smoothing=epsilon, reduction="sum"
    )


def over_the_others(logits, labels, epsilon):
    v = logits.size(-1)
    goal = torch.full_like(logits, epsilon / (v - 1)).scatter(-1, labels[..., None], 1 - epsilon)
    loss = -(goal * logits.log_softmax(-1)).sum(-1)
    return loss[labels != 0].mean()


def not_shared(logits, labels, epsilon):
    log_p, surprise, real = parts(logits, labels)
    return ((1 - epsilon) * surprise + epsilon * -log_p.sum(-1))[real].mean()


def more_than_one(logits, labels, epsilon):
    log_p, surprise, real = parts(logits, labels)
    return (surprise + epsilon * -log_p.mean(-1))[real].mean()


def exchanged(logits, labels, epsilon):
    log_p, surprise, real = parts(logits, labels)
    return (epsilon * surprise + (1 - epsilon) * -log_p.mean(-1))[real].mean()


def no_smoothing(logits, labels, epsilon):
    return F.cross_entropy(*flat(logits, labels), ignore_index=0)


def no_minus(logits, labels, epsilon):
    return -loss_by_torch(logits, labels, epsilon)


def softmax_twice(logits, labels, epsilon):
    return loss_by_torch(logits.softmax(-1), labels, epsilon)


def no_softmax(logits, labels, epsilon):
    return F.nll_loss(*flat(logits, labels), ignore_index=0) * (1 - epsilon) - epsilon * (
        logits.mean(-1)[labels != 0].mean()
    )


def log_of_softmax(logits, labels, epsilon):
    log_p = logits.softmax(-1).log()
    surprise = -log_p.gather(-1, labels[..., None])[..., 0]
    return ((1 - epsilon) * surprise - epsilon * log_p.mean(-1))[labels != 0].mean()


def log_of_softmax_plus(logits, labels, epsilon):
    log_p = (logits.softmax(-1) + 1e-9).log()
    surprise = -log_p.gather(-1, labels[..., None])[..., 0]
    return ((1 - epsilon) * surprise - epsilon * log_p.mean(-1))[labels != 0].mean()


def over_positions(logits, labels, epsilon):
    log_p = F.log_softmax(logits, dim=1)
    surprise = -log_p.gather(-1, labels[..., None])[..., 0]
    return ((1 - epsilon) * surprise - epsilon * log_p.mean(-1))[labels != 0].mean()


def in_bits(logits, labels, epsilon):
    return loss_by_torch(logits, labels, epsilon) / math.log(2)


def without_pad(logits, labels, epsilon):
    v = logits.size(-1)
    goal = torch.full_like(logits, epsilon / (v - 2)).scatter(-1, labels[..., None], 1 - epsilon)
    goal[..., 0] = 0
    loss = -(goal * logits.log_softmax(-1)).sum(-1)
    return loss[labels != 0].mean()


def wrong_sign(logits, labels, epsilon):
    log_p, surprise, real = parts(logits, labels)
    return ((1 - epsilon) * surprise + epsilon * log_p.mean(-1))[real].mean()


def one_term(logits, labels, epsilon):
    return (1 - epsilon) * loss_by_torch(logits, labels, 0.0)


def per_sentence(logits, labels, epsilon):
    return not_divided(logits, labels, epsilon) / labels.shape[0]


def not_averaged(logits, labels, epsilon):
    log_p, surprise, real = parts(logits, labels)
    return ((1 - epsilon) * surprise - epsilon * log_p.mean(-1)) * real


def without_end(logits, labels, epsilon):
    log_p, surprise, _ = parts(logits, labels)
    return ((1 - epsilon) * surprise - epsilon * log_p.mean(-1))[labels > 2].mean()


@pytest.mark.parametrize(
    ("function", "diagnosis"),
    [
        (with_padding, "padding is counted as if it were a label"),
        (divided_by_all, "the number it is divided by does not"),
        (row_by_row, "each row is averaged by itself"),
        (not_divided, "not divided by the number of real labels"),
        (over_the_others, "epsilon is spread over the wrong ids alone"),
        (not_shared, "not divided by the size of the vocabulary"),
        (more_than_one, "1 and epsilon together are more than 1"),
        (exchanged, "epsilon and 1 - epsilon have changed places"),
        (no_smoothing, "epsilon is not used"),
        (no_minus, "the loss has lost its minus sign"),
        (softmax_twice, "the logits go through softmax twice"),
        (no_softmax, "log_softmax is missing"),
        (log_of_softmax, "a probability underflows to 0"),
        (log_of_softmax_plus, "a small number is added before the logarithm"),
        (over_positions, "softmax runs over the positions"),
        (in_bits, "the logarithm has base 2"),
        (without_pad, "all ids but the right one and <pad>"),
        (wrong_sign, "the second term has the wrong sign"),
        (one_term, "the second term is missing"),
        (per_sentence, "divided by the number of sentences"),
        (not_averaged, "still to be averaged"),
        (without_end, "<eos> is left out like padding"),
    ],
)
def test_wrong_losses_are_told_apart(capsys, function, diagnosis):
    result = verdict(capsys, function, "smoothed_loss")
    assert not result
    assert diagnosis in " ".join(result.report.split())


# --------------------------------------------------------------------------------- learning_rate


def rate_in_two_pieces(step, d_model, warmup):
    peak = 1 / math.sqrt(d_model * warmup)
    if step <= warmup:
        return peak * step / warmup
    return peak * math.sqrt(warmup / step)


def rate_as_a_tensor(step, d_model, warmup):
    terms = torch.tensor([step**-0.5, step / warmup**1.5], dtype=torch.float64)
    return terms.min() / d_model**0.5


@pytest.mark.parametrize("function", [rate_in_two_pieces, rate_as_a_tensor])
def test_right_rates_pass(capsys, function):
    assert verdict(capsys, function, "learning_rate")


@pytest.mark.parametrize(
    ("function", "diagnosis"),
    [
        (lambda s, d, w: d**-0.5 * max(s**-0.5, s * w**-1.5), "min where you have max"),
        (lambda s, d, w: (d * s) ** -0.5, "there is no climb"),
        (lambda s, d, w: s / (d**0.5 * w**1.5), "the descent is missing"),
        (lambda s, d, w: min(s / w, 1) / (d * w) ** 0.5, "stays at its peak"),
        (lambda s, d, w: min(s**-0.5, s * w**-1.5), "d_model is not used"),
        (lambda s, d, w: d**0.5 * min(s**-0.5, s * w**-1.5), "d_model has the exponent 0.5"),
        (lambda s, d, w: min(s**-0.5, s * w**-1.5) / d, "d_model has the exponent -1"),
        (lambda s, d, w: min(s**-0.5, s / w**0.5) / d**0.5, "warmup has the exponent -0.5"),
        (lambda s, d, w: min(s**-0.5, s * w**1.5) / d**0.5, "its exponent has lost its minus sign"),
        (lambda s, d, w: min(s**-0.5, s / w) / d**0.5, "the climb is a share of the warm-up"),
        (lambda s, d, w: min(s / w, (w / s) ** 0.5) / d**0.5, "its highest value is d_model^-0.5"),
        (lambda s, d, w: rate_in_two_pieces(s + 1, d, w), "the steps are counted from 0"),
        (lambda s, d, w: d**-0.5 * min(1 / s, s * w**-1.5), "in proportion to the step"),
        (lambda s, d, w: min((d * s) ** -0.5, s * w**-1.5), "in one of the two terms only"),
        (lambda s, d, w: d**-0.5 * min(s**-1 / 2, s * w**-1.5), "a power binds before"),
        (lambda s, d, w: 512**-0.5 * min(s**-0.5, s * 4000**-1.5), "numbers of the paper's base"),
    ],
)
def test_wrong_rates_are_told_apart(capsys, function, diagnosis):
    result = verdict(capsys, function, "learning_rate")
    assert not result
    assert diagnosis in " ".join(result.report.split())
