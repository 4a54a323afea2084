"""Chapter 17's checkers: answers that real learners give, each diagnosed by name."""

import math

import pytest
import torch
from judging import judges

from transformer_lib.checks.chapter17 import check
from transformer_lib.config import ModelConfig
from transformer_lib.models import DecoderOnly

pytestmark = pytest.mark.slow

_, passes, is_told = judges(check)


# ------------------------------------------------------------------------------------- gpt_flops


def flops_in_loops(n, d_model, d_ff, n_layers, vocab_size):
    total = 0
    for _ in range(3):  # forward, and two products back
        for _ in range(n_layers):
            total += 4 * 2 * n * d_model * d_model
            total += 2 * n * d_model * d_ff + 2 * n * d_ff * d_model
            total += 2 * n * n * d_model + 2 * n * n * d_model
        total += 2 * n * d_model * vocab_size
    return total


def flops_as_float(n, d_model, d_ff, n_layers, vocab_size):
    weights = n_layers * (4 * d_model**2 + 2.0 * d_model * d_ff) + vocab_size * d_model
    return float(6 * n * weights + 12 * n_layers * n**2 * d_model)


@pytest.mark.parametrize("function", [flops_in_loops, flops_as_float])
def test_right_counts_pass(capsys, function):
    passes(capsys, function, "gpt_flops")


def test_the_count_is_what_a_counter_sees(capsys):
    from torch.utils.flop_counter import FlopCounterMode

    def counted(n, d_model, d_ff, n_layers, vocab_size):
        heads = 2 if d_model % 2 == 0 else 1
        config = ModelConfig(
            vocab_size=max(vocab_size, 3), d_model=d_model + d_model % 2, n_heads=heads,
            n_layers=n_layers, d_ff=d_ff, max_len=1024,
        )  # fmt: skip
        with torch.device("meta"), FlopCounterMode(display=False) as counter:
            DecoderOnly(config)(torch.ones(1, n, dtype=torch.int64)).sum().backward()
        return counter.get_total_flops()

    assert counted(5, 6, 14, 3, 19) == flops_in_loops(5, 6, 14, 3, 19)


FLOPS = {
    "only the way forward": lambda n, d, f, k, v: (
        2 * n * (k * (4 * d * d + 2 * d * f) + v * d) + 4 * k * d * n * n
    ),
    "two products are counted": lambda n, d, f, k, v: (
        4 * n * (k * (4 * d * d + 2 * d * f) + v * d) + 8 * k * d * n * n
    ),
    "a multiplication and its addition": lambda n, d, f, k, v: (
        3 * n * (k * (4 * d * d + 2 * d * f) + v * d) + 6 * k * d * n * n
    ),
    "attention's scores and mixture only once": lambda n, d, f, k, v: (
        6 * n * (k * (4 * d * d + 2 * d * f) + v * d) + 4 * k * d * n * n
    ),
    "half of attention's n by n": lambda n, d, f, k, v: (
        6 * n * (k * (4 * d * d + 2 * d * f) + v * d) + 6 * k * d * n * n
    ),
    "scores and mixture are missing": lambda n, d, f, k, v: (
        6 * n * (k * (4 * d * d + 2 * d * f) + v * d)
    ),
    "grows with n where": lambda n, d, f, k, v: (
        6 * n * (k * (4 * d * d + 2 * d * f) + v * d) + 12 * k * d * n
    ),
    "for one layer only": lambda n, d, f, k, v: (
        6 * n * (k * (4 * d * d + 2 * d * f) + v * d) + 12 * d * n * n
    ),
    "have lost d_model": lambda n, d, f, k, v: (
        6 * n * (k * (4 * d * d + 2 * d * f) + v * d) + 12 * k * n * n
    ),
    "n by n is counted twice": lambda n, d, f, k, v: (
        6 * n * (k * (4 * d * d + 2 * d * f) + v * d) + 24 * k * d * n * n
    ),
    "the square stands at d_model": lambda n, d, f, k, v: (
        6 * n * (k * (4 * d * d + 2 * d * f) + v * d) + 12 * k * d * d * n
    ),
    "the logits, and attention's n by n, are": lambda n, d, f, k, v: (
        6 * n * k * (4 * d * d + 2 * d * f)
    ),
    "matrices are counted for one layer only": lambda n, d, f, k, v: (
        6 * n * (4 * d * d + 2 * d * f + v * d) + 12 * k * d * n * n
    ),
    "not six or eight": lambda n, d, f, k, v: (
        6 * n * (k * (8 * d * d + 2 * d * f) + v * d) + 24 * k * d * n * n
    ),
    "three attentions": lambda n, d, f, k, v: (
        6 * n * (k * (4 * d * d + 2 * d * f) + v * d) + 36 * k * d * n * n
    ),
    "cross-attention is counted": lambda n, d, f, k, v: (
        6 * n * (k * (6 * d * d + 2 * d * f) + v * d) + 12 * k * d * n * n
    ),
    "the whole translator": lambda n, d, f, k, v: (
        6 * k * (6 * d * d + 2 * d * f) * 2 * n + 6 * v * d * n + 36 * k * d * n * n
    ),
    "output projection": lambda n, d, f, k, v: (
        6 * n * (k * (3 * d * d + 2 * d * f) + v * d) + 12 * k * d * n * n
    ),
    "it has two, up and down": lambda n, d, f, k, v: (
        6 * n * (k * (4 * d * d + d * f) + v * d) + 12 * k * d * n * n
    ),
    "taken as 4 d_model": lambda n, d, f, k, v: (
        6 * n * (k * 12 * d * d + v * d) + 12 * k * d * n * n
    ),
    "the logits are missing": lambda n, d, f, k, v: (
        6 * n * k * (4 * d * d + 2 * d * f) + 12 * k * d * n * n
    ),
    "for one token of the text": lambda n, d, f, k, v: (
        6 * n * k * (4 * d * d + 2 * d * f) + 6 * v * d + 12 * k * d * n * n
    ),
    "looking up the embedding": lambda n, d, f, k, v: (
        6 * n * (k * (4 * d * d + 2 * d * f) + 2 * v * d) + 12 * k * d * n * n
    ),
    "biases or norms": lambda n, d, f, k, v: (
        6 * n * (k * (4 * d * d + 2 * d * f + 9 * d + f) + v * d) + 12 * k * d * n * n
    ),
    "the work of one token": lambda n, d, f, k, v: (
        6 * (k * (4 * d * d + 2 * d * f) + v * d) + 12 * k * d * n
    ),
}


