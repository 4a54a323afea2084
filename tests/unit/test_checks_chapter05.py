"""Chapter 5's checkers: answers that real learners give, each diagnosed by name."""

import math

import pytest
import torch
import torch.nn.functional as F

from transformer_lib.checks.chapter05 import check

pytestmark = pytest.mark.slow


def verdict(capsys, function, name):
    function.__name__ = name
    result = check(function)
    capsys.readouterr()
    return result


# ------------------------------------------------------------------------------ masked_attention


def in_loops(query, key, value, mask):
    mask = mask.expand(*query.shape[:-1], key.shape[-2])
    if query.dim() > 2:
        four = zip(query, key, value, mask, strict=True)
        return torch.stack([in_loops(*each) for each in four])
    rows = []
    for one, allowed in zip(query, mask, strict=True):
        scores = (key[allowed] @ one) / math.sqrt(len(one))
        weights = scores.float().softmax(dim=0).to(value.dtype)  # of no scores: no weights
        rows.append((weights[:, None] * value[allowed]).sum(dim=0))
    return torch.stack(rows)


def by_einsum(q, k, v, mask):
    scores = torch.einsum("...td,...sd->...ts", q, k) / math.sqrt(q.size(-1))
    weights = torch.where(mask, scores, torch.finfo(scores.dtype).min).softmax(-1)
    output = torch.einsum("...ts,...sv->...tv", weights, v)
    return torch.where(mask.any(dim=-1, keepdim=True), output, 0.0)


def with_infinity_mended(q, k, v, mask):
    weights = (q @ k.mT / q.size(-1) ** 0.5).masked_fill(~mask, -math.inf).softmax(-1)
    return weights.nan_to_num(0.0) @ v


def with_fused(q, k, v, mask):
    empty = ~mask.any(dim=-1, keepdim=True)
    output = F.scaled_dot_product_attention(q, k, v, attn_mask=mask | empty)
    return output.masked_fill(empty, 0.0)


def by_hand_from_the_largest(q, k, v, mask):
    scores = (q @ k.transpose(-2, -1) / q.size(-1) ** 0.5).masked_fill(~mask, -math.inf)
    top = scores.amax(-1, keepdim=True).clamp(min=torch.finfo(scores.dtype).min)
    powers = (scores - top).exp()
    return powers / powers.sum(-1, keepdim=True).clamp(min=1e-3) @ v


def by_hand_with_a_floor(query, key, value, mask):
    scores = query @ key.mT / query.shape[-1] ** 0.5
    scores = scores.masked_fill(~mask, torch.finfo(scores.dtype).min)
    powers = (scores - scores.amax(dim=-1, keepdim=True)).exp().masked_fill(~mask, 0.0)
    return powers @ value / powers.sum(dim=-1, keepdim=True).clamp(min=1)


@pytest.mark.parametrize(
    "function",
    [
        by_hand_with_a_floor,
        in_loops,
        by_einsum,
        with_infinity_mended,
        with_fused,
        by_hand_from_the_largest,
    ],
)
def test_right_masked_attentions_pass(capsys, function):
    result = verdict(capsys, function, "masked_attention")
    assert result, result.report


def attend(weigh):
    """Attention as a learner writes it, with weights of the learner's own."""

    def function(query, key, value, mask):
        scores = torch.matmul(query, key.transpose(-1, -2)) / math.sqrt(key.size(-1))
        return torch.matmul(weigh(scores, mask), value)

    return function


def filled(fill, hidden=lambda mask: mask.logical_not()):
    return attend(lambda s, m: F.softmax(s.masked_fill(hidden(m), fill), dim=-1))


def smallest(scores):
    return torch.finfo(scores.dtype).min


def filled_and_multiplied(fill):
    return attend(lambda s, m: s.masked_fill(m == 0, fill).softmax(-1) * m)


def renormalized(s, m):
    weights = torch.softmax(s, -1).masked_fill(~m, 0)
    return weights / weights.sum(dim=-1, keepdim=True)


def largest_of_all(s, m):
    powers = torch.exp(s - s.max(dim=-1, keepdim=True).values) * m
    return powers / powers.sum(dim=-1, keepdim=True)


def nothing_subtracted(s, m):
    powers = torch.exp(s) * m
    return powers / torch.sum(powers, dim=-1, keepdim=True)


def hidden_first(s, m):
    powers = torch.exp(s.masked_fill(m == 0, -math.inf))
    return powers / powers.sum(-1, keepdim=True)


def only_where_there_is_something(s, m):
    powers = torch.exp(s) * m
    total = powers.sum(-1, keepdim=True)
    return torch.where(total > 0, powers / total, 0.0)


