"""Chapter 17's checkers: right answers in every form, and what is said of wrong ones."""

import torch
from torch.utils.flop_counter import FlopCounterMode

from tests.unit.judging import table
from transformer_lib.checks.chapter17 import check
from transformer_lib.config import ModelConfig
from transformer_lib.models import DecoderOnly

# ------------------------------------------------------------------------------------- gpt_flops


def in_loops(n, d_model, d_ff, n_layers, vocab_size):
    total = 0
    for _ in range(3):  # forward, and two products back
        for _ in range(n_layers):
            total += 4 * 2 * n * d_model * d_model
            total += 2 * n * d_model * d_ff + 2 * n * d_ff * d_model
            total += 2 * n * n * d_model + 2 * n * n * d_model
        total += 2 * n * d_model * vocab_size
    return total


def flops(each=6, layer=lambda d, f: 4 * d * d + 2 * d * f, tables=12):
    return lambda n, d, f, k, v: each * n * (k * layer(d, f) + v * d) + tables * k * d * n * n


def test_the_count_is_what_a_counter_sees():
    config = ModelConfig(vocab_size=19, d_model=6, n_heads=2, n_layers=3, d_ff=14, max_len=1024)
    with torch.device("meta"), FlopCounterMode(display=False) as counter:
        DecoderOnly(config)(torch.ones(1, 5, dtype=torch.int64)).sum().backward()
    assert counter.get_total_flops() == in_loops(5, 6, 14, 3, 19)


# ------------------------------------------------------------------------------ attend_in_blocks


def joined_at_the_end(query, key, value, size):
    """Each block's answer and the logarithm of its sum are kept: one number a block."""
    logs, answers = [], []
    for k, v in zip(key.split(size, -2), value.split(size, -2), strict=True):
        scores = query @ k.mT / query.shape[-1] ** 0.5
        logs.append(scores.logsumexp(-1))
        answers.append(scores.softmax(-1) @ v)
    return (torch.stack(logs).softmax(0)[..., None] * torch.stack(answers)).sum(0)


def sum_as_one_more_column(query, key, value, size):
    ones = torch.cat([value, torch.ones_like(value[..., :1])], -1)
    top, acc = torch.tensor(-torch.inf), 0
    for k, w in zip(key.split(size, -2), ones.split(size, -2), strict=True):
        scores = query @ k.mT / query.shape[-1] ** 0.5
        new = torch.maximum(top.to(scores.dtype), scores.amax(-1, keepdim=True))
        acc, top = (top - new).exp() * acc + (scores - new).exp() @ w, new
    return acc[..., :-1] / acc[..., -1:]


def attend(
    blocks=lambda x, size: x.split(size, dim=-2),
    largest=lambda scores: scores.amax(dim=-1, keepdim=True),
    for_total=lambda shrink: shrink,
    for_mixture=lambda shrink: shrink,
):
    """The loop of the page."""

    def attend_in_blocks(query, key, value, size):
        top, total, mixture = -torch.inf, 0, 0
        for k, v in zip(blocks(key, size), blocks(value, size), strict=True):
            scores = query @ k.mT / query.shape[-1] ** 0.5
            new_top = largest(scores).clamp(min=top)
            shrink, weights = (top - new_top).exp(), (scores - new_top).exp()
            total = for_total(shrink) * total + weights.sum(dim=-1, keepdim=True)
            mixture = for_mixture(shrink) * mixture + weights @ v
            top = new_top
        return mixture / total

    return attend_in_blocks


def at_once(query, key, value, size):
    scores = torch.einsum("...td,...sd->...ts", query, key) / query.shape[-1] ** 0.5
    parts = scores.softmax(-1).split(size, dim=-1)
    return sum(w @ v for w, v in zip(parts, value.split(size, -2), strict=True))


def whole_blocks(x, size):
    return [x[..., i * size : (i + 1) * size, :] for i in range(max(1, x.shape[-2] // size))]


# ---------------------------------------------------------------------------------- loss_weights


def by_torch(counts):
    total = sum(torch.tensor(own).sum() for own in counts)
    return [(torch.tensor(own) / total * len(counts)).tolist() for own in counts]


def weights(weigh=lambda n, own, counts, total: n * len(counts) / total):
    def loss_weights(counts):
        total = 0
        for own in counts:
            total += sum(own)
        return [[weigh(n, own, counts, total) for n in own] for own in counts]

    return loss_weights


test_right, test_wrong = table(
    check,
    right={
        "gpt_flops": [in_loops, flops(6.0)],
        "attend_in_blocks": [
            joined_at_the_end,
            sum_as_one_more_column,
            attend(),
        ],
        "loss_weights": [by_torch, weights()],
    },
    wrong={
        "gpt_flops": [
            (flops(layer=lambda d, f: 12 * d * d), "with an inner width of 0"),
        ],
        "attend_in_blocks": [
            (attend(lambda x, size: x.chunk(size, dim=-2)), "The scores of 4 keys are computed at"),
            (attend(whole_blocks), "the last block may be smaller"),
            (attend(largest=torch.max), "all lie far below those of another query"),
            (at_once, "A table of all queries by all keys, 7 by 11, is written down."),
        ],
        "loss_weights": [
            (weights(lambda n, own, counts, total: n), "a single part on a single rank needs no"),
        ],
    },
)
