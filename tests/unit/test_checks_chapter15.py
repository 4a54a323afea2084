"""Chapter 15's checker: answers that real learners give, each diagnosed by name."""

from itertools import combinations, product
from statistics import mean

import numpy as np
import pytest
import torch

from transformer_lib.checks.chapter15 import check

pytestmark = pytest.mark.slow


def verdict(capsys, function):
    function.__name__ = "share_of_flips"
    result = check(function)
    capsys.readouterr()
    return result


def by_product(differences):
    actual, found = mean(differences), []
    for signs in product((1, -1), repeat=len(differences)):
        found.append(mean(s * d for s, d in zip(signs, differences, strict=True)) >= actual)
    return sum(found) / len(found)


def by_bits(differences):
    n, count = len(differences), 0
    for number in range(2**n):
        total = 0.0
        for i, difference in enumerate(differences):
            total += -difference if number >> i & 1 else difference
        count += total >= sum(differences)
    return count / 2**n


def by_subsets(differences):
    # flipping a set takes twice its sum away: at least as large when that sum is not positive
    n, count = len(differences), 0
    for size in range(n + 1):
        count += sum(sum(flipped) <= 0 for flipped in combinations(differences, size))
    return count / 2**n


def by_leaving_out(differences):
    # what is left is as large as all of it when what was left out is not positive: as with flips
    ways = list(product((0, 1), repeat=len(differences)))
    sums = [sum(s * d for s, d in zip(way, differences, strict=True)) for way in ways]
    return sum(one >= sum(differences) for one in sums) / len(ways)


def by_numpy(differences):
    signs = np.array(list(product((1, -1), repeat=len(differences))))
    sums = signs @ np.array(differences)
    return (sums >= np.sum(differences)).mean()


def by_torch(differences):
    signs = torch.cartesian_prod(*[torch.tensor([1.0, -1.0])] * len(differences))
    sums = signs.view(-1, len(differences)) @ torch.tensor(differences)
    return (sums >= sum(differences)).double().mean().item()


def by_splitting(differences):
    def sums(rest):
        return [0.0] if not rest else [s + x for x in sums(rest[1:]) for s in (rest[0], -rest[0])]

    found = sums(list(differences))
    return sum(one >= sum(differences) for one in found) / len(found)


@pytest.mark.parametrize(
    "function", [by_product, by_bits, by_subsets, by_leaving_out, by_numpy, by_torch, by_splitting]
)
def test_a_right_share_passes(capsys, function):
    assert verdict(capsys, function)


def all_means(differences, signs=(1, -1)):
    ways = product(signs, repeat=len(differences))
    return [mean(s * d for s, d in zip(way, differences, strict=True)) for way in ways]


def larger_only(differences):
    found = all_means(differences)
    return sum(one > mean(differences) for one in found) / len(found)


def without_the_actual_ones(differences):
    found = all_means(differences)
    return (sum(one >= mean(differences) for one in found) - 1) / (len(found) - 1)


def with_one_more(differences):
    found = all_means(differences)
    return (1 + sum(one >= mean(differences) for one in found)) / (1 + len(found))


def two_sided(differences):
    found = all_means(differences)
    return sum(abs(one) >= abs(mean(differences)) for one in found) / len(found)


def from_the_other_side(differences):
    return by_product([-difference for difference in differences])


def one_at_a_time(differences):
    found = [sum(differences) - 2 * difference for difference in [0, *differences]]
    return sum(one >= sum(differences) for one in found) / len(found)


def all_or_none(differences):
    return 1.0 if sum(differences) <= 0 else 0.5


def with_zero(differences):
    found = all_means(differences, (-1, 0, 1))
    return sum(one >= mean(differences) for one in found) / len(found)


def of_signs(differences):
    ahead = sum(difference > 0 for difference in differences)
    ways = product((1, -1), repeat=len(differences))
    found = [sum(s * d > 0 for s, d in zip(way, differences, strict=True)) for way in ways]
    return sum(one >= ahead for one in found) / len(found)


def a_count(differences):
    return sum(one >= mean(differences) for one in all_means(differences))


def one_at_a_time_alone(differences):
    found = [sum(differences) - 2 * difference for difference in differences]
    return sum(one >= sum(differences) for one in found) / len(found)


def with_itself(differences):
    found = []
    for signs in product((1, -1), repeat=len(differences)):
        flipped = [s * d for s, d in zip(signs, differences, strict=True)]
        found.append(sum(flipped) >= sum(flipped))
    return sum(found) / len(found)


def mean_and_sum(differences):
    found = all_means(differences)
    return sum(one >= sum(differences) for one in found) / len(found)


def with_nothing(differences):
    found = all_means(differences)
    return sum(one >= 0 for one in found) / len(found)


def by_the_number_of_pairs(differences):
    return sum(one >= mean(differences) for one in all_means(differences)) / len(differences)


def without_fraction(differences):
    found = all_means(differences)
    return sum(one >= mean(differences) for one in found) // len(found)


def percent(differences):
    return 100 * by_product(differences)


def the_rest(differences):
    return 1 - by_product(differences)


@pytest.mark.parametrize(
    "function, diagnosis",
    [
        (larger_only, "only larger differences"),
        (without_the_actual_ones, "left out of the ways"),
        (with_one_more, "counted once more"),
        (two_sided, "the sign of the mean is dropped"),
        (from_the_other_side, "smaller means are counted"),
        (one_at_a_time, "one sign is flipped at a time"),
        (one_at_a_time_alone, "one sign is flipped at a time"),
        (without_fraction, "drops the fraction"),
        (with_itself, "a mean is compared with itself"),
        (mean_and_sum, "a mean is compared with a sum"),
        (with_nothing, "compared with 0"),
        (by_the_number_of_pairs, "divided by that of the differences"),
        (all_or_none, "all signs are flipped together"),
        (with_zero, "may also become 0"),
        (of_signs, "only the number of pairs ahead"),
        (a_count, "not divided by their number"),
        (percent, "in percent"),
        (the_rest, "smaller means are counted"),
    ],
)
def test_a_mistake_is_named(capsys, function, diagnosis):
    result = verdict(capsys, function)
    assert not result
    assert "That is what happens when" in result.report
    assert diagnosis in " ".join(result.report.split())


def test_another_rule_fails_without_a_guess(capsys):
    result = verdict(capsys, lambda differences: 0.25)
    assert not result
    assert "That is what happens" not in result.report