def empty_rows_zeroed(weigh):
    """As some do it: the weights, then zeros for queries that may look at nothing."""
    return attend(lambda s, m: weigh(s, m).masked_fill(~m.any(-1, keepdim=True), 0.0))


def turned_on_its_side(s, m):
    return s.masked_fill(~m.transpose(-1, -2), -math.inf).softmax(-1)


def returning_both(q, k, v, mask):
    weights = (q @ k.mT / math.sqrt(q.size(-1))).masked_fill(~mask, smallest(q)).softmax(-1) * mask
    return weights @ v, weights


def unscaled(q, k, v, mask):
    return ((q @ k.mT).masked_fill(~mask, smallest(q)).softmax(-1) * mask) @ v


def along_the_queries(s, m):
    return s.masked_fill(~m, smallest(s)).softmax(dim=-2).masked_fill(~m, 0.0)


@pytest.mark.parametrize(
    ("function", "diagnosis"),
    [
        (attend(lambda s, m: s.softmax(-1) * m), "lost instead of shared out"),
        (attend(renormalized), "the largest of all is subtracted"),
        (attend(lambda s, m: renormalized(s, m).nan_to_num(0)), "the largest of all is subtracted"),
        (attend(largest_of_all), "the largest of all is subtracted"),
        (attend(nothing_subtracted), "the largest score is not subtracted"),
        (attend(hidden_first), "the largest score is not subtracted"),
        (attend(only_where_there_is_something), "the largest score is not subtracted"),
        (empty_rows_zeroed(nothing_subtracted), "the largest score is not subtracted"),
        (empty_rows_zeroed(largest_of_all), "the largest of all is subtracted"),
        (filled(-1e9), "and a query with nothing to attend to spreads"),
        (filled(torch.finfo(torch.float32).min), "and a query with nothing to attend to spreads"),
        (filled_and_multiplied(-1e9), "ask the scores' own type"),
        (filled_and_multiplied(torch.finfo(torch.float32).min), "ask the scores' own type"),
        (filled(-1e4), "real scores lie below it"),
        (filled_and_multiplied(-1e4), "real scores lie below it"),
        (filled_and_multiplied(-100.0), "real scores lie below it"),
        (attend(lambda s, m: (s + ~m * -1e4).softmax(-1)), "real scores lie below it"),
        (filled(-math.inf), "divides 0 by 0"),
        (attend(lambda s, m: torch.where(m, s, -math.inf).softmax(-1)), "divides 0 by 0"),
        (filled_and_multiplied(-math.inf), "times 0 that is still NaN"),
        (attend(lambda s, m: s.masked_fill(~m, smallest(s)).softmax(-1)), "and nothing else"),
        (filled(-math.inf, lambda m: m), "the wrong way round"),
        (attend(lambda s, m: s.masked_fill(m, smallest(s)).softmax(-1)), "the wrong way round"),
        (filled(0.0), "e^0 = 1 is a weight"),
        (empty_rows_zeroed(lambda s, m: (s * m).softmax(-1)), "e^0 = 1 is a weight"),
        (attend(lambda s, m: F.softmax(s * m, dim=-1)), "e^0 = 1 is a weight"),
        (attend(lambda s, m: (s + (1 - m.int()) * -math.inf).softmax(-1)), "0 · ∞ is NaN"),
        (attend(lambda s, m: (s + m.to(s.dtype)).softmax(-1)), "that hides nothing"),
        (attend(lambda s, m: s.softmax(-1)), "the mask is not used"),
        (attend(turned_on_its_side), "turned on its side"),
        (unscaled, "not divided by the root"),
        (attend(along_the_queries), "over the queries and not over the keys"),
        (returning_both, "the weights are returned with it"),
        (lambda q, k, v, m: returning_both(q, k, v, m)[1], "the values never mixed"),
    ],
)
def test_wrong_masked_attentions_are_named(capsys, function, diagnosis):
    result = verdict(capsys, lambda q, k, v, m: function(q, k, v, m), "masked_attention")
    assert not result
    assert diagnosis in " ".join(result.report.split())


def test_a_floor_too_small_for_the_gradient_in_half_precision_is_told_so(capsys):
    def with_a_tiny_floor(q, k, v, mask):
        scores = q @ k.mT / k.size(-1) ** 0.5
        scores = scores.masked_fill(~mask, torch.finfo(scores.dtype).min)
        e = (scores - scores.amax(-1, keepdim=True)).exp() * mask
        return e @ v / e.sum(-1, keepdim=True).clamp(min=1e-6)

    report = verdict(capsys, with_a_tiny_floor, "masked_attention").report
    assert "the gradient that reaches `value` is not finite" in report


