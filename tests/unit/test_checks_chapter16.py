"""Chapter 16's checkers: answers that real learners give, each diagnosed by name."""

import numpy as np
import pytest
import torch

from transformer_lib import checks
from transformer_lib.checks.chapter16 import check

pytestmark = pytest.mark.slow


def verdict(capsys, function, name):
    function.__name__ = name
    result = check(function)
    return result, " ".join(capsys.readouterr().out.split())


# -------------------------------------------------------------------------- alignment_error_rate


def rate_with_sets(weights, sure, possible, threshold):
    def links(where):
        return {tuple(link) for link in where.nonzero().tolist()}

    s, p = links(sure), links(possible)
    letters = {link[:2] for link in p}
    a = {link for link in links(weights >= threshold) if link[:2] in letters}
    return 1 - (len(a & s) + len(a & p)) / (len(a) + len(s))


def rate_in_loops(weights, sure, possible, threshold):
    hits = total = 0
    for w, s, p in zip(weights.tolist(), sure.tolist(), possible.tolist(), strict=True):
        for row, is_sure, may_be in zip(w, s, p, strict=True):
            if not any(may_be):
                continue
            for x, y, z in zip(row, is_sure, may_be, strict=True):
                linked = x >= threshold
                hits += linked * (y + z)
                total += linked + y
    return torch.tensor(1 - hits / total)


def rate_by_einsum(weights, sure, possible, threshold):
    a = torch.where(possible.any(2)[:, :, None], weights, -1.0).ge(threshold).double()
    s, p = sure.double(), possible.double()
    hits = torch.einsum("bts,bts->", a, s) + torch.einsum("bts,bts->", a, p)
    return (a.sum() + s.sum() - hits) / (a.sum() + s.sum())


@pytest.mark.parametrize("function", [rate_with_sets, rate_in_loops, rate_by_einsum])
def test_right_rates_pass(capsys, function):
    result, said = verdict(capsys, function, "alignment_error_rate")
    assert result, said


def counted(weights, sure, possible, threshold, keep=True):
    a = (weights >= threshold) & (possible.any(-1, keepdim=True) if keep else True)
    return (a & sure).sum(), (a & possible).sum(), a.sum(), sure.sum()


def every_row(*given):
    a_s, a_p, a, s = counted(*given, keep=False)
    return 1 - (a_s + a_p) / (a + s)


def above(weights, sure, possible, threshold):
    a_s, a_p, a, s = counted(weights, sure, possible, threshold + 1e-6)
    return 1 - (a_s + a_p) / (a + s)


def one_link_per_row(weights, sure, possible, threshold):
    a = torch.nn.functional.one_hot(weights.argmax(-1), weights.size(-1)).bool()
    a = a & possible.any(-1)[..., None]
    return 1 - ((a & sure).sum() + (a & possible).sum()) / (a.sum() + sure.sum())


def one_if_enough(weights, sure, possible, threshold):
    heavy, where = weights.max(-1)
    a = torch.nn.functional.one_hot(where, weights.size(-1)).bool()
    a = a & (heavy >= threshold)[..., None] & possible.any(-1)[..., None]
    return 1 - ((a & sure).sum() + (a & possible).sum()) / (a.sum() + sure.sum())


def accuracy(*given):
    a_s, a_p, a, s = counted(*given)
    return (a_s + a_p) / (a + s)


def precision(*given):
    _, a_p, a, _ = counted(*given)
    return 1 - a_p / a


def recall(*given):
    a_s, _, _, s = counted(*given)
    return 1 - a_s / s


def f_measure(*given):
    a_s, a_p, a, s = counted(*given)
    p, r = a_p / a, a_s / s
    return 1 - 2 * p * r / (p + r)


def sure_alone(*given):
    a_s, _, a, s = counted(*given)
    return 1 - 2 * a_s / (a + s)


def disjoint(*given):
    _, a_p, a, s = counted(*given)
    return 1 - a_p / (a + s)


def swapped(weights, sure, possible, threshold):
    a = (weights >= threshold) & possible.any(-1, keepdim=True)
    return 1 - ((a & sure).sum() + (a & possible).sum()) / (a.sum() + possible.sum())


def mean_of_texts(weights, sure, possible, threshold):
    rates = []
    for w, s, p in zip(weights, sure, possible, strict=True):
        a_s, a_p, a, n = counted(w, s, p, threshold)
        rates.append(1 - (a_s + a_p) / (a + n))
    return sum(rates) / len(rates)


def weighed(weights, sure, possible, threshold):
    w = weights * (weights >= threshold) * possible.any(-1, keepdim=True)
    return 1 - ((w * sure).sum() + (w * possible).sum()) / (w.sum() + sure.sum())


