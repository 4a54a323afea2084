"""The exercise `smoothed_loss`: what it asks for, and how its answers go wrong."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from transformer_lib.checks.core import Case, Exercise
from transformer_lib.checks.inputs import random_tensor


def _even_mix(surprise: Tensor, log_p: Tensor, epsilon: float) -> Tensor:
    return (1 - epsilon) * surprise - epsilon * log_p.mean(dim=-1)


def _per_label(loss: Tensor, real: Tensor) -> Tensor:
    return loss[real].sum() / real.sum()


def _smoothed_loss(
    logits: Tensor,
    labels: Tensor,
    epsilon: float,
    *,
    log_p: Callable[[Tensor], Tensor] = lambda logits: logits.log_softmax(-1),
    mix: Callable[[Tensor, Tensor, float], Tensor] = _even_mix,
    reduce: Callable[[Tensor, Tensor], Tensor] = _per_label,
) -> Tensor:
    logarithms = log_p(logits)
    surprise = -logarithms.gather(-1, labels.unsqueeze(-1)).squeeze(-1)
    return reduce(mix(surprise, logarithms, epsilon), labels != 0)


def _left_out_up_to(last: int) -> Callable[..., Tensor]:
    def smoothed_loss(logits: Tensor, labels: Tensor, epsilon: float) -> Tensor:
        def reduce(loss: Tensor, _: Tensor) -> Tensor:
            return _per_label(loss, labels > last)

        return _smoothed_loss(logits, labels, epsilon, reduce=reduce)

    return smoothed_loss


def _wrong(**part: Callable) -> Callable[..., Tensor]:
    def smoothed_loss(logits: Tensor, labels: Tensor, epsilon: float) -> Tensor:
        return _smoothed_loss(logits, labels, epsilon, **part)

    return smoothed_loss


def _others_only(surprise: Tensor, log_p: Tensor, epsilon: float) -> Tensor:
    others = -log_p.sum(dim=-1) - surprise
    return (1 - epsilon) * surprise + epsilon * others / (log_p.size(-1) - 1)


def _divergence(surprise: Tensor, log_p: Tensor, epsilon: float) -> Tensor:
    """What `F.kl_div` gives for a smoothed label: cross-entropy less the label's own entropy."""
    v = log_p.size(-1)
    right, wrong = torch.tensor(1 - epsilon + epsilon / v), torch.tensor(epsilon / v)
    entropy = -torch.xlogy(right, right) - (v - 1) * torch.xlogy(wrong, wrong)
    return _even_mix(surprise, log_p, epsilon) - entropy


def _mean_of_rows(loss: Tensor, real: Tensor) -> Tensor:
    return ((loss * real).sum(-1) / real.sum(-1)).mean()


_LABELS = torch.tensor([[4, 3, 2], [5, 2, 0]])