def test_a_masked_attention_in_single_precision_only_is_told_so(capsys):
    def answer(q, k, v, mask):
        return by_einsum(q.float(), k.float(), v.float(), mask)

    assert "float16" in verdict(capsys, answer, "masked_attention").report


# ---------------------------------------------------------------------------------------- causal


def from_positions(t, s):
    return torch.arange(s) <= torch.arange(s - t, s)[:, None]


def from_the_last_rows(t, s):
    return torch.ones(s, s).tril()[s - t :] == 1


def from_the_upper_triangle(t, s):
    return ~torch.triu(torch.ones(t, s), diagonal=s - t + 1).bool()


def from_a_list(t, s):
    return torch.tensor([[j <= s - t + i for j in range(s)] for i in range(t)])


@pytest.mark.parametrize(
    "function", [from_positions, from_the_last_rows, from_the_upper_triangle, from_a_list]
)
def test_right_triangles_pass(capsys, function):
    assert verdict(capsys, function, "causal")


def ones(t, s):
    return torch.ones(t, s)


@pytest.mark.parametrize(
    ("function", "diagnosis"),
    [
        (lambda t, s: ones(t, s).tril() == 1, "starts from the first corner"),
        (lambda t, s: ones(t, s).tril(s - t + 1) == 1, "one too wide: query i"),
        (lambda t, s: ones(t, s).triu(1) == 0, "starts from the first corner"),
        (lambda t, s: ones(t, s).tril(1).bool(), "one too wide, and starts"),
        (lambda t, s: ones(t, s).tril(s - t - 1).bool(), "one too narrow: query i"),
        (lambda t, s: torch.arange(s) < torch.arange(s - t, s)[:, None], "one too narrow: query"),
        (lambda t, s: torch.arange(s) < torch.arange(t)[:, None], "one too narrow and starts"),
        (lambda t, s: ones(t, s).triu(s - t + 1).bool(), "True stands where looking is forbidden"),
        (lambda t, s: ones(t, s).triu(1) == 1, "taken for the first positions"),
        (lambda t, s: ones(t, s).triu(s - t) == 1, "the triangle is the upper one"),
        (lambda t, s: ones(t, s).tril(t - s) == 1, "moved the wrong way"),
        (lambda t, s: ones(t, t).tril() == 1, "the mask is square"),
        (lambda t, s: ones(s, s).tril() == 1, "a row for every position"),
        (lambda t, s: from_a_list(t, s).T, "changed places"),
        (lambda t, s: ones(t, s).tril(s - t), "made of numbers"),
        (lambda t, s: from_a_list(t, s).int(), "made of numbers"),
        (
            lambda t, s: torch.full((t, s), -math.inf).triu(s - t + 1),
            "ready to be added to the scores",
        ),
        (lambda t, s: ones(t, s) == 1, "nothing is forbidden"),
    ],
)
def test_wrong_triangles_are_named(capsys, function, diagnosis):
    result = verdict(capsys, lambda t, s: function(t, s), "causal")
    assert not result
    assert diagnosis in " ".join(result.report.split())


# ----------------------------------------------------------------------------------------- leaks


def by_beginnings(model, ids, vocab_size):
    whole = model(ids)
    return any(not torch.allclose(model(ids[:, :t]), whole[:, :t]) for t in range(1, ids.size(1)))


def one_output_at_a_time(model, ids, vocab_size):
    for t in range(ids.size(1)):
        for s in range(t + 1, ids.size(1)):
            other = ids.clone()
            other[:, s] = (other[:, s] + 3) % vocab_size
            if (model(other)[:, t] != model(ids)[:, t]).any():
                return torch.tensor(True)
    return torch.tensor(False)


def by_changing_all_that_follows(model, ids, vocab_size):
    found = False
    for t in range(1, ids.size(1)):
        other = torch.cat([ids[:, :t], vocab_size - 1 - ids[:, t:]], dim=1)
        middle = other == ids  # where the mirror shows the token itself
        other = torch.where(middle, (ids + 1) % vocab_size, other)
        other[:, :t] = ids[:, :t]
        found |= not torch.equal(model(other)[:, :t], model(ids)[:, :t])
    return found


def by_every_token_there_is(model, ids, vocab_size):
    for s in range(1, ids.size(1)):
        for token in range(vocab_size):
            other = ids.clone()
            other[:, s] = token
            if not torch.allclose(model(other)[:, :s], model(ids)[:, :s]):
                return True
    return False