@pytest.mark.parametrize("what", FLOPS)
def test_wrong_counts_are_named(capsys, what):
    is_told(capsys, FLOPS[what], "gpt_flops", what)


# ------------------------------------------------------------------------------ attend_in_blocks


def blocks_of_one(query, key, value, size):
    """A loop over single keys: fewer weights at once are welcome."""
    top = torch.full((*query.shape[:-1], 1), -torch.inf, dtype=query.dtype)
    total, mixture = torch.zeros_like(top), 0.0
    for i in range(key.shape[-2]):
        k, v = key[..., i : i + 1, :], value[..., i : i + 1, :]
        score = torch.einsum("...td,...sd->...ts", query, k) / math.sqrt(key.shape[-1])
        new = torch.maximum(top, score)
        total = total * (top - new).exp() + (score - new).exp()
        mixture = mixture * (top - new).exp() + (score - new).exp() * v
        top = new
    return mixture / total


def normalized_on_the_way(query, key, value, size):
    """The mixture is an average at every moment, as one version of the algorithm has it."""
    log_total, out = torch.tensor(-torch.inf), 0.0
    for k, v in zip(key.split(size, -2), value.split(size, -2), strict=True):
        scores = (query / query.shape[-1] ** 0.5) @ k.transpose(-2, -1)
        own = scores.logsumexp(-1, keepdim=True)
        both = torch.logaddexp(log_total.to(own.dtype), own)
        out = out * (log_total - both).exp() + (scores - both).exp() @ v
        log_total = both
    return out


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


def mixture_and_sum_in_one(query, key, value, size):
    shape = (*query.shape[:-1], value.shape[-1] + 1)
    top, acc = torch.tensor(-torch.inf), query.new_zeros(shape)
    for k, v in zip(key.split(size, -2), value.split(size, -2), strict=True):
        scores = query @ k.mT / query.shape[-1] ** 0.5
        new = torch.maximum(top.to(scores.dtype), scores.amax(-1, keepdim=True))
        weights = (scores - new).exp()
        own = torch.cat([weights @ v, weights.sum(-1, keepdim=True)], -1)
        acc, top = (top - new).exp() * acc + own, new
    return acc[..., :-1] / acc[..., -1:]


def keys_from_the_front(query, key, value, size):
    """What is left of the keys gets shorter."""
    log_total, out = torch.tensor(-torch.inf), 0.0
    while key.shape[-2]:
        scores = torch.matmul(key[..., :size, :], query.mT).mT / query.shape[-1] ** 0.5
        own = scores.logsumexp(-1, keepdim=True)
        both = torch.logaddexp(log_total.to(own.dtype), own)
        out = out * (log_total - both).exp() + (scores - both).exp() @ value[..., :size, :]
        log_total, key, value = both, key[..., size:, :], value[..., size:, :]
    return out


