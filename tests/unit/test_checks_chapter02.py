"""Chapter 2's checkers: answers that real learners give, each diagnosed by name."""

import math

import pytest
import torch
import torch.nn.functional as F

from transformer_lib.checks.chapter02 import check

pytestmark = pytest.mark.slow


def verdict(capsys, function, name):
    function.__name__ = name
    result = check(function)
    capsys.readouterr()
    return result


# ---------------------------------------------------------------------------------- past_average


def averages_in_a_loop(x, window):
    return torch.stack([x[max(0, t + 1 - window) : t + 1].mean(dim=0) for t in range(x.shape[0])])


def averages_by_softmax(tokens, width):
    T = tokens.size(0)
    age = torch.arange(T)[:, None] - torch.arange(T)
    scores = torch.zeros(T, T).masked_fill((age < 0) | (age >= width), float("-inf"))
    return F.softmax(scores, dim=1) @ tokens


def averages_by_einsum(x, window):
    n = len(x)
    band = torch.tril(torch.ones(n, n)) - torch.tril(torch.ones(n, n), -window)
    weights = band / torch.arange(1, n + 1).clamp(max=window).unsqueeze(1)
    return torch.einsum("ts,sd->td", weights.double(), x.double())


def averages_by_differences(x, window):
    sums = torch.cat([torch.zeros(1, x.shape[1]), x]).cumsum(0)
    last = torch.arange(1, len(x) + 1)
    first = (last - window).clamp(min=0)
    return (sums[last] - sums[first]) / (last - first)[:, None]


@pytest.mark.parametrize(
    "function",
    [averages_in_a_loop, averages_by_softmax, averages_by_einsum, averages_by_differences],
)
def test_right_averages_pass(capsys, function):
    assert verdict(capsys, function, "past_average")


def band(x, window, diagonal=0):
    ones = torch.ones(x.size(0), x.size(0))
    return torch.triu(torch.tril(ones, diagonal), diagonal - window + 1)


def divided(weights):
    return weights / weights.sum(dim=1, keepdim=True)


def average_of_a_slice(first, last):
    """x[first:last] for each t, as somebody would write it who counts from the wrong end."""

    def function(x, window):
        return torch.stack(
            [x[max(0, first(t, window)) : last(t, window)].mean(0) for t in range(len(x))]
        )

    return function


def average_without_itself_guarded(x, window):
    rows = [x[max(0, t - window) : t].mean(0) for t in range(1, len(x))]
    return torch.stack([torch.zeros(x.shape[1]), *rows])


def average_with_the_past_forbidden(x, window):
    scores = torch.zeros(len(x), len(x)).masked_fill(band(x, window) == 1, float("-inf"))
    return scores.softmax(dim=-1) @ x


def average_of_likeness(x, window):
    scores = torch.einsum("td,sd->ts", x, x)
    return scores.masked_fill(~band(x, window).bool(), -1e9).softmax(dim=-1) @ x


def average_of_two_at_a_time(x, window):
    mean, rows = x[0], []
    for t in range(len(x)):
        mean = x[0] if t == 0 else (mean + x[t]) / 2
        rows.append(mean)
    return torch.stack(rows)


def average_of_four(x, window):
    allowed = torch.ones(4, 4).tril() * torch.ones(4, 4).triu(1 - window)
    return divided(allowed) @ x


def average_of_an_empty_slice(x, window):
    return torch.stack([x[t + 1 - window : t + 1].mean(0) for t in range(len(x))])