@pytest.mark.parametrize(
    "function",
    [by_beginnings, one_output_at_a_time, by_changing_all_that_follows, by_every_token_there_is],
)
def test_right_leak_testers_pass(capsys, function):
    assert verdict(capsys, function, "leaks")


def written(
    places=lambda n: range(n),
    new=lambda old, vocab_size: (old + 1) % vocab_size,
    part=lambda place: slice(None, place),
    same=torch.equal,
):
    """A leak tester as a learner writes it."""

    def function(model, ids, vocab_size):
        first = model(ids)
        for place in places(ids.shape[1]):
            ids2 = ids.clone()
            ids2[:, place] = new(ids2[:, place], vocab_size)
            second = model(ids2)
            if not same(first[:, part(place)], second[:, part(place)]):
                return True
        return False

    return function


def without_a_clone(model, ids, vocab_size):
    first = model(ids)
    for place in range(1, ids.shape[1]):
        ids[:, place] = (ids[:, place] + 1) % vocab_size
        if not torch.equal(model(ids)[:, :place], first[:, :place]):
            return True
    return False


def first_quiet_place(model, ids, vocab_size):
    first = model(ids)
    for place in range(1, ids.shape[1]):
        ids2 = ids.clone()
        ids2[:, place] = (ids2[:, place] + 1) % vocab_size
        if torch.equal(model(ids2)[:, :place], first[:, :place]):
            return True
    return False


def first_sequence_alone(model, ids, vocab_size):
    return written()(model, ids[:1], vocab_size)


def first_sequence_compared(model, ids, vocab_size):
    return written(same=lambda a, b: torch.equal(a[0], b[0]))(model, ids, vocab_size)


def everything_changed(model, ids, vocab_size):
    return not torch.equal(model(ids)[:, :-1], model((ids + 1) % vocab_size)[:, :-1])


def close_enough(a, b):
    return torch.allclose(a, b, atol=0.05)


@pytest.mark.parametrize(
    ("function", "diagnosis"),
    [
        (lambda m, i, v: not written()(m, i, v), "the verdict is the wrong way round"),
        (
            written(part=lambda place: slice(None, place + 1)),
            "the changed token's own, those after it",
        ),
        (written(part=lambda place: slice(None)), "the changed token's own, those after it"),
        (written(part=lambda place: slice(place, None)), "the changed token's own, those after it"),
        (everything_changed, "the changed token's own, those after it"),
        (written(lambda n: [0]), "no output before the changed token is compared"),
        (lambda m, i, v: False, "no output before the changed token is compared"),
        (written(lambda n: [n - 1]), "only the last token is changed"),
        (written(lambda n: [n // 2]), "only one token, in the middle"),
        (written(lambda n: [1]), "when the loop returns in its first round"),
        (written(lambda n: range(n - 1)), "the range ends one too early"),
        (
            written(lambda n: range(1, n), part=lambda place: place - 1),
            "only the output right before",
        ),
        (
            written(lambda n: range(1, n), part=lambda place: slice(0, place - 1)),
            "a look ahead by one place",
        ),
        (
            written(part=lambda p: slice(0, 1), places=lambda n: range(1, n)),
            "only the first output",
        ),
        (first_sequence_alone, "only the first sequence of the batch"),
        (first_sequence_compared, "only the first sequence of the batch"),
        (written(new=lambda old, v: torch.zeros_like(old)), "may be the old one"),
        (written(new=lambda old, v: old + 1), "the last of the vocabulary plus 1"),
        (written(new=lambda old, v: torch.full_like(old, v)), "the last of the vocabulary plus 1"),
        (without_a_clone, "instead of a clone for each place"),
        (without_a_clone, "It also changed its input `ids` in place"),
        (first_quiet_place, "the verdict is the wrong way round"),
        (written(same=lambda a, b: torch.equal(a.argmax(-1), b.argmax(-1))), "by argmax"),
        (written(same=close_enough), "the tolerance is too wide"),
    ],
)
def test_wrong_leak_testers_are_named(capsys, function, diagnosis):
    result = verdict(capsys, lambda m, i, v: function(m, i, v), "leaks")
    assert not result
    assert diagnosis in " ".join(result.report.split()), result.report


def test_a_leak_tester_that_spoils_the_ids_is_told_so(capsys):
    def answer(model, ids, vocab_size):
        first = model(ids)
        for place in range(ids.shape[1] - 1, 0, -1):
            ids[:, place] = (ids[:, place] + 1) % vocab_size
            if not torch.equal(model(ids)[:, :place], first[:, :place]):
                return True
        return False

    assert "changed its input `ids` in place" in " ".join(
        verdict(capsys, answer, "leaks").report.split()
    )
