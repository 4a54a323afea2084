"""Chapter 1's checkers: answers that real learners give, each diagnosed by name."""

import math

import pytest
import torch
import torch.nn.functional as F

from transformer_lib.checks.chapter01 import check

pytestmark = pytest.mark.slow


def verdict(capsys, function, name):
    function.__name__ = name
    result = check(function)
    capsys.readouterr()
    return result


# ------------------------------------------------------------------------------------ my_softmax


def softmax_in_loops(x):
    if x.dim() > 1:
        return torch.stack([softmax_in_loops(row) for row in x])
    top = max(x.tolist())
    powers = [math.exp(v - top) for v in x.tolist()]
    return torch.tensor([p / sum(powers) for p in powers], dtype=torch.float64)


def softmax_by_logsumexp(x):
    return torch.exp(x - torch.logsumexp(x, -1, keepdim=True))


def softmax_with_values_and_indices(scores):
    largest = scores.max(dim=-1, keepdim=True).values
    powers = torch.e ** (scores - largest)
    return powers / powers.sum(dim=-1).unsqueeze(-1)


@pytest.mark.parametrize(
    "function",
    [softmax_in_loops, softmax_by_logsumexp, softmax_with_values_and_indices, torch.nn.Softmax(-1)],
)
def test_right_softmaxes_pass(capsys, function):
    assert verdict(capsys, lambda x: function(x), "my_softmax")


def shifted(x, largest=lambda s: s.amax(-1, keepdim=True)):
    return torch.exp(x - largest(x))


def normalized(powers):
    return powers / powers.sum(dim=-1, keepdim=True)


def softmax_global_max_no_keepdim(x):
    e = torch.exp(x - torch.max(x))
    return e / torch.sum(e, dim=-1)


def softmax_with_an_epsilon(x):
    e = torch.exp(x - torch.max(x))
    return e / (torch.sum(e, dim=-1, keepdim=True) + 1e-9)


@pytest.mark.parametrize(
    ("function", "diagnosis"),
    [
        (lambda x: x / x.sum(dim=-1, keepdim=True), "divided by their sum, without exp"),
        (lambda x: torch.exp(x), "are not divided by their sum"),
        (lambda x: torch.exp(x - x.max(-1, keepdim=True).values), "are not divided by their sum"),
        (lambda x: torch.exp(x) / torch.exp(x).sum(-1).unsqueeze(-1), "exp overflows"),
        (lambda x: torch.e**x / (torch.e**x).sum(-1, True), "exp overflows"),
        (lambda x: F.normalize(torch.exp(x - x.max()), p=1, dim=-1, eps=0), "in a row far below"),
        (lambda x: torch.exp(x) / torch.exp(x).sum(), "over the whole tensor and not over each"),
        (lambda x: F.softmax(x, dim=0), "along the wrong axis"),
        (softmax_global_max_no_keepdim, "without keepdim=True"),
        (lambda x: torch.exp(x) / torch.exp(x).sum(-1), "without keepdim=True"),
        (lambda x: F.softmax(-x, dim=-1), "the sign of the scores is turned"),
        (lambda x: x - torch.logsumexp(x, -1, keepdim=True), "the logarithm of the weights"),
        (lambda x: (x == x.amax(-1, keepdim=True)).float(), "all the weight goes to the largest"),
        (lambda x: F.softmax(x, dim=1), "dim=1 is the last axis only of a tensor with two"),
        (lambda x: F.normalize(x.abs(), p=1, dim=-1), "negative scores are made positive, or 0"),
        (lambda x: torch.exp(x) / torch.sum(x, -1, True), "by the sum of the scores"),
        (lambda x: shifted(x) / torch.exp(x).sum(-1, True), "above the line but not below"),
        (lambda x: 2**x / torch.sum(2**x, -1, True), "another number than e"),
        (lambda x: F.normalize(torch.exp(x - x.min()), p=1, dim=-1), "not the largest score"),
        (lambda x: F.normalize(torch.exp(x - x.mean(-1, True)), p=1, dim=-1), "not the largest sc"),
        (lambda x: normalized(torch.exp(x.clamp(max=80))), "large scores are cut off"),
        (lambda x: shifted(x, lambda s: s.max(dim=-1, keepdim=True)), "returns two things"),
        (lambda x: normalized(shifted(x, lambda s: s.amax(-1))), "maximum has lost its axis"),
        (softmax_with_an_epsilon, "is hidden and not avoided"),
        (lambda x: torch.exp(x) / (torch.exp(x).sum(-1, True) + 1e-8), "exp overflows"),
        (lambda x: torch.nan_to_num(normalized(torch.exp(x))), "after they have come up"),
        (lambda x: normalized(torch.nan_to_num(torch.exp(x))), "after they have come up"),
    ],
)
def test_wrong_softmaxes_are_named(capsys, function, diagnosis):
    assert diagnosis in verdict(capsys, function, "my_softmax").report