@pytest.mark.parametrize(
    ("function", "diagnosis"),
    [
        (average_of_an_empty_slice, "start below 0"),
        (lambda x, w: torch.ones(len(x), len(x)) / len(x) @ x, "those still to come included"),
        (lambda x, w: x.mean(0, keepdim=True).repeat(len(x), 1), "those still to come included"),
        (lambda x, w: x.mean(dim=0), "those still to come included"),
        (lambda x, w: divided(torch.ones(len(x), len(x)).tril()) @ x, "the window is not used"),
        (average_of_a_slice(lambda t, w: t - w, lambda t, w: t + 1), "one row too long"),
        (average_of_a_slice(lambda t, w: t - w + 2, lambda t, w: t + 1), "one row too short"),
        (
            average_of_a_slice(lambda t, w: t - w + 1, lambda t, w: t + w),
            "reaches to both sides of row t",
        ),
        (lambda x, w: divided(band(x, 2 * w + 1, w)) @ x, "reaches to both sides of row t"),
        (lambda x, w: divided(band(x, w, -1)) @ x, "row t leaves itself out"),
        (average_without_itself_guarded, "row t leaves itself out"),
        (average_of_a_slice(lambda t, w: t - w, lambda t, w: t), "row t leaves itself out"),
        (average_of_a_slice(lambda t, w: t - w + 1, lambda t, w: t), "row t leaves itself out"),
        (lambda x, w: band(x, w) @ x, "but not divided"),
        (lambda x, w: band(x, w) @ x / w, "the first rows have fewer"),
        (
            lambda x, w: band(x, w) / torch.arange(1, len(x) + 1)[:, None] @ x,
            "the window holds fewer",
        ),
        (lambda x, w: band(x, w) / len(x) @ x, "by the number of all rows"),
        (average_of_two_at_a_time, "counts as one"),
        (lambda x, w: band(x, w) / band(x, w).sum(0, True) @ x, "the columns of the weights sum"),
        (lambda x, w: divided(band(x, w)).T @ x, "turned on their side"),
        (average_with_the_past_forbidden, "the wrong way round"),
        (lambda x, w: F.softmax(band(x, w), dim=-1) @ x, "e^0 = 1"),
        (average_of_likeness, "are the rows' own dot products"),
        (lambda x, w: F.softmax(x @ x.T, dim=-1) @ x, "are the rows' own dot products"),
        (average_of_four, "4 by 4 whatever x is"),
        (lambda x, w: band(x, w) / band(x, w).sum(1) @ x, "without keepdim=True"),
        (average_of_a_slice(lambda t, w: t, lambda t, w: t + w), "the triangle is the upper one"),
        (average_of_a_slice(lambda t, w: t, lambda t, w: None), "the triangle is the upper one"),
        (lambda x, w: averages_in_a_loop(x.T, w).T, "along each row, over the columns so far"),
        (lambda x, w: divided(band(x, w)), "the weights are returned"),
        (lambda x, w: x @ divided(band(x, w)), "matrix product is turned"),
    ],
)
def test_wrong_averages_are_named(capsys, function, diagnosis):
    report = verdict(capsys, lambda x, window: function(x, window), "past_average").report
    assert diagnosis in report


def test_an_average_without_a_window_is_told_its_signature(capsys):
    def past_average(x):
        return x.cumsum(0)

    report = verdict(capsys, past_average, "past_average").report
    assert "calls past_average(x, window)" in report


# ------------------------------------------------------------------------------ scaled_attention


def attention_in_loops(q, k, v, causal=False):
    if q.dim() > 2:
        return torch.stack(
            [attention_in_loops(*three, causal) for three in zip(q, k, v, strict=True)]
        )
    rows = []
    for t, one in enumerate(q):
        seen = range(t + 1) if causal else range(len(k))
        powers = [math.exp((one @ k[s]).item() / math.sqrt(len(one))) for s in seen]
        rows.append(sum(p * v[s] for p, s in zip(powers, seen, strict=True)) / sum(powers))
    return torch.stack(rows)


def attention_by_einsum(query, key, value, causal=False):
    scores = torch.einsum("...td,...sd->...ts", query.double(), key.double())
    scores = scores / math.sqrt(key.size(-1))
    if causal:
        t, s = scores.shape[-2:]
        scores = scores + torch.full((t, s), float("-inf")).triu(1)
    return torch.einsum("...ts,...sv->...tv", scores.softmax(-1), value.double())