SMOOTHED_LOSS = Exercise(
    name="smoothed_loss",
    reference=lambda logits, labels, epsilon: _smoothed_loss(logits, labels, epsilon),
    cases=[
        Case("one label, no smoothing", random_tensor(1, 1, 4), torch.tensor([[3]]), 0.0),
        Case("one label, smoothing 0.1", random_tensor(1, 1, 4), torch.tensor([[3]]), 0.1),
        Case(
            "two labels, none of them padding", random_tensor(1, 2, 7), torch.tensor([[4, 2]]), 0.1
        ),
        Case(
            "two rows, the second one padded",
            torch.tensor([[[1.0, 0, 2], [0, 3, 1]], [[2, 1, -1], [1, 1, 0]]]),
            torch.tensor([[2, 1], [2, 0]]),
            0.1,
        ),
        Case("rows of three, one label missing", random_tensor(2, 3, 7, seed=1), _LABELS, 0.2),
        Case(
            "as many labels as ids",
            random_tensor(2, 3, 3),
            torch.tensor([[1, 2, 0], [2, 0, 0]]),
            0.1,
        ),
        Case("a model that is very sure", 300 * random_tensor(2, 3, 7, seed=2), _LABELS, 0.1),
    ],
    mistakes={
        "padding is counted as if it were a label": [
            _wrong(reduce=lambda loss, real: loss.mean()),
        ],
        "the sum leaves padding out, but the number it is divided by does not": [
            _wrong(reduce=lambda loss, real: (loss * real).sum() / real.numel()),
            _wrong(reduce=lambda loss, real: (loss * real).mean()),
        ],
        "padding is counted in the sum, and not in the number it is divided by": [
            _wrong(reduce=lambda loss, real: loss.sum() / real.sum()),
        ],
        "each row is averaged by itself: a label in a short row then counts for more": [
            _wrong(reduce=_mean_of_rows),
        ],
        "the sum is divided by the number of places in a row and not by that of all real labels": [
            _wrong(reduce=lambda loss, real: loss[real].sum() / real.size(1)),
        ],
        "you return the perplexity: the exercise asks for its logarithm, the loss": [
            _wrong(reduce=lambda loss, real: _per_label(loss, real).exp()),
            lambda logits, labels, epsilon: _smoothed_loss(logits, labels, 0.0).exp(),
        ],
        "labels are shifted once more: they already stand one place ahead of what the decoder "
        "reads": [
            lambda logits, labels, epsilon: _smoothed_loss(logits[:, :-1], labels[:, 1:], epsilon),
            lambda logits, labels, epsilon: _smoothed_loss(logits[:, 1:], labels[:, :-1], epsilon),
        ],
        "the KL divergence is taken and not the cross-entropy: it is smaller by the surprise that "
        "is in the smoothed labels themselves": [
            _wrong(mix=_divergence),
            _wrong(mix=_divergence, reduce=lambda loss, real: (loss * real).sum()),
            _wrong(mix=_divergence, reduce=lambda loss, real: (loss * real).sum() / len(loss)),
            _wrong(mix=_divergence, reduce=lambda loss, real: loss.mean()),
        ],
        "the surprises are added up and not divided by the number of real labels": [
            _wrong(reduce=lambda loss, real: loss[real].sum()),
        ],
        "epsilon is spread over the wrong ids alone: in this chapter's formula the right id gets "
        "its share too": _wrong(mix=_others_only),
        "epsilon is spread over all ids but the right one and <pad>: in this chapter's formula it "
        "goes to all V": [
            _wrong(
                mix=lambda s, log_p, e: (
                    (1 - e) * s + e * (-log_p.sum(-1) - s + log_p[..., 0]) / (log_p.size(-1) - 2)
                )
            ),
        ],
        "the second term has the wrong sign: it is the mean of minus the logarithms": [
            _wrong(mix=lambda s, log_p, e: (1 - e) * s + e * log_p.mean(-1)),
        ],
        "the second term is missing": _wrong(mix=lambda s, log_p, e: (1 - e) * s),
        "the sum is divided by the number of sentences and not of labels": [
            _wrong(reduce=lambda loss, real: loss[real].sum() / len(loss)),
        ],
        "you return a loss for each label: they are still to be averaged": [
            _wrong(reduce=lambda loss, real: loss),
            _wrong(reduce=lambda loss, real: loss * real),
            _wrong(reduce=lambda loss, real: loss[real]),
        ],
        "<eos> is left out like padding: that the text ends is to be learned too": [
            _left_out_up_to(2),
        ],
        "the label 1 is left out like padding: only 0 is padding": [
            _left_out_up_to(1),
        ],
        "the right id gets 1 - epsilon without its share, epsilon / V: what the ids get is less "
        "than 1 together": [
            _wrong(mix=lambda s, log_p, e: (1 - e) * s - e * (log_p.sum(-1) + s) / log_p.size(-1)),
        ],
        "the second sum is not divided by the size of the vocabulary": [
            _wrong(mix=lambda s, log_p, e: (1 - e) * s - e * log_p.sum(-1)),
        ],
        "the right id keeps its full weight: 1 and epsilon together are more than 1": [
            _wrong(mix=lambda s, log_p, e: s - e * log_p.mean(-1)),
        ],
        "epsilon and 1 - epsilon have changed places": [
            _wrong(mix=lambda s, log_p, e: e * s - (1 - e) * log_p.mean(-1)),
        ],
        "epsilon is not used": _wrong(mix=lambda s, log_p, e: s),
        "epsilon is not used: the paper's 0.1 stands in its place": [
            lambda logits, labels, epsilon: _smoothed_loss(logits, labels, 0.1),
        ],
        "the loss has lost its minus sign": [
            _wrong(reduce=lambda loss, real: -_per_label(loss, real)),
        ],
        "the logits go through softmax twice": [
            _wrong(log_p=lambda x: x.softmax(-1).log_softmax(-1)),
        ],
        "the logits are taken for logarithms of probabilities: log_softmax is missing": [
            _wrong(log_p=lambda x: x),
        ],
        "probabilities are used where their logarithms should be": [
            _wrong(log_p=lambda x: x.softmax(-1)),
        ],
        "a probability underflows to 0 and its logarithm is -inf: log_softmax does both in one": [
            _wrong(log_p=lambda x: x.softmax(-1).log()),
        ],
        "a small number is added before the logarithm, which hides how wrong the model is": [
            _wrong(log_p=lambda x, tiny=tiny: (x.softmax(-1) + tiny).log())
            for tiny in (1e-12, 1e-10, 1e-9, 1e-8, 1e-7, 1e-6)
        ]
        + [
            _wrong(log_p=lambda x, tiny=tiny: x.softmax(-1).clamp(min=tiny).log())
            for tiny in (1e-12, 1e-10, 1e-9, 1e-8, 1e-7, 1e-6)
        ],
        "softmax runs over the positions and not over the vocabulary": [
            _wrong(log_p=lambda x: x.log_softmax(1)),
            _wrong(log_p=lambda x: x.log_softmax(1).log_softmax(-1)),
            _wrong(log_p=lambda x: x.softmax(1).log_softmax(-1)),
        ],
        "softmax runs over the batch and not over the vocabulary: its `dim` is -1": [
            _wrong(log_p=lambda x: x.log_softmax(0)),
        ],
        "the logarithm has base 2: the loss is in bits, not in nats": [
            _wrong(log_p=lambda x: x.log_softmax(-1) / torch.tensor(2.0).log()),
        ],
    },
    keeps=["gradient"],
    section="Should a model ever be certain?",
)