def percent(*given):
    a_s, a_p, a, s = counted(*given)
    return 100 - 100 * (a_s + a_p) / (a + s)


def only_sure_rows(weights, sure, possible, threshold):
    a = (weights >= threshold) & sure.any(-1, keepdim=True)
    return 1 - ((a & sure).sum() + (a & possible).sum()) / (a.sum() + sure.sum())


def below(weights, sure, possible, threshold):
    a = (weights < threshold) & possible.any(-1, keepdim=True)
    return 1 - ((a & sure).sum() + (a & possible).sum()) / (a.sum() + sure.sum())


def rate_by(formula, share=1.0):
    """The solution of the page, with another last line."""

    def alignment_error_rate(weights, sure, possible, threshold):
        least = threshold * weights.amax(dim=-1, keepdim=True) if share == "row" else threshold
        links = (weights >= least) & possible.any(dim=-1, keepdim=True)
        return formula(links, sure, possible)

    return alignment_error_rate


no_brackets_below = rate_by(
    lambda links, s, p: 1 - ((links & s).sum() + (links & p).sum()) / links.sum() + s.sum()
)
no_brackets_above = rate_by(
    lambda links, s, p: 1 - (links & s).sum() + (links & p).sum() / (links.sum() + s.sum())
)
either = rate_by(
    lambda links, s, p: 1 - ((links | s).sum() + (links | p).sum()) / (links.sum() + s.sum())
)
once_below = rate_by(
    lambda links, s, p: 1 - ((links & s).sum() + (links & p).sum()) / (links | s).sum()
)
share_of_the_largest = rate_by(
    lambda links, s, p: 1 - ((links & s).sum() + (links & p).sum()) / (links.sum() + s.sum()),
    share="row",
)
text_by_text = rate_by(
    lambda links, s, p: (
        1
        - ((links & s).sum((1, 2)) + (links & p).sum((1, 2))) / (links.sum((1, 2)) + s.sum((1, 2)))
    )
)


@pytest.mark.parametrize(
    ("function", "says"),
    [
        (every_row, "rows that are no letters are counted"),
        (no_brackets_below, "brackets are missing"),
        (no_brackets_above, "brackets are missing"),
        (either, "`|` stands where `&` is meant"),
        (once_below, "counts once below the line"),
        (share_of_the_largest, "a share of the row's largest weight"),
        (text_by_text, "each text gets a rate of its own"),
        (above, "a weight of exactly the threshold is left out"),
        (one_link_per_row, "the darkest cell of each row is the link"),
        (one_if_enough, "only the darkest cell of a row can be a link"),
        (accuracy, "1 minus is missing"),
        (precision, "only the links of the map are looked at"),
        (recall, "only the sure links are looked at"),
        (f_measure, "the two shares"),
        (sure_alone, "possible links are not counted"),
        (disjoint, "a sure link counts once only"),
        (swapped, "the divisor holds the possible links"),
        (mean_of_texts, "each text has its own rate"),
        (weighed, "the weights themselves are added up"),
        (percent, "the rate is in percent"),
        (only_sure_rows, "rows without a sure link are left out"),
        (below, "the links are those below the threshold"),
    ],
)
def test_wrong_rates_are_named(capsys, function, says):
    result, said = verdict(capsys, function, "alignment_error_rate")
    assert not result
    assert says in said


# ----------------------------------------------------------------------------------------- prune


def prune_with_scores(loss, heads, budget):
    removed, remaining = [], list(heads)
    while remaining:
        scores = [loss([*removed, head]) for head in remaining]
        where = int(np.argmin(scores))
        if scores[where] > budget:
            return removed
        removed.append(remaining.pop(where))
    return removed


def prune_recursively(loss, heads, budget, gone=()):
    left = [head for head in heads if head not in gone]
    tried = sorted((loss([*gone, head]), i) for i, head in enumerate(left))
    if not tried or tried[0][0] > budget:
        return list(gone)
    return prune_recursively(loss, heads, budget, (*gone, left[tried[0][1]]))


@pytest.mark.parametrize("function", [prune_with_scores, prune_recursively])
def test_right_prunings_pass(capsys, function):
    result, said = verdict(capsys, function, "prune")
    assert result, said


def sorted_once(loss, heads, budget):
    gone = []
    for head in sorted(heads, key=lambda head: loss([head])):
        if loss([*gone, head]) > budget:
            break
        gone.append(head)
    return gone