def attention_scaled_first(queries, keys, values, causal=False):
    # the root taken apart: half of it on either side
    width = queries.shape[-1] ** 0.25
    scores = (keys / width) @ (queries / width).mT  # (..., S, T)
    if causal:
        scores = scores.masked_fill(torch.ones(scores.shape[-2:]).tril(-1).bool(), -1e9)
    return (values.mT @ F.softmax(scores, dim=-2)).mT


def attention_renormalized(query, key, value, causal=False):
    # zeroing after the softmax is right if the rows are divided by what is left
    weights = F.softmax(query @ key.mT / query.shape[-1] ** 0.5, dim=-1)
    if causal:
        weights = weights.tril()
        weights = weights / weights.sum(dim=-1, keepdim=True)
    return weights @ value


def attention_fused(query, key, value, *, causal=False):
    return F.scaled_dot_product_attention(query, key, value, is_causal=causal)


@pytest.mark.parametrize(
    "function",
    [
        attention_in_loops,
        attention_by_einsum,
        attention_scaled_first,
        attention_renormalized,
        attention_fused,
    ],
)
def test_right_attentions_pass(capsys, function):
    assert verdict(capsys, function, "scaled_attention")


def attend(divisor=lambda q, k, v: math.sqrt(k.size(-1)), dim=-1, fill=float("-inf"), diagonal=1):
    def function(q, k, v, causal=False):
        scores = torch.matmul(q, k.transpose(-1, -2)) / divisor(q, k, v)
        if causal:
            banned = torch.ones(scores.size(-2), scores.size(-1)).triu(diagonal) == 1
            scores = scores.masked_fill(banned, fill)
        return torch.matmul(F.softmax(scores, dim=dim), v)

    return function


def attend_dividing_weights(q, k, v, causal=False):
    scores = q @ k.mT
    if causal:
        scores = scores + torch.triu(torch.full(scores.shape, float("-inf")), 1)
    return (scores.softmax(-1) / math.sqrt(q.size(-1))) @ v


def attend_masking_late(q, k, v, causal=False):
    weights = F.softmax(q @ k.mT / math.sqrt(q.size(-1)), dim=-1)
    if causal:
        weights = torch.tril(weights)
    return weights @ v


def attend_with_the_future_only(q, k, v, causal=False):
    scores = q @ k.mT / math.sqrt(q.size(-1))
    if causal:
        keep = torch.ones_like(scores).triu().bool()
        scores = scores.masked_fill(~keep, float("-inf"))
    return scores.softmax(-1) @ v


def attend_with_big_t(q, k, v, causal=False):
    scores = q @ k.T / math.sqrt(q.size(-1))
    if causal:
        scores = scores.masked_fill(torch.ones_like(scores).triu(1).bool(), float("-inf"))
    return scores.softmax(-1) @ v


def attend_without_softmax(q, k, v, causal=False):
    scores = q @ k.mT / math.sqrt(q.size(-1))
    return (torch.tril(scores) if causal else scores) @ v


def attend_returning_weights(q, k, v, causal=False):
    return attend()(q, k, torch.eye(k.size(-2)).expand(*k.shape[:-2], -1, -1), causal)


def attend_with(weigh):
    def function(q, k, v, causal=False):
        scores = q @ k.mT / math.sqrt(q.size(-1))
        if causal:
            scores += torch.full(scores.shape, float("-inf")).triu(1)
        return weigh(scores) @ v

    return function


def attend_masked(mask):
    """Attention with a mask of the learner's own: mask(scores, triangle of 1 and 0)."""

    def function(q, k, v, causal=False):
        scores = q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))
        if causal:
            scores = mask(scores, torch.ones(scores.shape[-2:]).tril())
        return F.softmax(scores, dim=-1) @ v

    return function


def attend_masking_late_with_infinity(q, k, v, causal=False):
    weights = F.softmax(q @ k.mT / math.sqrt(q.size(-1)), dim=-1)
    if causal:
        banned = torch.ones(weights.shape[-2:]).tril() == 0
        weights = weights.masked_fill(banned, -math.inf)
    return weights @ v