@pytest.mark.parametrize(
    "function",
    [
        blocks_of_one,
        normalized_on_the_way,
        joined_at_the_end,
        sum_as_one_more_column,
        mixture_and_sum_in_one,
        keys_from_the_front,
    ],
)
def test_right_blocks_pass(capsys, function):
    passes(capsys, function, "attend_in_blocks")


def attend(sum_too=True, mixture_too=True, scale=True, divide=True, inverse=False, running=True):
    def attend_in_blocks(query, key, value, size):
        top, total, mixture = torch.tensor(-torch.inf), 0, 0
        for i in range(0, key.shape[-2], size):
            scores = query @ key[..., i : i + size, :].mT
            scores = scores / query.shape[-1] ** 0.5 if scale else scores
            block = scores.amax(-1, keepdim=True)
            new = torch.maximum(top.to(block.dtype), block) if running else block
            shrink = ((new - top) if inverse else (top - new)).exp()
            shrink = shrink if i else torch.zeros_like(shrink)
            weights = (scores - new).exp()
            total = total * (shrink if sum_too else 1) + weights.sum(-1, keepdim=True)
            mixture = (
                mixture * (shrink if mixture_too else 1) + weights @ value[..., i : i + size, :]
            )
            top = new
        return mixture / total if divide else mixture

    return attend_in_blocks


def one_row_of_numbers(query, key, value, size):
    """The page's own cell, carried over: one largest score and one sum for all queries."""
    top, total, mixture = torch.tensor(-torch.inf), 0, 0
    for k, v in zip(key.split(size, -2), value.split(size, -2), strict=True):
        scores = query @ k.mT / query.shape[-1] ** 0.5
        new = torch.maximum(top.to(scores.dtype), scores.max())
        total = (top - new).exp() * total + (scores - new).exp().sum()
        mixture = (top - new).exp() * mixture + (scores - new).exp() @ v
        top = new
    return mixture / total


def never_moves_the_top(query, key, value, size):
    top, total, mixture = torch.tensor(-torch.inf), 0, 0
    for k, v in zip(key.split(size, -2), value.split(size, -2), strict=True):
        scores = query @ k.mT / query.shape[-1] ** 0.5
        new = torch.maximum(top.to(scores.dtype), scores.amax(-1, keepdim=True))
        total = (top - new).exp() * total + (scores - new).exp().sum(-1, keepdim=True)
        mixture = (top - new).exp() * mixture + (scores - new).exp() @ v
    return mixture / total


def divided_in_every_block(query, key, value, size):
    top, total, out = torch.tensor(-torch.inf), 0, 0
    for k, v in zip(key.split(size, -2), value.split(size, -2), strict=True):
        scores = query @ k.mT / query.shape[-1] ** 0.5
        new = torch.maximum(top.to(scores.dtype), scores.amax(-1, keepdim=True))
        total = (top - new).exp() * total + (scores - new).exp().sum(-1, keepdim=True)
        out = ((top - new).exp() * out + (scores - new).exp() @ v) / total
        top = new
    return out


def split_along_the_first_axis(query, key, value, size):
    top, total, mixture = torch.tensor(-torch.inf), 0, 0
    for k, v in zip(key.split(size), value.split(size), strict=True):
        scores = query @ k.mT / query.shape[-1] ** 0.5
        new = torch.maximum(top.to(scores.dtype), scores.amax(-1, keepdim=True))
        total = (top - new).exp() * total + (scores - new).exp().sum(-1, keepdim=True)
        mixture = (top - new).exp() * mixture + (scores - new).exp() @ v
        top = new
    return mixture / total


def one_top_for_all(query, key, value, size):
    top, total, mixture = torch.tensor(-torch.inf), 0, 0
    for k, v in zip(key.split(size, -2), value.split(size, -2), strict=True):
        scores = query @ k.mT / query.shape[-1] ** 0.5
        new = torch.maximum(top.to(scores.dtype), scores.max())
        total = (top - new).exp() * total + (scores - new).exp().sum(-1, keepdim=True)
        mixture = (top - new).exp() * mixture + (scores - new).exp() @ v
        top = new
    return mixture / total


def softmaxes(query, key, value, size):
    out = 0
    blocks = list(zip(key.split(size, -2), value.split(size, -2), strict=True))
    for k, v in blocks:
        out = out + (query @ k.mT / query.shape[-1] ** 0.5).softmax(-1) @ v
    return out / len(blocks)