def added_up(loss, heads, budget):
    gone, total = [], loss([])
    while len(gone) < len(heads):
        left = [head for head in heads if head not in gone]
        best = min(left, key=lambda head: loss([*gone, head]))
        total += loss([best]) - loss([])
        if total > budget:
            break
        gone.append(best)
    return gone


def too_far(loss, heads, budget):
    gone = []
    while loss(gone) <= budget and len(gone) < len(heads):
        left = [head for head in heads if head not in gone]
        gone.append(min(left, key=lambda head: loss([*gone, head])))
    return gone


def noticed_too_late(loss, heads, budget):
    gone = []
    for _ in heads:
        left = [head for head in heads if head not in gone]
        gone.append(min(left, key=lambda head: loss([*gone, head])))
        if loss(gone) > budget:
            break
    return gone


def strictly(loss, heads, budget):
    return prune_with_scores(loss, heads, budget - 1e-6)


def as_increase(loss, heads, budget):
    return prune_with_scores(loss, heads, loss([]) + budget)


def dearest(loss, heads, budget):
    gone = []
    while len(gone) < len(heads):
        left = [head for head in heads if head not in gone]
        worst = max(left, key=lambda head: loss([*gone, head]))
        if loss([*gone, worst]) > budget:
            break
        gone.append(worst)
    return gone


def those_that_stay(loss, heads, budget):
    gone = prune_with_scores(loss, heads, budget)
    return [head for head in heads if head not in gone]


def in_the_lists_order(loss, heads, budget):
    return sorted(prune_with_scores(loss, heads, budget), key=heads.index)


def last_of_equals(loss, heads, budget):
    return prune_with_scores(loss, heads[::-1], budget)


def everything(loss, heads, budget):
    return prune_with_scores(loss, heads, 1e9)


def first_fit(loss, heads, budget):
    gone = []
    for head in heads:
        if loss([*gone, head]) <= budget:
            gone.append(head)
    return gone


def all_that_are_cheap(loss, heads, budget):
    return [head for head in heads if loss([head]) <= budget]


def how_many(loss, heads, budget):
    return len(prune_with_scores(loss, heads, budget))


def last_put_back(loss, heads, budget):
    gone = prune_with_scores(loss, heads, 1e9)
    while loss(gone) > budget and gone:
        del gone[-1]
    return gone


def given_up(loss, heads, budget):
    if loss([]) > budget:
        return []
    return prune_with_scores(loss, heads, budget)


def test_what_a_pruning_was_tried_on_can_be_made_again(capsys):
    _, said = verdict(capsys, lambda loss, heads, budget: ["x"], "prune")
    assert "loss = transformer_lib.checks.chapter16.Priced(10, {'a': 5, 'b': 1})" in said
    assert checks.chapter16.Priced(10, {"a": 5, "b": 1})(["a"]) == 15


def put_back(loss, heads, budget):
    gone = list(heads)
    while gone and loss(gone) > budget:
        scores = [loss(gone[:i] + gone[i + 1 :]) for i in range(len(gone))]
        gone.pop(int(np.argmin(scores)))
    return gone


def gone_again(loss, heads, budget):
    gone = []
    while len(gone) < len(heads):
        cheapest = min(heads, key=lambda h: loss([*gone, h]))
        if loss([*gone, cheapest]) > budget:
            break
        gone.append(cheapest)
    return gone


def first_by_name(loss, heads, budget):
    gone, left = [], set(heads)
    while left:
        best = min(sorted(left), key=lambda h: loss([*gone, h]))
        if loss([*gone, best]) > budget:
            break
        gone.append(best)
        left.remove(best)
    return gone


def asks_for_the_rest(loss, heads, budget):
    gone = []
    while len(gone) < len(heads):
        left = [h for h in heads if h not in gone]
        best = min(left, key=lambda h: loss([x for x in left if x != h]))
        if loss([x for x in left if x != best]) > budget:
            break
        gone.append(best)
    return gone


@pytest.mark.parametrize(
    ("function", "says"),
    [
        (sorted_once, "the prices of the single heads decide"),
        (added_up, "the single losses are added up"),
        (too_far, "the head that brings the loss above the budget is removed"),
        (noticed_too_late, "the head that brings the loss above the budget is removed"),
        (strictly, "exactly the budget is refused"),
        (gone_again, "heads that are gone compete again"),
        (first_by_name, "the first one by name goes"),
        (asks_for_the_rest, "`loss` is asked about the heads that stay"),
        (as_increase, "the budget is taken for an increase"),
        (dearest, "the dearest head goes first"),
        (those_that_stay, "the list holds the heads that stay"),
        (in_the_lists_order, "the heads are not in the order of their removal"),
        (last_of_equals, "of equally good heads the last one goes"),
        (everything, "the budget never ends it"),
        (first_fit, "heads are tried once, in the order of the list"),
        (all_that_are_cheap, "every head is tried by itself"),
        (how_many, "a number is returned"),
        (put_back, "it begins with no head at all"),
        (last_put_back, "the last ones put back"),
        (given_up, "from the start"),
    ],
)
def test_wrong_prunings_are_named(capsys, function, says):
    result, said = verdict(capsys, function, "prune")
    assert not result
    assert says in said