def attend_four_by_four(q, k, v, causal=False):
    scores = q @ k.mT / math.sqrt(q.size(-1))
    if causal:
        scores = scores.masked_fill(torch.tril(torch.ones(4, 4)) == 0, -math.inf)
    return scores.softmax(-1) @ v


def attend_with_the_second_axis(q, k, v, causal=False):
    scores = q @ k.transpose(1, 2) / math.sqrt(q.size(-1))
    if causal:
        scores = scores.masked_fill(torch.ones_like(scores).triu(1).bool(), -math.inf)
    return scores.softmax(-1) @ v


def attend_causal_or_not(q, k, v, causal=False):
    scores = q @ k.mT / math.sqrt(q.size(-1))
    scores = scores.masked_fill(torch.ones(scores.shape[-2:]).triu(1).bool(), float("-inf"))
    return scores.softmax(-1) @ v


def attend_returning_both(q, k, v, causal=False):
    return attend()(q, k, v, causal), attend_returning_weights(q, k, v, causal)


def attend_with_queries_and_keys_swapped(q, k, v, causal=False):
    scores = k @ q.mT / math.sqrt(q.size(-1))
    if causal:
        scores = scores.masked_fill(torch.ones(scores.shape[-2:]).triu(1).bool(), float("-inf"))
    return scores.softmax(-1) @ v


def attend_by(divide):
    """Attention with something else in place of the scale."""

    def function(q, k, v, causal=False):
        scores = divide(q @ k.mT)
        if causal:
            scores = scores.masked_fill(torch.ones(scores.shape[-2:]).triu(1).bool(), -math.inf)
        return F.softmax(scores, dim=-1) @ v

    return function


def attend_with_cosines(q, k, v, causal=False):
    one = F.cosine_similarity(q.unsqueeze(-2), k.unsqueeze(-3), dim=-1)
    return attend_by(lambda s: one)(q, k, v, causal)


def attend_with_cosines_and_scale(q, k, v, causal=False):
    q, k = (x / x.norm(dim=-1, keepdim=True) for x in (q, k))
    return attend()(q, k, v, causal)


def attend_scaling_both(q, k, v, causal=False):
    root = math.sqrt(q.size(-1))
    return attend_by(lambda s: s)(q / root, k / root, v, causal)


def attend_without_transpose(q, k, v, causal=False):
    return F.softmax(q @ k / math.sqrt(q.size(-1)), dim=-1) @ v