def test_the_report_shows_the_row_that_does_not_sum_to_one(capsys):
    report = verdict(capsys, lambda s: torch.exp(s), "my_softmax").report
    assert "Your weights sum to 7.76; the sum must be 1." in report


# ------------------------------------------------------------------------------- distance_lookup


def distances_in_loops(q, ks, vs, temperature=1.0):
    scores = [-sum((a - b) ** 2 for a, b in zip(q, k, strict=True)) / temperature for k in ks]
    weights = softmax_in_loops(torch.stack(scores))
    return sum(w * v for w, v in zip(weights, vs, strict=True))


def distances_expanded(query, keys, values, temperature=1.0):
    # |q - k|^2 without |q|^2, which is the same for every key and cancels in the softmax
    scores = (2 * keys @ query - (keys * keys).sum(dim=1)) / temperature
    return torch.einsum("s,sd->d", F.softmax(scores, dim=0), values)


def distances_by_norm(query, keys, values, *, temperature=1.0):
    distance = torch.linalg.vector_norm(keys - query, dim=-1)
    return values.T @ torch.softmax(-(distance**2) / temperature, -1)


@pytest.mark.parametrize("function", [distances_in_loops, distances_expanded, distances_by_norm])
def test_right_distance_lookups_pass(capsys, function):
    assert verdict(capsys, function, "distance_lookup")


def lookup(score, after=lambda w, t: w, heat=lambda s, t: s / t, mix=lambda w, v: w @ v):
    def function(query, keys, values, temperature=1.0):
        weights = torch.softmax(heat(score(query, keys), temperature), dim=-1)
        return mix(after(weights, temperature), values)

    return function


def near(likeness, weigh=lambda powers, dim: powers / powers.sum(dim)):
    def function(query, keys, values, temperature=1.0):
        return weigh(likeness(query, keys), dim=-1) @ values

    return function


def squared(query, keys):
    return torch.linalg.vector_norm(keys - query, dim=-1) ** 2


def minus_squared(query, keys):
    return -squared(query, keys)


def distances_unstable(query, keys, values, temperature=1.0):
    powers = torch.exp(-((keys - query) ** 2).sum(dim=1) / temperature)
    return (powers / powers.sum()) @ values


@pytest.mark.parametrize(
    ("function", "diagnosis"),
    [
        (lookup(squared), "the minus sign is missing"),
        (lookup(lambda q, k: -torch.cdist(q[None], k)[0]), "the distance is not squared"),
        (lookup(minus_squared, heat=lambda s, t: s), "the temperature is not used"),
        (lookup(minus_squared, heat=lambda s, t: s * t), "are multiplied by the temperature"),
        (
            lookup(minus_squared, after=lambda w, t: w / t, heat=lambda s, t: s),
            "the weights and not the scores are divided",
        ),
        (lookup(lambda q, k: k @ q), "the scores are still dot products"),
        (lookup(lambda q, k: -((q - k) ** 2).mean(dim=1)), "averaged over the features"),
        (lookup(lambda q, k: -((q - k).sum(dim=1) ** 2)), "before they are squared"),
        (lookup(lambda q, k: -((q - k) ** 2).sum(dim=0)), "over the keys and not over"),
        (distances_unstable, "for every key that is far away"),
        (lookup(minus_squared, mix=lambda w, v: w), "the weights are returned"),
        (lambda q, k, v, temperature=1: v[torch.cdist(q[None], k).argmin()], "takes all"),
        (lambda q, k, v, temperature=1: minus_squared(q, k) / temperature @ v, "before any soft"),
        (lookup(lambda q, k: -squared(q, k) / 2), "the squares are halved"),
        (lookup(lambda q, k: -(((q - k) ** 2).sum(-1) ** 1 / 2)), "which is a half and no root"),
        (near(lambda q, k: 1 / (1 + squared(q, k))), "one over the distance, without exp"),
        (near(lambda q, k: 3 / (3 + squared(q, k))), None),
        (near(lambda q, k: 1 / (torch.cdist(q[None], k)[0] + 1e-8)), "one over the distance, with"),
        (near(lambda q, k: 1 / torch.cdist(q[None], k)[0]), "one over the distance, without exp"),
        (near(lambda q, k: 1 / squared(q, k), F.softmax), "the softmax is given one over"),
        (near(lambda q, k: 1 / (1 + squared(q, k)), F.softmax), "the softmax is given one over"),
        (lookup(minus_squared, mix=lambda w, v: w * v), "multiplied number by number"),
        (lookup(minus_squared, mix=lambda w, v: w[:, None] * v), "multiplied number by number"),
        (lookup(minus_squared, heat=lambda s, t: s / t**2), "squared with the differences"),
        (lookup(lambda q, k: -torch.cdist(q[None], k, p=1)[0]), "without their sign"),
        (lookup(lambda q, k: F.normalize(k, dim=-1) @ F.normalize(q, dim=0)), "are cosines"),
        (
            lambda q, k, v, temperature=1: torch.exp(minus_squared(q, k) / temperature) @ v,
            "not divided by their sum",
        ),
    ],
)
def test_wrong_distance_lookups_are_named(capsys, function, diagnosis):
    report = verdict(capsys, function, "distance_lookup").report
    assert ("That is what happens when" in report) == (diagnosis is not None)
    assert (diagnosis or "No mistake that this checker knows") in report