# --------------------------------------------------------------------------------- contributions


def lengths_in_loops(weights, values, out_weight):
    b, h, t, s = weights.shape
    d_k, found = values.size(-1), weights.new_zeros(b, t, s)
    for i in range(b):
        for row in range(t):
            for piece in range(s):
                vector = 0
                for head in range(h):
                    part = out_weight[:, head * d_k : (head + 1) * d_k]
                    vector = vector + weights[i, head, row, piece] * part @ values[i, head, piece]
                found[i, row, piece] = vector.square().sum().sqrt()
    return found


def lengths_side_by_side(weights, values, out_weight):
    scaled = weights[..., None] * values[:, :, None]  # (B, H, T, S, d_k)
    joined = scaled.permute(0, 2, 3, 1, 4).flatten(-2)  # (B, T, S, H * d_k)
    return torch.nn.functional.linear(joined, out_weight).norm(dim=-1)


@pytest.mark.parametrize("function", [lengths_in_loops, lengths_side_by_side])
def test_right_lengths_pass(capsys, function):
    result, said = verdict(capsys, function, "contributions")
    assert result, said


def scaled(weights, values):
    return (weights[..., None] * values[:, :, None]).permute(0, 2, 3, 1, 4)  # (B, T, S, H, d_k)


def head_by_head(weights, values, out_weight):
    d_k = values.size(-1)
    total = 0
    for head in range(weights.size(1)):
        turned = values[:, head] @ out_weight[:, head * d_k : (head + 1) * d_k].T
        total = total + weights[:, head] * turned.norm(dim=-1)[:, None]
    return total


def unprojected(weights, values, out_weight):
    return scaled(weights, values).flatten(-2).norm(dim=-1)


def unweighted(weights, values, out_weight):
    return lengths_side_by_side(torch.ones_like(weights), values, out_weight)


def averaged_first(weights, values, out_weight):
    return weights.mean(1) * unweighted(weights, values, out_weight)


def untransposed(weights, values, out_weight):
    return (scaled(weights, values).flatten(-2) @ out_weight).norm(dim=-1)


def heads_interleaved(weights, values, out_weight):
    joined = scaled(weights, values).transpose(-1, -2).flatten(-2)
    return (joined @ out_weight.T).norm(dim=-1)


def squared(weights, values, out_weight):
    return lengths_side_by_side(weights, values, out_weight).square()


def in_ones(weights, values, out_weight):
    return (scaled(weights, values).flatten(-2) @ out_weight.T).abs().sum(-1)


def shares(weights, values, out_weight):
    return torch.nn.functional.normalize(
        lengths_side_by_side(weights, values, out_weight), p=1, dim=-1
    )


def by_mean(weights, values, out_weight):
    return lengths_side_by_side(weights, values, out_weight) / weights.size(1)


def of_the_output(weights, values, out_weight):
    joined = (weights @ values).transpose(1, 2).flatten(2)
    return (joined @ out_weight.T).norm(dim=-1)


def joined_as_they_lie(weights, values, out_weight):
    b, _, t, s = weights.shape
    parts = weights.unsqueeze(-1) * values.unsqueeze(2)  # (B, H, T, S, d_head)
    return torch.linalg.vector_norm(parts.reshape(b, t, s, -1) @ out_weight.T, dim=-1)


@pytest.mark.parametrize(
    ("function", "says"),
    [
        (head_by_head, "the length is taken in each head"),
        (unprojected, "the output matrix is left out"),
        (unweighted, "the weights are left out"),
        (averaged_first, "the weights are averaged over the heads before"),
        (untransposed, "the output matrix is not transposed"),
        (heads_interleaved, "the columns of the heads are interleaved"),
        (squared, "the square root is missing"),
        (joined_as_they_lie, "`reshape` joins the heads while their axis is the second"),
        (in_ones, "the length is the sum of the numbers' sizes"),
        (shares, "each row is divided by its sum"),
        (by_mean, "the heads are averaged"),
        (of_the_output, "the pieces are added up too"),
    ],
)
def test_wrong_lengths_are_named(capsys, function, says):
    result, said = verdict(capsys, function, "contributions")
    assert not result
    assert says in said