@pytest.mark.filterwarnings("ignore:The use of `x.T`")
@pytest.mark.parametrize(
    ("function", "diagnosis"),
    [
        (attend(lambda q, k, v: 1), "are not divided by anything"),
        (lambda q, k, v, causal=False: F.softmax(q @ k.mT, -1) @ v, "answer to chapter 1's"),
        (attend(lambda q, k, v: q.size(-1)), "by d_k and not by its root"),
        (attend(lambda q, k, v: 1 / math.sqrt(q.size(-1))), "multiplied by the root"),
        (attend(lambda q, k, v: q.size(-1) ** 1 / 2), "a power binds before a division"),
        (attend(lambda q, k, v: 1 / (q.size(-1) ** -1 / 2)), "a power binds before a division"),
        (attend(lambda q, k, v: 2 * q.size(-1)), "a power binds before a division"),
        (attend(lambda q, k, v: q.size(-1) ** 0.25), "the fourth root is taken"),
        (attend_scaling_both, "queries and keys by a root each"),
        (attend_by(lambda s: s / s.std(dim=-1, keepdim=True)), "their own standard deviation"),
        (attend_by(lambda s: s / s.std()), "their own standard deviation"),
        (attend_with_cosines, "the scores are cosines"),
        (attend_with_cosines_and_scale, "the scores are cosines"),
        (attend(lambda q, k, v: 8), "64 is the paper's d_k"),
        (attend(lambda q, k, v: math.sqrt(512)), "512 is the width of the paper's model"),
        (attend(lambda q, k, v: math.sqrt(4)), "4 was d_k in the worked example only"),
        (attend(lambda q, k, v: math.sqrt(k.size(-2))), "of the number of keys"),
        (attend(lambda q, k, v: math.sqrt(q.size(-2))), "of the number of queries"),
        (attend(lambda q, k, v: math.sqrt(v.size(-1))), "of the width of the values"),
        (attend(lambda q, k, v: math.sqrt(len(q))), "of the first axis"),
        (attend_dividing_weights, "the weights are divided and not the scores"),
        (lambda q, k, v, causal=False: attend()(q, k, v), "`causal` is not used"),
        (attend(diagonal=0), "query t may not see key t"),
        (attend(diagonal=0, fill=-1e9), "query t may not see key t"),
        (attend_with_the_future_only, "the triangle is the upper one"),
        (attend(fill=0), "a banned score becomes 0"),
        (attend_masking_late, "the mask comes after the softmax"),
        (attend(dim=-2), "over the queries and not over the keys"),
        (attend(dim=1), "a fixed axis, counted from the front"),
        (attend(dim=0), "a fixed axis, counted from the front"),
        (attend_with(lambda s: s.flatten().softmax(0).view_as(s)), "over the whole table"),
        (attend_with(torch.exp), "are not divided by their sum"),
        (attend_with_queries_and_keys_swapped, "have changed places"),
        (attend_without_transpose, "the keys are not transposed"),
        (attend_with_big_t, "takes all axes (.T)"),
        (attend_without_softmax, "there is no softmax"),
        (attend_returning_weights, "the weights are returned, and the values never mixed"),
        (attend_returning_both, "the output is right, but the weights are returned with it"),
        (attend_causal_or_not, "`causal` is not asked"),
        (attend_masked(lambda s, t: s.masked_fill(t == 1, -math.inf)), "fill is the wrong way"),
        (attend_masked(lambda s, t: s + (1 - t) * -math.inf), "0 · ∞ is NaN"),
        (attend_masking_late_with_infinity, "filled in after the softmax"),
        (attend_four_by_four, "4 by 4 for tokens of any number"),
        (attend_with_the_second_axis, "where only the last two may change places"),
        (attend_masked(lambda s, t: s + t), "is added to the scores"),
        (attend(lambda q, k, v: math.sqrt(len(k))), "of the first axis"),
        (
            lambda q, k, v, causal=False: attend()(q, k, torch.eye(k.size(-2)), causal).mT @ v,
            "turned on their side",
        ),
        (lambda q, k, v, causal=False: attend()(q, k, k, causal), "the keys are mixed"),
        (
            lambda q, k, v, causal=False: v @ attend_returning_weights(q, k, v, causal),
            "have changed places in the product",
        ),
        (
            lambda q, k, v, causal=False: attend_returning_weights(q, k, v, causal) * v,
            "multiplied number by number",
        ),
    ],
)
def test_wrong_attentions_are_named(capsys, function, diagnosis):
    report = verdict(
        capsys, lambda q, k, v, causal=False: function(q, k, v, causal), "scaled_attention"
    ).report
    assert diagnosis in report


def test_mistakes_with_the_triangle_point_to_its_section(capsys):
    report = verdict(
        capsys,
        lambda q, k, v, causal=False: attend(diagonal=0)(q, k, v, causal),
        "scaled_attention",
    ).report
    assert "Which scores make softmax draw this triangle?" in report


def test_an_attention_without_causal_is_told_its_signature(capsys):
    def scaled_attention(query, key, value):
        return attend()(query, key, value)

    report = verdict(capsys, scaled_attention, "scaled_attention").report
    assert "case 9 of 9: causal, all scores are minus 85" in report
    assert "calls scaled_attention(query, key, value, causal=…)" in report