def test_a_lookup_without_temperature_is_told_its_signature(capsys):
    def distance_lookup(query, keys, values):
        return distances_expanded(query, keys, values)

    report = verdict(capsys, distance_lookup, "distance_lookup").report
    assert "case 5 of 7: a low temperature" in report
    assert "calls distance_lookup(query, keys, values, temperature=…)" in report


# ------------------------------------------------------------------------------------- my_attend


def attend_in_loops(q, k, v):
    if q.dim() > 2:
        return torch.stack([attend_in_loops(*three) for three in zip(q, k, v, strict=True)])
    rows = []
    for one in q:
        weights = softmax_in_loops(torch.stack([(one * key).sum() for key in k]))
        rows.append((weights[:, None] * v).sum(dim=0))
    return torch.stack(rows)


def attend_by_einsum(queries, keys, values):
    scores = torch.einsum("...td,...sd->...ts", queries.double(), keys.double())
    return torch.einsum("...ts,...sv->...tv", scores.softmax(-1), values.double())


def attend_transposed(queries, keys, values):
    weights = F.softmax(keys @ queries.mT, dim=-2)  # one column per query
    return (values.mT @ weights).mT


def attend_fused(queries, keys, values):
    return F.scaled_dot_product_attention(queries, keys, values, scale=1.0)


@pytest.mark.parametrize(
    "function", [attend_in_loops, attend_by_einsum, attend_transposed, attend_fused]
)
def test_right_attentions_pass(capsys, function):
    assert verdict(capsys, function, "my_attend")


@pytest.mark.filterwarnings("ignore:The use of `x.T`")
@pytest.mark.parametrize(
    ("function", "diagnosis"),
    [
        (lambda q, k, v: F.softmax(q @ k.mT, dim=-2) @ v, "each answer depends on who else asks"),
        (lambda q, k, v: F.softmax(q @ k.mT, dim=0) @ v, "runs down the first axis: over the quer"),
        (lambda q, k, v: F.softmax(q @ k.mT, dim=1) @ v, "the axes are counted from the front"),
        (lambda q, k, v: F.softmax(q @ k.mT, dim=2) @ v, "the axes are counted from the front"),
        (lambda q, k, v: F.softmax(q @ k.transpose(1, 2), -1) @ v, "axes are counted from the fro"),
        (lambda q, k, v: torch.stack([F.softmax(k @ x, 0) @ v for x in q]), "taken one by one"),
        (lambda q, k, v: F.normalize(q @ k.mT, p=1, dim=-1) @ v, None),
        (lambda q, k, v: normalized(q @ k.mT) @ v, "divided by their sum, without exp"),
        (lambda q, k, v: normalized(torch.exp(q @ k.mT) + 1) @ v, None),
        (lambda q, k, v: torch.einsum("td,sd->ts", q, k).softmax(-1) @ v, "of einsum has another"),
        (lambda q, k, v: F.softmax(q @ k.T, dim=-1) @ v, "takes all axes (.T)"),
        (lambda q, k, v: F.softmax(q @ k, dim=-1) @ v, "the keys are not transposed"),
        (lambda q, k, v: (q @ k.mT) @ v, "there is no softmax"),
        (
            lambda q, k, v: F.softmax(q @ k.mT / math.sqrt(k.shape[-1]), dim=-1) @ v,
            "that is right in chapter 2",
        ),
        (F.scaled_dot_product_attention, "that is right in chapter 2"),
        (lambda q, k, v: F.softmax(k @ q.mT, dim=-1) @ v, "have changed places"),
        (lambda q, k, v: F.softmax(q @ k.mT, dim=-1), "the weights are returned"),
        (lambda q, k, v: F.softmax(q @ k.mT, dim=-1) @ k, "the keys are mixed and not the values"),
        (lambda q, k, v: F.softmax(q @ k.mT @ v, dim=-1), "the softmax comes last"),
        (
            lambda q, k, v: (
                F.cosine_similarity(q[..., None, :], k[..., None, :, :], -1).softmax(-1) @ v
            ),
            "the scores are cosines",
        ),
        (lambda q, k, v: F.softmax(q @ k.mT, dim=-1).mT @ v, "turned on their side"),
        (lambda q, k, v: v @ F.softmax(q @ k.mT, dim=-1), "have changed places in the product"),
        (lambda q, k, v: F.softmax(q @ k.mT, dim=-1) * v, "multiplied number by number"),
    ],
)
def test_wrong_attentions_are_named(capsys, function, diagnosis):
    report = verdict(capsys, lambda q, k, v: function(q, k, v), "my_attend").report
    assert ("That is what happens when" in report) == (diagnosis is not None)
    assert (diagnosis or "This is the smallest input that fails") in report