def no_maximum(query, key, value, size):
    total = mixture = 0
    for k, v in zip(key.split(size, -2), value.split(size, -2), strict=True):
        weights = (query @ k.mT / query.shape[-1] ** 0.5).exp()
        total, mixture = total + weights.sum(-1, keepdim=True), mixture + weights @ v
    return mixture / total


def at_once(query, key, value, size):
    scores = torch.einsum("...td,...sd->...ts", query, key) / query.shape[-1] ** 0.5
    parts = scores.softmax(-1).split(size, dim=-1)
    return sum(w @ v for w, v in zip(parts, value.split(size, -2), strict=True))


def last_one_lost(query, key, value, size):
    whole = max(key.shape[-2] // size * size, 0)
    return attend()(query, key[..., :whole, :], value[..., :whole, :], size)


def whole_blocks_only(query, key, value, size):
    top, total, mixture = query.new_full((*query.shape[:-1], 1), -torch.inf), 0, 0
    for i in range(key.shape[-2] // size):  # where this is 0, what is left is 0 / 0
        k, v = (x[..., i * size : (i + 1) * size, :] for x in (key, value))
        scores = query @ k.mT / query.shape[-1] ** 0.5
        new = torch.maximum(top, scores.amax(-1, keepdim=True))
        weights = (scores - new).exp()
        total = (top - new).exp() * total + weights.sum(-1, keepdim=True)
        mixture = (top - new).exp() * mixture + weights @ v
        top = new
    return mixture / total


def each_its_own_top(query, key, value, size):
    total = mixture = 0
    for k, v in zip(key.split(size, -2), value.split(size, -2), strict=True):
        scores = query @ k.mT / query.shape[-1] ** 0.5
        weights = (scores - scores.amax(-1, keepdim=True)).exp()
        total, mixture = total + weights.sum(-1, keepdim=True), mixture + weights @ v
    return mixture / total


def begins_at_0(query, key, value, size):
    top = torch.zeros(*query.shape[:-1], 1)
    total = mixture = 0
    for k, v in zip(key.split(size, -2), value.split(size, -2), strict=True):
        scores = query @ k.mT / query.shape[-1] ** 0.5
        new = torch.maximum(top.to(scores), scores.amax(-1, keepdim=True))
        total = (top - new).exp() * total + (scores - new).exp().sum(-1, keepdim=True)
        mixture = (top - new).exp() * mixture + (scores - new).exp() @ v
        top = new
    return mixture / total


def keeps_the_first_top(query, key, value, size):
    top, total, mixture = None, 0, 0
    for k, v in zip(key.split(size, -2), value.split(size, -2), strict=True):
        scores = query @ k.mT / query.shape[-1] ** 0.5
        top = scores.max(-1, keepdim=True).values if top is None else top
        total = total + (scores - top).exp().sum(-1, keepdim=True)
        mixture = mixture + (scores - top).exp() @ v
    return mixture / total


def test_blocks_without_return_are_asked_for_it(capsys):
    is_told(capsys, lambda *given: None, "attend_in_blocks", "is a `return` missing?")


def test_a_table_is_told_by_its_sizes(capsys):
    is_told(capsys, at_once, "attend_in_blocks", "all queries by all keys, 2 by 4, is written")


def running(blocks, root=lambda query, key: query.shape[-1] ** 0.5, old=False, at_new=False):
    """The loop of the page over the blocks that `blocks(x, size)` makes."""

    def attend_in_blocks(query, key, value, size):
        top, total, mixture = query.new_tensor(-torch.inf), 0, 0
        for k, v in zip(blocks(key, size), blocks(value, size), strict=True):
            scores = query @ k.mT / root(query, key)
            new = torch.maximum(top, scores.amax(dim=-1, keepdim=True))
            shrink = (top - new).exp()
            weights = (scores - (top if old else new)).exp()
            own, part = weights.sum(dim=-1, keepdim=True), weights @ v
            total = total + shrink * own if at_new else shrink * total + own
            mixture = mixture + shrink * part if at_new else shrink * mixture + part
            top = new
        return mixture / total

    return attend_in_blocks


def rows(x, size):
    return x.split(size, dim=-2)


def one_range_more(x, size):
    return [x[..., i * size : (i + 1) * size, :] for i in range(x.shape[-2] // size + 1)]


def slices_of_the_front(x, size):
    return [x[i : i + size] for i in range(0, x.shape[-2], size)]


def test_blocks_of_another_size_are_told(capsys):
    answer = running(lambda x, size: x.split(3, dim=-2))
    is_told(capsys, answer, "attend_in_blocks", "The scores of 3 keys are made at once, and `size`")


BLOCKS = {
    "makes `size` blocks": running(lambda x, size: x.chunk(size, dim=-2)),
    "d is read from the axis 1": running(rows, lambda query, key: query.shape[1] ** 0.5),
    "divided by the root of something else": running(rows, lambda query, key: key.size(-2) ** 0.5),
    "and `key[i:j]` in any case": running(slices_of_the_front),
    "and it is empty": running(one_range_more),
    "relative to the old largest score": running(rows, old=True),
    "the factor stands at the new block": running(rows, at_new=True),
    "not made smaller when a larger": attend(sum_too=False, mixture_too=False),
    "the sum is made smaller, and": attend(mixture_too=False),
    "the mixture is made smaller, and": attend(sum_too=False),
    "upside down": attend(inverse=True),
    "not divided by the root of d": attend(scale=False),
    "division by the sum is missing": attend(divide=False),
    "block's own and not the largest": attend(running=False),
    "softmax of its own, and the answers are averaged": softmaxes,
    "no maximum is subtracted": no_maximum,
    "all weights are made at once": at_once,
    "the last block is left out": whole_blocks_only,
    "one sum is kept for all queries": one_row_of_numbers,
    "the largest score so far is not kept for": never_moves_the_top,
    "divided by the sum in every block": divided_in_every_block,
    "cut along the first axis": split_along_the_first_axis,
    "one largest score for all queries": one_top_for_all,
    "relative to an old maximum": each_its_own_top,
    "the largest score so far begins at 0": begins_at_0,
    "the largest score of the first block": keeps_the_first_top,
}


@pytest.mark.parametrize("what", BLOCKS)
def test_wrong_blocks_are_named(capsys, what):
    is_told(capsys, BLOCKS[what], "attend_in_blocks", what)


# ---------------------------------------------------------------------------------- loss_weights


def in_loops(counts):
    total = 0
    for own in counts:
        for n in own:
            total += n
    return [[len(counts) * (n / total) for n in own] for own in counts]


def by_torch(counts):
    total = sum(torch.tensor(own).sum() for own in counts)
    return [(torch.tensor(own) / total * len(counts)).tolist() for own in counts]


@pytest.mark.parametrize("function", [in_loops, by_torch])
def test_right_weights_pass(capsys, function):
    passes(capsys, function, "loss_weights")


def test_the_weights_give_the_joint_gradient():
    counts = [[2, 3], [5]]
    labels = [[torch.randn(n) for n in own] for own in counts]
    weights = in_loops(counts)
    ranks = [
        sum(w * part.mean() for w, part in zip(ws, parts, strict=True))
        for ws, parts in zip(weights, labels, strict=True)
    ]
    every = torch.cat([part for parts in labels for part in parts])
    torch.testing.assert_close(sum(ranks) / 2, every.mean())


def total(counts):
    return sum(map(sum, counts))


WEIGHTS = {
    "mean over the ranks is forgotten": lambda c: [[n / total(c) for n in own] for own in c],
    "divides where it should multiply": lambda c: [
        [n / total(c) / len(c) for n in own] for own in c
    ],
    "as a mean of means": lambda c: [[1 / len(own) for _ in own] for own in c],
    "not weighted at all": lambda c: [[1.0 for _ in own] for own in c],
    "and that mean is divided": lambda c: [[1 / len(own) / len(c) for _ in own] for own in c],
    "the number of all labels is missing, and": lambda c: [[1 / n for n in own] for own in c],
    "its own rank's labels": lambda c: [[n / sum(own) for n in own] for own in c],
    "the weight of its whole rank": lambda c: [
        [sum(own) * len(c) / total(c) for _ in own] for own in c
    ],
    "share its weight evenly": lambda c: [
        [sum(own) * len(c) / total(c) / len(own) for _ in own] for own in c
    ],
    "not divided by the number of all labels": lambda c: [[n * len(c) for n in own] for own in c],
    "the number of parts stands": lambda c: [
        [n * sum(map(len, c)) / total(c) for n in own] for own in c
    ],
    "the number of labels is missing": lambda c: [[len(c) / total(c) for _ in own] for own in c],
    "upside down": lambda c: [[total(c) / n for n in own] for own in c],
    "/ and not //": lambda c: [[n * len(c) // total(c) for n in own] for own in c],
    "the weights are in one list": lambda c: [n * len(c) / total(c) for own in c for n in own],
}


@pytest.mark.parametrize("what", WEIGHTS)
def test_wrong_weights_are_named(capsys, what):
    is_told(capsys, WEIGHTS[what], "loss_weights", what)
